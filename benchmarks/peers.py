"""Relay beside what else is used for the same work: `python -m benchmarks.peers [--quick] [--messages N]
[--rounds N] [--output FILE]`.

Flink, Kafka Connect and two hand-written loops read the same rows from one broker and write them to topics of
four partitions, in turns, on the machine of the broker; docs/benchmarks-peers.md says how they are set up.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.kafka import RunFailed
from benchmarks.peers_check import WrongOutput
from benchmarks.peers_load import Topic, fill, load, stored_bytes
from benchmarks.peers_programs import RELAY, Contest, Place, contests
from benchmarks.peers_runs import PeerRun, run
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions

_ROWS: Final = 20_000
_MESSAGES, _QUICK_MESSAGES = 400_000, 100_000
_ROUNDS, _QUICK_ROUNDS = 3, 1


class Source(msgspec.Struct, frozen=True):
    """A source topic: bytes of a row's key and value, and what share of them the broker stores."""

    bytes_per_message: float
    compressed: float


class Ratio(msgspec.Struct, frozen=True):
    """Relay's share of a peer's speed, processor time and memory: medians of the rounds' ratios."""

    peer: str
    messages_per_second: float
    cpu_seconds: float
    peak_mb: float


class Result(msgspec.Struct, frozen=True):
    """A route: what each program reads, each program's medians, relay beside each peer, and all runs."""

    route: str
    messages: int
    sources: dict[str, Source]
    overall: list[PeerRun]
    ratios: list[Ratio]
    runs: list[PeerRun]


def main() -> int:
    """Measure, print, and write the JSON file."""
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 120)
    notes = Console(stderr=True)

    def progress(text: str) -> None:
        notes.print(text, style="dim", highlight=False)

    try:
        results = measure(arguments.messages, arguments.rounds, progress)
    except (RunFailed, WrongOutput) as error:
        notes.print(str(error), *getattr(error, "__notes__", []), sep="\n", markup=False, highlight=False)
        return 1
    for result in results:
        console.print(table(result))
        for run_of in result.overall:
            console.print(f"  {run_of.program}: {'; '.join(run_of.faults) or 'as it should be'}")
    found = {"machine": _machine(), "peers": msgspec.to_builtins(results)}
    arguments.output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    progress(f"written to {arguments.output}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure relay beside its peers, on one broker."
    )
    parser.add_argument("--quick", action="store_true", help="a short run: figures are rough")
    parser.add_argument(
        "--messages",
        type=int,
        metavar="N",
        help=f"rows of a topic, default: {_MESSAGES}; the first half warms up",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help=f"runs of each, default: {_ROUNDS}")
    parser.add_argument(
        "--output", type=Path, default=Path("bench-peers.json"), metavar="FILE", help="default: %(default)s"
    )
    given = parser.parse_args()
    given.messages = given.messages or (_QUICK_MESSAGES if given.quick else _MESSAGES)
    given.rounds = given.rounds or (_QUICK_ROUNDS if given.quick else _ROUNDS)
    return given


def measure(messages: int, rounds: int, progress: Callable[[str], None]) -> list[Result]:
    """Start a broker, fill the source topics, and let the programs take turns. Raises RunFailed or
    WrongOutput.
    """
    progress("making rows")
    made = load(min(messages, _ROWS))
    messages -= messages % len(made.ticdc.rows)
    topics = [made.ticdc, made.open_protocol, made.debezium]
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as name:
        folder = Path(name)
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
        with Cluster(folder / "kafka", options=options, progress=progress) as cluster:
            for topic in topics:
                progress(f"writing {messages} messages to {topic.name}")
                asyncio.run(fill(cluster.bootstrap_servers, topic, messages))
            sources = {topic.name: _source(topic, messages, folder / "kafka") for topic in topics}
            return [
                _result(
                    contest, messages, sources, _runs(contest, messages, rounds, cluster, folder, progress)
                )
                for contest in contests(made)
            ]


def _source(topic: Topic, messages: int, broker: Path) -> Source:
    size = topic.bytes_per_message
    return Source(size, stored_bytes(broker, topic.name) / (size * messages))


def _runs(
    contest: Contest,
    messages: int,
    rounds: int,
    cluster: Cluster,
    folder: Path,
    progress: Callable[[str], None],
) -> list[PeerRun]:
    found = []
    for number in range(rounds):
        for at, program in enumerate(contest.programs):
            progress(f"{contest.route}: {program.name}, round {number + 1} of {rounds}")
            target = f"{contest.route.target}-{at}-{number}"
            found.append(run(contest, program, messages, Place(cluster.bootstrap_servers, target, folder)))
    return found


def _result(contest: Contest, messages: int, sources: dict[str, Source], runs: Sequence[PeerRun]) -> Result:
    of_each = {each.name: [run for run in runs if run.program == each.name] for each in contest.programs}
    return Result(
        str(contest.route),
        messages,
        {each.name: sources[each.source.name] for each in contest.programs},
        [_overall(found) for found in of_each.values()],
        [_ratio(of_each[RELAY], found) for name, found in of_each.items() if name != RELAY],
        list(runs),
    )


def _overall(runs: Sequence[PeerRun]) -> PeerRun:
    return PeerRun(
        runs[0].program,
        statistics.median(run.messages_per_second for run in runs),
        statistics.median(run.cpu_seconds for run in runs),
        statistics.median(run.peak_mb for run in runs),
        statistics.median(run.start_seconds for run in runs),
        sorted({fault for run in runs for fault in run.faults}),
    )


def _ratio(relay: Sequence[PeerRun], peer: Sequence[PeerRun]) -> Ratio:
    """Each round's relay beside the same round's peer: what else the machine did then was alike."""
    pairs = list(zip(relay, peer, strict=True))
    return Ratio(
        peer[0].program,
        statistics.median(ours.messages_per_second / theirs.messages_per_second for ours, theirs in pairs),
        statistics.median(ours.cpu_seconds / theirs.cpu_seconds for ours, theirs in pairs),
        statistics.median(ours.peak_mb / theirs.peak_mb for ours, theirs in pairs),
    )


def table(result: Result) -> Table:
    """One line a program, then one for relay beside each peer."""
    shown = Table(
        title=f"{result.route}: {result.messages} rows, the second half counted", title_justify="left"
    )
    shown.add_column("program")
    for heading in ("bytes a row", "compressed", "rows/s", "CPU s / 100 000", "peak MB", "start s"):
        shown.add_column(heading, justify="right")
    for each in result.overall:
        source = result.sources[each.program]
        read = f"{source.bytes_per_message:.0f}", f"{source.compressed:.0%}"
        cost = f"{each.cpu_seconds:.2f}", f"{each.peak_mb:.0f}", f"{each.start_seconds:.1f}"
        shown.add_row(each.program, *read, f"{each.messages_per_second:.0f}", *cost)
    shown.add_section()
    for ratio in result.ratios:
        cells = f"{ratio.messages_per_second:.2f}", f"{ratio.cpu_seconds:.2f}", f"{ratio.peak_mb:.2f}"
        shown.add_row(f"relay / {ratio.peer}", "", "", *cells, "", style="bold")
    return shown


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
