"""The metrics are those of the documentation, valid, complete from the start, and true."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docs.generate import ROOT
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from status_support import LIMIT, ORDERS_0, Clock, Translated, make_status, running_status, together

from relay.codecs.losses import Loss
from relay.core.counts import OTHER_TABLES
from relay.core.selection import kind_of
from relay.core.translator import Translator
from relay.io.metrics import OPS, OTHER_KINDS, ROW_CHANGE
from relay.model.events import (
    Bootstrap,
    Event,
    Heartbeat,
    Op,
    SchemaChange,
    TableId,
    TableSchema,
    TransactionMark,
    Watermark,
)
from relay.service.observe import report
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.status import STAGES, Status
from relay.service.rate_limit import RateLimits

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
#: What is not known of a partition is not there.
_BY_PARTITION = {
    "relay_partition_lag_records",
    "relay_partition_last_record_timestamp_seconds",
    "relay_partition_last_row_timestamp_seconds",
    "relay_partition_last_watermark_timestamp_seconds",
}
_ROW = re.compile(r"^\| `(relay_[a-z_]+)` \| (counter|gauge|histogram) \|([^|]*)\|", re.MULTILINE)


def text_of(status: Status, accept: str = "") -> str:
    return exposition(registry_of(status), accept)[0].decode()


def value(status: Status, name: str, **labels: str) -> float | None:
    return registry_of(status).get_sample_value(name, labels)


def families(status: Status) -> dict[str, Any]:
    return {family.name: family for family in parse_text(text_of(status)) if family.name.startswith("relay_")}


def documented() -> dict[str, tuple[str, set[str]]]:
    """Name, type and labels of the table in the documentation."""
    text = (ROOT / "docs/operations/monitoring.md").read_text(encoding="utf-8")
    return {name: (kind, set(re.findall(r"`([a-z]+)`", labels))) for name, kind, labels in _ROW.findall(text)}


def test_the_documentation_has_all_metrics_with_type_and_labels() -> None:
    clock, translated = Clock(), Translated()
    translated.paths = Counter(fast=1, slow=1)
    translated.counts_by_table = {TableId("shop", "orders"): Counter(insert=1)}
    translated.remembered_rows = 1
    status = running_status(clock, translated)
    status.database_times(ORDERS_0, row_ms=1, watermark_ms=1)
    status.committed({ORDERS_0: 90})
    status.about = msgspec.structs.replace(status.about, rate_limits=RateLimits(1, 1))
    found = {}
    for family in families(together(clock, status)).values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = (family.type, labels)
    assert documented() == found


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool comes with Debian's package prometheus"
)
@pytest.mark.parametrize("fresh", [True, False])
def test_promtool_has_nothing_to_say(fresh: bool) -> None:
    status = make_status() if fresh else worked_status()
    # The interpreter's own metrics are not ours to name.
    own = "".join(
        line
        for line in text_of(status).splitlines(keepends=True)
        if re.match(r"(# (HELP|TYPE) )?relay_", line)
    )
    ran = subprocess.run(
        ["promtool", "check", "metrics"], input=own, capture_output=True, text=True, check=False, timeout=30
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def worked_status() -> Status:
    clock = Clock()
    translated = Translated()
    status = running_status(clock, translated)
    translated.counts_by_table = {
        TableId("shop", "orders"): Counter(update=4),
        OTHER_TABLES: Counter(insert=2),
    }
    status.database_times(
        ORDERS_0, row_ms=int(clock.time - 7) * 1000, watermark_ms=int(clock.time - 6) * 1000
    )
    translated.events, translated.losses = Counter({"update": 4, "schema-change": 2}), Counter({Loss.GTID: 3})
    status.consumed("orders", 10, 1000)
    status.produced("orders.canal-json", 8, 700)
    status.produced("relay.dead", 1, 90)
    status.produced("relay.history", 2, 80)
    status.batch(10)
    status.batch(0)
    status.batch(400)
    status.observe("translate", 0.001)
    status.observe("translate", 0.3)
    status.observe("produce", 1000.0)
    status.add_error("translate", "decode.malformed", "orders/0", "no message")
    status.dead_letter("decode.malformed")
    status.skipped("encode.too-large")
    status.schema_versions(12)
    status.committed({ORDERS_0: 100})
    return status


def test_names_and_units_follow_the_rules() -> None:
    for name, family in families(worked_status()).items():
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|milliseconds|kilobytes|minutes|count)(_|$)", name), name
        assert (family.type == "counter") == any(
            sample.name.endswith("_total") for sample in family.samples
        ), name


@pytest.mark.parametrize(
    "accept", ["", "text/plain", OPENMETRICS, "application/openmetrics-text; version=x", "\x00;;=,"]
)
def test_every_accept_header_gets_a_valid_exposition(accept: str) -> None:
    body, content_type = exposition(registry_of(worked_status()), accept)
    is_openmetrics = content_type.startswith("application/openmetrics-text")
    assert is_openmetrics == (accept == OPENMETRICS)
    found = list((parse_openmetrics if is_openmetrics else parse_text)(body.decode()))
    assert {"relay_events", "process_cpu_seconds", "python_info"} <= {family.name for family in found}


def test_all_known_label_sets_show_0_from_the_start() -> None:
    status = make_status()
    series = status.about.series
    assert value(status, "relay_records_produced_total", topic="orders.canal-json") == 0
    for kind, topic in (("dead-letter", "relay.dead"), ("schema-history", "relay.history")):
        assert value(status, "relay_own_records_produced_total", kind=kind, topic=topic) == 0
        assert value(status, "relay_own_produced_bytes_total", kind=kind, topic=topic) == 0
    for name in (
        "relay_records_consumed_total",
        "relay_consumed_bytes_total",
        "relay_assigned_partitions",
        "relay_unknown_lag_partitions",
    ):
        assert value(status, name, topic="orders") == 0
    assert {value(status, "relay_events_total", kind=ROW_CHANGE, op=op) for op in OPS} == {0}
    assert {value(status, "relay_events_total", kind=kind, op="") for kind in OTHER_KINDS} == {0}
    assert {value(status, "relay_errors_total", stage=stage, code=code) for stage, code in series.errors} == {
        0
    }
    assert {value(status, "relay_dead_letters_total", code=code) for code in series.dead_letters} == {0}
    assert {value(status, "relay_skipped_records_total", code=code) for code in series.skipped} == {0}
    losses = [sample.labels for sample in families(status)["relay_conversion_losses"].samples]
    assert sorted(labels["loss"] for labels in losses) == sorted(Loss)
    assert {value(status, "relay_stage_duration_seconds_count", stage=stage) for stage in STAGES} == {0}
    for name in (
        "relay_batch_records_count",
        "relay_last_record_timestamp_seconds",
        "relay_last_commit_timestamp_seconds",
    ):
        assert value(status, name) == 0


def test_kinds_are_those_that_a_translator_counts() -> None:
    source: Any = None
    others: tuple[Event, ...] = (
        SchemaChange("", source, (), "", source, 0),
        Watermark(source, 0),
        Bootstrap(TableSchema(TableId("", ""), ()), source, 0),
        TransactionMark(is_begin=True, id="", source=source, emitted_at_ns=0),
        Heartbeat(source, 0),
    )
    assert tuple(map(kind_of, others)) == OTHER_KINDS
    assert set(OPS) == {op.value for op in Op}
    status = make_status()
    status.translator = Translator("ticdc-canal-json", "canal-json")
    assert value(status, "relay_events_total", kind="watermark", op="") == 0


def test_metrics_say_what_happened() -> None:
    status = worked_status()
    assert value(status, "relay_records_consumed_total", topic="orders") == 10
    assert value(status, "relay_consumed_bytes_total", topic="orders") == 1000
    assert value(status, "relay_records_produced_total", topic="orders.canal-json") == 8
    assert value(status, "relay_produced_bytes_total", topic="orders.canal-json") == 700
    assert value(status, "relay_events_total", kind="row-change", op="update") == 4
    assert value(status, "relay_events_total", kind="schema-change", op="") == 2
    assert value(status, "relay_conversion_losses_total", loss="gtid", **{"class": "loss"}) == 3
    assert value(status, "relay_errors_total", stage="translate", code="decode.malformed") == 1
    assert value(status, "relay_dead_letters_total", code="decode.malformed") == 1
    assert value(status, "relay_skipped_records_total", code="encode.too-large") == 1
    assert value(status, "relay_assigned_partitions", topic="orders") == 2
    assert value(status, "relay_consumer_lag_records", topic="orders") == 50
    assert value(status, "relay_own_records_produced_total", kind="dead-letter", topic="relay.dead") == 1
    assert value(status, "relay_own_produced_bytes_total", kind="schema-history", topic="relay.history") == 80
    assert value(status, "relay_records_produced_total", topic="relay.dead") is None
    assert value(status, "relay_table_events_total", table="shop.orders", kind="update") == 4
    assert value(status, "relay_table_events_total", table="other", kind="insert") == 2
    assert value(status, "relay_schema_versions") == 12
    clock = Clock()
    assert value(status, "relay_last_record_timestamp_seconds") == clock.time - 5
    assert value(status, "relay_last_commit_timestamp_seconds") == clock.time
    assert (
        value(status, "relay_build_info", version="0.1.0", source="ticdc-canal-json", target="canal-json")
        == 1
    )


def test_histograms_are_cumulative_and_a_bound_belongs_to_its_bucket() -> None:
    status = worked_status()

    def bucket(le: str) -> float | None:
        return value(status, "relay_stage_duration_seconds_bucket", stage="translate", le=le)

    assert [bucket(le) for le in ("0.001", "0.25", "0.5", "60.0", "+Inf")] == [1, 1, 2, 2, 2]
    assert value(status, "relay_stage_duration_seconds_sum", stage="translate") == pytest.approx(0.301)
    assert value(status, "relay_stage_duration_seconds_bucket", stage="produce", le="60.0") == 0
    assert value(status, "relay_stage_duration_seconds_count", stage="produce") == 1
    assert [
        value(status, "relay_batch_records_bucket", le=le) for le in ("1.0", "10.0", "500.0", "+Inf")
    ] == [
        0,
        1,
        2,
        2,
    ]
    assert value(status, "relay_batch_records_sum") == 410


def of_partitions(status: Status, name: str) -> dict[str, float | None]:
    return {number: value(status, name, topic="orders", partition=number) for number in "01"}


def test_every_partition_has_its_lag_in_records_in_kafka_time_and_in_database_time() -> None:
    status, clock = worked_status(), Clock()
    assert of_partitions(status, "relay_partition_lag_records") == {"0": 0, "1": 50}
    record, row, watermark = (
        of_partitions(status, f"relay_partition_last_{what}_timestamp_seconds")
        for what in ("record", "row", "watermark")
    )
    assert record == {"0": clock.time - 5, "1": clock.time - 30}
    assert row == {"0": clock.time - 7, "1": None}
    assert watermark == {"0": clock.time - 6, "1": None}


def test_in_an_outage_no_metric_says_that_nothing_waits() -> None:
    status = running_status(Clock())
    status.set_check("source", ok=False, detail="no broker answers")
    assert of_partitions(status, "relay_partition_lag_records") == {"0": None, "1": None}
    assert value(status, "relay_consumer_lag_records", topic="orders") is None
    assert value(status, "relay_unknown_lag_partitions", topic="orders") == 2


def test_tables_are_metrics_only_on_request() -> None:
    status = worked_status()
    status.about = msgspec.structs.replace(status.about, has_table_metrics=False)
    assert "relay_table_events" not in families(status)


def test_losses_have_a_class() -> None:
    status = worked_status()
    classes = {
        "commit-ts": "note", "tables-filtered": "note", "schema-inferred": "inferred", "decimal-digits": "loss",
    }  # fmt: skip
    for loss, name in classes.items():
        assert value(status, "relay_conversion_losses_total", loss=loss, **{"class": name}) == 0


def test_what_nobody_knew_of_comes_with_its_first_count() -> None:
    status = worked_status()
    status.produced("elsewhere", 1, 1)
    status.add_error("start", "service.new", "", "")
    status.observe("seek", 0.1)
    assert value(status, "relay_records_produced_total", topic="elsewhere") == 1
    assert value(status, "relay_errors_total", stage="start", code="service.new") == 1
    assert value(status, "relay_stage_duration_seconds_count", stage="seek") == 1


def test_hostile_names_stay_inside_their_label() -> None:
    name = 'a"} 1\nrelay_evil_total{x="\\'
    status = make_status(topics={name: "out"})
    found = {family.name: family for family in parse_text(text_of(status))}
    assert "relay_evil" not in found
    assert found["relay_records_consumed"].samples[0].labels == {"topic": name}


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool comes with Debian's package prometheus"
)
def test_the_queries_of_the_documentation_are_valid_and_name_real_metrics(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```promql\n(.*?)^```",
        (ROOT / "docs/operations/monitoring.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    queries = [line for line in block.splitlines() if line and not line.startswith("#")]
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        json.dumps(
            {
                "groups": [
                    {
                        "name": "docs",
                        "rules": [{"alert": f"Q{n}", "expr": query} for n, query in enumerate(queries)],
                    }
                ]
            }
        ),
        encoding="utf-8",
    )
    ran = subprocess.run(
        ["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False, timeout=30
    )
    assert f"SUCCESS: {len(queries)} rules found" in ran.stdout, ran.stderr
    status = running_status(Clock())
    samples = {sample.name for family in families(status).values() for sample in family.samples}
    assert set(re.findall(r"relay_[a-z_]+", block)) <= samples | _BY_PARTITION
    # A label value that no metric has would match nothing, and nobody would notice.
    stages = set(re.findall(r'stage="([a-z]+)"', block))
    assert stages <= {stage for stage, _ in make_status().about.series.errors} | set(STAGES)


def test_checks_are_those_of_readyz() -> None:
    """In an outage lag may stand at 0, since nothing is read, and counters stand still: this is what an alert
    can go by.
    """
    clock = Clock()
    status = running_status(clock)
    names = {"configuration", "source", "target", "member", "schema-history"}
    for name in names:
        status.set_check(name, ok=True)
    assert {name: value(status, "relay_check_ok", check=name) for name in (*names, "loop")} == dict.fromkeys(
        (*names, "loop"), 1
    )
    status.set_check("source", ok=False, detail="no broker answers")
    status.set_check("another", ok=False)
    clock.passes(LIMIT + 1)
    found = {name: value(status, "relay_check_ok", check=name) for name in (*names, "loop", "another")}
    assert found == dict.fromkeys(names, 1) | {"source": 0, "another": 0, "loop": 0}
    lines = report.readiness(status)["checks"]
    assert {name for name, ok in found.items() if not ok} == {
        name for name, line in lines.items() if line.startswith("failing")
    }


def test_a_check_that_nobody_has_made_says_nothing() -> None:
    assert value(make_status(), "relay_check_ok", check="source") is None
    assert value(make_status(), "relay_check_ok", check="loop") == 1


async def test_a_scrape_reads_the_status_as_it_is_then() -> None:
    status = make_status()
    registry: CollectorRegistry = registry_of(status)
    status.consumed("orders", 1, 1)
    await asyncio.sleep(0)
    assert registry.get_sample_value("relay_records_consumed_total", {"topic": "orders"}) == 1
    status.consumed("orders", 1, 1)
    assert registry.get_sample_value("relay_records_consumed_total", {"topic": "orders"}) == 2
