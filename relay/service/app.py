"""Wires the service up: checks the topics, runs the loop until a signal, and turns what ended it into an exit status."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import traceback
from collections.abc import Iterator

from relay.config import Config
from relay.errors import RelayError
from relay.service.kafka import KafkaSink, KafkaSource
from relay.service.logs import ClientLogs, Log
from relay.service.loop import Relay
from relay.service.objects import Objects, Translates
from relay.service.state import Counts, RecordRefused, Timing
from relay.service.topics import check_topics
from relay.service.tuning import tune

DEFECT = 1


def run_service(config: Config, log: Log | None = None, translator: Translates | None = None) -> int:
    """Run the relay in this process until SIGTERM or SIGINT; gives the exit status.

    0 stopped on request with everything delivered and committed, 1 a defect, 2 the user's input, 3 the surroundings.
    """
    log = log or Log()
    tune()
    return asyncio.run(_run_until_signal(config, log, translator))


async def _run_until_signal(config: Config, log: Log, translator: Translates | None) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await run_until(stop, config, log, translator)


async def run_until(stop: asyncio.Event, config: Config, log: Log, translator: Translates | None = None) -> int:
    """Run the relay until `stop` is set; logs what happens and gives the exit status."""
    log.info(
        "relay.starting",
        source=config.source.bootstrap_servers,
        target=config.target_servers,
        topics=list(config.source.topics),
        group=config.source.group_id,
        translation=f"{config.route.from_} to {config.route.to}",
    )
    try:
        with _client_logs(log):
            counts = await serve(stop, config, log, translator)
    except RecordRefused as refused:
        return _record_refused(refused, log)
    except RelayError as error:
        return _failed(error, log)
    except Exception as error:
        _log_defect(error, log)
        return DEFECT
    log.info("relay.stopped", records_read=counts.read, records_written=counts.written)
    return 0


async def serve(stop: asyncio.Event, config: Config, log: Log, translator: Translates | None = None) -> Counts:
    """Relay until `stop` is set. Raises RecordRefused or RelayError."""
    checking, stopping = asyncio.create_task(check_topics(config)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({checking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not checking.done():
            return Counts()
    finally:
        stopping.cancel()
        checking.cancel()
        await asyncio.wait({checking, stopping})
    limits = checking.result()
    made = config.translator()
    relay = Relay(
        KafkaSource(config),
        lambda: KafkaSink(config, limits),
        translator or made,
        log,
        Timing(
            commit_interval=config.delivery.commit_interval_seconds,
            drain=config.delivery.drain_timeout_seconds,
            # The group waits this long for us; the rest is for the commit and for joining again.
            revoke=config.source.rebalance_timeout_ms / 1000 * 2 / 3,
        ),
        Objects(log, writes="to" in made.storages),
    )
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


@contextlib.contextmanager
def _client_logs(log: Log) -> Iterator[None]:
    handler = ClientLogs(log)
    handler.attach()
    try:
        yield
    finally:
        handler.detach()


def _record_refused(refused: RecordRefused, log: Log) -> int:
    """Say which record it is; its position is what an operator needs, and its content is never logged."""
    error = refused.error
    place = f"{refused.topic}/{refused.partition}"
    if isinstance(error, RelayError):
        log.error("record.refused", partition=place, offset=refused.offset, code=error.code, message=str(error))
        return error.exit_status
    log.error("record.refused", partition=place, offset=refused.offset, code="defect", message=type(error).__name__)
    _log_defect(error, log)
    return DEFECT


def _failed(error: RelayError, log: Log) -> int:
    log.error("relay.failed", code=error.code, message=str(error))
    return error.exit_status


def _log_defect(error: Exception, log: Log) -> None:
    """Log where a defect is. The exception's text is left out: it may hold a row's values."""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("relay.defect", kind=type(error).__name__, frames=frames)
