"""Transactions that the brokers have forgotten: complete in the coordinator's eyes, and still open where
their records are.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from broker_support import broker_options

from relay.config.kafka import transactional_settings
from relay.demo.kafka import Cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.hanging_transactions import open_partitions
from relay.io.kafka.ports import Partition, PollFailed
from relay.io.kafka.progress import OPEN_SECONDS, ProgressTopic
from relay.io.kafka.sink import TransactionalSink
from relay.model.records import ProducerRecord

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000


class Shard:
    """A route of one shard, and a transaction of it that its coordinator knows nothing of."""

    def __init__(self, kafka: Any, config: Any, target: str) -> None:
        self.kafka, self.config, self.target = kafka, config, target
        self.source, self.progress = config.source.topics[0], config.delivery.progress_topic
        self.sinks: list[TransactionalSink] = []

    async def started(self) -> TransactionalSink:
        settings = transactional_settings(self.config)
        self.sinks.append(TransactionalSink(settings, {self.target: 1_000_000, "gone": 1_000_000}))
        await self.sinks[-1].start()
        return self.sinks[-1]

    async def forget(self, *, offsets: dict[Partition, int]) -> None:
        """Write to partitions 0 and 1 of the target, and these offsets, in a transaction that nobody will
        end.
        """
        sink = await self.started()
        await sink.begin()
        manager = sink.producer._txn_manager
        manager._txn_partitions.update(TopicPartition(self.target, number) for number in (0, 1))
        manager._txn_partitions.add(TopicPartition(self.progress, 0))
        manager._txn_consumer_group = self.config.source.group_id
        await self.write(sink, b"left")
        if offsets:
            await sink.add_offsets(offsets)
        assert sorted(await open_partitions(sink.producer.client, [self.target])) == [
            (self.target, 0),
            (self.target, 1),
        ]

    async def progress_read(self, open_seconds: float = OPEN_SECONDS) -> dict[int, int]:
        """The offsets that the progress topic holds, as relay reads them when it starts."""
        brokers = Brokers.from_settings(transactional_settings(self.config).cluster)
        group = self.config.source.group_id
        topic = ProgressTopic(brokers, self.progress, group, open_seconds=open_seconds)
        try:
            found = await topic.read()
        finally:
            await topic.stop()
        return {number: offset for (_, number), offset in found.items()}

    async def write(self, sink: TransactionalSink, value: bytes) -> None:
        await sink.write(ProducerRecord(self.target, number, NOW, None, value, ()) for number in (0, 1))

    async def seen(self) -> tuple[list[bytes | None], dict[int, int]]:
        """The values that readers see, and the group's offsets, once nothing is open any more."""

        async def is_ended() -> bool:
            return not await open_partitions(self.sinks[-1].producer.client, [self.target])

        await self.kafka.until(is_ended)
        offsets = await self.kafka.committed(self.config.source.group_id)
        found = await self.kafka.read(self.target, committed=True)
        return [each.value for each in found], {number: offset for (_, number), offset in offsets.items()}


@pytest.fixture(scope="module")
def trusting_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that takes a producer's word for what belongs to its transaction; its address."""
    options = broker_options(properties="transaction.partition.verification.enable=false\n")
    with Cluster(tmp_path_factory.mktemp("trusting") / "kafka", options=options) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
async def shards(kafka_at: Any, trusting_broker: str, make_config: Any) -> AsyncIterator[Callable[..., Any]]:
    """Make shards of one route."""
    servers, group = trusting_broker, f"g-{uuid.uuid4().hex[:12]}"
    made: list[Shard] = []
    async with kafka_at(servers) as kafka:
        source, target, progress = await kafka.topic(2), await kafka.topic(3), await kafka.topic()

        def make(*, is_one_cluster: bool = True, number: int = 0, count: int = 1) -> Shard:
            settings = {
                "delivery_mode": "exactly-once",
                "delivery_progress_topic": progress,
                "delivery_shard": number,
                "delivery_shards": count,
                "source_group_id": group,
            }
            cluster = "source_bootstrap_servers" if is_one_cluster else "target_bootstrap_servers"
            made.append(Shard(kafka, make_config(source, target, **settings, **{cluster: servers}), target))
            return made[-1]

        yield make
        for sink in (sink for each in made for sink in each.sinks):
            await sink.abandon()


@pytest.fixture
def shard(shards: Callable[..., Shard]) -> Shard:
    return shards()


async def test_what_the_brokers_have_forgotten_is_aborted_at_the_start(shard: Shard) -> None:
    """With its offsets: else the next commit would move the group over records that nobody sees."""
    await shard.forget(offsets={Partition(shard.source, 1): 7})
    sink = await shard.started()
    assert sink.has_aborted_hanging_transaction
    await shard.write(sink, b"again")
    await sink.commit({Partition(shard.source, 0): 3})
    assert await shard.seen() == ([b"again", b"again"], {0: 3})


async def test_records_whose_offsets_count_are_not_aborted(shard: Shard) -> None:
    """They would be lost: nobody would write them again. The next commit shows them."""
    await shard.forget(offsets={})
    sink = await shard.started()
    assert not sink.has_aborted_hanging_transaction
    await shard.write(sink, b"next")
    await sink.commit({Partition(shard.source, 0): 3})
    assert await shard.seen() == ([b"left", b"next"] * 2, {0: 3})


async def test_what_is_forgotten_with_its_progress_is_aborted(shards: Callable[..., Shard]) -> None:
    """Between clusters: the records would show with the next commit, which has them once more, because the
    offsets that were read at the start are those from before.
    """
    shard, other = (shards(is_one_cluster=False, number=number, count=2) for number in (0, 1))
    await shard.forget(offsets={Partition(shard.source, 0): 7})
    other_sink = await other.started()
    await other_sink.write([ProducerRecord(shard.target, 2, NOW, None, b"of another shard", ())])
    await other_sink.add_offsets({Partition(shard.source, 1): 5})
    sink = await shard.started()
    assert sink.has_aborted_hanging_transaction
    offsets = [json.loads(each.value or b"")["offset"] for each in await shard.kafka.read(shard.progress)]
    assert offsets == [7, 5], "the transaction that aborts writes nothing that could count by mistake"
    await shard.write(sink, b"again")
    await sink.commit({Partition(shard.source, 0): 3})
    await other_sink.commit({Partition(shard.source, 1): 6})
    assert (await shard.seen())[0] == [b"again", b"again", b"of another shard"]
    assert await shard.progress_read() == {0: 3, 1: 6}


async def test_records_whose_progress_counts_are_not_aborted(shards: Callable[..., Shard]) -> None:
    """Another shard's open transaction in the progress topic is none of ours."""
    shard, other = (shards(is_one_cluster=False, number=number, count=2) for number in (0, 1))
    await shard.forget(offsets={})
    other_sink = await other.started()
    await other_sink.begin()
    await other_sink.add_offsets({Partition(shard.source, 1): 5})
    sink = await shard.started()
    assert not sink.has_aborted_hanging_transaction
    await shard.write(sink, b"next")
    await sink.commit({Partition(shard.source, 0): 3})
    await other_sink.commit({Partition(shard.source, 1): 6})
    assert (await shard.seen())[0] == [b"left", b"next"] * 2
    assert await shard.progress_read() == {0: 3, 1: 6}


async def test_progress_behind_an_open_transaction_is_waited_for(shards: Callable[..., Shard]) -> None:
    """Another shard has left it. Without what is hidden, everything would be read once more."""
    shard, other = (shards(is_one_cluster=False, number=number, count=2) for number in (0, 1))
    await shard.forget(offsets={Partition(shard.source, 0): 7})
    await (await other.started()).commit({Partition(shard.source, 1): 6})
    with pytest.raises(PollFailed, match="another shard may have left a transaction open"):
        await other.progress_read(open_seconds=2.0)
    reading = asyncio.create_task(other.progress_read())
    await shard.started()
    assert await reading == {1: 6}
