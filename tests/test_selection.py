"""Which events are translated: two translators whose bounds meet give each event once, and know the same
tables.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ckafka_support import CKAFKA, ddl, row
from debezium_support import DEBEZIUM
from support import CANAL, OPEN, TICDC, captured, record, row_message, translated_records

from relay import ConsumerRecord, Loss, Translator
from relay.core.selection import Selection
from relay.model.events import Event, Watermark

#: Every event becomes messages of its own here, rows and DDL and watermarks.
_TARGET = {"enable-tidb-extension": "true", "output-raw-change-event": "true"}


def _ckafka_records() -> list[ConsumerRecord]:
    statement = ddl("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    rows = [row(new={"id": str(number), "v": "x"}, TIME=f"201606101200{number:02}") for number in range(9)]
    return [
        record(message, offset=at, timestamp_ms=1465532000123)
        for at, message in enumerate([statement, *rows])
    ]


def _records(files: str) -> list[ConsumerRecord]:
    return captured(files) if files else _ckafka_records()


_SOURCES = [
    pytest.param(TICDC, "ticdc/canal-json.tidb-extension/09_dml", id="canal-json-with-extension"),
    pytest.param(TICDC, "ticdc/canal-json.tidb-extension/10_ddl", id="canal-json-ddl"),
    pytest.param(TICDC, "ticdc/canal-json/09_dml", id="canal-json-without-commit-ts"),
    pytest.param(TICDC, "ticdc/canal-json.3-partitions/09_dml", id="canal-json-of-3-partitions"),
    pytest.param(CANAL, "mysql/canal-json/10_ddl", id="canal"),
    pytest.param(CKAFKA, "", id="ckafka"),
    pytest.param(OPEN, "ticdc/open-protocol/09_dml", id="open-protocol"),
    pytest.param(OPEN, "ticdc/open-protocol.batch/09_dml", id="open-protocol-batches"),
    pytest.param(DEBEZIUM, "ticdc/debezium.tidb-extension/13_tidb_only.tidb", id="debezium"),
]


def _commit_ts(event: Event) -> int:
    found = event.source.commit_ts
    return event.source.event_time_ns // 1_000_000 << 18 if found is None else found


def _moments(source: str, records: list[ConsumerRecord]) -> list[int]:
    """The commit ts of all events, each once."""
    reader = Translator(source, TICDC)
    return sorted({_commit_ts(event) for one in records for event in reader.inspect(one)})


def _values(translator: Translator, one: ConsumerRecord) -> list[bytes | None]:
    return [out.value for out in translator.translate(one)]


@pytest.mark.parametrize(("source", "files"), _SOURCES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_bounds_that_meet_give_each_event_once(source: str, files: str, share: float) -> None:
    records = _records(files)
    moments = _moments(source, records)
    assert len(moments) > 2
    bound = moments[int(share * (len(moments) - 1))]
    whole = Translator(source, TICDC, None, _TARGET)
    older = Translator(source, TICDC, None, _TARGET, selection=Selection(before_commit_ts=bound))
    newer = Translator(source, TICDC, None, _TARGET, selection=Selection(bound))
    for one in records:
        assert Counter(_values(older, one) + _values(newer, one)) == Counter(_values(whole, one))
    assert older.events + newer.events == whole.events
    assert newer.events.total() > 0
    assert (older.events.total() > 0) == (bound > moments[0])


@pytest.mark.parametrize(("source", "files"), _SOURCES)
def test_what_is_left_out_still_teaches_the_catalog(source: str, files: str) -> None:
    records = _records(files)
    end = _moments(source, records)[-1] + 1
    whole, nothing = (Translator(source, TICDC, selection=selection) for selection in (None, Selection(end)))
    assert translated_records(nothing, records) == []
    assert translated_records(whole, records) != []
    assert nothing.events.total() == 0
    assert nothing.catalog == whole.catalog


def test_a_row_after_the_bound_has_the_definition_from_before_it() -> None:
    statement = {
        "id": 0, "database": "d", "table": "t", "pkNames": None, "isDdl": True, "type": "CREATE", "es": 1, "ts": 1,
        "sql": "CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(9,2))", "_tidb": {"commitTs": 10},
    }  # fmt: skip
    insert = row_message(
        {"id": "int", "price": "decimal"},
        {"id": "1", "price": "2.50"},
        pkNames=["id"],
        _tidb={"commitTs": 20},
    )
    translator = Translator(TICDC, CANAL, selection=Selection(15))
    (out,) = translated_records(translator, [record(statement), record(insert, offset=1)])
    assert b'"price":"decimal(9,2)"' in (out.value or b"")
    assert Loss.SCHEMA_INFERRED not in translator.losses


@pytest.mark.parametrize(
    ("since", "before", "kept"), [(5, None, 3), (6, None, 2), (0, 6, 2), (0, 5, 1), (5, 6, 1), (6, 6, 0)]
)
def test_the_lower_bound_is_in_and_the_upper_is_not(since: int, before: int | None, kept: int) -> None:
    rows = [
        row_message({"id": "int"}, {"id": "1"}, _tidb={"commitTs": commit_ts}) for commit_ts in (4, 5, 6, 7)
    ]
    translator = Translator(TICDC, TICDC, selection=Selection(since, before))
    assert (
        len(translated_records(translator, [record(one, offset=at) for at, one in enumerate(rows)])) == kept
    )


def test_without_a_commit_ts_the_event_time_counts() -> None:
    """TiDB's timestamps hold milliseconds above 18 bits, so the whole millisecond of the bound belongs to the
    newer side.
    """
    at_ms = 1_700_000_000_123
    messages = [
        record(row_message({"id": "int"}, {"id": "1"}, es=at_ms + shift), offset=shift + 1)
        for shift in (-1, 0, 1)
    ]
    newer = Translator(CANAL, CANAL, selection=Selection(at_ms << 18))
    assert [out.headers[0][1] for out in translated_records(newer, messages)] == [
        b"topic/0/1/0",
        b"topic/0/2/0",
    ]
    # A bound inside the millisecond: the event counts as the millisecond's beginning, on both sides.
    bound = (at_ms << 18) + 5
    for selection, kept in ((Selection(bound), 1), (Selection(before_commit_ts=bound), 2)):
        assert len(translated_records(Translator(CANAL, CANAL, selection=selection), messages)) == kept


def _watermarks(source: str, records: list[ConsumerRecord]) -> int:
    reader = Translator(source, TICDC)
    return sum(isinstance(event, Watermark) for one in records for event in reader.inspect(one))


@pytest.mark.parametrize(
    ("source", "files"),
    [
        (TICDC, "ticdc/canal-json.tidb-extension/09_dml"),
        (OPEN, "ticdc/open-protocol/09_dml"),
        (DEBEZIUM, "ticdc/debezium.tidb-extension/13_tidb_only.tidb"),
    ],
)
@pytest.mark.parametrize("partitions", [None, 3])
def test_watermarks_that_are_not_wanted_are_counted(source: str, files: str, partitions: int | None) -> None:
    records = captured(files)
    given = _watermarks(source, records)
    assert given > 0
    whole = Translator(source, OPEN, partitions=partitions)
    translator = Translator(source, OPEN, partitions=partitions, selection=Selection(watermarks=False))
    written = translated_records(translator, records)
    assert _watermarks(OPEN, _read(written)) == 0
    assert translator.events == Counter(
        {kind: count for kind, count in _events(whole, records).items() if kind != "watermark"}
    )
    assert translator.losses[Loss.WATERMARK] == given


def test_watermarks_outside_the_bounds_are_not_counted() -> None:
    """They say nothing about what this translator writes."""
    records = captured("ticdc/canal-json.tidb-extension/09_dml")
    end = _moments(TICDC, records)[-1] + 1
    translator = Translator(TICDC, OPEN, selection=Selection(end, watermarks=False))
    assert translated_records(translator, records) == []
    assert Loss.WATERMARK not in translator.losses


def test_strict_lets_pass_what_was_asked_for() -> None:
    records = captured("ticdc/canal-json.tidb-extension/09_dml")
    translator = Translator(TICDC, OPEN, None, {"strict": "true"}, selection=Selection(watermarks=False))
    assert translated_records(translator, records)
    assert translator.losses[Loss.WATERMARK]


def _read(written: list[Any]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(out.topic, out.partition, at, 0, out.key, out.value) for at, out in enumerate(written)
    ]


def _events(translator: Translator, records: list[ConsumerRecord]) -> Counter[str]:
    translated_records(translator, records)
    return translator.events
