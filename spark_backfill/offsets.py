"""Find the partitions in files, and their ends: files have no index for this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import functions as F

from relay.config import Config
from relay.model.errors import ConfigError, Problem
from spark_backfill.files import Captured
from spark_backfill.frames import Columns, Reader, read_records
from spark_backfill.topics import behind_ends, named_bounds

_REACHED = "partition string, offset bigint"


def check_offsets(config: Config, records: Captured) -> None:
    """Refuse bounds of partitions without a record, and a start after its end. Raises ConfigError.

    Without bounds no file is read.
    """
    bounds = list(named_bounds(config))
    if not bounds:
        return
    ends = _ends(records)
    message = "unknown partition: the files have no record of it"
    problems = [Problem(key, message) for key, partition in bounds if partition not in ends]
    starts = config.source.start_offsets
    known = {partition: offset for partition, offset in starts.items() if partition in ends}
    if problems := [*problems, *behind_ends(known, ends)]:
        raise ConfigError(problems)


def partitions_in(records: Captured) -> list[tuple[str, int]]:
    """Find the partitions (topic, number) that have a record; the files are read once for it."""
    names = (partition.rpartition("/") for partition in sorted(_ends(records)))
    return [(topic, int(number)) for topic, _, number in names]


def _ends(records: Captured) -> dict[str, int]:
    """Return the offset after the last one of each `topic/partition`."""
    if isinstance(records.reader, Columns):  # without the values
        partition = F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("partition")
        reached = records.frame.select(partition, "offset").where("offset IS NOT NULL")
    else:
        reached = records.frame.mapInArrow(_Reached(records.reader), _REACHED)
    return {
        row.partition: row.last + 1
        for row in reached.groupBy("partition").agg(F.max("offset").alias("last")).collect()
    }


class _Reached:
    """Find the last offset of each partition among the rows of a task."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the partitions and their last offsets."""
        last: dict[str, int] = {}
        for batch in batches:
            for record in read_records(self.reader, batch):
                partition = f"{record.topic}/{record.partition}"
                last[partition] = max(last.get(partition, record.offset), record.offset)
        columns = [pa.array(list(last), pa.string()), pa.array(list(last.values()), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "offset"])
