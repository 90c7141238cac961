"""What the schema history keeps of a record on a route that hides values.

A record with DDL may show values: as defaults, in comments and expressions, and in rows beside it. In its
place, the history keeps the definitions to which it led, as the route shows them. The topic of such a record
is a name that no Kafka topic can have, as in `relay.catalog.definitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from relay.catalog.catalog import Catalog, DatabaseDefaults
from relay.catalog.versions import Define, Kept, Unknown, Version
from relay.catalog.writer import DdlBudget, Writer
from relay.model.errors import Malformed
from relay.model.events import Position, TableId, TableSchema
from relay.model.records import ConsumerRecord

_TOPIC: Final = "definitions after "
_FORMAT: Final = "definitions"

#: Returns a definition without what the route hides.
Shown = Callable[[TableSchema], TableSchema]


class _Digest(msgspec.Struct, frozen=True):
    """The digest of a statement's text, as hexadecimal digits."""

    digest: str


class _KeptVersion(msgspec.Struct, frozen=True):
    table: TableId
    at: Position
    identity: tuple[int | str | _Digest, ...]
    state: Kept


class _KeptDefaults(msgspec.Struct, frozen=True):
    database: str
    defaults: DatabaseDefaults


class _Changes(msgspec.Struct, frozen=True):
    """The versions of tables, older ones first, and the defaults of databases after a record."""

    versions: tuple[_KeptVersion, ...] = ()
    defaults: tuple[_KeptDefaults, ...] = ()


def is_kept(record: ConsumerRecord) -> bool:
    """Return whether a record has definitions in place of a source record."""
    return record.topic.startswith(_TOPIC)


def source_topic(record: ConsumerRecord) -> str:
    """Return the topic of a record, or of the source record that it stands for."""
    return record.topic.removeprefix(_TOPIC)


def kept_record(record: ConsumerRecord, after: Catalog, shown: Shown) -> ConsumerRecord:
    """Return the record that the history keeps in place of another one, which has changed the catalog.

    `after`: the catalog after the record, and possibly after others.
    """
    place = record.topic, record.partition, record.offset
    return _with_value(
        record, _changes(after, lambda at: (at.topic, at.partition, at.offset) == place, shown)
    )


def kept_definition(record: ConsumerRecord, after: Catalog, shown: Shown) -> ConsumerRecord:
    """Return the record that the history keeps in place of a definition from outside the stream.

    `after`: the catalog with this definition alone.
    """
    return _with_value(record, _changes(after, lambda _: True, shown))


def _with_value(record: ConsumerRecord, changes: _Changes) -> ConsumerRecord:
    # Names may have unpaired surrogates, which msgspec does not write.
    value = json.dumps(msgspec.to_builtins(changes), separators=(",", ":")).encode()
    return ConsumerRecord(
        _TOPIC + record.topic, record.partition, record.offset, record.timestamp_ms, None, value
    )


def _changes(catalog: Catalog, is_of_record: Callable[[Position], bool], shown: Shown) -> _Changes:
    """Return the versions with such a position, and those after them, which may depend on them."""
    versions: list[_KeptVersion] = []
    for database, tables in catalog.histories.items():
        for name, history in tables.items():
            count = max([at for at, each in enumerate(history, 1) if is_of_record(each.at)], default=0)
            table = TableId(database, name)
            versions += [_kept_version(table, each, shown) for each in reversed(history[:count])]
    defaults = tuple(
        _KeptDefaults(database, each)
        for database, known in catalog.defaults.items()
        for each in reversed(known)
        if is_of_record(each.at)
    )
    return _Changes(tuple(versions), defaults)


def _kept_version(table: TableId, version: Version, shown: Shown) -> _KeptVersion:
    effect, schema = version.effect, version.schema
    why = effect.why if isinstance(effect, Define | Kept) else Unknown.DOES_NOT_FIT
    state = Kept(None if schema is None else shown(schema), version.is_gone, why)
    identity = tuple([_Digest(each.hex()) if isinstance(each, bytes) else each for each in version.identity])
    return _KeptVersion(table, version.at, identity, state)


def apply_kept(catalog: Catalog, record: ConsumerRecord) -> tuple[Catalog, tuple[TableId, ...]]:
    """Apply the definitions in such a record; return the catalog after them, and their tables.

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
        writer.keep(version.table, version.state)
        catalog = writer.catalog()
    for database, (at, charset, collation) in [(each.database, each.defaults) for each in changes.defaults]:
        writer = Writer(catalog, at, (), budget)
        writer.default(database, charset, collation)
        catalog = writer.catalog()
    return catalog, tuple(dict.fromkeys(version.table for version in changes.versions))


def _identity(version: _KeptVersion) -> Iterator[int | str | bytes]:
    for each in version.identity:
        yield bytes.fromhex(each.digest) if isinstance(each, _Digest) else each
