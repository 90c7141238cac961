"""Bounds of files that name partitions which are not in them, or offsets behind their ends, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from spark.backfills import config_for
from spark.storage_sink import lay_out
from support import captured

from relay.config import Config
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError
from spark_backfill.frames import record_batch
from spark_backfill.job import from_files
from spark_backfill.spark_errors import explained
from spark_backfill.task_errors import RecordStopped

FILE = "ticdc/canal-json.tidb-extension/09_dml"
RECORDS = [
    msgspec.structs.replace(each, topic="t", partition=each.offset % 2 * 2) for each in captured(FILE)[:30]
]


def lines(folder: Path) -> str:
    (folder / "in.jsonl").write_bytes(b"".join(format_record(each, each.offset) for each in RECORDS))
    return str(folder / "in.jsonl")


def columns(folder: Path) -> str:
    table = pa.Table.from_batches([record_batch(RECORDS)]).rename_columns({"timestamp_ms": "timestamp"})
    parquet.write_table(table, folder / "in.parquet")
    return str(folder / "in.parquet")


def config(tmp_path: Path, path: str, file_format: str, start: dict[str, int], end: dict[str, int]) -> Config:
    bounds = {"end": "offsets", "end_offsets": end} if end else {}
    backfill = {"input_format": file_format, **bounds}
    return config_for(
        path, str(tmp_path / "out"), source={"start": "offsets", "start_offsets": start}, backfill=backfill
    )


@pytest.mark.parametrize(("file_format", "make"), [("json-lines", lines), ("parquet", columns)])
def test_partitions_and_ends_are_those_of_the_records(
    file_format: str, make: Any, spark: Any, tmp_path: Path
) -> None:
    path = make(tmp_path)
    with pytest.raises(ConfigError) as raised:
        from_files(spark, config(tmp_path, path, file_format, {"t/1": 0, "t/0": 30, "t/2": 30}, {"t/7": 3}))
    assert [str(problem) for problem in raised.value.problems] == [
        'source.start_offsets."t/1": unknown partition: the files have no record of it',
        'backfill.end_offsets."t/7": unknown partition: the files have no record of it',
        'source.start_offsets."t/0": is 30, and the partition ends at 29',
    ]
    assert not (tmp_path / "out").exists()
    counts = from_files(spark, config(tmp_path, path, file_format, {"t/0": 29, "t/2": 29}, {}))
    assert (counts.read, counts.left_out) == (1, 29)


def test_the_ends_of_a_storage_sink_are_those_of_its_numbers(spark: Any, tmp_path: Path) -> None:
    tables = lay_out(tmp_path / "in", captured(FILE), 5)
    count = sum(map(len, tables.values()))
    with pytest.raises(ConfigError, match=f"is {count + 1}, and the partition ends at {count}"):
        from_files(spark, config(tmp_path, str(tmp_path / "in"), "ticdc-storage", {"t/0": count + 1}, {}))


def test_an_invalid_line_is_reported(spark: Any, tmp_path: Path) -> None:
    file = Path(lines(tmp_path))
    file.write_bytes(file.read_bytes().replace(b'"topic":"t"', b'"topic":"t"}', 1))
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, whose text is examined
        from_files(spark, config(tmp_path, str(file), "json-lines", {"t/0": 1}, {}))
    assert isinstance(explained(raised.value), RecordStopped)
