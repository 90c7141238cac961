"""Records that stand for source records where relay stores statements on a route that hides values.

They have the messages that the catalog has learned from the source record, without hidden values, and do not
depend on the source's format. The topic of such a record is a name that no Kafka topic can have.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import msgspec

from relay.catalog.catalog import Catalog
from relay.catalog.learning import apply_ddl, apply_definition_message
from relay.catalog.messages import DdlMessage, DefinitionMessage, LearnedMessage
from relay.catalog.writer import DdlBudget
from relay.model.errors import Malformed
from relay.model.events import Bootstrap, Event, Position, Source, TableId, TableSchema
from relay.model.records import ConsumerRecord

_TOPIC: Final = "statements of "
_FORMAT: Final = "statements"


class _StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message; `ddl` is None for a definition without a statement.

    `connector`, `time_ns`, `commit_ts`: the statement's source.
    """

    at: Position
    connector: str
    time_ns: int
    commit_ts: int | None = None
    ddl: str | None = None
    table: TableId = TableId("", "")
    is_restored: bool = False
    definitions: tuple[TableSchema, ...] = ()
    gone: tuple[TableId, ...] = ()

    @property
    def source(self) -> Source:
        """The origin and the time of the statement."""
        return Source(self.connector, self.time_ns, self.commit_ts)


def is_redacted(record: ConsumerRecord) -> bool:
    """Return whether a record stands for a source record."""
    return record.topic.startswith(_TOPIC)


def source_topic(record: ConsumerRecord) -> str:
    """Return the topic of a record, or of the source record that it stands for."""
    return record.topic.removeprefix(_TOPIC)


def redacted_record(record: ConsumerRecord, after: Catalog) -> ConsumerRecord | None:
    """Return the record to store for one that has just changed the catalog of a route that hides values.

    `after`: the catalog after the record. None if the record is not the last one that changed it.
    """
    messages: list[LearnedMessage] = []
    learned = after.learned
    while learned is not None:
        learned, message = learned
        messages.append(message)
    if not messages or messages[0].at.record != (source_topic(record), record.partition, record.offset):
        return None
    stored = [_stored(message) for message in reversed(messages)]
    # Names may have unpaired surrogates, which msgspec does not write.
    value = json.dumps(msgspec.to_builtins(stored), separators=(",", ":")).encode()
    topic = _TOPIC + source_topic(record)
    return ConsumerRecord(topic, record.partition, record.offset, record.timestamp_ms, None, value)


def _stored(message: LearnedMessage) -> _StoredMessage:
    source = message.source
    common = (message.at, source.connector, source.event_time_ns, source.commit_ts)
    if isinstance(message, DefinitionMessage):
        return _StoredMessage(*common, definitions=(message.schema,))
    return _StoredMessage(
        *common, message.ddl, message.table, message.is_restored, message.definitions, message.gone
    )


def _messages(record: ConsumerRecord) -> list[_StoredMessage]:
    """Return the messages in such a record. Raises Malformed."""
    try:
        return msgspec.convert(json.loads(record.value or b""), list[_StoredMessage])
    except (ValueError, RecursionError) as error:
        raise Malformed(_FORMAT, "", type(error).__name__) from error


def redacted_tso(record: ConsumerRecord) -> int:
    """Return the time of the latest message, in units of a commit ts. Raises Malformed."""
    return max([message.source.tso for message in _messages(record)], default=0)


def apply_redacted(catalog: Catalog, record: ConsumerRecord) -> tuple[Catalog, list[Event]]:
    """Apply such a record; return the catalog after it, and its events. Raises Malformed, LimitExceeded."""
    budget = DdlBudget(catalog.limits)
    events: list[Event] = []
    for message in _messages(record):
        catalog, found = _applied(catalog, message, budget)
        events += found
    return catalog, events


def _applied(catalog: Catalog, message: _StoredMessage, budget: DdlBudget) -> tuple[Catalog, Sequence[Event]]:
    source = message.source
    if message.ddl is None:
        for schema in message.definitions:
            catalog = apply_definition_message(catalog, DefinitionMessage(schema, source, message.at))
        return catalog, [Bootstrap(schema, source, 0) for schema in message.definitions]
    ddl = DdlMessage(
        message.ddl,
        message.table,
        "",
        source,
        message.at,
        0,
        message.is_restored,
        message.definitions,
        message.gone,
    )
    catalog, change = apply_ddl(catalog, ddl, budget)
    return catalog, [change]
