"""The same rows of one table three times, as the peers read them: TiCDC Canal-JSON, Open Protocol, Debezium.

No value comes twice among them (`wide`). A topic has them again and again, but never twice in a batch, so that
they compress as all different ones would. A message is a row, in Open Protocol too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer

from benchmarks import wide
from benchmarks.routes import Route
from benchmarks.spark_load import create
from relay.records import ConsumerRecord, ProducerRecord
from relay.translator import Translator

TABLE: Final = "wide_12"
PARTITIONS: Final = 4
CANAL: Final = Route(wide.PROTOCOL, "canal-json", "")
DEBEZIUM: Final = Route(
    "ticdc-open-protocol", "ticdc-debezium", "", target_options={"debezium-disable-schema": "true"}
)
_TO_OPEN: Final = Route(wide.PROTOCOL, DEBEZIUM.source, "")
_BATCH_BYTES: Final = 900_000


class Topic(NamedTuple):
    """A source topic: the DDL in every partition, as TiCDC sends it, then rows, spread over all."""

    name: str
    control: Sequence[ConsumerRecord]
    rows: Sequence[ConsumerRecord]

    def records(self, partition: int, messages: int) -> Iterator[ConsumerRecord]:
        """Give a partition's share of so many rows, the control messages before them."""
        share = itertools.islice(itertools.cycle(self.rows), partition, messages, PARTITIONS)
        return itertools.chain(self.control, share)

    def count(self, messages: int) -> int:
        """How many messages the topic has with so many rows."""
        return PARTITIONS * len(self.control) + messages

    @property
    def bytes_per_message(self) -> float:
        """Keys and values of rows."""
        return sum(len(row.key or b"") + len(row.value or b"") for row in self.rows) / len(self.rows)


class Load(NamedTuple):
    """The three topics, and what relay itself makes of the rows on both routes, with the DDL."""

    ticdc: Topic
    open_protocol: Topic
    debezium: Topic
    as_canal: Sequence[Any]
    as_debezium: Sequence[Any]


def load(rows: int) -> Load:
    """Make so many rows, each of its own; the Debezium topic has no DDL, which Debezium sends elsewhere."""
    ticdc = list(wide.messages(TABLE, rows))
    open_protocol = _consumed(_translated(_TO_OPEN, ticdc))
    canal, debezium = _translated(CANAL, ticdc), _translated(DEBEZIUM, open_protocol)
    return Load(
        Topic("peers-ticdc", ticdc[:1], ticdc[1:]),
        Topic("peers-open", open_protocol[:1], open_protocol[1:]),
        Topic("peers-debezium", [], _consumed(debezium)[1:]),
        [orjson.loads(record.value or b"") for record in canal],
        [orjson.loads(record.value or b"") for record in debezium],
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


async def fill(servers: str, topic: Topic, messages: int) -> None:
    """Create the topic and write it, compressed with zstd."""
    await create(servers, [topic.name], PARTITIONS)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, compression_type="zstd", max_batch_size=_BATCH_BYTES
    ) as producer:
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            for record in topic.records(partition, messages):
                while batch.append(key=record.key, value=record.value, timestamp=record.timestamp_ms) is None:
                    batch.close()
                    await producer.send_batch(batch, topic.name, partition=partition)
                    batch = producer.create_batch()
            batch.close()
            await (await producer.send_batch(batch, topic.name, partition=partition))


def stored_bytes(broker: Path, topic: str) -> int:
    """How much a topic takes on the broker's disk, compressed."""
    return sum(log.stat().st_size for log in broker.glob(f"node-*/data/{topic}-[0-9]*/*.log"))
