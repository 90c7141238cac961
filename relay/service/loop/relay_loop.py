"""The relay loop: poll → translate → send → await every acknowledgement → commit.

It keeps the order within a partition and skips no record. An offset is committed only once the target has
acknowledged all below it (`relay.service.loop.offset_tracker`). So a crash, a rebalance or a failed batch
repeats records but never skips one; with a transactional sink the first copies belong to a transaction that
was aborted.

* A round holds the records of one poll, or of several in a row, except those that must wait for others, and
  earlier records whose wait is over (`relay.service.loop.ddl_order`). Rounds are settled in order. A failed
  round is dropped together with all that follow it, the sink is replaced, and everything goes back to safe
  offsets: the source to `acknowledged` (in transactions, to the offsets committed at the brokers), the
  translator to its state at that offset (`relay.service.loop.recovery`).
* The group's background task calls `revoked` and `assigned`. `revoked` waits for the round in flight,
  commits, and increments the generation, so that rounds of an older generation are dropped.
* A record whose error policy is `stop` ends the loop after everything before it is delivered and committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Final

from relay.io.kafka.ports import (
    OwnershipLost,
    Partition,
    PollFailed,
    RecordSource,
    Sink,
    StartPosition,
    Undelivered,
    start_sink,
)
from relay.io.kafka.record_chunks import joined
from relay.io.logs import Log
from relay.model.errors import BrokerUnavailable, DeliveryFailed, InstanceFenced, RelayError
from relay.model.records import ConsumerRecord, size_of
from relay.service.check.reasons import Side
from relay.service.loop.health_checks import COMMIT, TARGET
from relay.service.loop.history import Schemas
from relay.service.loop.offset_tracker import Connections, InFlightBatch, OffsetTracker
from relay.service.loop.recovery import Recovery
from relay.service.loop.round_spans import RoundSpan, RoundTracer
from relay.service.loop.settings import DEFAULT_SETTINGS, LoopSettings
from relay.service.loop.stopping import Stop
from relay.service.loop.translation_stage import YIELD_SECONDS, TranslationStage
from relay.service.observe.status import LONGEST_TEXT, Status
from relay.service.rate_limit import RateLimiter

#: The polling time of a round that may take more than one poll.
GATHER_SECONDS: Final = 1.0
#: Maximum interval between reports of positions to the status: an outdated end counts as unknown.
REPORT_SECONDS: Final = 1.0


_INFERRED: Final = (
    "translated rows without the table's schema; column types were inferred from the messages; import the "
    "definition with `relay schema-history import`, or have rows wait for DDL that is still to be read "
    "(`wait_for_ddl` in [schema])"
)
_UNWRITTEN: Final = (
    "this statement was not written to the target, so its readers keep the rows that the source removed; "
    "remove them there, too"
)


_MISSING: Final = (
    "The group or the progress topic may have been deleted, or the offsets may have expired. Reading begins "
    "at `start` in [source], and records that were written before may be written again"
)


_INFERRED_KEYS: Final = (
    "; the keys of its rows are also written with these types, and may change once the schema is known: "
    "readers that keep the newest row of each key would then keep both"
)


class Relay:
    """One run of the loop. `request_stop` ends it; `run` raises any other cause of its end."""

    def __init__(  # noqa: PLR0913 - the parts of the loop
        self,
        make_source: Callable[[], RecordSource],
        make_sink: Callable[[], Sink],
        stage: TranslationStage,
        log: Log,
        status: Status,
        schemas: Schemas,
        *,
        check_topics: Callable[[], Awaitable[object]],
        follow_topics: Callable[[], Coroutine[object, object, object]] | None = None,
        find_reason: Callable[[Side], Coroutine[object, object, str]],
        find_earlier_output: Callable[[], Coroutine[object, object, str]],
        settings: LoopSettings = DEFAULT_SETTINGS,
        tracer: RoundTracer | None = None,
    ) -> None:
        self._stage, self._schemas, self._log, self._status = stage, schemas, log, status
        self._settings = settings
        self._stop, self._find_earlier_output = Stop(), find_earlier_output
        self._connections = Connections(make_source, make_sink)
        self._tracker = OffsetTracker(self._connections, stage.translator, log, status, settings, tracer)
        self._recovery = Recovery(
            self._connections,
            self._tracker,
            schemas,
            self._stop,
            log,
            status,
            check_topics=check_topics,
            find_reason=find_reason,
            settings=settings,
        )
        #: The checks of the brokers.
        self.checks = self._recovery.checks
        self.counts = self._tracker.counts
        # Held while records are translated, settled or committed; not while polling.
        self._busy = asyncio.Lock()
        self._is_revoking = self._is_drained = self._has_opened = False
        self._next_commit = self._next_report = 0.0
        self._drain_until: float | None = None
        # Tasks beside the loop: the checks, and the source topics that a pattern chooses.
        self._follow_topics = follow_topics
        self._beside: list[asyncio.Task[object]] = []
        self._inferred_reported = self._unwritten_reported = 0
        limits = settings.rate_limits
        self._limiter = RateLimiter(limits, time.monotonic()) if limits else None
        # Whether the last poll had to wait for the rate limits.
        self._is_rate_limited = False
        # The ratio of bytes written to bytes read in the last round.
        self._growth = settings.first_growth

    def request_stop(self) -> None:
        """Finish the rounds in flight, commit and end."""
        self._stop.set()

    async def run(self) -> None:
        """Relay until asked to stop. Raises RecordRefused, a ServiceError, or the exception of a bug."""
        self._beside = [asyncio.create_task(self.checks.watch())]
        if self._follow_topics is not None:
            self._beside.append(asyncio.create_task(self._follow_topics()))
        try:
            await self._stop.unless_stopped(self._start())
            await self._turn_until_stopped()
            await self._drain()
            self.checks.look()
        except InstanceFenced:
            # The records in flight belong to the other instance by now.
            raise
        except RelayError:
            self._status.enter_phase("draining")
            # Commit the acknowledged offsets: fewer records are translated again.
            with contextlib.suppress(RelayError):
                await self._drain()
            raise
        finally:
            for task in self._beside:
                task.cancel()
            # All at once: if brokers do not answer, each of them takes its full time.
            source, sink = self._connections.source, self._connections.sink
            await asyncio.gather(
                source.stop(), sink.stop() if self._is_drained else sink.abandon(), self._schemas.stop()
            )
            self._status.enter_phase("stopped")

    async def _start(self) -> None:
        # First of all: a transactional sink ends an open transaction of an earlier instance, so that offsets
        # read later are right.
        await start_sink(self._connections.sink)
        self._status.set_check("target", ok=True)
        await self._connections.source.start(self)
        self._status.set_check("source", ok=True)
        self._status.set_check("source-topics", ok=True)
        self._status.set_check("offline-partitions", ok=True)

    async def _turn_until_stopped(self) -> None:
        turns, stop = asyncio.ensure_future(self._turns()), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({turns, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._status.enter_phase("draining")
            # The turn in progress may wait for acknowledgements much longer than a stop may take.
            self._drain_until = time.monotonic() + self._settings.drain_seconds
            _, late = await asyncio.wait({turns}, timeout=self._settings.drain_seconds)
            if late:
                raise _unacknowledged(f"no answer within {self._settings.drain_seconds:g} s")
            turns.result()
        finally:
            stop.cancel()
            turns.cancel()
            await asyncio.wait({turns})

    async def _turns(self) -> None:
        while not self._stop.is_set():
            for task in self._beside:
                if task.done():
                    # Raises the exception of a bug: without the task, checks would be wrong.
                    task.result()
            await self._turn()

    # Called by the group's background task.

    async def revoked(self) -> None:
        """Finish the round in flight and commit, while the group waits; then release all partitions."""
        self._is_revoking = True
        try:
            async with asyncio.timeout(self._settings.revoke_seconds), self._busy:
                await self._tracker.settle()
                await self._commit()
        except (TimeoutError, Undelivered, RelayError) as error:
            # The next owner repeats uncommitted records. A failed round stays queued: the loop meets its
            # failure again.
            self._log.warning("partitions.revoked-unfinished", reason=str(error) or type(error).__name__)
            # Records in flight must not arrive after those that the next owner writes.
            await self._recovery.abandon_sink()
        finally:
            self._log.info(
                "partitions.revoked", partitions=[str(partition) for partition in self._tracker.owned]
            )
            self._status.set_check("member", ok=False, detail="the consumer group is rebalancing")
            self._tracker.forget()
            self._is_revoking = False

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Remember the assigned partitions; the loop opens them at its next turn."""
        self._tracker.assign(partitions)
        self._status.set_check("member", ok=True)
        self._log.info("partitions.assigned", partitions=[str(partition) for partition in partitions])

    # The loop's own task.

    async def _turn(self) -> None:
        self._status.heartbeat()
        if self._recovery.is_sink_abandoned:
            # Before anything is opened: only a new sink shows whether the old one's last transaction counts.
            async with self._busy:
                await self._recovery.after_failed_delivery(
                    Undelivered("the partitions were revoked while batches were in flight", retriable=True)
                )
        await self._open()
        if self._tracker.unopened or self._stop.is_set():
            await self._recovery.back_off(1)
            return
        # Only now: before, the tables are not known, or other instances have not handed over yet.
        self._status.enter_phase("running")
        generation = self._tracker.generation
        polled = await self._poll()
        if self._stop.is_set():
            # The stop may have cut short the wait of these records; the next start reads them again.
            return
        heard = bool(polled)
        async with self._busy:
            try:
                heard = await self._advance(polled, generation)
            except Undelivered as error:
                await self._recovery.after_failed_delivery(error)
        await self._replace_stalled_source(heard=heard or self._is_rate_limited)

    async def _open(self) -> None:
        """Open newly assigned partitions."""
        opening, generation = self._tracker.unopened, self._tracker.generation
        if not opening:
            return
        source = self._connections.source
        try:
            # DDL that other members have learned, or this instance before a restart, must be known before any
            # row.
            await self._stop.unless_stopped(self._schemas.load())
            positions = await self._stop.unless_stopped(source.open(opening, self._tracker.expected_offsets))
            await self._stop.unless_stopped(self._schemas.begin(source, positions or {}))
        except OwnershipLost:
            return
        except PollFailed as error:
            await self._recovery.after_failed_poll(error)
        except BrokerUnavailable as error:
            # At the first start a user sees the error; a running relay waits for its brokers.
            if not self._has_opened:
                raise
            await self._stop.unless_stopped(self._recovery.check_topics())
            # The schema history and the progress topic are at the target's brokers.
            await self._recovery.after_failed_poll(error, TARGET)
        else:
            if positions is not None and generation == self._tracker.generation:
                if not self._has_opened:
                    await self._warn_of_missing_offsets(positions)
                self._has_opened = True
                self._tracker.own(positions)

    async def _warn_of_missing_offsets(self, positions: Mapping[Partition, StartPosition]) -> None:
        """Warn if no offset is committed although the route has run before: everything would be repeated."""
        if not positions or any(position.committed for position in positions.values()):
            return
        earlier = self._schemas.earlier_output
        earlier = earlier or await self._stop.unless_stopped(self._find_earlier_output()) or ""
        if earlier:
            self._log.warning("offsets.missing", message=f"{earlier}, and no offset is committed. {_MISSING}")

    async def _poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        if self._tracker.is_safe:
            self._schemas.settled(self._tracker.positions)
        try:
            held = self._tracker.held
            polled = await self._stop.unless_stopped(self._gather(self._leave_out(held))) or {}
            await self._stop.unless_stopped(self._ready(held, polled))
        except PollFailed as error:
            # New partitions have no position until they are opened, and all others are opened again with
            # them.
            if not self._tracker.unopened:
                await self._recovery.after_failed_poll(error)
            return {}
        self._recovery.after_poll()
        return polled

    def _leave_out(self, held: Mapping[Partition, Sequence[ConsumerRecord]]) -> Collection[Partition]:
        """Return the partitions that are not polled.

        These are the partitions with waiting records and, where these are many, also all whose records might
        have to wait. Nothing is fetched of the latter: that would delay the DDL.
        """
        source, may_wait = self._connections.source, self._schemas.ddl_order.may_wait
        if _bytes_of(held) < self._settings.held_bytes:
            source.pause(())
            return held
        waiting = [each for each in self._tracker.owned if may_wait(each)]
        source.pause(waiting)
        return waiting

    async def _gather(self, without: Collection[Partition]) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Poll and, while much waits, poll again. Raises PollFailed."""
        source = self._connections.source
        if self._limiter is not None:
            return await self._poll_within_limits(self._limiter, without)
        # The translated records are in memory, too, until the round is sent.
        most = int(self._settings.gather_bytes / self._growth)
        polled = await source.poll(without)
        if not most:
            return polled
        size = its_size = _bytes_of(polled)
        gathered = dict(polled)
        until = time.monotonic() + GATHER_SECONDS
        much = self._settings.gather_poll_bytes
        while its_size >= much and size < most and time.monotonic() < until:
            polled = await source.poll(without)
            its_size = _bytes_of(polled)
            size += its_size
            for partition, records in polled.items():
                before = gathered.get(partition)
                gathered[partition] = records if before is None else joined(before, records)
        return gathered

    async def _poll_within_limits(
        self, limiter: RateLimiter, without: Collection[Partition]
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Poll what the rate limits allow. If that is nothing, let a moment pass, still as a member."""
        source, began = self._connections.source, time.monotonic()
        self._is_rate_limited = bool(self._tracker.owned) and limiter.wait_seconds(began) > 0
        if not self._is_rate_limited:
            if self._stage.joins is not None:
                # A part of a window would be polled again, or joined alone.
                return await source.poll(without)
            return await source.poll_some(limiter.most_records(began), without)
        polled = await source.poll(self._tracker.owned)
        self._status.rate_limited(time.monotonic() - began)
        return polled

    async def _ready(
        self,
        held: Mapping[Partition, Sequence[ConsumerRecord]],
        polled: Mapping[Partition, Sequence[ConsumerRecord]],
    ) -> None:
        """Learn the DDL that the records of this turn need; find the partitions that some must wait for."""
        await self._schemas.ready(polled)
        await self._schemas.ddl_order.look(self._connections.source, {**held, **polled}, held)

    async def _advance(self, polled: Mapping[Partition, Sequence[ConsumerRecord]], generation: int) -> bool:
        """Process polled records; commit and replace the sink when due.

        Returns whether the source advanced: past records, or past offsets without records.
        """
        heard = bool(polled)
        is_ours = generation == self._tracker.generation and not self._is_revoking
        polled = {**self._tracker.held, **polled}
        gaps = self._tracker.gaps(polled) if is_ours else {}
        if is_ours and (polled or gaps):
            await self._process(polled, gaps)
        else:
            await self._tracker.settle()
        if time.monotonic() >= self._next_commit:
            await self._commit()
        self._report()
        if self._connections.sink.needs_rotation:
            await self._rotate()
        return heard or bool(gaps)

    def _report(self) -> None:
        """Report all positions to the status, now and then."""
        now = time.monotonic()
        if now < self._next_report:
            return
        self._next_report = now + min(REPORT_SECONDS, self._settings.commit_interval_seconds)
        self._tracker.report_positions()
        if self._stage.budget is not None:
            self._stage.budget.look()

    async def _process(
        self, polled: Mapping[Partition, Sequence[ConsumerRecord]], gaps: Mapping[Partition, int]
    ) -> None:
        """Make a round of polled records and gaps. It may stay in flight during the next poll."""
        tracker, ddl_order, source = self._tracker, self._schemas.ddl_order, self._connections.source
        began, taken, taken_bytes = time.monotonic(), 0, 0
        current = tracker.begin()
        current.pause_at, current.ends_at = began + YIELD_SECONDS, began + self._settings.round_seconds
        builder = self._stage.builder(current, self._connections.sink, lambda: self._is_over(current))
        # Partitions that need not wait for DDL come first, in turn; so does the partition that has it.
        for partition, records in sorted(
            tracker.in_turn(polled), key=lambda each: ddl_order.must_wait(each[0])
        ):
            owned = tracker.owned.get(partition)
            if owned is None or current.refused is not None:
                continue
            is_too_late = bool(current.reached) and current.is_late
            # If they were read again later, rows might have to wait again, forever: their DDL is past these.
            if ddl_order.must_wait(partition) or (is_too_late and ddl_order.may_wait(partition)):
                tracker.hold(partition, records)
                continue
            done = 0
            ready = self._stage.ready(partition, records, source.end(partition))
            if ready and not is_too_late:
                done = await builder.take(ready, owned)
            ddl_order.taken(source, partition, records, done)
            if current.span is not None:
                current.span.take(ready[:done])
            taken_bytes += tracker.note_taken(partition, records, done)
            taken += done
        tracker.skip(gaps, current)
        await builder.send_rest()
        if current.span is not None:
            _note_translated(current.span, current)
        if self._limiter is not None:
            self._limiter.take(taken, taken_bytes, time.monotonic())
        if taken_bytes:
            self._growth = max(1.0, current.sizes.total() / taken_bytes)
        self._report_inferred_tables()
        self._report_unwritten()
        current.sent_at = time.monotonic()
        self._status.observe("translate", current.sent_at - began)
        self._status.batch(taken)
        tracker.rounds.append(current)
        is_last = current.refused is not None or self._schemas.holds_much
        await tracker.settle(keep=0 if is_last else self._settings.max_in_flight - 1)
        if current.refused and current.generation == tracker.generation:
            await self._commit()
            raise current.refused

    def _report_inferred_tables(self) -> None:
        """Log, once each, the tables whose rows came before their DDL was known."""
        inferred = self._stage.translator.inferred_after(self._inferred_reported)
        for table in inferred:
            message = _INFERRED + _INFERRED_KEYS if self._status.about.has_row_keys else _INFERRED
            name, reason = str(table)[:LONGEST_TEXT], self._stage.translator.why_unknown(table)
            self._log.warning("schema.inferred", table=name, reason=reason, message=message)
        self._inferred_reported += len(inferred)

    def _report_unwritten(self) -> None:
        """Log each statement that removed rows and was not written."""
        unwritten = self._stage.translator.unwritten_after(self._unwritten_reported)
        for each in unwritten:
            self._log.warning(
                "ddl.not-written",
                table=str(each.table)[:LONGEST_TEXT],
                statement=each.statement,
                position=each.position,
                message=_UNWRITTEN,
            )
        self._unwritten_reported += len(unwritten)

    def _is_over(self, current: InFlightBatch) -> bool:
        return self._stop.is_set() or self._is_revoking or current.generation != self._tracker.generation

    async def _commit(self) -> bool:
        interval = self._settings.commit_interval_seconds
        if self._connections.sink.is_transactional:
            interval = self._settings.transaction_interval_seconds
        self._next_commit = time.monotonic() + interval
        is_committed = await self._tracker.commit()
        if self._tracker.commit_failure:
            self.checks.failed(COMMIT, self._tracker.commit_failure)
        return is_committed

    async def _rotate(self) -> None:
        """Change to a new sink at a moment when nothing is in flight."""
        await self._tracker.settle()
        await self._commit()
        await self._connections.sink.stop()
        if not await self._recovery.replace_sink():
            raise Undelivered("the new sink did not start", retriable=True)

    async def _replace_stalled_source(self, *, heard: bool) -> None:
        """Replace a source that returns no records although there are some."""
        expects_none = not self._tracker.owned or bool(self._tracker.unopened)
        if not await self._recovery.is_consumer_stalled(heard=heard or expects_none):
            return
        self._log.warning("consumer.stalled", message="consumer stalled; recreating it")
        async with self._busy:
            try:
                await self._commit()
            except Undelivered as error:
                await self._recovery.after_failed_delivery(error)
            self._tracker.forget()
        await self._recovery.replace_source(self)

    async def _drain(self) -> None:
        """Wait for the rounds in flight and commit them. Raises DeliveryFailed if that is not certain."""
        left = self._settings.drain_seconds
        if self._drain_until is not None:
            left = max(0.0, self._drain_until - time.monotonic())
        try:
            async with asyncio.timeout(left), self._busy:
                await self._tracker.settle()
                committed, behind = await self._commit(), await self._tracker.behind()
        except (TimeoutError, Undelivered, PollFailed, BrokerUnavailable) as error:
            raise _unacknowledged(
                str(error) or f"no answer within {self._settings.drain_seconds:g} s"
            ) from error
        if not committed:
            raise DeliveryFailed(
                "stopped with offsets that could not be committed; the next start repeats some records"
            )
        if behind:
            raise DeliveryFailed(
                f"stopped because records of {behind[0]} could not be written; the next start repeats them"
            )
        self._is_drained = True


def _bytes_of(polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> int:
    return sum(map(size_of, polled.values()))


def _note_translated(span: RoundSpan, current: InFlightBatch) -> None:
    """Note in a round's span that the round is translated, with the record that was refused, if any."""
    error = ""
    if current.refused is not None:
        span.take([current.refused.record])
        error = _code_of(current.refused.error)
    span.translated(current.written.total(), error)


def _code_of(error: Exception) -> str:
    """Return the code of an error; the type of an exception that is a bug of relay."""
    return error.code if isinstance(error, RelayError) else type(error).__name__


def _unacknowledged(why: str) -> DeliveryFailed:
    return DeliveryFailed(
        f"stopped with records that were not acknowledged ({why}); the next start repeats them"
    )
