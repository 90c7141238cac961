"""Substitute the time of a change whose message has none: the member is missing, 0 or negative."""

from __future__ import annotations

from relay.codecs.losses import Lossy
from relay.records import ConsumerRecord


def event_time_ns(
    own_ns: int | None, envelope_ns: int | None, record: ConsumerRecord, lossy: list[Lossy]
) -> int:
    """Return when a change happened, in nanoseconds since 1970: its own time or, counted as `event-time`,
    that of the message around it, or else the Kafka timestamp of its record.

    Binlogs and TSOs count from 1970 without a sign, so a negative time (`-1`) means none.
    """
    if own_ns is not None and own_ns > 0:
        return own_ns
    lossy.append(Lossy.EVENT_TIME)
    if envelope_ns is not None and envelope_ns > 0:
        return envelope_ns
    return record.time_ms(0) * 1_000_000
