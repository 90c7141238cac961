"""The source topics of a running relay: fixed, or found by a pattern, so that they come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable


class TopicsToRead:
    """The names of the topics that the current source reads. A source takes new names at its next poll."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._assigned = asyncio.Event()

    def assigned(self) -> None:
        """Note a rebalance that others have caused: a member of the group may have found topics."""
        self._assigned.set()

    async def until_assigned(self, most_seconds: float) -> bool:
        """Wait for the next assignment of partitions, at most so long; return whether there was one."""
        self._assigned.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                await self._assigned.wait()
        return self._assigned.is_set()
