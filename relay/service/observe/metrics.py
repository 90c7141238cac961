"""The status as Prometheus metrics. They are made when they are asked for, so the loop pays nothing for them.

Every label set that is known beforehand is there from the start and shows 0, so that an alert on a rate sees
the first error, too. Counters of topics, codes or losses that were not known come with their first count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector

from relay.codecs.losses import Lossy
from relay.errors import RelayError
from relay.model import Op
from relay.service.observe.process_metrics import ProcessesCollector
from relay.service.observe.status import ERROR_STAGES, RUNNING, Histogram, Status

#: The kind of rows in `relay_events_total`; their label `op` is the operation, and other kinds have none.
ROW_CHANGE: Final = "row-change"
OPS: Final = tuple(op.value for op in Op)
OTHER_KINDS: Final = ("schema-change", "watermark", "transaction-mark", "heartbeat")
#: The code of any exception that is none of relay's own.
DEFECT: Final = "defect"

Labels = tuple[str, ...]
Counts = Iterable[tuple[Labels, float]]


def error_codes() -> list[str]:
    """Return the codes of all errors, in order."""

    def below(kind: type[RelayError]) -> Iterator[str]:
        yield kind.code
        for subclass in kind.__subclasses__():
            if subclass.__module__.startswith("relay."):
                yield from below(subclass)

    return sorted({*below(RelayError), DEFECT})


class StatusCollector(Collector):
    """Collects the metrics of one status."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._codes = error_codes()

    def collect(self) -> Iterable[Metric]:
        """Make the metrics as of now."""
        yield from self._traffic()
        yield from self._outcomes()
        yield from self._durations()
        yield from self._positions()
        yield from self._checks()
        yield from self._facts()
        yield from self._processes()

    def _traffic(self) -> Iterator[Metric]:
        status = self._status
        for verb, of, topics in (
            ("consumed", "read from source topics", status.consumption),
            ("produced", "that target topics have acknowledged", status.production),
        ):
            records = [((topic,), traffic.records) for topic, traffic in topics.items()]
            sizes = [((topic,), traffic.size) for topic, traffic in topics.items()]
            yield _counter(f"relay_records_{verb}", f"Records {of}.", ("topic",), records)
            yield _counter(f"relay_{verb}_bytes", f"Bytes of keys and values {of}.", ("topic",), sizes)

    def _outcomes(self) -> Iterator[Metric]:
        status, codes = self._status, self._codes
        translator = status.translator
        events = dict.fromkeys([*((ROW_CHANGE, op) for op in OPS), *((kind, "") for kind in OTHER_KINDS)], 0)
        lossy = dict.fromkeys([(str(what),) for what in Lossy], 0)
        if translator is not None:
            events |= {
                (ROW_CHANGE, kind) if kind in OPS else (kind, ""): count
                for kind, count in translator.events.items()
            }
            lossy |= {(str(what),): count for what, count in translator.lossy.items()}
        errors = dict.fromkeys([(stage, code) for stage in ERROR_STAGES for code in codes], 0) | status.errors
        yield _counter("relay_events", "Translated events.", ("kind", "op"), events.items())
        yield _counter(
            "relay_errors", "Errors, also those that relay copes with.", ("stage", "code"), errors.items()
        )
        for name, text, counts in (
            ("relay_dead_letters", "Records written to the dead-letter topic.", status.dead_letters),
            ("relay_skipped_records", "Records left out by the policy skip.", status.skips),
        ):
            by_code = {(code,): counts[code] for code in dict.fromkeys([*codes, *counts])}
            yield _counter(name, text, ("code",), by_code.items())
        if translator is not None and translator.ways:
            ways = [((way,), count) for way, count in translator.ways.items()]
            text = "Records translated by templates and in the straight line, where there is an engine."
            yield _counter("relay_translated_records", text, ("way",), ways)
        yield _counter(
            "relay_lossy_conversions",
            "What the target could not carry, and what was assumed.",
            ("what",),
            lossy.items(),
        )

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
        event, commit = (status.newest_ms or 0) / 1000, status.last_commit or 0
        text = "Kafka timestamp of the newest record read, seconds since 1970; 0 before the first."
        yield GaugeMetricFamily("relay_last_event_timestamp_seconds", text, event)
        text = "Time of the last commit, seconds since 1970; 0 before the first."
        yield GaugeMetricFamily("relay_last_commit_timestamp_seconds", text, commit)
        assigned, lag = (dict.fromkeys([(topic,) for topic in status.about.topics], 0) for _ in range(2))
        for partition, progress in status.partitions.items():
            topic = (partition.topic,)
            assigned[topic] = assigned.get(topic, 0) + 1
            lag[topic] = lag.get(topic, 0) + (progress.lag or 0)
        yield _gauge(
            "relay_assigned_partitions", "Partitions that this instance reads.", ("topic",), assigned.items()
        )
        yield _gauge(
            "relay_consumer_lag_records",
            "Records that wait in the partitions of this instance.",
            ("topic",),
            lag.items(),
        )

    def _checks(self) -> Iterator[Metric]:
        status = self._status
        found = {"loop": status.is_alive} | {name: each.ok for name, each in status.checks.items()}
        text = "Whether a check of /readyz is ok (1) or failing (0); each from its first result on."
        yield _gauge("relay_check_ok", text, ("check",), (((name,), int(ok)) for name, ok in found.items()))

    def _facts(self) -> Iterator[Metric]:
        status, about = self._status, self._status.about
        yield GaugeMetricFamily("relay_schema_versions", "Table definitions that are known.", status.schemas)
        facts = {(about.version, about.source.protocol, about.target.protocol): 1}
        yield _gauge(
            "relay_build_info", "Version and route; always 1.", ("version", "source", "target"), facts.items()
        )

    def _processes(self) -> Iterator[Metric]:
        """Say which of several processes are at work."""
        status, count = self._status, self._status.about.processes
        if count > 1:
            at_work = {number for number, told in status.processes.items() if told.status.phase == RUNNING}
            found = {(str(number),): int(number in at_work) for number in range(count)}
            text = "Whether a process relays (1), or starts, stops or has ended (0)."
            yield _gauge("relay_process_running", text, ("process",), found.items())


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
        # A version that is no number.
        encode, content_type = choose_encoder("")
        return generate_latest(registry), content_type


def _counter(name: str, text: str, labels: Labels, counts: Counts) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, labels: Labels, counts: Counts) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
