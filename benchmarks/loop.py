"""The relay's loop without a broker, next to a minimal aiokafka loop: `python -m benchmarks.loop`.

Everything is real from a fetched partition, as a broker sends it, to a batch that is ready to be sent, but no
compression and no sockets: the parser and the batches of aiokafka, the source, loop and sink of `relay run`.
The programs take turns, each in a process of its own, by processor time. `relay-bare` is given finished
records at almost no cost, so what is left of it is the loop alone; a copy is the least that a loop on this
client costs.

`--program NAME` runs one of them once in this process, so that a profiler sees it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.routes import DATA, ROUTES, workloads
from relay.config import Config
from relay.config.kafka import consumer_settings, producer_settings
from relay.core.translator import Translator
from relay.io import kernel
from relay.io.kafka.ports import Owner, Partition, StartPosition
from relay.io.kafka.process_tuning import tune
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.source import KafkaSource
from relay.io.logs import Log
from relay.model.events import RowChange
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.history import Schemas
from relay.service.loop.relay_loop import Relay
from relay.service.loop.translation_stage import TranslationStage
from relay.service.observe.about import About
from relay.service.observe.status import Status

COPY, FLOOR, BARE, RELAY = PROGRAMS = ("copy", "floor", "relay-bare", "relay")
_ROUTE = ROUTES[0]
_WORKLOADS = ("12_bulk", "09_dml")
_PARTITIONS: Final = 4
_BATCH_BYTES: Final = 900_000
#: As many as a fetch of 256 KiB has of rows that compress to a tenth.
_FETCH_BATCHES: Final = 3
_TOPIC = "bench"
_FETCHES, _ROUNDS = 8, 7
_CONFIG: Final[dict[str, Any]] = {
    "route": {"from": _ROUTE.source, "to": _ROUTE.target},
    "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [_TOPIC], "group_id": "bench"},
    "target": {"topic": "target", "compression": "none"},
    "schema": {"history_topic": ""},
}


class _Load:
    """What a broker has: the DDL of all tables, and a fetch of rows for each partition."""

    def __init__(self) -> None:
        found = workloads(_ROUTE, DATA)
        reader = _translator()
        self.control: list[ConsumerRecord] = []
        rows: list[ConsumerRecord] = []
        for record in itertools.chain.from_iterable(found[name] for name in _WORKLOADS):
            is_row = all(isinstance(event, RowChange) for event in reader.inspect(record))
            (rows if is_row else self.control).append(record)
        self.rows = rows
        self.fetches = {TopicPartition(_TOPIC, at): _fetched(rows) for at in range(_PARTITIONS)}
        self.records = sum(count for _, count in self.fetches.values())


def _fetched(rows: Sequence[ConsumerRecord]) -> tuple[bytes, int]:
    """Fill a fetch of one partition with batches; return it and how many records it has."""
    batches: list[bytes] = []
    builder, first = _builder(), 0
    for offset, row in enumerate(itertools.cycle(rows)):
        time_ms = row.timestamp_ms + offset
        if builder.append(offset - first, time_ms, row.key, row.value, []) is None:
            batches.append(first.to_bytes(8, "big") + bytes(builder.build())[8:])
            if len(batches) == _FETCH_BATCHES:
                return b"".join(batches), offset
            builder, first = _builder(), offset
            builder.append(0, time_ms, row.key, row.value, [])
    raise AssertionError


def _builder() -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, _BATCH_BYTES)


class _Position:
    """The subscription of one partition, as a fetch asks for it."""

    active, paused, position = True, False, 0

    def state_value(self, _: TopicPartition) -> _Position:
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


class _Client:
    """A consumer that fetches all partitions so many times; then it calls `ended`."""

    ended: Callable[[], object]

    def __init__(self, load: _Load, fetches: int) -> None:
        self._load, self._left = load, fetches
        self._fetched: dict[TopicPartition, FetchResult] = {}
        self.began = 0.0

    async def getmany(
        self,
        *_: TopicPartition,
        timeout_ms: int,  # noqa: ARG002 - as in aiokafka
        max_records: int | None = None,
    ) -> dict[TopicPartition, Sequence[Any]]:
        """Return what aiokafka's `Fetcher.fetched_records` would."""
        if not self.began:
            self.began = time.process_time()
        if not self._fetched:
            if not self._left:
                self.ended()
                await asyncio.sleep(0)
                return {}
            self._left -= 1
            self._fetched = {pair: self._fetch(pair, data) for pair, (data, _) in self._load.fetches.items()}
        found = {pair: fetched.getall(max_records) for pair, fetched in self._fetched.items()}
        self._fetched = {pair: fetched for pair, fetched in self._fetched.items() if fetched.has_more()}
        return found

    def _fetch(self, pair: TopicPartition, data: bytes) -> FetchResult:
        records = PartitionRecords(pair, fetcher.MemoryRecords(data), [], 0, None, None, True, 1)
        return FetchResult(pair, assignment=_Position(), partition_records=records, backoff=0)

    def highwater(self, _: TopicPartition) -> int:
        return 0

    def last_poll_timestamp(self, _: TopicPartition) -> None:
        return None

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        pass


class _Source(KafkaSource):
    """A source of that client, which owns all partitions."""

    def __init__(self, config: Config, client: _Client) -> None:
        super().__init__(consumer_settings(config))
        self._unused, self.consumer = self.consumer, client

    async def start(self, owner: Owner) -> None:
        await self._unused.stop()
        owner.assigned(self.partitions())

    async def open(
        self,
        partitions: Sequence[Partition],
        at_least: Mapping[Partition, int],  # noqa: ARG002 - as in KafkaSource
    ) -> dict[Partition, StartPosition]:
        return {partition: StartPosition(0, committed=True) for partition in partitions}

    def partitions(self) -> Sequence[Partition]:
        return [Partition(_TOPIC, at) for at in range(_PARTITIONS)]

    def position_of(self, partition: Partition) -> int | None:  # noqa: ARG002 - as in KafkaSource
        return None

    async def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:  # noqa: ARG002 - as in KafkaSource
        return {}

    async def waiting(self) -> bool | None:
        return False

    async def stop(self) -> None:
        pass


class _Sink(KafkaSink):
    """A sink whose batches are acknowledged as soon as they are made."""

    async def start(self) -> None:
        await self.producer.stop()

    async def send(self, partition: Partition, batch: Any) -> asyncio.Future[object]:  # noqa: ARG002 - as in KafkaSink
        batch.closed()
        acknowledged = asyncio.get_running_loop().create_future()
        acknowledged.set_result(None)
        return acknowledged

    async def expect(self, topics: Collection[str]) -> None:
        pass

    async def stop(self) -> None:
        pass


class _Finished(Translator):
    """Gives a record that was made before."""

    def __init__(self, record: ConsumerRecord) -> None:
        super().__init__(_ROUTE.source, _ROUTE.target)
        header = (SOURCE_HEADER, f"{_TOPIC}/0/123456/0".encode())
        self._finished = [
            [ProducerRecord("target", at, record.timestamp_ms, None, record.value, (header,))]
            for at in range(_PARTITIONS)
        ]

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        return self._finished[record.partition]


def _translator() -> Translator:
    engine = kernel.engine(kernel.mode())
    return Translator(
        _ROUTE.source, _ROUTE.target, _ROUTE.source_options, _ROUTE.target_options, engine=engine
    )


async def _no_earlier_output() -> str:
    return ""


async def _no_reason(_: str) -> str:
    return ""


async def _relay(load: _Load, fetches: int, translator: Translator) -> float:
    config = Config(**_CONFIG)
    status, log = Status(About.of(config)), Log(sys.stderr)
    stage = TranslationStage(translator, AsyncResolver(log, writes=False), log, status)
    client = _Client(load, fetches)
    relay = Relay(
        lambda: _Source(config, client),
        lambda: _Sink(producer_settings(config), {}),
        stage,
        log,
        status,
        Schemas(config, translator, log, status),
        check_topics=_nothing,
        find_reason=_no_reason,
        find_earlier_output=_no_earlier_output,
    )
    client.ended = relay.request_stop
    await relay.run()
    return time.process_time() - client.began


async def _nothing() -> None:
    pass


async def _minimal(load: _Load, fetches: int, change: Callable[[bytes], bytes]) -> float:
    """`benchmarks.floor_loop` without its sockets."""
    producer = AIOKafkaProducer(max_batch_size=_BATCH_BYTES)
    await producer.stop()
    is_over = asyncio.Event()
    client = _Client(load, fetches)
    client.ended = is_over.set
    while not is_over.is_set():
        for records in (await client.getmany(timeout_ms=200)).values():
            batch = producer.create_batch()
            for record in records:
                value = change(record.value)
                while batch.append(key=record.key, value=value, timestamp=record.timestamp) is None:
                    batch.close()
                    batch = producer.create_batch()
            batch.close()
    return time.process_time() - client.began


def run(program: str, fetches: int) -> float:
    """Run a program; return microseconds of processor time a record, without its start."""
    load = _Load()
    if program in {COPY, FLOOR}:
        change = bytes if program == COPY else _reprinted
        seconds = asyncio.run(_minimal(load, fetches, change))
    else:
        translator = _Finished(load.rows[0]) if program == BARE else _translator()
        for record in load.control:
            Translator.translate(translator, record)
        tune()
        seconds = asyncio.run(_relay(load, fetches, translator))
    return seconds * 1e6 / (fetches * load.records)


def _reprinted(value: bytes) -> bytes:
    return orjson.dumps(orjson.loads(value))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description=__doc__)
    parser.add_argument("--program", choices=PROGRAMS, help="run this one once, in this process")
    parser.add_argument("--fetches", type=int, default=_FETCHES, metavar="N", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, metavar="N", help="default: %(default)s")
    given = parser.parse_args()
    if given.program:
        print(run(given.program, given.fetches))
        return 0
    rounds = [[_in_a_process(program, given.fetches) for program in PROGRAMS] for _ in range(given.rounds)]
    print("program      µs a record   of the loop")
    for at, program in enumerate(PROGRAMS):
        ratio = statistics.median(each[at] / each[PROGRAMS.index(FLOOR)] for each in rounds)
        print(f"{program:12} {min(each[at] for each in rounds):11.3f} {ratio:13.2f}")
    return 0


def _in_a_process(program: str, fetches: int) -> float:
    command = [sys.executable, "-m", "benchmarks.loop", "--program", program, "--fetches", str(fetches)]
    return float(subprocess.run(command, check=True, capture_output=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
