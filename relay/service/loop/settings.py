"""Intervals, time limits and sizes of the loop, of which the configuration has only some."""

from __future__ import annotations

from dataclasses import dataclass

from relay.io.kafka.settings import DEFAULT_TIMEOUTS, Timeouts
from relay.service.rate_limit import NO_LIMITS, RateLimits


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """Intervals, time limits and sizes of the loop.

    commit_interval_seconds, transaction_interval_seconds: Between two commits of offsets, and of
        transactions.
    drain_seconds: How long a stop waits for acknowledgements and the last commit.
    revoke_seconds: The same for partitions that are revoked, while the group waits.
    max_in_flight: How many rounds may be in flight at once.
    round_seconds: Longest time of a round; the rest of its poll waits for the next one. A transaction must
        not outlive its time, however slow a storage is.
    gather_bytes: Maximum bytes of a round, as read or, where records grow, as written; 0 for one poll per
        round.
    gather_poll_bytes: Minimum bytes of a poll for another one to follow it in a round.
    first_growth: Assumed growth of messages before the first round has measured it: a small row with a
        Debezium schema.
    held_bytes: Once records that wait for DDL exceed this many bytes, no more records that might have to wait
        are polled.
    backoff_seconds: Waits after failures, by their number in a row; the last one for all further ones.
    stall_check_seconds: Time without records after which the loop tests whether any wait.
    refresh_seconds: How often offsets of transactions are committed again, moved or not. The group has no
        members, so brokers forget its offsets after `offsets.retention.minutes`, and tools that tidy up may
        delete it at any time.
    rate_limits: How fast records may be read.
    check_seconds: Between two updates of the checks of the brokers.
    retry_seconds: Waits between attempts to fetch or store the external data of a record. An object store may
        show an object later than the message that refers to it.
    timeouts: Time limits of the Kafka clients.
    """

    commit_interval_seconds: float = 1.0
    transaction_interval_seconds: float = 0.1
    drain_seconds: float = 20.0
    revoke_seconds: float = 40.0
    max_in_flight: int = 2
    round_seconds: float = 10.0
    gather_bytes: int = 0
    gather_poll_bytes: int = 65_536
    first_growth: float = 8.0
    held_bytes: int = 8_388_608
    backoff_seconds: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)
    stall_check_seconds: float = 10.0
    refresh_seconds: float = 60.0
    rate_limits: RateLimits = NO_LIMITS
    check_seconds: float = 0.5
    retry_seconds: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    timeouts: Timeouts = DEFAULT_TIMEOUTS


DEFAULT_SETTINGS = LoopSettings()
