"""Assemble the service: signal handlers, the loop, and the exit status for its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from relay.config import Config, kafka
from relay.config.registries import resolver_of
from relay.config.wiring import error_policies_of, load_schema_dumps, translator_of
from relay.core.detection import FormatHints
from relay.core.summaries import MOST_NAMES
from relay.core.translator import Translator
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Clusters
from relay.io.kafka.fencing import ProducerIdentity
from relay.io.kafka.ports import Partition, RecordSource, Sink
from relay.io.kafka.process_tuning import tune
from relay.io.kafka.progress import ProgressTopic
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.io.kafka.source import KafkaSource, ShardSource
from relay.io.logs import Log, client_logs, frames_of
from relay.model.errors import BrokerUnavailable, MemoryExhausted, RelayError
from relay.service.check.messages import earlier_output
from relay.service.check.reasons import Reasons, with_reasons
from relay.service.dry_run import DRY_RUN, DrySink, DrySource, dry_config, without_missing_history
from relay.service.found_topics import FoundTopics
from relay.service.loop.async_resolver import AsyncResolver, Translates
from relay.service.loop.error_budget import ErrorBudget
from relay.service.loop.history import Schemas
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.loop.relay_loop import Relay
from relay.service.loop.round_spans import RoundTracer
from relay.service.loop.settings import DEFAULT_SETTINGS, LoopSettings
from relay.service.loop.stopping import Stop, stopped_by_signals
from relay.service.loop.translation_stage import TranslationStage
from relay.service.loop.windows import Joins
from relay.service.observe.about import About, announce
from relay.service.observe.http import serving
from relay.service.observe.recovery_log import logging_recovery
from relay.service.observe.report import summary
from relay.service.observe.status import Status
from relay.service.observe.watchdog import Watchdog
from relay.service.rate_limit import rate_limits_of
from relay.topics.startup import Creates, Topics, WrittenTopics, check_topics
from relay.topics.table_topics import TableTopics

DEFECT = 1

#: A context that runs beside a relay; it receives the relay's stop event and status.
Beside = Callable[[asyncio.Event, Status], AbstractAsyncContextManager[None]]


def run_service(
    config: Config, log: Log | None = None, translator: Translates | None = None, *, dry_run: bool = False
) -> int:
    """Run the relay in this process until a signal to stop, and return the exit status.

    `dry_run`: see `relay.service.dry_run`. Exit status: 0 stopped on request with everything delivered and
    committed, 1 a bug, 2 the user's input, 3 the environment.
    """
    tune(takes_windows=_takes_windows(config))
    log = log or Log(settings=config.log.settings)
    run = partial(run_until, translator=translator, dry_run=dry_run)
    return asyncio.run(_run_until_signal(config, log, run))


def run_member(config: Config, log: Log, beside: Beside) -> int:
    """Run the relay like `run_service`, as one of several processes.

    `beside` runs at the same time. The supervisor logs the configuration for all processes.
    """
    tune(takes_windows=_takes_windows(config))

    async def run(stop: asyncio.Event, config: Config, log: Log, status: Status) -> int:
        async with beside(stop, status):
            return await run_until(stop, config, log, status=status, announces=False)

    return asyncio.run(_run_until_signal(config, log, run))


def _takes_windows(config: Config) -> bool:
    """Return whether rows of neighboring records are joined; joining takes windows of records."""
    return translator_of(config).route.joining is not None


async def _run_until_signal(config: Config, log: Log, run: Callable[..., Awaitable[int]]) -> int:
    stop = asyncio.Event()
    with stopped_by_signals(stop.set):
        status = Status(About.of(config))
        with Watchdog(status, config.delivery.stall_timeout_seconds, log):
            return await run(stop, config, log, status=status)


async def run_until(  # noqa: PLR0913 - a run and its observers
    stop: asyncio.Event,
    config: Config,
    log: Log,
    translator: Translates | None = None,
    status: Status | None = None,
    *,
    dry_run: bool = False,
    announces: bool = True,
    settings: LoopSettings = DEFAULT_SETTINGS,
) -> int:
    """Run the relay until `stop` is set, log its progress, and return the exit status.

    `announces`: log the configuration first. `settings`: loop settings that have no configuration key.
    """
    if announces:
        announce(config, log)
    status = status or Status(About.of(config))
    if dry_run:
        config = dry_config(config)
        status.is_dry_run, status.about = True, msgspec.structs.replace(status.about, mode="dry run")
        log.info("relay.dry-run", message=DRY_RUN)
    try:
        with client_logs(log):
            async with (
                logging_recovery(log, status),
                serving(config.http, status, log),
                _tracing(config, status, log) as tracer,
            ):
                await serve(
                    stop, config, log, translator, status, tracer=tracer, dry_run=dry_run, settings=settings
                )
    except RecordRefused as refused:
        return report_refused(refused, config, log, status)
    except RelayError as error:
        return _failed(error, log, status)
    except MemoryError:
        return _failed(MemoryExhausted(), log, status)
    except Exception as error:
        _log_defect(error, log)
        return DEFECT
    log.info("relay.stopped", **summary(status), **(_dry(status) if dry_run else {}))
    return 0


def _dry(status: Status) -> dict[str, Any]:
    """Return the findings of a dry run."""
    translated = status.translator
    return {
        "dry_run": True,
        "records_translated": status.records_translated,
        "events": {} if translated is None else dict(translated.events),
        "lost": {} if translated is None else {str(each): count for each, count in translated.losses.items()},
        "message": DRY_RUN,
    }


async def serve(  # noqa: PLR0913 - a run and its observers
    stop: asyncio.Event,
    config: Config,
    log: Log,
    translator: Translates | None,
    status: Status,
    *,
    dry_run: bool = False,
    settings: LoopSettings = DEFAULT_SETTINGS,
    tracer: RoundTracer | None = None,
) -> None:
    """Relay until `stop` is set. Raises RecordRefused or RelayError."""
    # Once and for all: replacement clients must not depend on files that may have been deleted by then.
    source, target = kafka.source_cluster(config), kafka.target_cluster(config)
    clusters = Clusters.from_settings(source, target, settings.timeouts)
    status.set_check("configuration", ok=True)
    translator = translator or _translator(config, log)
    try:
        creates = Creates.NONE if dry_run else Creates.ALL
        found = FoundTopics(config, clusters.source, log, status)
        if not await found.find(Stop(stop)):
            return
        config = found.config
        status.describe(status.about.with_topics(config))
        topics = await Stop(stop).unless_stopped(check_topics(config, clusters, creates=creates))
        if topics is None:
            return
        topics.tell(log)
        for warning in topics.warnings:
            status.warn(warning)
        settings = _configured(settings, config)
        parts = found, clusters, topics, log, status, translator
        async with _assembled(*parts, dry_run=dry_run, settings=settings, tracer=tracer) as relay:
            stopping = asyncio.create_task(_pass_on(stop, relay, log))
            try:
                await relay.run()
            finally:
                stopping.cancel()
    except BrokerUnavailable as error:
        raise await with_reasons(error, clusters) from error


def _translator(config: Config, log: Log) -> Translator:
    """Make the route's translator, and load and report the definitions of `schema_dumps`.

    Raises ConfigError.
    """
    translator = translator_of(config)
    found = load_schema_dumps(config, translator.catalog)
    translator.catalog = found.catalog
    if found.files:
        log.info("schema-dumps.loaded", tables=found.tables, files=found.files)
    for problem in found.problems[:MOST_NAMES]:
        log.warning("schema-dumps.not-understood", message=problem)
    return translator


async def _pass_on(stop: asyncio.Event, relay: Relay, log: Log) -> None:
    await stop.wait()
    log.info("relay.stopping")
    relay.request_stop()


#: Factories of the source and the sink of a delivery mode, and its progress topic, if any.
ClientFactories = tuple[Callable[[], RecordSource], Callable[[], Sink], ProgressTopic | None]


def _clients(found: FoundTopics, clusters: Clusters, written: WrittenTopics, log: Log) -> ClientFactories:
    """Return the clients of a run."""
    config, identity = found.config, ProducerIdentity()
    source = ShardSource if config.is_exactly_once else KafkaSource
    consumer = kafka.consumer_settings(config)
    progress = _progress_topic(config, clusters)
    read = progress.read if progress else None

    def sink() -> Sink:
        if config.is_exactly_once:
            settings = kafka.transactional_settings(found.config)
            return TransactionalSink(
                settings, written.limits, clusters.target, written.compacted, identity=identity
            )
        return KafkaSink(kafka.producer_settings(config), written.limits, clusters.target, written.compacted)

    return lambda: source(consumer, read, log, clusters.source, found.to_read), sink, progress


def _dry_clients(found: FoundTopics, clusters: Clusters, topics: Topics, log: Log) -> ClientFactories:
    """Return the clients of a dry run."""
    config = found.config
    progress, reached = _progress_topic(config, clusters), dict[Partition, int]()
    read = progress.read if progress and config.delivery.progress_topic in topics.target_partitions else None
    consumer = kafka.consumer_settings(config)
    return (
        lambda: DrySource(reached, consumer, read, log, clusters.source, found.to_read),
        lambda: DrySink(topics.limits, topics.compacted),
        progress,
    )


def _progress_topic(config: Config, clusters: Clusters) -> ProgressTopic | None:
    """Return the topic for source offsets, which exactly-once needs between two clusters."""
    if not config.uses_progress_topic:
        return None
    return ProgressTopic(clusters.target, config.delivery.progress_topic, config.source.group_id)


@contextlib.asynccontextmanager
async def _assembled(  # noqa: PLR0913 - the parts of a relay
    found: FoundTopics,
    clusters: Clusters,
    topics: Topics,
    log: Log,
    status: Status,
    translator: Translates,
    *,
    dry_run: bool,
    settings: LoopSettings,
    tracer: RoundTracer | None,
) -> AsyncIterator[Relay]:
    """Assemble the loop for a route whose topics are known, and follow those that a pattern chooses."""
    config = found.config
    if dry_run:
        config = without_missing_history(config, topics)
    status.translator = translator
    if config.http.status_table_limit:
        translator.count_tables(config.http.status_table_limit)
    schemas = Schemas(config, translator, log, status, clusters, resolver_of(config))
    route = translator_of(config).route
    targets = None if dry_run else _table_topics(config, clusters, topics, log, status, translator)
    written = WrittenTopics(topics.limits, topics.compacted) if targets is None else targets.written
    stage = TranslationStage(
        translator,
        _async_resolver(config, log, settings, writes=not dry_run and "to" in route.storages),
        log,
        status,
        errors=error_policies_of(config, topics.target_partitions.get(config.dead_letter_topic, 1)),
        history_topic="" if dry_run else config.history_topic,
        ahead=schemas.ahead,
        stored_ahead=schemas.stored_ahead,
        joins=None if route.joining is None else Joins(route.joining, written.limits),
        targets=targets,
        budget=ErrorBudget(config.errors, config.route.from_, translator, status),
        hints=FormatHints(translator.known_schema if isinstance(translator, Translator) else None),
        refresh=None if dry_run else partial(_refresh, TopicAdmin(clusters.target), written),
    )
    clients = _dry_clients(found, clusters, topics, log) if dry_run else None
    source, sink, progress = clients or _clients(found, clusters, written, log)
    preparations = _Preparations(clusters, log, status, written, targets, schemas, dry_run)
    try:
        yield Relay(
            source,
            sink,
            stage,
            log,
            status,
            schemas,
            check_topics=lambda: preparations.check_again(found.config),
            follow_topics=partial(preparations.follow, found),
            find_reason=Reasons(clusters).find,
            find_earlier_output=partial(earlier_output, config, clusters),
            settings=settings,
            tracer=tracer,
        )
    finally:
        if progress:
            await progress.stop()


def _async_resolver(config: Config, log: Log, settings: LoopSettings, *, writes: bool) -> AsyncResolver:
    """Return the resolver of the loop, which itself asks again. `writes`: whether it stores payloads."""
    resolver = resolver_of(config, retries=0)
    return AsyncResolver(log, resolver, writes=writes, retry_seconds=settings.retry_seconds)


def _tracing(config: Config, status: Status, log: Log) -> AbstractAsyncContextManager[RoundTracer | None]:
    """Return the context in which rounds are traced, if tracing is enabled."""
    if not config.tracing.enabled:
        return contextlib.nullcontext()
    # Needs the extra `tracing`.
    from relay.service.observe.tracing import tracing  # noqa: PLC0415 - an optional library

    return tracing(status.about, log, hides_values=config.route.hides_values)


class _Preparations(NamedTuple):
    """The parts of a relay that must know its topics, and the checks of these topics."""

    clusters: Clusters
    log: Log
    status: Status
    written: WrittenTopics
    targets: TableTopics | None
    schemas: Schemas
    is_dry_run: bool

    async def follow(self, found: FoundTopics) -> None:
        """Follow topics that a pattern chooses, until cancelled."""
        if found.can_change:
            await found.follow(self.admit, self.changed)

    async def admit(self, added: Config) -> None:
        """Prepare for more source topics. Raises TopicUnusable, BrokerUnavailable."""
        creates = Creates.NONE if self.is_dry_run else Creates.ALL
        known = self.written.limits.keys()
        topics = await check_topics(added, self.clusters, creates=creates, known=known)
        topics.tell(self.log)
        for warning in topics.warnings:
            self.status.warn(warning)
        self.written.update(topics)
        if self.targets is not None:
            self.targets.read_topics(topics)

    def changed(self, config: Config) -> None:
        """Take other source topics."""
        self.schemas.read_topics(config)
        self.status.describe(self.status.about.with_topics(config))

    async def check_again(self, config: Config) -> None:
        """Check the topics of a running relay; topics of tables are checked when they are next written."""
        if self.is_dry_run:
            await check_topics(config, self.clusters, creates=Creates.NONE)
            return
        if self.targets is not None:
            self.targets.forget()
        self.written.update(await check_topics(config, self.clusters, creates=Creates.LOGS))


def _table_topics(
    config: Config, clusters: Clusters, topics: Topics, log: Log, status: Status, translator: Translates
) -> TableTopics | None:
    """Return the topics of tables; None for a route without any."""
    if not config.has_table_topics:
        return None
    return TableTopics(config, topics, clusters.target, log, translator.partitions_of, warn=status.warn)


async def _refresh(admin: TopicAdmin, written: WrittenTopics, topic: str) -> None:
    """Read the settings of one target topic again."""
    written.update(WrittenTopics.of((await admin.look([topic])).found))


#: Bytes that a round gathers when tables have their own topics: a single poll would make batches of one
#: record.
GATHER_BYTES = 24 * 1024 * 1024


def _configured(settings: LoopSettings, config: Config) -> LoopSettings:
    """Return the settings with those of the configuration."""
    return dataclasses.replace(
        settings,
        commit_interval_seconds=config.delivery.commit_interval_seconds,
        transaction_interval_seconds=config.delivery.transaction_interval_seconds,
        gather_bytes=GATHER_BYTES if config.has_table_topics else 0,
        drain_seconds=config.delivery.drain_timeout_seconds,
        rate_limits=rate_limits_of(config),
        # The group waits this long for revoked partitions; the rest is for the commit and for joining again.
        revoke_seconds=config.source.rebalance_timeout_ms / 1000 * 2 / 3,
    )


def report_refused(refused: RecordRefused, config: Config, log: Log, status: Status) -> int:
    """Log the record's position and the command that shows it; never log its content."""
    error, partition, offset = refused.error, f"{refused.topic}/{refused.partition}", refused.offset
    then = f"relay explain {partition}/{offset} --config {shlex.quote(config.file or 'relay.toml')}"
    if isinstance(error, RelayError):
        message = "; ".join([str(error), *getattr(error, "__notes__", ())])
        status.add_error("translate", error.code, f"{partition}/{offset}", message)
        log.error(
            "record.refused", partition=partition, offset=offset, code=error.code, message=message, next=then
        )
        return error.exit_status
    if isinstance(error, MemoryError):
        return _failed(MemoryExhausted(), log, status)
    kind = type(error).__name__
    log.error("record.refused", partition=partition, offset=offset, code="defect", message=kind, next=then)
    _log_defect(error, log)
    return DEFECT


def _failed(error: RelayError, log: Log, status: Status) -> int:
    status.add_error("produce", error.code, "", str(error))
    log.error("relay.failed", code=error.code, message=str(error))
    return error.exit_status


def _log_defect(error: Exception, log: Log) -> None:
    log.error("relay.internal-error", kind=type(error).__name__, frames=frames_of(error))
