"""The client's records in relay's own type, from batches as brokers send them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from relay.kafka import aiokafka_compat
from relay.kafka.aiokafka_compat import relay_records
from relay.records import ConsumerRecord

Fetched = Callable[[bytes], Any]


def batch(base: int, *offsets: int) -> bytes:
    """An encoded batch with records at these distances from its base offset."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 100_000)
    for offset in offsets:
        assert builder.append(offset, 7, b"k", b"%d" % (base + offset), [("h", b"1")]) is not None
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


class _Assignment:
    """A partition whose position is what was handed out."""

    active, paused, position = True, False, 0

    def state_value(self, _: TopicPartition) -> _Assignment:
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


@pytest.fixture(params=[False, True], ids=["as it is", "tuned"])
def fetched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """Parses what a broker has sent, as a consumer does."""
    kept = {name: vars(fetcher.PartitionRecords)[name] for name in ("_consumer_record", "__iter__")}
    for name, value in kept.items():
        monkeypatch.setattr(fetcher.PartitionRecords, name, value)
    if request.param:
        assert aiokafka_compat.hand_records_through(), (
            f"aiokafka {version('aiokafka')} is none of {aiokafka_compat.KNOWN_RELEASES}"
        )

    def parse(data: bytes) -> Any:
        records = fetcher.PartitionRecords(
            TopicPartition("t", 3), MemoryRecords(data), [], 0, None, None, True, 0
        )
        return fetcher.FetchResult(
            TopicPartition("t", 3), assignment=_Assignment(), partition_records=records, backoff=0
        )

    return parse


def offsets_of(found: Any, most: int | None = None) -> list[int]:
    return [record.offset for record in relay_records(found.getall(most))]


def test_records_have_all_that_was_sent(fetched: Fetched) -> None:
    (record,) = relay_records(fetched(batch(0, 0)).getall())
    assert record == ConsumerRecord("t", 3, 0, 7, b"k", b"0", (("h", b"1"),))


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


def test_a_damaged_batch_is_told_and_what_came_before_it_read_again(fetched: Fetched) -> None:
    damaged = bytearray(batch(2, 0))
    damaged[-1] ^= 1
    found = fetched(batch(0, 0, 1) + bytes(damaged))
    with pytest.raises(CorruptRecordException):
        found.getall()
    assert found._assignment.position == 0
