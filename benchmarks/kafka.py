"""The relay on a real Apache Kafka, next to a minimal aiokafka loop on the same broker, messages and
settings, with and without kernel; and the relay in two processes, next to one.

Every run is a process of its own with a fresh target topic; the two take turns, so that a busy moment hits
both alike. Speed and processor time are counted from the moment when the first output is seen, so that
starting Python and joining a group do not count; both processes share the machine with the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks import wide
from benchmarks.routes import ROUTES, Route, relay_config, workloads
from relay.core.translator import Translator
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions
from relay.io.kernel import VARIABLE, KernelMode, engine_name
from relay.model.events import RowChange
from relay.model.records import ConsumerRecord

PARTITIONS = 4
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.5
_RUN_SECONDS = 600
_STOP_SECONDS = 60
_WORKLOADS = ("12_bulk", "09_dml")
#: Made messages that differ: so many, or so many columns in all; they are written again and again.
_MADE_MESSAGES, _MADE_COLUMNS = 20_000, 800_000
#: What is measured beside captured messages.
_MADE = ("wide_12", "wide_40", "wide_200", "tables_100", "tables_1000")
#: Maximum total columns of a load, so that it fits on a broker.
_MOST_COLUMNS = 8_000_000
FLOOR, RELAY, TWO = "aiokafka loop", "relay run", "relay run --processes 2"
#: The relay where something fills templates, without that.
PLAIN = "RELAY_KERNEL=off relay run"
#: Members of a group that start at the same time get their partitions at the same time.
_WAIT_FOR_MEMBERS = "group.initial.rebalance.delay.ms=3000\n"


#: What topics and files of a program are called.
_SHORT = {FLOOR: "floor", RELAY: "relay", TWO: "two", PLAIN: "plain"}


class RunFailed(Exception):
    """A program ended early, or did not end; the notes hold the end of what it printed."""


class Run(msgspec.Struct, frozen=True):
    """What one process did; `cpu_seconds` is what 100 000 messages cost it."""

    program: str
    messages_per_second: float
    cpu_seconds: float
    peak_mb: float


class Result(msgspec.Struct, frozen=True):
    """The report: two programs over all their runs, and what the second has of the first one's speed and
    processor time by that. `compressed`: what of the load's bytes the broker has on its disk, by zstd.
    """

    route: str
    load: str
    messages: int
    bytes_per_message: float
    compressed: float
    partitions: int
    overall: list[Run]
    ratio: float
    cpu_ratio: float
    runs: list[Run]


class _Load(NamedTuple):
    """The source topic's messages: the DDL first, in every partition as TiCDC sends it, then rows, spread
    over the partitions.
    """

    name: str
    control: list[ConsumerRecord]
    rows: list[ConsumerRecord]
    messages: int

    @property
    def topic(self) -> str:
        """The source topic."""
        return f"bench-{self.name}"

    def rows_of(self, partition: int) -> list[ConsumerRecord]:
        """All row messages of one partition, in order, sent one after the other as in a live topic."""
        rows = itertools.islice(itertools.cycle(self.rows), partition, self.messages, PARTITIONS)
        begin_ms = self.rows[0].timestamp_ms
        return [
            msgspec.structs.replace(row, timestamp_ms=begin_ms + partition + number * PARTITIONS)
            for number, row in enumerate(rows)
        ]


class _TargetTopic(NamedTuple):
    """Where a run writes, and how many messages it will have written when it is through."""

    topic: str
    expected: int


def measure(
    data: Path,
    messages: int,
    rounds: int,
    progress: Callable[[str], None],
    programs: Sequence[str],
) -> list[Result]:
    """Start a broker, fill a source topic for each load, and let programs take turns; compare each with the
    first one.

    Raises RunFailed when one of them does.
    """
    route = ROUTES[0]
    loads = _loads(route, data, messages)
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        properties = _WAIT_FOR_MEMBERS if TWO in programs else ""
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS, properties=properties)
        with Cluster(Path(folder, "kafka"), options=options, progress=progress) as cluster:
            results = []
            for load in loads:
                progress(f"kafka: writing {load.messages} messages of {load.name}")
                asyncio.run(fill(cluster.bootstrap_servers, load))
                compressed = _compressed(Path(folder, "kafka"), load)
                progress(f"kafka: zstd makes {compressed:.1%} of {load.name}")
                bench = Bench(cluster.bootstrap_servers, Path(folder), route, load)
                runs = []
                for number in range(rounds):
                    for program in programs:
                        progress(f"kafka: {load.name}, {program}, round {number + 1} of {rounds}")
                        runs.append(bench.run(program, number))
                results += [
                    _result(route, load, compressed, (programs[0], other), runs) for other in programs[1:]
                ]
    return results


def with_and_without_kernel() -> tuple[str, ...]:
    """The loop and the relay; where the relay has a kernel, also without it."""
    return (FLOOR, RELAY, PLAIN) if engine_name() else (FLOOR, RELAY)


def _loads(route: Route, data: Path, messages: int) -> list[_Load]:
    return [captured_load(route, data, messages), *[_made_load(name, route, messages) for name in _MADE]]


def _made_load(name: str, route: Route, messages: int) -> _Load:
    columns = wide.columns_of(name)
    count = min(messages, _MOST_COLUMNS // columns)
    different = min(count, _MADE_MESSAGES, _MADE_COLUMNS // columns)
    return _load(name, route, wide.messages(name, different), count)


def captured_load(route: Route, data: Path, messages: int) -> _Load:
    """Return the load of captured messages."""
    found = workloads(route, data)
    records = itertools.chain.from_iterable(found[name] for name in _WORKLOADS)
    return _load("captured", route, records, messages)


def _load(name: str, route: Route, records: Iterable[ConsumerRecord], messages: int) -> _Load:
    reader = Translator(route.source, route.target, route.source_options, route.target_options)
    control: list[ConsumerRecord] = []
    rows: list[ConsumerRecord] = []
    for record in records:
        is_row = all(isinstance(event, RowChange) for event in reader.inspect(record))
        (rows if is_row else control).append(record)
    return _Load(name, control, rows, messages)


async def fill(servers: str, load: _Load) -> None:
    """Create the source topic of a load, and write it."""
    await create(servers, load.topic)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, compression_type="zstd", max_batch_size=900_000
    ) as producer:
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            for record in itertools.chain(load.control, load.rows_of(partition)):
                while batch.append(key=record.key, value=record.value, timestamp=record.timestamp_ms) is None:
                    batch.close()
                    await producer.send_batch(batch, load.topic, partition=partition)
                    batch = producer.create_batch()
            batch.close()
            await (await producer.send_batch(batch, load.topic, partition=partition))


def _compressed(kafka: Path, load: _Load) -> float:
    """What of a load's bytes its topic has on the broker's disk, from 0 to 1."""
    stored = sum(file.stat().st_size for file in kafka.rglob(f"{load.topic}-*/*.log"))
    written = sum(
        len(record.value or b"") + len(record.key or b"")
        for partition in range(PARTITIONS)
        for record in itertools.chain(load.control, load.rows_of(partition))
    )
    return stored / written


async def create(servers: str, topic: str) -> None:
    """Create a topic, and wait until it can be used."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        # The messages keep their own timestamps, which may be older than any default retention.
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
    finally:
        await admin.close()
    # The broker answers before it knows the leaders of the new partitions.
    await asyncio.sleep(_SETTLE_SECONDS)


class Bench:
    """The broker, filled, and how to run a program against it."""

    def __init__(self, servers: str, folder: Path, route: Route, load: _Load) -> None:
        self._servers = servers
        self._folder = folder
        self._route = route
        self._load = load
        controls = PARTITIONS * len(load.control)
        outputs = _outputs(route, load)
        self._expected = {FLOOR: controls + load.messages} | dict.fromkeys((RELAY, TWO, PLAIN), outputs)

    def run(self, program: str, number: int) -> Run:
        """Run one program until it has written everything, then stop it."""
        name = f"{_SHORT[program]}-{self._load.name}-{number}"
        target = _TargetTopic(name, self._expected[program])
        asyncio.run(create(self._servers, target.topic))
        command = self._floor(target.topic) if program == FLOOR else self._relay(target.topic)
        command += ["--processes", "2"] if program == TWO else []
        log = self._folder / f"{target.topic}.log"
        with log.open("wb") as output:
            changed = {VARIABLE: KernelMode.OFF.value} if program == PLAIN else {}
            process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | changed)
        try:
            speed, cpu = asyncio.run(self._watch(process, target))
            peak = sum(map(peak_mb, family(process.pid)))
            process.send_signal(signal.SIGTERM)
            wait(process)
            return Run(program, speed, cpu, peak)
        except RunFailed as error:
            error.add_note(log.read_text(errors="replace")[-2000:])
            raise
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()

    def _relay(self, target: str) -> list[str]:
        config = self._folder / f"{target}.toml"
        config.write_text(relay_config(self._route, self._servers, self._load.topic, target))
        return [sys.executable, "-m", "relay", "run", "--config", str(config)]

    def _floor(self, target: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.floor_loop", self._servers, self._load.topic, target]

    async def _watch(self, process: subprocess.Popen[bytes], target: _TargetTopic) -> tuple[float, float]:
        """Follow the target topic to its end: messages a second, and CPU seconds for 100 000 of them."""
        began: tuple[int, float, float] | None = None
        members: list[int] = []
        partitions = [TopicPartition(target.topic, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + _RUN_SECONDS
        async with AIOKafkaConsumer(bootstrap_servers=self._servers, enable_auto_commit=False) as consumer:
            while True:
                written = sum((await consumer.end_offsets(partitions)).values())
                if written and began is None:
                    members = family(process.pid)
                now, cpu = time.perf_counter(), sum(map(cpu_seconds, members))
                if written >= target.expected:
                    break
                if process.poll() is not None:
                    of_all = f"{written} of {target.expected} messages"
                    raise RunFailed(f"ended with status {process.returncode} after {of_all}")
                if time.monotonic() > deadline:
                    raise RunFailed(f"wrote {written} of {target.expected} messages in {_RUN_SECONDS} s")
                if began is None and written:
                    began = written, now, cpu
                await asyncio.sleep(_POLL_SECONDS)
        if began is None:
            raise RunFailed("was through before its first output was seen; ask for more messages")
        first, since, cpu_before = began
        messages = written - first
        return messages / (now - since), (cpu - cpu_before) * 100_000 / messages


def _outputs(route: Route, load: _Load) -> int:
    """How many messages relay writes for the load: what the translator says, for every partition."""
    total = 0
    translator = Translator(route.source, route.target, route.source_options, route.target_options)
    for partition in range(PARTITIONS):
        records = itertools.chain(load.control, load.rows_of(partition))
        for offset, record in enumerate(records):
            placed = msgspec.structs.replace(record, topic=load.topic, partition=partition, offset=offset)
            total += len(translator.translate(placed))
    return total


def family(pid: int) -> list[int]:
    """A running process and those that it has started (Linux; proc_pid_stat(5), field 4)."""
    found = [pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a running process (Linux; proc_pid_stat(5), fields 14 and 15)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Peak memory of a running process (proc_pid_status(5)), without what its parent had when it began."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process that was asked to stop."""
    try:
        status = process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"did not stop within {_STOP_SECONDS} s of SIGTERM") from None
    if status != 0:
        raise RunFailed(f"ended with status {status}")


def _result(
    route: Route, load: _Load, compressed: float, programs: tuple[str, str], runs: Sequence[Run]
) -> Result:
    first, second = (_overall(name, [run for run in runs if run.program == name]) for name in programs)
    return Result(
        route=str(route),
        load=load.name,
        messages=load.messages,
        bytes_per_message=statistics.fmean(len(record.value or b"") for record in load.rows),
        compressed=compressed,
        partitions=PARTITIONS,
        overall=[first, second],
        ratio=second.messages_per_second / first.messages_per_second,
        cpu_ratio=second.cpu_seconds / first.cpu_seconds,
        runs=[run for run in runs if run.program in programs],
    )


def _overall(program: str, runs: Sequence[Run]) -> Run:
    """All messages over all time: on a machine of two speeds, the median of a few runs falls on either side
    by chance.
    """
    return Run(
        program,
        statistics.harmonic_mean(run.messages_per_second for run in runs),
        statistics.fmean(run.cpu_seconds for run in runs),
        max(run.peak_mb for run in runs),
    )
