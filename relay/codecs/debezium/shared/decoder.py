"""Reading records of the Debezium family: the part that both dialects share.

Each dialect's decoder is a `MessageDecoder`. `_row` reads a row whose message has a known shape, as most
have, in one step; `_event` reads any event. A message that `_row` rejects goes through the general path
unchanged, and if that fails, through the lenient parser.
"""

from __future__ import annotations

import operator
from typing import Any, Final, Generic

from relay.catalog import Catalog
from relay.codecs.debezium.shared.layouts import Shape
from relay.codecs.debezium.shared.messages import parse_again
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder
from relay.codecs.debezium.shared.schema_blocks import WRAPPED
from relay.codecs.losses import Loss
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.unknown_members import T, Unknown, merged, parser_of
from relay.model.errors import Malformed
from relay.model.events import Event, RowChange
from relay.model.limits import Limits, check_values, uncounted_bytes
from relay.model.records import ConsumerRecord

#: The schema block of an envelope.
_block: Final = operator.attrgetter("schema")


class MessageDecoder(Generic[T]):
    """Decodes the records of one protocol, whose envelopes are `message`s."""

    def __init__(self, protocol: str, message: type[T], rows: DebeziumRowDecoder, limits: Limits) -> None:
        self._protocol, self._rows, self._limits = protocol, rows, limits
        self._parser = parser_of(message)
        #: What is known of the rows of each topic.
        self.topics = rows.topics
        self._blocks, self._odd = rows.blocks, rows.blocks.odd
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
        topic, in_key = self.topics.get(record.topic), None
        if record.key is not None and WRAPPED in record.key:
            in_key = self._blocks.unknown_in_key(record.topic, record.key)
        if (
            topic is not None
            and topic.shape is not None
            and in_key is None
            and (not self._odd or record.topic not in self._odd)
        ):
            payload, key = topic.shape.parsed(value), topic.shape.layout.key
            if payload is not None and (key is None or key.is_of(self._rows.key_of(record.key))):
                change = self._row(topic.shape, payload, record, catalog, losses)
                if change is not None:
                    return [change], catalog
        counted = len(losses)
        try:
            message = self._parser.parse(value)
            beside = merged(in_key, self._unknown_in_block(message, record))
            if beside is not None:
                message = self._parser.parse_open(value, beside)
            return self._event(message, record, catalog, losses)
        except REFUSED:
            del losses[counted:]
        return self._event_again(value, in_key, record, catalog, losses)

    def _unknown_in_block(self, message: T, record: ConsumerRecord) -> Unknown | None:
        block = bytes(_block(message))
        return None if block == b"null" else self._blocks.unknown_in_value(record.topic, block)

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
        in_block = self._unknown_in_block(message, record)
        self._parser.set_unknown(message, merged(message.unknown, in_key, in_block))
        if is_invalid_text:
            losses.append(Loss.INVALID_TEXT)
        try:
            return self._event(message, record, catalog, losses)
        except REFUSED:
            raise Malformed(self._protocol, "payload", "a row that is not a JSON object of columns") from None

    def _row(
        self,
        shape: Shape,
        payload: Any,  # noqa: ANN401 - a class made at run time
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> RowChange | None:
        """Return the row of a payload that a shape has parsed, and count its losses; None, and nothing
        counted, if it is no row of this shape after all.
        """
        raise NotImplementedError

    def _event(
        self, message: T, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the event of an envelope. Raises DecodeError, and msgspec's errors for its parts."""
        raise NotImplementedError
