"""What the Spark job is measured with: a topic of any length, made of captured messages, the same for the
same length.

Commit timestamps rise from message to message, and a column of the busiest table is altered again and again:
so rows of one topic have many definitions, and what becomes of a row depends on its position.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer

from benchmarks.routes import DATA, ROUTES, workloads
from relay.codecs import codec_named
from relay.io.kafka.admin import NewTopic, TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.settings import ClusterSettings, Security
from relay.model.records import ConsumerRecord

ROUTE: Final = ROUTES[0]
#: How often the table is altered in a topic.
ALTERED: Final = 20
_WORKLOADS = ("12_bulk", "09_dml")
_COMMIT_TS = re.compile(rb'"commitTs":(\d+)')
_ALTER = (
    '{"id":0,"database":"bulk_db","table":"events","pkNames":null,"isDdl":true,"type":"ALTER","es":%d,"ts":%d,'
    '"sql":"ALTER TABLE `events` MODIFY COLUMN `kind` VARCHAR(%d) NOT NULL",'
    '"sqlType":null,"mysqlType":null,"data":null,"old":null,"_tidb":{"commitTs":%d}}'
)


def messages(
    count: int, partition: int = 0, partitions: int = 1, *, data: Path = DATA
) -> Iterator[ConsumerRecord]:
    """The records of a partition: its share of `count` rows; partition 0 has the DDL of all, as its producer
    sends it. Offsets count from 0.
    """
    found = workloads(ROUTE, data)
    marks = codec_named(ROUTE.source, "from").non_ddl_marker
    assert marks is not None  # noqa: S101 - this protocol has some
    captured = [record for name in _WORKLOADS for record in found[name]]
    rows = [
        record
        for record in captured
        if marks.matches(record.key, record.value) and b"WATERMARK" not in (record.value or b"")
    ]
    control = [record for record in captured if not marks.matches(record.key, record.value)]
    values = _values(rows, count, partition, partitions)
    newest = max(record.timestamp_ms for record in captured)
    for offset, record in enumerate(itertools.chain(control if partition == 0 else (), values)):
        yield msgspec.structs.replace(
            record, partition=partition, offset=offset, timestamp_ms=newest + offset
        )


def _values(
    rows: list[ConsumerRecord], count: int, partition: int, partitions: int
) -> Iterator[ConsumerRecord]:
    first = 1 + max(int(_COMMIT_TS.findall(row.value or b"")[-1]) for row in rows)
    split = [(row, _COMMIT_TS.split(row.value or b"")) for row in rows]
    step = max(1, count // ALTERED)
    for number in range(count):
        if number % step == step - 1:
            if partition:
                continue
            millis = (first + number) >> 18
            text = _ALTER % (millis, millis, 20 + number // step, first + number)
            yield msgspec.structs.replace(rows[0], key=None, value=text.encode())
        elif number % partitions == partition:
            row, (before, _, after) = split[number % len(split)]
            yield msgspec.structs.replace(row, value=b'%s"commitTs":%d%s' % (before, first + number, after))


async def create(servers: str, topics: Iterable[str], partitions: int = 1) -> None:
    """Create topics; messages keep their timestamps, which may be older than any default retention."""
    await TopicAdmin(Brokers.from_settings(ClusterSettings(servers, Security(table="")))).create(
        [NewTopic(topic, partitions, 1, {"retention.ms": "-1"}) for topic in topics]
    )


async def fill(servers: str, topic: str, count: int, partitions: int = 1) -> None:
    """Create a topic with `count` messages."""
    await create(servers, [topic], partitions)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, compression_type="zstd", max_batch_size=900_000
    ) as producer:
        for partition in range(partitions):
            batch = producer.create_batch()
            for record in messages(count, partition, partitions):
                while batch.append(key=record.key, value=record.value, timestamp=record.timestamp_ms) is None:
                    await _send(producer, batch, topic, partition)
                    batch = producer.create_batch()
            await (await _send(producer, batch, topic, partition))


async def _send(producer: Any, batch: Any, topic: str, partition: int) -> Any:
    batch.close()
    return await producer.send_batch(batch, topic, partition=partition)
