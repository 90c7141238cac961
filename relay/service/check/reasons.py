"""Find out why brokers cannot be reached.

aiokafka reports a wrong password, an untrusted certificate and a closed port alike.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal, TypeAlias

from relay.io.kafka.clients import Clusters
from relay.model.errors import BrokerUnavailable
from relay.service.check.route import diagnosis

Side: TypeAlias = Literal["source", "target"]
#: Minimum interval between attempts, and their timeout: relay waits for the result.
_PAUSE_SECONDS: Final = 10.0
_SECONDS: Final = 5.0


async def with_reasons(error: BrokerUnavailable, clusters: Clusters) -> BrokerUnavailable:
    """Return the error, extended with the problem of each address of both clusters.

    Returns it unchanged if all addresses work now.
    """
    wrong = [await diagnosis(clusters.source)]
    if clusters.target is not clusters.source:
        wrong.append(await diagnosis(clusters.target))
    found = ". ".join(filter(None, dict.fromkeys(wrong)))
    return BrokerUnavailable(found) if found else error


class Reasons:
    """Find the reasons of an outage while relay runs."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._found: dict[Side, str] = {}
        self._next_at: dict[Side, float] = {}

    async def find(self, side: Side) -> str:
        """Return why a cluster's brokers cannot be reached; "" if they can, or if the reason is unknown."""
        if time.monotonic() >= self._next_at.get(side, 0.0):
            self._found[side] = ""
            try:
                async with asyncio.timeout(_SECONDS):
                    self._found[side] = await diagnosis(getattr(self._clusters, side))
            except TimeoutError:
                pass
            self._next_at[side] = time.monotonic() + _PAUSE_SECONDS
        return self._found[side]
