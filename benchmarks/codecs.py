"""Microseconds a message, per route, next to a floor that no translator can beat: parse the one, write the
other.

How it is measured, so that nobody is fooled:
* The floor, `orjson.loads` of the source's message and `orjson.dumps` of the finished target's, keys included
  where they are JSON, runs on the same messages, in the same process, right before the route, in every round.
  It decides nothing and converts nothing. In Avro it is `fastavro.schemaless_reader` and
  `schemaless_writer`. Figures are medians over the rounds; the ratio is the median of the rounds' own ratios.
* Steady state: a translator that has seen the whole file once translates the row messages of that file again
  and again. A fresh translator a round would time its empty caches, and repeating the DDL would time what
  happens once a year.
* relay is measured with the engine that `RELAY_KERNEL` chooses (the native kernel, if it is installed), and
  without one: `slow`.
* The first pass over the file (DDL, watermarks, empty caches) is reported as well, as `cold`.
* Tables of many columns and many tables (`benchmarks.wide`) have values that never repeat. They are measured
  where the source is TiCDC's Canal-JSON, many tables and the widest on the first route alone.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import orjson

from benchmarks import avro, packets, wide
from benchmarks.avro import RESOLVER
from benchmarks.routes import ROUTES, Route, workloads
from relay.core.translator import Translator
from relay.io.kernel import engine, mode
from relay.model.events import RowChange
from relay.model.records import ConsumerRecord
from relay.mysql.numbers import shortest_nonzero_float32

TOTAL = "total"
_MOST_MADE = 400
_TIMES_OF_A_TABLE = 3
#: Made workloads that are measured on every route.
_EVERYWHERE = ("wide_12", "wide_40")


class Effort(NamedTuple):
    """How thoroughly to measure.

    rounds: Samples of each workload.
    sample_seconds: Minimum length of a sample, so that the clock and the scheduler do not matter.
    warm: Passes until every shape has its template, and every function is compiled.
    made_columns: Columns of a made workload in all; it has enough messages to hold each table a few times.
    """

    rounds: int
    sample_seconds: float
    warm: int
    made_columns: int


FULL: Final = Effort(rounds=15, sample_seconds=0.03, warm=40, made_columns=16_000)
QUICK: Final = Effort(rounds=3, sample_seconds=0.005, warm=20, made_columns=1_600)


class Timing(msgspec.Struct, frozen=True):
    """One line of the report; times are microseconds a message. A message may hold several rows."""

    route: str
    workload: str
    messages: int
    rows: int
    bytes_per_message: float
    floor_us: float
    relay_us: float
    ratio: float
    slow_us: float
    slow_ratio: float
    relay_us_per_row: float
    cold_us: float
    rounds: int


class _Case:
    """A route, a workload, and the translator that has already seen it."""

    def __init__(self, route: Route, workload: str, records: list[ConsumerRecord], effort: Effort) -> None:
        self.route = route
        self.workload = workload
        reader = route.translator()
        counted = [(record, _rows_in(reader, record)) for record in records]
        self.messages = [record for record, rows in counted if rows]
        self.rows = sum(rows for _, rows in counted)
        self._translator = route.translator(engine(mode()))
        self._slow = route.translator()
        began = time.perf_counter()
        for record in records:
            RESOLVER.translate(self._translator, record)
        self.cold_seconds = time.perf_counter() - began
        for translator in (self._translator, self._slow):
            for record in records * effort.warm:
                RESOLVER.translate(translator, record)
        #: What the floor parses and writes: JSON texts of the source, finished documents of the target; and
        #: what reads and writes Avro, and reads packets of Canal.
        self.texts = [text for record in self.messages for text in route.json_texts(record)]
        parts = [part for record in self.messages for part in route.avro_parts(record)]
        read_alone = [packet for record in self.messages for packet in route.packets(record)]
        self.bytes = sum(map(len, self.texts)) + sum(map(len, parts)) + sum(map(len, read_alone))
        made = [out for record in self.messages for out in self._translator.translate(record)]
        self._documents = [orjson.loads(text) for out in made for text in route.json_texts(out)]
        self._binary = [avro.reading(part) for part in parts]
        self._binary += [avro.writing(part) for out in made for part in route.avro_parts(out)]
        self._binary += list(map(packets.reading, read_alone))
        self.cold_messages = len(records)
        self.repeat = 1
        self.repeat = max(1, round(effort.sample_seconds / self.relay_seconds()))
        self.samples: list[tuple[float, float, float]] = []

    def floor_seconds(self) -> float:
        """Seconds for one pass of parsing and writing."""
        loads, dumps, texts, documents = orjson.loads, orjson.dumps, self.texts, self._documents
        binary = self._binary

        def one_pass() -> None:
            # What is made is let go at once: kept, the allocator's work for large messages would outweigh the
            # floor itself.
            for text in texts:
                loads(text)
            for document in documents:
                dumps(document)
            for each in binary:
                each()

        return self._timed(one_pass)

    def relay_seconds(self) -> float:
        """Seconds for one pass of the translator."""
        return self._seconds(self._translator)

    def _seconds(self, translator: Translator) -> float:
        translate, messages = translator.translate, self.messages

        def one_pass() -> None:
            for record in messages:
                translate(record)

        return self._timed(one_pass)

    def _timed(self, one_pass: Callable[[], object]) -> float:
        gc.collect()
        began = time.perf_counter()
        for _ in range(self.repeat):
            # What is remembered by value would always be there: real traffic is not the same rows again.
            shortest_nonzero_float32.cache_clear()
            one_pass()
        return (time.perf_counter() - began) / self.repeat

    def sample(self) -> None:
        """Take one sample of each."""
        self.samples.append((self.floor_seconds(), self.relay_seconds(), self._seconds(self._slow)))


def _rows_in(reader: Translator, record: ConsumerRecord) -> int:
    """How many rows a message holds; 0 for every other message."""
    return sum(isinstance(event, RowChange) for event in RESOLVER.inspect(reader, record))


def measure(data: Path, effort: Effort, progress: Callable[[str], None]) -> list[Timing]:
    """Measure every route on every workload; the rounds are interleaved, so that a busy moment hits all
    alike.
    """
    cases = [
        _Case(route, name, records, effort)
        for route in ROUTES
        for name, records in (workloads(route, data) | _wide(route, effort)).items()
    ]
    # Before each sample the collector runs; what stays until the end is not looked at again and again.
    gc.collect()
    gc.freeze()
    for number in range(effort.rounds):
        progress(f"codecs: round {number + 1} of {effort.rounds}")
        for case in cases:
            case.sample()
    timings = []
    for route in ROUTES:
        ours = [case for case in cases if case.route is route]
        timings += [_timing([case], case.workload) for case in ours]
        timings.append(_timing([case for case in ours if case.workload not in _MADE], TOTAL))
    return timings


_MADE = {**wide.COLUMNS, **wide.TABLES}


def _wide(route: Route, effort: Effort) -> dict[str, list[ConsumerRecord]]:
    """Tables of many columns, and many tables; no part of the total, as their values are made up."""
    if route.source != wide.PROTOCOL:
        return {}
    names = _MADE if route is ROUTES[0] else _EVERYWHERE
    return {name: list(wide.messages(name, _count(name, effort))) for name in names}


def _count(workload: str, effort: Effort) -> int:
    """How many messages of a made workload are measured."""
    if workload in wide.TABLES:
        return max(_MOST_MADE, wide.TABLES[workload] * _TIMES_OF_A_TABLE)
    return min(_MOST_MADE, effort.made_columns // wide.COLUMNS[workload])


def _timing(cases: list[_Case], workload: str) -> Timing:
    """Put the samples of one workload, or of all workloads of a route, into one line."""
    messages, rows = sum(len(case.messages) for case in cases), sum(case.rows for case in cases)
    rounds = list(zip(*(case.samples for case in cases), strict=True))
    floors, ours, slow = (
        [sum(times[which] for times in samples) for samples in rounds] for which in range(3)
    )
    return Timing(
        route=str(cases[0].route),
        workload=workload,
        messages=messages,
        rows=rows,
        bytes_per_message=sum(case.bytes for case in cases) / messages,
        floor_us=statistics.median(floors) * 1e6 / messages,
        relay_us=statistics.median(ours) * 1e6 / messages,
        ratio=statistics.median(relay / floor for floor, relay in zip(floors, ours, strict=True)),
        slow_us=statistics.median(slow) * 1e6 / messages,
        slow_ratio=statistics.median(way / floor for floor, way in zip(floors, slow, strict=True)),
        relay_us_per_row=statistics.median(ours) * 1e6 / rows,
        cold_us=sum(case.cold_seconds for case in cases) * 1e6 / sum(case.cold_messages for case in cases),
        rounds=len(rounds),
    )
