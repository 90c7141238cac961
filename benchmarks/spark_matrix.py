"""The parameters of the Spark benchmark, and the cases that they make."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

#: The parts, in the order in which they run.
PARTS: Final = ("speed", "cores", "memory", "same", "tables-to-parquet", "listing")
DESCRIPTION: Final = """\
Measure the Spark job, and judge the figures by their limits.

    speed              Kafka to Kafka, in turns with the same Spark job with an identity `mapInArrow`;
                       one case for each combination of --messages, --partitions and --tables, but with
                       many tables up to 1,000,000 messages only
    cores              files to files with each number of --cores, in turns
    memory             peak memory of the driver's Python: simulated counters of --tasks tasks, each with the
                       most of --tables; and a run with the most tables and small tasks
    same               relay and the job translate the same topic of one partition, which the job splits:
                       every byte is compared; one case for each of --tables
    tables-to-parquet  many tables to folders by table, as records and as rows, with a Java heap of 1 GB
    listing            an input of many small files is listed and checked, in each format

`cores` and `same` use the largest number of --messages up to 1,000,000. The report has the peak memory of the
Python workers and of the driver's Python in each case. Kafka and Spark share the machine, on which nothing
else should run.
"""
EPILOG: Final = """\
The exit status is 1 if a figure misses its limit, a part fails, or the outputs of `same` differ. The report
is written to --output after every result; all figures are in a file beside it, with the suffix .json.
"""
#: Messages of the largest cases of many tables, and of `cores` and `same`.
_MOST_MESSAGES: Final = 1_000_000
#: All rounds of a case have about this many messages: times of small cases vary more.
_MESSAGES_OF_ROUNDS: Final = 3_000_000
_FEWEST_ROUNDS, _MOST_ROUNDS = 2, 5


class Case(NamedTuple):
    """A load that is measured. `tables`: 1 for the captured tables."""

    messages: int
    partitions: int
    tables: int
    alters: int

    def __str__(self) -> str:
        tables = f"{self.tables:,} tables" if self.tables > 1 else "captured tables"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{self.messages:,} messages, {partitions}, {tables}, {self.alters} ALTERs"


class Parameters(NamedTuple):
    """The parameters of a benchmark. `rounds`: of every case; 0 to choose them by its size."""

    only: Sequence[str] = PARTS
    messages: Sequence[int] = (150_000, 1_000_000, 3_000_000)
    partitions: Sequence[int] = (4, 12)
    tables: Sequence[int] = (1, 1_000)
    alters: int = 20
    cores: Sequence[int] = (1, 2)
    rounds: int = 0
    task_records: int = 50_000
    tasks: int = 5_000
    parquet_tables: int = 1_500
    files: int = 20_000
    output: Path = Path("bench-spark.md")

    @property
    def cases(self) -> list[Case]:
        """The cases of `speed`, small ones first."""
        return [
            Case(count, partitions, tables, self.alters)
            for count, tables, partitions in itertools.product(self.messages, self.tables, self.partitions)
            if tables == 1 or count <= self.most_messages
        ]

    @property
    def compared(self) -> list[Case]:
        """The cases of `same`."""
        return [Case(self.most_messages, 1, tables, self.alters) for tables in self.tables]

    @property
    def most_messages(self) -> int:
        """The messages of `cores` and `same`."""
        return max([each for each in self.messages if each <= _MOST_MESSAGES], default=min(self.messages))

    def rounds_of(self, messages: int) -> int:
        """The rounds of a case."""
        return self.rounds or max(_FEWEST_ROUNDS, min(_MOST_ROUNDS, _MESSAGES_OF_ROUNDS // messages))


#: The parameters that the limits are about.
FULL: Final = Parameters()
QUICK: Final = FULL._replace(messages=(150_000,), partitions=(4,), parquet_tables=150)


def parameters(arguments: Sequence[str] | None = None) -> Parameters:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a short run: fewer and smaller cases")
    parser.add_argument("--only", type=_parts, metavar="PART,…", help="parts to measure; default: all")
    lists = {
        "messages": "numbers of messages in a topic",
        "partitions": "numbers of partitions of a topic",
        "tables": "numbers of tables in a topic; 1: the captured tables as they are",
        "cores": "numbers of cores of Spark; the limit is about 1,2",
    }
    for name, text in lists.items():
        shown = _shown(getattr(FULL, name), getattr(QUICK, name))
        parser.add_argument(f"--{name}", type=_numbers, metavar="N,…", help=f"{text}; default: {shown}")
    numbers = {
        "alters": "ALTER statements in a topic",
        "rounds": f"rounds of each case; 0: {_FEWEST_ROUNDS} of large cases to {_MOST_ROUNDS} of small ones",
        "task-records": "most messages of a partition that one task translates",
        "tasks": "simulated tasks of `memory`",
        "parquet-tables": "tables of `tables-to-parquet`",
        "files": "files of `listing`",
    }
    for name, text in numbers.items():
        field = name.replace("-", "_")
        shown = _shown(getattr(FULL, field), getattr(QUICK, field))
        least = 0 if name in {"alters", "rounds"} else 1
        parser.add_argument(
            f"--{name}", type=_number_from(least), metavar="N", help=f"{text}; default: {shown}"
        )
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"the report; default: {FULL.output}")
    given = vars(parser.parse_args(arguments))
    base = QUICK if given.pop("quick") else FULL
    return base._replace(**{name: value for name, value in given.items() if value is not None})


def _shown(full: object, quick: object) -> str:
    texts = [",".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in (full, quick)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]}, with --quick {texts[1]}"


def _parts(text: str) -> tuple[str, ...]:
    names = text.split(",")
    if unknown := set(names) - set(PARTS):
        message = f"unknown part: {', '.join(sorted(unknown))}; choices: {', '.join(PARTS)}"
        raise argparse.ArgumentTypeError(message)
    return tuple(part for part in PARTS if part in names)


def _number_from(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            found = int(text.replace("_", ""))
        except ValueError:
            found = least - 1
        if found < least:
            raise argparse.ArgumentTypeError(f"not a number of at least {least}: {text!r}")
        return found

    return number


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(set(map(_number_from(1), text.split(",")))))
