"""A request to stop, which cuts waits short."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


class Stop:
    """An event that is set once, from outside."""

    def __init__(self, event: asyncio.Event | None = None) -> None:
        event = event or asyncio.Event()
        self.set, self.is_set, self.wait = event.set, event.is_set, event.wait

    async def unless_asked(self, work: Coroutine[object, object, T]) -> T | None:
        """Return the result of the work, or None as soon as a stop is requested.

        Then, or if the caller is cancelled, the work is cancelled, too. That is the only time a start or a
        poll is cancelled: whatever state this leaves the source in, it is closed next.
        """
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def sleep(self, seconds: float) -> None:
        """Wait for this long, or until a stop is requested."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)
