"""The status of several processes as one: sums, owners, and checks that fail in one of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from status_support import (
    GENERATION,
    LIMIT,
    ORDERS_0,
    ORDERS_1,
    START,
    Clock,
    Translated,
    heard,
    make_status,
    running_status,
    together,
)

from relay.codecs.losses import Loss
from relay.model.events import TableId
from relay.service.observe import report
from relay.service.observe.figures import Check
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.status import ProcessReport, Status
from relay.service.observe.together import SILENT_SECONDS
from relay.service.rate_limit import RateLimits

ORDERS = "orders"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def busy_status(clock: Clock) -> Status:
    """A status in which nothing is as it was at first."""
    translated = Translated()
    translated.events["insert"] = 3
    translated.losses[Loss.SCHEMA_INFERRED] = 2
    translated.inferred_tables[TableId("shop", "orders")] = 4
    translated.counts_by_table = {TableId("shop", "orders"): Counter(insert=3)}
    status = running_status(clock, translated)
    status.about = msgspec.structs.replace(status.about, rate_limits=RateLimits(100, 1_000))
    status.consumed(ORDERS, 10, 100)
    status.produced("orders.canal-json", 9, 90)
    status.produced("relay.dead", 1, 10)
    status.committed({ORDERS_0: 100})
    status.batch(10)
    status.observe("translate", 0.003)
    status.add_error("poll", "service", "orders/0", "went wrong")
    status.dead_letter("decode.malformed")
    status.skipped("encode")
    status.schema_versions(5)
    status.rate_limited(1.5)
    status.set_check("target", ok=False, detail="no broker answers")
    return status


def metrics(status: Status) -> dict[tuple[Any, ...], float]:
    """The samples by name and labels, without those of this process; each is there once."""
    found: dict[tuple[Any, ...], float] = {}
    for family in parse_text(exposition(registry_of(status), "")[0].decode()):
        for name, labels, value, *_ in family.samples:
            assert (name, *sorted(labels.items())) not in found
            found[name, *sorted(labels.items())] = value
    return found


def own(found: dict[tuple[Any, ...], float]) -> dict[tuple[Any, ...], float]:
    return {key: value for key, value in found.items() if key[0].startswith("relay_")}


def test_a_single_report_is_passed_on_unchanged(clock: Clock) -> None:
    status = busy_status(clock)
    alone = together(clock, status, processes=1)
    assert own(metrics(alone)) == own(metrics(status))
    assert report.readiness(alone) == report.readiness(status)
    assert report.liveness(alone) == report.liveness(status)
    # The supervisor samples by itself, and is older by what its process took to start.
    apart = ("history", "rates", "partitions")
    shown = report.details(status)
    found = report.details(alone)
    assert [{**each, "process": 0} for each in shown["partitions"]] == found["partitions"]
    assert {key: found[key] for key in found if key not in apart} == {
        key: shown[key] for key in shown if key not in apart
    }


def test_everything_a_status_knows_is_carried_on(clock: Clock) -> None:
    """Whoever gives a status one more part says here how those of several processes become one."""
    clocks = {
        "now",
        "steady",
        "_samples",
        "_heartbeat_at",
        "_newest_ms",
        "on_recovery",
        "on_failure",
        "_outages",
        "_acknowledgements",
    }
    #: Of a dry run, which has one process.
    alone = {"is_dry_run", "records_translated"}
    joined = {
        *("about", "phase", "phase_since", "started", "processes", "readers", "partitions", "assigned_at"),
        *(
            "last_commit",
            "consumption",
            "production",
            "own_production",
            "totals",
            "batches",
            "stages",
            "errors",
        ),
        *("last_errors", "dead_letters", "skips", "schemas", "checks", "translator", "warnings"),
        *("in_flight", "in_flight_since", "offline", "rate_limited_seconds", "rate_limited_at"),
    }
    assert vars(busy_status(clock)).keys() == clocks | alone | joined


def test_counters_and_histograms_are_added_up(clock: Clock) -> None:
    one = metrics(busy_status(clock))
    two = metrics(together(clock, busy_status(clock), busy_status(clock)))
    added = [key for key in own(one) if key[0].endswith(("_total", "_bucket", "_count", "_sum"))]
    assert len(added) > 100
    assert {key: two[key] for key in added} == {key: 2 * one[key] for key in added}


def test_gauges_are_not_added_up(clock: Clock) -> None:
    one = metrics(busy_status(clock))
    two = metrics(together(clock, busy_status(clock), busy_status(clock)))
    gauges = [
        key for key in own(one) if not key[0].endswith(("_total", "_bucket", "_count", "_sum", "_created"))
    ]
    # Both say that they have the same two partitions: one of them has not heard yet that it lost them.
    assert ("relay_consumer_lag_records", ("topic", ORDERS)) in gauges
    assert {key: two[key] for key in gauges} == {key: one[key] for key in gauges}
    assert {key: value for key, value in two.items() if key[0] == "relay_process_running"} == {
        ("relay_process_running", ("process", "0")): 1,
        ("relay_process_running", ("process", "1")): 1,
    }


def test_a_partition_belongs_to_the_process_that_got_it_last(clock: Clock) -> None:
    old, new = running_status(clock), make_status(clock)
    clock.passes(1)
    new.enter_phase("running")
    new.assigned([ORDERS_1])
    new.progress(ORDERS_1, position=195, end=200, timestamp_ms=int(START) * 1000)
    found = together(clock, new, old)
    assert found.readers == {ORDERS_0: 1, ORDERS_1: 0}
    assert found.lag == 5
    shown = report.details(found)
    assert [(each["partition"], each["process"], each["lag_records"]) for each in shown["partitions"]] == [
        (0, 1, 0),
        (1, 0, 5),
    ]
    assert metrics(found)["relay_assigned_partitions", ("topic", ORDERS)] == 2


def reading(clock: Clock, *, lag: int, newest: float, committed: float | None) -> Status:
    """A process with one partition, of which so many records wait."""
    status = make_status(clock)
    status.enter_phase("running")
    status.assigned([ORDERS_0])
    status.progress(ORDERS_0, position=100, end=100 + lag, timestamp_ms=int(newest * 1000))
    status.last_commit = committed
    return status


@pytest.mark.parametrize(
    ("lags", "times", "commits", "newest", "commit"),
    [
        ((0, 0), (START - 60, START), (START - 50, START), START, START),
        ((0, 9), (START - 60, START - 20), (START - 600, START - 5), START - 20, START - 5),
        ((9, 9), (START - 60, START - 20), (START - 600, START - 5), START - 60, START - 600),
        ((0, 9), (START, START - 20), (START, None), START - 20, None),
    ],
    ids=["none-waits", "one-is-idle", "both-wait", "never-committed"],
)
def test_times_are_those_of_the_process_that_is_furthest_behind(
    clock: Clock,
    lags: tuple[int, int],
    times: tuple[float, float],
    commits: tuple[float | None, float | None],
    newest: float,
    commit: float | None,
) -> None:
    """An alert on records that wait while nothing is committed sees one process that hangs, and no idle one."""
    every = [
        reading(clock, lag=lag, newest=time, committed=at)
        for lag, time, at in zip(lags, times, commits, strict=True)
    ]
    found = metrics(together(clock, *every))
    assert found["relay_last_record_timestamp_seconds",] == newest
    assert found["relay_last_commit_timestamp_seconds",] == (commit or 0)


def test_ready_when_all_are_and_not_before(clock: Clock) -> None:
    starting = make_status(clock)
    assert report.readiness(together(clock, running_status(clock)))["ready"] is False
    found = together(clock, running_status(clock), starting)
    assert report.readiness(found)["processes"] == {"0": "running", "1": "starting"}
    assert (found.phase, report.readiness(found)["ready"]) == ("starting", False)
    starting.enter_phase("running")
    found.report_from(1, ProcessReport(2, heard(starting, clock), []))
    assert report.readiness(found)["ready"] is True
    found.ended(0)
    assert (found.phase, report.readiness(found)["processes"]["0"]) == ("draining", "stopped")
    found.ended(1)
    assert found.phase == "stopped"


def test_not_ready_as_soon_as_a_stop_is_asked_for(clock: Clock) -> None:
    found = together(clock, running_status(clock), running_status(clock))
    found.stopping()
    found.report_from(0, ProcessReport(1, heard(running_status(clock), clock), []))
    assert (found.phase, report.readiness(found)["ready"]) == ("draining", False)


def test_one_loop_that_hangs_is_seen_whatever_the_others_do(clock: Clock) -> None:
    hanging, starting = running_status(clock), make_status(clock)
    clock.passes(LIMIT + 1)
    found = together(clock, hanging, starting)
    assert found.phase == "starting"
    assert report.liveness(found)["alive"] is False
    assert report.details(found)["processes"]["0"]["alive"] is False


def test_a_check_fails_where_it_fails_in_one(clock: Clock) -> None:
    one, other = running_status(clock), running_status(clock)
    one.set_check("target", ok=True)
    clock.passes(5)
    other.set_check("target", ok=False, detail="no broker answers")
    found = together(clock, one, other)
    assert found.checks["target"] == Check(ok=False, detail="process 1: no broker answers", since=START + 5)
    assert report.readiness(found)["degraded"] is True
    one.set_check("target", ok=False, detail="no broker answers")
    assert together(clock, one, other).checks["target"].detail == "no broker answers"
    assert together(clock, one, other).checks["configuration"].ok


def test_the_same_error_of_two_is_one(clock: Clock) -> None:
    one, other = make_status(clock), make_status(clock)
    one.add_error("poll", "service", "", "went wrong")
    clock.passes(5)
    other.add_error("poll", "service", "", "went wrong")
    other.add_error("produce", "service", "", "went wrong")
    first, second = sorted(together(clock, one, other).last_errors, key=lambda each: each.stage)
    assert (first.stage, first.count, first.first, first.last) == ("poll", 2, START, START + 5)
    assert (second.stage, second.count) == ("produce", 1)
    assert together(clock, one, other).errors == Counter({("poll", "service"): 2, ("produce", "service"): 1})


def test_the_history_is_that_of_the_sums(clock: Clock) -> None:
    one, other = running_status(clock), running_status(clock)
    found = together(clock, one, other)
    for _ in range(3):
        clock.passes(10)
        for number, status in enumerate((one, other)):
            status.consumed(ORDERS, 100, 1000)
            found.report_from(number, ProcessReport(number, heard(status, clock), []))
    shown = report.details(found)
    assert shown["rates"]["consumed_records_per_second"] == pytest.approx(20, rel=0.4)
    assert len(shown["history"]["time"]) == 3


def test_what_processes_use_is_added_up(clock: Clock) -> None:
    import gc
    import os

    found = together(clock, running_status(clock))
    found.processes[0] = found.processes[0]._replace(pid=os.getpid())
    alone, two = metrics(running_status(clock)), metrics(found)
    for name in ("process_virtual_memory_bytes", "process_resident_memory_bytes", "process_open_fds"):
        assert two[name,] == pytest.approx(2 * alone[name,], rel=0.2)
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert two[name,] == alone[name,]
    collections = two["python_gc_collections_total", ("generation", "2")]
    assert collections >= gc.get_stats()[2]["collections"] + GENERATION["collections"] - 1
    assert alone.keys() - two.keys() == set()


def test_a_process_that_reports_nothing_is_not_at_work(clock: Clock) -> None:
    """As one that was stopped with SIGSTOP: it runs, and does nothing."""
    found = together(clock, running_status(clock), running_status(clock))
    found.check_silence()
    assert "processes" not in found.checks
    clock.passes(SILENT_SECONDS - 1)
    found.report_from(0, found.processes[0])
    clock.passes(1)
    found.check_silence()
    body = report.details(found)
    assert found.checks["processes"][:2] == (False, "no report for 5 s from process 1 (pid 1000000001)")
    assert (body["degraded"], body["processes"]["1"]["state"]) == (True, "not responding")
    assert body["processes"]["1"]["lag_records"] is None
    assert report.readiness(found)["processes"] == {"0": "running", "1": "not responding"}
    assert metrics(found)["relay_process_running", ("process", "1")] == 0
    found.report_from(1, found.processes[1])
    assert found.checks["processes"].ok
    assert metrics(found)["relay_process_running", ("process", "1")] == 1


def test_idle_processes_are_known_when_all_are_at_work(clock: Clock) -> None:
    idle = make_status(clock)
    assert together(clock, running_status(clock), idle).idle == []
    idle.enter_phase("running")
    assert together(clock, running_status(clock), idle).idle == [1]


def test_topics_that_processes_have_found_by_a_pattern(clock: Clock) -> None:
    """One has found a topic that the other does not know yet."""
    statuses = [running_status(clock), running_status(clock)]
    found = {ORDERS: "orders.canal-json", "items": "items.canal-json"}
    by_name = tuple(found.values())
    statuses[1].describe(msgspec.structs.replace(statuses[1].about, topics=found, by_name=by_name))
    status = together(clock, *statuses)
    assert report.details(status)["route"]["topics"] == found
    assert status.consumption.keys() == found.keys()
    assert ("relay_assigned_partitions", ("topic", "items")) in metrics(status)
