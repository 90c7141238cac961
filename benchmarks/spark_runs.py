"""The Spark job and the floor beneath it, in one Spark: the same source, order and sink, and between them
nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.spark_load import ROUTE
from relay.config import Config
from spark_backfill.counts import BackfillCounts
from spark_backfill.frames import RECORDS
from spark_backfill.job import TopicsRun
from spark_backfill.sessions import NEEDED
from spark_backfill.topics import captured

TWIN: Final = "spark_backfill"
FLOOR: Final = "identity mapInArrow"
#: Records of a source partition that one task translates.
TASK_RECORDS: Final = 50_000
_SAMPLE_SECONDS = 0.2


class Peak:
    """Watches the memory of the Python workers beneath this process, and keeps the most that one of them had,
    in MB.
    """

    def __init__(self) -> None:
        self.mb = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self.mb = max([self.mb, *(_peak_mb(pid) for pid in _workers(os.getpid()))])


def _workers(root: int) -> list[int]:
    """PySpark's daemons and workers among the descendants of a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _status(int(entry.name))):
            parents[int(entry.name)] = int(status["PPid"])
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root and pid != root and b"pyspark.daemon" in _command(pid):
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


def _peak_mb(pid: int) -> float:
    return int(_status(pid).get("VmHWM", "0 kB").split()[0]) / 1024


@contextmanager
def session(master: str, folder: Path, jars: Iterable[Path]) -> Iterator[SparkSession]:
    """A Spark on this machine; its workers end with it."""
    wanted = NEEDED | {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, jars)),
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
    """The route's configuration; the checkpoint, or the files, are in `backfill`."""
    tables: dict[str, Any] = {
        "route": {"from": ROUTE.source, "to": ROUTE.target},
        "source": {"bootstrap_servers": servers, "topics": [source], "group_id": target},
        "target": {"topic": target},
        "backfill": {"task_records": TASK_RECORDS, **backfill},
    }
    return Config(**tables)


class _Floor(TopicsRun):
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


class Timed(NamedTuple):
    """Seconds of a run, and what it counted."""

    seconds: float
    counts: BackfillCounts


def run_topics(spark: SparkSession, config: Config, program: str = TWIN) -> Timed:
    """Run over topics from beginning to end."""
    began = time.perf_counter()
    counts = (_Floor if program == FLOOR else TopicsRun)(spark, config).run()
    seconds = time.perf_counter() - began
    # Only the job itself counts records.
    assert (counts.read == 0) is (program == FLOOR)  # noqa: S101 - else the job would be its own floor
    return Timed(seconds, counts)
