"""Metrics of a run: figures of completed steps, and the lag as the brokers report it."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from spark.test_topics import of_topic, topics_config

from relay.demo.kafka import free_ports
from relay.model.errors import ServiceError
from spark_backfill.job import TopicsRun
from spark_backfill.metrics import RunMetrics, served

pytestmark = pytest.mark.kafka


def scraped(port: int) -> list[str]:
    """The lines of the metrics on this machine."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return bytes(answer.read()).decode().splitlines()


def values_of(collector: RunMetrics) -> dict[str, float]:
    """The samples, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        ",".join([sample.name, *sample.labels.values()]): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


async def test_figures_are_those_of_completed_steps(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """Nothing is claimed before, and no lag without an answer of the brokers."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, [*records, records[0].__class__(source, 0, 0, 0, None, b"no JSON")])
    errors = {"decode": "dead-letter", "dead_letter_topic": f"{target}-dead"}
    config = topics_config(kafka, source, target, tmp_path, errors=errors)
    collectors: list[RunMetrics] = []
    during: list[dict[str, float]] = []

    def add(_: int, counts: Any, __: float) -> None:
        collectors[0].add_step(counts)
        during.append(values_of(collectors[0]))

    run = TopicsRun(spark, config, add)
    collectors.append(RunMetrics(spark, config, run))
    before = values_of(collectors[0])
    assert before["relay_backfill_steps_total"] == before["relay_events_total,row-change,insert"] == 0
    assert not [name for name in before if name.startswith(("relay_partition_lag", "relay_backfill_running"))]
    assert "relay_backfill_last_step_timestamp_seconds" not in before
    run.run()
    assert [each["relay_backfill_running_step"] for each in during] == [0]
    await kafka.produce(source, records[:3])
    after = values_of(collectors[0])
    assert "relay_backfill_running_step" not in after
    assert after["relay_backfill_steps_total"] == 1
    assert after["relay_backfill_last_step_timestamp_seconds"] > 1_700_000_000
    assert after[f"relay_records_consumed_total,{source}"] == len(records) + 1
    assert after[f"relay_records_produced_total,{target}"] == await kafka.length(target)
    assert after[f"relay_own_records_produced_total,dead-letter,{target}-dead"] == 1
    assert after["relay_dead_letters_total,decode.malformed"] == 1
    assert after["relay_events_total,row-change,insert"] == run.counts.events["insert"] > 0
    assert after["relay_conversion_losses_total,watermark,note"] == run.counts.lost["watermark"] > 0
    assert after[f"relay_partition_lag_records,{source},0"] == 3
    collectors[0].close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{taken.getsockname()[1]}"
        away = topics_config(kafka, source, target, tmp_path, source={"bootstrap_servers": servers})
        lost = RunMetrics(spark, away, run)
        assert not [name for name in values_of(lost) if name.startswith("relay_partition_lag")]
        lost.close()


async def test_a_taken_port_ends_the_run(spark: Any, kafka: Any, tmp_path: Path) -> None:
    source = await kafka.topic()
    config = topics_config(kafka, source, await kafka.topic(), tmp_path)
    collector, port = RunMetrics(spark, config, TopicsRun(spark, config)), free_ports(1)[0]
    with served(collector, "127.0.0.1", port):
        assert "relay_backfill_steps_total 0.0" in scraped(port)
        with (
            pytest.raises(ServiceError, match=f"cannot serve metrics on 127.0.0.1:{port}: Address"),
            served(collector, "127.0.0.1", port),
        ):
            pass
    with pytest.raises(OSError, match="refused"):
        scraped(port)
