"""The relay loop: poll → translate → send → await every acknowledgement → commit. At least once, in order within a partition.

What is kept for a partition: `next`, the offset to read next; `durable`, below which everything is acknowledged in the target;
`committed`. Invariant: committed ≤ durable ≤ next. Only `durable` is ever committed, and it moves only when all batches of a round
are acknowledged. So a crash, a rebalance or a failed batch repeats records but never skips one.

* A round is what one poll returned. Rounds are settled in order; a failed one discards itself and all after it, replaces the sink,
  and rewinds the source to `durable`.
* The group's background task calls `revoked` and `assigned`. `revoked` waits for the round under way, commits, and raises the
  generation, so that whatever an older generation still holds is dropped.
* A record that cannot be translated or written ends the loop after everything before it is delivered and committed.
* What a record needs from a claim-check storage is fetched, and what it leaves there is stored, before the next one is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TypeVar

from relay.errors import BrokerUnavailable, DeliveryFailed, RelayError
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.logs import Log
from relay.service.objects import Objects, Translates
from relay.service.state import Counts, Owned, RecordRefused, Round, Timing, record_too_large
from relay.service.transport import OwnershipLost, Partition, PollFailed, Sink, Source, Undelivered

#: Longest stretch of translating before heartbeats and acknowledgements get their turn.
YIELD_SECONDS = 0.010
#: Records between two looks at the clock.
LOOK_EVERY = 16
BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
#: Failed deliveries in a row of a kind that waiting does not cure.
GIVE_UP_DELIVERIES = 3
GIVE_UP_POLLS = 20

T = TypeVar("T")


class Relay:
    """One run of the loop. `request_stop` ends it; `run` raises what ended it otherwise."""

    def __init__(
        self,
        source: Source,
        make_sink: Callable[[], Sink],
        translator: Translates,
        log: Log,
        timing: Timing | None = None,
        objects: Objects | None = None,
    ) -> None:
        self._source, self._make_sink, self._translator, self._log = source, make_sink, translator, log
        self._objects = objects or Objects(log)
        self._timing = timing or Timing()
        self._sink: Sink = make_sink()
        self._stop = asyncio.Event()
        # Held while records are translated, settled or committed; not while polling.
        self._busy = asyncio.Lock()
        self._revoking = False
        self._generation = 0
        self._opening: Sequence[Partition] = ()
        self._owned: dict[Partition, Owned] = {}
        self._rounds: deque[Round] = deque()
        self._next_commit = 0.0
        self._drain_until: float | None = None
        self._failed_deliveries = 0
        self._failed_polls = 0
        self._catalog_noted = False
        self.counts = Counts()

    def request_stop(self) -> None:
        """Finish what is under way, commit and end."""
        self._stop.set()

    async def run(self) -> None:
        """Relay until asked to stop. Raises RecordRefused, a ServiceError, or whatever a defect raised."""
        try:
            await self._unless_stopped(self._start())
            await self._turn_until_stopped()
            await self._drain()
        except RelayError:
            # What is acknowledged may as well be committed: the fewer records are translated again.
            with contextlib.suppress(RelayError):
                await self._drain()
            raise
        finally:
            await self._source.stop()
            await self._sink.stop()

    async def _start(self) -> None:
        try:
            await self._sink.start()
        except Undelivered as error:
            raise BrokerUnavailable(f"{error}; check the addresses and that the brokers are up") from error
        await self._source.start(self)

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
        self._log.info("partitions.assigned", partitions=[str(partition) for partition in partitions])

    def _forget(self) -> None:
        self._generation += 1
        self._opening = ()
        self._owned.clear()

    # The loop's own task.

    async def _turn(self) -> None:
        await self._open()
        generation = self._generation
        polled = await self._poll()
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

    async def _open(self) -> None:
        if not self._opening:
            return
        opening, generation = self._opening, self._generation
        try:
            positions = await self._unless_stopped(self._source.open(opening))
        except OwnershipLost:
            return
        except PollFailed as error:
            await self._poll_failed(error)
            return
        if positions is None or generation != self._generation:
            return
        self._opening = ()
        for partition, position in positions.items():
            # Without a committed offset the start itself is committed soon: "latest" must not move on after a crash.
            committed = position.offset if position.committed else None
            self._owned[partition] = Owned(next=position.offset, durable=position.offset, committed=committed)
        self._log.info("partitions.opened", offsets={str(partition): position.offset for partition, position in positions.items()})
        if not self._catalog_noted and any(position.committed and position.offset > 0 for position in positions.values()):
            self._catalog_noted = True
            message = "going on at committed offsets: until its next DDL a table is known only as far as its rows describe it"
            self._log.info("catalog.empty", message=message)

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
        if self._failed_polls >= GIVE_UP_POLLS:
            raise BrokerUnavailable(f"reading failed {self._failed_polls} times in a row: {error}") from error
        self._source.seek({partition: owned.next for partition, owned in self._owned.items()})
        await self._back_off(self._failed_polls)

    async def _back_off(self, failures: int) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1])

    async def _process(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Make a round of what was polled. The last round may stay under way while the next poll travels."""
        current = Round(self._generation, pause_at=time.monotonic() + YIELD_SECONDS)
        for partition, records in polled.items():
            owned = self._owned.get(partition)
            if owned is not None and current.refused is None:
                await self._translate(records, partition, owned, current)
        for key in list(current.batches):
            await self._send(key, current)
        self._rounds.append(current)
        await self._settle(keep=0 if current.refused else self._timing.rounds - 1)
        if current.refused and current.generation == self._generation:
            await self._commit()
            raise current.refused

    async def _translate(self, records: Sequence[ConsumerRecord], partition: Partition, owned: Owned, current: Round) -> None:
        """Translate until the end, a refused record, or a rebalance. All that is done for every single record is in here."""
        translate, too_large, batches = self._translator.translate, self._sink.too_large, current.batches
        objects, is_over = self._objects, lambda: self._stop.is_set() or self._is_overtaken(current)
        done = 0
        for record in records:
            try:
                produced = translate(record)
            except Exception as error:
                answered = await self._awaited(objects.answer(error, self._translator, record, is_over), record, current)
                if answered is None:
                    break
                produced = answered
            oversize = too_large(produced)
            if oversize:
                current.refused = RecordRefused(record, record_too_large(record, oversize))
                break
            if objects.writes and not await self._awaited(objects.store(produced, is_over), record, current):
                break
            for out in produced:
                batch = batches.get((out.topic, out.partition))
                if batch is None or not batch.append(out):
                    await self._begin_batch(out, current)
            done += 1
            self.counts.written += len(produced)
            if done % LOOK_EVERY == 0 and time.monotonic() >= current.pause_at and await self._overtaken(current):
                break
        self.counts.read += done
        if done:
            owned.next = current.reached[partition] = records[done - 1].offset + 1

    async def _awaited(self, work: Coroutine[object, object, T], record: ConsumerRecord, current: Round) -> T | None:
        """Wait for a storage. None ends the round before this record: it is refused, or a stop or a rebalance came."""
        try:
            return await work
        except Exception as error:
            # Whatever it is: what came before is delivered first.
            current.refused = RecordRefused(record, error)
            return None

    def _is_overtaken(self, current: Round) -> bool:
        return self._revoking or current.generation != self._generation

    async def _overtaken(self, current: Round) -> bool:
        """Let others have their turn; True if a rebalance began, and there is no point in going on."""
        await asyncio.sleep(0)
        current.pause_at = time.monotonic() + YIELD_SECONDS
        return self._is_overtaken(current)

    async def _begin_batch(self, out: ProducerRecord, current: Round) -> None:
        key = out.topic, out.partition
        if key in current.batches:
            await self._send(key, current)
        current.batches[key] = self._sink.batch()
        current.batches[key].append(out)

    async def _send(self, key: tuple[str, int], current: Round) -> None:
        batch = current.batches.pop(key)
        current.pending.append(await self._sink.send(Partition(*key), batch))

    async def _settle(self, keep: int) -> None:
        """Wait until all but the last `keep` rounds are acknowledged, oldest first; only then their offsets are durable."""
        while len(self._rounds) > keep:
            oldest = self._rounds[0]
            await self._sink.delivered(oldest.pending)
            self._rounds.popleft()
            self._failed_deliveries = 0
            if oldest.generation == self._generation:
                for partition, offset in oldest.reached.items():
                    self._owned[partition].durable = offset

    async def _commit(self) -> bool:
        """Commit what is durable, and nothing else; False if it is not certain that this succeeded."""
        self._next_commit = time.monotonic() + self._timing.commit_interval
        offsets = {partition: owned.durable for partition, owned in self._owned.items() if owned.durable != owned.committed}
        if not offsets:
            return True
        generation = self._generation
        try:
            await self._source.commit(offsets)
        except OwnershipLost as error:
            # Normal after a rebalance that we missed. What is uncommitted belongs to the next owner; `assigned` comes again.
            self._log.warning("partitions.lost", reason=str(error))
            self._forget()
            if self._rounds:
                raise Undelivered("the partitions were lost with batches on their way", retriable=True) from error
            return False
        except TimeoutError:
            self._log.warning("commit.unanswered")
            return False
        if generation == self._generation:
            for partition, offset in offsets.items():
                self._owned[partition].committed = offset
        return True

    async def _recover(self, error: Undelivered) -> None:
        """Throw the sink away and read again from what is durable: after one failure a sink may refuse everything."""
        if not error.retriable:
            self._failed_deliveries += 1
        self._log.warning("delivery.failed", reason=str(error), retriable=error.retriable)
        if self._failed_deliveries >= GIVE_UP_DELIVERIES:
            self._rounds.clear()
            raise DeliveryFailed(f"writing failed {self._failed_deliveries} times in a row: {error}") from error
        await self._sink.abandon()
        self._rounds.clear()
        for owned in self._owned.values():
            owned.next = owned.durable
        self._source.seek({partition: owned.durable for partition, owned in self._owned.items()})
        attempts = 1
        await self._back_off(attempts)
        while not await self._replaced() and not self._stop.is_set():
            attempts += 1
            await self._back_off(attempts)

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
        self._log.info("sink.replaced")
        return True

    async def _rotate(self) -> None:
        """Change to a new sink at a moment when nothing is under way."""
        await self._settle(keep=0)
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
