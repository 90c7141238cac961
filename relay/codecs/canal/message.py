"""What the Canal family shares (TiCDC Canal-JSON, upstream Canal, CKafka): the message, DDL words, column
codes.

Sources: PingCAP "TiCDC Canal-JSON Protocol" (sqlType by value), alibaba/canal
parse/…/dbsync/LogEventConvert.java and connector/core/…/producer/MQMessageUtils.java (1.1.8), pingcap/ticdc
pkg/sink/codec/canal (2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.codecs.wire import lenient_json as _json
from relay.codecs.wire.base64_text import read_base64
from relay.errors import Malformed
from relay.model import ColumnType, DdlKind, Position, Source
from relay.mysql.types import BINARIES, INTEGER_BITS, has_parameters, lacks_parameters
from relay.mysql.values import TextStyle
from relay.records import ConsumerRecord

#: The text cells of one row image, as they travel.
Cells = dict[str, str | None]

#: Milliseconds since 1970 of which TiDB's timestamp still has room for its counter (until the year 4199).
Milliseconds = Annotated[int, Meta(ge=-(1 << 46), lt=1 << 46)]

# ---------------------------------------------------------------- message


class Message(msgspec.Struct, kw_only=True, gc=False):
    """A message of any producer of the family, as it travels; in TiCDC's order, which msgspec then finds
    fastest.
    """

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


_decode = msgspec.json.Decoder(Message).decode


def parse(protocol: str, value: bytes) -> Message:
    """Parse one message, strictly or leniently. Raises Malformed."""
    try:
        return _decode(value)
    except _json.REFUSED:
        return _json.parse_leniently(protocol, value, Message, _tidy)


def _tidy(document: dict[str, Any]) -> dict[str, Any]:
    """What look-alikes do differently: one row as an object, cells as numbers, booleans or JSON."""
    tidied = dict(document)
    for name in ("data", "old"):
        rows = document.get(name)
        if isinstance(rows, dict):
            rows = [rows]
        if isinstance(rows, list):
            tidied[name] = [text_cells(row) if isinstance(row, dict) else row for row in rows]
    for name in ("sqlType", "mysqlType"):
        tidied[name] = msgspec.Raw(_json.json_text(document.get(name)).encode())
    return tidied


def text_cells(row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a leniently read row, which may be numbers, booleans or JSON, as text."""
    return {name: _cell_text(value) for name, value in row.items()}


def _cell_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    return _json.json_text(value)


def sql_types(message: Message) -> dict[str, int]:
    """The message's `sqlType`, {} if it has none that makes sense."""
    try:
        return msgspec.json.decode(message.sql_type, type=dict[str, int] | None, strict=False) or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def event_time_ns(message: Message, record: ConsumerRecord) -> int:
    """When the row changed: `es`, else `ts`, else the record's timestamp."""
    es = message.es
    if es is None:
        es = message.ts if message.ts is not None else record.timestamp_ms
    return es * 1_000_000


def emitted_at_ns(message: Message, record: ConsumerRecord) -> int:
    """When the producer made the message: `ts` (0 in TiCDC before v5.4.0: it did not say), else the record's
    timestamp.
    """
    return (message.ts or record.timestamp_ms) * 1_000_000


def position(source: Source, record: ConsumerRecord) -> Position:
    """Where the event stands, for the catalogue."""
    return Position(source.commit_ts, source.event_time_ns, record.topic, record.partition, record.offset)


def base64_bytes(protocol: str, path: str, value: object) -> bytes | None:
    """Bytes of a base64 member, None if it is not there. Raises Malformed."""
    if value is None:
        return None
    try:
        return read_base64(value)  # type: ignore[arg-type]  # what is no text raises TypeError
    except (TypeError, ValueError) as error:
        raise Malformed(protocol, path, "not base64") from error


# ---------------------------------------------------------------- DDL words

#: Canal's word for a statement by its first action; whatever is not listed and changes a table is ALTER.
_WORDS: Final = {
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
    DdlKind.OTHER: "QUERY",
}
DDL_WORDS: Final = frozenset(_WORDS.values()) | {"ALTER"}


def ddl_word(kind: DdlKind | None, wire_kind: str) -> str:
    """Canal's `type` of a DDL message; for a statement that was not understood the source's own word, if
    Canal has it.
    """
    if kind is None:
        return wire_kind if wire_kind in DDL_WORDS else "QUERY"
    return _WORDS.get(kind, "ALTER")


# ---------------------------------------------------------------- sqlType

_CODES: Final = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8, "decimal": 3, "bit": -7,
    "char": 1, "varchar": 12, "binary": 2004, "varbinary": 2004, "tinytext": 2005, "text": 2005, "mediumtext": 2005,
    "longtext": 2005, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004, "longblob": 2004, "date": 91, "datetime": 93,
    "timestamp": 93, "time": 92, "year": 12, "enum": 4, "set": -7, "json": 12, "vector": 12,
}  # fmt: skip
#: The next wider java.sql.Types number, for an unsigned value that the signed type of its size cannot hold.
_PROMOTED: Final = {"tinyint": 5, "smallint": 4, "int": -5, "bigint": 3}

#: A column's java.sql.Types number, given its text.
CodeOf = Callable[[str | None], int]


def java_sql_type(column_type: ColumnType) -> int:
    """The java.sql.Types number of a type, before promotion. Spatial types are BLOB (2004), unknown ones
    VARCHAR (12).
    """
    return _CODES.get(column_type.base, 2004 if column_type.base in BINARIES else 12)


def promoted_code(column_type: ColumnType) -> CodeOf | None:
    """How an unsigned integer's number depends on its value; None if the type's number is always the same."""
    if not column_type.unsigned or column_type.base not in _PROMOTED:
        return None
    limit = 1 << (INTEGER_BITS[column_type.base] - 1)
    digits = len(str(limit))
    plain, promoted = java_sql_type(column_type), _PROMOTED[column_type.base]

    def code_of(text: str | None) -> int:
        if text is None or len(text) < digits or not text.isdecimal():
            return plain
        return promoted if len(text) > digits or int(text) >= limit else plain

    return code_of


class Dialect(msgspec.Struct, frozen=True):
    """What differs between the producers of Canal messages, as data.

    `type_text` gives a column's `mysqlType`, `null_codes` the `sqlType` numbers that NULL has in some types.
    """

    style: TextStyle
    type_text: Callable[[ColumnType], str]
    null_codes: Mapping[str, int] = {}
    with_virtual_columns: bool = True
    with_parameters: bool = True

    def loses_parameters(self, types: Iterable[ColumnType]) -> bool:
        """Whether these types have parameters that the dialect leaves out, or lack those that it should
        write.
        """
        test = lacks_parameters if self.with_parameters else has_parameters
        return any(map(test, types))

    def code_of(self, column_type: ColumnType) -> CodeOf | None:
        """How the `sqlType` of this type depends on the value, None if it does not."""
        null_code = self.null_codes.get(column_type.base)
        if null_code is None:
            return promoted_code(column_type)
        plain = java_sql_type(column_type)
        return lambda text: null_code if text is None else plain
