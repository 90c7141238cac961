"""Tables of rows as a target: one for each version of each table of the source.

    OUTPUT/database=…/table=…/version=…[/step=…]

Tasks read every record once, and write the rows of all tables as text to a staging folder. Then each table is
written from there with its types, several at a time. The staging folder is inside the output, where readers
ignore it because of its name, and is deleted at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final, NamedTuple

from pyspark import inheritable_thread_target
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.catalog import Catalog
from relay.config import Config
from relay.config.keys import FileFormat, InputFormat, RowsFormat
from relay.core.error_policies import Policy
from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from spark_backfill.counts import BackfillCounts, CountsParam, Tally
from spark_backfill.files import Captured
from spark_backfill.first_records import ratio_stops
from spark_backfill.hadoop import files_below, hadoop_path, qualified
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers
from spark_backfill.row_reading import TEXT_ROWS, ReadRows
from spark_backfill.row_versions import ColumnTypes, versions_of
from spark_backfill.terms import Bounds
from spark_backfill.typed_rows import typed_columns

#: The folder of rows as text, below the output.
_STAGING: Final = "_staging"
#: Tables that are written at the same time.
_TABLES_AT_ONCE: Final = 4
#: The folders and files that runs leave in an output.
_OWN: Final = re.compile(
    rf"({_STAGING}|database=[^/]+/table=[^/]+/version=\d+(/step=\d+)?/(_temporary|_delta_log))/.*|"
    r"database=[^/]+/table=[^/]+/version=\d+(/step=\d+)?/(_SUCCESS|\._SUCCESS\.crc|\.?part-[^/]+)",
    re.DOTALL,
)


def writes_rows(config: Config) -> bool:
    """Return whether a run writes tables of rows instead of records."""
    return config.backfill.output_format is FileFormat.ROWS


def rows_problems(config: Config) -> Iterator[Problem]:
    """Find settings that do not suit tables of rows."""
    if not writes_rows(config):
        return
    for name, policy in config.errors.by_class.items():
        if policy is Policy.DEAD_LETTER:
            message = "tables of rows have no place for dead letters"
            yield Problem(f"errors.{name}", message, "choices: stop, skip")
    if ratio_stops(config):
        message = "is not checked for tables of rows"
        yield Problem("errors.on_max_failure_ratio", message, 'set it to "degrade"')
    if config.backfill.input_format is InputFormat.TICDC_STORAGE:
        message = "is not read for tables of rows"
        yield Problem("backfill.input_format", message, "write records instead")


def run_name(spark: SparkSession, checkpoint: str) -> str:
    """Return the name of a run: the path of its checkpoint, however it is spelled."""
    return qualified(*hadoop_path(spark, checkpoint)).rstrip("/")


class TableVersion(NamedTuple):
    """One version of a table with rows, and its folder below the output."""

    table: TableId
    version: int
    columns: ColumnTypes


class RowsOutput(NamedTuple):
    """A folder of tables to write to.

    step: The number of a step in a run of several; None for a run that writes everything again.
    run: The name of the run, by which Delta recognizes a step that is repeated.
    """

    path: str
    rows_format: RowsFormat
    step: int | None = None
    run: str = ""

    def check(self, spark: SparkSession, *, is_new: bool = False) -> None:
        """Refuse a folder that contains other files than those of runs. Raises ConfigError.

        `is_new`: the folder must be empty, because a run in steps begins.
        """
        folder, system = hadoop_path(spark, self.path)
        if not system.exists(folder):
            return
        folder = system.makeQualified(folder)
        root = str(folder.toString()).rstrip("/")
        for file in files_below(spark, folder, system):
            name = file[len(root) + 1 :]
            if not _OWN.fullmatch(name):
                message = f"{self.path} contains other files than tables of rows: {name}"
                raise ConfigError([Problem("backfill.output", message, "name an empty folder")])
            if is_new and not name.startswith(_STAGING):
                message = f"{self.path} already contains {name}, and the checkpoint is new"
                hint = "name an empty folder, or the checkpoint that it was written with"
                raise ConfigError([Problem("backfill.output", message, hint)])

    def write(self, spark: SparkSession, rows: DataFrame, catalog: Catalog) -> None:
        """Write rows, a frame of `TEXT_ROWS`, to their tables."""
        staging = f"{self.path.rstrip('/')}/{_STAGING}"
        try:
            by_table = rows.drop("error").write.partitionBy("database", "table", "version")
            by_table.mode("overwrite").parquet(staging)
            self._delete_earlier(spark)
            self._write_tables(spark, staging, catalog)
        finally:
            folder, system = hadoop_path(spark, staging)
            system.delete(folder, True)

    def _delete_earlier(self, spark: SparkSession) -> None:
        """Delete the output of an earlier run, or of an earlier attempt at this step."""
        if self.step is not None and self.rows_format is RowsFormat.DELTA:
            return  # Delta recognizes the step
        below = "database=*" if self.step is None else f"database=*/table=*/version=*/step={self.step}"
        pattern, system = hadoop_path(spark, f"{self.path.rstrip('/')}/{below}")
        for status in system.globStatus(pattern) or ():
            system.delete(status.getPath(), True)

    def _write_tables(self, spark: SparkSession, staging: str, catalog: Catalog) -> None:
        staged = _staged(spark, staging)
        if staged is None:
            return
        found = staged.select("database", "table", "version").distinct().collect()
        tables = [TableVersion(TableId(row.database, row.table), int(row.version), {}) for row in found]
        tables = [
            each._replace(columns=versions_of(catalog, each.table).columns[each.version - 1])
            for each in sorted(tables)
        ]

        def write(each: TableVersion) -> None:
            self._write_table(spark, staged, each)

        pool = ThreadPoolExecutor(_TABLES_AT_ONCE)
        try:
            # Properties of the session, such as the group of jobs that a signal cancels, hold in each thread.
            futures = [pool.submit(inheritable_thread_target(spark)(write), each) for each in tables]
            for done in as_completed(futures):
                done.result()
        finally:  # after an error, the other tables are not written
            pool.shutdown(wait=False, cancel_futures=True)

    def _write_table(self, spark: SparkSession, staged: DataFrame, each: TableVersion) -> None:
        table = each.table
        own = (F.col("database") == table.database) & (F.col("table") == table.table)
        rows = staged.where(own & (F.col("version") == str(each.version)))
        typed = rows.select(*typed_columns(each.columns))
        path = self.folder_of(spark, each)
        writer = typed.write.mode("overwrite")
        if self.rows_format is RowsFormat.PARQUET:
            writer.parquet(path if self.step is None else f"{path}/step={self.step}")
        elif self.step is None:
            writer.format("delta").option("overwriteSchema", "true").save(path)
        else:
            options = {"mergeSchema": "true", "txnAppId": self.run, "txnVersion": str(self.step)}
            typed.write.format("delta").mode("append").options(**options).save(path)

    def folder_of(self, spark: SparkSession, each: TableVersion) -> str:
        """Return the folder of a version of a table."""
        jvm: Any = spark._jvm
        escape = jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName
        names = f"database={escape(each.table.database)}/table={escape(each.table.table)}"
        return f"{self.path.rstrip('/')}/{names}/version={each.version}"


def _staged(spark: SparkSession, staging: str) -> DataFrame | None:
    """Return the staged rows; None if there are none, where Spark writes no file with a schema."""
    folder, system = hadoop_path(spark, f"{staging}/database=*")
    if not system.globStatus(folder):
        return None
    types = TEXT_ROWS.partition(", error ")[0].replace("version int", "version string")
    return spark.read.schema(types).parquet(staging)


def write_rows(  # noqa: PLR0913 - the inputs of a step
    spark: SparkSession,
    config: Config,
    records: Captured,
    catalog: Catalog,
    target: RowsOutput,
    *,
    bounds: Bounds,
    known: RegistryAnswers = NO_ANSWERS,
) -> BackfillCounts:
    """Write the rows of records to the tables of `target`; return the counters."""
    context = spark.sparkContext
    shared, counters = context.broadcast(catalog), context.accumulator(Tally(), CountsParam())
    try:
        work = ReadRows(config, records.reader, shared, counters=counters, bounds=bounds, known=known)
        target.write(spark, records.frame.mapInArrow(work, TEXT_ROWS), catalog)
    finally:
        shared.destroy()
        _accumulatorRegistry.pop(counters.aid, None)
    counts: BackfillCounts = counters.value.counts
    return counts
