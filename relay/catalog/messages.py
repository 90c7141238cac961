"""The messages that the catalog learns from: DDL, and definitions without a statement."""

from __future__ import annotations

import msgspec

from relay.model.events import Position, Source, TableId, TableSchema


class DdlMessage(msgspec.Struct, frozen=True):
    """A DDL statement as a message contains it.

    table: The table in the message's envelope; `table.table` may be "".
    wire_kind, emitted_at_ns: As in `SchemaChange`.
    is_restored: The text is in the spelling that TiDB restores from its syntax tree (see
        `relay.mysql.ddl.reader`).
    definitions, gone: Tables that the message itself defines as of after the statement, or declares dropped.
        They take precedence over the text.
    """

    ddl: str
    table: TableId
    wire_kind: str
    source: Source
    at: Position
    emitted_at_ns: int
    is_restored: bool = False
    definitions: tuple[TableSchema, ...] = ()
    gone: tuple[TableId, ...] = ()


class DefinitionMessage(msgspec.Struct, frozen=True):
    """A table's definition without a statement, as of a position."""

    schema: TableSchema
    source: Source
    at: Position


LearnedMessage = DdlMessage | DefinitionMessage
#: Messages in reverse order: those before the last one, or None, and the last one.
Learned = tuple["Learned | None", LearnedMessage]
