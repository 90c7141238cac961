"""Relay beside what else is used for the same work: `python -m benchmarks.peers [--quick] [--rounds N]
[--output FILE]`.

Flink, Kafka Connect and two hand-written loops read the same rows from one broker and write them to topics of
four partitions, in turns, on the machine of the broker; docs/benchmarks-peers.md says how they are set up.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
from rich.console import Console

from benchmarks.kafka import RunFailed
from benchmarks.peers_check import WrongOutput
from benchmarks.peers_load import Size, Topic, fill, load, stored_bytes
from benchmarks.peers_programs import Contest, Environment, contests
from benchmarks.peers_report import Result, Source, remarks, result, table
from benchmarks.peers_runs import PeerRun, run
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions

_ROWS: Final = 20_000
_SIZE: Final = Size(counted=200_000, warm_up=100_000, jvm_warm_up=400_000)
_QUICK_SIZE: Final = Size(counted=50_000, warm_up=25_000, jvm_warm_up=100_000)
_ROUNDS, _QUICK_ROUNDS = 3, 1

Progress = Callable[[str], None]


def main() -> int:
    """Measure, print, and write the JSON file; the exit status is 1 if a program did not do its work."""
    arguments = _arguments()
    # A pipe has no width; the tables need this much.
    console = Console(width=None if sys.stdout.isatty() else 120)
    notes = Console(stderr=True)

    def progress(text: str) -> None:
        notes.print(text, style="dim", highlight=False)

    size, rounds = (_QUICK_SIZE, _QUICK_ROUNDS) if arguments.quick else (_SIZE, _ROUNDS)
    try:
        results = measure(size, arguments.rounds or rounds, progress)
    except (RunFailed, WrongOutput) as error:
        notes.print(str(error), *getattr(error, "__notes__", []), sep="\n", markup=False, highlight=False)
        return 1
    machine = _machine()
    console.print(f"{machine['relay']}, Python {machine['python']}, {machine['cpus']} CPUs", highlight=False)
    for each in results:
        console.print(table(each))
        for remark in remarks(each):
            console.print(f"  {remark}", markup=False, highlight=False)
    found = {"machine": machine, "peers": msgspec.to_builtins(results)}
    arguments.output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    progress(f"written to {arguments.output}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure relay beside its peers, on one broker."
    )
    parser.add_argument("--quick", action="store_true", help="a short run: figures are rough")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"default: {_ROUNDS}, with --quick {_QUICK_ROUNDS}"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("bench-peers.json"), metavar="FILE", help="default: %(default)s"
    )
    return parser.parse_args()


def measure(size: Size, rounds: int, progress: Progress) -> list[Result]:
    """Start a broker, fill the source topics, and let the programs take turns. Raises RunFailed or
    WrongOutput.
    """
    progress("making rows")
    made = load(_ROWS, size)
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as name:
        folder = Path(name)
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
        with Cluster(folder / "kafka", options=options, progress=progress) as cluster:
            servers, sources = cluster.bootstrap_servers, {}
            for topic in made.topics:
                progress(f"writing {topic.messages} rows to {topic.name}")
                asyncio.run(fill(servers, topic))
                sources[topic.name] = _source(topic, folder / "kafka")
            return [
                result(contest, sources, _runs(contest, rounds, servers, folder, progress))
                for contest in contests(made)
            ]


def _source(topic: Topic, broker: Path) -> Source:
    size = topic.bytes_per_row
    return Source(size, stored_bytes(broker, topic.name) / (size * topic.messages))


def _runs(contest: Contest, rounds: int, servers: str, folder: Path, progress: Progress) -> list[PeerRun]:
    found = []
    for number in range(rounds):
        for at, program in enumerate(contest.programs):
            progress(f"{contest.route}: {program.name}, round {number + 1} of {rounds}")
            target = f"{contest.route.target}-{at}-{number}"
            found.append(run(contest, program, Environment(servers, target, folder)))
    return found


def _machine() -> dict[str, Any]:
    """What the figures depend on, besides the code."""
    command = [sys.executable, "-m", "relay", "--version"]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "relay": subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(),
    }


if __name__ == "__main__":
    sys.exit(main())
