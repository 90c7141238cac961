"""Configurations of backfills, and what lies in the folders that they write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from relay import ConsumerRecord
from relay.config import Config
from relay.io.record_lines import format_record

_NUMBER = re.compile(r"part-(\d+)")


def config_for(input_path: str = "", output: str = "", **tables: dict[str, Any]) -> Config:
    """A configuration for files; `route={…}` and others add to its tables."""
    found: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "localhost:1", "topics": ["t"], "group_id": "g"},
        "target": {"topic": "{topic}"},
        "backfill": {"input": input_path, "output": output},
    }
    for name, keys in tables.items():
        found.setdefault(name, {}).update(keys)
    return Config(**found)


def lines_in(folder: Path) -> dict[str, list[bytes]]:
    """The lines of every topic and partition, in the order of steps and files."""
    found: dict[str, list[bytes]] = {}
    paths = [path for path in folder.rglob("part-*") if not path.name.endswith(".crc")]
    for path in sorted(paths, key=_order):
        names = dict(part.split("=", 1) for part in path.relative_to(folder).parts[:-1])
        partition = f"{names['topic']}/{names['partition']}"
        found.setdefault(partition, []).extend(path.read_bytes().splitlines())
    return found


def _order(path: Path) -> tuple[int, int]:
    step = re.search(r"/step=(\d+)/", path.as_posix())
    number = _NUMBER.search(path.name)
    return int(step[1]) if step else 0, int(number[1]) if number else 0


def partitions_in(spark: Any, folder: Path) -> dict[str, list[bytes]]:
    """The records of a folder of Parquet, as lines, by topic and partition."""
    from pyspark.sql import functions as F

    frame = spark.read.parquet(str(folder)).withColumn("ms", F.unix_millis("timestamp"))
    found: dict[str, list[bytes]] = {}
    for row in sorted(frame.collect(), key=lambda row: (row.topic, int(row.partition), row.offset)):
        headers = tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers)
        key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
        record = ConsumerRecord(row.topic, int(row.partition), row.offset, row.ms, key, value, headers)
        found.setdefault(f"{row.topic}/{row.partition}", []).append(
            format_record(record, row.offset).rstrip(b"\n")
        )
    return found
