"""Replay dead letters: translate and write them again, and mark them as replayed.

The present configuration applies. Everything is written in chunks: first the target's records, then, when all
of these are acknowledged, the markers. After an interrupted replay, the next one repeats at most one chunk;
repeats have the original's position in the header `relay.source`. Dead letters of one source partition keep
its order.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from relay.config import Config
from relay.config.kafka import producer_settings, source_cluster, target_cluster
from relay.config.registries import resolver_of
from relay.core.dead_letters import DeadLetter, by_original, marker
from relay.core.error_policies import tables_in
from relay.core.translator import Translator
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered, start_sink
from relay.io.kafka.reading import Progress
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.sizes import NoMatch, TopicLimits, misfit_error
from relay.io.logs import Log
from relay.model.errors import ClaimCheckMissing, CodecError, DeliveryFailed, RecordTooLarge, TopicUnusable
from relay.model.records import ConsumerRecord, ProducerRecord, size_of
from relay.service.loop.history import history_record
from relay.service.rate_limit import RateLimiter, rate_limits_of
from relay.topics.startup import Topics, WrittenTopics, topics_of_tables
from relay.topics.table_topics import TableTopics

#: Originals of dead letters between two waits for acknowledgements.
CHUNK = 500

#: Errors of a single dead letter; every other error ends the replay.
FAILURES = (CodecError, ClaimCheckMissing, RecordTooLarge)


class FailedRecord(NamedTuple):
    """A dead letter that failed again."""

    letter: DeadLetter
    error: CodecError | ClaimCheckMissing | RecordTooLarge


@dataclass
class Outcome:
    """Counts of a replay: dead letters translated (if no dry run, written and marked), and target records.

    `gone`: dead letters without a payload whose originals are no longer in their source topics.
    """

    letters: int = 0
    records: int = 0
    failed: list[FailedRecord] = field(default_factory=list)
    gone: int = 0


async def target_topics(config: Config, topics: Iterable[str]) -> WrittenTopics:
    """Return the limits of topics at the target's brokers.

    Raises TopicUnusable with all problems, BrokerUnavailable.
    """
    names = set(topics)
    seen = await TopicAdmin(Brokers.from_settings(target_cluster(config))).look(names)
    problems = []
    for name in sorted(names - seen.found.keys()):
        why = seen.unusable.get(name)
        problem = f"cannot be used: {why}" if why else "does not exist"
        problems.append(f"topic {name} at {config.target_servers} {problem}")
    if problems:
        raise TopicUnusable("; ".join(problems))
    return WrittenTopics.of(seen.found)


async def table_topics(config: Config, others: WrittenTopics, translator: Translator) -> TableTopics | None:
    """Return the target topics of tables, None if the route has none. `others`: all other topics.

    Raises BrokerUnavailable.
    """
    if not config.has_table_topics:
        return None
    brokers = Brokers.from_settings(target_cluster(config))
    source = await TopicAdmin(Brokers.from_settings(source_cluster(config))).look(config.source.topics)
    by_table = await topics_of_tables(config, TopicAdmin(brokers), others.limits)
    written = WrittenTopics.of(by_table)
    topics = Topics(
        limits=others.limits | written.limits,
        compacted=frozenset(others.compacted | written.compacted),
        sources=source.found,
        target_partitions=dict.fromkeys(others.limits, 0),
        by_table=by_table,
    )
    return TableTopics(config, topics, brokers, Log(sys.stderr), translator.partitions_of)


async def misfit_of(config: Config, produced: Sequence[ProducerRecord]) -> NoMatch | None:
    """Return why its target topic refuses a record. Raises TopicUnusable, BrokerUnavailable."""
    if not produced:
        return None
    topics = await target_topics(config, (record.topic for record in produced))
    return TopicLimits(topics.limits, topics.compacted).misfit(produced)


class Replay:
    """One run over some dead letters.

    `writes`: they are also written and stored, not only translated. `targets`: the target topics of tables,
    None if the route has none.
    """

    def __init__(
        self,
        config: Config,
        translator: Translator,
        topics: WrittenTopics,
        targets: TableTopics | None = None,
        *,
        writes: bool,
    ) -> None:
        self._targets = targets
        topics = topics if targets is None else targets.written
        self._translator, self._resolver, self._writes = translator, resolver_of(config), writes
        self._history_topic = config.history_topic
        # Never the transactional sink: it would fence the running relay.
        self._sink = KafkaSink(producer_settings(config), topics.limits, compacted=topics.compacted)
        self._protocol, self._route = config.route.to, config.route_name
        limits = rate_limits_of(config)
        self._limiter = RateLimiter(limits, time.monotonic()) if limits and writes else None
        self.outcome = Outcome()

    async def run(self, letters: Iterable[DeadLetter], progress: Progress) -> Outcome:
        """Replay dead letters that have key and value; `progress` receives the numbers done and in total.

        Raises DeliveryFailed, BrokerUnavailable, StorageUnavailable; everything that `outcome` counts by then
        is written and marked.
        """
        originals = by_original(letters)
        try:
            if self._writes:
                await start_sink(self._sink)
            start = 0
            while start < len(originals):
                chunk = originals[start : start + await self._next_size()]
                await self._chunk(chunk)
                self._count(chunk)
                start += len(chunk)
                progress(start, len(originals))
        except Undelivered as error:
            raise DeliveryFailed(
                f"writing failed: {error}; run the replay again for the remaining dead letters"
            ) from error
        finally:
            await self._sink.stop()
        return self.outcome

    async def _next_size(self) -> int:
        """Return the size of the next chunk; wait until the rate limits of the route allow one."""
        if self._limiter is None:
            return CHUNK
        await asyncio.sleep(self._limiter.wait_seconds(time.monotonic()))
        return min(CHUNK, self._limiter.most_records(time.monotonic()))

    def _count(self, originals: Sequence[list[DeadLetter]]) -> None:
        if self._limiter is not None:
            size = size_of([letter.original for letter, *_ in originals])
            self._limiter.take(len(originals), size, time.monotonic())

    async def _chunk(self, originals: Sequence[list[DeadLetter]]) -> None:
        produced: list[ProducerRecord] = []
        learned: list[ProducerRecord] = []
        done: list[DeadLetter] = []
        failed: list[FailedRecord] = []
        for letters in originals:
            catalog = self._translator.catalog
            try:
                produced += await self._ready(letters[0])
            except FAILURES as error:
                failed += [FailedRecord(letter, error) for letter in letters]
            else:
                done += letters
                if self._translator.catalog is not catalog:
                    learned += self._stored(letters[0].original)
        if self._writes:
            await self._sink.write([*learned, *produced])
            now_ms = int(time.time() * 1000)
            await self._sink.write(
                [marker(letter.position, now_ms) for letter in done if letter.replayed_ms is None]
            )
        self.outcome.letters += len(done)
        self.outcome.records += len(produced)
        self.outcome.failed += failed

    def _stored(self, record: ConsumerRecord) -> Iterator[ProducerRecord]:
        """Yield the history's record for one that has changed the catalog: a running relay learns it, too."""
        stored = self._translator.storable(record) if self._history_topic else None
        if stored is not None:
            yield history_record(stored, self._history_topic, self._route)

    async def _ready(self, letter: DeadLetter) -> list[ProducerRecord]:
        """Translate, and ensure the topics that the result needs. Raises TopicUnusable, Undelivered."""
        produced = await asyncio.to_thread(self._translated, letter)
        if self._targets is not None and self._writes:
            await self._targets.ensure({record.topic: letter.original.topic for record in produced})
        return produced

    def _translated(self, letter: DeadLetter) -> list[ProducerRecord]:
        """Translate, and store the claim-check payloads. All or nothing, like `Translator.translate`."""
        before = self._translator.state
        produced = self._resolver.translate(self._translator, letter.original)
        if misfit := self._sink.misfit(produced):
            self._translator.restore(before)
            tables = tables_in(letter.original, self._translator)
            raise misfit_error(letter.original, misfit, self._protocol, tables)
        if self._writes:
            for blob in (blob for record in produced for blob in record.blobs):
                self._resolver.store(blob)
        return produced
