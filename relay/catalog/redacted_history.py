"""Entries of the schema history of routes that hide values.

DDL can contain values: as defaults, in comments and expressions, and in rows of the same record. Instead of
the source record, the history has the table definitions after it, without those of hidden columns. The topic
of such an entry is a name that no Kafka topic can have, as in `relay.catalog.definitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from relay.catalog.catalog import Catalog, DatabaseDefaults
from relay.catalog.versions import Define, RedactedVersion, Unknown, Version
from relay.catalog.writer import DdlBudget, Writer
from relay.model.errors import Malformed
from relay.model.events import Position, TableId, TableSchema
from relay.model.records import ConsumerRecord

_TOPIC: Final = "definitions after "
_FORMAT: Final = "definitions"

#: Returns a definition without what the route hides.
Redact = Callable[[TableSchema], TableSchema]


class _Digest(msgspec.Struct, frozen=True):
    """The digest of a statement's text, as hexadecimal digits."""

    digest: str


class _TableVersion(msgspec.Struct, frozen=True):
    table: TableId
    at: Position
    identity: tuple[int | str | _Digest, ...]
    state: RedactedVersion


class _Defaults(msgspec.Struct, frozen=True):
    database: str
    defaults: DatabaseDefaults


class _Changes(msgspec.Struct, frozen=True):
    """The versions of tables, older ones first, and the defaults of databases after a record."""

    versions: tuple[_TableVersion, ...] = ()
    defaults: tuple[_Defaults, ...] = ()


def is_redacted(record: ConsumerRecord) -> bool:
    """Return whether a record is a redacted entry."""
    return record.topic.startswith(_TOPIC)


def source_topic(record: ConsumerRecord) -> str:
    """Return a record's topic; of a redacted entry, that of its source record."""
    return record.topic.removeprefix(_TOPIC)


def redacted_record(record: ConsumerRecord, after: Catalog, redact: Redact) -> ConsumerRecord:
    """Return the entry for a record that has changed the catalog.

    `after`: the catalog after the record, and possibly after others.
    """
    position = record.topic, record.partition, record.offset
    return _with_value(
        record, _changes(after, lambda at: (at.topic, at.partition, at.offset) == position, redact)
    )


def redacted_definition(record: ConsumerRecord, after: Catalog, redact: Redact) -> ConsumerRecord:
    """Return the entry for a definition from outside the stream.

    `after`: the catalog with this definition alone.
    """
    return _with_value(record, _changes(after, lambda _: True, redact))


def _with_value(record: ConsumerRecord, changes: _Changes) -> ConsumerRecord:
    # Names may have unpaired surrogates, which msgspec does not write.
    value = json.dumps(msgspec.to_builtins(changes), separators=(",", ":")).encode()
    return ConsumerRecord(
        _TOPIC + record.topic, record.partition, record.offset, record.timestamp_ms, None, value
    )


def _changes(catalog: Catalog, is_of_record: Callable[[Position], bool], redact: Redact) -> _Changes:
    """Return the versions with such a position, and those after them, which may depend on them."""
    versions: list[_TableVersion] = []
    for database, tables in catalog.histories.items():
        for name, history in tables.items():
            count = max([at for at, each in enumerate(history, 1) if is_of_record(each.at)], default=0)
            table = TableId(database, name)
            versions += [_table_version(table, each, redact) for each in reversed(history[:count])]
    defaults = tuple(
        _Defaults(database, each)
        for database, known in catalog.defaults.items()
        for each in reversed(known)
        if is_of_record(each.at)
    )
    return _Changes(tuple(versions), defaults)


def _table_version(table: TableId, version: Version, redact: Redact) -> _TableVersion:
    effect, schema = version.effect, version.schema
    why = effect.why if isinstance(effect, Define | RedactedVersion) else Unknown.DOES_NOT_FIT
    state = RedactedVersion(None if schema is None else redact(schema), version.is_gone, why)
    identity = tuple([_Digest(each.hex()) if isinstance(each, bytes) else each for each in version.identity])
    return _TableVersion(table, version.at, identity, state)


def apply_redacted(catalog: Catalog, record: ConsumerRecord) -> tuple[Catalog, tuple[TableId, ...]]:
    """Apply a redacted entry; return the catalog after it, and its tables.

    Raises Malformed.
    """
    try:
        changes = msgspec.convert(json.loads(record.value or b""), _Changes)
        identities = [tuple(_identity(version)) for version in changes.versions]
    except (ValueError, RecursionError) as error:
        raise Malformed(_FORMAT, "", type(error).__name__) from error
    budget = DdlBudget(catalog.limits)
    for version, identity in zip(changes.versions, identities, strict=True):
        writer = Writer(catalog, version.at, identity, budget)
        writer.insert_redacted(version.table, version.state)
        catalog = writer.catalog()
    for database, (at, charset, collation) in [(each.database, each.defaults) for each in changes.defaults]:
        writer = Writer(catalog, at, (), budget)
        writer.default(database, charset, collation)
        catalog = writer.catalog()
    return catalog, tuple(dict.fromkeys(version.table for version in changes.versions))


def _identity(version: _TableVersion) -> Iterator[int | str | bytes]:
    for each in version.identity:
        yield bytes.fromhex(each.digest) if isinstance(each, _Digest) else each
