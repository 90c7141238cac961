"""How soon relay does something: `relay run` next to the loop of `benchmarks.floor_loop`, and two short
commands next to an interpreter that imports typer and asyncio.

`relay run` and the loop read the same small topic on the same broker, each time into a new topic, and take
turns. The clock runs from the start of the process until the broker has a record of it. Of short commands the
processor time counts, which other work on the machine changes little.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.kafka import FLOOR, PARTITIONS, RELAY, RunFailed, captured_load, create, fill, wait
from benchmarks.routes import ROUTES, relay_config
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions

_MESSAGES = 2_000
_POLL_SECONDS = 0.01
_START_SECONDS = 60


#: What short commands are compared with.
_INTERPRETER = "python -c 'import typer, asyncio'"


class Command(msgspec.Struct, frozen=True):
    """The report of a short command: the median of its processor seconds, and by that of the interpreter."""

    name: str
    cpu_seconds: float
    ratio: float


def commands(data: Path, rounds: int) -> list[Command]:
    """Run the interpreter and the commands in turns."""
    (records,) = (data / "ticdc" / "canal-json.3-partitions").glob("09_dml.jsonl")
    relay = (sys.executable, "-m", "relay")
    route = ("--from", "ticdc-canal-json", "--to", "canal-json")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as one:
        one.write(records.read_text(encoding="utf-8").partition("\n")[0] + "\n")
        one.flush()
        programs = {
            _INTERPRETER: (sys.executable, "-c", "import typer, asyncio"),
            "relay --version": (*relay, "--version"),
            "relay translate, one record": (*relay, "translate", *route, one.name),
        }
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        # Bytecode is written by the first round, which does not count.
        for number in range(rounds + 1):
            for name, program in programs.items():
                taken = _cpu_seconds(program)
                if number:
                    seconds[name].append(taken)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return [Command(name, median, median / medians[_INTERPRETER]) for name, median in medians.items()]


def _cpu_seconds(program: tuple[str, ...]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(program, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Start(msgspec.Struct, frozen=True):
    """The report: seconds from start to first output, the median and all; `later`: the difference of the
    medians.
    """

    floor: float
    relay: float
    later: float
    floor_runs: list[float]
    relay_runs: list[float]


def measure(data: Path, rounds: int, progress: Callable[[str], None]) -> Start:
    """Start a broker and let both programs take turns. Raises RunFailed when one of them does."""
    route = ROUTES[0]
    load = captured_load(route, data, _MESSAGES)
    seconds: dict[str, list[float]] = {FLOOR: [], RELAY: []}
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
        with Cluster(Path(folder, "kafka"), options=options, progress=progress) as cluster:
            servers = cluster.bootstrap_servers
            asyncio.run(fill(servers, load))
            for number in range(rounds):
                for program, found in seconds.items():
                    progress(f"start: {program}, round {number + 1} of {rounds}")
                    target = f"start-{number}-{len(program)}"
                    asyncio.run(create(servers, target))
                    command = [sys.executable, "-m", "benchmarks.floor_loop", servers, load.topic, target]
                    if program == RELAY:
                        config = Path(folder, f"{target}.toml")
                        config.write_text(relay_config(route, servers, load.topic, target))
                        command = [sys.executable, "-m", "relay", "run", "--config", str(config)]
                    log = Path(folder, "log")
                    try:
                        found.append(asyncio.run(_seconds(command, servers, target, log)))
                    except RunFailed as error:
                        error.add_note(log.read_text(errors="replace")[-2000:])
                        raise
    floor, relay = statistics.median(seconds[FLOOR]), statistics.median(seconds[RELAY])
    return Start(floor, relay, relay - floor, seconds[FLOOR], seconds[RELAY])


async def _seconds(command: list[str], servers: str, target: str, log: Path) -> float:
    partitions = [TopicPartition(target, number) for number in range(PARTITIONS)]
    async with AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False) as consumer:
        await consumer.end_offsets(partitions)
        began = time.perf_counter()
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220 - only timed
        try:
            while not sum((await consumer.end_offsets(partitions)).values()):
                if process.poll() is not None or time.perf_counter() - began > _START_SECONDS:
                    raise RunFailed("wrote nothing")
                await asyncio.sleep(_POLL_SECONDS)
            taken = time.perf_counter() - began
            process.terminate()
            wait(process)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    return taken
