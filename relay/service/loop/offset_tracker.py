"""Track records in flight and safe offsets: owned partitions, rounds, and the translator's state before them.

Invariant of every partition: committed ≤ acknowledged ≤ next. Only acknowledged offsets are ever committed,
and `acknowledged` moves only when all batches of a round are acknowledged, oldest round first.
"""

from __future__ import annotations

import math
import time
from asyncio import Future
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from relay.core.error_policies import Policy
from relay.core.pipeline import State
from relay.io.kafka.ports import (
    Batch,
    OwnershipLost,
    Partition,
    RecordSource,
    Sink,
    StartPosition,
    Undelivered,
)
from relay.io.logs import Log
from relay.model.errors import DeliveryFailed, WatermarksUnknowable
from relay.model.records import ConsumerRecord, size_of
from relay.service.loop.async_resolver import Translates
from relay.service.loop.database_times import DatabaseTimes
from relay.service.loop.round_spans import RoundSpan, RoundTracer
from relay.service.loop.settings import LoopSettings
from relay.service.observe.status import Status


class RecordRefused(Exception):
    """A record could not be translated or written; everything before it is delivered and committed."""

    def __init__(self, record: ConsumerRecord, error: Exception) -> None:
        super().__init__(f"{record.topic}/{record.partition} at offset {record.offset}: {error}")
        self.record, self.error = record, error
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset


@dataclass
class Owned:
    """An assigned partition and its progress. Invariant: committed ≤ acknowledged ≤ next.

    next: Offset of the next record to read.
    acknowledged: The target has acknowledged every record below this offset.
    committed: The offset from which a restart goes on; None before the first commit.
    held: Polled records that wait for their turn, starting at `next`.
    """

    next: int
    acknowledged: int
    committed: int | None
    held: Sequence[ConsumerRecord] = ()


class GivenUp(NamedTuple):
    """A record that was not relayed: the policy applied, and the code and message of its error."""

    policy: Policy
    code: str
    position: str
    message: str


@dataclass
class InFlightBatch:
    """A round: batches being filled, batches in flight, and offsets reached once all are acknowledged.

    `before`: the translator's state before it. `ends_at`: when it should end, by the steady clock. `written`,
    `sizes`: records and bytes by topic. `given_up`: records that were skipped or became dead letters.
    `refused`: the record at which it ends, and relay with it. `span`: None if rounds are not traced.
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
    given_up: list[GivenUp] = field(default_factory=list)
    sent_at: float = 0.0
    refused: RecordRefused | None = None
    span: RoundSpan | None = None

    @property
    def is_late(self) -> bool:
        """Return whether it should end before its poll does."""
        return time.monotonic() >= self.ends_at


@dataclass
class ReplacedClients:
    """The number of sinks and sources replaced since the start."""

    sinks: int = 0
    sources: int = 0


class Connections:
    """The current source and sink, for all their users. After some failures only new ones help."""

    def __init__(self, make_source: Callable[[], RecordSource], make_sink: Callable[[], Sink]) -> None:
        self._make_source, self._make_sink = make_source, make_sink
        self.source, self.sink = make_source(), make_sink()

    def new_source(self) -> RecordSource:
        """Replace the source with a new one, which is not started yet."""
        self.source = self._make_source()
        return self.source

    def new_sink(self) -> Sink:
        """Replace the sink with a new one, which is not started yet."""
        self.sink = self._make_sink()
        return self.sink


class OffsetTracker:
    """Track the loop's offsets, and act on them: settle rounds, commit, and go back to safe offsets.

    `unopened`: partitions that were assigned, or whose positions only the brokers know; the loop opens them.
    `expected_offsets`: those that the brokers have certainly committed in relay's transactions. `generation`:
    incremented whenever partitions are revoked; the rounds of an older generation no longer count.
    `failed_deliveries`, `rewinds`: failures that waiting does not cure, and returns to safe offsets, since
    records last became safe.
    """

    def __init__(
        self,
        connections: Connections,
        translator: Translates,
        log: Log,
        status: Status,
        settings: LoopSettings,
        tracer: RoundTracer | None = None,
    ) -> None:
        self._connections, self._translator, self._log, self._status = connections, translator, log, status
        self._tracer = tracer
        self.generation = 0
        self.unopened: Sequence[Partition] = ()
        self.owned: dict[Partition, Owned] = {}
        self.expected_offsets: dict[Partition, int] = {}
        self.rounds: deque[InFlightBatch] = deque()
        # Rounds whose batches are acknowledged; readers see them after the next commit.
        self._uncommitted: list[InFlightBatch] = []
        # In the order in which they were skipped.
        self._passed_over: dict[Partition, None] = {}
        # By partition, for a failure that reset us: the offset reached before, and the one we went back to.
        self._lost_ground: dict[Partition, tuple[int, int]] = {}
        # The translator's state before the oldest record that is not safe in the target.
        self._safe_state: State | None = None
        self._refresh_seconds = settings.refresh_seconds
        self._refresh_at = time.monotonic() + self._refresh_seconds
        self._database_times = DatabaseTimes(translator, status)
        self.failed_deliveries = self.rewinds = 0
        #: How often the target has acknowledged records, when it last did, and when offsets were last
        #: committed, by the steady clock.
        self.acknowledgements = 0
        self.acknowledged_at = self.committed_at = -math.inf
        #: Why the last commit did not succeed.
        self.commit_failure = ""
        self.counts = ReplacedClients()

    @property
    def positions(self) -> dict[Partition, int]:
        """Return the offset to read next of every owned partition."""
        return {partition: owned.next for partition, owned in self.owned.items()}

    @property
    def held(self) -> dict[Partition, Sequence[ConsumerRecord]]:
        """Return the records that were polled and wait, by partition."""
        return {partition: owned.held for partition, owned in self.owned.items() if owned.held}

    @property
    def is_safe(self) -> bool:
        """Return whether no records are in flight that would require a reset of the translator's state."""
        return self._safe_state is None

    @property
    def in_flight(self) -> int:
        """Return how many offsets were read but not acknowledged by the target.

        Includes those that are read again after a failure.
        """
        read = {partition: owned.next for partition, owned in self.owned.items()}
        for partition, (reached, _) in self._lost_ground.items():
            read[partition] = max(reached, read.get(partition, 0))
        return sum(max(0, offset - self._safe(partition)) for partition, offset in read.items())

    def _safe(self, partition: Partition) -> int:
        """Return the offset below which the target has acknowledged everything, as far as known."""
        if partition in self.owned:
            return self.owned[partition].acknowledged
        return self._lost_ground[partition][1]

    # Partitions come and go.

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Replace all partitions; the positions of the new ones are not known yet."""
        self.forget()
        self.unopened = partitions
        self._status.assigned(partitions)

    def own(self, positions: Mapping[Partition, StartPosition]) -> None:
        """Take over partitions at these positions. Raises WatermarksUnknowable."""
        self.unopened = ()
        self._translator.forget_rows()
        for partition, (offset, is_committed, *_) in positions.items():
            # Without a committed offset the start itself is committed soon: "latest" must not move on after a
            # crash.
            self.owned[partition] = Owned(offset, offset, offset if is_committed else None)
        self._status.assigned(self.owned)
        for partition, owned in self.owned.items():
            self._status.progress(
                partition,
                position=owned.next,
                end=self._connections.source.end(partition),
                timestamp_ms=None,
                committed=owned.committed,
                end_age=self._connections.source.end_age(partition),
            )
        self._log.info(
            "partitions.opened",
            offsets={str(partition): position.offset for partition, position in positions.items()},
            committed=sum(position.committed for position in positions.values()),
            left=sum(max(0, position.end - position.offset) for position in positions.values()),
            records=sum(max(0, position.end - position.first) for position in positions.values()),
        )
        self._check_watermarks()

    def _check_watermarks(self) -> None:
        """Refuse to write wrong watermarks: the lowest of all source partitions must be known here."""
        if not self._translator.needs_all_partitions:
            return
        every = self._connections.source.partitions()
        missing = sorted(set(every) - self.owned.keys())
        if missing:
            raise WatermarksUnknowable(
                f"`partitions` in [target] repartitions rows, and {missing[0]} (of {len(missing)}) is read "
                "by another instance, so no watermark of a target partition would be correct: run "
                "one instance, or keep the source's partitions (partitions = 0), or leave out watermarks "
                '(watermarks = "drop" in [target])'
            )
        self._translator.expect_partitions(every)

    def forget(self) -> None:
        """Release all partitions, including those that were not opened yet."""
        self.unopened = ()
        self._release()

    def _release(self) -> None:
        self._leave()
        self._lost_ground.clear()
        self._status.assigned(())

    def _leave(self) -> None:
        """Discard everything in flight for the owned partitions, and forget their positions."""
        self.generation += 1
        self.owned.clear()
        self._passed_over.clear()

    # A round is made.

    def begin(self) -> InFlightBatch:
        """Begin a round."""
        if self._translator.copies_ddl:
            # The client's metadata is refreshed periodically, and includes partitions that were added.
            self._translator.expect_partitions(self._connections.source.partitions())
        span = None if self._tracer is None else self._tracer.begin()
        current = InFlightBatch(self.generation, self._translator.state, span=span)
        if self._safe_state is None:
            self._safe_state = current.before
        return current

    def in_turn(
        self, polled: Mapping[Partition, Sequence[ConsumerRecord]]
    ) -> list[tuple[Partition, Sequence[ConsumerRecord]]]:
        """Order polled partitions: those skipped in earlier rounds first, longest wait first."""
        if not self._passed_over:
            return list(polled.items())
        turn = {partition: at for at, partition in enumerate(self._passed_over)}
        return sorted(polled.items(), key=lambda item: turn.get(item[0], len(turn)))

    def note_taken(self, partition: Partition, records: Sequence[ConsumerRecord], done: int) -> int:
        """Note how many of a partition's polled records are in the round; the others are polled again.

        Returns the bytes of those that are in it.
        """
        source = self._connections.source
        if partition in self.owned:
            self.owned[partition].held = ()
            if done < len(records):
                source.seek({partition: self.owned[partition].next})
        if not done:
            self._passed_over.setdefault(partition)
            return 0
        self._passed_over.pop(partition, None)
        last, size = records[done - 1], size_of(records[:done])
        self._database_times.note(partition, records, done)
        self._status.consumed(partition.topic, done, size)
        self._status.progress(
            partition,
            position=last.offset + 1,
            end=source.end(partition),
            timestamp_ms=last.timestamp_ms,
            end_age=source.end_age(partition),
        )
        return size

    def hold(self, partition: Partition, records: Sequence[ConsumerRecord]) -> None:
        """Keep a partition's polled records for the next round."""
        self.owned[partition].held = records
        self._passed_over.setdefault(partition)

    def reread(self) -> None:
        """Make the source read every partition again from the current positions."""
        for owned in self.owned.values():
            owned.held = ()
        self._connections.source.seek(self.positions)

    def gaps(self, polled: Collection[Partition]) -> dict[Partition, int]:
        """Return positions that moved without a poll, over offsets without records.

        Offsets without records must be passed, too: lag is counted up to the partition's end.
        """
        passed = {
            partition: self._connections.source.position_of(partition) or 0
            for partition in self.owned.keys() - polled
        }
        return {
            partition: offset for partition, offset in passed.items() if offset > self.owned[partition].next
        }

    def skip(self, gaps: Mapping[Partition, int], current: InFlightBatch) -> None:
        """Move past gaps, as part of a round. Partitions revoked meanwhile are not changed."""
        for partition in gaps.keys() & self.owned.keys():
            self.owned[partition].next = current.reached[partition] = gaps[partition]

    # A round becomes safe.

    async def settle(self, keep: int = 0) -> None:
        """Wait until all but the last `keep` rounds are acknowledged, oldest first.

        Only then do their offsets count. Raises Undelivered, InstanceFenced.
        """
        sink = self._connections.sink
        while len(self.rounds) > keep:
            self._status.heartbeat()
            oldest = self.rounds[0]
            await sink.delivered(oldest.pending)
            self.rounds.popleft()
            if oldest.pending:
                self._status.observe("produce", time.monotonic() - oldest.sent_at)
            self._uncommitted.append(oldest)
            if not sink.is_transactional:
                self._note_acknowledged()
            if oldest.generation == self.generation:
                for partition, offset in oldest.reached.items():
                    self.owned[partition].acknowledged = offset
            if not sink.is_transactional:
                self.failed_deliveries = self.rewinds = 0
                self._safe_state = self.rounds[0].before if self.rounds else None

    def _note_acknowledged(self) -> None:
        """Count the records that readers of the target can now read, and those that were given up."""
        for each in self._uncommitted:
            if each.span is not None:
                each.span.delivered()
            if each.pending:
                self._status.recovered("topics")
                self.acknowledged_at = time.monotonic()
                self.acknowledgements += 1
            for topic, count in each.written.items():
                self._status.produced(topic, count, each.sizes[topic])
            for given_up in each.given_up:
                self._note_given_up(given_up)
        self._uncommitted.clear()

    def _note_given_up(self, given_up: GivenUp) -> None:
        policy, code, position, message = given_up
        if policy is Policy.SKIP:
            self._status.skipped(code)
            self._log.rate_limited("record.skipped", code, position=position, code=code, message=message)
        else:
            self._status.dead_letter(code)
            self._log.rate_limited(
                "record.dead-lettered", code, position=position, code=code, message=message
            )

    async def commit(self) -> bool:
        """Commit acknowledged offsets only; return False if it is not certain that this succeeded.

        Raises Undelivered, InstanceFenced, DeliveryFailed.
        """
        sink = self._connections.sink
        if sink.is_transactional:
            # A transaction holds whole rounds.
            await self.settle()
        generation, began = self.generation, time.monotonic()
        # A shard is no member of the group, and brokers forget the offsets of a group without members.
        refresh = sink.is_transactional and began >= self._refresh_at
        offsets = {
            partition: each.acknowledged
            for partition, each in self.owned.items()
            if refresh or each.acknowledged != each.committed
        }
        if refresh:
            self._refresh_at = began + self._refresh_seconds
        if not offsets:
            return True
        if sink.is_transactional:
            await sink.commit(offsets)
            self._note_acknowledged()
            self.failed_deliveries = self.rewinds = 0
            self._safe_state = None
            self.expected_offsets |= offsets
        elif not await self._commit_to_group(offsets):
            return False
        self._status.observe("commit", time.monotonic() - began)
        self._status.committed(offsets)
        self.committed_at = time.monotonic()
        if generation == self.generation:
            for partition, offset in offsets.items():
                self.owned[partition].committed = offset
        return True

    async def _commit_to_group(self, offsets: Mapping[Partition, int]) -> bool:
        self.commit_failure = ""
        try:
            await self._connections.source.commit(offsets)
        except OwnershipLost as error:
            # Normal after a rebalance that we missed. Uncommitted records belong to the next owner;
            # `assigned` follows.
            self._log.warning("partitions.lost", reason=str(error))
            self._release()
            if self.rounds:
                raise Undelivered(
                    "the partitions were lost while batches were in flight", retriable=True
                ) from error
            return False
        except TimeoutError as error:
            self._log.warning("commit.timeout", reason=str(error))
            reason = str(error) or "no answer in time"
            self._status.add_error("commit", DeliveryFailed.code, "", reason)
            self.commit_failure = f"offsets could not be committed: {reason}"
            return False
        return True

    # A failure.

    def rewind(self) -> None:
        """Set source and translator back to safe offsets.

        With transactions only the brokers know the positions: only after a new sink has ended the last
        transaction is it known whether it was committed. So all partitions are opened again.
        """
        self.rewinds += 1
        if self._tracer is not None:
            self._tracer.fail_open(DeliveryFailed.code)
        self.rounds.clear()
        self._uncommitted.clear()
        is_transactional = self._connections.sink.is_transactional
        for partition, owned in self.owned.items():
            safe = (owned.committed if is_transactional else owned.acknowledged) or 0
            if owned.next > safe:
                reached, _ = self._lost_ground.get(partition, (0, 0))
                self._lost_ground[partition] = max(owned.next, reached), safe
        if self._safe_state is not None:
            self._translator.restore(self._safe_state)
            self._safe_state = None
        for owned in self.owned.values():
            owned.next = owned.acknowledged
        self.reread()
        # Records to be read again count as lag from now on: nothing is polled while there is no sink.
        self.report_positions()
        if is_transactional:
            self.unopened = tuple(self.owned) or self.unopened
            self._leave()

    def sink_replaced(self) -> None:
        """Note a new sink that has started."""
        self.counts.sinks += 1
        if self._connections.sink.has_aborted_hanging_transaction:
            self.expected_offsets.clear()

    async def behind(self) -> list[Partition]:
        """Return partitions with records that were taken and not delivered since.

        The brokers are asked about those that are not open. Raises PollFailed, BrokerUnavailable.
        """
        reached = {partition: owned.acknowledged for partition, owned in self.owned.items()}
        if self._lost_ground and self.unopened:
            found = await self._connections.source.look(self.unopened, self.expected_offsets)
            reached |= {partition: position.offset for partition, position in found.items()}
        return [
            partition
            for partition, (offset, _) in self._lost_ground.items()
            if reached.get(partition, -1) < offset
        ]

    def report_positions(self) -> None:
        """Report the number of known tables and the position of every partition, also without new records."""
        source = self._connections.source
        self._status.schema_versions(self._translator.catalog.versions)
        for partition, position in self.positions.items():
            end, age = source.end(partition), source.end_age(partition)
            self._status.progress(partition, position=position, end=end, timestamp_ms=None, end_age=age)
        self._database_times.report(self.owned)
