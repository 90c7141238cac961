"""Wires up the service: from signal handlers down to the loop, and from what ended that to an exit status."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from relay.config import Config, Mode, kafka
from relay.config.registries import resolver_of
from relay.errors import BrokerUnavailable, RelayError
from relay.kafka.clients import Clusters
from relay.kafka.fencing import ProducerIdentity
from relay.kafka.process_tuning import tune
from relay.kafka.progress import ProgressTopic
from relay.kafka.sink import KafkaSink, TransactionalSink
from relay.kafka.source import KafkaSource, ShardSource
from relay.logs import Log, client_logs, frames_of
from relay.service.announcement import announce
from relay.service.check.reasons import with_reasons
from relay.service.loop.async_resolver import AsyncResolver, Translates
from relay.service.loop.history import Schemas
from relay.service.loop.intake import Intake
from relay.service.loop.ledger import Counts, RecordRefused
from relay.service.loop.relay_loop import Relay, Timing
from relay.service.loop.stopping import Stop
from relay.service.loop.windows import Joins
from relay.service.observe.http import serving
from relay.service.observe.status import About, Status
from relay.service.observe.watchdog import Watchdog
from relay.topics.startup import Topics, check_topics
from relay.topics.table_topics import TableTopics

DEFECT = 1

#: What runs beside a relay, given its stop and its status.
Beside = Callable[[asyncio.Event, Status], AbstractAsyncContextManager[None]]


def run_service(config: Config, log: Log | None = None, translator: Translates | None = None) -> int:
    """Run the relay in this process until SIGTERM or SIGINT, and return the exit status.

    0 stopped on request, all delivered and committed, 1 a bug, 2 the user's input, 3 the environment.
    """
    tune(takes_windows=_takes_windows(config))
    log = log or Log(settings=config.log.settings)
    return asyncio.run(_run_until_signal(config, log, partial(run_until, translator=translator)))


def run_member(config: Config, log: Log, beside: Beside) -> int:
    """Run the relay as `run_service` does, in one of several processes: with something beside it, and without
    what its supervisor says for all.
    """
    tune(takes_windows=_takes_windows(config))

    async def run(stop: asyncio.Event, config: Config, log: Log, status: Status) -> int:
        async with beside(stop, status):
            return await relay_until(stop, config, log, None, status)

    return asyncio.run(_run_until_signal(config, log, run))


def _takes_windows(config: Config) -> bool:
    """Whether rows of neighbouring records are joined, which takes windows of records."""
    return config.translator().route.joining is not None


async def _run_until_signal(config: Config, log: Log, run: Callable[..., Awaitable[int]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    status = Status(About.of(config))
    try:
        with Watchdog(status, config.delivery.stall_timeout_seconds, log):
            return await run(stop, config, log, status=status)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            # One more signal while the interpreter ends must not change the exit status.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def run_until(
    stop: asyncio.Event,
    config: Config,
    log: Log,
    translator: Translates | None = None,
    status: Status | None = None,
) -> int:
    """Run the relay until `stop` is set, log what happens, and return the exit status."""
    announce(config, log)
    return await relay_until(stop, config, log, translator, status or Status(About.of(config)))


async def relay_until(
    stop: asyncio.Event, config: Config, log: Log, translator: Translates | None, status: Status
) -> int:
    """As `run_until`, of a relay that was announced."""
    try:
        with client_logs(log):
            async with serving(config.http, status, log):
                counts = await serve(stop, config, log, translator, status)
    except RecordRefused as refused:
        return _record_refused(refused, config, log, status)
    except RelayError as error:
        return _failed(error, log, status)
    except Exception as error:
        _log_defect(error, log)
        return DEFECT
    guessed = {"guessed_tables": status.guessed_tables} if status.guessed_tables else {}
    log.info("relay.stopped", records_read=counts.read, records_written=counts.written, **guessed)
    return 0


async def serve(
    stop: asyncio.Event, config: Config, log: Log, translator: Translates | None, status: Status
) -> Counts:
    """Relay until `stop` is set. Raises RecordRefused or RelayError."""
    # Once and for all: clients that replace others must not depend on files that may be gone by then.
    clusters = Clusters.from_settings(kafka.source_cluster(config), kafka.target_cluster(config))
    status.set_check("configuration", ok=True)
    translator = translator or config.translator()
    try:
        topics = await Stop(stop).unless_asked(check_topics(config, clusters))
        if topics is None:
            return Counts()
        topics.tell(log)
        async with _assembled(config, clusters, topics, log, status, translator) as relay:
            stopping = asyncio.create_task(_pass_on(stop, relay, log))
            try:
                await relay.run()
            finally:
                stopping.cancel()
            return relay.counts
    except BrokerUnavailable as error:
        raise await with_reasons(error, clusters) from error


async def _pass_on(stop: asyncio.Event, relay: Relay, log: Log) -> None:
    await stop.wait()
    log.info("relay.stopping")
    relay.request_stop()


@contextlib.asynccontextmanager
async def _assembled(
    config: Config,
    clusters: Clusters,
    topics: Topics,
    log: Log,
    status: Status,
    translator: Translates,
) -> AsyncIterator[Relay]:
    """Put the loop together for a route whose topics are known."""
    status.translator = translator
    resolver = resolver_of(config, retries=0)  # the loop itself asks again
    schemas = Schemas(config, translator, log, status, clusters, resolver_of(config))
    route = config.translator().route
    targets = None
    if config.has_table_topics:
        targets = TableTopics(config, topics, clusters.target, log, translator.partitions_of)
    limits = topics.limits if targets is None else targets.limits
    intake = Intake(
        translator,
        AsyncResolver(log, resolver, writes="to" in route.storages),
        log,
        status,
        errors=config.error_policy(topics.target_partitions.get(config.errors.dead_letter_topic, 1)),
        history_topic=config.history_topic,
        ahead=schemas.ahead,
        joins=None if route.joining is None else Joins(route.joining, limits),
        targets=targets,
    )
    source: Callable[..., KafkaSource] = partial(KafkaSource, kafka.consumer_settings(config))
    sink: Callable[..., KafkaSink] = partial(KafkaSink, kafka.producer_settings(config))
    progress = None
    if config.delivery.mode is Mode.EXACTLY_ONCE:
        source = partial(ShardSource, kafka.consumer_settings(config))
        transactional = kafka.transactional_settings(config)
        sink = partial(TransactionalSink, transactional, identity=ProducerIdentity())
        if not config.is_one_cluster:
            topic = config.delivery.progress_topic
            progress = ProgressTopic(clusters.target, topic, config.source.group_id)
    try:
        yield Relay(
            lambda: source(progress.read if progress else None, log, clusters.source),
            lambda: sink(limits, clusters.target),
            intake,
            log,
            status,
            schemas,
            check_topics=partial(_check_again, config, clusters, targets),
            timing=_timing(config),
        )
    finally:
        if progress:
            await progress.stop()


async def _check_again(config: Config, clusters: Clusters, targets: TableTopics | None) -> None:
    """Check the topics of a relay at work; those of tables are looked at when they are next written."""
    if targets is not None:
        targets.forget()
    await check_topics(config, clusters)


#: How much a round takes where tables have topics of their own: one poll would make batches of one record.
GATHER_BYTES = 8 * 1024 * 1024


def _timing(config: Config) -> Timing:
    return Timing(
        commit_interval=config.delivery.commit_interval_seconds,
        transaction_interval=config.delivery.transaction_interval_seconds,
        gather_bytes=GATHER_BYTES if config.has_table_topics else 0,
        drain=config.delivery.drain_timeout_seconds,
        # The group waits this long for us; the rest is for the commit and for joining again.
        revoke=config.source.rebalance_timeout_ms / 1000 * 2 / 3,
    )


def _record_refused(refused: RecordRefused, config: Config, log: Log, status: Status) -> int:
    """Log which record it is, and which command shows it: its content is never logged."""
    error, partition, offset = refused.error, f"{refused.topic}/{refused.partition}", refused.offset
    then = f"relay explain {partition}/{offset} --config {shlex.quote(config.file or 'relay.toml')}"
    if isinstance(error, RelayError):
        message = "; ".join([str(error), *getattr(error, "__notes__", ())])
        status.add_error("translate", error.code, f"{partition}/{offset}", message)
        log.error(
            "record.refused", partition=partition, offset=offset, code=error.code, message=message, next=then
        )
        return error.exit_status
    kind = type(error).__name__
    log.error("record.refused", partition=partition, offset=offset, code="defect", message=kind, next=then)
    _log_defect(error, log)
    return DEFECT


def _failed(error: RelayError, log: Log, status: Status) -> int:
    status.add_error("produce", error.code, "", str(error))
    log.error("relay.failed", code=error.code, message=str(error))
    return error.exit_status


def _log_defect(error: Exception, log: Log) -> None:
    log.error("relay.defect", kind=type(error).__name__, frames=frames_of(error))
