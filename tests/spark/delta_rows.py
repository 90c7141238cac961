"""Tables of rows in Delta Lake, in a process of its own: its classes are those of a session.

Its arguments are the jars and a folder. Its last line of output is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from spark.conftest import SETTINGS
from spark.test_rows import DDL
from spark.test_rows_output import config_of_rows, write, write_steps
from support import captured

from relay.config.keys import RowsFormat
from spark_backfill.rows_output import RowsOutput
from spark_backfill.sessions import NEEDED

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Otherwise each reading of a table's log has 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "1",
}


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
        "columns": sorted(steps.select("after.*").columns),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
