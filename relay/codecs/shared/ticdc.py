"""Shared by TiCDC's formats: commit timestamps, type texts, split updates, one DDL message a table.

Sources: pingcap/ticdc pkg/sink/codec/{canal,common} and pingcap/tidb pkg/parser/types (read 2026-08); PingCAP
"TiCDC Behavior in Splitting UPDATE Events".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Annotated, Final, Literal, TypeGuard

import msgspec
from msgspec import Meta

from relay.codecs.codec import ChosenKey
from relay.codecs.losses import Loss
from relay.codecs.shared.rows import HalfRows, split_images
from relay.model.events import (
    ABSENT,
    TSO_LOGICAL_BITS,
    Cell,
    ColumnType,
    Event,
    Generated,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
)
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.ddl.drops import rename_keywords
from relay.mysql.ddl.parts import keywords_of_drops, renames_alone
from relay.mysql.types import DISPLAY_WIDTHS, format_type, quoted_table, suffix
from relay.templates.tracing import mark_of

#: `Source.connector` of all TiCDC events, in any format.
CONNECTOR: Final = "ticdc"
#: TSOs are unsigned 64-bit numbers.
TSO_END: Final = 1 << 64
#: A time of a row or a message, in milliseconds since 1970.
Milliseconds = Annotated[int, Meta(ge=-TIME_END_MS, lt=TIME_END_MS)]


def commit_ts_of(source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> int:
    """Return the event's commit ts, or else (counted) one derived from event time and offset."""
    commit_ts = source.commit_ts
    if commit_ts is not None:
        return commit_ts
    losses.append(_COMMIT_TS_SYNTHETIC)
    event_time_ns = source.event_time_ns
    first = event_time_ns // 1_000_000 << TSO_LOGICAL_BITS if event_time_ns > 0 else 0
    return first + (source_record.offset & _COUNTER)


_COMMIT_TS_SYNTHETIC: Final = Loss.COMMIT_TS_SYNTHETIC
#: The bits of a commit ts below a millisecond.
_COUNTER: Final = (1 << TSO_LOGICAL_BITS) - 1


def bare_type_text(column_type: ColumnType) -> str:
    """Return the type without parameters, TiCDC's default: `decimal`, `int unsigned`, `enum`."""
    return column_type.base + ("" if column_type.base in {"year", "bit"} else suffix(column_type))


def full_type_text(column_type: ColumnType) -> str:
    """Return the type in TiDB's form (`content-compatible`): default display widths, `int(11)`, `year(4)`."""
    base = column_type.base
    if base == "year":
        return "year(4)"
    if base in DISPLAY_WIDTHS and column_type.length is None:
        width = DISPLAY_WIDTHS[base][column_type.unsigned]
        return f"{base}({width}){suffix(column_type)}"
    return format_type(column_type)


# ---------------------------------------------------------------- updates


_UPDATE: Final = Op.UPDATE


def split_updates(
    events: list[Event], key_of: Callable[[TableSchema], tuple[str, ...]] = TableSchema.key_columns
) -> list[Event]:
    """Return the events with every UPDATE of a key split into DELETE of the old row and INSERT of the new
    one.

    `key_of`: the key's columns. By default a key is the primary key or any unique key, even one that may be
    NULL. The manual mentions only keys that cannot be NULL; the code and its records include the others
    (pingcap/ticdc pkg/common/event, 2026-08).
    """
    for event in events:
        if type(event) is RowChange and event.op is _UPDATE and not event.images.keys_unchanged_on_wire():
            return _with_split(events, key_of)
    return events


def _with_split(events: list[Event], key_of: Callable[[TableSchema], tuple[str, ...]]) -> list[Event]:
    indexes: dict[TableSchema, tuple[int, ...]] = {}
    return [
        part
        for event in events
        for part in (split_update(event) if _changes_key(event, indexes, key_of) else [event])
    ]


def changes_chosen_key(change: Event, chosen: ChosenKey) -> TypeGuard[RowChange]:
    """Return whether it is an UPDATE of the columns that a rule chooses for the table's keys. An UPDATE whose
    old row lacks them is none.
    """
    if not isinstance(change, RowChange) or change.op is not _UPDATE:
        return False
    names = chosen(change.table)
    if not names:
        return False
    images, indexes = change.images, change.schema.indexes_of(names)
    before, after = images.cells_at(indexes, is_old=True), images.cells_at(indexes, is_old=False)
    return before is not None and after is not None and differ(before, after) and ABSENT not in before


def split_chosen_keys(events: list[Event], chosen: ChosenKey) -> list[Event]:
    """Split every UPDATE of columns that a rule chooses for keys into DELETE and INSERT."""
    return [
        part
        for event in events
        for part in (split_update(event) if changes_chosen_key(event, chosen) else [event])
    ]


def _changes_key(
    change: Event,
    indexes: dict[TableSchema, tuple[int, ...]],
    key_of: Callable[[TableSchema], tuple[str, ...]],
) -> TypeGuard[RowChange]:
    """Return whether it is an UPDATE of a key; `indexes` caches the indexes of definitions' key columns."""
    if (
        not isinstance(change, RowChange)
        or change.op is not Op.UPDATE
        or change.images.keys_unchanged_on_wire()
    ):
        return False
    images, schema = change.images, change.schema
    keys = indexes.get(schema)
    if keys is None:
        keys = indexes[schema] = schema.indexes_of(key_of(schema))
    before, after = images.cells_at(keys, is_old=True), images.cells_at(keys, is_old=False)
    return before is not None and after is not None and differ(before, after)


def differ(before: Sequence[Cell], after: Sequence[Cell]) -> bool:
    """Return whether these make different keys: the sign of a zero counts, because it is written."""
    return before != after or any(
        type(old) is float and not old and str(old) != str(new)
        for old, new in zip(before, after, strict=True)
    )


def split_update(change: RowChange) -> list[Event]:
    """Split an UPDATE into DELETE of the old row and INSERT of the new one."""
    old, new = split_images(change.images)
    delete = msgspec.structs.replace(change, op=Op.DELETE, images=old)
    return [delete, msgspec.structs.replace(change, op=Op.INSERT, images=new)]


# ---------------------------------------------------------------- DDL

_RESTORED: Final = re.compile(r"[A-Z][A-Z ]* `")


def is_restored(ddl: str) -> bool:
    """Return whether TiDB rewrote this (upper-case keywords, quoted names); its backslashes are literal."""
    return _RESTORED.match(ddl) is not None


_NAME_OR_STRING: Final = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'")


def mysql_text(change: SchemaChange) -> str:
    """Return the statement for readers of MySQL's DDL, where a backslash escapes; in TiDB's own spelling it
    stands for itself.

    So every backslash inside a string literal is doubled, if TiCDC has sent the text in TiDB's spelling.
    """
    ddl = change.ddl
    if "\\" not in ddl or change.source.connector != CONNECTOR or not is_restored(ddl):
        return ddl
    return _NAME_OR_STRING.sub(_with_escapes, ddl)


def _with_escapes(match: re.Match[str]) -> str:
    return match[0].replace("\\", "\\\\") if match[0].startswith("'") else match[0]


def _moves_a_table(change: SchemaChange) -> bool:
    """Return whether a statement, not of TiCDC, renames tables into other databases."""
    is_moved = any(pair.old.database not in {"", pair.new.database} for pair in change.renamed)
    return is_moved and change.source.connector != CONNECTOR


def per_table_statements(change: SchemaChange) -> list[tuple[TableId, str]]:
    """Return TiCDC's messages of a statement: one a table for a DROP or RENAME of several, else the whole
    text.

    A rename into another database is written with both databases, as TiCDC does: readers execute a statement
    in the database of its message, which is the new one.
    """
    if renames_alone(change) and (len(change.renamed) > 1 or _moves_a_table(change)):
        rename = rename_keywords(change.ddl)
        return [
            (pair.new, f"{rename} {quoted_table(pair.old)} TO {quoted_table(pair.new)}")
            for pair in change.renamed
        ]
    words = keywords_of_drops(change)
    if words:
        return [(table, f"{words} {quoted_table(table)}") for table in change.targets]
    return [(change.table, change.ddl)]


def lacks_handle_key(change: RowChange, names: Container[str], losses: list[Loss]) -> bool:
    """Return whether a DELETE with these columns lacks some of its handle key, so that the key does not
    identify the row.

    It is counted as `columns-absent` then: readers cannot find the row by its key. A row that lacks columns
    of its definition was counted when it was read; for an UPDATE that was split, this is true of its new row,
    too.
    """
    schema = change.schema
    is_missing = any(name not in names for name in schema.handle_key())
    was_counted = schema.lacks_key_columns
    if is_missing and not was_counted and _has_all(schema, names) and not _is_of_partial_update(change):
        losses.append(Loss.COLUMNS_ABSENT)
    return is_missing


def _has_all(schema: TableSchema, names: Container[str]) -> bool:
    return all(column.name in names or column.generated is Generated.VIRTUAL for column in schema.columns)


def _is_of_partial_update(delete: RowChange) -> bool:
    """Return whether it is the old row of an UPDATE whose new row lacks columns."""
    images = delete.images
    new = images.images.after if isinstance(images, HalfRows) else None
    if new is None:
        return False
    columns = zip(delete.schema.columns, new, strict=True)
    return not _has_all(delete.schema, {column.name for column, cell in columns if cell is not ABSENT})


def handle_key_indexes(schema: TableSchema) -> tuple[int, ...]:
    """Return the indexes of the handle key's columns in the table; of all columns if it has no such key."""
    key = frozenset(schema.handle_key())
    return tuple(at for at, column in enumerate(schema.columns) if not key or column.name in key)


RawChangeEvent = Annotated[
    bool, Meta(description="keep an UPDATE of a key as one event; false: split it into DELETE and INSERT")
]
IntegrityCheck = Annotated[
    Literal["none", "correctness"],
    Meta(description="correctness: checksums of rows are verified, and written"),
]
CorruptionHandling = Annotated[
    Literal["warn", "error"],
    Meta(
        description="a row whose checksum is wrong, or that its producer marks as corrupted: counted, or "
        "refused",
    ),
]
RawClaimChecks = Annotated[
    bool,
    Meta(description="store the message itself as the claim-check object, without JSON and base64 around it"),
]
DecimalMode = Annotated[
    Literal["precise", "string"], Meta(description="DECIMAL as Avro's decimal, or as text")
]


# `bytes in bytes` first tries the former as a number, which costs an exception; finding a number takes a
# tenth of that.
BACKSLASH: Final = ord("\\")
_print = msgspec.json.Encoder(enc_hook=mark_of).encode
#: msgspec has short escapes for two characters that TiCDC escapes in the long form.
_ESCAPE: Final = re.compile(rb"\\(.)")
_LONG_ESCAPES: Final = {b"b": rb"\u0008", b"f": rb"\u000c"}


def printed(value: object) -> bytes:
    """Return JSON in TiCDC's escapes. Raises OverflowError above 64 bits, UnicodeError for surrogates."""
    text = _print(value)
    return with_long_escapes(text) if BACKSLASH in text else text


def with_long_escapes(text: bytes) -> bytes:
    """Return msgspec's JSON with TiCDC's escapes."""
    if text.find(b"\\b") >= 0 or text.find(b"\\f") >= 0:
        return _ESCAPE.sub(lambda match: _LONG_ESCAPES.get(match[1], match[0]), text)
    return text
