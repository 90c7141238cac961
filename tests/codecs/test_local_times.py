"""TIMESTAMP text that the zone of its source does not have, or has twice, is counted when it is read."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support import CANAL, OPEN, TICDC, record, row_message, translated_records

from relay import ConsumerRecord, Loss, NotRepresentable, Translator
from relay.codecs.losses import INFORMATIONAL
from relay.mysql.temporal import count_instants

BERLIN = {"timezone": "Europe/Berlin"}
USUAL, LEFT_OUT, TWICE = "2026-03-29 04:30:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00"
FIRST, ZERO, NO_DAY = "0001-01-01 00:00:00", "0000-00-00 00:00:00", "2026-02-30 02:30:00"
TYPES = {"a": "timestamp", "b": "timestamp", "c": "datetime"}
CKAFKA = "ckafka-json"
SOURCES = [CANAL, TICDC, OPEN, CKAFKA]


def row(a: str | None, b: str | None, old: dict[str, Any] | None = None) -> dict[str, Any]:
    cells = {"a": a, "b": b, "c": TWICE}
    if old is None:
        return row_message(TYPES, cells)
    return row_message(TYPES, cells, op="UPDATE", old=[old])


def records_of(source: str, *messages: dict[str, Any]) -> list[ConsumerRecord]:
    """The table's DDL and these messages of Canal, in another protocol, with the same texts."""
    sql = "CREATE TABLE d.t (a TIMESTAMP, b TIMESTAMP, c DATETIME)"
    create = row_message({}, isDdl=True, type="CREATE", sql=sql, data=None)
    given = [record(message, at) for at, message in enumerate([create, *messages])]
    if source == CANAL:
        return given
    outs = translated_records(Translator(CANAL, source), given)
    return [ConsumerRecord("t", 0, at, 0, out.key, out.value) for at, out in enumerate(outs)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("knows_ddl", [True, False])
def test_each_value_is_counted(source: str, knows_ddl: bool) -> None:
    rows = [
        row(USUAL, LEFT_OUT),
        row(LEFT_OUT, FIRST),
        row(TWICE, USUAL),
        row(ZERO, None),
        row(NO_DAY, USUAL),
    ]
    create, *given = records_of(source, *rows, row(USUAL, USUAL, {"a": LEFT_OUT, "b": TWICE}))
    translator = Translator(source, CANAL, BERLIN)
    if knows_ddl or source == CKAFKA:  # without DDL, a time of CKafka has no type
        translator.translate(create)
    counts = []
    for one in given:
        before = translator.losses
        translator.translate(one)
        lost = translator.losses - before
        counts.append((lost[Loss.ZERO_DATE], lost[Loss.REPEATED_HOUR]))
    assert counts == [(1, 0), (2, 0), (0, 1), (0, 0), (0, 0), (1, 1)]


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_counted_of_a_source_in_utc(source: str) -> None:
    translator = Translator(source, CANAL)
    translated_records(translator, records_of(source, row(LEFT_OUT, FIRST), row(TWICE, TWICE)))
    assert not {Loss.ZERO_DATE, Loss.REPEATED_HOUR} & translator.losses.keys()


@pytest.mark.parametrize("source", SOURCES)
def test_strict_refuses_what_the_zone_does_not_have(source: str) -> None:
    create, first, second, third = records_of(
        source, row(USUAL, TWICE), row(USUAL, LEFT_OUT), row(FIRST, None)
    )
    options = {"strict": "true", "enable-tidb-extension": "true", "content-compatible": "true"}
    translator = Translator(source, TICDC, BERLIN, options)
    translator.learn(create)
    losses = Translator(source, TICDC, BERLIN, options | {"strict": "false"})
    losses.learn(create)
    losses.translate(first)
    assert losses.losses[Loss.REPEATED_HOUR] == 1
    assert Loss.REPEATED_HOUR in INFORMATIONAL
    for one in (second, third):
        with pytest.raises(NotRepresentable, match="zero-date"):
            translator.translate(one)


def test_an_offset_tells_the_moment() -> None:
    first, second = f"{LEFT_OUT}+01:00", f"{TWICE}+01:00"
    translator = Translator(CANAL, TICDC, BERLIN)
    (out,) = translated_records(translator, [record(row(first, second))])
    assert {Loss.ZERO_DATE, Loss.REPEATED_HOUR}.isdisjoint(translator.losses)
    assert b"2026-03-29 01:30:00" in (out.value or b"")


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("Europe/Berlin", "2026-03-29 01:59:59.999999", 1),
        ("Europe/Berlin", "2026-03-29 02:00:00", 0),
        ("Europe/Berlin", "2026-03-29 02:59:59.9", 0),
        ("Europe/Berlin", "2026-03-29 03:00:00", 1),
        ("Europe/Berlin", "2026-10-25 01:59:59", 1),
        ("Europe/Berlin", "2026-10-25 02:00:00", 2),
        ("Europe/Berlin", "2026-10-25 02:59:59.5", 2),
        ("Europe/Berlin", "2026-10-25 03:00:00", 1),
        ("Australia/Lord_Howe", "2026-10-04 02:15:00", 0),
        ("Australia/Lord_Howe", "2026-10-04 02:30:00", 1),
        ("Australia/Lord_Howe", "2026-04-05 01:30:00", 2),
        ("Australia/Lord_Howe", "2026-04-05 01:29:59", 1),
        ("Pacific/Apia", "2011-12-30 12:00:00", 0),  # a day that Samoa left out
        ("Pacific/Apia", "2011-12-31 00:00:00", 1),
        ("America/New_York", "9999-12-31 19:00:00", 0),
        ("America/New_York", "9999-12-31 18:59:59", 1),
        ("Asia/Shanghai", "0001-01-01 07:59:59", 0),
        ("UTC", FIRST, 1),
        ("Europe/Berlin", ZERO, 1),
        ("Europe/Berlin", NO_DAY, 1),
        ("Europe/Berlin", "2026-03-29T02:30:00Z", 1),
        ("Europe/Berlin", "no time", 1),
    ],
)
def test_moments_of_a_local_time(zone: str, text: str, expected: int) -> None:
    assert count_instants(ZoneInfo(zone), text) == expected
