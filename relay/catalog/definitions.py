"""Definitions of tables from outside of the stream: of a dump, or of a database.

A stream may begin without the DDL of its tables. What SHOW CREATE TABLE says of them elsewhere takes its
place in the catalog like a statement of the stream: before everything, or as of a moment. The schema
history keeps such a definition as a record of its own (`definition_record`), which holds the statements that
make the table, so that a later relay may understand more of them. Its topic is a name that no topic of Kafka
can have.
"""

from __future__ import annotations

import datetime
from typing import Final

import msgspec

from relay.catalog import Catalog, DdlMessage, define, learn
from relay.model.errors import Malformed
from relay.model.events import TSO_LOGICAL_BITS, Bootstrap, Position, Source, TableId, TableSchema
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.model.table_globs import TableFilter

#: The commit ts of a definition that stands before everything.
BEFORE_ALL: Final = 0
_TOPIC: Final = "definition of "
_FORMAT: Final = "definition"
#: Before the event time of every row.
_BEFORE_TIME: Final = -(1 << 63)
#: Commit ts: from 1973 on, so that seconds, milliseconds and the like are none; below what 64 bits hold.
_FIRST: Final = 10**11 << TSO_LOGICAL_BITS
_END: Final = 1 << 63


class Definition(msgspec.Struct, frozen=True):
    """A table's definition: the statements that make it, each with the database of its unqualified names.

    `commit_ts`: as of when it holds, `BEFORE_ALL` for before everything.
    """

    table: TableId
    statements: tuple[tuple[str, str], ...]
    commit_ts: int = BEFORE_ALL


_DECODER: Final = msgspec.json.Decoder(Definition)
# msgspec also raises two that are no errors of its own.
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def as_of(text: str) -> int:
    """Read the moment of a definition: `start`, a commit ts, or a time with its zone. Raises ValueError."""
    if text == "start":
        return BEFORE_ALL
    if text.isascii() and text.isdigit():
        commit_ts = int(text)
        if not _FIRST <= commit_ts < _END:
            raise ValueError("is no commit ts of TiDB: that is milliseconds since 1970, times 262144")
        return commit_ts
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError('is neither "start", a commit ts, nor a time such as 2026-08-01T12:00:00Z') from None
    if moment.tzinfo is None:
        raise ValueError("is a time without a zone: add Z for UTC, or +02:00")
    since_1970 = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    milliseconds = since_1970 // datetime.timedelta(milliseconds=1)
    if milliseconds <= 0:
        raise ValueError("is before 1970")
    return milliseconds << TSO_LOGICAL_BITS


def position_of(definition: Definition) -> Position:
    """Return where a definition stands among the statements of the stream."""
    commit_ts = definition.commit_ts
    time_ns = (commit_ts >> TSO_LOGICAL_BITS) * 1_000_000 if commit_ts else _BEFORE_TIME
    return Position(commit_ts, time_ns, "", 0, 0)


def is_imported(at: Position) -> bool:
    """Whether a definition with this position came from outside of the stream."""
    return not at.topic


def schema_of(definition: Definition, limits: Limits) -> TableSchema | None:
    """Return what its statements make of the table; None if that cannot be known. Raises LimitExceeded."""
    catalog = Catalog(limits=limits)
    for number, (database, ddl) in enumerate(definition.statements):
        catalog = learn_statement(catalog, database, ddl, number)
    return catalog.newest(definition.table)[1]


def teach_definition(catalog: Catalog, definition: Definition) -> Catalog:
    """Return the catalog that knows a definition; the same one if it has nothing to learn from it. Raises
    LimitExceeded.
    """
    schema = schema_of(definition, catalog.limits)
    if schema is None:
        return catalog
    at = position_of(definition)
    return define(catalog, Bootstrap(schema, Source("", at.event_time_ns), at.event_time_ns), at)


def definition_record(definition: Definition) -> ConsumerRecord:
    """Return the record by which a schema history keeps a definition: one of each table and moment, whose
    offset is its commit ts.
    """
    table = definition.table
    topic = f"{_TOPIC}`{_quoted(table.database)}`.`{_quoted(table.table)}`"
    return ConsumerRecord(topic, 0, definition.commit_ts, 0, None, msgspec.json.encode(definition))


def _quoted(name: str) -> str:
    return name.replace("`", "``")


def is_definition(record: ConsumerRecord) -> bool:
    """Whether a record is none of Kafka, but a definition that a schema history has kept."""
    return record.topic.startswith(_TOPIC)


def definition_in(record: ConsumerRecord) -> Definition:
    """Read the definition that a record keeps. Raises Malformed."""
    try:
        return _DECODER.decode(record.value or b"")
    except _DECODE_ERRORS as error:
        raise Malformed(_FORMAT, "", str(error)) from error


def undefined(catalog: Catalog, chosen: TableFilter | None) -> list[str]:
    """Return the patterns by which tables are chosen that match no table with a known definition."""
    known = [
        TableId(database, table)
        for database, tables in catalog.histories.items()
        for table, history in tables.items()
        if history[0].schema is not None
    ]
    globs = () if chosen is None else chosen.include
    return [glob.text for glob in globs if not any(map(glob.matches, known))]


def learn_statement(catalog: Catalog, database: str, ddl: str, number: int) -> Catalog:
    """Apply a statement behind those before it."""
    at = Position(None, 0, "", 0, number)
    message = DdlMessage(ddl, TableId(database, ""), "", Source("", 0), at, 0)
    return learn(catalog, message)[0]
