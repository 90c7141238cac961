"""The relay loop: poll → translate → send → await every acknowledgement → commit. In order within a
partition, nothing left out.

Only offsets are committed below which the target has acknowledged everything (`relay.service.loop.ledger`).
So a crash, a rebalance or a failed batch repeats records but never skips one; with a transactional sink the
first ones belong to a transaction that was aborted.

* A round is what one poll returned. Rounds are settled in order; a failed one discards itself and all after
  it, replaces the sink, and rewinds: the source to `acknowledged` (in transactions, to what the brokers say
  is committed), the translator to what it remembered then.
* The group's background task calls `revoked` and `assigned`. `revoked` waits for the round under way,
  commits, and raises the generation, so that whatever an older generation still holds is dropped.
* A record whose error policy is `stop` ends the loop after everything before it is delivered and committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from relay.errors import BrokerUnavailable, DeliveryFailed, InstanceFenced, RelayError, ServiceError
from relay.kafka.ports import (
    OwnershipLost,
    Partition,
    PollFailed,
    RecordSource,
    Sink,
    Undelivered,
    start_sink,
)
from relay.logs import Log
from relay.records import ConsumerRecord
from relay.service.loop.history import Schemas
from relay.service.loop.intake import YIELD_SECONDS, Intake
from relay.service.loop.ledger import Ledger
from relay.service.loop.rounds import Round, Timing, unacknowledged
from relay.service.loop.silence import SILENT_SECONDS, Silence
from relay.service.loop.stopping import Stop
from relay.service.observe.board import Board

BACKOFF_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
#: Failed deliveries in a row of a kind that waiting does not cure.
GIVE_UP_DELIVERIES = 3
#: Failed polls in a row, after which the brokers are asked whether they are there at all.
GIVE_UP_POLLS = 20
#: After so long a round ends before the poll does: a transaction must not outlive its time, however slow a
#: storage is.
ROUND_SECONDS = 10.0


class Relay:
    """One run of the loop. `request_stop` ends it; `run` raises what ended it otherwise."""

    def __init__(  # noqa: PLR0913 - what a loop consists of
        self,
        make_source: Callable[[], RecordSource],
        make_sink: Callable[[], Sink],
        intake: Intake,
        log: Log,
        board: Board,
        schemas: Schemas,
        *,
        check_topics: Callable[[], Awaitable[object]],
        timing: Timing | None = None,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._make_source, self._make_sink = make_source, make_sink
        self._intake, self._translator = intake, intake.translator
        self._log, self._board, self._schemas, self._check_topics = log, board, schemas, check_topics
        self._timing = timing or Timing()
        self._ledger = Ledger(make_source(), make_sink(), intake.translator, log, board)
        self.counts = self._ledger.counts
        self._stop = Stop()
        # Held while records are translated, settled or committed; not while polling.
        self._busy = asyncio.Lock()
        self._revoking = False
        self._is_abandoned = self._is_drained = self._has_opened = False
        self._opening: Sequence[Partition] = ()
        self._next_commit = 0.0
        self._drain_until: float | None = None
        self._failed_polls = 0
        self._silence = Silence(silent_seconds)

    def request_stop(self) -> None:
        """Finish what is under way, commit and end."""
        self._stop.set()

    async def run(self) -> None:
        """Relay until asked to stop. Raises RecordRefused, a ServiceError, or whatever a defect raised."""
        try:
            await self._stop.unless_asked(self._start())
            await self._turn_until_stopped()
            await self._drain()
        except InstanceFenced:
            # What is under way is the other instance's by now.
            raise
        except RelayError:
            self._board.entered("draining")
            # What is acknowledged may as well be committed: the fewer records are translated again.
            with contextlib.suppress(RelayError):
                await self._drain()
            raise
        finally:
            # At once: where brokers are silent, each of them takes its full time.
            source, sink = self._ledger.source, self._ledger.sink
            await asyncio.gather(
                source.stop(), sink.stop() if self._is_drained else sink.abandon(), self._schemas.stop()
            )
            self._board.entered("stopped")

    async def _start(self) -> None:
        # First of all: a transactional sink ends what an earlier instance has left open, so that offsets read
        # later are right.
        await start_sink(self._ledger.sink)
        self._board.check("target", ok=True)
        await self._ledger.source.start(self)
        self._board.check("source", ok=True)

    async def _turn_until_stopped(self) -> None:
        turns, stop = asyncio.ensure_future(self._turns()), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({turns, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._board.entered("draining")
            # The turn under way may wait for acknowledgements much longer than a stop may take.
            self._drain_until = time.monotonic() + self._timing.drain
            _, late = await asyncio.wait({turns}, timeout=self._timing.drain)
            if late:
                raise unacknowledged(f"no answer within {self._timing.drain:g} s")
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
                await self._ledger.settle()
                await self._commit()
        except (TimeoutError, Undelivered, RelayError) as error:
            # The next owner repeats what was not committed. A failed round stays queued: the loop meets its
            # failure again.
            self._log.warning("partitions.revoked-unfinished", reason=str(error) or type(error).__name__)
            # What is still on its way must not arrive behind what the next owner writes.
            await self._ledger.sink.abandon()
            self._is_abandoned = True
        finally:
            self._log.info(
                "partitions.revoked", partitions=[str(partition) for partition in self._ledger.owned]
            )
            self._board.check("member", ok=False, detail="the group is handing out its partitions anew")
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
        self._opening = ()
        self._ledger.disown()

    # The loop's own task.

    async def _turn(self) -> None:
        self._board.beat()
        if self._is_abandoned:
            # Before anything is opened: only a new sink tells whether the last transaction of the old one
            # counts.
            async with self._busy:
                await self._recover(
                    Undelivered("the partitions were taken away with batches on their way", retriable=True)
                )
        await self._open()
        if self._opening or self._stop.is_set():
            await self._back_off(1)
            return
        # Only now: before, the tables are not known, or other instances have not handed over yet.
        self._board.entered("running")
        generation = self._ledger.generation
        polled = await self._poll()
        if self._stop.is_set():
            # It may have cut short what the records had to wait for; the next start reads them again.
            return
        async with self._busy:
            try:
                is_ours = generation == self._ledger.generation and not self._revoking
                gaps = self._ledger.gaps(polled) if is_ours else {}
                if is_ours and (polled or gaps):
                    await self._process(polled, gaps)
                else:
                    await self._ledger.settle()
                if time.monotonic() >= self._next_commit:
                    await self._commit()
                    self._ledger.tell_positions()
                if self._ledger.sink.needs_rotation:
                    await self._rotate()
            except Undelivered as error:
                await self._recover(error)
        await self._listen(heard=bool(polled))

    async def _open(self) -> None:
        if not self._opening:
            return
        opening, generation = self._opening, self._ledger.generation
        try:
            # What other members have learnt, or we ourselves before a restart, must be known before the first
            # row.
            await self._stop.unless_asked(self._schemas.load())
            positions = await self._stop.unless_asked(
                self._ledger.source.open(opening, self._ledger.expected_offsets)
            )
            await self._stop.unless_asked(self._schemas.begin(self._ledger.source, positions or {}))
        except OwnershipLost:
            return
        except (PollFailed, BrokerUnavailable) as error:
            # At the first start somebody is there to be told; a relay at work waits for its brokers.
            if isinstance(error, BrokerUnavailable):
                if not self._has_opened:
                    raise
                await self._stop.unless_asked(self._look_at_topics())
            await self._poll_failed(error)
            return
        if positions is None or generation != self._ledger.generation:
            return
        self._opening, self._has_opened = (), True
        self._ledger.own(positions)
        self._log.info(
            "partitions.opened",
            offsets={str(partition): position.offset for partition, position in positions.items()},
        )
        self._ledger.check_watermarks()

    async def _poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        try:
            polled = await self._stop.unless_asked(self._ledger.source.poll()) or {}
            await self._stop.unless_asked(self._schemas.ready(polled))
        except PollFailed as error:
            # New partitions have no position before they are opened, and with them all others are opened
            # anew.
            if not self._opening:
                await self._poll_failed(error)
            return {}
        if polled or self._failed_polls:
            self._failed_polls = 0
            self._board.works("source")
        return polled

    async def _poll_failed(self, error: Exception) -> None:
        """Read every partition again from where we are: records may have been lost with the exception."""
        self._failed_polls += 1
        self._log.warning("poll.failed", reason=str(error), failures=self._failed_polls)
        self._board.failed("poll", BrokerUnavailable.code, "", str(error))
        self._board.check("source", ok=False, detail=str(error))
        # An outage is waited for, however long; what goes on while the brokers answer needs somebody.
        is_odd = isinstance(error, PollFailed) and self._failed_polls >= GIVE_UP_POLLS
        if is_odd and await self._stop.unless_asked(self._ledger.source.waiting()) is not None:
            raise BrokerUnavailable(f"reading failed {self._failed_polls} times in a row: {error}") from error
        self._ledger.source.seek({partition: owned.next for partition, owned in self._ledger.owned.items()})
        await self._back_off(self._failed_polls)

    async def _back_off(self, failures: int) -> None:
        self._board.beat()
        await self._stop.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1])

    async def _listen(self, *, heard: bool) -> None:
        """Replace a source that stays silent although there are records: aiokafka may go deaf when brokers
        come and go.
        """
        if not self._silence.is_long(heard=heard or not self._ledger.owned or bool(self._opening)):
            return
        records_wait = await self._stop.unless_asked(self._ledger.source.waiting())
        if self._stop.is_set():
            return
        if records_wait is None:
            self._unreachable("no broker answers")
        else:
            self._board.check("source", ok=True)
        if not self._silence.is_deaf(records_wait=bool(records_wait)):
            return
        self._log.warning("source.silent", message="records wait, and none came: the consumer is replaced")
        async with self._busy:
            try:
                await self._commit()
            except Undelivered as error:
                await self._recover(error)
            self._forget()
        for attempts in itertools.count(1):
            if await self._has_new_source() or self._stop.is_set():
                return
            await self._back_off(attempts)

    async def _has_new_source(self) -> bool:
        """Start a new source."""
        await self._ledger.source.stop()
        self._ledger.source = self._make_source()
        self.counts.sources += 1
        try:
            await self._stop.unless_asked(self._ledger.source.start(self))
        except BrokerUnavailable as error:
            self._unreachable(str(error))
            return False
        return True

    def _unreachable(self, why: str) -> None:
        self._log.warning("source.unreachable", message=f"{why}; relay waits")
        self._board.failed("poll", BrokerUnavailable.code, "", why)
        self._board.check("source", ok=False, detail=why)

    async def _process(
        self, polled: Mapping[Partition, Sequence[ConsumerRecord]], gaps: Mapping[Partition, int]
    ) -> None:
        """Make a round of what was polled or passed over. It may stay under way while the next poll travels."""
        began = time.monotonic()
        current = self._ledger.begin()
        current.pause_at, current.ends_at = began + YIELD_SECONDS, began + ROUND_SECONDS
        builder = self._intake.builder(current, self._ledger.sink, lambda: self._is_over(current))
        for partition, records in self._ledger.in_turn(polled):
            owned = self._ledger.owned.get(partition)
            if owned is not None and current.refused is None:
                done = 0
                if not (current.reached and current.is_late):
                    done = await builder.take(records, owned)
                self._ledger.took(partition, records, done)
        for partition in gaps.keys() & self._ledger.owned.keys():
            self._ledger.owned[partition].next = current.reached[partition] = gaps[partition]
        await builder.send_rest()
        current.sent_at = time.monotonic()
        self._board.took("translate", current.sent_at - began)
        self._board.batch(sum(map(len, polled.values())))
        self._ledger.rounds.append(current)
        await self._ledger.settle(keep=0 if current.refused else self._timing.rounds - 1)
        if current.refused and current.generation == self._ledger.generation:
            await self._commit()
            raise current.refused

    def _is_over(self, current: Round) -> bool:
        return self._stop.is_set() or self._revoking or current.generation != self._ledger.generation

    async def _commit(self) -> bool:
        timing, transactional = self._timing, self._ledger.sink.is_transactional
        self._next_commit = time.monotonic() + (
            timing.transaction_interval if transactional else timing.commit_interval
        )
        return await self._ledger.commit()

    async def _recover(self, error: Undelivered) -> None:
        """Throw the sink away and read again from what is safe: after one failure a sink may refuse
        everything.
        """
        if not error.retriable:
            self._ledger.failed_deliveries += 1
        self._log.warning("delivery.failed", reason=str(error), retriable=error.retriable)
        self._board.failed("produce", DeliveryFailed.code, "", str(error))
        self._board.check("target", ok=False, detail=str(error))
        if self._ledger.failed_deliveries >= GIVE_UP_DELIVERIES:
            self._ledger.rounds.clear()
            raise DeliveryFailed(
                f"writing failed {self._ledger.failed_deliveries} times in a row: {error}"
            ) from error
        await self._ledger.sink.abandon()
        self._is_abandoned = False
        self._opening = self._ledger.rewind() or self._opening
        # What was learnt out of turn since then is learnt again.
        self._schemas.rewound({partition: owned.next for partition, owned in self._ledger.owned.items()})
        self._ledger.recoveries += 1
        if self._ledger.recoveries > 1:
            await self._stop.unless_asked(self._look_at_topics())
        for attempts in itertools.count(1):
            await self._back_off(attempts)
            if await self._replaced() or self._stop.is_set():
                return

    async def _look_at_topics(self) -> None:
        """Tell if a topic is to blame, and make those of our own that are gone: the client itself only says
        that time is up.
        """
        try:
            await self._check_topics()
        except ServiceError as error:
            self._log.warning("topics.unusable", reason=str(error))
            self._board.check("topics", ok=False, detail=str(error))
        else:
            self._board.check("topics", ok=True)

    async def _replaced(self) -> bool:
        """Start a new sink."""
        self._ledger.sink = self._make_sink()
        try:
            await self._ledger.sink.start()
        except Undelivered as error:
            self._log.warning("sink.unavailable", reason=str(error))
            self._board.failed("produce", BrokerUnavailable.code, "", str(error))
            self._board.check("target", ok=False, detail=str(error))
            await self._ledger.sink.abandon()
            return False
        self._ledger.replaced()
        self.counts.sinks += 1
        self._board.check("target", ok=True)
        self._log.info("sink.replaced")
        return True

    async def _rotate(self) -> None:
        """Change to a new sink at a moment when nothing is under way."""
        await self._ledger.settle()
        await self._commit()
        await self._ledger.sink.stop()
        if not await self._replaced():
            raise Undelivered("the new sink did not start", retriable=True)

    async def _drain(self) -> None:
        """Wait for what is under way and commit it. Raises DeliveryFailed if that is not certain."""
        try:
            left = max(0.0, self._drain_until - time.monotonic()) if self._drain_until else self._timing.drain
            async with asyncio.timeout(left), self._busy:
                await self._ledger.settle()
                committed, behind = await self._commit(), await self._ledger.behind(self._opening)
        except (TimeoutError, Undelivered, PollFailed, BrokerUnavailable) as error:
            why = str(error) or f"no answer within {self._timing.drain:g} s"
            raise unacknowledged(why) from error
        if not committed:
            raise DeliveryFailed(
                "stopped with offsets that could not be committed; the next start repeats some records"
            )
        if behind:
            raise DeliveryFailed(
                f"stopped when records of {behind[0]} could not be written; the next start repeats them"
            )
        self._is_drained = True
