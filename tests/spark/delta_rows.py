"""Tables of rows in Delta Lake, in a process of its own: its classes are those of a session.

Its arguments are the jars and a folder. Its last line of output is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from docs.test_documentation import blocks
from pyspark.sql import SparkSession
from spark.conftest import SETTINGS
from spark.test_function import of_kafka
from spark.test_rows import DDL, PAGE, comparable, final, page_functions
from spark.test_rows_output import config_of_rows, write, write_steps
from support import captured, protocol_of

from relay.config.keys import RowsFormat
from spark_backfill import definitions, rows
from spark_backfill.rows_output import RowsOutput
from spark_backfill.sessions import NEEDED

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Otherwise each reading of a table's log has 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "1",
}


#: Changes with changes of keys, and changes with TRUNCATE and DROP; and the key of each table.
MERGED = {
    "mysql/canal-json/09_dml": ("dml_db.accounts", ["id"]),
    DDL: ("ddl_db.tmp_a", ["id"]),
}


def differences(spark: SparkSession, folder: Path, file: str) -> list[int]:
    """Merge the changes of a capture in steps, by the recipe of the page; compare the table after each.

    Return the number of rows after each step, -1 where they differ from those of the source.
    """
    (table, key), source, records = MERGED[file], protocol_of(file), captured(file)
    df = of_kafka(spark, records)
    changes = rows(df, source=source, table=table, ddl=definitions(df, source=source)).cache()
    names: dict[str, Any] = page_functions(spark)
    path = str(folder / table)
    names |= {"changes": changes, "key": key, "path": path}
    for block in blocks(PAGE, "python")[4:6]:
        exec(block, names)  # noqa: S102 - our own page
    offsets = sorted({row.source_offset for row in changes.select("source_offset").collect()})
    ends = [offsets[len(offsets) // 2], offsets[-1] + 1]
    found, begin = [], 0
    for end in ends:
        step = changes.where(f"source_offset >= {begin} AND source_offset < {end}")
        for _ in range(1 if begin == 0 else 2):
            names["merge_into"](spark, f"delta.`{path}`", step, key)
        now = spark.read.format("delta").load(path).toArrow().to_pylist()
        expected = names["final_rows"](changes.where(f"source_offset < {end}"), key).toArrow().to_pylist()
        found.append(len(now) if sorted(map(comparable, now)) == sorted(map(comparable, expected)) else -1)
        begin = end
    changes.unpersist()
    if file != DDL:
        assert found[-1] == len(final(records, source, table, key))
    return found


def main(jars: str, folder: Path) -> None:
    builder = SparkSession.builder
    for name, value in (NEEDED | SETTINGS | DELTA | {"spark.jars": jars}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    config = config_of_rows(folder, backfill={"rows_format": "delta"})
    target = RowsOutput(str(folder / "steps"), RowsFormat.DELTA, run="test")
    write_steps(spark, config, target)
    target.check(spark)
    whole = RowsOutput(str(folder / "whole"), RowsFormat.DELTA)
    for end in (15, 8):
        write(spark, config, whole, captured(DDL)[:end])
    steps, runs = (
        spark.read.format("delta").load(str(folder / name / "database=ddl_db/table=users/version=1"))
        for name in ("steps", "whole")
    )
    found = {
        "steps": [row.source_offset for row in steps.orderBy("source_offset").collect()],
        "whole": [row.source_offset for row in runs.orderBy("source_offset").collect()],
        "merged": [differences(spark, folder, file) for file in MERGED],
        "columns": sorted(steps.select("after.*").columns),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
