"""Canal's packets: the Kafka values of `flatMessage=false`.

    Packet       1 magic | 2 version | 3 type (7 MESSAGES) | 4 compression | 5 body
    Messages     1 batch id | 2 entries, each as bytes
    Entry        1 Header | 2 kind | 3 value: RowChange, TransactionBegin or TransactionEnd

`entries_of` yields the entries of a packet without parsing their values; `row_change` and `boundary` parse
these. Whatever the bytes, the only errors are Malformed, UnsupportedMessage and LimitExceeded. Invalid UTF-8
is replaced by U+FFFD and counted. Source: alibaba/canal 1.1.8 CanalProtocol.proto, EntryProtocol.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.canal.canal_protobuf.columns import (
    ColumnEncoding,
    TableColumns,
    WireColumn,
    WireImage,
    WireRow,
)
from relay.codecs.canal.canal_protobuf.protobuf import (
    bytes_field,
    fields,
    known_fields,
    number_field,
    signed,
    spans,
    varint_at,
)
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.limits import Limits, check_columns, check_rows

_MESSAGES: Final = 7
#: Not compressed: absent or explicit.
_PLAIN: Final = frozenset({0, 1})
BEGIN, ROWS, END, HEARTBEAT, GTID = 1, 2, 3, 4, 5
_MYSQL: Final = 2
_UTF8: Final = b"UTF-8"
#: Maximum bytes of a message whose fields are read at once; fields of longer ones may take much memory.
_SHORT: Final = 1 << 16
#: Memory of what is kept of a table, besides its columns.
_TABLE_BYTES: Final = 500

EVENT_TYPES: Final = {
    1: "INSERT", 2: "UPDATE", 3: "DELETE", 4: "CREATE", 5: "ALTER", 6: "ERASE", 7: "QUERY", 8: "TRUNCATE",
    9: "RENAME", 10: "CINDEX", 11: "DINDEX", 12: "GTID", 13: "XACOMMIT", 14: "XAROLLBACK", 15: "MHEARTBEAT",
}  # fmt: skip
_EVENT_NUMBERS: Final = {word: number for number, word in EVENT_TYPES.items()}


class Header(msgspec.Struct, gc=False):
    """The source of an entry. `event_type`: "" for an unknown number."""

    file: str = ""
    position: int = 0
    server_id: int = 0
    time_ms: int = 0
    database: str = ""
    table: str = ""
    event_type: str = "INSERT"
    gtid: str = ""


class Entry(msgspec.Struct, gc=False):
    """One entry of a packet. `unknown`: fields that Canal's messages do not have, by path and number; those
    of the value are added when it is parsed.
    """

    header: Header
    kind: int
    value: bytes
    unknown: dict[str, Any]


class WireChange(msgspec.Struct, gc=False):
    """The content of an entry of rows or of a statement.

    ddl_database: The statement's default database.
    columns: What is kept of the columns of the table's rows.
    """

    event_type: str
    is_ddl: bool
    sql: str
    ddl_database: str
    rows: list[WireRow]
    columns: TableColumns


class Boundary(msgspec.Struct, gc=False):
    """The begin or the end of a transaction."""

    id: str = ""
    thread_id: int | None = None
    props: dict[str, str] = {}


class OpenTransaction(NamedTuple):
    """The transaction that an entry belongs to: its id (None if the packet lacks it), and whether its BEGIN
    is in the packet.
    """

    id: str | None
    thread_id: int | None
    has_begun: bool


NO_TRANSACTION: Final = OpenTransaction(None, None, has_begun=False)


def opened(begin: Boundary | None, end_id: str | None) -> OpenTransaction:
    """Return the transaction of rows after `begin`. `end_id`: the id by its END, None without one."""
    if begin is None:
        return NO_TRANSACTION if end_id is None else OpenTransaction(end_id, None, has_begun=False)
    return OpenTransaction(begin.id or end_id, begin.thread_id, has_begun=True)


class PacketReader:
    """Parse the packets of one protocol."""

    def __init__(self, protocol: str, limits: Limits) -> None:
        self._protocol, self._limits = protocol, limits
        self._pool = CachePool(limits.cache_bytes)
        self._tables: ByteCache[tuple[str, str], TableColumns] = self._pool.cache()

    def entries_of(self, value: bytes, losses: list[Loss]) -> Iterator[Entry]:
        """Yield the entries of a packet."""
        unknown: dict[str, Any] = {}
        body = self._body(value, unknown)
        entries = [
            data
            for number, data in self._fields(body, "body", _MESSAGES_FIELDS, unknown)
            if number == 2 and isinstance(data, bytes)
        ]
        for data in entries:
            yield self._entry(data, dict(unknown), losses)

    def _body(self, value: bytes, unknown: dict[str, Any]) -> bytes:
        kind, compression, body = 0, 0, b""
        for number, data in self._fields(value, "", _PACKET_FIELDS, unknown):
            if number == 3 and isinstance(data, int):
                kind = data
            elif number == 4 and isinstance(data, int):
                compression = data
            elif number == 5 and isinstance(data, bytes):
                body = data
        if kind != _MESSAGES:
            raise UnsupportedMessage(self._protocol, "type", "not a packet of messages (type 7)")
        if compression not in _PLAIN:
            reason = "a compressed packet, which no client of Canal reads"
            raise UnsupportedMessage(self._protocol, "compression", reason)
        return body

    def _fields(
        self, data: bytes, path: str, known: AbstractSet[int], unknown: dict[str, Any]
    ) -> Iterable[tuple[int, int | bytes]]:
        """Return the fields of a message that are `known`; note others."""
        found = known_fields(data, known) if len(data) <= _SHORT else None
        if found is not None:
            return found
        return self._fields_one_by_one(data, path, known, unknown)

    def _fields_one_by_one(
        self, data: bytes, path: str, known: AbstractSet[int], unknown: dict[str, Any]
    ) -> Iterator[tuple[int, int | bytes]]:
        """Yield the same as `_fields`."""
        try:
            for field in fields(data):
                if field[0] in known:
                    yield field
                else:
                    unknown[f"{path}.{field[0]}" if path else str(field[0])] = field[1]
        except ValueError as error:
            raise Malformed(self._protocol, path, str(error)) from None

    def _entry(self, data: bytes, unknown: dict[str, Any], losses: list[Loss]) -> Entry:
        # Canal's proto has ROWDATA and INSERT as defaults.
        header, kind, value = Header(), ROWS, b""
        for number, part in self._fields(data, "entry", _ENTRY_FIELDS, unknown):
            if number == 1 and isinstance(part, bytes):
                header = self._header(part, unknown, losses)
            elif number == 2 and isinstance(part, int):
                kind = part
            elif number == 3 and isinstance(part, bytes):
                value = part
        return Entry(header, kind, value, unknown)

    def _header(self, data: bytes, unknown: dict[str, Any], losses: list[Loss]) -> Header:
        found = _usual_header(data)
        if found is not None:
            return found
        found = Header()
        for number, part in self._fields(data, "entry.header", _HEADER_FIELDS, unknown):
            if number == _HEADER_PROPS and isinstance(part, bytes):
                self._pair(part, "entry.header.props", unknown, [])
                continue
            if isinstance(part, bytes):
                name = _HEADER_TEXTS.get(number)
                if name is not None:
                    setattr(found, name, _text(part, losses))
            elif number == 11:
                found.event_type = EVENT_TYPES.get(part, "")
            elif number in _HEADER_NUMBERS:
                setattr(found, _HEADER_NUMBERS[number], signed(part))
        return found

    def boundary(self, entry: Entry, losses: list[Loss]) -> Boundary:
        """Parse the value of a begin or an end."""
        found = Boundary(props={})
        for number, part in self._fields(entry.value, _VALUE, _BOUNDARY_FIELDS, entry.unknown):
            if number == 2 and isinstance(part, bytes):
                found.id = _text(part, losses)
            elif number == 3 and isinstance(part, bytes):
                found.props.update([self._pair(part, f"{_VALUE}.props", entry.unknown, losses)])
            elif number == 4 and isinstance(part, int):
                found.thread_id = signed(part)
        return found

    def _pair(self, data: bytes, path: str, unknown: dict[str, Any], losses: list[Loss]) -> tuple[str, str]:
        texts = {1: "", 2: ""}
        for number, part in self._fields(data, path, _PAIR_FIELDS, unknown):
            if isinstance(part, bytes):
                texts[number] = _text(part, losses)
        return texts[1], texts[2]

    def row_change(self, entry: Entry, losses: list[Loss]) -> WireChange:
        """Parse the value of rows or of a statement."""
        header = entry.header
        columns = self._columns_of(header.database, header.table)
        found = WireChange(header.event_type, False, "", "", [], columns)
        unknown = entry.unknown
        for number, part in self._fields(entry.value, _VALUE, _CHANGE_FIELDS, unknown):
            if isinstance(part, int):
                if number == 2:
                    found.event_type = EVENT_TYPES.get(part, "")
                elif number == 10:
                    found.is_ddl = bool(part)
            elif number == 11:
                found.sql = _text(part, losses)
            elif number == 14:
                found.ddl_database = _text(part, losses)
            elif number == 12:
                check_rows(self._protocol, "rowDatas", len(found.rows) + 1, self._limits)
                found.rows.append(self._row(part, columns, unknown, losses))
            elif number == 13:
                self._pair(part, f"{_VALUE}.props", unknown, [])
        return found

    def _columns_of(self, database: str, table: str) -> TableColumns:
        """Return what is kept of a table's columns."""
        found = self._tables.get((database, table))
        if found is None:
            size = _TABLE_BYTES + 2 * (len(database) + len(table))
            found = self._tables.keep((database, table), TableColumns(self._pool), size)
        return found

    def _row(
        self, data: bytes, columns: TableColumns, unknown: dict[str, Any], losses: list[Loss]
    ) -> WireRow:
        return columns.row(data) or self._new_row(data, columns, unknown, losses)

    def _new_row(
        self, data: bytes, columns: TableColumns, unknown: dict[str, Any], losses: list[Loss]
    ) -> WireRow:
        """Return a row, and keep the encodings of its columns for the next rows."""
        before, after = list[WireColumn](), list[WireColumn]()
        old_texts, new_texts = list[str | None](), list[str | None]()
        for number, part in self._fields(data, "rowDatas", _ROW_FIELDS, unknown):
            if not isinstance(part, bytes):
                continue
            if number == 3:
                self._pair(part, "rowDatas.props", unknown, [])
                continue
            image, texts = (before, old_texts) if number == 1 else (after, new_texts)
            check_columns(self._protocol, "rowDatas", len(image) + 1, self._limits)
            column, text = self._column(part, unknown, losses)
            encoding = self._encoding(part)
            if encoding is not None:
                columns.keep(len(image), encoding)
            image.append(column)
            texts.append(text)
        return WireRow(
            WireImage(columns.list_of(before), old_texts), WireImage(columns.list_of(after), new_texts)
        )

    def _column(
        self, data: bytes, unknown: dict[str, Any], losses: list[Loss]
    ) -> tuple[WireColumn, str | None]:
        """Return a column and its text."""
        name, text, mysql_type, sql_type, is_key, is_null = "", "", "", 0, False, False
        for number, part in self._fields(data, "rowDatas.columns", _COLUMN_FIELDS, unknown):
            if isinstance(part, int):
                if number == 2:
                    sql_type = signed(part)
                elif number == 4:
                    is_key = bool(part)
                elif number == 6:
                    is_null = bool(part)
            elif number == 3:
                name = _text(part, losses)
            elif number == _VALUE_FIELD:
                text = _text(part, losses)
            elif number == 10:
                mysql_type = _text(part, losses)
            elif number == 7:
                self._pair(part, "rowDatas.columns.props", unknown, [])
        return WireColumn(name, mysql_type, sql_type, is_key), None if is_null else text

    def _encoding(self, data: bytes) -> ColumnEncoding | None:
        """Return the encoding of a valid column. None if more than its value may change what it means, or
        what is counted.
        """
        values = [field for field in spans(data, 0, len(data)) if field.number == _VALUE_FIELD]
        unknown, losses = dict[str, Any](), list[Loss]()
        if not values:
            column, text = self._column(data, unknown, losses)
            return None if unknown or losses else ColumnEncoding(data, b"", False, column, text)
        start, end = values[0].start, values[0].end
        if len(values) > 1 or data[start] != _VALUE_TAG:
            return None
        column, text = self._column(data[:start] + data[end:], unknown, losses)
        if unknown or losses or text is None:
            return None
        return ColumnEncoding(data[: start + 1], data[end:], True, column, None)


#: Path of an entry's value.
_VALUE: Final = "entry.storeValue"
#: The fields that Canal's messages have; relay ignores some.
_PACKET_FIELDS: Final = frozenset(range(1, 6))
_MESSAGES_FIELDS: Final = frozenset({1, 2})
_ENTRY_FIELDS: Final = frozenset({1, 2, 3})
_HEADER_FIELDS: Final = frozenset(range(1, 14))
_HEADER_PROPS: Final = 12
_HEADER_TEXTS: Final = {2: "file", 8: "database", 9: "table", 13: "gtid"}
_HEADER_NUMBERS: Final = {3: "position", 4: "server_id", 6: "time_ms"}
_NUMBER: Final = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
#: A header up to the tag of the database, with the sizes of texts in one byte; and after the table: the
#: length, the type, the number of rows and the GTID.
_HEADER_START: Final = re.compile(
    rb"\x08\x01\x12([\x00-\x7f])([^\x18]*+)\x18(%b)\x20(%b)\x2a\x05UTF-8\x30(%b)\x38[\x00-\x7f]\x42(?=[\x00-\x7f])"
    % (_NUMBER, _NUMBER, _NUMBER)
).match
_HEADER_END: Final = re.compile(
    rb"(?:\x50%b)?(?:\x58([\x00-\x7f]))?(?:\x62\x0e\x0a\x09rowsCount\x12\x01[0-9])?(?:\x6a([\x00-\x7f])(.*))?\Z"
    % _NUMBER,
    re.DOTALL,
).match
_TABLE_TAG: Final = 0x4A
_PAIR_FIELDS: Final = frozenset({1, 2})
_BOUNDARY_FIELDS: Final = frozenset({1, 2, 3, 4})
_CHANGE_FIELDS: Final = frozenset({1, 2, 10, 11, 12, 13, 14})
_ROW_FIELDS: Final = frozenset({1, 2, 3})
_COLUMN_FIELDS: Final = frozenset(range(1, 11))
#: The number of a column's value, and its tag in one byte.
_VALUE_FIELD: Final = 8
_VALUE_TAG: Final = 0x42


def _usual_header(data: bytes) -> Header | None:
    """Return a header as Canal and relay print it. None for others, and for invalid ones."""
    start = _HEADER_START(data)
    if start is None:
        return None
    size, file, position, server_id, time_ms = start.groups()
    if size[0] != len(file):
        return None
    try:
        # The names of database and table, each after its size.
        at = start.end()
        database_end = at + 1 + data[at]
        table_size = data[database_end + 1]
        table_end = database_end + 2 + table_size
        if data[database_end] != _TABLE_TAG or table_size >= 0x80 or table_end > len(data):
            return None
        end = _HEADER_END(data, table_end)
        if end is None:
            return None
        event_type, gtid_size, gtid = end.groups(b"")
        if gtid_size and gtid_size[0] != len(gtid):
            return None
        return Header(
            file.decode(),
            signed(varint_at(position, 0)[0]),
            signed(varint_at(server_id, 0)[0]),
            signed(varint_at(time_ms, 0)[0]),
            data[at + 1 : database_end].decode(),
            data[database_end + 2 : table_end].decode(),
            EVENT_TYPES.get(event_type[0], "") if event_type else "INSERT",
            gtid.decode(),
        )
    except (IndexError, ValueError):
        return None


def _text(data: bytes, losses: list[Loss]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        losses.append(Loss.INVALID_TEXT)
        return data.decode("utf-8", "replace")


# ---------------------------------------------------------------- written


def packet(batch_id: int, entries: Iterable[bytes]) -> bytes:
    """Return the packet of entries as Canal writes it without partition hashing."""
    body = number_field(1, batch_id) + b"".join([bytes_field(2, entry) for entry in entries])
    return number_field(3, _MESSAGES) + bytes_field(5, body)


def entry(kind: int, header: Header, value: bytes, *, rows: int = 0) -> bytes:
    """Return an entry. `header.event_type`: "" for none."""
    parts = [
        number_field(1, 1),
        bytes_field(2, header.file.encode()),
        number_field(3, header.position),
        number_field(4, header.server_id),
        bytes_field(5, _UTF8),
        number_field(6, header.time_ms),
        number_field(7, _MYSQL),
        bytes_field(8, header.database.encode()),
        bytes_field(9, header.table.encode()),
    ]
    if header.event_type:
        parts.append(number_field(11, _EVENT_NUMBERS[header.event_type]))
    if rows:
        parts.append(bytes_field(12, pair("rowsCount", str(rows))))
    if header.gtid:
        parts.append(bytes_field(13, header.gtid.encode()))
    head = bytes_field(1, b"".join(parts))
    return b"".join((head, number_field(2, kind), bytes_field(3, value)))


def pair(key: str, value: str) -> bytes:
    """Return a property."""
    return bytes_field(1, key.encode()) + bytes_field(2, value.encode())


def statement_value(event_type: str, sql: str, database: str) -> bytes:
    """Return the value of a statement's entry."""
    return b"".join(
        (
            number_field(2, _EVENT_NUMBERS[event_type]),
            number_field(10, 1),
            bytes_field(11, sql.encode()),
            bytes_field(14, database.encode()),
        )
    )


def rows_value(event_type: str, rows: Iterable[bytes]) -> bytes:
    """Return the value of an entry of rows."""
    head = number_field(2, _EVENT_NUMBERS[event_type]) + number_field(10, 0)
    return head + b"".join([bytes_field(12, row) for row in rows])


def boundary_value(id: str, props: Iterable[bytes]) -> bytes:
    """Return the value of a begin or an end."""
    return bytes_field(2, id.encode()) + b"".join([bytes_field(3, each) for each in props])
