"""The relay on a real Apache Kafka, from a topic with many tables into one topic and into a topic a table.

The two take turns, each a process of its own, on topics that exist and hold something: a broker that has
written little to a partition makes its index files first, which on some file systems takes longer than all
the rest. Speed and processor time are counted from the moment when every table's DDL is through.
"""

from __future__ import annotations

import asyncio
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.kafka import Run, RunFailed, cpu_seconds, peak_mb, wait
from benchmarks.routes import ROUTES, Route, relay_config, workloads
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions
from relay.io.kafka.admin import NewTopic, TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.settings import ClusterSettings, Security

TABLES = 1_000
ONE, MANY = "one topic", "a topic a table"
_SOURCE, _TEMPLATES = "bench-tables", {ONE: "tables", MANY: "tables.{table}"}
_TABLE = b"events"
#: Otherwise a broker makes two files of 10 MiB for each partition; at its first index entry, after 4 KiB.
_SETTINGS = {"retention.ms": "-1", "segment.index.bytes": "65536"}
_WARM_BYTES, _WARM_RECORDS = 5_000, 3
_TOGETHER = 200
_LOOKED_AT = 10
_POLL_SECONDS = 0.1
_RUN_SECONDS = 600


class TablesResult(msgspec.Struct, frozen=True):
    """The report: both over all their runs, and the share of the one topic's speed and processor time that
    the many have.
    """

    route: str
    tables: int
    messages: int
    overall: list[Run]
    ratio: float
    cpu_ratio: float
    runs: list[Run]


def measure(data: Path, messages: int, rounds: int, progress: Callable[[str], None]) -> TablesResult:
    """Start a broker, fill a source topic, and let the two take turns. Raises RunFailed when one does."""
    route = ROUTES[0]
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
        with Cluster(Path(folder, "kafka"), options=options, progress=progress) as cluster:
            progress(f"tables: making {TABLES} topics")
            asyncio.run(_prepare(cluster.bootstrap_servers, route, data, messages))
            runs = []
            for number in range(rounds):
                for what in (ONE, MANY):
                    progress(f"tables: {what}, round {number + 1} of {rounds}")
                    bench = _Bench(cluster.bootstrap_servers, Path(folder), route, messages)
                    runs.append(bench.run(what, number))
    one, many = (_overall(what, [run for run in runs if run.program == what]) for what in (ONE, MANY))
    return TablesResult(
        route=str(route),
        tables=TABLES,
        messages=messages,
        overall=[one, many],
        ratio=many.messages_per_second / one.messages_per_second,
        cpu_ratio=one.cpu_seconds / many.cpu_seconds,
        runs=runs,
    )


def _topics(what: str) -> list[str]:
    template = _TEMPLATES[what]
    return [template.format(table=_table(at)) for at in range(TABLES)] if what == MANY else [template]


def _table(number: int) -> str:
    return f"t{number:04d}"


def _messages(route: Route, data: Path, count: int) -> Iterator[bytes]:
    """The DDL of every table, then rows of the tables in turn."""
    found = [record.value or b"" for record in workloads(route, data)["12_bulk"]]
    statement = next(value for value in found if b"CREATE TABLE `%b`" % _TABLE in value)
    rows = [value for value in found if b'"isDdl":false' in value and b'"table":"%b"' % _TABLE in value]
    for table in range(TABLES):
        yield re.sub(rb"\b%b\b" % _TABLE, _table(table).encode(), statement)
    for number in range(count):
        row = rows[number // TABLES % len(rows)]
        yield row.replace(b'"table":"%b"' % _TABLE, b'"table":"%b"' % _table(number % TABLES).encode(), 1)


async def _prepare(servers: str, route: Route, data: Path, messages: int) -> None:
    admin = TopicAdmin(Brokers.from_settings(ClusterSettings(servers, Security(table="target"))))
    targets = [*_topics(ONE), *_topics(MANY)]
    names = [_SOURCE, *targets]
    for at in range(0, len(names), _TOGETHER):
        some = [NewTopic(name, 1, -1, _SETTINGS) for name in names[at : at + _TOGETHER]]
        if refused := await admin.create(some):
            raise RunFailed(f"topics were not made: {refused}")
    async with AIOKafkaProducer(
        bootstrap_servers=servers,
        compression_type="zstd",
        max_batch_size=900_000,
        request_timeout_ms=1_000 * _RUN_SECONDS,
    ) as producer:
        batch = producer.create_batch()
        for offset, value in enumerate(_messages(route, data, messages)):
            time_ms = 1_700_000_000_000 + offset
            while batch.append(key=None, value=value, timestamp=time_ms) is None:
                batch.close()
                await producer.send_batch(batch, _SOURCE, partition=0)
                batch = producer.create_batch()
        batch.close()
        await (await producer.send_batch(batch, _SOURCE, partition=0))
        for _ in range(_WARM_RECORDS):
            for at in range(0, len(targets), _TOGETHER):
                some_names = targets[at : at + _TOGETHER]
                value = bytes(_WARM_BYTES)
                sent = [await producer.send(name, value, partition=0) for name in some_names]
                await asyncio.gather(*sent)


class _Bench:
    """One run: what it writes, and how it is followed."""

    def __init__(self, servers: str, folder: Path, route: Route, messages: int) -> None:
        self._servers, self._folder, self._route, self._messages = servers, folder, route, messages

    def run(self, what: str, number: int) -> Run:
        """Run relay until it has written everything, then stop it."""
        group = f"{'many' if what == MANY else 'one'}-{number}"
        config = self._folder / f"{group}.toml"
        config.write_text(relay_config(self._route, self._servers, _SOURCE, _TEMPLATES[what], group))
        followed = _topics(what)[:: TABLES // _LOOKED_AT]
        before = asyncio.run(self._written(followed))
        log = self._folder / f"{group}.log"
        with log.open("wb") as output:
            command = [sys.executable, "-m", "relay", "run", "--config", str(config)]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            speed, cpu = asyncio.run(self._watch(process, followed, before))
            peak = peak_mb(process.pid)
            process.send_signal(signal.SIGTERM)
            wait(process)
            return Run(what, speed, cpu, peak)
        except RunFailed as error:
            error.add_note(log.read_text(errors="replace")[-2000:])
            raise
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()

    async def _written(self, topics: Sequence[str]) -> int:
        async with AIOKafkaConsumer(bootstrap_servers=self._servers, enable_auto_commit=False) as consumer:
            return sum((await consumer.end_offsets([TopicPartition(name, 0) for name in topics])).values())

    async def _watch(
        self, process: subprocess.Popen[bytes], topics: Sequence[str], before: int
    ) -> tuple[float, float]:
        """Follow some topics to their ends: messages a second, and CPU seconds for 100 000 of them."""
        tables_each = TABLES if len(topics) == 1 else 1
        statements = tables_each * len(topics)
        expected = statements + self._messages * statements // TABLES
        began: tuple[int, float, float] | None = None
        pairs, deadline = [TopicPartition(name, 0) for name in topics], time.monotonic() + _RUN_SECONDS
        async with AIOKafkaConsumer(bootstrap_servers=self._servers, enable_auto_commit=False) as consumer:
            while True:
                written = sum((await consumer.end_offsets(pairs)).values()) - before
                now, cpu = time.perf_counter(), cpu_seconds(process.pid)
                if written >= expected:
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RunFailed(f"wrote {written} of {expected} messages, status {process.returncode}")
                if began is None and written > statements:
                    began = written, now, cpu
                await asyncio.sleep(_POLL_SECONDS)
        if began is None:
            raise RunFailed("was through before its first rows were seen; ask for more messages")
        first, since, cpu_before = began
        messages = (written - first) * TABLES / statements
        return messages / (now - since), (cpu - cpu_before) * 100_000 / messages


def _overall(what: str, runs: Sequence[Run]) -> Run:
    """The best of each: what else the machine does slows both, but not at the same time."""
    return Run(
        what,
        max(run.messages_per_second for run in runs),
        min(run.cpu_seconds for run in runs),
        statistics.fmean(run.peak_mb for run in runs),
    )
