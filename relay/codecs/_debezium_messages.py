"""Messages of TiCDC Debezium JSON, written: `source`, rows, DDL statements and watermarks around their schema blocks.

Contract: all that is the same in every message of a table version is encoded once, as the text around a message's own numbers and
rows (`RowPlan`). `Messages` is made for one encoder's settings; what it keeps are caches.
Source: pingcap/ticdc pkg/sink/codec/debezium/codec.go (2026-08); its records.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from relay.codecs._codec import Payload
from relay.codecs._debezium_changes import CHANGE_KEY, change_schema
from relay.codecs._debezium_defaults import null_default
from relay.codecs._debezium_schema import (
    Json,
    column_schema,
    column_schemas,
    key_schema,
    schema_name,
    source_schema,
    value_schema,
    watermark_name,
    watermark_schema,
)
from relay.codecs._debezium_writers import ValueWriter
from relay.codecs._rows import Written
from relay.model import Generated, Op, SchemaChange, TableId, TableSchema, Watermark
from relay.mysql.types import has_parameters

_OPENINGS: Final = {
    Op.UPDATE: b',"transaction":null,"op":"u","after":',
    Op.INSERT: b',"transaction":null,"op":"c","before":null,"after":',
    Op.READ: b',"transaction":null,"op":"c","before":null,"after":',
    Op.DELETE: b',"transaction":null,"op":"d","after":null,"before":',
}
_BOTH: Final = b',"transaction":null,"op":"u",'

Row = dict[str, Any]


class _Both(msgspec.Struct, gc=False):
    """Both images of an UPDATE, which are printed together and without the brackets around them."""

    before: Row
    after: Row


class Settings(msgspec.Struct, frozen=True):
    """The options of the encoder that change its bytes, under plain names."""

    cluster: str
    has_schema: bool
    extension: bool
    replaces_nulls: bool


class RowPlan(msgspec.Struct, frozen=True, eq=False):
    """What all rows of a table version have in common.

    `shown`: the columns of a whole row, `width` of them. `key`: those of the key, in table order. `null_defaults`: what stands for
    NULL. `middle`: the text between `ts_ms` and the commit ts. `key_start`: the text before a key's only value. `key_end`, `end`:
    the text behind the key's and the row's last value. `ends`: the same for rows with `start_ts`, or without some columns.
    `loses_parameters`: types have parameters that the schema block does not tell.
    """

    schema: TableSchema
    shown: tuple[str, ...]
    width: int
    key: tuple[str, ...]
    null_defaults: tuple[tuple[str, Any], ...]
    middle: bytes
    key_start: bytes
    key_end: bytes
    end: bytes
    ends: dict[object, bytes]
    loses_parameters: bool


class Messages:
    """Writes the messages of one encoder."""

    def __init__(self, settings: Settings, values: ValueWriter) -> None:
        self._settings, self._values = settings, values
        cluster = printed(settings.cluster)
        self._head = b'{"version":"2.4.0.Final","connector":"TiCDC","name":%b,"ts_ms":' % cluster
        self._row_head = b'{"payload":{"source":' + self._head
        self._tail = b',"cluster_id":%b},"ts_ms":' % cluster
        self._source = source_schema(extension=settings.extension)
        self._change_schema = change_schema(self._source)

    # ------------------------------------------------------------ rows

    def plan(self, schema: TableSchema) -> RowPlan:
        """The plan of a table version."""
        settings, handle = self._settings, schema.handle_key()
        key = [column for column in schema.columns if column.name in handle]
        shown = [column for column in schema.columns if column.generated is not Generated.VIRTUAL]
        write_of = ValueWriter().of  # what a default loses is no loss of a row
        defaults = ((column.name, null_default(column, write_of(column))) for column in shown)
        carried = {"bit", "enum", "set"} if settings.has_schema else frozenset()
        loses = any(has_parameters(column.type) and column.type.base not in carried for column in shown)
        key_end = end = b""
        if settings.has_schema:
            entries = [column_schema(one, extension=settings.extension, optional=one.nullable is True) for one in key]
            key_end = b',"schema":' + printed(key_schema(self._name(schema.id), entries))
            end = self._block(schema, column_schemas(schema.columns, extension=settings.extension), self._source)
        return RowPlan(
            schema=schema,
            shown=tuple(column.name for column in shown),
            width=len(shown),
            key=tuple(column.name for column in key),
            null_defaults=tuple(pair for pair in defaults if pair[1] is not None) if settings.replaces_nulls else (),
            middle=_middle(schema.id),
            key_start=b'{"payload":{%b:' % printed(key[0].name) if key else b"",
            key_end=b"}" + key_end + b"}",
            end=b"}" + end + b"}",
            ends={},
            loses_parameters=loses,
        )

    def row(self, op: Op, written: Written[RowPlan], times: tuple[int, int, int], start_ts: int | None) -> Payload:
        """The message of a row; `times` are `ts_ms` of the source, the commit ts, and `ts_ms` of the message.

        An UPDATE without a before-image has no `before`. Raises what `printed` raises.
        """
        plan, before, after = written.plan, written.before, written.after
        row: Row = (after if after is not None else before) or {}
        is_whole, tail, opening = len(row) == plan.width, self._tail, _OPENINGS[op]
        if before is not None and after is not None:
            is_whole = is_whole and len(before) == plan.width
            text, opening = _print(_Both(before, after)), _BOTH
        else:
            text = _print(row)
        if b"\\" in text:
            text = _with_long_escapes(text)
        if start_ts is not None:
            is_whole, tail = False, b',"start_ts":%d%b' % (start_ts, tail)
        end = plan.end if is_whole else self._end(plan, before, after, has_start=start_ts is not None)
        if opening is _BOTH:
            text, end = text[1:], end[1:]
        start = b"%b%d%b%d%b%d" % (self._row_head, times[0], plan.middle, times[1], tail, times[2])
        value = b"".join((start, opening, text, end))
        return Payload(self._row_key(plan, row), value)

    def _row_key(self, plan: RowPlan, row: Row) -> bytes:
        if len(plan.key) == 1 and plan.key[0] in row:
            key = _print(row[plan.key[0]])
            if b"\\" in key:
                key = _with_long_escapes(key)
            return plan.key_start + key + plan.key_end
        key = printed({name: row[name] for name in plan.key if name in row})
        return b'{"payload":%b%b' % (key, plan.key_end[1:])

    def _end(self, plan: RowPlan, before: Row | None, after: Row | None, *, has_start: bool) -> bytes:
        """The end of a message that is not like the others: its block lists the columns that are there.

        What only one of the two images has is optional.
        """
        if not self._settings.has_schema:
            return plan.end
        rows = [row for row in (before, after) if row is not None]
        present = tuple(name for name in plan.shown if any(name in row for row in rows))
        relaxed = tuple(name for name in present if not all(name in row for row in rows))
        found = plan.ends.get((has_start, present, relaxed))
        if found is None:
            is_whole, schema = present == plan.shown, plan.schema
            columns = [column for column in schema.columns if is_whole or column.name in present]
            source = source_schema(extension=self._settings.extension, start_ts=has_start)
            entries = column_schemas(columns, extension=self._settings.extension, relaxed=relaxed)
            if len(plan.ends) >= _MOST_ENDS:
                plan.ends.clear()
            found = plan.ends[has_start, present, relaxed] = b"}" + self._block(schema, entries, source) + b"}"
        return found

    def _block(self, schema: TableSchema, entries: list[Json], source: Json) -> bytes:
        return b',"schema":' + printed(value_schema(self._name(schema.id), entries, source))

    def _name(self, table: TableId) -> str:
        return schema_name(self._settings.cluster, table.database, table.table)

    # ------------------------------------------------------------ DDL, watermarks

    def ddl(self, change: SchemaChange, table: TableId, sql: str, changes: list[Json], commit_ts: int) -> Payload:
        """The message of a DDL statement for one table. Raises what `printed` raises."""
        database = printed(table.database)
        payload = b'%b,"databaseName":%b,"schemaName":null,"ddl":%b,"tableChanges":%b}' % (
            self._stamped(table, change, commit_ts), database, printed(sql), printed(changes),
        )  # fmt: skip
        return self._control(b'{"databaseName":%b}' % database, CHANGE_KEY, payload, self._change_schema)

    def watermark(self, mark: Watermark) -> Payload:
        """The message of a watermark."""
        name = watermark_name(self._settings.cluster)
        payload = self._stamped(TableId("", ""), mark, mark.source.commit_ts or 0) + b',"transaction":null,"op":"m"}'
        return self._control(b"{}", printed(key_schema(name, [])), payload, printed(watermark_schema(name, self._source)))

    def _stamped(self, table: TableId, event: SchemaChange | Watermark, commit_ts: int) -> bytes:
        """The payload of a control message up to `ts_ms`."""
        ts_ms, emitted_ms = event.source.event_time_ns // 1_000_000, event.emitted_at_ns // 1_000_000
        return b'{"source":%b%d%b%d%b%d' % (self._head, ts_ms, _middle(table), commit_ts, self._tail, emitted_ms)

    def _control(self, key: bytes, key_block: bytes, payload: bytes, block: bytes) -> Payload:
        if self._settings.has_schema:
            return Payload(b'{"payload":%b,"schema":%b}' % (key, key_block), b'{"payload":%b,"schema":%b}' % (payload, block))
        return Payload(b'{"payload":%b}' % key, b'{"payload":%b}' % payload)


#: Unlike ends of one table version that are kept.
_MOST_ENDS: Final = 64


def _middle(table: TableId) -> bytes:
    return (
        b',"snapshot":"false","db":%b,"table":%b,"server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,'
        b'"commit_ts":' % (printed(table.database), printed(table.table))
    )


_print = msgspec.json.Encoder().encode
#: msgspec has short escapes for two characters for which TiCDC has none.
_ESCAPE: Final = re.compile(rb"\\(.)")
_LONG_ESCAPES: Final = {b"b": rb"\u0008", b"f": rb"\u000c"}


def printed(value: object) -> bytes:
    """JSON as TiCDC escapes it. Raises OverflowError for a number beyond 64 bits, UnicodeError for lone surrogates."""
    text = _print(value)
    return _with_long_escapes(text) if b"\\" in text else text


def _with_long_escapes(text: bytes) -> bytes:
    if b"\\b" in text or b"\\f" in text:
        return _ESCAPE.sub(lambda match: _LONG_ESCAPES.get(match[1], match[0]), text)
    return text
