"""What the loop keeps: offsets of owned partitions, rounds under way, counts."""

from __future__ import annotations

import math
import time
from asyncio import Future
from collections import Counter
from dataclasses import dataclass, field

from relay.errors import DeliveryFailed
from relay.kafka.ports import Batch, Partition
from relay.records import ConsumerRecord
from relay.translator import State


class RecordRefused(Exception):
    """A record could not be translated or written; everything before it is delivered and committed."""

    def __init__(self, record: ConsumerRecord, error: Exception) -> None:
        super().__init__(f"{record.topic}/{record.partition} at offset {record.offset}: {error}")
        self.topic, self.partition, self.offset, self.error = (
            record.topic,
            record.partition,
            record.offset,
            error,
        )


def unacknowledged(why: str) -> DeliveryFailed:
    """Say that a stop leaves something undone."""
    return DeliveryFailed(
        f"stopped with records that were not acknowledged ({why}); the next start repeats them"
    )


@dataclass(frozen=True)
class Timing:
    """How often and how long, in seconds. `rounds`: how many may be under way at once."""

    commit_interval: float = 1.0
    transaction_interval: float = 0.1
    drain: float = 20.0
    revoke: float = 40.0
    rounds: int = 2


@dataclass
class Owned:
    """A partition that is ours.

    `next`: the offset to read next. `acknowledged` ≤ `next`: below it the target has acknowledged everything.
    `committed` ≤ `acknowledged`: what a restart goes on from; None if nothing was committed yet.
    """

    next: int
    acknowledged: int
    committed: int | None


@dataclass
class Round:
    """What came of one poll: batches being filled, batches under way, offsets that are reached once all are
    acknowledged.

    `before`: what the translator remembered before it. `ends_at`: when it should end, by the steady clock.
    `written`, `sizes`: records and bytes by topic. `refused`: the record at which it ends, and relay with it.
    """

    generation: int
    before: State
    pause_at: float = 0.0
    ends_at: float = math.inf
    batches: dict[tuple[str, int], Batch] = field(default_factory=dict)
    pending: list[Future[object]] = field(default_factory=list)
    reached: dict[Partition, int] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    sent_at: float = 0.0
    refused: RecordRefused | None = None

    @property
    def is_late(self) -> bool:
        """Whether it should end before its poll does."""
        return time.monotonic() >= self.ends_at


@dataclass
class Counts:
    """What has been done since the start; records that were read twice count twice."""

    read: int = 0
    written: int = 0
    sinks: int = 0
    sources: int = 0
