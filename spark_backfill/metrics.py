"""Serve Prometheus metrics from the driver while a run over topics is under way.

All counters are those of completed steps. Values that were not just observed are left out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from relay.config import Config, kafka
from relay.config.wiring import translator_of
from relay.io import metrics
from relay.io.metrics import counter, gauge
from relay.model.errors import RelayError, ServiceError
from spark_backfill.brokers import JavaAdmin, client_options
from spark_backfill.counts import BackfillCounts
from spark_backfill.job import TopicsRun

#: How long a scrape waits for the brokers; Prometheus waits 10 s for a scrape by default.
_ANSWER_MS: Final = 3_000


class RunMetrics(Collector):
    """Collect the metrics of a run."""

    def __init__(self, spark: SparkSession, config: Config, run: TopicsRun) -> None:
        self._spark, self._config, self._run = spark, config, run
        self._route = translator_of(config).route
        # Requests are answered in threads, and steps end in another one, which must not wait for the brokers.
        self._counts_lock, self._admin_lock = threading.Lock(), threading.Lock()
        self._counts = BackfillCounts()
        self._steps, self._last_step = 0, 0.0
        self._admin: JavaAdmin | None = None

    def add_step(self, counts: BackfillCounts) -> None:
        """Add a completed step."""
        with self._counts_lock:
            self._counts.add(counts)
            self._steps, self._last_step = self._steps + 1, time.time()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now."""
        with self._counts_lock:
            found = [*self._of_steps(), *self._of_records()]
        yield from found
        with self._admin_lock:
            lags = self._lags()
        yield metrics.partition_lag(lags.items())

    def close(self) -> None:
        """Disconnect from the brokers."""
        with self._admin_lock:
            if self._admin is not None:
                self._admin.close()

    def _of_steps(self) -> Iterator[Metric]:
        yield metrics.build_info(version("relay-cdc"), self._config.route.from_, self._config.route.to)
        yield counter("relay_backfill_steps", "Steps that this run has completed.", (), [((), self._steps)])
        running = self._run.running_step
        text = "Number of the step in progress; absent between two steps."
        yield gauge("relay_backfill_running_step", text, (), [] if running is None else [((), running)])
        text = "Time of the last completed step, seconds since 1970; absent before the first."
        last = [((), self._last_step)] if self._steps else []
        yield gauge("relay_backfill_last_step_timestamp_seconds", text, (), last)

    def _of_records(self) -> Iterator[Metric]:
        counts = self._counts
        read, written = Counter[str](), Counter[str]()
        for partition, (_, _, records) in counts.ranges.items():
            read[partition.rpartition("/")[0]] += records
        for partition, records in counts.written.items():
            written[partition.rpartition("/")[0]] += records
        yield metrics.records_consumed(read)
        if self._config.backfill.output:
            text = "Records written to files."
            found = [((topic,), records) for topic, records in written.items()]
            yield counter("relay_backfill_records_written", text, ("topic",), found)
        else:
            own = self._config.dead_letter_topic if self._config.has_dead_letters else None
            yield metrics.records_produced({topic: count for topic, count in written.items() if topic != own})
            if own is not None:
                yield metrics.own_records_produced([((metrics.DEAD_LETTERS, own), written[own])])
        yield metrics.events(counts.events)
        yield metrics.conversion_losses(counts.lost, self._route.expected_losses)
        yield metrics.dead_letters(counts.failed.get("dead letters", {}))
        yield metrics.skipped_records(counts.failed.get("skipped", {}))

    def _lags(self) -> dict[tuple[str, int], int]:
        """Return each partition's present end less the end of the last step; nothing if either is unknown."""
        found: dict[tuple[str, int], int] = {}
        # No lag is reported if Spark or the brokers do not answer.
        with contextlib.suppress(RelayError, Py4JError, OSError):
            positions = self._run.positions()
            if not positions:
                return {}
            if self._admin is None:
                options = client_options(kafka.source_cluster(self._config))
                self._admin = JavaAdmin(self._spark, options, answer_ms=_ANSWER_MS, request_ms=_ANSWER_MS)
            ends = self._admin.end_offsets({topic: 1 + max(each) for topic, each in positions.items()})
            for topic, offsets in positions.items():
                for number, offset in offsets.items():
                    if (lag := ends[f"{topic}/{number}"] - offset) >= 0:  # else the topic is another one
                        found[topic, number] = lag
        return found


@contextlib.contextmanager
def served(collector: RunMetrics, host: str, port: int) -> Iterator[None]:
    """Serve metrics, with those of the driver's Python, until the block ends. Raises ServiceError."""
    registry = CollectorRegistry()
    for each in (PlatformCollector, ProcessCollector):
        each(registry=registry)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ServiceError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        collector.close()
