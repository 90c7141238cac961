"""Rate limits: the limiter with a clock of the test, and relays that it holds back."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from service.memory import A, B, Bench
from service.transport_support import MODES, both_modes, check_complete, numbered

from relay.config import Config
from relay.io.kafka.ports import Partition
from relay.model.records import ConsumerRecord
from relay.service.observe import report
from relay.service.observe.about import About
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.status import Status
from relay.service.rate_limit import BURST_SECONDS, RateLimiter, RateLimits, rate_limits_of

#: Of times and levels, which are floats.
ROUNDING = 0.01


def reading(
    limits: RateLimits, sizes: Iterable[int], turn_seconds: float = 0.0
) -> Iterator[tuple[float, int, int]]:
    """Read records of these sizes as fast as the limits allow; yield the time, and the totals read by then.

    `turn_seconds`: how long it takes to read and relay what was allowed.
    """
    limiter, now, every = RateLimiter(limits, 0.0), 0.0, iter(sizes)
    records = size = 0
    while True:
        now += limiter.wait_seconds(now)
        chunk = [each for _, each in zip(range(limiter.most_records(now)), every, strict=False)]
        if not chunk:
            return
        limiter.take(len(chunk), sum(chunk), now)
        records, size = records + len(chunk), size + sum(chunk)
        yield now, records, size
        now += turn_seconds


# ---------------------------------------------------------------- the limiter


@pytest.mark.parametrize("per_second", [1, 3, 100, 20_000])
@pytest.mark.parametrize("turn_seconds", [0.0, 0.004, 0.3])
def test_the_number_of_records_is_limited(per_second: int, turn_seconds: float) -> None:
    count = 50 * per_second
    for now, records, _ in reading(RateLimits(records=per_second), [10] * count, turn_seconds):
        assert records <= per_second * (now + BURST_SECONDS) + ROUNDING
    assert records == count
    # It takes no longer than it has to.
    assert now <= 51


@pytest.mark.parametrize("turn_seconds", [0.0, 0.3])
def test_the_number_of_bytes_is_limited(turn_seconds: float) -> None:
    """Sizes are known only after records are read, so a limit may be exceeded, and is paid back."""
    rng = random.Random(7)
    sizes = [rng.choice([0, 10, 100, 1_000, 20_000]) for _ in range(20_000)]
    limit = sum(sizes) // 50
    paid = 0.0
    for now, _, size in reading(RateLimits(size=limit), sizes, turn_seconds):
        # As of the turn before: its excess has delayed this one.
        assert paid <= limit * (now + BURST_SECONDS) + ROUNDING
        paid = size
    assert size == sum(sizes)
    assert 48 <= now <= 52


def test_the_stricter_limit_counts() -> None:
    *_, (now, _, _) = reading(RateLimits(records=100, size=10_000), [1_000] * 500)
    assert 48 <= now <= 51
    *_, (now, _, _) = reading(RateLimits(records=100, size=10_000), [1] * 5_000)
    assert 48 <= now <= 51


def test_a_pause_allows_a_second_of_records_at_once() -> None:
    limiter = RateLimiter(RateLimits(records=100), 0.0)
    assert (limiter.wait_seconds(0.0), limiter.most_records(0.0)) == (0, 100)
    limiter.take(100, 0, 0.0)
    assert limiter.wait_seconds(0.0) == pytest.approx(0.1)
    assert (limiter.wait_seconds(0.1), limiter.most_records(0.1)) == (0, 10)
    assert limiter.most_records(1_000.0) == 100


def test_an_excess_delays_what_follows() -> None:
    limiter = RateLimiter(RateLimits(size=1_000), 0.0)
    limiter.take(1, 9_000, 0.0)
    assert limiter.wait_seconds(0.0) == pytest.approx(8.1)
    assert limiter.wait_seconds(8.0) == pytest.approx(0.1)
    assert limiter.most_records(8.2) == 1


def test_a_clock_that_is_set_back_gives_nothing() -> None:
    limiter = RateLimiter(RateLimits(records=100), 1_000.0)
    limiter.take(100, 0, 1_000.0)
    assert limiter.wait_seconds(0.0) == pytest.approx(0.1)
    assert limiter.wait_seconds(1_000.0) == pytest.approx(0.1)


def test_nothing_read_changes_nothing() -> None:
    limiter = RateLimiter(RateLimits(records=100, size=100), 0.0)
    limiter.take(0, 0, 0.0)
    assert limiter.wait_seconds(0.0) == 0


def test_limits_of_the_configuration(make_limited: Any) -> None:
    assert not rate_limits_of(make_limited())
    config = make_limited(
        source_max_records_per_second=100, source_max_bytes_per_second=3, delivery_processes=4
    )
    assert rate_limits_of(config) == RateLimits(100, 3)
    # Together, processes keep within the limit, unless it is less than one each.
    assert {rate_limits_of(each) for each in config.of_processes} == {RateLimits(25, 1)}
    config = make_limited(source_max_records_per_second=100, delivery_processes=3)
    assert {rate_limits_of(each) for each in config.of_processes} == {RateLimits(33, 0)}


@pytest.fixture
def make_limited() -> Any:
    def make(**settings: Any) -> Config:
        tables: dict[str, dict[str, Any]] = {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": {"bootstrap_servers": "localhost:9092", "topics": ["in"], "group_id": "g"},
            "target": {"topic": "out"},
            "delivery": {},
        }
        for name, value in settings.items():
            table, _, key = name.partition("_")
            tables[table][key] = value
        return Config.model_validate(tables)

    return make


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_limited_loop_reads_everything(list_log: Any, transactional: bool) -> None:
    """Waiting for the limit is no sign of a consumer that hangs."""
    limits = RateLimits(records=1_000)
    bench = Bench(
        list_log,
        *(A, B),
        length=1_000,
        transactional=transactional,
        rate_limits=limits,
        stall_check_seconds=0.0,
    )
    bench.source.take = 10_000
    await bench.run_to_the_end()
    bench.check_complete()
    assert bench.status.rate_limited_seconds > 0
    assert bench.relay.counts.sources == 0


async def test_a_loop_without_limits_waits_for_none(list_log: Any) -> None:
    bench = Bench(list_log, A)
    await bench.run_to_the_end()
    assert (bench.status.rate_limited_seconds, bench.status.rate_limited_at) == (0, None)


# ---------------------------------------------------------------- what is shown


class Clock:
    """A clock of the test."""

    at = 1_000.0

    def __call__(self) -> float:
        return self.at


def exported(status: Status) -> dict[str, str]:
    text = exposition(registry_of(status), "")[0].decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith("relay_rate_limit"))
    return {name: value for name, _, value in lines}


def test_the_limit_is_shown_as_the_reason_of_lag(make_limited: Any) -> None:
    clock = Clock()
    config = make_limited(source_max_records_per_second=100)
    status, partition = Status(About.of(config), clock, steady=clock), Partition("in", 0)
    status.assigned([partition])
    status.progress(partition, position=5, end=90, timestamp_ms=None)
    shown = {"max_records_per_second": 100, "max_bytes_per_second": None}
    assert report.details(status)["rate_limit"] == shown | {"is_limiting": False, "waited_seconds": 0}
    status.rate_limited(0.25)
    assert report.details(status)["rate_limit"] == shown | {"is_limiting": True, "waited_seconds": 0.25}
    assert exported(status) == {
        'relay_rate_limit{unit="records"}': "100.0",
        "relay_rate_limited": "1.0",
        "relay_rate_limit_wait_seconds_total": "0.25",
    }
    # The target is what holds it back now.
    clock.at += 5
    assert not status.is_rate_limited
    status.rate_limited(0.25)
    status.progress(partition, position=90, end=90, timestamp_ms=None)
    assert not status.is_rate_limited
    assert exported(status)["relay_rate_limited"] == "0.0"


def test_nothing_is_shown_of_limits_that_are_not_set(make_limited: Any) -> None:
    status = Status(About.of(make_limited()))
    assert report.details(status)["rate_limit"] is None
    assert exported(status) == {}


# ---------------------------------------------------------------- Kafka


async def members_of(admin: AIOKafkaAdminClient, group: str) -> list[str]:
    (answer,) = await admin.describe_consumer_groups([group])
    ((_, _, _, _, _, members, *_),) = answer.groups
    return [member[0] for member in members]


@pytest.mark.kafka
async def test_the_group_is_not_left(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record takes more seconds of the limit than a member may be silent, and than it may go without a poll."""
    session_seconds = 6
    impatient = partial(AIOKafkaConsumer, max_poll_interval_ms=3_000)
    monkeypatch.setattr("relay.io.kafka.source.AIOKafkaConsumer", impatient)
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(
        source,
        target,
        source_max_bytes_per_second=1_000,
        source_session_timeout_ms=1_000 * session_seconds,
    )
    value = b"x" * 1_000 * (session_seconds + 3)
    await kafka.produce(
        source, [ConsumerRecord("", 0, 0, 0, None, value), ConsumerRecord("", 0, 0, 0, None, b"y")]
    )
    relay = run_relay(config, echo(target))

    async def has_read(count: int) -> bool:
        return bool(sum((await kafka.committed(config.source.group_id)).values()) == count)

    await kafka.until(lambda: has_read(1))
    members = await members_of(kafka.admin, config.source.group_id)
    limit = report.details(relay.status)["rate_limit"]
    assert limit is not None
    assert limit["is_limiting"]
    await kafka.until(lambda: has_read(2))
    assert await members_of(kafka.admin, config.source.group_id) == members
    assert relay.status.rate_limited_seconds > session_seconds
    assert await relay.stop() == 0
    assert len(relay.log.named("partitions.assigned")) == 1
    assert [each.value for each in await kafka.read(target)] == [value, b"y"]


@pytest.mark.kafka
@both_modes
async def test_rounds_keep_within_the_limit(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(600))
    # Rows that have waited for DDL would make larger rounds.
    others = dict(MODES[mode]) | {"schema_wait_for_ddl": False}
    config = make_config(source, target, source_max_records_per_second=200, **others)
    relay = run_relay(config, echo(target))

    async def has_read() -> bool:
        return bool(sum((await kafka.committed(config.source.group_id)).values()) == 600)

    await kafka.until(has_read)
    assert await relay.stop() == 0
    check_complete(await kafka.read(target, committed=True), 600, once=True)
    rounds = relay.status.batches
    assert rounds.count >= 3
    assert sum(rounds.counts[bisect_left(rounds.bounds, 250) + 1 :]) == 0
