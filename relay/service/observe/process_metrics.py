"""The usual metrics of processes and interpreters, summed over the supervisor and its processes.

Usage is added up. Start times and limits are not: the start is the supervisor's, as they end together, and
the limit is that of one process.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from relay.service.observe.status import Status

#: Metrics that are reported for the supervisor alone, and not added up.
_OF_ONE: Final = frozenset({"process_start_time_seconds", "process_max_fds"})
_COLLECTIONS: Final = (
    ("python_gc_objects_collected", "Objects collected during gc", "collected"),
    ("python_gc_objects_uncollectable", "Uncollectable objects found during GC", "uncollectable"),
    ("python_gc_collections", "Number of times this generation was collected", "collections"),
)


class ProcessesCollector(Collector):
    """Collect them for a status of several processes, under the names that one process has."""

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
