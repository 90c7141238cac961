"""Applies DDL messages, and definitions without a statement, to the catalog."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from relay.catalog.applying import apply
from relay.catalog.catalog import Catalog, history_of
from relay.catalog.messages import DdlMessage, DefinitionMessage, LearnedMessage
from relay.catalog.names import Names, renamed_by, subject_of, targets_of
from relay.catalog.redaction import redacted_text
from relay.catalog.unreadable import may_change_a_table, words_in
from relay.catalog.versions import Define, Identity, Unknown
from relay.catalog.writer import DdlBudget, Writer
from relay.model.errors import DdlNotUnderstood
from relay.model.events import (
    Bootstrap,
    DdlKind,
    Position,
    SchemaChange,
    StatementInText,
    TableId,
    TableSchema,
)
from relay.model.limits import Limits, exceeded
from relay.mysql.charsets import beyond_text
from relay.mysql.ddl import kinds_of, read_ddl
from relay.mysql.ddl.statements import AddColumn, AlterTable, CreateTable, Ddl, Statement


def apply_ddl(
    catalog: Catalog, message: DdlMessage, budget: DdlBudget | None = None
) -> tuple[Catalog, SchemaChange]:
    """Apply a DDL statement as of its position; return the catalog after it and its event.

    budget: Budget of a record that may contain several messages; each message's cost is taken from it.

    A text that is not understood yields an event without kinds; if it may change tables, those that it may
    name become unknown. Raises only LimitExceeded.
    """
    statement = read = _read(message, catalog.limits)
    kept, outline = _redacted(catalog, message)
    if kept.ddl != message.ddl:
        read = _read(kept, catalog.limits)
    budget = budget or DdlBudget(catalog.limits)
    # A text that is empty or not understood counts as one statement.
    budget.statements.spend("ddl", "statement", "statements", max(len(statement.statements), 1))
    is_folding = message.at.commit_ts is not None or message.source.connector == _TICDC
    names = Names(message.table, read, catalog, message.at, is_folding=is_folding)
    identity = _identity(outline, message.table, message.at)
    writer = Writer(catalog, message.at, identity, budget)
    _apply_text(kept, read, names, writer, catalog)
    beyond = _beyond_text(kept, writer.catalog(), identity) if kept.definitions else ()
    for schema in kept.definitions:
        writer.record(schema.id, Define(schema))
    writer.drop(message.gone)
    after = _with_learned(catalog, writer.catalog(), kept)
    change = _event(message, statement, names, identity, known=catalog, after=after)
    return after, msgspec.structs.replace(change, beyond_text=beyond) if beyond else change


def _redacted(catalog: Catalog, message: DdlMessage) -> tuple[DdlMessage, str]:
    """Return a message without hidden values, and the text that its copies have in common."""
    redaction = catalog.redaction
    if redaction is None:
        return message, message.ddl
    found = redacted_text(
        redaction,
        message.ddl,
        message.table.database,
        is_restored=message.is_restored,
        most_statements=catalog.limits.ddl_statements,
    )
    definitions = tuple(map(catalog.redacted, message.definitions))
    return msgspec.structs.replace(message, ddl=found.ddl, definitions=definitions), found.outline


def _with_learned(before: Catalog, after: Catalog, message: LearnedMessage) -> Catalog:
    """Return the catalog after a message, which it remembers if something may be stored of it."""
    is_from_stream = bool(message.at.topic)
    if after is before or before.redaction is None or not is_from_stream:
        return after
    earlier = before.learned
    if earlier is not None and earlier[1].at.record != message.at.record:
        earlier = None
    return msgspec.structs.replace(after, learned=(earlier, message))


#: Connector name of TiCDC, some of whose messages have no commit ts. TiDB ignores letter case when it
#: compares names; MySQL may not.
_TICDC: Final = "ticdc"


def _apply_text(message: DdlMessage, statement: Ddl, names: Names, writer: Writer, known: Catalog) -> None:
    """Apply the text of a statement; undo all of it if one part contradicts the catalog."""
    if not statement.statements and may_change_a_table(message.ddl):
        for table in _possibly_named(message, known):
            # The old definition may be wrong after the statement.
            writer.record(table, Define(None, why=Unknown.NOT_UNDERSTOOD))
    for part in statement.statements:
        if not apply(writer, part, names):
            writer.undo()
            break


def _beyond_text(message: DdlMessage, by_text: Catalog, identity: Identity) -> tuple[str, ...]:
    """Return the column attributes that only the message has. `by_text`: the catalog after the text."""
    found: set[str] = set()
    for schema in message.definitions:
        found.update(beyond_text(schema, _definition_by_identity(by_text, identity, schema.id, message.at)))
    return tuple(sorted(found))


def _event(
    message: DdlMessage, statement: Ddl, names: Names, identity: Identity, *, known: Catalog, after: Catalog
) -> SchemaChange:
    """Return the event of a statement. `known`, `after`: the catalog before and after it."""
    at = message.at

    def definitions_of(tables: Iterable[TableId]) -> list[TableSchema | None]:
        return [_definition_by_identity(after, identity, table, at) for table in tables]

    parts = statement.statements
    targets = tuple(dict.fromkeys(table for part in parts for table in targets_of(part, names)))
    renamed = tuple(pair for part in parts for pair in renamed_by(part, names))
    about = subject_of(message.table, targets, statement)
    (subject,) = definitions_of([about]) if about.table else (None,)
    defined = dict.fromkeys([*targets, *(schema.id for schema in message.definitions)])
    named_before = dict.fromkeys([*(pair.old for pair in renamed), *targets])
    is_drop_of_view = DdlKind.DROP_VIEW in statement.kinds
    # For DROP VIEW, the views as they were before; otherwise the views after the statement.
    views = [known.table(view, at) for view in targets] if is_drop_of_view else definitions_of(targets)
    return SchemaChange(
        ddl=message.ddl,
        table=about,
        kinds=statement.kinds,
        wire_kind=message.wire_kind,
        source=message.source,
        emitted_at_ns=message.emitted_at_ns,
        targets=targets,
        renamed=renamed,
        after=None if subject is None or subject.is_view or is_drop_of_view else subject,
        definitions=_base_tables(definitions_of(defined)),
        known_before=_base_tables(known.table(table, at) for table in named_before),
        views=tuple(view for view in views if view is not None and view.is_view and view.columns),
        statements=_statements(parts, message.table, names) if len(parts) > 1 else (),
    )


def _statements(parts: Iterable[Statement], table: TableId, names: Names) -> tuple[StatementInText, ...]:
    """Return the effect of each statement in a text. `table`: the message's table."""
    found = [(part, kinds_of(part), tuple(targets_of(part, names))) for part in parts]
    return tuple(
        StatementInText(kinds, targets or (subject_of(table, (), Ddl(kinds, (part,))),))
        for part, kinds, targets in found
    )


def _base_tables(found: Iterable[TableSchema | None]) -> tuple[TableSchema, ...]:
    return tuple(schema for schema in found if schema is not None and not schema.is_view)


def _read(message: DdlMessage, limits: Limits) -> Ddl:
    """Parse the text; return a `Ddl` without parts if it is not understood. Raises LimitExceeded."""
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


#: TiCDC sends a statement once per partition, so parsed texts are cached. A cached text takes about 15 bytes
#: per character.
_LONGEST_REMEMBERED: Final = 2048
_read_once: Final = functools.lru_cache(maxsize=1024)(read_ddl)

#: Bytes of the longest character in UTF-8.
_MOST_UTF8: Final = 4


def _possibly_named(message: DdlMessage, known: Catalog) -> set[TableId]:
    """Find the tables that an unparsed text may name: the message's table, and all known tables whose names
    occur in it, quoted or not, in any letter case.
    """
    words = words_in(message.ddl)
    found = {message.table} if message.table.table else set()
    own = message.table.database.lower()
    for database, tables in known.histories.items():
        if not own or database.lower() == own or database.lower() in words:
            named = [TableId(database, table) for table in tables if table.lower() in words]
            found.update(each for each in named if known.has(each, message.at))
    return found


def apply_bootstrap(catalog: Catalog, bootstrap: Bootstrap, at: Position) -> Catalog:
    """Apply a definition that came without a statement, as of its position; return the new catalog."""
    return apply_definition_message(catalog, DefinitionMessage(bootstrap.schema, bootstrap.source, at))


def apply_definition_message(catalog: Catalog, message: DefinitionMessage) -> Catalog:
    """Apply a definition that came without a statement; return the new catalog."""
    table, at = message.schema.id, message.at
    message = msgspec.structs.replace(message, schema=catalog.redacted(message.schema))
    writer = Writer(catalog, at, _identity("", table, at), DdlBudget(catalog.limits))
    writer.record(table, Define(message.schema))
    return _with_learned(catalog, writer.catalog(), message)


def _identity(ddl: str, table: TableId, at: Position) -> Identity:
    """Return the identity shared by all copies of a statement.

    The parts of one RENAME share their commit ts, but not the text. Versions keep the identity, so it
    contains a digest of the text, which may be long.
    """
    stripped = ddl.strip(" \t\r\n;").encode(errors="surrogatepass")
    text = hashlib.blake2b(stripped, digest_size=16).digest() if stripped else b""
    if at.commit_ts is not None:
        return (at.commit_ts, table.database, table.table, text)
    if at.log is not None:
        return (*at.log, table.database, table.table, text)
    return (at.offset, at.partition, at.topic, table.database, table.table, text)


def definition_after(catalog: Catalog, message: DdlMessage, table: TableId) -> TableSchema | None:
    """Return a table's definition after a statement that the catalog has already applied."""
    _, outline = _redacted(catalog, message)
    identity = _identity(outline, message.table, message.at)
    return _definition_by_identity(catalog, identity, table, message.at)


def _definition_by_identity(
    catalog: Catalog, identity: Identity, table: TableId, at: Position
) -> TableSchema | None:
    """Return a table's definition after a statement, regardless of other statements at its position."""
    history = history_of(catalog, table)
    own = next((version for version in history if version.identity == identity), None)
    return catalog.table(table, at) if own is None else own.schema
