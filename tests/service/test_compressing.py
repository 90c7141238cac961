"""Batches that are compressed in threads: the same bytes, in the same order, and none behind one that failed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from relay.records import ProducerRecord
from relay.service import kafka_sink
from relay.service.kafka_batch import Compressed, KafkaBatch
from relay.service.kafka_sink import KafkaSink
from relay.service.transport import Batch, Partition, Undelivered

ZSTD = 4
LIMIT = 1_000_000


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every batch compressed in a thread, however small."""
    monkeypatch.setattr(kafka_sink, "THREAD_BYTES", 0)


def record(number: int, topic: str = "t") -> ProducerRecord:
    return ProducerRecord(topic, 0, 1_700_000_000_000 + number, b"k%d" % number, b"value %d" % number * 20, (("h", b"1"),))


def filled(batch: Batch, numbers: range, topic: str = "t") -> Batch:
    assert all(batch.append(record(number, topic)) for number in numbers)
    return batch


def builder(*, transactional: bool) -> BatchBuilder:
    batch = KafkaBatch(BatchBuilder(LIMIT, ZSTD, is_transactional=int(transactional)))
    filled(batch, range(100))
    return batch.closed()


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_has_the_bytes_that_the_client_itself_makes(transactional: bool) -> None:
    """Also the second time: a batch that is sent again keeps its numbers, one of a new producer gets new ones."""
    expected, found = builder(transactional=transactional), Compressed(builder(transactional=transactional))
    expected._set_producer_state(2**40 + 1, 7, 2**31 - 5)
    for state in ((1, 2, 3), (2**40 + 1, 7, 2**31 - 5)):
        found._set_producer_state(*state)
    assert bytes(found._build()) == bytes(expected._build())
    assert MemoryRecords(bytes(found._build())).next_batch().validate_crc()
    assert found.record_count() == expected.record_count() == 100
    assert found.closed()


@pytest.mark.kafka
@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("compression", ["zstd", "gzip", "lz4", "snappy"])
async def test_batches_arrive_in_order(kafka: Any, make_config: Any, compression: str) -> None:
    topic = await kafka.topic(1)
    sink = KafkaSink(make_config(topic, topic, target_compression=compression, target_max_batch_bytes=20_000), {topic: LIMIT})
    await sink.start()
    await sink.write([record(number, topic) for number in range(2_000)])
    await sink.stop()
    found = await kafka.read(topic)
    assert [(each.key, each.value, each.timestamp_ms, each.headers) for each in found] == [
        (each.key, each.value, each.timestamp_ms, each.headers) for each in map(record, range(2_000))
    ]


@pytest.mark.kafka
@pytest.mark.usefixtures("in_threads")
async def test_nothing_follows_a_batch_that_could_not_be_queued(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await kafka.topic(1)
    sink = KafkaSink(make_config(topic, topic), {topic: LIMIT})
    await sink.start()
    send = sink._producer.send_batch

    async def fails_once(*given: Any, **named: Any) -> Any:
        sink._producer.send_batch = send
        raise TimeoutError

    sink._producer.send_batch = fails_once
    first = await sink.send(Partition(topic, 0), filled(sink.batch(), range(10), topic))
    with pytest.raises(Undelivered):
        await sink.send(Partition(topic, 0), filled(sink.batch(), range(10, 20), topic))
    with pytest.raises(Undelivered):
        await sink.delivered([first])
    await sink.abandon()
    assert await kafka.read(topic) == []


@pytest.mark.kafka
@pytest.mark.usefixtures("in_threads")
async def test_an_abandoned_sink_writes_nothing_that_was_being_compressed(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressing, go_on = threading.Event(), threading.Event()

    class Slow(Compressed):
        def __init__(self, builder: BatchBuilder) -> None:
            compressing.set()
            assert go_on.wait(30)
            super().__init__(builder)

    monkeypatch.setattr(kafka_sink, "Compressed", Slow)
    topic = await kafka.topic(1)
    sink = KafkaSink(make_config(topic, topic), {topic: LIMIT})
    await sink.start()
    pending = await sink.send(Partition(topic, 0), filled(sink.batch(), range(10), topic))
    assert await asyncio.to_thread(compressing.wait, 30)
    abandoning = asyncio.create_task(sink.abandon())
    await asyncio.sleep(0)
    go_on.set()
    await abandoning
    with pytest.raises(Undelivered, match="abandoned"):
        await sink.delivered([pending])
    assert await kafka.read(topic) == []


@pytest.mark.kafka
async def test_small_batches_take_no_thread(kafka: Any, make_config: Any) -> None:
    topic = await kafka.topic(1)
    sink = KafkaSink(make_config(topic, topic), {topic: LIMIT})
    await sink.start()
    await sink.write([record(number, topic) for number in range(10)])
    names = {thread.name for thread in threading.enumerate()}
    await sink.stop()
    assert not [name for name in names if name.startswith("relay-compress")]
