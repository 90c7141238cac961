"""Texts and JSON of committed offsets and of their changes, for `relay offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from relay.config import Config
from relay.io.kafka.ports import Partition
from relay.io.kafka.positions import why_gone
from relay.io.kafka.settings import Start, StartSettings, shard_of
from relay.model.errors import RecordsGone
from relay.service.commands.offset_changes import OffsetChange, OffsetRange, PartitionOffsets
from relay.text.redaction import plural

_REPEATS: Final = (
    "repeated records are written to the target a second time, with the same relay.source header; a reader "
    "that applies them in order goes back to older rows until relay has caught up; watermarks go back, too"
)
_REPEATS_TRANSACTIONS: Final = (
    "exactly-once does not prevent these repeats: the first copies are in transactions that are committed"
)
_SKIPS: Final = (
    "skipped records are not written, and relay does not apply their DDL: later rows may be read with older "
    "definitions; `relay schema-history import` adds newer ones"
)
_DELETED: Final = "records that retention has deleted can be neither repeated nor relayed"
_UNCOMMITTED: Final = (
    "unknown: how many records after the committed offsets are in the target already; a crash may have come "
    "between their delivery and the commit"
)
_UNCOUNTED: Final = (
    "unknown: the exact number of records, because transaction markers and compacted records have offsets, "
    "too; --count reads the records and counts them"
)
_TIMES: Final = (
    "Kafka finds the first record with this timestamp or a later one: later offsets may have earlier "
    "timestamps, if those of the topic are not in order"
)
_COMMIT_TS: Final = (
    'records before the commit ts are repeated, too; to leave out their events, set start = "commit-ts" and '
    "start_commit_ts in [source]"
)


class OffsetsTarget(NamedTuple):
    """Offsets at which partitions are to begin."""

    text: str
    offsets: Mapping[Partition, int]


class StartTarget(NamedTuple):
    """Settings that determine where partitions are to begin; None for those of the route."""

    text: str
    start: StartSettings | None = None


SeekTarget = OffsetsTarget | StartTarget


def state_text(offsets: PartitionOffsets) -> str:
    """Return a remark about a committed offset, empty if it is usual."""
    if offsets.committed is None:
        return "no committed offset"
    why = why_gone(offsets.committed, offsets.log_start, offsets.log_end)
    if not why:
        return ""
    hint = "seek --to-earliest accepts the gap"
    if offsets.is_beyond_end:
        hint = "seek --to-earliest begins with the new topic"
    return f"{why}; relay refuses to start ({RecordsGone.code}): {hint}"


def offsets_object(offsets: PartitionOffsets, shards: int) -> dict[str, Any]:
    """Return the offsets of a partition for programs. `shards`: their number, 0 without."""
    found = {
        "topic": offsets.partition.topic,
        "partition": offsets.partition.partition,
        "committed": offsets.committed,
        "next": offsets.next,
        "log_start": offsets.log_start,
        "log_end": offsets.log_end,
        "lag": offsets.lag,
        "deleted": _range_object(offsets.deleted),
        "recreated": offsets.is_beyond_end,
    }
    return found | ({"shard": shard_of(offsets.partition.partition, shards)} if shards else {})


def change_object(change: OffsetChange, records: int | None) -> dict[str, Any]:
    """Return a change for programs. `records`: the counted records, None without a count."""
    return {
        "topic": change.current.partition.topic,
        "partition": change.current.partition.partition,
        "committed": change.current.committed,
        "to": change.to,
        "effect_known": change.has_known_effect,
        "repeated": _range_object(change.repeated, records),
        "added": _range_object(change.added, records),
        "skipped": _range_object(change.skipped, records),
        "deleted": _range_object(change.deleted),
    }


def _range_object(offsets: OffsetRange | None, records: int | None = None) -> dict[str, Any] | None:
    if offsets is None:
        return None
    return {"first": offsets.first, "last": offsets.last, "offsets": offsets.size, "records": records}


def effect_text(change: OffsetChange, records: int | None) -> str:
    """Return the effect of a change. `records`: the counted records, None without a count."""
    if not change.is_needed:
        return "no change"
    if not change.has_known_effect:
        return f"unknown: {_why_unknown(change.current)}"
    parts = [
        f"{verb} {_records(offsets, records)}, {_offsets(offsets)}"
        for verb, offsets in (
            ("repeats", change.repeated),
            ("also reads", change.added),
            ("skips", change.skipped),
        )
        if offsets is not None
    ]
    if change.deleted is not None:
        parts.append(f"passes over {_offsets(change.deleted)}, deleted by retention")
    return "; ".join(parts) or "stores the offset at which relay would start anyway"


def _why_unknown(offsets: PartitionOffsets) -> str:
    if offsets.committed is None:
        return offsets.why_unknown
    return why_gone(offsets.committed, offsets.log_start, offsets.log_end)


def _records(offsets: OffsetRange, records: int | None) -> str:
    return f"at most {plural(offsets.size, 'record')}" if records is None else plural(records, "record")


def _offsets(offsets: OffsetRange) -> str:
    return f"offset {offsets.first}" if offsets.size == 1 else f"offsets {offsets.first} to {offsets.last}"


def warnings_of(
    config: Config, target: SeekTarget, changes: Sequence[OffsetChange], *, is_counted: bool
) -> Iterator[str]:
    """Yield the consequences of changes, and what cannot be known about them."""
    needed = [each for each in changes if each.is_needed]
    repeats = any(each.repeated is not None for each in needed)
    if repeats:
        yield _REPEATS
    if repeats and config.is_exactly_once:
        yield _REPEATS_TRANSACTIONS
    if repeats and config.source.start == Start.COMMIT_TS:
        yield f"events below start_commit_ts = {config.source.start_commit_ts} are still left out"
    if any(each.skipped is not None for each in needed):
        yield _SKIPS
    if any(each.deleted is not None for each in needed):
        yield _DELETED
    if not config.is_exactly_once and any(each.current.committed is not None for each in needed):
        yield _UNCOMMITTED
    if not is_counted and any(each.affected is not None for each in needed):
        yield _UNCOUNTED
    if isinstance(target, StartTarget) and target.start is not None:
        yield from _start_warnings(target.start.start)


def _start_warnings(start: Start) -> Iterator[str]:
    if start is Start.TIMESTAMP:
        yield _TIMES
    if start is Start.COMMIT_TS:
        yield _COMMIT_TS
