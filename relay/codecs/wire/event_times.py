"""The time of a change whose message has none: missing, or 0 where the producer means none."""

from __future__ import annotations

from relay.codecs.losses import Lossy
from relay.records import ConsumerRecord


def event_time_ns(
    own_ns: int | None, envelope_ns: int | None, record: ConsumerRecord, lossy: list[Lossy]
) -> int:
    """Return when a change happened: its own time, or else (counted) the next best one, which is that of the
    message around it, or else the record's.
    """
    if own_ns:
        return own_ns
    lossy.append(Lossy.EVENT_TIME)
    return envelope_ns or record.time_ms(0) * 1_000_000
