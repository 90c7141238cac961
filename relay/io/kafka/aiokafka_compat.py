"""Workarounds shared by all clients of aiokafka 0.14: deadlines for calls that may never end, and levels of
compression.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from aiokafka import codec
from aiokafka.errors import NoError, for_code
from aiokafka.record.default_records import DefaultRecordBase, DefaultRecordBatchBuilder

from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.reconnecting import keep_connected, retrieve
from relay.io.kafka.settings import Compression
from relay.model.errors import BrokerUnavailable

#: Time limits of admin clients and of consumers that read without a group; other clients have `Timeouts`.
#: The grace is for all.
REQUEST_SECONDS = 30.0
STOP_SECONDS = 5.0
GRACE_SECONDS = 2.0
#: Consumers that are being stopped.
_stopping: Final[set[asyncio.Future[None]]] = set()


def set_compression_level(compression: Compression, level: int) -> None:
    """Let all producers of this process compress with a level.

    A producer has no setting for it. The module that builds batches calls functions that take a level.
    """
    if compression in _LEVELS:
        name, _ = _LEVELS[compression]
        setattr(sys.modules[DefaultRecordBatchBuilder.__module__], name, _compress(compression, level))


def compressor(compression: Compression, level: int) -> tuple[int, Callable[[bytes], bytes]] | None:
    """Return a compression's number in the attributes of a batch, and its function; None for none."""
    if compression is Compression.NONE:
        return None
    return _NUMBERS[compression], _compress(compression, level)


_LEVELS: Final[dict[Compression, tuple[str, str]]] = {
    Compression.GZIP: ("gzip_encode", "compresslevel"),
    Compression.LZ4: ("lz4_encode", "level"),
    Compression.ZSTD: ("zstd_encode", "level"),
}
_NUMBERS: Final = {
    Compression.GZIP: DefaultRecordBase.CODEC_GZIP,
    Compression.SNAPPY: DefaultRecordBase.CODEC_SNAPPY,
    Compression.LZ4: DefaultRecordBase.CODEC_LZ4,
    Compression.ZSTD: DefaultRecordBase.CODEC_ZSTD,
}


def _compress(compression: Compression, level: int) -> Callable[[bytes], bytes]:
    if compression not in _LEVELS:
        compress: Callable[[bytes], bytes] = codec.snappy_encode
        return compress
    name, argument = _LEVELS[compression]
    return partial(getattr(codec, name), **{argument: level})


def client_of(owner: Any) -> Any:
    """Return the AIOKafkaClient of a consumer, a producer or an admin client.

    Only a producer has a public name for it.
    """
    return getattr(owner, "client", None) or owner._client


def check(code: int, *what: str) -> None:
    """Raise the KafkaError for a code in an answer, if any. `what`: its subject."""
    error = for_code(code)
    if error is not NoError:
        raise error(*what)


async def within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Run a coroutine that should end; return False if it failed or did not end in time.

    It runs in a separate task, because aiokafka's `stop` may raise a CancelledError without a cancellation.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(retrieve)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    return task.done() and not task.cancelled() and task.exception() is None


async def started(seconds: float, owner: Any, brokers: Brokers, health: ClientHealth | None = None) -> None:
    """Start a consumer, producer or admin client, whose requests `health` observes.

    Raises TimeoutError, KafkaError. A start that is cancelled leaves its first connection open, which only
    aiokafka knows. So it first gets some time to end by itself: milliseconds are enough if a broker answers.
    """
    client = client_of(owner)
    # Both replace the client's method that connects. Reconnecting wraps observing, so that only attempts to
    # connect are observed, and none that waits for its turn.
    if health is not None:
        health.observe(client)
    keep_connected(client, brokers)
    task = asyncio.ensure_future(owner.start())
    task.add_done_callback(retrieve)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
            task.cancel()
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    task.result()


async def stopped(consumer: Any, seconds: float = STOP_SECONDS) -> None:
    """Stop a consumer, started or not. A cancellation of the caller does not interrupt it.

    `seconds`: time limit of the consumer's own stop.
    """
    stopping = asyncio.ensure_future(_stop(consumer, seconds))
    # The loop keeps no reference to a task that nobody waits for.
    _stopping.add(stopping)
    stopping.add_done_callback(_stopping.discard)
    await asyncio.shield(stopping)


async def _stop(consumer: Any, seconds: float) -> None:
    """Stop a consumer. If its own stop fails or hangs, it has not reached its tasks: stop them one by one."""
    if await within(seconds, consumer.stop()):
        return
    for name in ("_coordination_task", "_heartbeat_task", "_commit_refresh_task"):
        task = getattr(consumer._coordinator, name, None)
        if task is not None:
            task.cancel()
    for part in (consumer._fetcher, consumer._client):
        if part is not None:
            await within(GRACE_SECONDS, part.close())


def unreachable(servers: str, error: BaseException) -> BrokerUnavailable:
    """Return the error for a first connection that failed."""
    return BrokerUnavailable(
        f"no broker answers at {servers}: {text_of(error)}; check the addresses and that the brokers are up"
    )
