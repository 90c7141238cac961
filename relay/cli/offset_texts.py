"""Texts and JSON of positions and of their changes, for `relay offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from relay.config import Config, DeliveryMode
from relay.io.kafka.ports import Partition
from relay.io.kafka.settings import Start, StartSettings
from relay.service.commands.offset_changes import OffsetChange, Span, StoredOffset

_REPEATS: Final = (
    "repeated records are written to the target a second time, with the same relay.source header; a reader "
    "that applies them in order goes back to older rows until relay has caught up; watermarks go back, too"
)
_REPEATS_TRANSACTIONS: Final = (
    "exactly-once does not prevent these repeats: the first copies are in transactions that are committed"
)
_SKIPS: Final = (
    "skipped records are not written, and DDL among them is not learned: later rows may be read with older "
    "definitions; `relay schema-history import` adds newer ones"
)
_EXPIRED: Final = "records that retention has deleted can be neither repeated nor relayed"
_UNCOMMITTED: Final = (
    "unknown: how many records after the stored offsets are in the target already; a crash may have come "
    "between their delivery and the commit"
)
_UNCOUNTED: Final = (
    "unknown: the exact number of records, because markers of transactions and compacted records have "
    "offsets, too; --count reads the records and counts them"
)
_TIMES: Final = (
    "Kafka finds the first record with this timestamp or a later one: later offsets may have earlier "
    "timestamps, if those of the topic are not in order"
)
_COMMIT_TS: Final = (
    "reading begins up to ten minutes before the commit ts, because clocks differ; to leave out events below "
    'it, set start = "commit-ts" and start_commit_ts in [source]'
)


class SeekTarget(NamedTuple):
    """Where partitions are to begin.

    start: Settings that determine it; None for those of the route. Without effect if there are `offsets`.
    """

    text: str
    start: StartSettings | None = None
    offsets: Mapping[Partition, int] | None = None


def state_text(stored: StoredOffset) -> str:
    """Return a remark about a stored offset, empty if it is usual."""
    if stored.committed is None:
        return "no stored offset"
    if stored.is_beyond_end:
        return "the stored offset is after the end: the topic was recreated"
    if stored.expired is not None:
        return f"{_offsets(stored.expired)} deleted by retention before relay has read them"
    return ""


def stored_object(stored: StoredOffset, shards: int) -> dict[str, Any]:
    """Return a position for programs. `shards`: their number, 0 without."""
    found = {
        "topic": stored.partition.topic,
        "partition": stored.partition.partition,
        "stored": stored.committed,
        "begins": stored.begins,
        "oldest": stored.first,
        "end": stored.end,
        "left": stored.left,
        "expired": _span_object(stored.expired),
        "recreated": stored.is_beyond_end,
    }
    return found | ({"shard": stored.partition.partition % shards} if shards else {})


def change_object(change: OffsetChange, records: int | None) -> dict[str, Any]:
    """Return a change for programs. `records`: the counted records, None without a count."""
    return {
        "topic": change.stored.partition.topic,
        "partition": change.stored.partition.partition,
        "from": change.stored.committed,
        "to": change.to,
        "is_known": change.is_known,
        "repeated": _span_object(change.repeated, records),
        "added": _span_object(change.added, records),
        "skipped": _span_object(change.skipped, records),
        "expired": _span_object(change.expired),
    }


def _span_object(span: Span | None, records: int | None = None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {"first": span.first, "last": span.last, "offsets": span.size, "records": records}


def effect_text(change: OffsetChange, records: int | None) -> str:
    """Return the effect of a change. `records`: the counted records, None without a count."""
    if not change.is_needed:
        return "no change"
    if not change.is_known:
        return "unknown: " + (state_text(change.stored) or change.stored.why_unknown)
    parts = [
        f"{verb} {_records(span, records)}, {_offsets(span)}"
        for verb, span in (
            ("repeats", change.repeated),
            ("also reads", change.added),
            ("skips", change.skipped),
        )
        if span is not None
    ]
    if change.expired is not None:
        parts.append(f"passes over {_offsets(change.expired)}, deleted by retention")
    return "; ".join(parts) or "stores where reading begins anyway"


def _records(span: Span, records: int | None) -> str:
    return f"at most {span.size} records" if records is None else f"{records} records"


def _offsets(span: Span) -> str:
    return f"offset {span.first}" if span.size == 1 else f"offsets {span.first} to {span.last}"


def warnings_of(
    config: Config, target: SeekTarget, changes: Sequence[OffsetChange], *, is_counted: bool
) -> Iterator[str]:
    """Yield the consequences of changes, and what cannot be known about them."""
    needed = [each for each in changes if each.is_needed]
    repeats = any(each.repeated is not None for each in needed)
    is_exactly_once = config.delivery.mode is DeliveryMode.EXACTLY_ONCE
    if repeats:
        yield _REPEATS
    if repeats and is_exactly_once:
        yield _REPEATS_TRANSACTIONS
    if repeats and config.source.start == Start.COMMIT_TS:
        yield f"events below start_commit_ts = {config.source.start_commit_ts} are still left out"
    if any(each.skipped is not None for each in needed):
        yield _SKIPS
    if any(each.expired is not None for each in needed):
        yield _EXPIRED
    if not is_exactly_once and any(each.stored.committed is not None for each in needed):
        yield _UNCOMMITTED
    if not is_counted and any(each.read is not None for each in needed):
        yield _UNCOUNTED
    if target.start is not None and target.start.start is Start.TIMESTAMP:
        yield _TIMES
    if target.start is not None and target.start.start is Start.COMMIT_TS:
        yield _COMMIT_TS
