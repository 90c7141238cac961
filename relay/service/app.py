"""Wires the service up: checks the topics, runs the loop until a signal, and turns what ended it into an exit
status.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from relay.config import Config, Mode, kafka
from relay.errors import BrokerUnavailable, RelayError
from relay.kafka.clients import Clusters
from relay.kafka.fencing import ProducerIdentity
from relay.kafka.progress import ProgressTopic
from relay.kafka.sink import KafkaSink, TransactionalSink
from relay.kafka.source import KafkaSource, ShardSource
from relay.kafka.tuning import tune
from relay.logs import ClientLogs, Log
from relay.service.check.reasons import with_reasons
from relay.service.loop.history import Schemas
from relay.service.loop.intake import Intake
from relay.service.loop.relay_loop import Relay
from relay.service.loop.resolver import AsyncResolver, Translates
from relay.service.loop.rounds import Counts, RecordRefused, Timing
from relay.service.observe.board import About, Board
from relay.service.observe.http import HttpServer
from relay.service.observe.watchdog import Watchdog
from relay.topics.startup import Topics, check_topics

DEFECT = 1


def run_service(config: Config, log: Log | None = None, translator: Translates | None = None) -> int:
    """Run the relay in this process until SIGTERM or SIGINT; gives the exit status.

    0 stopped on request with everything delivered and committed, 1 a defect, 2 the user's input, 3 the
    surroundings.
    """
    log = log or Log()
    tune()
    return asyncio.run(_run_until_signal(config, log, translator))


async def _run_until_signal(config: Config, log: Log, translator: Translates | None) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    board = Board(About.of(config))
    try:
        with Watchdog(board, config.delivery.stall_timeout_seconds, log):
            return await run_until(stop, config, log, translator, board)
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
    board: Board | None = None,
) -> int:
    """Run the relay until `stop` is set; logs what happens and gives the exit status."""
    board = board or Board(About.of(config))
    log.info(
        "relay.starting",
        source=config.source.bootstrap_servers,
        target=config.target_servers,
        topics=list(config.source.topics),
        group=config.source.group_id,
        mode=str(config.delivery.mode),
        translation=f"{config.route.from_} to {config.route.to}",
    )
    try:
        with _client_logs(log):
            async with _http(config, board, log):
                counts = await serve(stop, config, log, translator, board)
    except RecordRefused as refused:
        return _record_refused(refused, log, board)
    except RelayError as error:
        return _failed(error, log, board)
    except Exception as error:
        _log_defect(error, log)
        return DEFECT
    log.info("relay.stopped", records_read=counts.read, records_written=counts.written)
    return 0


async def serve(
    stop: asyncio.Event, config: Config, log: Log, translator: Translates | None, board: Board
) -> Counts:
    """Relay until `stop` is set. Raises RecordRefused or RelayError."""
    # Once and for all: clients that replace others must not depend on files that may be gone by then.
    clusters = Clusters.from_settings(kafka.source_cluster(config), kafka.target_cluster(config))
    board.check("configuration", ok=True)
    try:
        return await _serve(stop, config, clusters, log, board, translator or config.translator())
    except BrokerUnavailable as error:
        raise await with_reasons(error, clusters) from error


async def _serve(
    stop: asyncio.Event,
    config: Config,
    clusters: Clusters,
    log: Log,
    board: Board,
    translator: Translates,
) -> Counts:
    checking, stopping = asyncio.create_task(check_topics(config, clusters)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({checking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not checking.done():
            return Counts()
    finally:
        stopping.cancel()
        checking.cancel()
        await asyncio.wait({checking, stopping})
    topics = checking.result()
    topics.tell(log)
    async with _assembled(config, clusters, topics, log, board, translator) as relay:
        running = asyncio.create_task(relay.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                log.info("relay.stopping")
                relay.request_stop()
            await running
        finally:
            stopping.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        return relay.counts


@contextlib.asynccontextmanager
async def _assembled(
    config: Config, clusters: Clusters, topics: Topics, log: Log, board: Board, translator: Translates
) -> AsyncIterator[Relay]:
    """Put the loop together for a route whose topics are known."""
    is_exact = config.delivery.mode is Mode.EXACTLY_ONCE
    board.translator = translator
    progress = None
    if is_exact and not config.is_one_cluster:
        topic = config.delivery.progress_topic
        progress = ProgressTopic(clusters.target, topic, config.source.group_id)
    schemas = Schemas(config, translator, log, board, clusters)
    intake = Intake(
        translator,
        AsyncResolver(log, writes="to" in config.translator().route.storages),
        log,
        board,
        errors=config.error_policy(topics.target_partitions.get(config.errors.dead_letter_topic, 1)),
        history_topic=config.history_topic,
        ahead=schemas.ahead,
    )
    source = partial(ShardSource if is_exact else KafkaSource, kafka.consumer_settings(config))
    sink: Callable[..., KafkaSink] = partial(KafkaSink, kafka.producer_settings(config))
    if is_exact:
        settings = kafka.transactional_settings(config)
        sink = partial(TransactionalSink, settings, identity=ProducerIdentity())
    try:
        yield Relay(
            lambda: source(progress.read if progress else None, log, clusters.source),
            lambda: sink(topics.limits, clusters.target),
            intake,
            log,
            board,
            schemas,
            check_topics=lambda: check_topics(config, clusters),
            timing=_timing(config),
        )
    finally:
        if progress:
            await progress.stop()


def _timing(config: Config) -> Timing:
    return Timing(
        commit_interval=config.delivery.commit_interval_seconds,
        transaction_interval=config.delivery.transaction_interval_seconds,
        drain=config.delivery.drain_timeout_seconds,
        # The group waits this long for us; the rest is for the commit and for joining again.
        revoke=config.source.rebalance_timeout_ms / 1000 * 2 / 3,
    )


@contextlib.asynccontextmanager
async def _http(config: Config, board: Board, log: Log) -> AsyncIterator[None]:
    """Serve health, metrics and status, if they are wanted."""
    if not config.http.port:
        yield
        return
    async with HttpServer(config.http.host, config.http.port, board, log=log):
        yield


@contextlib.contextmanager
def _client_logs(log: Log) -> Iterator[None]:
    handler = ClientLogs(log)
    # asyncio tells of the client's own futures that nobody looked at.
    names = ("aiokafka", "asyncio")
    for name in names:
        handler.attach(name)
    try:
        yield
    finally:
        for name in names:
            handler.detach(name)


def _record_refused(refused: RecordRefused, log: Log, board: Board) -> int:
    """Say which record it is; its position is what an operator needs, and its content is never logged."""
    error = refused.error
    place = f"{refused.topic}/{refused.partition}"
    if isinstance(error, RelayError):
        message = "; ".join([str(error), *getattr(error, "__notes__", ())])
        board.failed("translate", error.code, f"{place}/{refused.offset}", message)
        log.error("record.refused", partition=place, offset=refused.offset, code=error.code, message=message)
        return error.exit_status
    log.error(
        "record.refused", partition=place, offset=refused.offset, code="defect", message=type(error).__name__
    )
    _log_defect(error, log)
    return DEFECT


def _failed(error: RelayError, log: Log, board: Board) -> int:
    board.failed("produce", error.code, "", str(error))
    log.error("relay.failed", code=error.code, message=str(error))
    return error.exit_status


def _log_defect(error: Exception, log: Log) -> None:
    """Log where a defect is. The exception's text is left out: it may hold a row's values."""
    frames = [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    log.error("relay.defect", kind=type(error).__name__, frames=frames)
