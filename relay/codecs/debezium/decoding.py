"""Records of the Debezium family, read: what both dialects share.

Contract: a decoder of one dialect is a `MessageDecoder`. It reads any event (`_event`), and a row whose
message has a known shape (`_row`), as most have, in one step. Whatever that refuses
is read in the general way, as if nothing had been tried, and then once more leniently.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.envelope import parse_again
from relay.codecs.debezium.layouts import Shape
from relay.codecs.debezium.reading import RowDecoder
from relay.codecs.losses import Lossy
from relay.codecs.wire.lenient_json import REFUSED
from relay.errors import Malformed
from relay.limits import Limits, check_values, uncounted_bytes
from relay.model import Event, RowChange
from relay.records import ConsumerRecord

#: A dialect's envelope.
Message = TypeVar("Message")


class MessageDecoder(Generic[Message]):
    """Reads the records of one protocol, whose envelopes are `message`s."""

    def __init__(self, protocol: str, message: type[Message], rows: RowDecoder, limits: Limits) -> None:
        self._protocol, self._message, self._rows, self._limits = protocol, message, rows, limits
        self._parse = msgspec.json.Decoder(message).decode
        self._topics = rows.topics
        self._uncounted = uncounted_bytes(limits)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's event; see `relay.codecs.codec.Decoder`."""
        value = record.value
        if not value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        if len(value) > self._uncounted:
            check_values(self._protocol, "", value, self._limits)
        if record.key and len(record.key) > self._uncounted:
            check_values(self._protocol, "key", record.key, self._limits)
        topic = self._topics.get(record.topic)
        if topic is not None and topic.shape is not None:
            payload, key = topic.shape.parsed(value), topic.shape.layout.key
            if payload is not None and (key is None or key.is_of(self._rows.key_of(record.key))):
                change = self._row(topic.shape, payload, record, catalog, lossy)
                if change is not None:
                    return [change], catalog
        counted = len(lossy)
        try:
            return self._event(self._parse(value), record, catalog, lossy)
        except REFUSED:
            del lossy[counted:]
        return self._event_again(value, record, catalog, lossy)

    def _event_again(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """The event of a message that is no strict JSON of this dialect."""
        if value.strip() == b"null":  # as Kafka Connect has it, `null` is no value
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        message, is_invalid_text = parse_again(self._protocol, value, self._message, self._limits)
        if is_invalid_text:
            lossy.append(Lossy.INVALID_TEXT)
        try:
            return self._event(message, record, catalog, lossy)
        except REFUSED:
            raise Malformed(self._protocol, "payload", "a row that is no JSON object of columns") from None

    def _row(
        self,
        shape: Shape,
        payload: Any,  # noqa: ANN401 - a class made at run time
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
    ) -> RowChange | None:
        """Return the row of a payload that a shape has parsed, with what is lost of it; None, and nothing
        lost, for what is no row of this shape after all.
        """
        raise NotImplementedError

    def _event(
        self, message: Message, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Return the event of an envelope. Raises DecodeError, and what msgspec raises for its parts."""
        raise NotImplementedError
