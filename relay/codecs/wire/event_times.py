"""Substitute the time of a change whose message has none: the member is missing, or 0."""

from __future__ import annotations

from relay.codecs.losses import Lossy
from relay.records import ConsumerRecord


def event_time_ns(
    own_ns: int | None, envelope_ns: int | None, record: ConsumerRecord, lossy: list[Lossy]
) -> int:
    """Return when a change happened, in nanoseconds since 1970: its own time or, counted as `event-time`,
    that of the message around it, or else the Kafka timestamp of its record.
    """
    if own_ns:
        return own_ns
    lossy.append(Lossy.EVENT_TIME)
    return envelope_ns or record.time_ms(0) * 1_000_000
