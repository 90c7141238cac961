"""`translate` and `rows` over Spark Connect, in a process of its own: a session of classic Spark excludes one.

Its arguments are an Arrow file with records, and a folder for the results. Its last line of output is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_backfill import definitions, row_schemas, rows, translate

ROUTE: dict[str, Any] = {"source": "ticdc-canal-json", "target": "debezium-json"}


def keep(result: DataFrame, path: Path) -> None:
    """Store the records of a result."""
    table = result.selectExpr("*", "unix_millis(timestamp) AS ms").drop("timestamp").toArrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


def inserted(df: DataFrame, ddl: DataFrame, version: int, column: str) -> list[list[Any]]:
    """Some cells of two rows of a table."""
    changes = rows(df, source=ROUTE["source"], table="ddl_db.users", ddl=ddl, version=version)
    wanted = changes.where("op = 'insert' AND after.id IN (3, 5)")
    return [
        list(row)
        for row in wanted.selectExpr("after.id", "after.name", f"CAST({column} AS STRING)").collect()
    ]


def main(records: str, folder: Path) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    rows = spark.createDataFrame(pa.ipc.open_file(records).read_all())
    df = (
        rows.selectExpr("*", "timestamp_millis(timestamp_ms) AS timestamp")
        .drop("timestamp_ms")
        .repartition(3)
    )
    definitions(df, source=ROUTE["source"]).write.parquet(str(folder / "ddl"))
    ddl = spark.read.parquet(str(folder / "ddl"))
    keep(translate(df, ddl=ddl, **ROUTE), folder / "batch.arrow")
    df.write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = translate(stream, ddl=ddl, **ROUTE).writeStream.option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    query = writer.trigger(availableNow=True).start(str(folder / "out"), format="parquet")
    query.awaitTermination()
    keep(spark.read.parquet(str(folder / "out")), folder / "stream.arrow")
    broken = df.limit(1).selectExpr("*", "CAST('{' AS binary) AS broken").drop("value")
    failed = translate(broken.withColumnRenamed("broken", "value"), on_error="column", **ROUTE).collect()
    counted = translate(df, ddl=ddl, with_counts=True, **ROUTE).where("counts IS NOT NULL").collect()
    read = sum(row.counts.records_read for row in counted)
    found = {
        "failed": [row.error.code for row in failed],
        "read": read,
        "versions": len(row_schemas(ddl, source=ROUTE["source"])["ddl_db.users"]),
        "rows": [*inserted(df, ddl, 1, "after.age"), *inserted(df, ddl, 4, "after.m1")],
    }
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
