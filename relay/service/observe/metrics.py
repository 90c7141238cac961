"""The status as Prometheus metrics. They are computed on request, so the loop pays nothing for them.

Every label set that is known beforehand is exported from the start with 0, so that an alert on a rate sees
the first error, too. Counters of topics, codes or losses that were not known come with their first count.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector

from relay.io import metrics
from relay.io.metrics import counter, gauge
from relay.service.observe.figures import Histogram, Progress
from relay.service.observe.status import Status

#: The label `table` of the tables beyond the counted number; names have a dot.
OTHER: Final = "other"


class StatusCollector(Collector):
    """Collect the metrics of one status."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now."""
        yield from self._traffic()
        yield from self._outcomes()
        yield from self._losses()
        yield from self._tables()
        yield from self._durations()
        yield from self._positions()
        yield from self._checks()
        yield from self._facts()
        yield from self._processes()
        yield from self._rate_limits()
        yield from self._deduplicate()

    def _traffic(self) -> Iterator[Metric]:
        status = self._status
        for verb, of, topics, records in (
            ("consumed", "read from source topics", status.consumption, metrics.records_consumed),
            ("produced", "that target topics have acknowledged", status.production, metrics.records_produced),
        ):
            yield records({topic: traffic.records for topic, traffic in topics.items()})
            sizes = [((topic,), traffic.size) for topic, traffic in topics.items()]
            yield counter(f"relay_{verb}_bytes", f"Bytes of keys and values {of}.", ("topic",), sizes)
        own = {(kind, topic): status.own_production[kind] for topic, kind in status.about.own_topics.items()}
        own_sizes = [(names, traffic.size) for names, traffic in own.items()]
        yield metrics.own_records_produced([(names, traffic.records) for names, traffic in own.items()])
        text = "Bytes of keys and values written to relay's own topics and acknowledged."
        yield counter("relay_own_produced_bytes", text, ("kind", "topic"), own_sizes)

    def _outcomes(self) -> Iterator[Metric]:
        status, series = self._status, self._status.about.series
        translator = status.translator
        errors = dict.fromkeys(series.errors, 0) | status.errors
        yield metrics.events({} if translator is None else translator.events)
        yield counter(
            "relay_errors",
            "Errors, including those that relay recovers from.",
            ("stage", "code"),
            errors.items(),
        )
        for metric, codes, counts in (
            (metrics.dead_letters, series.dead_letters, status.dead_letters),
            (metrics.skipped_records, series.skipped, status.skips),
        ):
            yield metric({code: counts[code] for code in dict.fromkeys([*codes, *counts])})
        if translator is not None and translator.paths:
            text = "Rows translated by templates (fast), and records that took the slow path."
            paths = [((path,), count) for path, count in translator.paths.items()]
            yield counter("relay_translated_records", text, ("path",), paths)

    def _losses(self) -> Iterator[Metric]:
        status = self._status
        losses = Counter() if status.translator is None else status.translator.losses
        yield metrics.conversion_losses(losses, status.about.series.expected_losses)

    def _tables(self) -> Iterator[Metric]:
        """Yield counts by table, if enabled."""
        status = self._status
        if status.about.has_table_metrics:
            found = [
                ((name or OTHER, kind), count)
                for name, kinds in status.tables.items()
                for kind, count in kinds.items()
            ]
            text = "Translated rows and statements by table; tables beyond the limit are counted together."
            yield counter("relay_table_events", text, ("table", "kind"), found)

    def _durations(self) -> Iterator[Metric]:
        text = "Time of one round spent in a stage; translate is decoding and encoding."
        family = HistogramMetricFamily("relay_stage_duration_seconds", text, labels=["stage"])
        for stage, histogram in self._status.stages.items():
            family.add_metric([stage], _buckets(histogram), histogram.sum)
        yield family
        batches = self._status.batches
        yield HistogramMetricFamily(
            "relay_batch_records", "Records of one round, empty ones aside.", _buckets(batches), batches.sum
        )

    def _positions(self) -> Iterator[Metric]:
        status = self._status
        record, commit = (status.newest_ms or 0) / 1000, status.last_commit or 0
        text = "Kafka timestamp of the newest record read, seconds since 1970; 0 before the first."
        yield GaugeMetricFamily("relay_last_record_timestamp_seconds", text, record)
        text = "Time of the last commit, seconds since 1970; 0 before the first."
        yield GaugeMetricFamily("relay_last_commit_timestamp_seconds", text, commit)
        topics = dict.fromkeys([*status.about.topics, *(each.topic for each in status.partitions)])
        lags: dict[str, list[int | None]] = {topic: [] for topic in topics}
        for partition, progress in status.partitions.items():
            lags[partition.topic].append(status.lag_of(progress))
        known = {topic: [lag for lag in found if lag is not None] for topic, found in lags.items()}
        text = "Partitions that this instance reads."
        assigned = [((topic,), len(found)) for topic, found in lags.items()]
        yield gauge("relay_assigned_partitions", text, ("topic",), assigned)
        text = (
            "Consumer lag in records (end offset less position), summed over the partitions of this instance "
            "whose end was just observed; absent if there is none."
        )
        waiting = [((topic,), sum(found)) for topic, found in known.items() if found]
        yield gauge("relay_consumer_lag_records", text, ("topic",), waiting)
        yield from self._in_flight()
        text = "Partitions of this instance whose consumer lag is not known."
        unknown = [((topic,), len(found) - len(known[topic])) for topic, found in lags.items()]
        yield gauge("relay_unknown_lag_partitions", text, ("topic",), unknown)
        yield from self._by_partition()

    def _in_flight(self) -> Iterator[Metric]:
        """Yield metrics of records read and not acknowledged or committed; omit values not just observed."""
        status = self._status
        text = "Records read that the target has not acknowledged; absent before the first look."
        known = [] if status.in_flight is None else [((), status.in_flight)]
        yield gauge("relay_in_flight_records", text, (), known)
        age = status.in_flight_age
        text = "Seconds without an acknowledgement while records are in flight; 0 while there are none."
        yield gauge("relay_in_flight_age_seconds", text, (), [] if age is None else [((), age)])
        text = "Partitions without a leader; side is source or target."
        found = [((side, topic), count) for (side, topic), count in _offline(status).items()]
        yield gauge("relay_offline_partitions", text, ("side", "topic"), found)

    def _by_partition(self) -> Iterator[Metric]:
        """Yield the known facts of each partition; unknown ones are absent."""
        partitions, lag_of = self._status.partitions, self._status.lag_of

        def family(name: str, text: str, value: Callable[[Progress], float | None]) -> Metric:
            found = [
                ((partition.topic, str(partition.partition)), known)
                for partition, progress in partitions.items()
                if (known := value(progress)) is not None
            ]
            return gauge(name, text, ("topic", "partition"), found)

        lags = {each: lag_of(progress) for each, progress in partitions.items()}
        known = [((each.topic, each.partition), lag) for each, lag in lags.items() if lag is not None]
        yield metrics.partition_lag(known)
        yield family(
            "relay_partition_committed_lag_records",
            "Records of a partition that are not committed (end offset less committed offset).",
            self._status.committed_lag_of,
        )
        yield family(
            "relay_partition_last_record_timestamp_seconds",
            "Kafka timestamp of the newest record read of a partition, seconds since 1970.",
            lambda each: _seconds(each.timestamp_ms),
        )
        yield family(
            "relay_partition_last_row_timestamp_seconds",
            "Time at which the newest row read was committed in the database, seconds since 1970.",
            lambda each: _seconds(each.row_ms),
        )
        yield family(
            "relay_partition_last_watermark_timestamp_seconds",
            "Time of the last watermark read of a partition, by the database, seconds since 1970.",
            lambda each: _seconds(each.watermark_ms),
        )

    def _checks(self) -> Iterator[Metric]:
        status = self._status
        found = {"loop": status.is_alive} | {name: each.ok for name, each in status.checks.items()}
        text = "Whether a check of /readyz is ok (1) or failing (0); each from its first result on."
        yield gauge("relay_check_ok", text, ("check",), (((name,), int(ok)) for name, ok in found.items()))

    def _facts(self) -> Iterator[Metric]:
        status, about = self._status, self._status.about
        yield GaugeMetricFamily("relay_schema_versions", "Table definitions that are known.", status.schemas)
        yield metrics.build_info(about.version, about.source.protocol, about.target.protocol)

    def _rate_limits(self) -> Iterator[Metric]:
        """Yield the limits, and how they hold reading back; nothing for a route without any."""
        status, limits = self._status, self._status.about.rate_limits
        if not limits:
            return
        text = "The configured limit of records, and of bytes of keys and values, read in a second."
        found = {("records",): limits.records, ("bytes",): limits.size}
        yield gauge(
            "relay_rate_limit", text, ("unit",), ((unit, limit) for unit, limit in found.items() if limit)
        )
        text = "Whether the limit is what holds reading back (1): it has just waited, and records wait."
        yield GaugeMetricFamily("relay_rate_limited", text, int(status.is_rate_limited))
        text = "Seconds in which reading waited for the limit, of all processes together."
        yield CounterMetricFamily("relay_rate_limit_wait_seconds", text, status.rate_limited_seconds)

    def _deduplicate(self) -> Iterator[Metric]:
        """Yield how many rows are remembered; nothing if repeated rows are written."""
        translator = self._status.translator
        if translator is not None and translator.remembered_rows is not None:
            text = "Written rows that are remembered, to drop those that the source sends again."
            yield GaugeMetricFamily("relay_remembered_rows", text, translator.remembered_rows)

    def _processes(self) -> Iterator[Metric]:
        """Yield which of several processes are at work."""
        status, count = self._status, self._status.about.processes
        if count > 1:
            found = {(str(number),): int(status.is_at_work(number)) for number in range(count)}
            text = "Whether a process relays (1), or starts, stops or has ended (0)."
            yield gauge("relay_process_running", text, ("process",), found.items())


def registry_of(status: Status) -> CollectorRegistry:
    """Return a registry with the metrics of a status, and of its processes and their interpreters."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(status))
    PlatformCollector(registry=registry)
    if status.about.processes > 1:
        registry.register(ProcessesCollector(status))
        return registry
    for collector in (ProcessCollector, GCCollector):
        collector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics in the format that an Accept header asks for, and its content type."""
    try:
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type
    except (TypeError, ValueError):
        # A version that is not a number.
        encode, content_type = choose_encoder("")
        return generate_latest(registry), content_type


def _offline(status: Status) -> Counter[tuple[str, str]]:
    """Count partitions without a leader by side and topic; 0 for source topics with leaders."""
    found = Counter({("source", topic): 0 for topic in status.about.topics})
    found.update((side, each.topic) for side, every in status.offline.items() for each in every)
    return found


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))


#: Metrics that are reported for the supervisor alone, and not added up.
_OF_ONE: Final = frozenset({"process_start_time_seconds", "process_max_fds"})
_COLLECTIONS: Final = (
    ("python_gc_objects_collected", "Objects collected during gc", "collected"),
    ("python_gc_objects_uncollectable", "Uncollectable objects found during GC", "uncollectable"),
    ("python_gc_collections", "Number of times this generation was collected", "collections"),
)


class ProcessesCollector(Collector):
    """Collect the usual metrics of processes and interpreters, summed over the supervisor and its processes.

    They have the names that one process has. Usage is added up. Start times and limits are not: the start is
    the supervisor's, as they end together, and the limit is that of one process.
    """

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now; those of processes only where there is /proc."""
        yield from self._of_system()
        yield from self._of_collector()

    def _of_system(self) -> Iterator[Metric]:
        found = {family.name: family for family in _usage("self")}
        for report in self._status.processes.values():
            for family in _usage(str(report.pid)):
                if family.name in found and family.name not in _OF_ONE:
                    samples = found[family.name].samples
                    samples[0] = samples[0]._replace(value=samples[0].value + family.samples[0].value)
        yield from found.values()

    def _of_collector(self) -> Iterator[Metric]:
        every = [gc.get_stats(), *(report.collections for report in self._status.processes.values())]
        for name, text, key in _COLLECTIONS:
            family = CounterMetricFamily(name, text, labels=["generation"])
            for number, generations in enumerate(zip(*every, strict=True)):
                family.add_metric([str(number)], sum(each[key] for each in generations))
            yield family


def _usage(pid: str) -> Iterable[Metric]:
    """Return the usage of one process; nothing for a process that has ended."""
    return ProcessCollector(pid=lambda: pid, registry=None).collect()
