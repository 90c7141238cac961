"""The least that a JSON relay on aiokafka must do; run as a process of its own by `benchmarks.kafka`.

`python -m benchmarks.floor_loop SERVERS SOURCE TARGET`: `getmany`, `orjson.dumps(orjson.loads(value))`,
`send_batch`, until SIGTERM. No offsets, no groups, no error handling: relay is compared with what the client
library costs, not with another relay. Fetch and produce settings are relay's defaults.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition


async def main(servers: str, source: str, target: str) -> None:
    """Copy until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=2_097_152,
        max_partition_fetch_bytes=262_144,
        fetch_max_wait_ms=50,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        acks="all",
        enable_idempotence=True,
        compression_type="zstd",
        max_batch_size=900_000,
    )
    async with producer, consumer:
        consumer.assign(
            [TopicPartition(source, number) for number in sorted(await _partitions(producer, source))]
        )
        while not stopping.is_set():
            polled = await consumer.getmany(timeout_ms=200)
            sent = []
            for partition, records in polled.items():
                sent += await _send(producer, target, partition.partition, records)
            await asyncio.gather(*sent)


async def _partitions(producer: AIOKafkaProducer, topic: str) -> set[int]:
    return set(await producer.partitions_for(topic))


async def _send(
    producer: AIOKafkaProducer, target: str, partition: int, records: list[ConsumerRecord[Any, Any]]
) -> list[Any]:
    sent = []
    batch = producer.create_batch()
    for record in records:
        value = orjson.dumps(orjson.loads(record.value))
        while batch.append(key=record.key, value=value, timestamp=record.timestamp) is None:
            batch.close()
            sent.append(await producer.send_batch(batch, target, partition=partition))
            batch = producer.create_batch()
    batch.close()
    sent.append(await producer.send_batch(batch, target, partition=partition))
    return sent


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
