"""The catalogue learns: statements as messages have them, and definitions without one."""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Final

import msgspec

from relay.catalog.applying import apply
from relay.catalog.budget import DdlBudget
from relay.catalog.histories import Catalog, Define, Identity
from relay.catalog.names import Names, renamed_by, subject_of, targets_of
from relay.catalog.writer import Writer
from relay.errors import DdlNotUnderstood
from relay.limits import Limits, exceeded
from relay.model import Bootstrap, DdlKind, Position, SchemaChange, Source, TableId, TableSchema
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.statements import AddColumn, AlterTable, CreateTable, Ddl


class DdlMessage(msgspec.Struct, frozen=True):
    """A DDL statement as a message has it.

    `table` is what the envelope names (`table.table` may be ""). `wire_kind`, `emitted_at_ns`: as in
    `SchemaChange`. `is_restored`: the text is TiDB's own spelling (see `relay.mysql.ddl.reader`).
    `definitions`, `gone`: the tables that the message itself says to be so after the statement, or to be
    dropped; they count whatever the text says.
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


def learn(
    catalog: Catalog, message: DdlMessage, budget: DdlBudget | None = None
) -> tuple[Catalog, SchemaChange]:
    """Apply a DDL statement as of its position; return the catalogue after it and the event.

    `budget`: of a record that may hold several messages; what they cost is taken from it.

    A text that is not understood gives an event without kinds; the table that it creates, alters, drops or
    renames is unknown from then on. Raises nothing but LimitExceeded.
    """
    ddl, table, at = message.ddl, message.table, message.at
    known = catalog
    statement = read_statement(message, catalog.limits)
    budget = budget or DdlBudget(catalog.limits)
    # A text that is not understood, or empty, is one, too.
    budget.statements.spend("ddl", "statement", "statements", max(len(statement.statements), 1))
    names = Names(table, statement, known, at)
    identity = identity_of(ddl, table, at)
    writer = Writer(catalog, at, identity, budget)
    if not statement.statements and table.table and _CHANGES_A_TABLE(ddl):
        writer.record(table, Define(None))  # an old definition might be a wrong one
    for part in statement.statements:
        if not apply(writer, part, names):
            writer = Writer(known, at, identity, budget)
            break
    for schema in message.definitions:
        writer.record(schema.id, Define(schema))
    writer.drop(message.gone)
    catalog = writer.catalog()
    targets = tuple(dict.fromkeys(id_ for part in statement.statements for id_ in targets_of(part, names)))
    about = subject_of(table, targets, statement)
    after = left_of(identity, catalog, about, at) if about.table else None
    told = dict.fromkeys([*targets, *(schema.id for schema in message.definitions)])
    known_after = [left_of(identity, catalog, id_, at) for id_ in told]
    renamed = tuple(pair for part in statement.statements for pair in renamed_by(part, names))
    named_before = dict.fromkeys([*(pair.old for pair in renamed), *targets])
    known_before = [known.table(id_, at) for id_ in named_before]
    event = SchemaChange(
        ddl=ddl,
        table=about,
        kinds=statement.kinds,
        wire_kind=message.wire_kind,
        source=message.source,
        emitted_at_ns=message.emitted_at_ns,
        targets=targets,
        renamed=renamed,
        after=None if after is None or after.is_view or DdlKind.DROP_VIEW in statement.kinds else after,
        definitions=tuple(schema for schema in known_after if schema is not None and not schema.is_view),
        known_before=tuple(schema for schema in known_before if schema is not None and not schema.is_view),
        views=_views(statement, targets, known, catalog, at, identity),
    )
    return catalog, event


def read_statement(message: DdlMessage, limits: Limits) -> Ddl:
    """Read the statement, one without parts if it is not understood. Raises LimitExceeded."""
    ddl = message.ddl
    if len(ddl) * _MOST_UTF8 > limits.ddl_bytes and len(ddl.encode(errors="replace")) > limits.ddl_bytes:
        raise exceeded("ddl", "statement", "bytes", "ddl_bytes", limits.ddl_bytes)
    read = _read_once if len(ddl) <= _LONGEST_REMEMBERED else read_ddl
    try:
        statement = read(
            ddl, backslash_escapes=not message.is_restored, most_statements=limits.ddl_statements
        )
    except DdlNotUnderstood:
        return Ddl((), ())
    for part in statement.statements:
        changes = part.changes if isinstance(part, CreateTable | AlterTable) else ()
        if len(changes) > limits.columns and sum(isinstance(c, AddColumn) for c in changes) > limits.columns:
            raise exceeded("ddl", "statement", "columns", "columns", limits.columns)
    return statement


#: TiCDC sends a statement once for each partition. What is remembered of one takes some 15 bytes for each of
#: its characters.
_LONGEST_REMEMBERED: Final = 2048
_read_once: Final = functools.lru_cache(maxsize=1024)(read_ddl)

#: Whether a text that is not understood may be about tables, by its first word behind comments. An atomic
#: group: see `relay.mysql.dumps`.
_CHANGES_A_TABLE: Final = re.compile(
    r"(?>(?:\s++|/\*!\d*+|/\*(?!!).*?\*/|(?:--|#)[^\n]*+\n)*)(?:ALTER|CREATE|DROP|RENAME)\b",
    re.IGNORECASE | re.DOTALL,
).match
#: Bytes of the longest character in UTF-8.
_MOST_UTF8: Final = 4


def define(catalog: Catalog, bootstrap: Bootstrap, at: Position) -> Catalog:
    """Apply a definition that came without a statement, as of its position; return the catalogue after it."""
    table = bootstrap.schema.id
    writer = Writer(catalog, at, identity_of("", table, at), DdlBudget(catalog.limits))
    writer.record(table, Define(bootstrap.schema))
    return writer.catalog()


def identity_of(ddl: str, table: TableId, at: Position) -> Identity:
    """What is equal for copies of one statement. Parts of one RENAME share their commit ts, not the text.

    Versions keep it, so it has a digest of the text, which may be long.
    """
    stripped = ddl.strip(" \t\r\n;").encode(errors="surrogatepass")
    text = hashlib.blake2b(stripped, digest_size=16).digest() if stripped else b""
    if at.commit_ts is not None:
        return (at.commit_ts, table.database, table.table, text)
    if at.log is not None:
        return (*at.log, table.database, table.table, text)
    return (at.offset, at.partition, at.topic, table.database, table.table, text)


def left_by(catalog: Catalog, message: DdlMessage, table: TableId) -> TableSchema | None:
    """Return the definition that a statement, which was learnt, has left of a table."""
    return left_of(identity_of(message.ddl, message.table, message.at), catalog, table, message.at)


def left_of(identity: Identity, catalog: Catalog, table: TableId, at: Position) -> TableSchema | None:
    """Return the definition that a statement has left, whatever else was learnt at its position."""
    history = catalog.history(table)
    own = next((version for version in history if version.identity == identity), None)
    return catalog.table(table, at) if own is None else own.schema


def _views(
    statement: Ddl,
    targets: tuple[TableId, ...],
    before: Catalog,
    after: Catalog,
    at: Position,
    identity: Identity,
) -> tuple[TableSchema, ...]:
    """The views that a statement makes or renames, or those that it drops, as they were."""
    if DdlKind.DROP_VIEW in statement.kinds:
        found = [before.table(view, at) for view in targets]
    else:
        found = [left_of(identity, after, view, at) for view in targets]
    return tuple(view for view in found if view is not None and view.is_view and view.columns)
