"""Captured TiCDC Canal-JSON, laid out in folders as TiCDC's storage sink does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay import ConsumerRecord

Columns = Sequence[dict[str, str]]
CHECKSUM = "3131721815"


def schema_file(
    folder: Path,
    schema: str,
    table: str,
    version: int,
    query: str = "",
    columns: Sequence[dict[str, str]] = (),
) -> Path:
    """A schema file, indented as Go does it."""
    said = {
        "Table": table,
        "Schema": schema,
        "Version": 1,
        "TableVersion": version,
        "Query": query,
        "Type": 3 if query else 0,
        "TableColumns": list(columns) or None,
        "TableColumnsTotal": len(columns),
    }
    path = folder / schema / table / "meta" / f"schema_{version}_{CHECKSUM}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said, indent=4, ensure_ascii=False))
    return path


def data_files(folder: Path, rows: Sequence[bytes], each: int, terminator: bytes = b"\r\n") -> None:
    """The files of one folder of rows, and their index."""
    (folder / "meta").mkdir(parents=True, exist_ok=True)
    name = ""
    for number, at in enumerate(range(0, len(rows), each), start=1):
        name = f"CDC{number:06}.json"
        (folder / name).write_bytes(b"".join(row + terminator for row in rows[at : at + each]))
    (folder / "meta" / "CDC.index").write_text(name + "\n")


def lay_out(
    folder: Path, records: Sequence[ConsumerRecord], each: int = 1000, below: str = ""
) -> dict[str, list[ConsumerRecord]]:
    """Write the records of a topic as a storage sink would; gives those with rows and DDL, by table.

    `each`: rows a file. `below`: the folders below the version, such as a day.
    """
    versions: dict[str, int] = {}
    rows: dict[tuple[str, str, int], list[bytes]] = {}
    by_table: dict[str, list[ConsumerRecord]] = {}
    for record in records:
        message: dict[str, Any] = json.loads(record.value or b"")
        schema, table = message["database"], message["table"]
        name = f"{schema}.{table}"
        if message["type"] == "TIDB_WATERMARK":
            continue
        by_table.setdefault(name, []).append(record)
        if message["isDdl"]:
            versions[name] = message["_tidb"]["commitTs"]
            schema_file(folder, schema, table, versions[name], message["sql"])
        else:
            rows.setdefault((schema, table, versions[name]), []).append(record.value or b"")
    for (schema, table, version), found in rows.items():
        data_files(folder / schema / table / str(version) / below, found, each)
    (folder / "metadata").write_text(json.dumps({"checkpoint-ts": max(versions.values()) + 1}))
    return by_table
