"""`python -m benchmarks [--only codecs|kafka|processes|tables] [--quick] [--output FILE] [--data FOLDER]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import orjson
from rich.console import Console

from benchmarks import codecs, report
from benchmarks.routes import DATA

_ROUNDS, _QUICK_ROUNDS = 15, 3
_MESSAGES, _QUICK_MESSAGES = 200_000, 20_000
_KAFKA_ROUNDS, _QUICK_KAFKA_ROUNDS = 9, 1
_FEW_ROUNDS = 5
#: Two processes are through so soon that the moments in which they begin and end would count.
_TIMES_FOR_PROCESSES = 3


def main() -> int:
    """Measure, print, and write the JSON file."""
    arguments = _arguments()
    # A pipe has no width; the tables need this much.
    console = Console(width=None if sys.stdout.isatty() else 120)
    notes = Console(stderr=True)

    def progress(text: str) -> None:
        notes.print(text, style="dim", highlight=False)

    found: dict[str, Any] = {"machine": _machine()}
    if arguments.only in {None, "codecs"}:
        timings = codecs.measure(arguments.data, _QUICK_ROUNDS if arguments.quick else _ROUNDS, progress)
        found["codecs"] = msgspec.to_builtins(timings)
        console.print(report.codecs_table(timings))
    if arguments.only != "codecs":
        # The Kafka client and the broker's launcher are needed here alone.
        from benchmarks import kafka, table_topics

        rounds, messages = (
            (_QUICK_KAFKA_ROUNDS, _QUICK_MESSAGES) if arguments.quick else (_KAFKA_ROUNDS, _MESSAGES)
        )
        if arguments.only in {None, "kafka"}:
            results = kafka.measure(
                arguments.data,
                arguments.messages or messages,
                rounds,
                progress,
                kafka.with_and_without_kernel(),
            )
            found["kafka"] = msgspec.to_builtins(results)
            for result in results:
                console.print(report.kafka_table(result))
        few = min(rounds, _FEW_ROUNDS)
        if arguments.only in {None, "processes"}:
            many = arguments.messages or messages * _TIMES_FOR_PROCESSES
            results = kafka.measure(arguments.data, many, few, progress, (kafka.RELAY, kafka.TWO))
            found["processes"] = msgspec.to_builtins(results)
            for result in results:
                console.print(report.kafka_table(result))
        if arguments.only in {None, "kafka", "tables"}:
            tables = table_topics.measure(arguments.data, arguments.messages or messages, few, progress)
            found["tables"] = msgspec.to_builtins(tables)
            console.print(report.tables_table(tables))
    arguments.output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    progress(f"written to {arguments.output}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure what relay costs, next to a floor."
    )
    parser.add_argument("--only", choices=["codecs", "kafka", "processes", "tables"], help="one of the parts")
    parser.add_argument("--quick", action="store_true", help="a short run: figures are rough")
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results.json"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument(
        "--data", type=Path, default=DATA, metavar="FOLDER", help="record files, default: those of the tests"
    )
    parser.add_argument("--messages", type=int, metavar="N", help=f"messages for Kafka, default: {_MESSAGES}")
    return parser.parse_args()


def _machine() -> dict[str, Any]:
    """What the figures depend on, besides the code."""
    packages = ("relay-cdc", "msgspec", "orjson", "aiokafka")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in packages},
    }


if __name__ == "__main__":
    sys.exit(main())
