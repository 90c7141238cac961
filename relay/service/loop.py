"""The relay loop: poll → translate → send → await every acknowledgement → commit. In order within a partition, nothing left out.

What is kept for a partition: `next`, the offset to read next; `acknowledged`, below which the target has everything; `committed`.
Invariant: committed ≤ acknowledged ≤ next. Only `acknowledged` is ever committed, and it moves only when all batches of a round are
acknowledged. So a crash, a rebalance or a failed batch repeats records but never skips one. With a transactional sink the repeated
ones belong to a transaction that was aborted.

* A round is what one poll returned. Rounds are settled in order; a failed one discards itself and all after it, replaces the sink,
  and rewinds: the source to `acknowledged` (in transactions, to what the brokers say is committed), the translator to what it
  remembered then.
* The group's background task calls `revoked` and `assigned`. `revoked` waits for the round under way, commits, and raises the
  generation, so that whatever an older generation still holds is dropped.
* A record whose error policy is `stop` ends the loop after everything before it is delivered and committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TypeVar

from relay.errors import BrokerUnavailable, DeliveryFailed, RelayError, WatermarksUnknowable
from relay.records import ConsumerRecord
from relay.service.history import NO_SCHEMAS, Schemas
from relay.service.intake import YIELD_SECONDS, Intake, size_of
from relay.service.logs import Log
from relay.service.state import Counts, Owned, Round, Timing
from relay.service.status import Board
from relay.service.transport import OwnershipLost, Partition, PollFailed, Sink, Source, Undelivered
from relay.translator import State

BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
#: Failed deliveries in a row of a kind that waiting does not cure.
GIVE_UP_DELIVERIES = 3
GIVE_UP_POLLS = 20
#: After so long without records the brokers are asked whether there are some; twice in a row means that the source is deaf.
SILENT_SECONDS = 10.0

T = TypeVar("T")


class Relay:
    """One run of the loop. `request_stop` ends it; `run` raises what ended it otherwise."""

    def __init__(  # noqa: PLR0913 - what a loop consists of
        self,
        make_source: Callable[[], Source],
        make_sink: Callable[[], Sink],
        intake: Intake,
        log: Log,
        board: Board,
        *,
        timing: Timing | None = None,
        schemas: Schemas = NO_SCHEMAS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._make_source, self._make_sink = make_source, make_sink
        self._intake, self._translator = intake, intake.translator
        self._log, self._board, self._schemas = log, board, schemas
        self._timing = timing or Timing()
        self._source, self._sink = make_source(), make_sink()
        self._stop = asyncio.Event()
        # Held while records are translated, settled or committed; not while polling.
        self._busy = asyncio.Lock()
        self._revoking = False
        self._generation = 0
        self._opening: Sequence[Partition] = ()
        self._owned: dict[Partition, Owned] = {}
        # What the brokers have certainly committed in transactions of ours.
        self._promised: dict[Partition, int] = {}
        self._rounds: deque[Round] = deque()
        # What the translator remembered before the oldest record that is not safe in the target.
        self._safe_state: State | None = None
        self._next_commit = 0.0
        self._drain_until: float | None = None
        self._failed_deliveries = 0
        self._failed_polls = 0
        self._silent_seconds = silent_seconds
        self._heard_at = time.monotonic()
        self._silences = 0
        self.counts = Counts()

    def request_stop(self) -> None:
        """Finish what is under way, commit and end."""
        self._stop.set()

    async def run(self) -> None:
        """Relay until asked to stop. Raises RecordRefused, a ServiceError, or whatever a defect raised."""
        try:
            await self._unless_stopped(self._start())
            self._board.entered("running")
            await self._turn_until_stopped()
            self._board.entered("draining")
            await self._drain()
        except RelayError:
            self._board.entered("draining")
            # What is acknowledged may as well be committed: the fewer records are translated again.
            with contextlib.suppress(RelayError):
                await self._drain()
            raise
        finally:
            await self._source.stop()
            await self._sink.stop()
            await self._schemas.stop()
            self._board.entered("stopped")

    async def _start(self) -> None:
        try:
            # First of all: a transactional sink ends what an earlier instance has left open, so that offsets read later are right.
            await self._sink.start()
        except Undelivered as error:
            raise BrokerUnavailable(f"{error}; check the addresses and that the brokers are up") from error
        self._board.check("target", ok=True)
        await self._source.start(self)
        self._board.check("source", ok=True)

    async def _turn_until_stopped(self) -> None:
        turns, stop = asyncio.ensure_future(self._turns()), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({turns, stop}, return_when=asyncio.FIRST_COMPLETED)
            # The turn under way may wait for acknowledgements much longer than a stop may take.
            self._drain_until = time.monotonic() + self._timing.drain
            await asyncio.wait({turns}, timeout=self._timing.drain)
            if turns.done():
                turns.result()
        finally:
            stop.cancel()
            turns.cancel()
            await asyncio.wait({turns})

    async def _turns(self) -> None:
        while not self._stop.is_set():
            await self._turn()

    # Called by the group's background task.

    async def revoked(self) -> None:
        """Finish the round under way and commit, as long as the group waits; then nothing is ours."""
        self._revoking = True
        try:
            async with asyncio.timeout(self._timing.revoke), self._busy:
                await self._settle(keep=0)
                await self._commit()
        except (TimeoutError, Undelivered, RelayError) as error:
            # The next owner repeats what was not committed. A failed round stays queued: the loop meets its failure again.
            self._log.warning("partitions.revoked-unfinished", reason=str(error) or type(error).__name__)
            # What is still on its way must not arrive behind what the next owner writes.
            await self._sink.abandon()
        finally:
            self._log.info("partitions.revoked", partitions=[str(partition) for partition in self._owned])
            self._forget()
            self._revoking = False

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Remember what the group gave us; the loop opens it at its next turn."""
        self._forget()
        self._opening = partitions
        self._board.assigned(partitions)
        self._board.check("member", ok=True)
        self._log.info("partitions.assigned", partitions=[str(partition) for partition in partitions])

    def _forget(self) -> None:
        self._generation += 1
        self._opening = ()
        self._owned.clear()

    # The loop's own task.

    async def _turn(self) -> None:
        self._board.beat()
        await self._open()
        generation = self._generation
        polled = await self._poll()
        await self._schemas.follow()
        async with self._busy:
            try:
                if polled and generation == self._generation and not self._revoking:
                    await self._process(polled)
                else:
                    await self._settle(keep=0)
                if time.monotonic() >= self._next_commit:
                    await self._commit()
                if self._sink.worn:
                    await self._rotate()
            except Undelivered as error:
                await self._recover(error)
        await self._listen(heard=bool(polled))

    async def _open(self) -> None:
        if not self._opening:
            return
        opening, generation = self._opening, self._generation
        try:
            # What other members have learnt, or we ourselves before a restart, must be known before the first row.
            await self._unless_stopped(self._schemas.load())
            positions = await self._unless_stopped(self._source.open(opening, self._promised))
        except OwnershipLost:
            return
        except PollFailed as error:
            await self._poll_failed(error)
            return
        if positions is None or generation != self._generation:
            return
        self._opening = ()
        for partition, (offset, is_committed) in positions.items():
            # Without a committed offset the start itself is committed soon: "latest" must not move on after a crash.
            self._owned[partition] = Owned(offset, offset, offset, offset if is_committed else None)
            self._board.progress(partition, position=offset, end=self._source.end(partition), timestamp_ms=None)
        self._log.info("partitions.opened", offsets={str(partition): position.offset for partition, position in positions.items()})
        self._check_watermarks()

    def _check_watermarks(self) -> None:
        """Refuse to spread watermarks that cannot be right: the lowest of all source partitions must be known here."""
        if not self._translator.needs_all_partitions:
            return
        every = self._source.partitions()
        missing = sorted(set(every) - self._owned.keys())
        if missing:
            raise WatermarksUnknowable(
                f"`partitions` in [target] spreads rows anew, and {missing[0]} (of {len(missing)}) is read by another instance, "
                "so no watermark of a target partition could be right: run one instance, or keep the source's partitions "
                '(partitions = 0), or leave watermarks out (watermarks = "drop" in [target])'
            )
        self._translator.expect_partitions(every)

    async def _poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        try:
            polled = await self._unless_stopped(self._source.poll())
        except PollFailed as error:
            await self._poll_failed(error)
            return {}
        self._failed_polls = 0
        return polled or {}

    async def _unless_stopped(self, work: Coroutine[object, object, T]) -> T | None:
        """Give the result, or None as soon as a stop is asked for.

        That is the only time a start or a poll is cancelled: whatever state this leaves the source in, it is closed next.
        """
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        return None

    async def _poll_failed(self, error: PollFailed) -> None:
        """Read every partition again from where we are: records may have been lost with the exception."""
        self._failed_polls += 1
        self._log.warning("poll.failed", reason=str(error), failures=self._failed_polls)
        self._board.failed("poll", BrokerUnavailable.code, "", str(error))
        if self._failed_polls >= GIVE_UP_POLLS:
            raise BrokerUnavailable(f"reading failed {self._failed_polls} times in a row: {error}") from error
        self._source.seek({partition: owned.next for partition, owned in self._owned.items()})
        await self._back_off(self._failed_polls)

    async def _back_off(self, failures: int) -> None:
        self._board.beat()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1])

    async def _listen(self, *, heard: bool) -> None:
        """Replace a source that stays silent although there are records: aiokafka may go deaf when brokers come and go."""
        now = time.monotonic()
        if heard or not self._owned or self._opening:
            self._heard_at, self._silences = now, 0
            return
        if now - self._heard_at < self._silent_seconds:
            return
        self._heard_at = now
        is_deaf = await self._unless_stopped(self._source.waiting())
        self._silences = self._silences + 1 if is_deaf else 0
        if self._silences < 2:
            return
        self._silences = 0
        self._log.warning("source.silent", message="records wait, and none came: the consumer is replaced")
        async with self._busy:
            self._forget()
            await self._source.stop()
            self._source = self._make_source()
            self.counts.sources += 1
        await self._unless_stopped(self._source.start(self))

    async def _process(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Make a round of what was polled. The last round may stay under way while the next poll travels."""
        began = time.monotonic()
        current = Round(self._generation, self._translator.state, pause_at=began + YIELD_SECONDS)
        if self._safe_state is None:
            self._safe_state = current.before
        for partition, records in polled.items():
            owned = self._owned.get(partition)
            if owned is not None and current.refused is None:
                await self._schemas.wait_for(records)
                done = await self._intake.take(records, owned, current, self._sink, lambda: self._is_over(current))
                self._told(partition, records, done)
        await self._intake.send_rest(current, self._sink)
        current.sent_at = time.monotonic()
        self._board.took("translate", current.sent_at - began)
        self._board.batch(sum(map(len, polled.values())))
        self._rounds.append(current)
        await self._settle(keep=0 if current.refused else self._timing.rounds - 1)
        if current.refused and current.generation == self._generation:
            await self._commit()
            raise current.refused

    def _is_over(self, current: Round) -> bool:
        return self._stop.is_set() or self._revoking or current.generation != self._generation

    def _told(self, partition: Partition, records: Sequence[ConsumerRecord], done: int) -> None:
        if not done:
            return
        self.counts.read += done
        last = records[done - 1]
        self._board.consumed(partition.topic, done, size_of(records[:done]))
        self._board.progress(partition, position=last.offset + 1, end=self._source.end(partition), timestamp_ms=last.timestamp_ms)

    async def _settle(self, keep: int) -> None:
        """Wait until all but the last `keep` rounds are acknowledged, oldest first; only then their offsets count."""
        while len(self._rounds) > keep:
            oldest = self._rounds[0]
            await self._sink.delivered(oldest.pending)
            self._rounds.popleft()
            self._failed_deliveries = 0
            if oldest.pending:
                self._board.took("produce", time.monotonic() - oldest.sent_at)
            for topic, count in oldest.written.items():
                self.counts.written += count
                self._board.produced(topic, count, oldest.sizes[topic])
            if oldest.generation == self._generation:
                for partition, offset in oldest.reached.items():
                    self._owned[partition].acknowledged = offset
            if not self._sink.is_transactional:
                self._safe_state = self._rounds[0].before if self._rounds else None

    async def _commit(self) -> bool:
        """Commit what is acknowledged, and nothing else; False if it is not certain that this succeeded."""
        transactional, timing = self._sink.is_transactional, self._timing
        self._next_commit = time.monotonic() + (timing.transaction_interval if transactional else timing.commit_interval)
        if transactional:
            # A transaction holds whole rounds.
            await self._settle(keep=0)
        offsets = {
            partition: owned.acknowledged for partition, owned in self._owned.items() if owned.acknowledged != owned.committed
        }
        if not offsets:
            return True
        generation, began = self._generation, time.monotonic()
        committed = await (self._commit_transaction(offsets) if transactional else self._commit_offsets(offsets))
        if not committed:
            return False
        self._board.took("commit", time.monotonic() - began)
        self._board.committed(offsets)
        if generation == self._generation:
            for partition, offset in offsets.items():
                self._owned[partition].committed = offset
        return True

    async def _commit_transaction(self, offsets: Mapping[Partition, int]) -> bool:
        await self._sink.commit(offsets)
        self._safe_state = None
        self._promised |= offsets
        return True

    async def _commit_offsets(self, offsets: Mapping[Partition, int]) -> bool:
        try:
            await self._source.commit(offsets)
        except OwnershipLost as error:
            # Normal after a rebalance that we missed. What is uncommitted belongs to the next owner; `assigned` comes again.
            self._log.warning("partitions.lost", reason=str(error))
            self._forget()
            if self._rounds:
                raise Undelivered("the partitions were lost with batches on their way", retriable=True) from error
            return False
        except TimeoutError as error:
            self._log.warning("commit.unanswered", reason=str(error))
            return False
        return True

    async def _recover(self, error: Undelivered) -> None:
        """Throw the sink away and read again from what is safe: after one failure a sink may refuse everything."""
        if not error.retriable:
            self._failed_deliveries += 1
        self._log.warning("delivery.failed", reason=str(error), retriable=error.retriable)
        self._board.failed("produce", DeliveryFailed.code, "", str(error))
        self._board.check("target", ok=False, detail=str(error))
        if self._failed_deliveries >= GIVE_UP_DELIVERIES:
            self._rounds.clear()
            raise DeliveryFailed(f"writing failed {self._failed_deliveries} times in a row: {error}") from error
        await self._sink.abandon()
        self._rewind()
        attempts = 1
        await self._back_off(attempts)
        while not await self._replaced() and not self._stop.is_set():
            attempts += 1
            await self._back_off(attempts)

    def _rewind(self) -> None:
        self._rounds.clear()
        if self._safe_state is not None:
            self._translator.restore(self._safe_state)
            self._safe_state = None
        for owned in self._owned.values():
            owned.next = owned.acknowledged
        self._source.seek({partition: owned.next for partition, owned in self._owned.items()})
        if self._sink.is_transactional and self._owned:
            # Whether the last transaction was committed, only the brokers know, once a new sink has ended it.
            opening = tuple(self._owned)
            self._forget()
            self._opening = opening

    async def _replaced(self) -> bool:
        """Start a new sink."""
        self._sink = self._make_sink()
        try:
            await self._sink.start()
        except Undelivered as error:
            self._log.warning("sink.unavailable", reason=str(error))
            await self._sink.abandon()
            return False
        self.counts.sinks += 1
        self._board.check("target", ok=True)
        self._log.info("sink.replaced")
        return True

    async def _rotate(self) -> None:
        """Change to a new sink at a moment when nothing is under way."""
        await self._settle(keep=0)
        await self._commit()
        await self._sink.stop()
        if not await self._replaced():
            raise Undelivered("the new sink did not start", retriable=True)

    async def _drain(self) -> None:
        """Wait for what is under way and commit it. Raises DeliveryFailed if that is not certain."""
        try:
            left = max(0.0, self._drain_until - time.monotonic()) if self._drain_until else self._timing.drain
            async with asyncio.timeout(left), self._busy:
                await self._settle(keep=0)
                committed = await self._commit()
        except (TimeoutError, Undelivered) as error:
            why = str(error) or f"no answer within {self._timing.drain:g} s"
            raise DeliveryFailed(f"stopped with records that were not acknowledged ({why}); the next start repeats them") from error
        if not committed:
            raise DeliveryFailed("stopped with offsets that could not be committed; the next start repeats some records")
