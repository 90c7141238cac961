"""Shared by the Canal family (TiCDC Canal-JSON, upstream Canal, CKafka): messages, DDL types, `sqlType`.

Sources: PingCAP "TiCDC Canal-JSON Protocol" (sqlType by value), alibaba/canal
parse/…/dbsync/LogEventConvert.java and connector/core/…/producer/MQMessageUtils.java (1.1.8), pingcap/ticdc
pkg/sink/codec/canal (2026-08).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from relay.catalog import DdlMessage
from relay.codecs.canal import detection
from relay.codecs.losses import Loss
from relay.codecs.shared import lenient_json as _json
from relay.codecs.shared.base64_text import read_base64
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.ticdc import Milliseconds
from relay.codecs.shared.traced import choosing
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, Unknown, merged
from relay.model.errors import Malformed
from relay.model.events import ColumnType, DdlKind, Op, SchemaChange, Source, TableId
from relay.model.limits import DEFAULT_LIMITS, Limits, check_columns, check_rows, check_values
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES, INTEGER_BITS, has_parameters, lacks_parameters
from relay.mysql.values import TextStyle

#: The text cells of one row, as received.
Cells = dict[str, str | None]


# The operations that are tested for every row. Python 3.11 resolves `Op.UPDATE` through a descriptor, which
# costs a function call.
INSERT: Final = Op.INSERT
UPDATE: Final = Op.UPDATE
DELETE: Final = Op.DELETE
READ: Final = Op.READ

#: The family's names of operations; READ is written as an INSERT.
ROW_OPS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
ROW_TYPES: Final = {Op.INSERT: "INSERT", Op.READ: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}

# ---------------------------------------------------------------- message


class CanalMessage(OpenMessage, kw_only=True, gc=False):
    """A message of any producer of the family. Members are in TiCDC's order, which msgspec parses fastest."""

    id: Any = None
    database: str | None = None
    table: str | None = None
    pk_names: list[str] | None = msgspec.field(name="pkNames", default=None)
    is_ddl: bool | None = msgspec.field(name="isDdl", default=None)
    type: str
    es: Milliseconds | None = None
    ts: Milliseconds | None = None
    sql: str | None = None
    sql_type: msgspec.Raw = msgspec.field(name="sqlType", default=msgspec.Raw(b"null"))
    mysql_type: msgspec.Raw = msgspec.field(name="mysqlType", default=msgspec.Raw(b"null"))
    old: list[Cells | None] | None = None
    data: list[Cells] | None = None
    tidb: dict[str, Any] | None = msgspec.field(name="_tidb", default=None)
    gtid: str | None = None

    def table_id(self) -> TableId:
        """Return the name of the message's table."""
        return TableId(self.database or "", self.table or "")

    def event_time_ns(self, record: ConsumerRecord, losses: list[Loss]) -> int:
        """Return when the rows changed: `es`, or else (counted) the next best time."""
        if self.es is not None and self.es > 0:
            return self.es * 1_000_000
        # Rows are counted one by one.
        losses += [Loss.EVENT_TIME] * (len(self.data or ()) - 1)
        return event_time_ns(None, (self.ts or 0) * 1_000_000, record, losses)

    def emitted_at_ns(self, record: ConsumerRecord) -> int:
        """Return the time when the producer made the message: `ts`, else the record's timestamp, else `es`.

        TiCDC before v5.4.0 writes 0 for an unknown `ts`.
        """
        ts, es = self.ts, self.es
        if ts is not None and ts > 0:
            return ts * 1_000_000
        return record.time_ms(es if es is not None and es > 0 else 0) * 1_000_000

    def ddl(
        self, table: TableId, source: Source, record: ConsumerRecord, *, is_restored: bool = False
    ) -> DdlMessage:
        """Return the statement that the message holds."""
        ddl, emitted_at_ns = self.sql or "", self.emitted_at_ns(record)
        return DdlMessage(ddl, table, self.type, source, source.at(record), emitted_at_ns, is_restored)


_PARSER: Final = MessageParser(CanalMessage)
_decode: Final = _PARSER.decode


def parse(protocol: str, value: bytes, limits: Limits = DEFAULT_LIMITS) -> CanalMessage:
    """Parse one message, strictly or else leniently. Raises Malformed, UnsupportedMessage, LimitExceeded."""
    if len(value) > limits.values:
        check_values(protocol, "", value, limits)
    try:
        return _decode(value)
    except _json.REFUSED:
        return _parse_foreign(protocol, value, limits)


#: Minimum bytes of a row and of a column in JSON: `{},` and `"":"",`.
_ROW_BYTES: Final = 3
_COLUMN_BYTES: Final = 6


def foreign_members(message: CanalMessage) -> Unknown | None:
    """Return the members that Canal does not write; `_tidb` is TiCDC's."""
    return merged({"_tidb": message.tidb} if message.tidb else None, message.unknown)


def unchecked_bytes(limits: Limits) -> int:
    """Return the length up to which a message needs no `check_size`, being too short to exceed the limits."""
    return min(limits.rows * _ROW_BYTES, limits.columns * _COLUMN_BYTES)


def check_size(protocol: str, message: CanalMessage, limits: Limits) -> None:
    """Raise LimitExceeded for a message with too many rows, or a row with too many columns."""
    for name, rows in (("data", message.data or ()), ("old", message.old or ())):
        check_rows(protocol, name, len(rows), limits)
        widest = max([len(row) for row in rows if row is not None], default=0)
        check_columns(protocol, name, widest, limits)
    check_columns(protocol, "pkNames", len(message.pk_names or ()), limits)


def _parse_foreign(protocol: str, value: bytes, limits: Limits) -> CanalMessage:
    found = detection.refusal(protocol, value)
    if found is not None:
        raise found
    try:
        message = _PARSER.parse_open(value)
    except _json.REFUSED:
        normalize = functools.partial(_normalized, protocol)
        message = _json.parse_leniently(protocol, value, _PARSER.convert, normalize, limits)
    return _as_in_canal(message)


def _as_in_canal(message: CanalMessage) -> CanalMessage:
    """Undo InLong's variant of a message: the old row as `updateBefore`."""
    unknown = message.unknown or {}
    rows = unknown.get("updateBefore")
    if message.old is None and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        message.old = [text_cells(row) for row in rows]
        others = {name: value for name, value in unknown.items() if name != "updateBefore"}
        _PARSER.set_unknown(message, others)
    return message


def _normalized(protocol: str, document: dict[str, Any]) -> dict[str, Any]:
    """Normalize messages of look-alikes: one row as an object; numbers, booleans or JSON as cells.

    Raises Malformed for a message of another format.
    """
    found = detection.refusal(protocol, _json.json_text(document).encode())
    if found is not None:
        raise found
    normalized = dict(document)
    for name in ("data", "old"):
        rows = document.get(name)
        if isinstance(rows, dict):
            rows = [rows]
        if isinstance(rows, list):
            normalized[name] = [text_cells(row) if isinstance(row, dict) else row for row in rows]
    for name in ("sqlType", "mysqlType"):
        normalized[name] = msgspec.Raw(_json.json_text(document.get(name)).encode())
    return normalized


def text_cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a leniently read row with numbers, booleans and JSON as text."""
    return {name: _cell_text(value) for name, value in row.items()}


def _cell_text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    return _json.json_text(value)


def base64_bytes(protocol: str, path: str, value: object) -> bytes | None:
    """Return the bytes of a base64 member, None if it is absent. Raises Malformed."""
    if value is None:
        return None
    try:
        return read_base64(value)  # type: ignore[arg-type]  # other types raise TypeError
    except (TypeError, ValueError):
        raise Malformed(protocol, path, "not base64") from None


# ---------------------------------------------------------------- DDL types

#: Canal's type of a statement by its first action; ALTER for unlisted actions.
_DDL_TYPE_OF_KIND: Final = {
    DdlKind.CREATE_TABLE: "CREATE",
    DdlKind.DROP_TABLE: "ERASE",
    DdlKind.TRUNCATE_TABLE: "TRUNCATE",
    DdlKind.RENAME_TABLE: "RENAME",
    DdlKind.ADD_INDEX: "CINDEX",
    DdlKind.ADD_PRIMARY_KEY: "CINDEX",
    DdlKind.ADD_FOREIGN_KEY: "CINDEX",
    DdlKind.DROP_INDEX: "DINDEX",
    DdlKind.DROP_PRIMARY_KEY: "DINDEX",
    DdlKind.DROP_FOREIGN_KEY: "DINDEX",
    DdlKind.CREATE_DATABASE: "QUERY",
    DdlKind.DROP_DATABASE: "QUERY",
    DdlKind.ALTER_DATABASE: "QUERY",
    DdlKind.CREATE_VIEW: "QUERY",
    DdlKind.DROP_VIEW: "QUERY",
    DdlKind.RECOVER_TABLE: "QUERY",
    DdlKind.SEQUENCE: "QUERY",
    DdlKind.ADMINISTRATION: "QUERY",
    DdlKind.OTHER: "QUERY",
}
DDL_TYPES: Final = frozenset(_DDL_TYPE_OF_KIND.values()) | {"ALTER"}


def ddl_type(change: SchemaChange) -> str:
    """Return Canal's `type` of a DDL message.

    A statement that was not understood keeps the source's type, if Canal has it.
    """
    if change.kinds:
        return _DDL_TYPE_OF_KIND.get(change.kinds[0], "ALTER")
    return change.wire_kind if change.wire_kind in DDL_TYPES else "QUERY"


# ---------------------------------------------------------------- sqlType

_SQL_TYPES: Final = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8,
    "decimal": 3, "bit": -7, "char": 1, "varchar": 12, "binary": 2004, "varbinary": 2004, "tinytext": 2005,
    "text": 2005, "mediumtext": 2005, "longtext": 2005, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004,
    "longblob": 2004, "date": 91, "datetime": 93, "timestamp": 93, "time": 92, "year": 12, "enum": 4,
    "set": -7, "json": 12, "vector": 12,
}  # fmt: skip
_VARCHAR: Final = 12
#: The next wider java.sql.Types number, for an unsigned value that the signed type of its size cannot hold.
_PROMOTED: Final = {"tinyint": 5, "smallint": 4, "int": -5, "bigint": 3}

#: Returns a cell's java.sql.Types number, given its text.
SqlTypeOf = Callable[[str | None], int]


def java_sql_type(column_type: ColumnType) -> int:
    """Return the java.sql.Types number of a type, before promotion.

    Spatial types are BLOB (2004), unknown ones VARCHAR (12).
    """
    return _SQL_TYPES.get(column_type.base, 2004 if column_type.base in BINARIES else 12)


def _promoted_sql_type(column_type: ColumnType) -> SqlTypeOf | None:
    """Return the function from an unsigned integer's text to its number; None if the number is constant."""
    if not column_type.unsigned or column_type.base not in _PROMOTED:
        return None
    limit = 1 << (INTEGER_BITS[column_type.base] - 1)
    digits = len(str(limit))
    plain, promoted = java_sql_type(column_type), _PROMOTED[column_type.base]

    def sql_type_of(text: str | None) -> int:
        if text is None or len(text) < digits or not text.isdecimal():
            return plain
        return promoted if len(text) > digits or int(text) >= limit else plain

    return choosing(sql_type_of, plain, plain, promoted, limit)


class CanalDialect(msgspec.Struct, frozen=True):
    """The differences between the producers of Canal messages, as data.

    `type_text` returns a column's `mysqlType`; `null_sql_types` holds the `sqlType` of NULL for the types
    where NULL has its own.
    """

    style: TextStyle
    type_text: Callable[[ColumnType], str]
    null_sql_types: Mapping[str, int] = {}
    with_virtual_columns: bool = True
    with_parameters: bool = True

    def loses_parameters(self, types: Iterable[ColumnType]) -> bool:
        """Return whether parameters of these types are left out, or missing where they should be written."""
        test = lacks_parameters if self.with_parameters else has_parameters
        return any(map(test, types))

    def plain_sql_type(self, column_type: ColumnType) -> int:
        """Return the `sqlType` of this type, before promotion: VARCHAR for a text of another producer."""
        return _VARCHAR if self._is_other_text(column_type) else java_sql_type(column_type)

    def _is_other_text(self, column_type: ColumnType) -> bool:
        base = column_type.base
        if base in {"enum", "set"}:
            return self.style.has_labels and column_type.members is not None
        return base in BINARIES and self.style.write_binary is not None

    def sql_type_of(self, column_type: ColumnType) -> SqlTypeOf | None:
        """Return the function from a value's text to its `sqlType`; None if the `sqlType` is constant."""
        if self._is_other_text(column_type):
            return None
        null_sql_type = self.null_sql_types.get(column_type.base)
        if null_sql_type is None:
            return _promoted_sql_type(column_type)
        plain = self.plain_sql_type(column_type)
        return choosing(lambda text: null_sql_type if text is None else plain, null_sql_type, plain)
