"""The schema pass: the DDL of a source is found in parallel, and the driver learns it into the catalogue that
all tasks share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.codecs.codec import RowSignature
from relay.config import Config
from relay.errors import ConfigError, Problem
from relay.records import ConsumerRecord
from spark_backfill.files import Captured, hadoop_path
from spark_backfill.frames import RECORDS, Columns, Lines, record_batch
from spark_backfill.translation import OnlyDdl

_WRITTEN = "place string, records bigint"
#: How a record file's line names a value that is text.
_VALUE: Final = '"value":"'
#: The number of what stands before the first step.
BEFORE: Final = -1


def ddl_of(captured: Captured, config: Config, name: str = "input") -> list[ConsumerRecord]:
    """The source records with DDL, and no others: the only records that ever come to the driver. `name`: of
    what, for errors.
    """
    frame, reader = captured.frame, captured.reader
    marks = config.translator().route.source.row_signature
    # Most rows are known by their bytes, inside the JVM.
    if marks is not None and isinstance(reader, Columns):
        frame = frame.where(~_shows(marks))
    elif marks is not None and isinstance(reader, Lines) and marks.part == "value":
        frame = frame.where(~_shows_in_line(marks))
    found = frame.mapInArrow(OnlyDdl(config, reader, name), RECORDS)
    return _records(found)


def _shows(marks: RowSignature) -> Column:
    """`RowSignature.matches` in Spark's words."""
    return _marked(F.coalesce(F.col(marks.part), F.lit(b"")), marks, lambda mark: F.lit(bytearray(mark)))


def _shows_in_line(marks: RowSignature) -> Column:
    """The same of a record file's line that is spelt as relay does, the value last; others are looked into.

    Inside the value's text every quote is escaped, so that plain ones around a comma begin another member.
    """
    line, begin = F.col("value").cast("string"), F.lit(_VALUE)
    value = F.substring_index(line, _VALUE, -1)
    is_last = F.contains(line, begin) & ~F.contains(value, F.lit('","')) & ~F.contains(value, F.lit('", "'))
    return is_last & _marked(value, marks, lambda mark: F.lit(json.dumps(mark.decode())[1:-1]))


def _marked(text: Column, marks: RowSignature, literal: Callable[[bytes], Column]) -> Column:
    every = F.lit(True)
    for group in marks.groups:
        one = F.lit(False)
        for mark in group:
            one = one | F.contains(text, literal(mark))
        every = every & one
    for mark in marks.never:
        every = every & ~F.contains(text, literal(mark))
    return every


def _records(frame: DataFrame) -> list[ConsumerRecord]:
    return [record for batch in frame.toArrow().to_batches() for record in Columns().read(batch)]


class Kept:
    """What a run of several steps remembers beside Spark's checkpoint: the DDL of every step, and what was
    written so far.

    A step that is done again writes its own part anew.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._folder = spark, f"{checkpoint.rstrip('/')}/relay"
        self._written: tuple[int, dict[str, int]] | None = None

    def keep_ddl(self, step: int, records: list[ConsumerRecord]) -> None:
        """Keep the DDL of a step, or what stands before the first one (`BEFORE`)."""
        if records:
            frame = self._spark.createDataFrame(pa.Table.from_batches([record_batch(records)]), RECORDS)
            frame.coalesce(1).write.mode("overwrite").parquet(f"{self._folder}/ddl/step={step}")

    def ddl_before(self, step: int) -> list[ConsumerRecord]:
        """The DDL of all steps before this one."""
        frame = self._read("ddl", f"{RECORDS}, step string")
        return [] if frame is None else _records(frame.where(F.col("step").cast("bigint") < step))

    def keep_written(self, step: int, written: Mapping[str, int]) -> None:
        """Keep how many records were written to each `topic/partition` up to the end of a step.

        A step that is done again needs what was before it, and nobody needs what is older.
        """
        self._written = step, dict(written)
        frame = self._spark.createDataFrame(list(written.items()), _WRITTEN)
        frame.coalesce(1).write.mode("overwrite").parquet(f"{self._folder}/written/step={step}")
        older, system = hadoop_path(self._spark, f"{self._folder}/written/step={step - 2}")
        system.delete(older, True)

    def written_before(self, step: int) -> dict[str, int]:
        """How many records the steps before this one have written to each `topic/partition`. Raises
        ConfigError.
        """
        if step == 0:
            return {}
        if self._written is None or self._written[0] != step - 1:
            frame = self._read(f"written/step={step - 1}", _WRITTEN)
            if frame is None:
                message = (
                    f"{self._folder} lacks what was written before step {step}: offsets would begin anew"
                )
                raise ConfigError(
                    [
                        Problem(
                            "backfill.checkpoint",
                            message,
                            "a new run needs a new checkpoint and a new target",
                        )
                    ]
                )
            self._written = step - 1, {row.place: row.records for row in frame.collect()}
        return self._written[1]

    def _read(self, what: str, columns: str) -> DataFrame | None:
        folder, system = hadoop_path(self._spark, f"{self._folder}/{what}")
        if not system.exists(folder):
            return None
        # The schema is said: a first step that was killed while it wrote has left a folder from which none
        # can be told.
        return self._spark.read.schema(columns).parquet(folder.toString())
