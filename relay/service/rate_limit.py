"""Limit how fast records are read: a token bucket for their number, and one for their bytes.

It knows no clock and does not wait: callers pass the time, in seconds of a steady clock. Records may exceed
what a bucket has; the debt then delays the following ones, so that the average holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from relay.config import Config

#: How much may be read at once after a pause, in seconds of the limit.
BURST_SECONDS: Final = 1.0
#: How much must be available before reading goes on, in seconds of the limit: fewer, larger rounds.
QUANTUM_SECONDS: Final = 0.1
#: How much the mean size of records follows those of the last round.
_FOLLOW: Final = 0.2


class RateLimits(NamedTuple):
    """The limits of a route, for records and bytes of keys and values a second; 0 for none."""

    records: int = 0
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.records or self.size)


NO_LIMITS: Final = RateLimits()


def rate_limits_of(config: Config) -> RateLimits:
    """Return the limits of a configuration."""
    return RateLimits(config.source.max_records_per_second, config.source.max_bytes_per_second)


class _Bucket:
    """Tokens that come at a constant rate, up to a second's worth."""

    def __init__(self, per_second: int, now: float) -> None:
        self._per_second, self._most = per_second, max(1.0, per_second * BURST_SECONDS)
        self._quantum = max(1.0, per_second * QUANTUM_SECONDS)
        self._level, self._at = self._most, now

    def level(self, now: float) -> float:
        """Return the number of tokens, negative for a debt."""
        self._level = min(self._most, self._level + max(0.0, now - self._at) * self._per_second)
        self._at = max(self._at, now)
        return self._level

    def wait_seconds(self, now: float) -> float:
        """Return the time until there are enough tokens; 0 if there are."""
        return max(0.0, (self._quantum - self.level(now)) / self._per_second)

    def take(self, tokens: int, now: float) -> None:
        """Remove tokens, also more than there are."""
        self._level = self.level(now) - tokens


class RateLimiter:
    """Applies limits to records as they are read. `limits`: at least one of them is set."""

    def __init__(self, limits: RateLimits, now: float) -> None:
        self._records = _Bucket(limits.records, now) if limits.records else None
        self._bytes = _Bucket(limits.size, now) if limits.size else None
        # Unknown before the first records.
        self._mean_bytes = 0.0

    def wait_seconds(self, now: float) -> float:
        """Return how long reading has to wait; 0 if it may go on."""
        return max((each.wait_seconds(now) for each in self._buckets()), default=0.0)

    def most_records(self, now: float) -> int:
        """Return how many records may be read now, at least one.

        For bytes it is an estimate, from the mean size of earlier records. The first time it is one.
        """
        found = []
        if self._records is not None:
            found.append(self._records.level(now))
        if self._bytes is not None:
            found.append(self._bytes.level(now) / self._mean_bytes if self._mean_bytes else 1.0)
        return max(1, math.floor(min(found)))

    def take(self, records: int, size: int, now: float) -> None:
        """Count records that were read, with `size` bytes of keys and values."""
        if not records:
            return
        mean = size / records
        self._mean_bytes += (mean - self._mean_bytes) * (_FOLLOW if self._mean_bytes else 1.0)
        if self._records is not None:
            self._records.take(records, now)
        if self._bytes is not None:
            self._bytes.take(size, now)

    def _buckets(self) -> Iterator[_Bucket]:
        yield from (each for each in (self._records, self._bytes) if each is not None)
