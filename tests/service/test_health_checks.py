"""The checks of the brokers, set from what requests show while the loop itself waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from service.memory import A, B, Bench, Copy, until

from relay.core.error_policies import ErrorPolicies, Policy
from relay.io.kafka.ports import Fault, FaultKind, Partition
from relay.model.errors import Malformed
from relay.model.events import TableId
from relay.model.records import ConsumerRecord
from relay.service.loop.health_checks import HealthChecks


class Health:
    """What requests show, as a test says it."""

    observes = True

    def __init__(self) -> None:
        self.answered_at = float("-inf")
        self.missing_topics: list[str] = []
        self.offline: list[Partition] = []
        self.found: list[Fault] = []
        self.asked = 0

    def faults(self) -> list[Fault]:
        return sorted(self.found)

    def ask(self) -> None:
        self.asked += 1

    def fails(self, kind: FaultKind, detail: str, **more: bool) -> None:
        now = time.monotonic()
        self.found.append(Fault(kind, detail, now, now, **more))

    def answers(self) -> None:
        self.found.clear()
        self.answered_at = time.monotonic()


class Checked:
    """A relay whose clients have such health. Nobody looks at it but the test."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.source, self.sink = bench, Health(), Health()
        bench.source.health = self.source  # type: ignore[assignment]  # what the protocol asks for
        bench.target.sinks[0].health = self.sink  # type: ignore[assignment]  # what the protocol asks for
        self.checks: HealthChecks = bench.relay.checks

    def failing(self) -> dict[str, str]:
        """The failing checks, with their words, after a look."""
        self.checks.look()
        return {name: each.detail for name, each in self.bench.status.checks.items() if not each.ok}


class Learning(Copy):
    """Takes nothing from a record that cannot be relayed."""

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        return ()


@pytest.fixture
def checked(list_log: Any) -> Checked:
    return Checked(Bench(list_log, A, B, check_seconds=3600.0))


async def test_a_target_that_refused_is_ok_when_it_has_acknowledged_something(checked: Checked) -> None:
    bench = checked.bench
    bench.target.gate.clear()
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: checked.failing() == {} and (bench.status.in_flight or 0) > 0)
    checked.sink.fails(FaultKind.REFUSED, "out/0: NOT_ENOUGH_REPLICAS")
    assert checked.failing() == {"target": "out/0: NOT_ENOUGH_REPLICAS"}
    assert bench.status.checks["target"].reason == "refused"
    checked.sink.answers()
    assert "target" in checked.failing()
    bench.target.gate.set()
    await until(lambda: checked.failing() == {})
    bench.relay.request_stop()
    await running


async def test_an_idle_target_is_ok_when_a_broker_has_answered(checked: Checked) -> None:
    checked.sink.fails(FaultKind.UNREACHABLE, "no connection to kafka:9092")
    assert "target" in checked.failing()
    checked.sink.found.clear()
    before = checked.sink.asked
    assert "target" in checked.failing()
    assert checked.sink.asked > before
    checked.sink.answers()
    assert checked.failing() == {}


async def test_a_failed_poll_is_over_with_a_poll_that_succeeds(checked: Checked) -> None:
    checked.checks.failed("source", "the record is corrupt")
    checked.source.answers()
    assert checked.failing() == {"source": "the record is corrupt"}
    checked.checks.polled()
    assert checked.failing() == {}


async def test_topics_and_leaders_that_are_gone_have_checks_of_their_own(checked: Checked) -> None:
    assert checked.failing() == {}
    checked.source.fails(FaultKind.REFUSED, "in: no such topic", is_missing=True)
    checked.source.missing_topics = ["in", "nobody's"]
    assert checked.failing() == {"source-topics": "in at b:1: no such topic"}
    checked.source.missing_topics, checked.sink.offline = [], [Partition("out", 3)]
    checked.source.answers()
    assert checked.failing() == {"offline-partitions": "no leader for out/3 of the target"}
    assert checked.bench.status.offline["target"] == {Partition("out", 3)}
    checked.sink.offline = []
    assert checked.failing() == {}


async def test_a_coordinator_that_does_not_answer_fails_the_check_of_commits(checked: Checked) -> None:
    checked.source.fails(FaultKind.UNANSWERED, "no answer from kafka:9092 for 6 s", group=True)
    assert checked.failing() == {"commit": "no answer from kafka:9092 for 6 s"}
    checked.source.answers()
    assert checked.failing() == {}


async def test_a_topic_that_relay_writes_and_that_is_gone_is_to_be_created(checked: Checked) -> None:
    assert checked.checks.look() is False
    checked.sink.fails(FaultKind.REFUSED, "relay.dead: no such topic", is_missing=True)
    assert checked.checks.look() is True


async def test_what_is_given_up_counts_once_the_target_has_acknowledged_it(list_log: Any) -> None:
    """Also after a failed delivery, after which it comes once more."""
    bench = Bench(list_log, A, B, copy=Learning(), errors=ErrorPolicies({"decode": Policy.SKIP}))
    bench.copy.refuse = {4: Malformed("echo", "value", "is poison")}
    bench.target.gate.clear()
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bench.status.errors.total() > 0)
    assert (bench.status.skips.total(), bench.log.named("record.skipped")) == (0, [])
    bench.target.gate.set()
    everything = dict.fromkeys(bench.source.every, bench.source.length)
    await until(lambda: bench.source.committed == everything)
    bench.relay.request_stop()
    await running
    assert bench.status.skips.total() == len(bench.source.every)
    assert bench.log.named("record.skipped")
