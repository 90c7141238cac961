"""The source of the Spark benchmark: a topic of any length, made of captured messages, the same for the same
parameters.

Commit timestamps rise from message to message, and a table is altered again and again: so rows of one topic
have many definitions, and the translation of a row depends on its position.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from benchmarks.routes import DATA, ROUTES, workloads
from relay.codecs import codec_named
from relay.io.kafka.admin import NewTopic, TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.settings import ClusterSettings, Security
from relay.model.records import ConsumerRecord

ROUTE: Final = ROUTES[0]
#: The usual number of ALTER statements in a topic.
ALTERED: Final = 20
_WORKLOADS = ("12_bulk", "09_dml")
#: The captured table with the most rows; of many tables, each has its columns and rows.
_TABLE: Final = b"events"
_PARTS: Final = re.compile(rb'(.*?"table":")([^"]*)(".*"commitTs":)(\d+)(.*)', re.DOTALL)
_ALTER: Final = (
    b'{"id":0,"database":"bulk_db","table":"%b","pkNames":null,"isDdl":true,"type":"ALTER","es":%d,"ts":%d,'
    b'"sql":"ALTER TABLE `%b` MODIFY COLUMN `kind` VARCHAR(%d) NOT NULL",'
    b'"sqlType":null,"mysqlType":null,"data":null,"old":null,"_tidb":{"commitTs":%d}}'
)


class Load(NamedTuple):
    """The contents of a topic: `messages` besides the captured DDL.

    tables: 1 for the captured tables as they are; else as many tables like the busiest of them, in turn.
    alters: The number of ALTER statements among the messages, at equal distances.
    """

    messages: int
    partitions: int = 1
    tables: int = 1
    alters: int = ALTERED

    def records(self, partition: int = 0, *, data: Path = DATA) -> Iterator[ConsumerRecord]:
        """Yield the records of a partition, with offsets from 0.

        Partition 0 has the DDL of all partitions, as TiCDC sends it.
        """
        found = workloads(ROUTE, data)
        marks = codec_named(ROUTE.source, "from").non_ddl_marker
        assert marks is not None  # noqa: S101 - this protocol has some
        captured = [record for name in _WORKLOADS for record in found[name]]
        rows = [
            _Row.of(record)
            for record in captured
            if marks.matches(record.key, record.value) and b"WATERMARK" not in (record.value or b"")
        ]
        control = [record for record in captured if not marks.matches(record.key, record.value)]
        first = 1 + max(row.commit_ts for row in rows)
        if self.tables > 1:
            rows = [row for row in rows if row.table == _TABLE]
            control = [*self._definitions(control)]
        newest = max(record.timestamp_ms for record in captured)
        values = self._values(rows, first, partition)
        for offset, record in enumerate(itertools.chain(control if partition == 0 else (), values)):
            yield msgspec.structs.replace(
                record, partition=partition, offset=offset, timestamp_ms=newest + offset
            )

    def _definitions(self, control: Sequence[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Yield the DDL of the busiest table's database, with that table's statements for each table."""
        for record in control:
            value = record.value or b""
            if b'"table":"%b"' % _TABLE in value:
                for number in range(self.tables):
                    named = re.sub(rb"\b%b\b" % _TABLE, self._name(number), value)
                    yield msgspec.structs.replace(record, value=named)
            elif b"CREATE DATABASE" in value:
                yield record

    def _values(self, rows: Sequence[_Row], first: int, partition: int) -> Iterator[ConsumerRecord]:
        step = max(1, self.messages // self.alters) if self.alters else self.messages + 1
        for number in range(self.messages):
            # ALTERs take no turn, or a table could have no rows.
            altered = min((number + 1) // step, self.alters)
            turn = number - altered
            if altered * step == number + 1:
                if partition:
                    continue
                table, millis = self._name((altered - 1) % self.tables), (first + number) >> 18
                text = _ALTER % (table, millis, millis, table, 19 + altered, first + number)
                yield msgspec.structs.replace(rows[0].record, key=None, value=text)
            elif turn % self.partitions == partition:
                row = rows[turn // self.tables % len(rows)]
                name = self._name(turn % self.tables) if self.tables > 1 else row.table
                value = b"%b%b%b%d%b" % (row.before, name, row.between, first + number, row.after)
                yield msgspec.structs.replace(row.record, value=value)

    def _name(self, number: int) -> bytes:
        return b"t%04d" % number if self.tables > 1 else _TABLE


class _Row(NamedTuple):
    """A captured row; `before`, `between` and `after` are the text around its table and commit ts."""

    record: ConsumerRecord
    table: bytes
    commit_ts: int
    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, record: ConsumerRecord) -> _Row:
        found = _PARTS.fullmatch(record.value or b"")
        assert found  # noqa: S101 - all captured rows have both
        before, table, between, commit_ts, after = found.groups()
        return cls(record, table, int(commit_ts), before, between, after)


def messages(
    count: int, partition: int = 0, partitions: int = 1, *, data: Path = DATA
) -> Iterator[ConsumerRecord]:
    """Yield the records of a partition of a `Load` of the captured tables."""
    return Load(count, partitions).records(partition, data=data)


async def create(servers: str, topics: Iterable[str], partitions: int = 1) -> None:
    """Create topics; messages keep their timestamps, which may be older than any default retention."""
    await TopicAdmin(Brokers.from_settings(ClusterSettings(servers, Security(table="")))).create(
        [NewTopic(topic, partitions, 1, {"retention.ms": "-1"}) for topic in topics]
    )


async def delete(servers: str, topics: Iterable[str]) -> None:
    """Delete topics, so that later runs find the disk as earlier ones did."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        await admin.delete_topics([*topics])
    finally:
        await admin.close()


async def fill(servers: str, topic: str, count: int, partitions: int = 1) -> None:
    """Create a topic with a `Load` of the captured tables."""
    await create(servers, [topic], partitions)
    await _produce(servers, topic, Load(count, partitions), range(partitions))


Fill = Callable[[str, str, Load], None]


@contextmanager
def filling() -> Iterator[Fill]:
    """Provide a function that creates a topic with a `Load`, by one process per core."""
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:

        def filled(servers: str, topic: str, load: Load) -> None:
            asyncio.run(create(servers, [topic], load.partitions))
            shares = [range(at, load.partitions, processes) for at in range(processes)]
            futures = [pool.submit(_produce_share, servers, topic, load, share) for share in shares if share]
            for future in futures:
                future.result()

        yield filled


def _produce_share(servers: str, topic: str, load: Load, partitions: Collection[int]) -> None:
    asyncio.run(_produce(servers, topic, load, partitions))


async def _produce(servers: str, topic: str, load: Load, partitions: Collection[int]) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=servers, compression_type="zstd", max_batch_size=900_000
    ) as producer:
        for partition in partitions:
            batch = producer.create_batch()
            for record in load.records(partition):
                while batch.append(key=record.key, value=record.value, timestamp=record.timestamp_ms) is None:
                    await _send(producer, batch, topic, partition)
                    batch = producer.create_batch()
            await (await _send(producer, batch, topic, partition))


async def _send(producer: Any, batch: Any, topic: str, partition: int) -> Any:
    batch.close()
    return await producer.send_batch(batch, topic, partition=partition)
