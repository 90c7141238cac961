"""Messages of Debezium's own connector as relay writes them, for the tests of their encoder."""

from __future__ import annotations

from relay import ConsumerRecord, Loss
from relay.codecs import PROTOCOLS
from relay.codecs.codec import EncodedRecord
from relay.codecs.given_options import parse_options
from relay.model.events import Event
from relay.model.lookups import LookupCache

NAME = "debezium-json"
BARE = {"schemas.enable": "false"}
CAUSE = ConsumerRecord("topic", 0, 77, 1768443650999, None, None)


def encoded(*events: Event, options: dict[str, str] | None = None) -> tuple[list[EncodedRecord], list[Loss]]:
    """The messages of events, and what is lost."""
    codec = PROTOCOLS[NAME]
    encoder = codec.open_encoder(parse_options(codec, options or {}, "to", "target"), LookupCache())
    losses: list[Loss] = []
    prepared = list(events) if encoder.prepare is None else encoder.prepare(list(events))
    return list(encoder.encode(prepared, CAUSE, losses)), losses
