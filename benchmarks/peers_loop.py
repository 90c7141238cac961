"""What somebody writes by hand for one table, TiCDC Canal-JSON to Canal; run by `benchmarks.peers`.

`python -m benchmarks.peers_loop simple|tuned SERVERS SOURCE TARGET`, until SIGTERM. Both know the table's
types by heart, and have one way for every message: no other table, no ALTER TABLE, no error. `simple` is
written as in aiokafka's documentation; `tuned` polls and sends whole batches, with relay's own settings.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

_TYPES: Final = {
    "id": "bigint", "wide_12_1": "int", "wide_12_2": "varchar(40)", "wide_12_3": "decimal(14,2)",
    "wide_12_4": "datetime(3)", "wide_12_5": "text", "wide_12_6": "date", "wide_12_7": "timestamp",
    "wide_12_8": "bigint", "wide_12_9": "int", "wide_12_10": "varchar(40)", "wide_12_11": "decimal(14,2)",
}  # fmt: skip


def to_canal(value: bytes, offset: int) -> bytes:
    """One message as Canal writes it: `old` holds what has changed."""
    message = orjson.loads(value)
    data, old = message["data"], message["old"]
    if old:
        old = [
            {name: cell for name, cell in before.items() if cell != after[name]}
            for before, after in zip(old, data, strict=True)
        ]
    return orjson.dumps({
        "data": data,
        "database": message["database"],
        "es": message["es"],
        "gtid": "",
        "id": offset,
        "isDdl": message["isDdl"],
        "mysqlType": None if message["isDdl"] else _TYPES,
        "old": old,
        "pkNames": message["pkNames"],
        "sql": message["sql"],
        "sqlType": message["sqlType"],
        "table": message["table"],
        "ts": message["ts"],
        "type": message["type"],
    })  # fmt: skip


async def simple(servers: str, source: str, target: str) -> None:
    """Send one message after the other."""
    consumer = AIOKafkaConsumer(
        source, bootstrap_servers=servers, group_id=target, auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, compression_type="zstd")
    async with producer, consumer:
        async for record in consumer:
            value = to_canal(record.value, record.offset)
            await producer.send(target, value, key=record.key, partition=record.partition)


async def tuned(servers: str, source: str, target: str) -> None:
    """Send what a poll gave as whole batches, and wait for their acknowledgements."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=target,
        auto_offset_reset="earliest",
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
        while True:
            polled = await consumer.getmany(timeout_ms=200)
            sent = []
            for partition, records in polled.items():
                sent += await _send(producer, target, partition.partition, records)
            await asyncio.gather(*sent)


async def _send(
    producer: AIOKafkaProducer, target: str, partition: int, records: list[ConsumerRecord[Any, Any]]
) -> list[Any]:
    sent = []
    batch = producer.create_batch()
    for record in records:
        value = to_canal(record.value, record.offset)
        while batch.append(key=record.key, value=value, timestamp=record.timestamp) is None:
            batch.close()
            sent.append(await producer.send_batch(batch, target, partition=partition))
            batch = producer.create_batch()
    batch.close()
    sent.append(await producer.send_batch(batch, target, partition=partition))
    return sent


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run({"simple": simple, "tuned": tuned}[sys.argv[1]](*sys.argv[2:]))
