"""Prometheus metrics that the service and the Spark job have in common: one declaration of each.

Counters of topics, codes or losses that were not known before come with their first count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from relay.codecs.losses import INFERRED, INFORMATIONAL, Loss
from relay.model.events import Op

#: The kind of rows in `relay_events_total`; their label `op` is the operation, and other kinds have none.
ROW_CHANGE: Final = "row-change"
OPS: Final = tuple(op.value for op in Op)
OTHER_KINDS: Final = ("schema-change", "watermark", "bootstrap", "transaction-mark", "heartbeat")
#: Values of the label `class`. `loss`: row data that the target could have held. `note`: facts that the
#: target's format has no field for, and counts without loss. `inferred`: values that relay inferred.
CLASS_LOSS, CLASS_NOTE, CLASS_INFERRED = "loss", "note", "inferred"

#: The purposes of topics that relay writes besides the target's: values of the label `kind`.
DEAD_LETTERS, SCHEMA_HISTORY = "dead-letter", "schema-history"

_INFORMATIONAL: Final = frozenset(map(str, INFORMATIONAL))
_INFERRED: Final = frozenset(map(str, INFERRED))
Labels = tuple[str, ...]
Counts = Iterable[tuple[Labels, float]]


def counter(name: str, text: str, labels: Labels, counts: Counts) -> Metric:
    """Return a counter with these values by labels."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def gauge(name: str, text: str, labels: Labels, counts: Counts) -> Metric:
    """Return a gauge with these values by labels."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def records_consumed(by_topic: Mapping[str, int]) -> Metric:
    """Return the metric of records read."""
    return _by_label("relay_records_consumed", "Records read from source topics.", "topic", by_topic)


def records_produced(by_topic: Mapping[str, int]) -> Metric:
    """Return the metric of records written to topics."""
    text = "Records that target topics have acknowledged."
    return _by_label("relay_records_produced", text, "topic", by_topic)


def own_records_produced(counts: Counts) -> Metric:
    """Return the metric of records written to relay's own topics, by purpose and topic."""
    text = "Records written to relay's own topics and acknowledged."
    return counter("relay_own_records_produced", text, ("kind", "topic"), counts)


def dead_letters(by_code: Mapping[str, int]) -> Metric:
    """Return the metric of dead letters."""
    return _by_label("relay_dead_letters", "Records that became dead letters.", "code", by_code)


def skipped_records(by_code: Mapping[str, int]) -> Metric:
    """Return the metric of skipped records."""
    return _by_label("relay_skipped_records", "Records left out by the policy skip.", "code", by_code)


def events(by_kind: Mapping[str, int]) -> Metric:
    """Return the metric of translated events. `by_kind`: as a translator counts them."""
    found = dict.fromkeys([*((ROW_CHANGE, op) for op in OPS), *((kind, "") for kind in OTHER_KINDS)], 0)
    found |= {(ROW_CHANGE, kind) if kind in OPS else (kind, ""): count for kind, count in by_kind.items()}
    return counter("relay_events", "Translated events.", ("kind", "op"), found.items())


def conversion_losses(losses: Mapping[Loss, int] | Mapping[str, int], expected: frozenset[str]) -> Metric:
    """Return the metric of losses. `expected`: see `Route.expected_losses`."""

    def class_of(loss: str) -> str:
        if loss in _INFERRED:
            return CLASS_INFERRED
        return CLASS_NOTE if loss in _INFORMATIONAL or loss in expected else CLASS_LOSS

    counts = dict.fromkeys(map(str, Loss), 0) | {str(loss): count for loss, count in losses.items()}
    found = [((loss, class_of(loss)), count) for loss, count in counts.items()]
    text = "Losses of conversions, by kind of loss and class (loss, note, inferred)."
    return counter("relay_conversion_losses", text, ("loss", "class"), found)


def partition_lag(by_partition: Iterable[tuple[tuple[str, int], float]]) -> Metric:
    """Return the metric of lags by topic and partition; unknown ones are left out."""
    found = [((topic, str(number)), lag) for (topic, number), lag in by_partition]
    text = "Consumer lag of a partition, in records."
    return gauge("relay_partition_lag_records", text, ("topic", "partition"), found)


def build_info(version: str, source: str, target: str) -> Metric:
    """Return the metric of the version and the route."""
    text = "Version and route; always 1."
    return gauge("relay_build_info", text, ("version", "source", "target"), [((version, source, target), 1)])


def _by_label(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    return counter(name, text, (label,), [((value,), count) for value, count in counts.items()])
