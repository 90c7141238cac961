"""`python -m benchmarks [--only PART] [--quick] [--output FILE] [--data FOLDER]`; `PARTS` are the parts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
from rich.console import Console

from benchmarks import adversarial, codecs, cold, report, rules, table_memory
from benchmarks.machine import this_machine
from benchmarks.routes import DATA
from relay.io.kernel import VARIABLE, KernelMode, engine_name

#: What can be measured alone.
PARTS = ("codecs", "adversarial", "cold", "rules", "memory", "start", "kafka", "processes", "tables")

_ROUNDS, _QUICK_ROUNDS = 15, 3
_MESSAGES, _QUICK_MESSAGES = 200_000, 20_000
_KAFKA_ROUNDS, _QUICK_KAFKA_ROUNDS = 9, 1
_FEW_ROUNDS = 5
_RULED_ROWS, _QUICK_RULED_ROWS = 20_000, 4_000
#: Two processes are through so soon that the moments in which they begin and end would count.
_TIMES_FOR_PROCESSES = 3
#: The least for a topic a table: fewer are through before they are looked at.
_MESSAGES_OF_TABLES = 100_000


def main() -> int:
    """Measure, print, and write the JSON file."""
    arguments = _arguments()
    # A pipe has no width; the tables need this much.
    console = Console(width=None if sys.stdout.isatty() else 120)
    notes = Console(stderr=True)

    def progress(text: str) -> None:
        notes.print(text, style="dim", highlight=False)

    machine = this_machine()
    found: dict[str, Any] = {"machine": msgspec.to_builtins(machine)}
    console.print(report.machine_line(machine), highlight=False)
    _without_kafka(arguments, console, progress, found)
    if arguments.only not in {"codecs", "adversarial", "cold", "rules", "memory"}:
        # The Kafka client and the broker's launcher are needed here alone.
        from benchmarks import kafka, start, table_topics

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
        if arguments.only in {None, "start"}:
            short = start.commands(arguments.data, rounds)
            first = start.measure(arguments.data, few, progress)
            found["start"] = {"commands": msgspec.to_builtins(short), "run": msgspec.to_builtins(first)}
            for line in (*report.command_lines(short), report.start_line(first)):
                console.print(line, highlight=False)
        if arguments.only in {None, "processes"}:
            many = arguments.messages or messages * _TIMES_FOR_PROCESSES
            results = kafka.measure(arguments.data, many, few, progress, (kafka.RELAY, kafka.TWO))
            found["processes"] = msgspec.to_builtins(results)
            for result in results:
                console.print(report.kafka_table(result))
        if arguments.only in {None, "kafka", "tables"}:
            many = arguments.messages or max(messages, _MESSAGES_OF_TABLES)
            tables = table_topics.measure(arguments.data, many, few, progress)
            found["tables"] = msgspec.to_builtins(tables)
            console.print(report.tables_table(tables))
    arguments.output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    progress(f"written to {arguments.output}")
    return 0


def _without_kafka(
    arguments: argparse.Namespace, console: Console, progress: Callable[[str], None], found: dict[str, Any]
) -> None:
    """Measure what needs no broker."""
    rounds = _QUICK_ROUNDS if arguments.quick else _ROUNDS
    if arguments.only in {None, "codecs"}:
        timings = codecs.measure(arguments.data, codecs.QUICK if arguments.quick else codecs.FULL, progress)
        found["codecs"] = msgspec.to_builtins(timings)
        console.print(report.codecs_table(timings))
        console.print(report.columns_table(timings))
        console.print(report.columns_line(timings), highlight=False)
    if arguments.only in {None, "adversarial"}:
        worst = adversarial.measure(rounds, progress)
        found["adversarial"] = msgspec.to_builtins(worst)
        if worst:
            console.print(report.adversarial_table(worst, adversarial.MOST))
    if arguments.only in {None, "cold"}:
        first = cold.measure(min(rounds, _FEW_ROUNDS), progress)
        found["cold"] = msgspec.to_builtins(first)
        console.print(report.cold_table(first))
    if arguments.only in {None, "rules"}:
        costs = rules.measure(
            min(rounds, _FEW_ROUNDS), _QUICK_RULED_ROWS if arguments.quick else _RULED_ROWS, progress
        )
        found["rules"] = msgspec.to_builtins(costs)
        console.print(report.rules_table(costs))
    if arguments.only in {None, "memory"}:
        progress("memory: many wide tables")
        memory = [table_memory.measure(_memory_rounds(arguments), each) for each in _environments()]
        found["memory"] = msgspec.to_builtins(memory)
        for line in report.memory_lines(memory, table_memory.MOST_MB):
            console.print(line, highlight=False)


def _memory_rounds(arguments: argparse.Namespace) -> int:
    return table_memory.QUICK_ROUNDS if arguments.quick else table_memory.ROUNDS


def _environments() -> list[dict[str, str]]:
    """With an engine, if there is one, and without."""
    without = {**os.environ, VARIABLE: KernelMode.OFF.value}
    return [dict(os.environ), without] if engine_name() else [without]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure what relay costs, next to a floor."
    )
    parser.add_argument("--only", choices=PARTS, help="one of the parts")
    parser.add_argument("--quick", action="store_true", help="a short run: figures are rough")
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results.json"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument(
        "--data", type=Path, default=DATA, metavar="FOLDER", help="record files, default: those of the tests"
    )
    parser.add_argument("--messages", type=int, metavar="N", help=f"messages for Kafka, default: {_MESSAGES}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
