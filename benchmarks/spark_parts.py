"""The parts of the Spark benchmark. Each function of `JOBS` runs in a separate process with its own Java."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from spark.storage_sink import lay_out

from benchmarks.spark_load import Fill, Load, create, delete, filling
from benchmarks.spark_matrix import Case, Parameters
from benchmarks.spark_report import (
    FORMATS,
    HEAP_MB,
    OUTPUTS,
    Cores,
    Listing,
    ManyTables,
    Result,
    Run,
    Same,
    Simulated,
    Speed,
    TablesWritten,
)
from benchmarks.spark_runs import IDENTITY, JOB, config, peak_mb, run_topics, session, timed
from benchmarks.spark_same import contents, relay_all
from relay.io.record_lines import format_record
from spark_backfill.counts import BackfillCounts, CountsParam, Tally, as_document, as_text
from spark_backfill.files import read_files
from spark_backfill.job import from_files
from spark_backfill.ticdc_storage import read_storage

#: Most messages of the run before a case, which starts workers and lets Java compile.
_WARM_UP: Final = 20_000
#: Partitions of topics in files.
_PARTITIONS: Final = 4
#: Messages of each table in `tables-to-parquet`.
_ROWS: Final = 20
#: Records of a task, and of all tasks, in the run of `memory`.
_SMALL_TASK, _SMALL_TASKS_RECORDS = 1_000, 150_000
#: Files of one folder, and tables of the storage sink, in `listing`.
_FILES_OF_FOLDER, _SINK_TABLES = 1_000, 100


class Failed(Exception):
    """A part did not do its work."""


class Place(NamedTuple):
    """The environment of a part: the brokers, its folder, and the parameters. `tell` shows progress."""

    servers: str
    folder: Path
    parameters: Parameters
    tell: Callable[[str], None]
    session: Callable[..., AbstractContextManager[Any]] = session

    def new(self) -> str:
        """Return a new path."""
        return str(self.folder / uuid.uuid4().hex)

    @contextmanager
    def topic(self, fill: Fill, case: Case) -> Iterator[str]:
        """Provide a source topic."""
        source = f"source-{uuid.uuid4().hex[:8]}"
        self.tell(f"writing {case}")
        fill(self.servers, source, Load(*case))
        try:
            yield source
        finally:
            asyncio.run(delete(self.servers, [source]))

    @contextmanager
    def target(self, partitions: int) -> Iterator[str]:
        """Provide a target topic."""
        target = f"target-{uuid.uuid4().hex[:8]}"
        asyncio.run(create(self.servers, [target], partitions))
        try:
            yield target
        finally:
            asyncio.run(delete(self.servers, [target]))

    def over_topics(
        self, spark: Any, source: str, target: str, program: str = JOB, task_records: int = 0
    ) -> Run:
        """Run a program from topic to topic."""
        backfill = {
            "checkpoint": self.new(),
            "task_records": task_records or self.parameters.task_records,
        }
        return run_topics(spark, config(self.servers, source, target, backfill), program)

    def over_files(self, spark: Any, source: Path, **backfill: Any) -> Run:
        """Run the job from record files to files, and delete its output."""
        output = self.new()
        keys = {"input": str(source), "output": output, **backfill}
        run, _ = timed(lambda: from_files(spark, _of_files(keys)))
        shutil.rmtree(output)
        return run

    def record_files(self, load: Load) -> Path:
        """Write one record file for each partition."""
        folder = self.folder / f"records-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        for partition in range(load.partitions):
            with (folder / f"{partition}.jsonl").open("wb") as file:
                file.writelines(format_record(each, each.offset) for each in load.records(partition))
        return folder


def _of_files(backfill: Mapping[str, Any]) -> Any:
    return config("127.0.0.1:1", "orders", "{topic}.canal", backfill)


def speed(place: Place) -> Iterator[Result]:
    """Run the job and the identity job in turns, once around in each round; every other round begins with the
    other one.
    """
    parameters = place.parameters
    few = Case(min(_WARM_UP, *parameters.messages), _PARTITIONS, 1, parameters.alters)
    with filling() as fill, place.topic(fill, few) as warm_up:
        for case in parameters.cases:
            runs: dict[str, list[Run]] = {IDENTITY: [], JOB: []}
            rounds = parameters.rounds_of(case.messages)
            with place.topic(fill, case) as source, place.session("local[2]", place.folder) as spark:
                for program in runs:
                    with place.target(few.partitions) as target:
                        place.over_topics(spark, warm_up, target, program)
                for number in range(rounds):
                    for program in (IDENTITY, JOB) if number % 2 == 0 else (JOB, IDENTITY):
                        with place.target(case.partitions) as target:
                            run = place.over_topics(spark, source, target, program)
                        runs[program].append(run)
                        place.tell(
                            f"speed: {case}: round {number + 1} of {rounds}: {program} {run.seconds:.1f} s"
                        )
            yield Speed(case, runs[JOB], runs[IDENTITY])


def cores(place: Place) -> Iterator[Result]:
    """Run the job over the same files with each number of cores in turn."""
    parameters = place.parameters
    messages = parameters.most_messages
    files = place.record_files(Load(messages, _PARTITIONS, alters=parameters.alters))
    few = place.record_files(Load(min(_WARM_UP, messages), _PARTITIONS, alters=parameters.alters))
    runs: dict[int, Sequence[Run]] = {number: [] for number in parameters.cores}
    rounds = parameters.rounds_of(messages)
    for number in range(rounds):
        for count, found in runs.items():
            with place.session(f"local[{count}]", place.folder) as spark:
                # The start of a context, of its workers and of their code is no work on the files.
                place.over_files(spark, few)
                run = place.over_files(spark, files)
            place.tell(f"cores: round {number + 1} of {rounds}: {count} cores {run.seconds:.1f} s")
            runs[count] = [*found, run]
    yield Cores(messages, runs)


def simulated(place: Place) -> Iterator[Result]:
    """Add the counters of many tasks as the driver of Spark does it."""
    tasks, tables = place.parameters.tasks, max(place.parameters.tables)
    base_mb, began = peak_mb(os.getpid()), time.perf_counter()
    param = CountsParam()
    found = param.zero(Tally())
    of_partitions = [_counted(number, tables) for number in range(_PARTITIONS)]
    for task in range(tasks):
        # A worker sends this to the driver.
        sent = pickle.dumps(Tally({task}, of_partitions[task % _PARTITIONS]))
        found = param.addInPlace(found, pickle.loads(sent))  # noqa: S301 - made here
    seconds = time.perf_counter() - began
    if found.counts.read != 3 * tasks * tables or len(found.counts.tables) != tables:
        raise Failed(f"counted {found.counts.read} records and {len(found.counts.tables)} tables")
    as_text(found.counts, seconds)
    as_document(found.counts, seconds)
    yield Simulated(tasks, tables, base_mb, peak_mb(os.getpid()), seconds)


def _counted(partition: int, tables: int) -> BackfillCounts:
    """Return the counters of a task with three rows of each table."""
    kinds = {"insert": 1, "update": 1, "delete": 1}
    return BackfillCounts(
        read=3 * tables,
        written=Counter({f"orders.canal/{partition}": 3 * tables}),
        events=Counter(dict.fromkeys(kinds, tables)),
        tables={f"database.table_{number:04}": Counter(kinds) for number in range(tables)},
        ranges={f"orders/{partition}": (0, 3 * tables - 1, 3 * tables)},
    )


def many_tables(place: Place) -> Iterator[Result]:
    """Run tasks of few records, each with many tables."""
    parameters = place.parameters
    messages = min(parameters.most_messages, _SMALL_TASKS_RECORDS)
    case = Case(messages, 1, max(parameters.tables), parameters.alters)
    with (
        filling() as fill,
        place.topic(fill, case) as source,
        place.target(case.partitions) as target,
        place.session("local[2]", place.folder) as spark,
    ):
        run = place.over_topics(spark, source, target, task_records=_SMALL_TASK)
        place.tell(f"memory: {case}: {run.seconds:.1f} s")
    yield ManyTables(case, -(-messages // _SMALL_TASK), run)


def same(place: Place) -> Iterator[Result]:
    """Compare the job's output with relay's."""
    with filling() as fill:
        for case in place.parameters.compared:
            with place.topic(fill, case) as source, place.target(1) as by_relay, place.target(1) as by_job:
                relay_seconds = relay_all(place.servers, source, by_relay, place.folder)
                place.tell(f"same: {case}: relay took {relay_seconds:.1f} s")
                with place.session("local[2]", place.folder) as spark:
                    run = place.over_topics(spark, source, by_job)
                place.tell(f"same: {case}: the job took {run.seconds:.1f} s")
                relays, jobs = (asyncio.run(contents(place.servers, each)) for each in (by_relay, by_job))
            tasks = -(-case.messages // place.parameters.task_records)
            yield Same(case, jobs.records, tasks, relay_seconds, run, relays.difference(jobs))


def tables_written(place: Place, output: str) -> Iterator[Result]:
    """Write many tables to folders by table, with a small heap."""
    tables = place.parameters.parquet_tables
    load = Load(_ROWS * tables, _PARTITIONS, tables, place.parameters.alters)
    source, target = place.record_files(load), Path(place.new())
    output_keys = {
        "records": {"output_format": "parquet", "output_layout": "table"},
        "rows": {"output_format": "rows"},
    }
    backfill = {"input": str(source), "output": str(target), **output_keys[output]}
    with place.session("local[2]", place.folder, heap_mb=HEAP_MB) as spark:
        run, _ = timed(lambda: from_files(spark, _of_files(backfill)))
        jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no other way to its Java
        heap_mb = jvm.java.lang.Runtime.getRuntime().maxMemory() / (1 << 20)
    written = {path.parent for path in target.glob("database=bulk_db/table=t*/**/*.parquet")}
    names = {part for path in written for part in path.parts if part.startswith("table=")}
    place.tell(f"tables-to-parquet: {len(names)} tables as {output} in {run.seconds:.1f} s")
    if len(names) != tables:
        raise Failed(f"wrote {len(names)} of {tables} tables as {output}")
    shutil.rmtree(target)
    yield TablesWritten(tables, output, load.messages, heap_mb, run)


def listed(place: Place, kind: str) -> Iterator[Result]:
    """List an input of many small files."""
    folder, count = Path(place.new()), place.parameters.files
    place.tell(f"listing: making {count:,} files: {kind}")
    make, read = _INPUTS[kind]
    make(folder, count)
    with place.session("local[2]", place.folder) as spark:
        run, captured = timed(lambda: read(spark, str(folder)))
        place.tell(f"listing: {count:,} files: {kind}: {run.seconds:.1f} s")
        files = len(captured.frame.inputFiles())
    if files != count:
        raise Failed(f"found {files} of {count} files")
    shutil.rmtree(folder)
    yield Listing(count, kind, run)


def _make_files(folder: Path, count: int, contents: Sequence[bytes], suffix: str) -> None:
    for number, content in zip(range(count), cycle(contents), strict=False):
        below = folder / f"part={number // _FILES_OF_FOLDER}"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number:06}.{suffix}").write_bytes(content)


def _make_record_files(folder: Path, count: int) -> None:
    lines = [format_record(each, each.offset) for each in Load(100, alters=0).records()]
    _make_files(folder, count, lines, "jsonl")


def _make_parquet(folder: Path, count: int) -> None:
    (record, *_) = Load(1, alters=0).records()
    columns = {
        "topic": pa.array([record.topic]),
        "partition": pa.array([record.partition], pa.int32()),
        "offset": pa.array([record.offset], pa.int64()),
        "timestamp": pa.array([record.timestamp_ms], pa.timestamp("ms", "UTC")),
        "key": pa.array([record.key], pa.binary()),
        "value": pa.array([record.value], pa.binary()),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    _make_files(folder, count, [sink.getvalue().to_pybytes()], "parquet")


def _make_storage(folder: Path, count: int) -> None:
    tables = min(_SINK_TABLES, count)
    folder.mkdir()
    lay_out(folder, [*Load(count, tables=max(2, tables), alters=0).records()], each=1)


def _read_files(spark: Any, path: str, file_format: str) -> Any:
    given = _of_files({"input": path, "input_format": file_format, "output": "out"})
    return read_files(spark, path, given.backfill.input_format)


def _read_storage(spark: Any, path: str) -> Any:
    given = _of_files({"input": path, "input_format": "ticdc-storage", "output": "out"})
    captured, _ = read_storage(spark, given)
    return captured


_INPUTS: Final[Mapping[str, tuple[Callable[[Path, int], None], Callable[[Any, str], Any]]]] = dict(
    zip(
        FORMATS,
        [
            (_make_record_files, partial(_read_files, file_format="json-lines")),
            (_make_parquet, partial(_read_files, file_format="parquet")),
            (_make_storage, _read_storage),
        ],
        strict=True,
    )
)
Job = Callable[[Place], Iterator[Result]]
#: The processes of each part, one after the other.
JOBS: Final[Mapping[str, Sequence[Job]]] = {
    "speed": [speed],
    "cores": [cores],
    "memory": [simulated, many_tables],
    "same": [same],
    "tables-to-parquet": [partial(tables_written, output=each) for each in OUTPUTS],
    "listing": [partial(listed, kind=each) for each in FORMATS],
}
#: The parts that need no broker.
WITHOUT_KAFKA: Final = {"cores", "tables-to-parquet", "listing"}
