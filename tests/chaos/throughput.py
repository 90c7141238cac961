"""How fast, in both modes, next to the least that must be done: `benchmarks.floor_loop`, which copies JSON
and keeps no promises.

The programs take turns, so that a busy moment hits all alike; what counts is all messages over all time (the
harmonic mean of the rounds, which are equally long in messages): on a machine of two speeds a median falls on
either side by chance. The latency is the time from when a record can be read in the source until it can be
read in the target, both seen by one process, at a steady 1000 messages a second; what counts is relay's 99th
percentile over that of the loop, in the same round: the median of these.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from rich.console import Console

from benchmarks.kafka import FLOOR, RELAY, Bench, captured_load, create, fill
from benchmarks.routes import DATA, ROUTES, relay_config
from chaos.messages import PARTITIONS, partition_values, timestamp_of
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions

EXACTLY_ONCE = "relay exactly-once"
LEAST_EXACTLY_ONCE, LEAST_AT_LEAST_ONCE, MAX_LATENCY_MS = 0.7, 0.6, 20.0
RATE = 1_000
_WARM_SECONDS, _MEASURED_SECONDS = 5.0, 15.0
_END_SECONDS = 30.0
#: Far from its bound, and a round takes most of a minute.
_LATENCY_ROUNDS = 3
_TICK = 0.005


class _ExactlyOnce(Bench):
    def _relay(self, target: str) -> list[str]:
        command = super()._relay(target)
        with (self._folder / f"{target}.toml").open("a") as file:
            file.write('\n[delivery]\nmode = "exactly-once"\n')
        return command


def throughput(messages: int, rounds: int) -> tuple[Mapping[str, Any], bool]:
    """Measure; gives the figures, and whether every target is met."""
    notes = Console(stderr=True, highlight=False)
    load = captured_load(ROUTES[0], DATA, messages)
    with tempfile.TemporaryDirectory(prefix="relay-throughput-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Cluster(folder / "kafka", options=NodeOptions(java=BENCHMARK_JAVA_OPTIONS)) as cluster:
            servers = cluster.bootstrap_servers
            notes.print(f"writing {messages} messages")
            asyncio.run(fill(servers, load))
            plain, exact = (
                Bench(servers, folder, ROUTES[0], load),
                _ExactlyOnce(servers, folder, ROUTES[0], load),
            )
            speeds: dict[str, list[float]] = {FLOOR: [], RELAY: [], EXACTLY_ONCE: []}
            cpu: dict[str, list[float]] = {FLOOR: [], RELAY: [], EXACTLY_ONCE: []}
            for number in range(rounds):
                for program, run in (
                    (FLOOR, plain.run(FLOOR, number)),
                    (RELAY, plain.run(RELAY, number)),
                    (EXACTLY_ONCE, exact.run(RELAY, rounds + number)),
                ):
                    notes.print(f"round {number + 1}: {program}: {run.messages_per_second:.0f} messages/s")
                    speeds[program].append(run.messages_per_second)
                    cpu[program].append(run.cpu_seconds)
            latencies = _latencies(servers, folder, min(rounds, _LATENCY_ROUNDS), notes.print)
    return _judged(speeds, cpu, latencies)


def _judged(
    speeds: Mapping[str, list[float]], cpu: Mapping[str, list[float]], latencies: Mapping[str, list[float]]
) -> tuple[Mapping[str, Any], bool]:
    mean = {program: statistics.harmonic_mean(found) for program, found in speeds.items()}
    exact, plain = mean[EXACTLY_ONCE] / mean[RELAY], mean[RELAY] / mean[FLOOR]
    over = statistics.median(
        relay - floor for relay, floor in zip(latencies[RELAY], latencies[FLOOR], strict=True)
    )
    verdicts = {
        f"exactly-once over at-least-once (at least {LEAST_EXACTLY_ONCE})": (
            round(exact, 3),
            exact >= LEAST_EXACTLY_ONCE,
        ),
        f"at-least-once over the loop (at least {LEAST_AT_LEAST_ONCE})": (
            round(plain, 3),
            plain >= LEAST_AT_LEAST_ONCE,
        ),
        f"99th percentile over the loop, ms (less than {MAX_LATENCY_MS:g})": (
            round(over, 2),
            over < MAX_LATENCY_MS,
        ),
    }
    figures: dict[str, Any] = {"what": "throughput"}
    for program, found in mean.items():
        figures[f"{program}, messages a second"] = round(found)
    for program, taken in cpu.items():
        figures[f"{program}, processor seconds for 100 000 messages"] = round(statistics.fmean(taken), 2)
    for program, taken in latencies.items():
        figures[f"{program}, 99th percentile at {RATE} messages a second, ms"] = round(
            statistics.median(taken), 1
        )
    figures |= {
        name: f"{value} {'met' if is_met else 'MISSED'}" for name, (value, is_met) in verdicts.items()
    }
    figures["rounds"] = {"speeds": dict(speeds), "cpu": dict(cpu), "latencies": dict(latencies)}
    return figures, all(is_met for _, is_met in verdicts.values())


def _latencies(
    servers: str, folder: Path, rounds: int, tell: Callable[[str], None]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {FLOOR: [], RELAY: []}
    for number in range(rounds):
        for program, taken in found.items():
            name = f"latency-{'relay' if program == RELAY else 'floor'}-{number}"
            taken.append(asyncio.run(_latency(servers, folder, program, name)))
            tell(f"round {number + 1}: {program}: 99th percentile {taken[-1]:.1f} ms")
    return found


async def _latency(servers: str, folder: Path, program: str, name: str) -> float:
    """Run one program on topics of its own; gives the 99th percentile in milliseconds."""
    source, target = f"{name}-source", f"{name}-target"
    await create(servers, source)
    await create(servers, target)
    process = await asyncio.create_subprocess_exec(
        *_command(servers, folder, program, source, target), stdout=DEVNULL
    )
    try:
        return await _Probe(servers, source, target).run()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)


def _command(servers: str, folder: Path, program: str, source: str, target: str) -> list[str]:
    if program == FLOOR:
        return [sys.executable, "-m", "benchmarks.floor_loop", servers, source, target]
    config = folder / f"{target}.toml"
    config.write_text(relay_config(ROUTES[0], servers, source, target))
    return [sys.executable, "-m", "relay", "run", "--config", str(config)]


class _Probe:
    """Writes at the rate, reads both topics, and compares when a record was there.

    Every message becomes exactly one, in order, so that an offset means the same message in both topics.
    """

    def __init__(self, servers: str, source: str, target: str) -> None:
        self._servers, self._source, self._target = servers, source, target
        self._count = int(RATE * (_WARM_SECONDS + _MEASURED_SECONDS)) // PARTITIONS

    async def run(self) -> float:
        found: dict[str, dict[tuple[int, int], float]] = {self._source: {}, self._target: {}}
        readers = [asyncio.create_task(self._read(topic, times)) for topic, times in found.items()]
        try:
            await self._write(found[self._target])
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.gather(*readers)
        finally:
            for reader in readers:
                reader.cancel()
        warm = int(RATE * _WARM_SECONDS) // PARTITIONS
        taken = [
            (found[self._target][position] - began) * 1000
            for position, began in found[self._source].items()
            if position[1] >= warm
        ]
        return statistics.quantiles(taken, n=100)[98]

    async def _read(self, topic: str, times: dict[tuple[int, int], float]) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        async with consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
            while len(times) < self._count * PARTITIONS:
                polled = await consumer.getmany(timeout_ms=1000)
                now = time.perf_counter()
                for pair, records in polled.items():
                    for record in records:
                        times[pair.partition, record.offset] = now

    async def _write(self, arrived: Mapping[tuple[int, int], float]) -> None:
        values = [_rows(partition, self._count) for partition in range(PARTITIONS)]
        async with AIOKafkaProducer(bootstrap_servers=self._servers) as producer:
            sent = 0
            # The first ones wake the program; the rest comes once it is at work.
            sent = await self._send(producer, values, sent, PARTITIONS)
            async with asyncio.timeout(_END_SECONDS):
                while not arrived:  # noqa: ASYNC110 - the reader keeps times, no events
                    await asyncio.sleep(_TICK)
            since = time.perf_counter()
            while sent < self._count * PARTITIONS:
                sent = await self._send(producer, values, sent, int((time.perf_counter() - since) * RATE))
                await asyncio.sleep(_TICK)
            await producer.flush()

    async def _send(self, producer: Any, values: list[list[bytes]], sent: int, goal: int) -> int:
        while sent < min(goal, self._count * PARTITIONS):
            partition, offset = sent % PARTITIONS, sent // PARTITIONS
            await producer.send(
                self._source,
                values[partition][offset],
                partition=partition,
                timestamp_ms=timestamp_of(offset),
            )
            sent += 1
        return sent


def _rows(partition: int, count: int) -> list[bytes]:
    return [
        value
        for value in partition_values(random.Random(partition), partition, count + count // 400 + 1, 400)
        if b"TIDB" not in value
    ][:count]
