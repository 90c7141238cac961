"""Open Protocol's edge cases of DDL, large messages, the encoder, and the order of events."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from edge_cases.open_protocol import BATCH, CASES
from open_support import (
    cell,
    change,
    ddl,
    framed,
    raw,
    records,
    resolved,
    row,
    schema_change,
    unframed,
    written,
)
from support import OPEN

from relay import (
    ConsumerRecord,
    Malformed,
    Translator,
)
from relay.codecs.shared.large_messages import LargeMessageCompression, compressed
from relay.model.errors import MessageTooLarge
from relay.model.lookups import ClaimCheck

TEXT = 64


# ---------------------------------------------------------------- large messages

INSERT = {"u": {"id": cell(3, 5, 11, h=True)}}
OBJECT = "3f2b8c1e-0000-4000-8000-000000000001.json"


def reading(setting: str) -> dict[str, str]:
    return {"large-message-handle-compression": setting}


@CASES.covers("L01", "L02")
def test_the_wrong_compression_is_an_error() -> None:
    for setting in ("snappy", "lz4"):
        with pytest.raises(
            Malformed, match=rf"value: not an? .*{setting.upper() if setting == 'lz4' else setting}"
        ):
            change(row(INSERT), options=reading(setting))
    assert (
        change(row(INSERT), options=reading("auto"))
        == change(row(INSERT), options=reading("none"))
        == change(row(INSERT))
    )
    without_size = bytes.fromhex(
        "04224d186470b9310000807b2271223a22414c544552205441424c4520607431602041444420434f4c554d4e2060636020494e54222c2274223a357d"
        "00000000b3e10db3"
    )
    key = {"ts": 4, "scm": "d", "tbl": "t1", "t": 2}
    assert schema_change((key, without_size)).ddl == "ALTER TABLE `t1` ADD COLUMN `c` INT"
    with pytest.raises(Malformed, match="value: a damaged LZ4 frame"):
        schema_change((key, without_size[:-1] + b"\0"))


@CASES.covers("L03")
def test_a_block_that_says_it_is_huge() -> None:
    with pytest.raises(Malformed, match="value: not a snappy block"):
        change(row(b"\xff\xff\xff\xff\x0f\x00a"), options=reading("snappy"))


@CASES.covers("L04")
@pytest.mark.parametrize("setting", ["lz4", "snappy"])
def test_every_value_of_a_batch_is_compressed_by_itself(setting: str) -> None:
    small = [
        (key, compressed(json.dumps(given).encode(), LargeMessageCompression(setting)))
        for key, given in BATCH
    ]
    assert written([framed(*small)], reading={}) == written([framed(*BATCH)])
    assert written([framed(*small)], reading=reading(setting)) == written([framed(*BATCH)])
    (out,) = Translator(OPEN, OPEN, None, reading(setting) | {"max-batch-size": "3"}).translate(
        framed(*BATCH)
    )
    assert [one[:2] == b'{"' for _, one in unframed(out)] == [False] * 3
    assert written([raw(out.key, out.value)]) == written([framed(*BATCH)])


def claimed(location: str = f"s3://bkt/cc/{OBJECT}") -> ConsumerRecord:
    return framed(row(INSERT, ohk=False, ccl=location))


def stored(*messages: Any) -> bytes:
    inner = framed(*messages)
    return json.dumps(
        {
            name: base64.b64encode(part or b"").decode()
            for name, part in (("key", inner.key), ("value", inner.value))
        }
    ).encode()


@CASES.covers("L05")
def test_an_object_is_asked_for_and_never_replaced() -> None:
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt/cc"})
    whole = row({"u": {"id": cell(3, 5, 11, h=True), "doc": cell(15, "long", TEXT)}})
    for _ in range(3):
        with pytest.raises(ClaimCheck) as need:
            translator.translate(claimed())
        assert need.value.name == OBJECT
    translator.provide(need.value, stored(whole))
    (out,) = translator.translate(claimed())
    assert raw(out.key, out.value) == framed(whole)


@CASES.covers("L06")
@pytest.mark.parametrize(
    "location", ["s3://x/../../etc/passwd", f"s3://x/..%2F{OBJECT}", f"s3://x\\{OBJECT}", "", "/"]
)
def test_only_names_of_objects_are_read(location: str) -> None:
    with pytest.raises(Malformed, match=r"key\.ccl: does not end in the name of a claim-check object"):
        Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt"}).translate(claimed(location or "x"))


@CASES.covers("L07")
@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (stored(row(INSERT, ts=6)), "another event"),
        (stored(row(INSERT, tbl="other")), "another event"),
        (stored(row(INSERT, ptn=1)), "another event"),
        (stored(row(INSERT), row(INSERT)), "2 events instead of one"),
        (stored(), "0 events instead of one"),
        (b"{}", "not a claim-check document"),
    ],
)
def test_the_object_must_hold_the_same_event(inside: bytes, reason: str) -> None:
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt"})
    with pytest.raises(ClaimCheck) as need:
        translator.translate(claimed())
    translator.provide(need.value, inside)
    with pytest.raises(Malformed, match=rf"key\.ccl: the object in storage .*{reason}"):
        translator.translate(claimed())


# ---------------------------------------------------------------- encoder


@CASES.covers("E02")
def test_a_row_fits_up_to_the_last_byte() -> None:
    ((key, given),) = written([framed(row(INSERT))])[0]
    size = len(key) + len(given) + 36 + 16 + 8
    assert len(written([framed(row(INSERT))], {"max-message-bytes": str(size)})) == 1
    with pytest.raises(MessageTooLarge, match=f"{size} bytes where max-message-bytes is {size - 1}"):
        written([framed(row(INSERT))], {"max-message-bytes": str(size - 1)})
    two = size + len(key) + len(given) + 16
    for limit, rows in ((two, [2]), (two - 1, [1, 1])):
        options = {"max-message-bytes": str(limit), "max-batch-size": "9"}
        assert [len(message) for message in written([framed(row(INSERT), row(INSERT))], options)] == rows


@CASES.covers("E04")
def test_what_is_written_is_read_by_the_strict_rules_of_the_java_example() -> None:
    mixed = (*BATCH, ddl("DROP TABLE t", 4), resolved(9))
    (batch, statement, mark) = written([framed(*mixed)], {"max-batch-size": "16"})
    assert [json.loads(key)["t"] for key, _ in (*batch, *statement, *mark)] == [1, 1, 1, 2, 3]
    found = Translator(OPEN, OPEN).inspect(framed(*batch, *statement, *mark))
    assert found == Translator(OPEN, OPEN).inspect(framed(*mixed))


@CASES.covers("E08")
def test_rows_before_a_statement_are_written_before_it() -> None:
    rows = [row({"u": {"id": cell(3, at, 11, h=True)}}) for at in range(9)]
    translator = Translator(OPEN, OPEN, None, {"max-batch-size": "16"}, partitions=3)
    out = translator.translate(framed(*rows, ddl("ALTER TABLE t COMMENT 'x'", 17, ts=6), row(INSERT, ts=7)))
    kinds = [[json.loads(key)["t"] for key, _ in unframed(one)] for one in out]
    at = kinds.index([2])
    assert sum(map(len, kinds[:at])) == 9
    assert kinds[at:] == [[2], [2], [2], [1]]
    assert [one.partition for one in out[at : at + 3]] == [0, 1, 2]


# ---------------------------------------------------------------- the order of events


def passed(*given: ConsumerRecord, partitions: int | None = 3) -> list[tuple[int, int]]:
    """Return type and timestamp of every written event; an event for all partitions counts once."""
    translator = Translator(OPEN, OPEN, partitions=partitions)
    found = [
        json.loads(key)
        for one in given
        for out in translator.translate(one)
        if out.partition == 0 or b'"t":1' in (out.key or b"")
        for key, _ in unframed(out)
    ]
    return [(key["t"], key["ts"]) for key in found]


def partition(number: int, *messages: Any, offset: int = 0) -> ConsumerRecord:
    return framed(*messages, partition=number, offset=offset)


@CASES.covers("C02", "C03", "C07")
def test_rows_are_never_dropped_by_their_timestamp() -> None:
    b, a = row(INSERT, ts=2), row(INSERT, ts=1)
    assert passed(*records(b, a, b), partitions=None) == [(1, 2), (1, 1), (1, 2)]
    assert passed(*records(resolved(2), b, b, a), partitions=None) == [(3, 2), (1, 2), (1, 2), (1, 1)]


@CASES.covers("C04")
def test_a_watermark_that_falls_back_is_not_believed() -> None:
    assert passed(*records(resolved(10), resolved(7), resolved(11))) == [(3, 10), (3, 11)]


@CASES.covers("C05")
def test_the_least_watermark_holds_for_all_partitions() -> None:
    rows = [partition(at, row(INSERT)) for at in range(3)]
    marks = [partition(at, resolved(ts)) for at, ts in enumerate((10, 12, 8))]
    assert passed(*rows, *marks) == [(1, 5)] * 3 + [(3, 8)]


@CASES.covers("C06")
def test_a_partition_without_a_watermark_holds_back_all_others() -> None:
    assert (
        passed(
            partition(0, row(INSERT)),
            partition(1, row(INSERT)),
            partition(0, resolved(9)),
            partition(0, row(INSERT)),
        )
        == [(1, 5)] * 3
    )


@CASES.covers("C08")
def test_partitions_of_one_table_do_not_disturb_each_other() -> None:
    rows = [row(INSERT, ts=ts, ptn=ptn) for ts, ptn in ((5, 111), (3, 112), (6, 111), (4, 112))]
    assert [ts for _, ts in passed(*records(*rows), partitions=None)] == [5, 3, 6, 4]


@CASES.covers("C09")
def test_rows_of_a_table_that_is_new_below_the_watermark_pass() -> None:
    assert passed(*records(resolved(9), row(INSERT, ts=5, tbl="new")), partitions=None) == [(3, 9), (1, 5)]
