"""The status keeps what the loop says, and /livez, /readyz and /status tell it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter

import orjson
import pytest
from status_support import (
    LIMIT,
    ORDERS_0,
    ORDERS_1,
    START,
    Clock,
    Translated,
    make_status,
    running_status,
    turns,
)

from relay.codecs.losses import Loss
from relay.config import Config
from relay.config.keys import Delivery
from relay.core.counts import OTHER_TABLES
from relay.io.kafka.ports import Partition
from relay.model.events import TableId
from relay.service.observe import report
from relay.service.observe.about import About, heartbeat_limit
from relay.service.observe.status import END_SECONDS, LAST_ERRORS, LONGEST_TEXT, SAMPLES, Status


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_status_that_nobody_wrote_to_can_be_asked_everything(clock: Clock) -> None:
    status = make_status(clock)
    body = report.details(status)
    assert (body["state"], body["ready"], body["alive"], body["degraded"]) == (
        "starting",
        False,
        True,
        False,
    )
    assert body["lag"] == {
        "records": None,
        "committed_records": None,
        "is_exact": False,
        "unknown_partitions": 0,
        "end_age_seconds": None,
        "kafka_seconds": None,
        "database_seconds": None,
        "watermark_seconds": None,
        "change_per_second": None,
        "gone_in_seconds": None,
    }
    assert body["rates"]["consumed_records_per_second"] == 0
    assert (body["last_record"], body["last_commit"], body["partitions"], body["last_errors"]) == (
        None,
        None,
        [],
        [],
    )
    assert orjson.loads(orjson.dumps(body)) == body


def test_positions_and_lag_in_records_in_kafka_time_and_in_database_time(clock: Clock) -> None:
    status = running_status(clock)
    status.committed({ORDERS_0: 90})
    status.database_times(ORDERS_0, row_ms=int(START - 7) * 1000, watermark_ms=int(START - 6) * 1000)
    clock.passes(3)
    clock.time -= 3
    first, second = report.details(status)["partitions"]
    assert first == {
        "topic": "orders",
        "partition": 0,
        "position": 100,
        "end": 100,
        "end_age_seconds": 3.0,
        "committed": 90,
        "lag_records": 0,
        "committed_lag_records": 10,
        "lag_kafka_seconds": 0.0,
        "lag_database_seconds": 7.0,
        "watermark_age_seconds": 6.0,
        "last_record": "2026-11-21T09:59:55.000+00:00",
        "last_row": "2026-11-21T09:59:53.000+00:00",
        "last_watermark": "2026-11-21T09:59:54.000+00:00",
    }
    assert (second["lag_records"], second["lag_kafka_seconds"], second["committed"]) == (50, 30.0, None)
    assert (second["lag_database_seconds"], second["watermark_age_seconds"]) == (None, None)
    lag = report.details(status)["lag"]
    assert (lag["records"], lag["kafka_seconds"], lag["end_age_seconds"]) == (50, 30.0, 3.0)


def test_database_time_is_that_of_the_partition_that_is_furthest_behind(clock: Clock) -> None:
    """The watermark of the whole is the lowest one, and none while a partition has none."""
    status = running_status(clock)

    def lags() -> tuple[float | None, float | None]:
        lag = report.details(status)["lag"]
        return lag["database_seconds"], lag["watermark_seconds"]

    status.database_times(ORDERS_0, row_ms=int(START - 7) * 1000, watermark_ms=int(START - 6) * 1000)
    assert lags() == (7, None)
    status.database_times(ORDERS_1, row_ms=int(START - 40) * 1000, watermark_ms=int(START - 41) * 1000)
    assert lags() == (40, 41)
    status.progress(ORDERS_1, position=200, end=200, timestamp_ms=None)
    assert lags() == (7, 41)
    status.database_times(Partition("orders", 9), row_ms=1, watermark_ms=1)
    assert lags() == (7, 41)


def test_an_unknown_end_is_no_lag_of_zero(clock: Clock) -> None:
    status = make_status(clock)
    status.assigned([ORDERS_0, ORDERS_1])
    assert report.details(status)["lag"]["records"] is None
    status.progress(ORDERS_0, position=7, end=None, timestamp_ms=None)
    assert report.details(status)["partitions"][0]["lag_records"] is None
    status.progress(ORDERS_0, position=7, end=9, timestamp_ms=None)
    lag = report.details(status)["lag"]
    assert (lag["records"], lag["unknown_partitions"], lag["kafka_seconds"]) == (2, 1, None)
    assert not lag["is_exact"]


def test_in_an_outage_nothing_is_said_to_be_read_to_its_end(clock: Clock) -> None:
    status = running_status(clock)
    status.set_check("source", ok=True)
    status.progress(ORDERS_1, position=200, end=200, timestamp_ms=None)
    assert (status.lag, status.is_lag_exact) == (0, True)
    status.set_check("source", ok=False, detail="no broker answers")
    lag = report.details(status)["lag"]
    assert (lag["records"], lag["is_exact"], lag["unknown_partitions"]) == (None, False, 2)
    assert {each["lag_records"] for each in report.details(status)["partitions"]} == {None}
    assert {each["lag_kafka_seconds"] for each in report.details(status)["partitions"]} == {None}
    status.set_check("source", ok=True)
    assert (status.lag, status.is_lag_exact) == (0, True)


def test_before_an_outage_is_noticed_an_old_end_is_none_that_is_known(clock: Clock) -> None:
    status = running_status(clock)
    clock.passes(1)
    status.progress(ORDERS_1, position=150, end=200, timestamp_ms=None)
    clock.passes(END_SECONDS - 1)
    assert (status.lag, status.is_lag_exact) == (50, True)
    clock.passes(1)
    lag = report.details(status)["lag"]
    assert (lag["records"], lag["is_exact"], lag["unknown_partitions"]) == (50, False, 1)
    assert lag["end_age_seconds"] == END_SECONDS + 1
    assert [each["lag_records"] for each in report.details(status)["partitions"]] == [None, 50]
    assert status.sample().lag is None


@pytest.mark.parametrize("check", ["source", "topics", "commit", "records"])
def test_the_end_of_an_outage_is_logged_with_its_length(clock: Clock, check: str) -> None:
    status, recoveries = running_status(clock), list[tuple[str, float]]()
    status.on_recovery = lambda name, seconds: recoveries.append((name, seconds))
    for ok in (True, False, False, True, True):
        status.set_check(check, ok=ok)
        clock.passes(30)
    status.set_check("member", ok=False)
    status.set_check("member", ok=True)
    assert recoveries == [(check, 60)]


def test_a_newer_end_is_not_replaced_by_an_older_one(clock: Clock) -> None:
    """Brokers are asked for ends while the answer to an older fetch is still what the client knows."""
    status = running_status(clock)
    clock.passes(10)
    assert status.without_end(2.0) == [ORDERS_0, ORDERS_1]
    status.end_observed(ORDERS_1, 300)
    status.progress(ORDERS_1, position=150, end=200, timestamp_ms=None, end_age=9.0)
    assert (status.lag, status.without_end(2.0)) == (150, [ORDERS_0])
    assert not status.is_lag_exact


def test_what_is_read_and_not_acknowledged_is_shown(clock: Clock) -> None:
    assert report.details(make_status(clock))["in_flight"] == {"records": None, "age_seconds": None}
    status = running_status(clock)
    assert report.details(status)["in_flight"] == {"records": 0, "age_seconds": 0.0}
    for offsets, acknowledgements, age in (
        (0, 0, 0.0),
        (7, 0, 0.0),
        (9, 0, 3.0),
        (9, 1, 0.0),
        (2, 1, 3.0),
        (0, 2, 0.0),
    ):
        status.note_in_flight(offsets, acknowledgements)
        assert report.details(status)["in_flight"] == {"records": offsets, "age_seconds": age}
        clock.passes(3)


def test_records_that_are_not_committed_are_shown(clock: Clock) -> None:
    status = running_status(clock)
    assert status.committed_lag is None
    assert report.details(status)["lag"]["committed_records"] is None
    status.committed({ORDERS_0: 90, ORDERS_1: 120})
    assert report.details(status)["lag"]["committed_records"] == 90
    clock.passes(END_SECONDS + 1)
    assert [each["committed_lag_records"] for each in report.details(status)["partitions"]] == [None, None]


def test_figures_that_are_not_reported_again_stay_known(clock: Clock) -> None:
    status = running_status(clock)
    status.progress(ORDERS_1, position=160, end=None, timestamp_ms=None)
    assert status.partitions[ORDERS_1].lag == 40
    assert status.partitions[ORDERS_1].timestamp_ms == int(START - 30) * 1000


def test_a_rebalance_keeps_what_stays_and_forgets_what_goes(clock: Clock) -> None:
    status = running_status(clock)
    other = Partition("orders", 7)
    status.assigned([ORDERS_1, other])
    assert list(status.partitions) == [ORDERS_1, other]
    assert status.partitions[ORDERS_1].position == 150
    # Late words about a partition that is somebody else's by now.
    status.progress(ORDERS_0, position=101, end=101, timestamp_ms=None)
    status.committed({ORDERS_0: 101})
    assert ORDERS_0 not in status.partitions
    assert status.last_commit == START
    newest = status.newest_ms
    status.assigned([])
    assert status.newest_ms == newest is not None


def test_an_empty_commit_is_none(clock: Clock) -> None:
    status = running_status(clock)
    status.committed({})
    assert status.last_commit is None


@pytest.mark.parametrize("stamp", [-1, 10**18, -(10**18)])
def test_impossible_timestamps_of_a_producer_break_nothing(clock: Clock, stamp: int) -> None:
    status = running_status(clock)
    status.assigned([ORDERS_0])
    status.progress(ORDERS_0, position=1, end=5, timestamp_ms=stamp)
    body = report.details(status)
    orjson.dumps(body)
    assert (body["partitions"][0]["last_record"] is None) == (stamp > 0)
    assert body["lag"]["kafka_seconds"] is not None


def test_rates_are_those_of_the_last_minute(clock: Clock) -> None:
    status = running_status(clock)

    def fast() -> None:
        status.consumed("orders", 100, 50_000)
        status.produced("orders.canal-json", 90, 40_000)
        status.observe("translate", 0.25)

    turns(status, clock, 120, fast)
    rates = report.details(status)["rates"]
    assert rates["window_seconds"] == 60
    assert (rates["consumed_records_per_second"], rates["consumed_bytes_per_second"]) == (100, 50_000)
    assert (rates["produced_records_per_second"], rates["produced_bytes_per_second"]) == (90, 40_000)
    assert rates["busy"] == {"translate": 0.25, "produce": 0, "commit": 0}
    turns(status, clock, 70)
    assert report.details(status)["rates"]["consumed_records_per_second"] == 0


def test_the_first_seconds_have_rates_too(clock: Clock) -> None:
    status = running_status(clock)
    turns(status, clock, 4, lambda: status.consumed("orders", 10, 10))
    rates = report.details(status)["rates"]
    assert (rates["window_seconds"], rates["consumed_records_per_second"]) == (4, 10)


@pytest.mark.parametrize(("read", "change", "gone"), [(15, -5.0, 200 / 5), (10, 0.0, None), (8, 2.0, None)])
def test_lag_tells_whether_it_grows(clock: Clock, read: int, change: float, gone: float | None) -> None:
    status = make_status(clock)
    status.assigned([ORDERS_0])
    at = [0, 1100 if read == 15 else 300]

    def turn() -> None:
        at[0], at[1] = at[0] + read, at[1] + 10
        status.progress(ORDERS_0, position=at[0], end=at[1], timestamp_ms=None)

    turns(status, clock, 180, turn)
    lag = report.details(status)["lag"]
    assert lag["change_per_second"] == change
    assert lag["gone_in_seconds"] == gone


def test_lag_of_other_partitions_is_no_trend(clock: Clock) -> None:
    status = running_status(clock)
    turns(status, clock, 30)
    clock.passes(1)
    status.assigned([ORDERS_0])
    status.heartbeat()
    assert report.details(status)["lag"]["change_per_second"] is None


def test_history_is_an_hour_and_no_more(clock: Clock) -> None:
    status = running_status(clock)

    def turn() -> None:
        status.consumed("orders", 3, 3)
        status.skipped("decode.malformed")
        status.progress(ORDERS_0, position=100, end=100, timestamp_ms=None)
        status.progress(ORDERS_1, position=150, end=200, timestamp_ms=None)

    turns(status, clock, 4000, turn)
    history = report.details(status)["history"]
    assert {len(column) for column in history.values()} == {SAMPLES - 1}
    assert set(history["consumed_records_per_second"]) == {3}
    assert set(history["given_up_records_per_second"]) == {1}
    assert set(history["lag_records"]) == {50}
    assert history["time"][-1] - history["time"][0] == 3590


def test_errors_are_counted_and_the_last_ones_kept_newest_first(clock: Clock) -> None:
    status = running_status(clock)
    for number in range(LAST_ERRORS + 5):
        status.add_error("translate", f"decode.{number}", "orders/0/7", "no message")
    kept = report.details(status)["last_errors"]
    assert len(kept) == LAST_ERRORS
    assert kept[0]["code"] == f"decode.{LAST_ERRORS + 4}"
    assert len(report.details(status)["errors"]) == LAST_ERRORS + 5


def test_errors_of_one_code_are_one_with_their_number_and_times(clock: Clock) -> None:
    status = running_status(clock)
    for number in range(54):
        status.add_error("translate", "decode.malformed", f"orders/0/{number}", f"no message {number}")
        clock.passes(1)
    status.add_error("poll", "decode.malformed", "", "")
    (_, kept) = report.details(status)["last_errors"]
    assert kept == {
        "time": "2026-11-21T10:00:53.000+00:00",
        "stage": "translate",
        "code": "decode.malformed",
        "position": "orders/0/53",
        "message": "no message 53",
        "count": 54,
        "first": "2026-11-21T10:00:00.000+00:00",
    }
    assert report.readiness(status)["last_error"]["code"] == "decode.malformed"


def test_the_same_error_again_pushes_no_other_out(clock: Clock) -> None:
    status = running_status(clock)
    status.add_error("translate", "decode.malformed", "orders/0 at 4711", "no message")
    for _ in range(1000):
        clock.passes(1)
        status.add_error("produce", "service.delivery-failed", "orders.canal-json/0", "no answer")
    kept = report.details(status)["last_errors"]
    assert [(each["code"], each["count"]) for each in kept] == [
        ("service.delivery-failed", 1000),
        ("decode.malformed", 1),
    ]
    assert (kept[0]["first"], kept[0]["time"]) == (
        "2026-11-21T10:00:01.000+00:00",
        "2026-11-21T10:16:40.000+00:00",
    )


def test_texts_that_no_encoder_takes_or_that_do_not_end_are_made_harmless(clock: Clock) -> None:
    status = running_status(clock)
    status.add_error("translate", "decode.malformed", "a\ud800b", "x" * 100_000)
    status.set_check("source", ok=False, detail="\udfff")
    body = orjson.loads(orjson.dumps(report.details(status)))
    assert body["last_errors"][0]["position"] == "a\\ud800b"
    assert len(body["last_errors"][0]["message"]) == LONGEST_TEXT


def test_losses_and_notes_are_distinguished(clock: Clock) -> None:
    translated = Translated()
    status = running_status(clock, translated)
    translated.events = Counter({"insert": 3})
    translated.losses = Counter({Loss.GTID: 2, Loss.SCHEMA_INFERRED: 1})
    body = report.details(status)
    assert (body["events"], body["losses"], body["notes"]) == (
        {"insert": 3},
        {"gtid": 2},
        {"schema-inferred": 1},
    )
    assert body["expected_losses"] == []
    translated.losses[Loss.COMMIT_TS] = 3
    assert report.details(status)["expected_losses"] == ["commit-ts"]


def test_rows_are_counted_by_table_and_those_of_too_many_together(clock: Clock) -> None:
    translated = Translated()
    status = running_status(clock, translated)
    body = report.details(status)
    assert (body["tables"], body["other_tables"]) == ({}, {})
    orders = TableId("shop", "orders")
    translated.counts_by_table = {orders: Counter(insert=3, delete=1), OTHER_TABLES: Counter(update=9)}
    body = report.details(status)
    assert body["tables"] == {"shop.orders": {"insert": 3, "delete": 1}}
    assert body["other_tables"] == {"update": 9}


def test_tables_without_ddl_are_named(clock: Clock) -> None:
    translated = Translated()
    status = running_status(clock, translated)
    assert report.details(status)["inferred_tables"] == {}
    translated.inferred_tables = {TableId("shop", "orders"): 7, TableId("shop", "x" * LONGEST_TEXT): 1}
    orders, long = report.details(status)["inferred_tables"].items()
    assert orders == ("shop.orders", 7)
    assert len(long[0]) == LONGEST_TEXT


def test_dead_letters_skips_and_topics_are_counted(clock: Clock) -> None:
    status = running_status(clock)
    status.dead_letter("decode.malformed")
    status.dead_letter("decode.malformed")
    status.skipped("service.claim-check-missing")
    status.produced("elsewhere", 2, 30)
    status.schema_versions(12)
    body = report.details(status)
    assert body["dead_letters"] == {"decode.malformed": 2}
    assert body["skipped"] == {"service.claim-check-missing": 1}
    assert body["topics"]["produced"]["elsewhere"] == {"records": 2, "bytes": 30}
    assert body["schema_versions"] == 12


def test_written_dead_lettered_and_history_records_are_counted_apart(clock: Clock) -> None:
    status = running_status(clock)
    status.consumed("orders", 9, 90)
    status.dead_letter("decode.malformed")
    status.skipped("encode.too-large")
    for topic, records in (("orders.canal-json", 7), ("relay.dead", 1), ("relay.history", 2)):
        status.produced(topic, records, 10 * records)
    body = report.details(status)
    assert body["records"] == {"read": 9, "written": 7, "dead_lettered": 1, "skipped": 1, "history": 2}
    assert body["topics"]["produced"] == {"orders.canal-json": {"records": 7, "bytes": 70}}
    assert body["topics"]["own"] == {
        "dead-letter": {"topic": "relay.dead", "records": 1, "bytes": 10},
        "schema-history": {"topic": "relay.history", "records": 2, "bytes": 20},
    }
    assert report.summary(status) == {
        "records_read": 9,
        "records_written": 7,
        "records_dead_lettered": 1,
        "records_skipped": 1,
        "records_history": 2,
    }
    clock.passes(10)
    rates = report.details(status)["rates"]
    assert (rates["produced_records_per_second"], rates["given_up_records_per_second"]) == (0.7, 0.2)


def test_only_a_running_loop_has_to_turn(clock: Clock) -> None:
    status = make_status(clock)
    clock.passes(10 * LIMIT)
    assert report.liveness(status)["alive"]
    status.enter_phase("running")
    assert report.liveness(status)["alive"]
    clock.passes(LIMIT + 1)
    assert not report.liveness(status)["alive"]
    status.heartbeat()
    assert report.liveness(status)["alive"]
    clock.passes(LIMIT + 1)
    status.enter_phase("draining")
    clock.passes(LIMIT + 1)
    assert report.liveness(status)["alive"]


def test_a_clock_that_is_set_does_not_kill(clock: Clock) -> None:
    """The heartbeat goes by a clock that nobody sets."""
    status = running_status(clock)
    clock.time += 86_400
    assert report.liveness(status)["alive"]
    clock.time -= 3 * 86_400
    assert report.liveness(status)["alive"]
    assert report.details(status)["lag"]["kafka_seconds"] == 0


def test_the_limit_is_longer_than_a_delivery_may_take() -> None:
    assert heartbeat_limit(Delivery()) == 120
    assert heartbeat_limit(Delivery(delivery_timeout_seconds=5)) == 60
    assert make_status().about.heartbeat_limit_seconds == heartbeat_limit(Delivery())


@pytest.mark.parametrize(
    ("state", "ready"), [("starting", False), ("running", True), ("draining", False), ("stopped", False)]
)
def test_ready_is_running(clock: Clock, state: str, ready: bool) -> None:
    status = make_status(clock)
    status.enter_phase(state)
    assert report.readiness(status)["ready"] is ready


def test_a_failing_check_degrades_and_does_not_make_unready(clock: Clock) -> None:
    status = running_status(clock)
    assert not report.readiness(status)["degraded"]
    status.set_check("target", ok=False, detail="no broker answers")
    status.add_error("produce", "service.broker-unavailable", "orders.canal-json", "no broker answers")
    body = report.readiness(status)
    assert (body["ready"], body["degraded"]) == (True, True)
    assert body["checks"] == {"loop": "ok", "configuration": "ok", "target": "failing: no broker answers"}
    assert body["last_error"]["code"] == "service.broker-unavailable"
    status.set_check("target", ok=True)
    assert not report.readiness(status)["degraded"]


def test_what_is_not_done_at_the_start_is_awaited_and_no_failure(clock: Clock) -> None:
    status = make_status(clock)
    status.set_check("schema-history", ok=False, detail="reading")
    body = report.readiness(status)
    assert (body["checks"]["schema-history"], body["degraded"]) == ("waiting: reading", False)


def test_a_check_tells_since_when_it_is_so(clock: Clock) -> None:
    status = running_status(clock)
    status.set_check("target", ok=False, detail="first")
    clock.passes(60)
    status.set_check("target", ok=False, detail="second")
    (_, _, target) = report.details(status)["checks"]
    assert target == {
        "name": "target",
        "ok": False,
        "detail": "second",
        "reason": None,
        "since": "2026-11-21T10:00:00.000+00:00",
    }


def test_about_shows_a_configuration_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SOURCE__SECURITY__PASSWORD", "hunter2")
    text = """
        [route]
        from = "ticdc-canal-json"
        to = "ticdc-canal-json"
        from_options = { claim-check-storage-uri = "s3://bucket/prefix?access-key=AK&secret-access-key=hunter2" }
        [source]
        bootstrap_servers = "source:9092"
        topics = ["orders"]
        group_id = "relay"
        [source.security]
        protocol = "SASL_SSL"
        username = "relay"
        [target]
        topic = "{topic}.out"
        [delivery]
        delivery_timeout_seconds = 100
        """
    about = About.of(Config(**tomllib.loads(text)))
    assert (about.source.protocol, about.target.brokers, about.topics) == (
        "ticdc-canal-json",
        "source:9092",
        {"orders": "orders.out"},
    )
    assert (about.group, about.mode) == ("relay", "at-least-once")
    assert about.heartbeat_limit_seconds == 200
    assert about.source.options["claim-check-storage-uri"].startswith("s3://bucket/prefix")
    assert "hunter2" not in json.dumps(report.details(Status(about)))
