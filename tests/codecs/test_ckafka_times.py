"""Times in CKafka's messages: TIME of rows, `es` and `ts` of DDL."""

from __future__ import annotations

import json

import pytest
from ckafka_support import CKAFKA, NOON, ROW, change, ddl, losses, records, row
from support import CANAL, events, record, row_message, translate, translated_records

from relay import ConfigError, Malformed, NotRepresentable, Op, SchemaChange, Translator
from relay.codecs.canal.ckafka.messages import event_time_reader
from relay.codecs.losses import Loss
from relay.model.events import Snapshot


@pytest.mark.parametrize(
    ("text", "offset", "seconds"),
    [
        ("20160611015029", "+08:00", 1465581029),
        ("20160610175029", "+00:00", 1465581029),
        ("20160610122029", "-05:30", 1465581029),
        ("19700101080000", "+00:00", 28800),
    ],
)
def test_time_is_a_wall_clock_of_utc_8_by_default(text: str, offset: str, seconds: int) -> None:
    options = {"event-time-offset": offset}
    message = row(ROW, TIME=text)
    assert change(message, options=options).source.event_time_ns == seconds * 1_000_000_000
    assert translate(CKAFKA, CKAFKA, records(message), options, options) == [message]


@pytest.mark.parametrize(("text", "offset"), [("19700101080000", "+08:00"), ("19700101000000", "+00:00")])
def test_time_zero_is_unknown_and_marks_a_row_of_a_snapshot(text: str, offset: str) -> None:
    options = {"event-time-offset": offset}
    found = change(row(ROW, TIME=text), options=options)
    assert (found.op, found.source.snapshot) == (Op.READ, Snapshot.TRUE)
    assert found.source.event_time_ns == 1465532000123_000_000
    update = change(row(ROW, ROW, "U", TIME=text), options=options)
    assert (update.op, update.source.snapshot) == (Op.UPDATE, Snapshot.TRUE)
    assert (
        translate(CKAFKA, CKAFKA, records(row(ROW, ROW, "U", TIME=text)), options, options)[0]["TIME"] == text
    )


def test_a_row_without_a_time_has_that_of_its_record_and_is_no_snapshot() -> None:
    found = change(row(ROW, TIME=None))
    assert (found.op, found.source.event_time_ns) == (Op.INSERT, 1465532000123_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "", "2016061001502", "201606100150299", "2016061001502x", "20161310015029", "20160230000000", "20160610250000",
        "00000101000000", "42000101000000", "２０１６０６１００１５０２９",
    ],
)  # fmt: skip
def test_what_is_no_time_is_malformed(text: str) -> None:
    with pytest.raises(Malformed) as raised:
        change(row(ROW, TIME=text))
    assert raised.value.path == "TIME"


def test_a_fraction_of_a_second_is_lost_and_counted() -> None:
    insert = row_message({"id": "int"}, {"id": "1"}, es=NOON * 1000 + 999)
    (out,) = translate(CANAL, CKAFKA, [record(insert)])
    assert out["TIME"] == "20160610120000"
    assert losses(CANAL, CKAFKA, insert)["event-time-precision"] == 1
    assert "event-time-precision" not in losses(CANAL, CKAFKA, insert | {"es": NOON * 1000})


def test_a_time_before_the_calendar_cannot_be_written() -> None:
    with pytest.raises(NotRepresentable, match="TIME"):
        event_time_reader(1_000, 0)(-(1 << 46))


@pytest.mark.parametrize(
    ("es", "milliseconds"),
    [
        (1655812326, 1655812326000),
        (1656300979748, 1656300979748),
        (70368744176, 70368744176000),
        (10**11, 10**11),
    ],
)
def test_the_size_of_es_tells_seconds_from_milliseconds(es: int, milliseconds: int) -> None:
    (event,) = events(CKAFKA, records(ddl("DROP TABLE t", "ERASE", es=es)))
    assert isinstance(event, SchemaChange)
    assert event.source.event_time_ns == milliseconds * 1_000_000


def test_seconds_too_large_for_a_commit_ts_are_malformed() -> None:
    with pytest.raises(Malformed) as raised:
        events(CKAFKA, records(ddl("DROP TABLE t", "ERASE", es=99_999_999_999)))
    assert raised.value.path == "es"


def test_the_unit_of_ddl_times_is_an_option() -> None:
    message = ddl("DROP TABLE t", "ERASE")
    assert translate(CKAFKA, CKAFKA, records(message)) == [message]
    (out,) = translate(CKAFKA, CKAFKA, records(message), None, {"ddl-time-unit": "ms"})
    assert (out["es"], out["ts"]) == (1465531100000, 1465531100000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("event-time-offset", "Asia/Shanghai"),
        ("event-time-offset", "+8"),
        ("value-style", "canal"),
        ("ddl-time-unit", "us"),
    ],
)
def test_options_that_do_not_fit_are_configuration_errors(name: str, value: str) -> None:
    sides = (
        (CANAL, CKAFKA, None, {name: value})
        if name == "ddl-time-unit"
        else (CKAFKA, CANAL, {name: value}, None)
    )
    with pytest.raises(ConfigError, match=f"{name}: '.*' does not fit"):
        Translator(*sides)


@pytest.mark.parametrize(
    ("text", "zone", "count"),
    [
        ("2024-01-01 12:00:00", "Asia/Shanghai", 1),
        ("2024-01-01 12:00:00.5", "+08:00", 1),
        # The zone says nothing about these, or changes nothing.
        ("2024-01-01 12:00:00", "UTC", 0),
        ("2024-01-01", "Asia/Shanghai", 0),
        ("on 2024-01-01 12:00:00", "Asia/Shanghai", 0),
    ],
)
def test_a_time_without_a_type_may_be_of_any_zone(text: str, zone: str, count: int) -> None:
    """TIMESTAMP or DATETIME, only the DDL tells: until then `timezone` cannot be applied, and that is counted."""
    translator = Translator("ckafka-json", "canal-json", {"timezone": zone})
    translated_records(translator, records(row({"id": "1", "at": text})))
    assert translator.losses[Loss.VALUE_INFERRED] == count


def test_a_time_without_a_type_is_refused_by_strict() -> None:
    strict = Translator(CKAFKA, CANAL, {"timezone": "Asia/Shanghai"}, {"strict": "true"})
    with pytest.raises(NotRepresentable, match="value-inferred"):
        translated_records(strict, records(row({"id": "1", "at": "2024-01-01 12:00:00"})))


def test_a_time_with_a_type_is_of_the_zone() -> None:
    translator = Translator("ckafka-json", "canal-json", {"timezone": "Asia/Shanghai"})
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, day DATETIME)")
    cells = {"id": "1", "at": "2024-01-01 12:00:00", "day": "2024-01-01 12:00:00"}
    *_, out = translated_records(translator, records(create, row(cells)))
    (found,) = json.loads(out.value or b"")["data"]
    assert (found["at"], found["day"]) == ("2024-01-01 04:00:00", "2024-01-01 12:00:00")
    assert Loss.VALUE_INFERRED not in translator.losses
