"""The files of TiCDC's storage sink with `protocol=canal-json`: their paths, their order, and schema files.

    metadata                                                {"checkpoint-ts": …}
    {schema}/meta/schema_{version}_{checksum}.json          DDL of a database
    {schema}/{table}/meta/schema_{version}_{checksum}.json  DDL and columns of a table
    {schema}/{table}/{version}/[{partition}/][{date}/]CDC[_{dispatcher}_]{number}.json     rows, one a line
    …/meta/CDC[_{dispatcher}].index                         name of the newest data file of its folder

Older releases have one `schema.json` in each folder of a version instead of the folders `meta`. A version is
the commit ts of the DDL that made it, or a checkpoint at which the changefeed began or went on; rows of a
version come after its DDL and before the next one's. The width of the numbers is configurable. Folders with
table ids instead of names are not read. The layout follows documentation and source code, not the output of a
running TiCDC. Sources: PingCAP "Replicate Data to Storage Services" and "Guide for Developing a Storage Sink
Consumer"; pingcap/ticdc pkg/sink/cloudstorage and cmd/storage-consumer (read 2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from relay.model.errors import ConfigError, Malformed, Problem, RecordsGone
from relay.model.events import SchemaChange, TableId
from relay.mysql.types import DISPLAY_WIDTHS, quoted_name, quoted_table

NAME: Final = "ticdc-storage"
_DATE: Final = r"\d{4}(?:-\d{2}){0,2}"
_DATA: Final = re.compile(
    r"(?P<schema>[^/]+)/(?P<table>[^/]+)/(?P<version>\d+)/(?:(?P<partition>\d+)/)??"
    rf"(?:(?P<date>{_DATE})/)?CDC(?:_(?P<dispatcher>\w+)_)?(?P<number>\d+)\.json"
)
_SCHEMA: Final = re.compile(
    r"(?P<schema>[^/]+)/(?:(?P<table>[^/]+)/)?meta/schema_(?P<version>\d+)_\d{10}\.json"
)
_OLD_SCHEMA: Final = re.compile(r"(?P<schema>[^/]+)/(?P<table>[^/]+)/(?P<version>\d+)/schema\.json")
#: Files without records: the checkpoint, indexes, and unfinished files of a writer.
_OTHER: Final = re.compile(r"metadata|.*\.index|.*\.tmp\.[^/]+|(?:.*/)?[._][^/]*")


class SinkFile(NamedTuple):
    """A data or schema file, ordered by version, schema files first, then by table and number."""

    version: int
    is_data: bool
    schema: str
    table: str
    partition: int
    date: str
    dispatcher: str
    number: int

    @property
    def table_id(self) -> TableId:
        """Return the table, or the database where `table` is ""."""
        return TableId(self.schema, self.table)


def parse_path(path: str) -> SinkFile | None:
    """Return a data or schema file by its path below the sink's folder.

    None without records. Raises ConfigError for a file that does not belong to a storage sink.
    """
    if found := _DATA.fullmatch(path):
        partition, number = int(found["partition"] or "0"), int(found["number"])
        return SinkFile(*_first(found), partition, found["date"] or "", found["dispatcher"] or "", number)
    if found := _SCHEMA.fullmatch(path) or _OLD_SCHEMA.fullmatch(path):
        return SinkFile(*_first(found), 0, "", "", 0)
    if _OTHER.fullmatch(path):
        return None
    hint = (
        "the folder that contains `metadata`; protocol=canal-json, paths with the names of schemas and tables"
    )
    raise ConfigError([Problem("backfill.input", f"{path} is not a file of TiCDC's storage sink", hint)])


def _first(found: re.Match[str]) -> tuple[int, bool, str, str]:
    """Return version, whether it is data, schema and table."""
    return int(found["version"]), "number" in found.re.groupindex, found["schema"], found["table"] or ""


def in_order(paths: Iterable[str]) -> dict[str, SinkFile]:
    """Return the data and schema files in their order. Raises ConfigError; RecordsGone for a gap.

    The last data file may be missing: an index that names it proves nothing, because older TiCDC writes the
    index first.
    """
    found = {path: file for path in paths if (file := parse_path(path)) is not None}
    ordered = dict(sorted(found.items(), key=lambda item: (item[1], item[0])))
    numbers: dict[tuple[Any, ...], int] = {}
    for path, file in ordered.items():
        # Numbers begin at 1 in each folder.
        if file.is_data and file.number != numbers.get(file[:-1], 0) + 1:
            raise RecordsGone(
                f"data files are missing before {path}: file numbers in a folder start at 1 without gaps"
            )
        numbers[file[:-1]] = file.number
    return ordered


def newest(files: Mapping[str, SinkFile]) -> list[str]:
    """Return the last data file of each table (of each of its partitions and dispatchers).

    They mark the end of a listing.
    """
    last = {
        (each.schema, each.table, each.partition, each.dispatcher): path
        for path, each in files.items()
        if each.is_data
    }
    return [path for _, path in sorted(last.items())]


def renames_in_order(
    files: Mapping[str, SinkFile], changes: Mapping[str, SchemaChange]
) -> dict[str, SinkFile]:
    """Return the files with the parts of each RENAME of several tables in a possible order.

    These parts have one version. One that releases a name precedes the one that takes it. If names form a
    circle, no file shows which part came first: these parts stay in the order of their names.
    """
    groups: dict[tuple[int, bool], list[str]] = {}
    for path, file in files.items():
        groups.setdefault(file[:2], []).append(path)
    ordered: dict[str, SinkFile] = {}
    for paths in groups.values():
        left = list(paths)
        while left and not files[left[0]].is_data:
            given_up = {
                path: {pair.old for pair in changes[path].renamed} for path in left if path in changes
            }
            path = next((each for each in left if not _waits(changes.get(each), each, given_up)), left[0])
            left.remove(path)
            ordered[path] = files[path]
        ordered |= {path: files[path] for path in left}
    return ordered


def _waits(change: SchemaChange | None, path: str, given_up: Mapping[str, set[TableId]]) -> bool:
    """Return whether a statement needs a name that another one releases."""
    others = [names for other, names in given_up.items() if other != path]
    return change is not None and any(pair.new in names for pair in change.renamed for names in others)


class SchemaFileStatement(NamedTuple):
    """The DDL of a schema file: its statement, or (`is_known` false) one that makes its columns.

    The latter only describes a table at the beginning of the changefeed: it is learned, and not translated.
    """

    sql: str
    is_known: bool


def statement_of(path: str, file: SinkFile, text: bytes) -> SchemaFileStatement | None:
    """Read a schema file; None if it has neither a statement nor a whole definition. Raises Malformed."""
    try:
        schema = msgspec.json.decode(text)
        version = int(schema.get("TableVersion", file.version))
        columns: list[dict[str, Any]] = schema.get("TableColumns") or []
        if version != file.version:
            raise Malformed(NAME, path, "its TableVersion does not match its file name")
        if query := str(schema.get("Query") or ""):
            return SchemaFileStatement(query, True)
        created = _create_table(file, columns) if file.table else ""
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise Malformed(NAME, path, "not a schema file") from error
    return SchemaFileStatement(created, False) if created else None


_SCALED: Final = frozenset({"TIME", "DATETIME", "TIMESTAMP"})
_LONG: Final = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY", "BIT"})
_NOW: Final = re.compile(r"CURRENT_TIMESTAMP(?:\(\d?\))?", re.IGNORECASE)


def _create_table(file: SinkFile, columns: list[dict[str, Any]]) -> str:
    """Return a statement that makes these columns unless the table is known.

    It uses the syntax that TiDB restores. "" if there are no columns, or if the file lacks the members of an
    ENUM or SET.
    """
    parts, key = [], []
    for column in columns:
        type_text = _type_text(column)
        if not type_text:
            return ""
        name = quoted_name(column["ColumnName"])
        null = " NOT NULL" if column.get("ColumnNullable") == "false" else ""
        parts.append(f"{name} {type_text}{null}{_default(column)}")
        if column.get("ColumnIsPk") == "true":
            key.append(name)
    if not parts:
        return ""
    parts += [f"PRIMARY KEY ({','.join(key)})"] if key else []
    return f"CREATE TABLE IF NOT EXISTS {quoted_table(file.table_id)} ({','.join(parts)})"


def _type_text(column: Mapping[str, Any]) -> str:
    base, _, sign = str(column["ColumnType"]).upper().partition(" ")
    base = {"VAR_STRING": "VARCHAR"}.get(base, base)
    precision = str(column.get("ColumnPrecision") or column.get("ColumnLength") or "")
    scale = str(column.get("ColumnScale") or "")
    return _with_parameters(base, precision, scale, sign, column.get("ColumnElems")) + (
        f" {sign}" if sign else ""
    )


def _with_parameters(base: str, precision: str, scale: str, sign: str, members: list[str] | None) -> str:
    if base in {"ENUM", "SET"}:
        return f"{base}({','.join(map(_text, members))})" if members else ""
    if base in _SCALED:
        return f"{base}({scale})" if scale else base
    if base in {"DECIMAL", "FLOAT", "DOUBLE"}:
        return f"{base}({precision},{scale})" if precision and scale else base
    widths = DISPLAY_WIDTHS.get(base.lower())
    shown = base in _LONG or (widths is not None and precision != str(widths[bool(sign)]))
    return f"{base}({precision})" if shown and precision else base


def _default(column: Mapping[str, Any]) -> str:
    value = column.get("ColumnDefault")
    if value is None or column["ColumnType"].upper() in {"BIT", "BINARY", "VARBINARY"}:
        return ""  # the file lacks the exact bytes
    text = str(value)
    return f" DEFAULT {text if _NOW.fullmatch(text) else _text(text)}"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
