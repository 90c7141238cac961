"""Rows of neighboring source records in one message of Open Protocol: `max-batch-size`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from open_support import Options, ddl, framed, resolved, row, unframed
from support import CANAL, OPEN, TICDC, captured

from relay import ConsumerRecord, ProducerRecord, RowChange, Translator
from relay.core.batching import Joiner
from relay.model.records import SOURCE_HEADER

BATCHES = {"max-batch-size": "4"}


def canal(offset: int, count: int = 1, partition: int = 0, **more: Any) -> ConsumerRecord:
    """A record of Canal with some rows."""
    message = {
        "data": [{"id": str(100 * offset + number)} for number in range(count)], "database": "d", "table": "t", "type": "INSERT",
        "isDdl": False, "es": 5, "ts": 6, "pkNames": ["id"], "mysqlType": {"id": "int"}, "sqlType": {"id": 4}, "old": None,
        "sql": "", "id": 1,
    }  # fmt: skip
    return ConsumerRecord("in", partition, offset, 1000 + offset, None, json.dumps(message | more).encode())


def canal_ddl(offset: int, sql: str = "CREATE TABLE t (id INT PRIMARY KEY)") -> ConsumerRecord:
    return canal(offset, data=None, isDdl=True, type="CREATE", sql=sql)


def joined(
    records: Sequence[ConsumerRecord], options: Options = BATCHES, source: str = CANAL, **more: Any
) -> list[ProducerRecord]:
    """What the records become, joined as a driver does."""
    translator = Translator(source, OPEN, None, options, **more)
    joining = translator.route.joining
    assert joining is not None
    joiner = Joiner[None](joining)
    found = [
        each for record in records for out in translator.translate(record) for each in joiner.add(out, None)
    ]
    return [out for out, _ in [*found, *joiner.close()]]


def marks(found: Sequence[ProducerRecord]) -> list[str]:
    return [(dict(out.headers)[SOURCE_HEADER] or b"").decode() for out in found]


def test_rows_of_neighboring_records_are_joined_by_windows_of_offsets() -> None:
    records = [canal(offset) for offset in range(2, 15)]
    found = joined(records)
    assert marks(found) == ["in/0/2-3/0", "in/0/4-7/0", "in/0/8-11/0", "in/0/12-14/0"]
    assert [out.timestamp_ms for out in found] == [1003, 1007, 1011, 1014]
    singles = [Translator(CANAL, OPEN).translate(record) for record in records]
    assert [pair for out in found for pair in unframed(out)] == [
        pair for made in singles for out in made for pair in unframed(out)
    ]


def test_nothing_is_joined_without_the_option() -> None:
    assert Translator(CANAL, OPEN).route.joining is None
    assert Translator(CANAL, OPEN, None, {"max-batch-size": "1"}).route.joining is None
    assert Translator(OPEN, CANAL, None, {"max-batch-size": "9"}).route.joining is None


def test_where_it_begins_changes_the_first_message_alone() -> None:
    records = [canal(offset) for offset in range(40)]
    whole = joined(records)
    for first in range(40):
        rest = joined(records[first:])
        assert rest[1:] == whole[len(whole) - len(rest) + 1 :]


def test_gaps_between_offsets_do_not_matter() -> None:
    assert marks(joined([canal(offset) for offset in (0, 3, 4, 9, 10)])) == [
        "in/0/0-3/0",
        "in/0/4/0",
        "in/0/9-10/0",
    ]


def test_a_record_is_never_torn_apart_and_no_message_has_more_rows() -> None:
    records = [canal(0, 2), canal(1, 1), canal(2, 2), canal(3, 6), canal(4, 1)]
    found = joined(records)
    assert marks(found) == ["in/0/0-1/0", "in/0/2/0", "in/0/3/0", "in/0/3/1", "in/0/4/0"]
    assert [len(unframed(out)) for out in found] == [3, 2, 4, 2, 1]


@pytest.mark.parametrize(
    "between",
    [canal_ddl(2), framed(ddl("CREATE TABLE t (a INT)"), offset=2), framed(resolved(9), offset=2)],
)
def test_a_statement_or_a_watermark_stands_between(between: ConsumerRecord) -> None:
    if between.topic == "in":
        records, source = [canal(0), canal(1), between, canal(3)], CANAL
    else:
        rows = [
            framed(row({"u": {"a": {"t": 3, "f": 65, "v": at}}}, ts=at + 5), offset=at) for at in range(4)
        ]
        records, source = [*rows[:2], between, rows[3]], OPEN
    topic = records[0].topic
    found = joined(records, source=source)
    assert marks(found) == [f"{topic}/0/0-1/0", f"{topic}/0/2/0", f"{topic}/0/3/0"]


def test_headers_are_kept_and_only_equal_ones_are_joined() -> None:
    def with_header(offset: int, value: bytes | None) -> ConsumerRecord:
        return msgspec.structs.replace(canal(offset), headers=(("h", value), (SOURCE_HEADER, b"x/0/1/0")))

    records = [with_header(0, b"a"), with_header(1, b"a"), with_header(2, b"b"), with_header(3, None)]
    found = joined(records)
    assert [out.headers for out in found] == [
        (("h", value), (SOURCE_HEADER, b"x/0/1/0"), (SOURCE_HEADER, mark))
        for value, mark in ((b"a", b"in/0/0-1/0"), (b"b", b"in/0/2/0"), (None, b"in/0/3/0"))
    ]


def test_source_partitions_and_topics_are_not_mixed() -> None:
    records = [canal(0), canal(1, partition=1), msgspec.structs.replace(canal(2), topic="other"), canal(3)]
    found = joined(records, topic="out")
    assert marks([out for out in found if out.partition == 0]) == ["in/0/0/0", "other/0/2/0", "in/0/3/0"]
    assert marks([out for out in found if out.partition == 1]) == ["in/1/1/0"]


def test_rows_that_are_spread_anew_are_joined_in_each_target_partition() -> None:
    records = [canal(offset) for offset in range(64)]
    options = {"max-batch-size": "16"}
    found = joined(records, options, partitions=3)
    alone = Translator(CANAL, OPEN, partitions=3)
    singles = [out for record in records for out in alone.translate(record)]
    for partition in range(3):
        here = [out for out in found if out.partition == partition]
        assert len(here) == 4
        assert [pair for out in here for pair in unframed(out)] == [
            pair for out in singles if out.partition == partition for pair in unframed(out)
        ]


def test_a_message_is_closed_at_its_bytes() -> None:
    records = [canal(offset) for offset in range(10, 18)]
    (one,) = Translator(CANAL, OPEN).translate(records[0])
    rows = len(one.key or b"") - 8 + len(one.value or b"")
    for count in (1, 2, 3):
        most_bytes = 8 + count * rows + 36
        options = {"max-batch-size": "16", "max-message-bytes": str(most_bytes)}
        found = [len(unframed(out)) for out in joined(records[:6], options)]
        assert found == [count] * (6 // count)
        if count > 1:
            fewer = options | {"max-message-bytes": str(most_bytes - 1)}
            assert {len(unframed(out)) for out in joined(records[:6], fewer)} <= {count - 1, 1}


def test_the_limit_of_a_topic_bounds_a_message_too() -> None:
    joining = Translator(CANAL, OPEN, None, {"max-batch-size": "100"}).route.joining
    assert joining is not None
    joiner, translator = Joiner[None](joining, {"in": 1024 + 60 + 800}), Translator(CANAL, OPEN)
    found = [
        each for at in range(50) for out in translator.translate(canal(at)) for each in joiner.add(out, None)
    ]
    sizes = [len(out.key or b"") + len(out.value or b"") for out, _ in found]
    assert 600 < max(sizes) <= 800


def test_a_row_that_was_too_large_stands_alone(tmp_path: Any) -> None:
    def wide(offset: int, text: str) -> ConsumerRecord:
        return canal(
            offset, data=[{"id": str(offset), "a": text}], mysqlType={"id": "int", "a": "varchar(900)"}
        )

    records = [wide(0, "x"), wide(1, "x"), wide(2, "x" * 900), wide(3, "x")]
    for handling, what in (("handle-key-only", b'"ohk":true'), ("claim-check", b'"ccl":')):
        options = {
            "max-batch-size": "4", "max-message-bytes": "600", "large-message-handle-option": handling,
            "claim-check-storage-uri": str(tmp_path),
        }  # fmt: skip
        found = joined(records, options)
        assert marks(found) == ["in/0/0-1/0", "in/0/2/0", "in/0/3/0"]
        assert what in (found[1].key or b"")
        assert len(found[1].blobs) == (handling == "claim-check")


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy"])
def test_what_is_joined_is_read_again(compression: str) -> None:
    options = {"large-message-handle-compression": compression}
    records = [canal(offset, 1 + offset % 2) for offset in range(20)]
    found = joined(records, BATCHES | options)
    assert len(found) < 12

    def rows(produced: Sequence[ProducerRecord]) -> list[Any]:
        reader = Translator(OPEN, OPEN, options)
        return [
            (event.source.commit_ts, event.after)
            for at, out in enumerate(produced)
            for event in reader.inspect(ConsumerRecord("t", 0, at, 0, out.key, out.value))
            if isinstance(event, RowChange)
        ]

    alone = Translator(CANAL, OPEN, None, options)
    assert rows(found) == rows([out for record in records for out in alone.translate(record)])


def test_a_dead_letter_is_joined_with_nothing() -> None:
    joining = Translator(CANAL, OPEN, None, BATCHES).route.joining
    assert joining is not None
    joiner = Joiner[int](joining)
    (out,) = Translator(OPEN, OPEN).translate(framed(row({"u": {"a": {"t": 3, "f": 65, "v": 1}}})))
    letter = msgspec.structs.replace(out, headers=(*out.headers, ("relay.error.code", b"x")))
    assert joiner.add(out, 1) == []
    assert joiner.add(letter, 2) == [(out, 1), (letter, 2)]
    assert joiner.close() == []


def test_a_captured_topic_has_the_same_events_in_order() -> None:
    records = captured("ticdc/canal-json.tidb-extension/10_ddl")
    alone = Translator(TICDC, OPEN)
    singles = [out for record in records for out in alone.translate(record)]
    found = joined(records, {"max-batch-size": "16"}, TICDC)
    partitions = {(out.topic, out.partition) for out in singles}
    for partition in partitions:
        pairs = [
            [pair for out in each if (out.topic, out.partition) == partition for pair in unframed(out)]
            for each in (singles, found)
        ]
        assert pairs[0] == pairs[1]
    assert len(found) < len(singles)
