"""The Spark job, measured: `python -m benchmarks.spark [--only speed,cores,memory,same] [--messages N]
[--rounds N]`.

    speed   Kafka to Kafka, in turns with the same Spark job that has an identity `mapInArrow` instead
    cores   files to files with one core and with two
    memory  the most memory of a Python worker, with few messages and with twenty times as many
    same    relay and job write the same one-partition topic, which the job splits: every byte is compared

Kafka and Spark share the machine. The exit status is 1 if the outputs of `same` differ.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import orjson
from spark.java import connector_jars, environment

from benchmarks.spark_load import ALTERED, ROUTE, create, fill, messages
from benchmarks.spark_runs import FLOOR, TASK_RECORDS, TWIN, Peak, config, run_topics, session
from benchmarks.spark_same import contents, relay_all
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions
from relay.io.record_lines import format_record
from spark_backfill.job import from_files

PARTS: Final = ("speed", "cores", "memory", "same")
PARTITIONS: Final = 4
_MESSAGES: Final = {"speed": 100_000, "cores": 1_000_000, "memory": 100_000, "same": 1_000_000}
_MEMORY_FACTOR: Final = 20
_ROUNDS: Final = 5
Found = dict[str, Any]


class Bench:
    """A broker, and the four measurements."""

    def __init__(self, servers: str, folder: Path, rounds: int, progress: Callable[[str], None]) -> None:
        self._servers, self._folder, self._rounds, self._progress = servers, folder, rounds, progress
        self._jars = connector_jars()

    def speed(self, count: int) -> Found:
        """Seconds of the job and of the floor, and the median of the rounds' ratios."""
        source, found = self._filled(count, PARTITIONS), {TWIN: list[float](), FLOOR: list[float]()}
        with session("local[2]", self._folder, self._jars) as spark:
            for number in range(self._rounds + 1):  # the first one warms up
                for program in (FLOOR, TWIN):
                    target = self._target(PARTITIONS)
                    timed = run_topics(
                        spark, config(self._servers, source, target, {"checkpoint": self._new()}), program
                    )
                    self._progress(
                        f"speed: round {number} of {self._rounds}: {program} {timed.seconds:.1f} s"
                    )
                    found[program].append(timed.seconds)
        pairs = list(zip(found[TWIN], found[FLOOR], strict=True))[1:]
        return {
            "messages": count,
            "partitions": PARTITIONS,
            "seconds": {name: statistics.median(seconds[1:]) for name, seconds in found.items()},
            "ratio": statistics.median(twin / floor for twin, floor in pairs),
            "rounds": {name: seconds[1:] for name, seconds in found.items()},
        }

    def cores(self, count: int) -> Found:
        """Seconds with one core and with two, files to files, and the ratio of the medians."""
        files, found = self._files(count), {"local[1]": list[float](), "local[2]": list[float]()}
        for number in range(self._rounds + 1):
            for master, seconds in found.items():
                with session(master, self._folder, self._jars) as spark:
                    # Starting a context, its workers and its code is no work on the files.
                    self._translate(spark, self._files(1000))
                    seconds.append(self._translate(spark, files))
                self._progress(f"cores: round {number} of {self._rounds}: {master} {seconds[-1]:.1f} s")
        medians = {master: statistics.median(seconds[1:]) for master, seconds in found.items()}
        ratio = medians["local[1]"] / medians["local[2]"]
        return {
            "messages": count,
            "seconds": medians,
            "ratio": ratio,
            "rounds": {name: each[1:] for name, each in found.items()},
        }

    def memory(self, count: int) -> Found:
        """The most memory that a worker had, in MB, by number of messages."""
        peaks = {}
        for size in (count, _MEMORY_FACTOR * count):
            source, target = self._filled(size, 1), self._target(1)
            with session("local[2]", self._folder, self._jars) as spark, Peak() as peak:
                timed = run_topics(spark, config(self._servers, source, target, {"checkpoint": self._new()}))
            self._progress(f"memory: {size} messages in {timed.seconds:.1f} s: {peak.mb:.0f} MB")
            peaks[str(size)] = {"peak_mb": peak.mb, "seconds": timed.seconds}
        return {"workers": peaks}

    def same(self, count: int) -> Found:
        """Whether both outputs are equal: "" in `difference`."""
        source, by_relay, by_job = self._filled(count, 1), self._target(1), self._target(1)
        relay_seconds = relay_all(self._servers, source, by_relay, self._folder)
        self._progress(f"same: the relay took {relay_seconds:.1f} s")
        with session("local[2]", self._folder, self._jars) as spark:
            timed = run_topics(spark, config(self._servers, source, by_job, {"checkpoint": self._new()}))
        self._progress(f"same: the job took {timed.seconds:.1f} s")
        relays, jobs = (asyncio.run(contents(self._servers, topic)) for topic in (by_relay, by_job))
        difference = relays.difference(jobs)
        self._progress(f"same: {difference or f'{jobs.records} records are equal'}")
        return {
            "messages": count,
            "records": jobs.records,
            "tasks": -(-count // TASK_RECORDS),
            "altered": ALTERED,
            "relay_seconds": relay_seconds,
            "job_seconds": timed.seconds,
            "difference": difference,
        }

    def _translate(self, spark: Any, files: Path) -> float:
        began = time.perf_counter()
        from_files(
            spark,
            config("127.0.0.1:1", "orders", "{topic}.canal", {"input": str(files), "output": self._new()}),
        )
        return time.perf_counter() - began

    def _files(self, count: int) -> Path:
        """Record files of a topic of `PARTITIONS` partitions, made once."""
        folder = self._folder / f"files-{count}"
        if not folder.exists():
            folder.mkdir()
            for partition in range(PARTITIONS):
                with (folder / f"{partition}.jsonl").open("wb") as file:
                    file.writelines(
                        format_record(each, each.offset) for each in messages(count, partition, PARTITIONS)
                    )
        return folder

    def _filled(self, count: int, partitions: int) -> str:
        source = f"source-{uuid.uuid4().hex[:8]}"
        self._progress(f"writing {count} messages")
        asyncio.run(fill(self._servers, source, count, partitions))
        return source

    def _target(self, partitions: int) -> str:
        target = f"target-{uuid.uuid4().hex[:8]}"
        asyncio.run(create(self._servers, [target], partitions))
        return target

    def _new(self) -> str:
        return str(self._folder / uuid.uuid4().hex)


def main() -> int:
    """Measure, print, and write the JSON file."""
    given = _arguments()
    began = time.monotonic()

    def progress(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    found: Found = {"machine": _machine(), "route": str(ROUTE)}
    with tempfile.TemporaryDirectory(prefix="relay-bench-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ.update(environment(folder / "environment"))
        options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
        with Cluster(folder / "kafka", options=options, progress=progress) as cluster:
            bench = Bench(cluster.bootstrap_servers, folder, given.rounds, progress)
            for part in given.only:
                found[part] = getattr(bench, part)(given.messages or _MESSAGES[part])
                given.output.write_bytes(
                    orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
                )
    found["machine"]["load_at_the_end"] = os.getloadavg()
    print("\n".join(_lines(found)))
    given.output.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return 1 if found.get("same", {}).get("difference") else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", type=_parts, default=PARTS, metavar="PART,…", help=f"some of {', '.join(PARTS)}"
    )
    parser.add_argument("--messages", type=int, metavar="N", help=f"for every part; default: {_MESSAGES}")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, metavar="N", help="turns after the first; default: %(default)s"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("bench-spark.json"), metavar="FILE", help="default: %(default)s"
    )
    return parser.parse_args()


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


def _machine() -> Found:
    packages = ("relay-cdc", "pyspark", "pyarrow", "aiokafka")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load_at_the_start": os.getloadavg(),
        "packages": {name: version(name) for name in packages},
    }


def _lines(found: Found) -> list[str]:
    """The report in a few lines."""
    lines = [str(found["route"])]
    if part := found.get("speed"):
        twin, floor = part["seconds"][TWIN], part["seconds"][FLOOR]
        lines.append(
            f"Kafka to Kafka, {part['messages']} messages: {twin:.1f} s, {FLOOR} {floor:.1f} s, "
            f"ratio {part['ratio']:.2f}"
        )
    if part := found.get("cores"):
        one, two = part["seconds"].values()
        lines.append(
            f"files, {part['messages']} messages: {one:.1f} s on one core, {two:.1f} s on two, "
            f"ratio {part['ratio']:.2f}"
        )
    for size, peak in found.get("memory", {}).get("workers", {}).items():
        lines.append(f"memory of a Python worker, {size} messages: {peak['peak_mb']:.0f} MB at most")
    if part := found.get("same"):
        said, seconds = (
            part["difference"] or "every byte is the same",
            (part["relay_seconds"], part["job_seconds"]),
        )
        lines.append(
            f"{part['records']} records of the relay ({seconds[0]:.0f} s) "
            f"and of the job ({seconds[1]:.0f} s): {said}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
