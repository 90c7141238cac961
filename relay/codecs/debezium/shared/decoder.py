"""Decoder of the Debezium family: the part that both dialects share.

`MessageDecoder` parses a row whose message has a known shape, as most have, in one step with its images. All
other messages take the general path: the envelope is parsed strictly, or else leniently. On both paths and
for templates, `MessageDecoder.interpret` returns the row. A dialect declares its messages as
`DialectMessages`, and reads all other events.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from relay.catalog import Catalog
from relay.codecs.codec import TracedMessage
from relay.codecs.debezium.shared.dialect import DebeziumDialect
from relay.codecs.debezium.shared.layouts import Shape
from relay.codecs.debezium.shared.messages import Facts, body_of, image, parse_again, position_of
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder, RowParts
from relay.codecs.debezium.shared.schema_blocks import WRAPPED
from relay.codecs.debezium.shared.traced import TracedDebeziumRow, VariableMembers
from relay.codecs.losses import Loss
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.unknown_members import OpenMessage, Unknown, merged, parser_of, with_unknown
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import Event, Images, Op, RowChange, Source, TableSchema
from relay.model.limits import Limits, check_values, uncounted_bytes
from relay.model.records import ConsumerRecord
from relay.templates.tracing import Trace

_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}

# Python 3.11 resolves enum members through a descriptor, which costs a function call; these are used for
# every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_READ: Final = Op.READ

#: The schema block of an envelope.
_block: Final = operator.attrgetter("schema")

#: Reads a row: from its operation, payload, source, the event time in its position, record, catalog, and the
#: list of losses. None: the row has another shape.
ReadRow = Callable[
    [Op, Any, Source, int, ConsumerRecord, Catalog, list[Loss]], tuple[TableSchema, Images] | None
]


class DialectMessages(NamedTuple):
    """The messages of a dialect.

    envelope, row: The structs of a message, and of a row's payload without its images (see `Shape`).
    connectors: The names of its connectors.
    foreign: The reason for refusing a message of another connector.
    facts_of: Returns the facts of a payload with this source.
    variable: The members that differ between messages of a shape.
    read_ddl: Returns the events of a statement: from its payload, source and facts, record, catalog, and the
        list of losses.
    check: Checks the numbers in `source`; None if the parser checks all there is. Raises Malformed.
    """

    envelope: type[OpenMessage]
    row: type[OpenMessage]
    connectors: frozenset[str]
    foreign: str
    facts_of: Callable[[Any, Any, ConsumerRecord, list[Loss]], Facts]
    variable: VariableMembers
    read_ddl: Callable[[Any, Any, Facts, ConsumerRecord, Catalog, list[Loss]], tuple[list[Event], Catalog]]
    check: Callable[[Any], None] | None = None


class MessageDecoder:
    """Decodes the records of one protocol."""

    def __init__(
        self, protocol: str, messages: DialectMessages, columns: DebeziumDialect, limits: Limits
    ) -> None:
        self._protocol, self._columns, self._limits = protocol, columns, limits
        self._connectors, self._foreign = messages.connectors, messages.foreign
        self._check, self._facts_of, self._variable = messages.check, messages.facts_of, messages.variable
        self._read_ddl = messages.read_ddl
        self._rows = DebeziumRowDecoder(protocol, columns, messages.row, limits)
        self._parser = parser_of(messages.envelope)
        #: What is known of the rows of each topic.
        self.topics = self._rows.topics
        self._blocks, self._odd = self._rows.blocks, self._rows.blocks.odd
        self._uncounted = uncounted_bytes(limits)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        value = record.value
        if not value:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        if len(value) > self._uncounted:
            check_values(self._protocol, "", value, self._limits)
        if record.key and len(record.key) > self._uncounted:
            check_values(self._protocol, "key", record.key, self._limits)
        topic, in_key = self.topics.get(record.topic), self._unknown_in_key(record)
        if (
            topic is not None
            and topic.shape is not None
            and in_key is None
            and (not self._odd or record.topic not in self._odd)
        ):
            payload, key = topic.shape.parsed(value), topic.shape.layout.key
            if payload is not None and (key is None or key.is_of(self._rows.key_of(record.key))):
                change = self._row_of_shape(topic.shape, payload, record, catalog, losses)
                if change is not None:
                    return [change], catalog
        counted = len(losses)
        try:
            return self._event(self._envelope(value, in_key, record.topic), record, catalog, losses)
        except REFUSED:
            del losses[counted:]
        return self._event_again(value, in_key, record, catalog, losses)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row = TracedDebeziumRow(self._rows, record, change, catalog, trace, self._variable)
        message = self._envelope(row.value.text, self._unknown_in_key(record), record.topic)
        body, read = row.traced_body(body_of(message)), row.read_traced
        if self._check is not None:
            self._check(body.source)
        found = self.interpret(change.op, body, message.unknown, row.record, catalog, [], read)
        return row.message([] if found is None else [found])

    # ------------------------------------------------------------ decoding

    def _unknown_in_key(self, record: ConsumerRecord) -> Unknown | None:
        if record.key is None or WRAPPED not in record.key:
            return None
        return self._blocks.unknown_in_key(record.topic, record.key)

    def _unknown_in_block(self, message: Any, topic: str) -> Unknown | None:  # noqa: ANN401 - an envelope
        block = bytes(_block(message))
        return None if block == b"null" else self._blocks.unknown_in_value(topic, block)

    def _envelope(self, value: bytes, in_key: Unknown | None, topic: str) -> Any:  # noqa: ANN401 - of the dialect
        """Parse a message strictly. `in_key`: the unknown members in its key. Raises msgspec's errors."""
        message = self._parser.parse(value)
        in_block = self._unknown_in_block(message, topic)
        if in_key is None and in_block is None:
            return message
        return self._parser.parse_open(value, merged(in_key, in_block))

    def _event_again(
        self,
        value: bytes,
        in_key: Unknown | None,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        """Return the event of a message that is no strict JSON of this dialect."""
        if value.strip() == b"null":  # in Kafka Connect, `null` is no value
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        message, is_invalid_text = parse_again(self._protocol, value, self._parser, self._limits)
        in_block = self._unknown_in_block(message, record.topic)
        self._parser.set_unknown(message, merged(message.unknown, in_key, in_block))
        if is_invalid_text:
            losses.append(Loss.INVALID_TEXT)
        try:
            return self._event(message, record, catalog, losses)
        except REFUSED:
            raise Malformed(self._protocol, "payload", "a row that is not a JSON object of columns") from None

    # ------------------------------------------------------------ rows

    def interpret(  # noqa: PLR0913, PLR0917 - a tuple of arguments costs time for every row
        self,
        op: Op,
        body: Any,  # noqa: ANN401 - a dialect's RowBody with a source
        unknown: Unknown | None,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
        read: ReadRow,
    ) -> RowChange | None:
        """Return the row of a payload; None if `read` returns none. `unknown`: the message's unknown members.
        Raises DecodeError, and what `read` raises.
        """
        source, time_ns, emitted_at_ns, transaction = self._facts_of(body, body.source, record, losses)
        if unknown is not None:
            source = with_unknown(source, unknown)
        row = read(op, body, source, time_ns, record, catalog, losses)
        if row is None:
            return None
        return RowChange(op, row[0], row[1], source, emitted_at_ns, transaction)

    def _row_of_shape(
        self,
        shape: Shape,
        payload: Any,  # noqa: ANN401 - a class made at run time, of RowBody
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> RowChange | None:
        """Return the row of a payload that a shape has parsed, and count its losses; None, and nothing
        counted, if it is no row of this shape after all.
        """
        origin, op, table = payload.source, _OPS.get(payload.op), shape.table.id
        if op is None or origin is None or origin.connector not in self._connectors:
            return None
        if origin.table != table.table or origin.db != table.database:
            return None
        if origin.ts_ms is None or origin.ts_ms <= 0:
            return None
        if self._check is not None:
            self._check(origin)
        return self.interpret(op, payload, None, record, catalog, losses, shape.read)

    def _event(
        self,
        message: Any,  # noqa: ANN401 - an envelope of the dialect
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        """Return the event of an envelope. Raises DecodeError, and msgspec's errors for its parts."""
        body = body_of(message)
        if body is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        origin = body.source
        if origin is None or origin.connector not in self._connectors:
            return [self._event_of_no_connector(body, message.unknown, record, catalog)], catalog
        if self._check is not None:
            self._check(origin)
        op = _OPS.get(body.op or "")
        if op is None:
            facts = self._facts_of(body, origin, record, losses)
            facts = (with_unknown(facts[0], message.unknown), *facts[1:])
            if body.op is None and (body.ddl is not UNSET or image(body.tableChanges)):
                return self._read_ddl(body, origin, facts, record, catalog, losses)
            return self._control(body, facts, record, catalog, losses)
        read = partial(self._read, bytes(message.schema))
        change = self.interpret(op, body, message.unknown, record, catalog, losses, read)
        return [] if change is None else [change], catalog

    def _read(  # noqa: PLR0913, PLR0917 - as ReadRow
        self,
        schema: bytes,
        op: Op,
        body: Any,  # noqa: ANN401 - a dialect's Body with a source
        source: Source,
        time_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[TableSchema, Images]:
        """Read a row on the general path. Raises Malformed if its image or table is missing."""
        origin = body.source
        before = image(body.before) if op is _DELETE or op is _UPDATE else None
        after = None if op is _DELETE else image(body.after)
        if op is _DELETE and before is None and not self._columns.reads_keys:
            raise Malformed(self._protocol, "payload.before", "a row message without a row")
        if op is not _DELETE and after is None:
            raise Malformed(self._protocol, "payload.after", "a row message without a row")
        if not origin.table:
            raise Malformed(self._protocol, "payload.source.table", NAMELESS)
        if op is _UPDATE and before is None:
            losses.append(Loss.BEFORE_MISSING)
        table, value = (origin.db or "", origin.table), record.value or b""
        parts = RowParts(table, before, after, schema, record.key, value)
        at = position_of(source, time_ns, record, is_read=op is _READ)
        return self._rows.read(parts, at, catalog, losses)

    # ------------------------------------------------------------ other events

    def _control(
        self,
        body: Any,  # noqa: ANN401 - a dialect's Body with a source
        facts: Facts,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        """Return the events of a message that is neither a row nor a statement. Raises DecodeError."""
        raise NotImplementedError

    def _event_of_no_connector(
        self,
        body: Any,  # noqa: ANN401, ARG002 - a dialect's Body; for dialects that have such events
        unknown: Unknown | None,  # noqa: ARG002 - as above
        record: ConsumerRecord,  # noqa: ARG002 - as above
        catalog: Catalog,  # noqa: ARG002 - as above
    ) -> Event:
        """Return the event of a message whose source is missing or names another connector.

        By default there is none: raises UnsupportedMessage.
        """
        raise UnsupportedMessage(self._protocol, "payload.source.connector", self._foreign)
