"""Messages of TiCDC Debezium JSON, and functions that extract single facts from them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.debezium.shared.messages import TICDC, Body, Facts, Origin, RowBody
from relay.codecs.debezium.shared.traced import TIME, VariableMembers
from relay.codecs.debezium.ticdc.options import NAME
from relay.codecs.losses import Loss
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.ticdc import CONNECTOR, TSO_END
from relay.codecs.shared.traced_messages import NUMBER
from relay.model.errors import Malformed
from relay.model.events import TSO_LOGICAL_BITS, Source
from relay.model.records import ConsumerRecord

CONNECTORS: Final = frozenset({TICDC})
#: The members of a row's message that differ between messages of a shape, for templates.
VARIABLE: Final = VariableMembers(
    body={"ts_ms": TIME}, source={"ts_ms": TIME, "commit_ts": NUMBER, "start_ts": NUMBER}
)


class TicdcOrigin(Origin, gc=False):
    """`source`."""

    commit_ts: int | None = None
    start_ts: int | None = None
    cluster_id: str | None = None


class TicdcRowBody(RowBody, gc=False):
    """`payload` of a row without its images."""

    source: TicdcOrigin | None = None


class TicdcBody(Body, gc=False):
    """`payload`, of every kind of message."""

    source: TicdcOrigin | None = None


class TicdcEnvelope(TicdcBody, gc=False):
    """A whole message, with `payload` and `schema`, or without this wrapper (then `payload` is unset)."""

    payload: TicdcBody | UnsetType | None = UNSET
    schema: msgspec.Raw = msgspec.Raw(b"null")


def check(origin: TicdcOrigin) -> None:
    """Check the timestamps of a message. Raises Malformed."""
    commit_ts, start_ts = origin.commit_ts, origin.start_ts
    if commit_ts is not None and not 0 <= commit_ts < TSO_END:
        raise Malformed(NAME, "payload.source.commit_ts", "not a TSO (an integer from 0 to 2^64 - 1)")
    if start_ts is not None and not 0 <= start_ts < TSO_END:
        raise Malformed(NAME, "payload.source.start_ts", "not a TSO (an integer from 0 to 2^64 - 1)")


def facts_of(body: RowBody, origin: TicdcOrigin, record: ConsumerRecord, losses: list[Loss]) -> Facts:
    """Return the facts of a message. Its source has its own time, or else (counted) the next best. The time
    when TiCDC made the message is its own, else when the row changed, else the record's timestamp.
    """
    commit_ts, ms, emitted_ms = origin.commit_ts, origin.ts_ms, body.ts_ms
    if commit_ts:
        time_ns = (ms if ms is not None and ms > 0 else commit_ts >> TSO_LOGICAL_BITS) * 1_000_000
    else:
        time_ns = event_time_ns((ms or 0) * 1_000_000, (emitted_ms or 0) * 1_000_000, record, losses)
    if emitted_ms is None or emitted_ms <= 0:
        emitted_ms = ms if ms is not None and ms > 0 else record.time_ms(0)
    source = Source(CONNECTOR, time_ns, commit_ts or None, origin.start_ts, origin.cluster_id)
    return source, time_ns, emitted_ms * 1_000_000, None
