"""Table definitions from outside the stream: from a dump or a database.

A stream may begin without the DDL of its tables. A definition from SHOW CREATE TABLE enters the catalog like
a statement of the stream, either before everything else or as of a given moment. The schema history stores it
as a separate record (`definition_record`) with the statements that create the table, so that a newer version
of relay may understand more of them. The topic of such a record is a name that no Kafka topic can have.
"""

from __future__ import annotations

import datetime
from typing import Final

import msgspec

from relay.catalog import Catalog, DdlMessage, apply_bootstrap, apply_ddl
from relay.catalog.redacted_records import is_redacted, redacted_record
from relay.catalog.redaction import Redaction, redacted_text
from relay.model.errors import Malformed
from relay.model.events import TSO_LOGICAL_BITS, Bootstrap, Position, Source, TableId, TableSchema
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.model.table_globs import TableFilter

#: The commit ts of a definition that precedes everything.
BEFORE_ALL: Final = 0
_TOPIC: Final = "definition of "
_FORMAT: Final = "definition"
#: Before the event time of every row.
_BEFORE_TIME: Final = -(1 << 63)
#: Valid commit ts: from 1973 on, which excludes seconds, milliseconds and the like, up to the limit of 64
#: bits.
_FIRST: Final = 10**11 << TSO_LOGICAL_BITS
_END: Final = 1 << 63


class Definition(msgspec.Struct, frozen=True):
    """A table's definition: the statements that create it, each with the database of its unqualified names.

    commit_ts: The moment from which it holds; `BEFORE_ALL` for before everything.
    """

    table: TableId
    statements: tuple[tuple[str, str], ...]
    commit_ts: int = BEFORE_ALL


_DECODER: Final = msgspec.json.Decoder(Definition)
# msgspec also raises two errors that are not its own.
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def as_of(text: str) -> int:
    """Read the moment of a definition: `start`, a commit ts, or a time with its zone. Raises ValueError."""
    if text == "start":
        return BEFORE_ALL
    if text.isascii() and text.isdigit():
        commit_ts = int(text)
        if not _FIRST <= commit_ts < _END:
            raise ValueError("is not a commit ts of TiDB (milliseconds since 1970, times 262144)")
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
    """Return the position of a definition among the statements of the stream."""
    commit_ts = definition.commit_ts
    time_ns = (commit_ts >> TSO_LOGICAL_BITS) * 1_000_000 if commit_ts else _BEFORE_TIME
    return Position(commit_ts, time_ns, "", 0, 0)


def is_imported(at: Position) -> bool:
    """Return whether a definition with this position came from outside the stream."""
    return not at.topic


def schema_of(definition: Definition, limits: Limits) -> TableSchema | None:
    """Return the schema that a definition yields; None if it is unknown. Raises LimitExceeded."""
    catalog = Catalog(limits=limits)
    for number, (database, ddl) in enumerate(definition.statements):
        catalog = learn_statement(catalog, database, ddl, number)
    return catalog.newest(definition.table)[1]


def apply_definition(catalog: Catalog, definition: Definition) -> Catalog:
    """Apply a definition; return the same catalog if its schema is unknown. Raises LimitExceeded."""
    schema = schema_of(definition, catalog.limits)
    if schema is None:
        return catalog
    at = position_of(definition)
    return apply_bootstrap(catalog, Bootstrap(schema, Source("", at.event_time_ns), at.event_time_ns), at)


def definition_record(definition: Definition) -> ConsumerRecord:
    """Return the record that stores a definition in a schema history. There is one per table and moment; its
    offset is the commit ts.
    """
    table = definition.table
    topic = f"{_TOPIC}`{_quoted(table.database)}`.`{_quoted(table.table)}`"
    return ConsumerRecord(topic, 0, definition.commit_ts, 0, None, msgspec.json.encode(definition))


def _quoted(name: str) -> str:
    return name.replace("`", "``")


def is_definition(record: ConsumerRecord) -> bool:
    """Return whether a record is one of relay's own, with definitions or statements, not a Kafka record."""
    return record.topic.startswith(_TOPIC) or is_redacted(record)


def is_from_stream(record: ConsumerRecord) -> bool:
    """Return whether a record is from the source stream, or stands for one, and is not imported."""
    return not record.topic.startswith(_TOPIC)


def storable(record: ConsumerRecord, after: Catalog) -> ConsumerRecord | None:
    """Return the record to store for one that has just changed a catalog, without hidden values.

    `after`: the catalog after the record. None if it is not the last one that has changed the catalog.
    """
    if after.redaction is None:
        return record
    if is_from_stream(record):
        return redacted_record(record, after)
    return definition_record(_redacted(definition_in(record), after.redaction, after.limits))


def _redacted(definition: Definition, redaction: Redaction, limits: Limits) -> Definition:
    """Return a definition without hidden values in its statements."""
    most = limits.ddl_statements
    found: list[tuple[str, str]] = []
    for database, ddl in definition.statements:
        text = redacted_text(redaction, ddl, database, is_restored=False, most_statements=most)
        found.append((database, text.ddl))
    return msgspec.structs.replace(definition, statements=tuple(found))


def definition_in(record: ConsumerRecord) -> Definition:
    """Read the definition from such a record. Raises Malformed."""
    try:
        return _DECODER.decode(record.value or b"")
    except _DECODE_ERRORS as error:
        raise Malformed(_FORMAT, "", str(error)) from error


def undefined(catalog: Catalog, chosen: TableFilter | None) -> list[str]:
    """Return the include patterns that match no table with a known definition."""
    known = [
        TableId(database, table)
        for database, tables in catalog.histories.items()
        for table, history in tables.items()
        if history[0].schema is not None
    ]
    globs = () if chosen is None else chosen.include
    return [glob.text for glob in globs if not any(map(glob.matches, known))]


def learn_statement(catalog: Catalog, database: str, ddl: str, number: int) -> Catalog:
    """Apply a statement at a position after those with lower numbers."""
    at = Position(None, 0, "", 0, number)
    message = DdlMessage(ddl, TableId(database, ""), "", Source("", 0), at, 0)
    return apply_ddl(catalog, message)[0]
