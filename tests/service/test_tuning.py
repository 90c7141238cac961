"""The client's records in relay's own type, from batches as brokers send them."""

from __future__ import annotations

import gc
import itertools
import struct
import weakref
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from engine_support import needs_kernel
from wire_support import batch_types

from relay.io.kafka.fetched import KNOWN_RELEASES, read_by_batch, relay_records
from relay.io.kafka.record_chunks import joined
from relay.model.records import ConsumerRecord, newest_ms, size_of

Fetched = Callable[..., Any]


def batch(base: int, *offsets: int, producer: int = -1, codec: int = 0) -> bytes:
    """An encoded batch with records at these distances from its base offset, of a transaction if it has a
    producer.
    """
    builder = DefaultRecordBatchBuilder(2, codec, producer >= 0, producer, 0, -1, 100_000)
    for offset in offsets:
        assert builder.append(offset, 7, b"k", b"%d" % (base + offset), [("h", b"1")]) is not None
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def marker(base: int, producer: int, *, aborts: bool) -> bytes:
    """The control batch that ends a transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 100_000)
    builder.append(0, 7, struct.pack(">hh", 0, 0 if aborts else 1), b"", [])
    data = bytearray(base.to_bytes(8, "big") + bytes(builder.build())[8:])
    data[_ATTRIBUTES_AT + 1] |= _IS_CONTROL
    data[_CRC_AT:_ATTRIBUTES_AT] = calc_crc32c(data[_ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(data)


_CRC_AT, _ATTRIBUTES_AT, _MAX_TIME_AT, _COUNT_AT = 17, 21, 35, 57
_IS_APPEND_TIME, _IS_CONTROL = 0x08, 0x20


class _Assignment:
    """A partition whose position is what was handed out."""

    active, paused = True, False

    def __init__(self, position: int) -> None:
        self.position = position

    def state_value(self, _: TopicPartition) -> _Assignment:
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


def result(data: bytes, begin: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> Any:
    """What a consumer has fetched. `aborted`: producers, and where their transactions begin."""
    pair = TopicPartition("t", 3)
    records = fetcher.PartitionRecords(
        pair, fetcher.MemoryRecords(data), aborted, begin, None, None, True, fetcher.READ_COMMITTED
    )
    return fetcher.FetchResult(pair, assignment=_Assignment(begin), partition_records=records, backoff=0)


@pytest.fixture(params=["as it is", "tuned", pytest.param("kernel", marks=needs_kernel)])
def fetched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """Parses what a broker has sent, as a consumer does."""
    monkeypatch.setattr(fetcher.FetchResult, "getall", fetcher.FetchResult.getall)
    monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)
    if request.param != "as it is":
        batch_type = batch_types().source if request.param == "kernel" else None
        is_known = read_by_batch(batch_type=batch_type)
        assert is_known, f"aiokafka {version('aiokafka')} is none of {KNOWN_RELEASES}"

    return result


def offsets_of(found: Any, most: int | None = None) -> list[int]:
    return [record.offset for record in relay_records(found.getall(most))]


def test_records_have_all_that_was_sent(fetched: Fetched) -> None:
    (record,) = relay_records(fetched(batch(0, 0)).getall())
    assert record == ConsumerRecord("t", 3, 0, 7, b"k", b"0", (("h", b"1"),))


def with_checksum(data: bytearray) -> bytes:
    """A changed batch with the checksum of its bytes."""
    data[_CRC_AT:_ATTRIBUTES_AT] = calc_crc32c(data[_ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_records_have_all_that_was_sent(fetched: Fetched, codec: int) -> None:
    data = batch(5, *range(100), codec=codec)
    assert data[_ATTRIBUTES_AT + 1] == codec
    found = relay_records(fetched(data, 7).getall())
    assert [*found] == [
        ConsumerRecord("t", 3, offset, 7, b"k", b"%d" % offset, (("h", b"1"),)) for offset in range(7, 105)
    ]


def test_records_with_the_time_of_appending_have_that_of_their_batch(fetched: Fetched) -> None:
    data = bytearray(batch(0, 0, 1))
    data[_ATTRIBUTES_AT + 1] |= _IS_APPEND_TIME
    data[_MAX_TIME_AT : _MAX_TIME_AT + 8] = (1234).to_bytes(8, "big")
    assert [record.timestamp_ms for record in relay_records(fetched(with_checksum(data)).getall())] == [
        1234
    ] * 2


def test_records_of_an_older_format(fetched: Fetched) -> None:
    data = b""
    for offset in range(2):
        builder = LegacyRecordBatchBuilder(1, 0, 1_000)
        builder.append(offset, 9, b"k", b"old")
        data += bytes(builder.build())
    found = relay_records(fetched(data).getall())
    assert [*found] == [ConsumerRecord("t", 3, offset, 9, b"k", b"old") for offset in range(2)]


def test_records_that_do_not_end_where_the_batch_does_are_damaged(fetched: Fetched) -> None:
    data = bytearray(batch(0, 0, 1))
    data[_COUNT_AT + 3] = 1
    with pytest.raises(CorruptRecordException):
        fetched(with_checksum(data)).getall()


@needs_kernel
def test_slices_of_fetched_records_are_those_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher.FetchResult, "getall", fetcher.FetchResult.getall)
    monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)
    read_by_batch(batch_type=batch_types().source)
    data = batch(0, 0, 1, 2) + batch(3, 0) + batch(4, *range(5))
    found = relay_records(result(data).getall())
    records = [*found]
    assert (len(found), [*reversed(found)]) == (9, records[::-1])
    for first, end in itertools.product(range(-10, 11), repeat=2):
        assert [*found[first:end]] == records[first:end]
        assert size_of(found[first:end]) == size_of(records[first:end])
    assert [found[at] for at in range(-9, 9)] == [records[at] for at in range(-9, 9)]
    assert [*found[::2]] == records[::2]
    assert newest_ms(found) == 7
    assert [*joined(found[:4], found[4:])] == [*joined(found[:4], records[4:])] == records
    for at in (9, -10):
        with pytest.raises(IndexError):
            found[at]


def test_all_at_once(fetched: Fetched) -> None:
    found = fetched(batch(0, 0, 1, 2) + batch(3, 0, 4, 5))
    assert offsets_of(found) == [0, 1, 2, 3, 7, 8]
    assert (found._assignment.position, found.has_more()) == (9, False)


def test_some_at_a_time(fetched: Fetched) -> None:
    found = fetched(batch(0, 0, 1, 2) + batch(3, 0))
    assert offsets_of(found, 2) == [0, 1]
    assert found._assignment.position == 2
    assert found.getone().offset == 2
    assert offsets_of(found, 2) == [3]
    assert (found._assignment.position, found.has_more()) == (4, False)


def test_the_rest_after_some(fetched: Fetched) -> None:
    found = fetched(batch(0, 0, 1, 2) + batch(3, 0))
    assert offsets_of(found, 1) == [0]
    assert offsets_of(found) == [1, 2, 3]
    assert (found._assignment.position, found.has_more()) == (4, False)


def test_from_the_middle_of_a_batch(fetched: Fetched) -> None:
    found = fetched(batch(0, 0, 1, 2) + batch(3, 0), begin=2)
    assert offsets_of(found) == [2, 3]


def test_aborted_transactions_and_markers_are_left_out(fetched: Fetched) -> None:
    found = fetched(
        batch(0, 0, producer=1)
        + batch(1, 0, producer=2)
        + marker(2, 1, aborts=True)
        + batch(3, 0, producer=1)
        + marker(4, 1, aborts=False)
        + marker(5, 2, aborts=False),
        aborted=[(1, 0)],
    )
    assert offsets_of(found) == [1, 3]
    assert (found._assignment.position, found.has_more()) == (6, False)


def test_nothing_of_a_partition_that_has_moved(fetched: Fetched) -> None:
    found = fetched(batch(0, 0))
    found._assignment.position = 7
    assert offsets_of(found) == []
    assert not found.has_more()


def test_a_poll_hands_out_some_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher.FetchResult, "getall", fetcher.FetchResult.getall)
    read_by_batch(3)
    found = result(batch(0, 0, 1) + batch(2, 0, 1) + batch(4, 0))
    assert offsets_of(found) == [0, 1, 2, 3]
    assert (found._assignment.position, found.has_more()) == (4, True)
    assert offsets_of(found) == [4]
    assert (found._assignment.position, found.has_more()) == (5, False)


def test_a_fetch_is_gone_with_its_last_record(fetched: Fetched) -> None:
    found = fetched(batch(0, 0))
    parsed = weakref.ref(found._partition_records)
    gc.disable()
    try:
        assert offsets_of(found) == [0]
        assert parsed() is None
    finally:
        gc.enable()


def test_a_damaged_batch_is_reported_and_earlier_records_are_read_again(fetched: Fetched) -> None:
    damaged = bytearray(batch(2, 0))
    damaged[-1] ^= 1
    found = fetched(batch(0, 0, 1) + bytes(damaged))
    with pytest.raises(CorruptRecordException):
        found.getall()
    assert found._assignment.position == 0
