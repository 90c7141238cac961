"""What source and sink over aiokafka 0.14 share: deadlines for clients that do not end, and words for their
errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

from aiokafka import ConsumerRecord as KafkaRecord
from aiokafka.errors import NoError, for_code

from relay.errors import BrokerUnavailable
from relay.records import ConsumerRecord

REQUEST_SECONDS = 30.0
STOP_SECONDS = 5.0
GRACE_SECONDS = 2.0
METADATA_PAUSE_SECONDS = 0.1


def retrieve(future: asyncio.Future[Any]) -> None:
    """Look at a batch's failure even if nobody awaits it any more; asyncio would report it as forgotten."""
    if not future.cancelled():
        future.exception()


def text_of(error: BaseException) -> str:
    """Give the error's kind and what it says."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def check(code: int, *what: str) -> None:
    """Raise the KafkaError of a code in an answer, if it is one; `what` it is about."""
    error = for_code(code)
    if error is not NoError:
        raise error(*what)


async def within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Run something that should end; False if it failed or did not end in time.

    It gets a task of its own: aiokafka's `stop` may end in a CancelledError that is nobody's cancellation.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(retrieve)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    return task.done() and not task.cancelled() and task.exception() is None


async def started(seconds: float, client: Any) -> None:
    """Start a client. Raises TimeoutError, KafkaError.

    A start that is cut off leaves its first connection open, which nobody knows but aiokafka itself. So it
    gets some time to come to an end before that: with a broker that answers, milliseconds are enough.
    """
    task = asyncio.ensure_future(client.start())
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


async def stopped(consumer: Any) -> None:
    """Stop a consumer, started or not. With silent brokers its own stop never gets to its tasks: then it is
    taken apart.
    """
    if await within(STOP_SECONDS, consumer.stop()):
        return
    for name in ("_coordination_task", "_heartbeat_task", "_commit_refresh_task"):
        task = getattr(consumer._coordinator, name, None)
        if task is not None:
            task.cancel()
    for part in (consumer._fetcher, consumer._client):
        if part is not None:
            await within(GRACE_SECONDS, part.close())


def pace_metadata(client: Any) -> None:
    """Have a client ask for metadata only now and then: its sender, when a topic is gone, asks again as soon
    as it is answered.
    """
    update, next_at = client.force_metadata_update, 0.0
    later: asyncio.Future[bool] | None = None

    def ask() -> asyncio.Future[bool]:
        nonlocal next_at
        next_at = asyncio.get_running_loop().time() + METADATA_PAUSE_SECONDS
        return cast("asyncio.Future[bool]", update())

    def ask_later(asked: asyncio.Future[bool]) -> None:
        ask()
        asked.set_result(False)

    def paced() -> asyncio.Future[bool]:
        nonlocal later
        loop = asyncio.get_running_loop()
        if (left := next_at - loop.time()) <= 0:
            return ask()
        if later is None or later.done():
            later = loop.create_future()
            loop.call_later(left, ask_later, later)
        return asyncio.shield(later)

    client.force_metadata_update = paced


def unreachable(servers: str, error: BaseException) -> BrokerUnavailable:
    """Make the error of a first connection that failed."""
    return BrokerUnavailable(
        f"no broker answers at {servers}: {text_of(error)}; check the addresses and that the brokers are up"
    )


def relay_records(records: Sequence[KafkaRecord] | Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """The client's records in relay's own type; in a tuned process (`relay.kafka.tuning`) they come in it."""
    if records and isinstance(records[0], ConsumerRecord):
        return cast("Sequence[ConsumerRecord]", records)
    return [
        ConsumerRecord(
            each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, tuple(each.headers)
        )
        for each in cast("Sequence[KafkaRecord]", records)
    ]
