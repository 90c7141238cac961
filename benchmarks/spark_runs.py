"""Measured runs of the Spark job and of the identity job, which has the same source, order and sink."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.java import connector_jars

from benchmarks.spark_load import ROUTE
from benchmarks.spark_report import Run
from relay.config import Config
from spark_backfill.frames import RECORDS
from spark_backfill.job import TopicsRun
from spark_backfill.sessions import NEEDED
from spark_backfill.topics import captured

JOB: Final = "spark_backfill"
IDENTITY: Final = "identity mapInArrow"
Result = TypeVar("Result")
_HEAP_MB: Final = 2048
_SAMPLE_SECONDS: Final = 0.5


class Peaks:
    """Measure the peak memory (RSS) of the Python workers below this process, and of this process, in MB.

    The kernel keeps the peak of a process. A worker of an earlier run begins with its present size.
    """

    def __init__(self) -> None:
        self.worker_mb = 0.0
        self.driver_mb = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        for pid in (os.getpid(), *_workers(os.getpid())):
            reset_peak(pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.driver_mb = peak_mb(os.getpid())

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        self.worker_mb = max([self.worker_mb, *map(peak_mb, _workers(os.getpid()))])


def reset_peak(pid: int) -> None:
    """Let the peak of a process begin with its present size."""
    with contextlib.suppress(OSError):  # it has ended
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds() -> float:
    """Return the processor time of this process and all below it, also of those that have ended."""
    ticks = 0
    for pid in (os.getpid(), *_below(os.getpid())):
        with contextlib.suppress(OSError):
            # utime, stime, and those of children that were waited for, after the name in parentheses
            found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, found[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _workers(root: int) -> list[int]:
    """Return PySpark's daemons and workers among the processes below a process."""
    return [pid for pid in _below(root) if b"pyspark.daemon" in _command(pid)]


def _below(root: int) -> list[int]:
    """Return the processes below a process, at any depth."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _status(int(entry.name))):
            parents[int(entry.name)] = int(status["PPid"])
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root and pid != root:
            found.append(pid)
    return found


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def peak_mb(pid: int) -> float:
    """Return the peak resident size of a process, in MB; 0 if it has ended."""
    return int(_status(pid).get("VmHWM", "0 kB").split()[0]) / 1024


@contextlib.contextmanager
def session(master: str, folder: Path, heap_mb: int = _HEAP_MB) -> Iterator[SparkSession]:
    """Provide a Spark on this machine; its workers end with it.

    heap_mb: Java's largest heap, which later sessions of this process share.
    """
    wanted = NEEDED | {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{heap_mb}m",
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def config(servers: str, source: str, target: str, backfill: Mapping[str, Any]) -> Config:
    """Return the route's configuration; the checkpoint, or the files, are in `backfill`."""
    tables: dict[str, Any] = {
        "route": {"from": ROUTE.source, "to": ROUTE.target},
        "source": {"bootstrap_servers": servers, "topics": [source], "group_id": target},
        "target": {"topic": target},
        "backfill": backfill,
    }
    return Config(**tables)


class _Identity(TopicsRun):
    """The job without its translation, and without the schema pass."""

    def _translate(self, frame: DataFrame, step: int) -> None:  # noqa: ARG002 - as the job's
        config = self._config
        copied = captured(frame).frame.mapInArrow(_unchanged, RECORDS)
        (target,) = config.target_topics.values()
        rows = copied.select(
            F.lit(target).alias("topic"),
            *("partition", "timestamp_ms", "key", "value", "headers"),
            F.col("topic").alias("source_topic"),
            F.col("partition").alias("source_partition"),
            F.col("offset").alias("source_offset"),
            F.lit(0).alias("number"),
        )
        assert self._topics is not None  # noqa: S101 - the bench has no `output`
        self._topics.write(rows)


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def timed(work: Callable[[], Result]) -> tuple[Run, Result]:
    """Measure some work; return its result as well."""
    with Peaks() as peaks:
        cpu, began = cpu_seconds(), time.perf_counter()
        result = work()
        seconds = time.perf_counter() - began
        cpu = cpu_seconds() - cpu
    return Run(seconds, cpu, peaks.worker_mb, peaks.driver_mb), result


def run_topics(spark: SparkSession, config: Config, program: str = JOB) -> Run:
    """Run over topics from beginning to end."""
    run, counts = timed(lambda: (_Identity if program == IDENTITY else TopicsRun)(spark, config).run())
    # Only the job itself counts records.
    assert (counts.read == 0) is (program == IDENTITY)  # noqa: S101 - else the job would be compared with itself
    return run
