"""From polled records to a round of batches: translate, apply the error policy, keep the schema history.

`InFlightBatchBuilder.take` does all work per record. Before the next record is inspected, the external data
of a record is fetched, and its claim-check payloads are stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from relay.catalog import Catalog
from relay.core.batching import Joiner
from relay.core.detection import FormatHints
from relay.core.error_policies import ErrorPolicies, Policy, tables_in
from relay.core.pipeline import State
from relay.core.translator import Translator
from relay.io.kafka.batches import KernelBatch
from relay.io.kafka.ports import Batch, Partition, Sink
from relay.io.kafka.record_chunks import Fetched
from relay.io.kafka.sizes import NoMatch, misfit_error
from relay.io.logs import Log
from relay.model.errors import RelayError, ServiceError, TopicUnusable
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver, Translates
from relay.service.loop.dialects import DialectWatch
from relay.service.loop.error_budget import ErrorBudget
from relay.service.loop.history import history_record
from relay.service.loop.offset_tracker import GivenUp, InFlightBatch, Owned, RecordRefused
from relay.service.loop.windows import Joins
from relay.service.observe.status import Status
from relay.templates.batches import TargetBatch
from relay.topics.table_topics import TableTopics

#: Longest stretch of translating before heartbeats and acknowledgements get their turn.
YIELD_SECONDS = 0.010
#: Minimum interval between reads of the settings of topics that refuse records, and their timeout.
REFRESH_SECONDS = 5.0
#: Records between two checks of the clock.
LOOK_EVERY = 16
STRETCH_RECORDS: Final = 256
#: The most records of a run, so that the clock is looked at in time.
_RUN_RECORDS: Final = 1_000
#: The most records that are taken one by one before another run is tried.
_MOST_BETWEEN_RUNS: Final = 64


class TranslationStage:
    """The dependencies that every round needs to translate records.

    `history_topic`: "" keeps no history. `ahead`: positions of records that the catalog learned before their
    turn, and that the history lacks. `stored_ahead`: what the history keeps of them on a route that hides
    values. `joins`: how rows of neighboring records become one message; None if
    they do not. `targets`: the target topics of tables; None if all topics are known at the start. `budget`:
    how many records may fail; None for any number. `hints`: names the formats of records that are refused.
    `refresh`: reads the settings of a topic again, since they may have changed; None if that is not possible.
    `stretch_records`: how many records are translated before their topics are ensured, where topics depend on
    tables.
    """

    def __init__(  # noqa: PLR0913 - the dependencies of a record's translation
        self,
        translator: Translates,
        resolver: AsyncResolver,
        log: Log,
        status: Status,
        *,
        errors: ErrorPolicies | None = None,
        history_topic: str = "",
        ahead: AbstractSet[tuple[str, int, int]] = frozenset(),
        stored_ahead: Mapping[tuple[str, int, int], ConsumerRecord] = MappingProxyType({}),
        joins: Joins | None = None,
        targets: TableTopics | None = None,
        budget: ErrorBudget | None = None,
        hints: FormatHints | None = None,
        refresh: Callable[[str], Awaitable[object]] | None = None,
        stretch_records: int = STRETCH_RECORDS,
    ) -> None:
        self.translator, self.resolver, self.log, self.status = translator, resolver, log, status
        self.errors = errors or ErrorPolicies({})
        self.history_topic, self.joins, self.targets = history_topic, joins, targets
        self.ahead, self.stored_ahead = ahead, stored_ahead
        self.budget, self._refresh, self._refresh_at = budget, refresh, 0.0
        #: Translates many records by one call; None if the route does not allow that.
        self.runs = translator if isinstance(translator, Translator) and translator.has_runs else None
        self.dialects, self.hints = DialectWatch(log), hints or FormatHints()
        self.stretch_records = stretch_records

    async def refreshed(self, topic: str) -> bool:
        """Read the settings of a topic again, unless that was just done. Return whether they are fresh."""
        if self._refresh is None or time.monotonic() < self._refresh_at:
            return False
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                await self._refresh(topic)
        except (ServiceError, TimeoutError):
            return False
        finally:
            self._refresh_at = time.monotonic() + REFRESH_SECONDS
        return True

    def builder(
        self, current: InFlightBatch, sink: Sink, is_over: Callable[[], bool]
    ) -> InFlightBatchBuilder:
        """Build a round. `is_over`: whether a stop or a rebalance came."""
        return InFlightBatchBuilder(self, current, sink, is_over)

    def ready(
        self, partition: Partition, records: Sequence[ConsumerRecord], end: int | None
    ) -> Sequence[ConsumerRecord]:
        """Return the polled records of a partition that may be taken now.

        If rows are joined, the records of an incomplete last window are left out. `end`: see
        `RecordSource.end`.
        """
        return records if self.joins is None else self.joins.windows.ready(partition, list(records), end)


class _TranslatedRecord(NamedTuple):
    """A record and its translation.

    `stored`: what the history keeps of it; None if it did not change the catalog. `before`: the translator's
    state before it; None where the translator need not go back.
    """

    record: ConsumerRecord
    produced: list[ProducerRecord]
    stored: ConsumerRecord | None
    before: State | None


class InFlightBatchBuilder:
    """Fill one round with the translations of polled records."""

    def __init__(
        self, stage: TranslationStage, current: InFlightBatch, sink: Sink, is_over: Callable[[], bool]
    ) -> None:
        self._stage, self._round, self._sink, self._is_over = stage, current, sink, is_over
        self._translator, self._status = stage.translator, stage.status
        # For runs: the open batches of each partition, by the places of their topics.
        self._targets: dict[int, list[TargetBatch | None]] = {}

    async def take(self, records: Sequence[ConsumerRecord], owned: Owned) -> int:
        """Translate records of one partition into the round.

        Stops at the end of the records, at a refused one, when `is_over` returns true, or when the round is
        late. Returns how many of them are done. `owned.next` and the round's offsets move past those.
        """
        self._stage.dialects.look(records)
        if self._stage.joins is not None:
            return await self._take_windows(records, owned, self._stage.joins)
        done, waiting = await self._take_each(records)
        while waiting is not None:
            end = done + self._stage.stretch_records
            taken = await self._take_stretch(waiting, records[done + 1 : end])
            done += taken
            if not taken or self._round.refused is not None or await self._is_interrupted():
                break
            taken, waiting = await self._take_each(records[done:])
            done += taken
        self._mark_done(records[:done], owned)
        return done

    async def _take_each(self, records: Sequence[ConsumerRecord]) -> tuple[int, _TranslatedRecord | None]:
        """Take records. Return how many are done, and the next one if it waits for its topics.

        Where possible they are taken in runs, each by one call of the native kernel. Between runs are records
        that it leaves to Python, taken one by one: the more often a run does not begin, the more of them.
        """
        if not self._takes_runs or not isinstance(records, Fetched) or self._ahead(records.partition):
            return await self._take_singly(records)
        done, singly = 0, 1
        while done < len(records):
            taken = self._take_run(records, done)
            done += taken
            rest = records[done : done + singly]
            singly = 1 if taken else min(2 * singly, _MOST_BETWEEN_RUNS)
            if rest:
                taken, waiting = await self._take_singly(rest)
                done += taken
                if waiting is not None or taken < len(rest):
                    return done, waiting
            if time.monotonic() >= self._round.pause_at and await self._is_interrupted():
                break
        return done, None

    @property
    def _takes_runs(self) -> bool:
        return self._stage.runs is not None and not self._stage.resolver.writes

    def _ahead(self, partition: int) -> AbstractSet[tuple[str, int, int]] | tuple[()]:
        """Return the positions of a partition's records that the catalog may have learned before."""
        return () if partition else self._stage.ahead

    def _take_run(self, records: Fetched, first: int) -> int:
        """Translate records from `first` on into the open batches, by one call; return how many are done."""
        rows, runs, partition = records.rows_from(first), self._stage.runs, records.partition
        targets = self._targets.get(partition)
        if rows is None or runs is None or targets is None:
            return 0
        end = min(rows.end, rows.first + _RUN_RECORDS)
        return runs.translate_batch(records.topic, partition, rows.batch, rows.first, end, targets)

    def _open(self, key: tuple[str, int], batch: Batch | None) -> None:
        """Note the batch that takes more records of a partition; None if there is none."""
        runs, (topic, partition) = self._stage.runs, key
        if runs is None:
            return
        targets, at = self._targets.setdefault(partition, []), runs.target_index(topic)
        targets += [None] * (at + 1 - len(targets))
        targets[at] = batch.target if isinstance(batch, KernelBatch) else None

    async def _take_singly(self, records: Sequence[ConsumerRecord]) -> tuple[int, _TranslatedRecord | None]:
        """Take records one by one. Return how many are done, and the next one if it waits for its topics."""
        translator, batches = self._translator, self._round.batches
        translate, catalog = translator.translate, translator.catalog
        ahead = self._ahead(records[0].partition) if records else ()
        waits = self._stage.resolver.writes
        keeps_before = waits or self._stage.targets is not None
        is_plain, done = not (ahead or waits), 0
        # The destination of the last record, and the batch that takes more for it; None: look it up.
        topic, partition, batch = None, None, None
        for record in records:
            before = translator.state if keeps_before else None
            try:
                produced = translate(record)
            except Exception as error:
                waits = True
                resolved = await self._resolve(error, record)
                if resolved is None:
                    break
                produced = resolved
            # Almost every record becomes one that follows others of its partition; a batch refuses one that
            # is too large.
            is_added = False
            if is_plain and len(produced) == 1 and translator.catalog is catalog:
                out = produced[0]
                if out.partition != partition or out.topic != topic:
                    topic, partition = out.topic, out.partition
                    batch = batches.get((topic, partition))
                is_added = batch is not None and batch.append(out)
            if not is_added:
                translated = _TranslatedRecord(record, produced, self._stored(record, catalog), before)
                if self._topics_to_ask(produced, record):
                    return done, translated
                if not await self._add_or_restore(translated):
                    break
                catalog = translator.catalog
                # Appending may have sent the batch, and begun another.
                topic, partition, batch = None, None, None
            done += 1
            is_time = (waits or not done % LOOK_EVERY) and time.monotonic() >= self._round.pause_at
            if is_time and await self._is_interrupted():
                break
        return done, None

    def _mark_done(self, taken: Sequence[ConsumerRecord], owned: Owned) -> None:
        if taken:
            owned.next = taken[-1].offset + 1
            self._round.reached[Partition(taken[0].topic, taken[0].partition)] = owned.next

    def _stored(self, record: ConsumerRecord, before: Catalog) -> ConsumerRecord | None:
        """Return what the history keeps of the record just translated, with the catalog `before` it.

        None if the record has not changed the catalog, or if the history is known to have it.
        """
        if self._translator.catalog is before and record.position not in self._stage.ahead:
            return None
        return self._translator.storable(record) or self._stage.stored_ahead.get(record.position)

    def _topics_to_ask(self, produced: Sequence[ProducerRecord], record: ConsumerRecord) -> dict[str, str]:
        """Return the uncertain topics of a record's translation, each with the record's own topic."""
        targets = self._stage.targets
        if targets is None:
            return {}
        return {out.topic: record.topic for out in produced if out.topic not in targets.usable}

    async def _add_or_restore(self, translated: _TranslatedRecord) -> bool:
        """Put a record's translation into batches.

        False ends the round before it; then the translator returns to its state before the record, if that is
        kept.
        """
        record, produced, stored, before = translated
        checked = await self._checked(produced, record, stored)
        if checked is None:
            self._restore(before)
            return False
        await self._add(checked)
        return True

    def _restore(self, before: State | None) -> None:
        if before is not None:
            self._translator.restore(before)

    async def _take_stretch(self, waiting: _TranslatedRecord, records: Sequence[ConsumerRecord]) -> int:
        """Take a record that waits for topics and those after it; all their topics are requested together.

        Returns how many are done. They are fewer if one is refused, or if others must have their turn; none
        if a stop or a rebalance comes while data is fetched for one. The translator has learned from those
        that are done, and from no others.
        """
        translator, stretch = self._translator, [waiting]
        for record in records:
            before = translator.state
            produced = await self._produced(record)
            if produced is None and self._round.refused is None:
                self._restore(waiting.before)
                return 0
            if produced is None:
                break
            stored = self._stored(record, before.catalog)
            stretch.append(_TranslatedRecord(record, produced, stored, before))
            if time.monotonic() >= self._round.pause_at and await self._is_interrupted():
                break
        await self._ask_for_topics(stretch)
        # A record after the stretch is refused only once all of the stretch is done.
        refused, self._round.refused = self._round.refused, None
        for done, translated in enumerate(stretch):
            if not await self._add_or_restore(translated):
                return done
        self._round.refused = refused
        return len(stretch)

    async def _ask_for_topics(self, stretch: Sequence[_TranslatedRecord]) -> None:
        needed: dict[str, str] = {}
        for record, produced, _, _ in stretch:
            needed |= self._topics_to_ask(produced, record)
        if self._stage.targets is not None:
            # A problem with one of them is reported for the record that needs it.
            with contextlib.suppress(TopicUnusable):
                await self._stage.targets.ensure(needed)

    async def _produced(self, record: ConsumerRecord) -> list[ProducerRecord] | None:
        """Return a record's translation or its replacement; None ends the round before it."""
        try:
            return self._translator.translate(record)
        except Exception as error:
            return await self._resolve(error, record)

    async def _take_windows(self, records: Sequence[ConsumerRecord], owned: Owned, joins: Joins) -> int:
        """Take records window by window, and join the translations of each window."""
        done = 0
        for window in joins.windows.split(records):
            if done and self._round.is_late:
                break
            taken = await self._take_window(window, joins.joiner(), is_first=not done)
            done += taken
            if taken < len(window):
                break
        self._mark_done(records[:done], owned)
        return done

    async def _take_window(
        self, window: Sequence[ConsumerRecord], joiner: Joiner[None], *, is_first: bool
    ) -> int:
        """Take the records of a window; return how many are done.

        They are fewer only if one is refused. After a stop or a rebalance none of them is done, and the
        translator is unchanged; the same holds when the round is late, unless the round contains nothing
        else.
        """
        translator, before = self._translator, self._translator.state
        complete: list[ProducerRecord] = []
        done = 0
        for record in window:
            made = await self._complete(record)
            if made is None:
                break
            for out in made:
                complete += [found for found, _ in joiner.add(out, None)]
            done += 1
            is_time = time.monotonic() >= self._round.pause_at
            if is_time and await self._is_interrupted() and (self._is_over() or not is_first):
                break
        if done < len(window) and self._round.refused is None:
            translator.restore(before)
            return 0
        complete += [found for found, _ in joiner.close()]
        await self._add(complete)
        return done

    async def _complete(self, record: ConsumerRecord) -> list[ProducerRecord] | None:
        """Return the records to write for a record, after verifying them; None ends the round before it."""
        catalog = self._translator.catalog
        produced = await self._produced(record)
        if produced is None:
            return None
        return await self._checked(produced, record, self._stored(record, catalog))

    async def send_rest(self) -> None:
        """Hand over the batches that are not full."""
        await self._sink.expect({topic for topic, _ in self._round.batches})
        for key in list(self._round.batches):
            await self._send(key)

    async def _resolve(self, error: Exception, record: ConsumerRecord) -> list[ProducerRecord] | None:
        """Return the records to write for a record whose first translation failed.

        None ends the round before it.
        """
        if isinstance(error, Need):
            try:
                return await self._stage.resolver.resolve(error, self._translator, record, self._is_over)
            except Exception as another:
                error = another
        return self._apply_error_policy(error, record)

    async def _checked(
        self, produced: list[ProducerRecord], record: ConsumerRecord, stored: ConsumerRecord | None
    ) -> list[ProducerRecord] | None:
        """Return the records to write for a translation, after verifying them.

        `stored`: what the history keeps of the record. None ends the round before the record: a refusal, a
        stop or a rebalance.
        """
        if not await self._has_topics(produced, record):
            return None
        misfit = self._sink.misfit(produced)
        if misfit and await self._stage.refreshed(misfit.topic):
            misfit = self._sink.misfit(produced)
        if misfit:
            instead = self._apply_error_policy(self._misfit_error(record, misfit), record)
            if instead is None:
                return None
            produced = instead
        if stored is not None and self._stage.history_topic:
            entry = history_record(stored, self._stage.history_topic, self._stage.errors.route)
            if misfit := self._sink.misfit([entry]):
                self._refuse(record, self._misfit_error(record, misfit))
                return None
            produced = [entry, *produced]
        if self._stage.resolver.writes:
            try:
                if not await self._stage.resolver.store(produced, self._is_over):
                    return None
            except Exception as error:
                # Whatever the error is, earlier records are delivered first.
                self._refuse(record, error)
                return None
        return produced

    async def _has_topics(self, produced: Sequence[ProducerRecord], record: ConsumerRecord) -> bool:
        """Ensure the topics that a record needs; if that fails, refuse the record and return False."""
        needed, targets = self._topics_to_ask(produced, record), self._stage.targets
        if needed and targets is not None:
            try:
                await targets.ensure(needed)
            except TopicUnusable as error:
                self._refuse(record, error)
                return False
        return True

    def _misfit_error(self, record: ConsumerRecord, misfit: NoMatch) -> RelayError:
        protocol = self._status.about.target.protocol
        return misfit_error(record, misfit, protocol, tables_in(record, self._translator))

    def _apply_error_policy(self, error: Exception, record: ConsumerRecord) -> list[ProducerRecord] | None:
        """Apply the policy for an error to its record.

        Returns a dead letter or nothing to write; None ends the round before the record.
        """
        refused, hints = self._stage.errors.apply(error, record, self._translator), self._stage.hints
        if refused.policy is Policy.STOP or not isinstance(error, RelayError):
            self._refuse(record, hints.named(error, record))
            return None
        if misfit := self._sink.misfit(refused.dead_letters):
            error.add_note(str(self._misfit_error(record, misfit)))
            self._refuse(record, error)
            return None
        budget = self._stage.budget
        named = partial(hints.named, error, record)
        too_many = None if budget is None else budget.spend(error, record.position, named)
        if too_many is not None:
            self._refuse(record, too_many)
            return None
        self._note(refused.policy, error.code, hints.sampled(error, record), record)
        return refused.dead_letters

    def _refuse(self, record: ConsumerRecord, error: Exception) -> None:
        """End the round before this record, and relay with it."""
        self._round.refused = RecordRefused(record, error)

    def _note(self, policy: Policy, code: str, error: Exception, record: ConsumerRecord) -> None:
        """Note an error now, and the record's outcome once its round is acknowledged."""
        position, message = str(record.position), str(error)
        self._status.add_error("translate", code, position, message)
        self._round.given_up.append(GivenUp(policy, code, position, message))

    async def _is_interrupted(self) -> bool:
        """Yield to other tasks; return True if a rebalance or a stop came, or the time of the round is up."""
        await asyncio.sleep(0)
        self._status.heartbeat()
        self._round.pause_at = time.monotonic() + YIELD_SECONDS
        return self._round.is_late or self._is_over()

    async def _add(self, produced: list[ProducerRecord]) -> None:
        """Put records into batches; hand over a full batch and begin a new one."""
        batches = self._round.batches
        for out in produced:
            key = out.topic, out.partition
            batch = batches.get(key)
            if batch is None or not batch.append(out):
                if batch is not None:
                    await self._send(key)
                batch = batches[key] = self._sink.batch(out.topic)
                batch.append(out)
                self._open(key, batch)

    async def _send(self, key: tuple[str, int]) -> None:
        batch = self._round.batches.pop(key)
        self._open(key, None)
        self._round.written[key[0]] += len(batch)
        self._round.sizes[key[0]] += batch.size
        # Appending may wait for the target.
        self._status.heartbeat()
        self._round.pending.append(await self._sink.send(Partition(*key), batch))
