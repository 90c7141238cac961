"""The error budget: a topic of another format, and a producer gone wrong, do not look like a relay at work."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from service.memory import Target, plain_status
from status_support import Clock, Translated, make_status, running_status
from support import CANAL, TICDC, record, row_message

from relay import Translator
from relay.config.keys import Errors, OverBudget
from relay.core.error_policies import ErrorPolicies, Policy
from relay.model.errors import Malformed, TooManyFailures
from relay.model.records import RecordPosition
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.error_budget import CHECK, ErrorBudget
from relay.service.loop.offset_tracker import InFlightBatch, Owned
from relay.service.loop.translation_stage import TranslationStage
from relay.service.observe import report
from relay.service.observe.status import Status

GARBAGE = Malformed(CANAL, "", "Object missing required field `type`")


class Trial:
    """A budget of a relay that reads one record after the other, each second one."""

    def __init__(self, **wanted: Any) -> None:
        self.clock, self.translated = Clock(), Translated()
        self.status: Status = running_status(self.clock, self.translated)
        self.offset = 0
        self.budget = ErrorBudget(
            Errors(**wanted), CANAL, self.translated, self.status, steady=lambda: self.clock.steady
        )

    def fails(self, times: int = 1) -> TooManyFailures | None:
        found = None
        for _ in range(times):
            self.offset += 1
            found = found or self.budget.spend(GARBAGE, RecordPosition("orders", 0, self.offset))
            self._passes()
        return found

    def reads(self, times: int = 1, kind: str = "insert") -> None:
        for _ in range(times):
            self.translated.events[kind] += 1
            self._passes()

    def waits(self, seconds: int) -> None:
        for _ in range(seconds):
            self._passes()

    def _passes(self) -> None:
        self.clock.passes(1)
        self.budget.look()

    @property
    def check(self) -> str:
        return str(report.readiness(self.status)["checks"].get(CHECK))


def test_a_topic_of_another_format_ends_the_run() -> None:
    trial = Trial()
    assert trial.fails(20) is None
    found = trial.fails()
    assert found is not None
    assert (found.code, found.exit_status) == ("too-many-failures", 2)
    assert "none of the first 21 records could be relayed" in str(found)
    assert "Object missing required field `type`" in str(found)
    assert "Is `from`, canal-json, the protocol of these topics?" in str(found)


def test_on_request_such_a_run_goes_on_and_says_so() -> None:
    trial = Trial(on_max_initial_failures="degrade")
    assert trial.fails(54) is None
    assert trial.check == (
        "failing: nothing was relayed since the start: 54 of 54 records failed (decode.malformed)"
    )
    trial.waits(3600)
    assert report.readiness(trial.status)["degraded"]
    assert report.details(trial.status)["degraded"]
    assert trial.fails(5_000) is None


@pytest.mark.parametrize("max_initial_failures", [0, 100])
def test_as_many_may_fail_as_is_configured(max_initial_failures: int) -> None:
    trial = Trial(max_initial_failures=max_initial_failures)
    assert trial.fails(100) is None
    assert trial.check.startswith("failing: nothing was relayed since the start: 100 of 100")
    assert (trial.fails() is None) == (max_initial_failures == 0)


def test_the_first_failure_is_no_good_start_either_until_something_gets_through() -> None:
    trial = Trial()
    assert trial.check == "None"
    trial.fails()
    assert trial.check.startswith("failing: nothing was relayed since the start: 1 of 1 records")
    trial.reads()
    assert trial.check == "ok"
    assert trial.fails(19) is None


def test_watermarks_alone_are_nothing_that_was_relayed() -> None:
    trial = Trial()
    trial.reads(100, "watermark")
    trial.fails(20)
    assert trial.check.startswith("failing: nothing was relayed")
    assert trial.fails() is not None


def test_records_that_fail_again_after_a_failed_delivery_count_once() -> None:
    trial = Trial()
    for _ in range(10):
        trial.offset = 0
        assert trial.fails(5) is None


def test_a_share_that_fails_degrades_until_it_is_small_again() -> None:
    trial = Trial(failure_window_seconds=60)
    trial.reads(400)
    assert trial.fails(19) is None
    assert trial.check == "ok"
    trial.fails()
    assert trial.check == (
        "failing: 20 of 60 records, rows and statements failed within 60 s (decode.malformed), more than the "
        "ratio of 0.1"
    )
    assert trial.fails(100) is None
    trial.reads(120)
    assert trial.check == "ok"


def test_few_failures_among_many_are_within_the_budget() -> None:
    trial = Trial(failure_window_seconds=100)
    for _ in range(100):
        trial.reads(10)
        assert trial.fails() is None
    assert trial.check == "ok"


def test_a_share_that_fails_ends_the_run_on_request() -> None:
    trial = Trial(
        on_max_failure_ratio="stop", failure_window_seconds=60, min_failures=3, max_failure_ratio=0.5
    )
    trial.reads(2)
    assert trial.fails(3) is None
    found = trial.fails()
    assert found is not None
    assert "3 of 5 records, rows and statements failed" not in str(found)
    assert "4 of 6 records, rows and statements failed within 60 s" in str(found)


def test_a_share_of_one_is_never_exceeded() -> None:
    trial = Trial(max_failure_ratio=1.0, on_max_failure_ratio=OverBudget.STOP)
    trial.reads()
    assert trial.fails(1000) is None
    assert trial.check == "ok"


@pytest.mark.parametrize("policy", [Policy.SKIP, Policy.DEAD_LETTER])
async def test_the_loop_ends_before_the_record_that_is_too_much(policy: Policy, list_log: Any) -> None:
    """What was given up before it is written, and so is what came between."""
    translator, status = Translator(CANAL, TICDC, topic="out"), plain_status()
    target = Target()
    sink, current = target.sink(), InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = math.inf
    stage = TranslationStage(
        translator,
        AsyncResolver(list_log, writes=False),
        list_log,
        status,
        errors=ErrorPolicies({"decode": policy}, "dead"),
        budget=ErrorBudget(Errors(max_initial_failures=3), CANAL, translator, status),
    )
    builder = stage.builder(current, sink, lambda: False)
    records = [record({"id": 1}, offset=offset) for offset in range(10)]
    assert await builder.take(records, Owned(0, 0, None)) == 3
    await builder.send_rest()
    await sink.delivered(current.pending)
    assert [each.topic for each in target.records] == ["dead"] * (3 if policy is Policy.DEAD_LETTER else 0)
    assert current.refused is not None
    assert (current.refused.offset, type(current.refused.error)) == (3, TooManyFailures)
    assert [each.policy for each in current.given_up] == [policy] * 3


async def test_a_row_before_them_makes_them_no_wrong_format(list_log: Any) -> None:
    translator, status = Translator(CANAL, TICDC, topic="out"), plain_status()
    current = InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = math.inf
    stage = TranslationStage(
        translator,
        AsyncResolver(list_log, writes=False),
        list_log,
        status,
        errors=ErrorPolicies({"decode": Policy.SKIP}),
        budget=ErrorBudget(Errors(max_initial_failures=3), CANAL, translator, status),
    )
    rows = [record(row_message({"id": "varchar(9)"}, {"id": "1"}), offset=0)]
    builder = stage.builder(current, Target().sink(), lambda: False)
    records = [*rows, *(record({"id": 1}, offset=offset) for offset in range(1, 10))]
    assert await builder.take(records, Owned(0, 0, None)) == 10
    assert current.refused is None


def test_the_budget_is_not_reported_if_every_failure_ends_the_run() -> None:
    status = make_status()
    ErrorBudget(Errors(), CANAL, Translated(), status).look()
    assert CHECK not in status.checks
    assert status.errors == Counter()
