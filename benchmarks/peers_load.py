"""The same rows of one table three times: in TiCDC Canal-JSON, in Open Protocol, in Debezium's JSON.

No value comes twice among them (`wide`). A topic has them again and again, but never twice in a batch, so
that they compress as all different ones would. A message is a row, in Open Protocol too.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer

from benchmarks import wide
from benchmarks.routes import Route
from benchmarks.spark_load import create
from relay.core.translator import Translator
from relay.model.records import ConsumerRecord, ProducerRecord

TABLE: Final = "wide_12"
PARTITIONS: Final = 4
CANAL: Final = Route(wide.PROTOCOL, "canal-json", "")
DEBEZIUM: Final = Route(
    "ticdc-open-protocol", "ticdc-debezium", "", target_options={"debezium-disable-schema": "true"}
)
_TO_OPEN: Final = Route(wide.PROTOCOL, DEBEZIUM.source, "")
_BATCH_BYTES: Final = 900_000
_SETTLE_SECONDS: Final = 0.5


class Size(NamedTuple):
    """How many rows are counted, and how many come before them to warm a program up: a JVM compiles what runs
    often, and the more of it the longer it runs.
    """

    counted: int
    warm_up: int
    jvm_warm_up: int


class Topic(NamedTuple):
    """A source topic: the DDL in every partition, as TiCDC sends it, then rows, spread over all."""

    name: str
    control: Sequence[ConsumerRecord]
    rows: Sequence[ConsumerRecord]
    warm_up: int
    counted: int

    @property
    def messages(self) -> int:
        """How many rows the topic has, of which `rows` are the first; they come again and again."""
        return self.warm_up + self.counted

    def records(self, partition: int) -> Iterator[ConsumerRecord]:
        """Give a partition's messages."""
        share = itertools.islice(itertools.cycle(self.rows), partition, self.messages, PARTITIONS)
        return itertools.chain(self.control, share)

    @property
    def bytes_per_row(self) -> float:
        """Keys and values."""
        return sum(len(row.key or b"") + len(row.value or b"") for row in self.rows) / len(self.rows)


class Load(NamedTuple):
    """What the programs read, `for_jvm` with a longer warm-up; and what relay itself makes of the rows on
    both routes, with the DDL.
    """

    ticdc: Topic
    open_protocol: Topic
    ticdc_for_jvm: Topic
    debezium_for_jvm: Topic
    as_canal: Sequence[Any]
    as_debezium: Sequence[Any]

    @property
    def topics(self) -> list[Topic]:
        """All source topics."""
        return [self.ticdc, self.open_protocol, self.ticdc_for_jvm, self.debezium_for_jvm]


def load(rows: int, size: Size) -> Load:
    """Make so many rows, each of its own; the Debezium topic has no DDL, which Debezium sends elsewhere."""
    ticdc = list(wide.messages(TABLE, rows))
    open_protocol = _consumed(_translated(_TO_OPEN, ticdc))
    canal, debezium = _translated(CANAL, ticdc), _translated(DEBEZIUM, open_protocol)

    def topic(name: str, messages: Sequence[ConsumerRecord], warm_up: int) -> Topic:
        return Topic(f"{name}-{warm_up}", messages[:1], messages[1:], warm_up, size.counted)

    return Load(
        ticdc=topic("ticdc", ticdc, size.warm_up),
        open_protocol=topic("open", open_protocol, size.warm_up),
        ticdc_for_jvm=topic("ticdc", ticdc, size.jvm_warm_up),
        debezium_for_jvm=topic("debezium", _consumed(debezium), size.jvm_warm_up)._replace(control=[]),
        as_canal=[orjson.loads(record.value or b"") for record in canal],
        as_debezium=[orjson.loads(record.value or b"") for record in debezium],
    )


def _translated(route: Route, records: Sequence[ConsumerRecord]) -> list[ProducerRecord]:
    translator = Translator(route.source, route.target, route.source_options, route.target_options)
    found = [output for record in records for output in translator.translate(record)]
    if len(found) != len(records):
        raise ValueError(f"{route} made {len(found)} messages of {len(records)}; one of each was expected")
    return found


def _consumed(records: Sequence[ProducerRecord]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(each.topic, 0, offset, each.timestamp_ms, each.key, each.value)
        for offset, each in enumerate(records)
    ]


async def prepare(servers: str, topic: str) -> None:
    """Create a topic; the broker answers before it knows the leaders of the new partitions."""
    await create(servers, [topic], PARTITIONS)
    await asyncio.sleep(_SETTLE_SECONDS)


async def fill(servers: str, topic: Topic) -> None:
    """Create the topic and write it, compressed with zstd."""
    await prepare(servers, topic.name)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, compression_type="zstd", max_batch_size=_BATCH_BYTES
    ) as producer:
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            for record in topic.records(partition):
                while batch.append(key=record.key, value=record.value, timestamp=record.timestamp_ms) is None:
                    batch.close()
                    await producer.send_batch(batch, topic.name, partition=partition)
                    batch = producer.create_batch()
            batch.close()
            await (await producer.send_batch(batch, topic.name, partition=partition))


def stored_bytes(broker: Path, topic: str) -> int:
    """How much a topic takes on the broker's disk, compressed."""
    return sum(log.stat().st_size for log in broker.glob(f"node-*/data/{topic}-[0-9]*/*.log"))
