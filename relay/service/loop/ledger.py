"""What is under way and what is safe: owned partitions, rounds, and what the translator remembered before
them.

Invariant of every partition: committed ≤ acknowledged ≤ next. Only what is acknowledged is ever committed,
and `acknowledged` moves only when all batches of a round are acknowledged, oldest round first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence

from relay.errors import DeliveryFailed, WatermarksUnknowable
from relay.kafka.ports import OwnershipLost, Partition, RecordSource, Sink, StartPosition, Undelivered
from relay.logs import Log
from relay.records import ConsumerRecord, size_of
from relay.service.loop.resolver import Translates
from relay.service.loop.rounds import Counts, Owned, Round
from relay.service.observe.board import Board
from relay.translator import State

#: How often offsets of transactions are committed again, moved or not; `offsets.retention.minutes` is a week
#: by default.
REFRESH_SECONDS = 3600.0


class Ledger:
    """`source` and `sink` are those of the moment: whoever replaces one puts the new one here.

    `expected_offsets`: offsets that the brokers have certainly committed in transactions of ours.
    `generation` is raised whenever partitions are taken away; what an older generation still holds does not
    count any more.
    """

    def __init__(
        self, source: RecordSource, sink: Sink, translator: Translates, log: Log, board: Board
    ) -> None:
        self.source, self.sink = source, sink
        self._translator, self._log, self._board = translator, log, board
        self.generation = 0
        self.owned: dict[Partition, Owned] = {}
        self.expected_offsets: dict[Partition, int] = {}
        self.rounds: deque[Round] = deque()
        # In the order in which they were passed over.
        self._passed_over: dict[Partition, None] = {}
        # How far records had been taken when a failure put us back.
        self._lost_ground: dict[Partition, int] = {}
        # What the translator remembered before the oldest record that is not safe in the target.
        self._safe_state: State | None = None
        self._refresh_at = time.monotonic() + REFRESH_SECONDS
        # In a row: failures that waiting does not cure, and sinks that were replaced.
        self.failed_deliveries = self.recoveries = 0
        self.counts = Counts()

    def own(self, positions: Mapping[Partition, StartPosition]) -> None:
        """Take over partitions at these positions."""
        for partition, (offset, is_committed) in positions.items():
            # Without a committed offset the start itself is committed soon: "latest" must not move on after a
            # crash.
            self.owned[partition] = Owned(offset, offset, offset if is_committed else None)
        self._board.assigned(self.owned)
        for partition, (offset, is_committed) in positions.items():
            end, committed = self.source.end(partition), offset if is_committed else None
            self._board.progress(partition, position=offset, end=end, timestamp_ms=None, committed=committed)

    def disown(self) -> None:
        """Give all partitions up."""
        self._leave()
        self._lost_ground.clear()
        self._board.assigned(())

    def _leave(self) -> None:
        """What is under way for the owned partitions counts no more, and where they are is not known."""
        self.generation += 1
        self.owned.clear()
        self._passed_over.clear()

    def replaced(self) -> None:
        """Take note of a new sink that has started."""
        if self.sink.has_aborted_hanging_transaction:
            self.expected_offsets.clear()

    def begin(self) -> Round:
        """Begin a round."""
        current = Round(self.generation, self._translator.state)
        if self._safe_state is None:
            self._safe_state = current.before
        return current

    def in_turn(
        self, polled: Mapping[Partition, Sequence[ConsumerRecord]]
    ) -> list[tuple[Partition, Sequence[ConsumerRecord]]]:
        """The polled partitions, those first for which earlier rounds had no time: the one before all that
        waits longest.
        """
        turn = {partition: at for at, partition in enumerate(self._passed_over)}
        return (
            sorted(polled.items(), key=lambda item: turn.get(item[0], len(turn)))
            if turn
            else list(polled.items())
        )

    def took(self, partition: Partition, records: Sequence[ConsumerRecord], done: int) -> None:
        """Note how many of a partition's polled records are in the round; the others are polled again."""
        if done < len(records) and partition in self.owned:
            self.source.seek({partition: self.owned[partition].next})
        if not done:
            self._passed_over.setdefault(partition)
            return
        self._passed_over.pop(partition, None)
        self.counts.read += done
        last = records[done - 1]
        self._board.consumed(partition.topic, done, size_of(records[:done]))
        end = self.source.end(partition)
        self._board.progress(partition, position=last.offset + 1, end=end, timestamp_ms=last.timestamp_ms)

    def gaps(self, polled: Collection[Partition]) -> dict[Partition, int]:
        """Positions that have moved although nothing was polled: over what is no record. So lag ends with the
        partition.
        """
        passed = {partition: self.source.passed(partition) or 0 for partition in self.owned.keys() - polled}
        return {
            partition: offset for partition, offset in passed.items() if offset > self.owned[partition].next
        }

    def check_watermarks(self) -> None:
        """Refuse to spread watermarks that cannot be right: the lowest of all source partitions must be known
        here.

        Raises WatermarksUnknowable.
        """
        if not self._translator.needs_all_partitions:
            return
        every = self.source.partitions()
        missing = sorted(set(every) - self.owned.keys())
        if missing:
            raise WatermarksUnknowable(
                f"`partitions` in [target] spreads rows anew, and {missing[0]} (of {len(missing)}) is read by another instance, "
                "so no watermark of a target partition could be right: run one instance, or keep the source's partitions "
                '(partitions = 0), or leave watermarks out (watermarks = "drop" in [target])'
            )
        self._translator.expect_partitions(every)

    async def settle(self, keep: int = 0) -> None:
        """Wait until all but the last `keep` rounds are acknowledged, oldest first; only then their offsets
        count.

        Raises Undelivered, InstanceFenced.
        """
        while len(self.rounds) > keep:
            self._board.beat()
            oldest = self.rounds[0]
            await self.sink.delivered(oldest.pending)
            if oldest.pending:
                self._board.works("target", "topics")
            self.rounds.popleft()
            self._tell(oldest)
            if oldest.generation == self.generation:
                for partition, offset in oldest.reached.items():
                    self.owned[partition].acknowledged = offset
            if not self.sink.is_transactional:
                self.failed_deliveries = self.recoveries = 0
                self._safe_state = self.rounds[0].before if self.rounds else None

    def _tell(self, settled: Round) -> None:
        if settled.pending:
            self._board.took("produce", time.monotonic() - settled.sent_at)
        for topic, count in settled.written.items():
            self.counts.written += count
            self._board.produced(topic, count, settled.sizes[topic])

    async def commit(self) -> bool:
        """Commit what is acknowledged, and nothing else; False if it is not certain that this succeeded.

        Raises Undelivered, InstanceFenced, DeliveryFailed.
        """
        if self.sink.is_transactional:
            # A transaction holds whole rounds.
            await self.settle()
        generation, began = self.generation, time.monotonic()
        # A shard is no member of the group, and brokers forget the offsets of a group without members.
        refresh = self.sink.is_transactional and began >= self._refresh_at
        offsets = {
            partition: each.acknowledged
            for partition, each in self.owned.items()
            if refresh or each.acknowledged != each.committed
        }
        if refresh:
            self._refresh_at = began + REFRESH_SECONDS
        if not offsets:
            return True
        if self.sink.is_transactional:
            await self.sink.commit(offsets)
            self.failed_deliveries = self.recoveries = 0
            self._safe_state = None
            self.expected_offsets |= offsets
        elif not await self._commit_offsets(offsets):
            return False
        self._board.took("commit", time.monotonic() - began)
        self._board.committed(offsets)
        if generation == self.generation:
            for partition, offset in offsets.items():
                self.owned[partition].committed = offset
        return True

    async def _commit_offsets(self, offsets: Mapping[Partition, int]) -> bool:
        try:
            await self.source.commit(offsets)
        except OwnershipLost as error:
            # Normal after a rebalance that we missed. What is uncommitted belongs to the next owner;
            # `assigned` comes again.
            self._log.warning("partitions.lost", reason=str(error))
            self.disown()
            if self.rounds:
                raise Undelivered(
                    "the partitions were lost with batches on their way", retriable=True
                ) from error
            return False
        except TimeoutError as error:
            self._log.warning("commit.unanswered", reason=str(error))
            reason = str(error) or "no answer in time"
            self._board.failed("commit", DeliveryFailed.code, "", reason)
            self._board.check("commit", ok=False, detail=f"offsets could not be committed: {reason}")
            return False
        self._board.check("commit", ok=True)
        return True

    def rewind(self) -> Sequence[Partition]:
        """Go back to what is safe: source and translator. Gives the partitions whose positions only the
        brokers know.

        That is so with transactions: whether the last one was committed shows once a new sink has ended it.
        """
        self.rounds.clear()
        for partition, owned in self.owned.items():
            safe = owned.committed if self.sink.is_transactional else owned.acknowledged
            if owned.next > (safe or 0):
                self._lost_ground[partition] = max(owned.next, self._lost_ground.get(partition, 0))
        if self._safe_state is not None:
            self._translator.restore(self._safe_state)
            self._safe_state = None
        for owned in self.owned.values():
            owned.next = owned.acknowledged
        self.source.seek({partition: owned.next for partition, owned in self.owned.items()})
        # What is read again counts as lag from now on: nothing is polled while there is no sink.
        self.tell_positions()
        if not self.sink.is_transactional:
            return ()
        unknown = tuple(self.owned)
        self._leave()
        return unknown

    async def behind(self, unknown: Sequence[Partition]) -> list[Partition]:
        """Partitions whose records have been taken, were not delivered, and have not been delivered since.

        The brokers are asked about those whose positions are `unknown`. Raises PollFailed, BrokerUnavailable.
        """
        reached = {partition: owned.acknowledged for partition, owned in self.owned.items()}
        if self._lost_ground and unknown:
            found = await self.source.look(unknown, self.expected_offsets)
            reached |= {partition: position.offset for partition, position in found.items()}
        return [
            partition
            for partition, offset in self._lost_ground.items()
            if reached.get(partition, -1) < offset
        ]

    def tell_positions(self) -> None:
        """Note where every partition is, also those that nothing came from, and how much is known of tables."""
        self._board.schema_versions(self._translator.catalog.versions)
        for partition, owned in self.owned.items():
            self._board.progress(
                partition, position=owned.next, end=self.source.end(partition), timestamp_ms=None
            )
