"""Log in the background: checks that fail or recover, and how many lines were left out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from relay.io.logs import Log
from relay.service.observe.status import Status

LOOK_SECONDS: Final = 1.0
#: The component that works again, by the check that failed.
_WORDS: Final = {
    "source": "the source brokers respond again",
    "source-topics": "the source topics are available again",
    "target": "the target accepts records again",
    "topics": "the topics are usable again",
    "offline-partitions": "all partitions have leaders again",
    "schema-history": "the schema history is readable again",
    "commit": "offsets are committed again",
    "records": "records can be relayed again",
}


@contextlib.asynccontextmanager
async def logging_recovery(
    log: Log, status: Status, look_seconds: float = LOOK_SECONDS
) -> AsyncIterator[None]:
    """Log failing and recovered checks during an `async with` block, and at its end how many lines were
    suppressed.

    `look_seconds`: how often to look for lines that were left out.
    """
    status.on_failure = partial(_log_failure, log)
    status.on_recovery = partial(_log_recovery, log)
    counting = asyncio.create_task(_report_suppressed(log, look_seconds))
    try:
        yield
    finally:
        counting.cancel()
        status.on_failure = status.on_recovery = None
        log.log_suppressed(at_once=True)


def _log_failure(log: Log, check: str, detail: str) -> None:
    log.warning("check.failing", check=check, message=detail)


def _log_recovery(log: Log, check: str, seconds: float) -> None:
    message = f"{_WORDS[check]}, after {_duration_text(seconds)}"
    log.info("connection.recovered", check=check, seconds=round(seconds, 1), message=message)


async def _report_suppressed(log: Log, look_seconds: float) -> None:
    while True:
        await asyncio.sleep(look_seconds)
        log.log_suppressed()


def _duration_text(seconds: float) -> str:
    """Return a duration as text: `3 min 20 s`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or f"{seconds:.1f} s"
