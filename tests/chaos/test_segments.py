"""The broker's own log is read rightly: committed, aborted and open transactions of two producers, and
records without one.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker_support import broker_options

from chaos.broker import broker_at
from chaos.segments import read_partition
from chaos.verify import Fate
from relay.demo.kafka import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="relay-tests-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def send(producer: AIOKafkaProducer, topic: str, *values: bytes) -> None:
    await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in values])


async def test_the_fate_of_every_record_is_known(home: Path) -> None:
    with Cluster(home / "kafka", options=broker_options()) as cluster:
        servers = cluster.bootstrap_servers
        async with (
            broker_at(servers) as broker,
            AIOKafkaProducer(bootstrap_servers=servers, transactional_id="one") as one,
            AIOKafkaProducer(
                bootstrap_servers=servers, transactional_id="two", compression_type="zstd"
            ) as two,
            AIOKafkaProducer(bootstrap_servers=servers) as plain,
        ):
            topic = await broker.create("fates", 1)
            await send(plain, topic, b"0")
            await one.begin_transaction()
            await two.begin_transaction()
            await send(one, topic, b"1")
            await send(two, topic, b"2", b"3")
            await one.commit_transaction()
            await two.abort_transaction()
            await one.begin_transaction()
            await send(one, topic, b"6")
            log = read_partition(home / "kafka" / "node-1" / "data" / f"{topic}-0")
            assert await broker.ends(topic) == {0: log.end, 1: 0, 2: 0, 3: 0}
            assert await broker.ends(topic, committed=True) == {0: log.end - 1, 1: 0, 2: 0, 3: 0}
            await one.abort_transaction()
    assert [(offset, str(fate)) for offset, fate in sorted(log.fates.items())] == [
        (0, Fate.PLAIN),
        (1, Fate.COMMITTED),
        (2, Fate.ABORTED),
        (3, Fate.ABORTED),
        (6, Fate.OPEN),
    ]
