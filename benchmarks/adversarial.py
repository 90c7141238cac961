"""Messages that are chosen so that templates do not help: what relay with an engine needs for them, next to
the pipeline.

By processor time, in turns: each is a stream that two translators have seen before, one with the engine
that `RELAY_KERNEL` chooses and one without; of a stream of ever new definitions they have seen the first
half. The ratio is the median over the rounds. A message that fits no template is looked at without success
before it takes the slow path, and that is to cost no more than a tenth.
"""

from __future__ import annotations

import gc
import itertools
import random
import re
import statistics
import time
from collections.abc import Callable
from functools import partial

import msgspec

from benchmarks import wide
from benchmarks.routes import ROUTES
from relay.core.translator import Translator
from relay.io.kernel import engine, engine_name, mode
from relay.model.records import ConsumerRecord
from relay.templates.engine import MAX_TRIED

#: What a stream may cost of the pipeline's time.
MOST = 1.10
_SAMPLE_SECONDS = 0.05
#: Records that are translated before anything is measured, in passes over the stream.
_WARM = 12
_MESSAGES = 48
_STATEMENTS = 240

Records = list[ConsumerRecord]


class Worst(msgspec.Struct, frozen=True):
    """One stream: what a message takes, in microseconds, and which part of them fits templates."""

    name: str
    bytes_per_message: float
    by_template: float
    slow_us: float
    relay_us: float
    ratio: float


def measure(rounds: int, progress: Callable[[str], None]) -> list[Worst]:
    """Measure every stream; none without an engine."""
    if not engine_name():
        return []
    streams = [_Stream(name, make()) for name, make in _STREAMS.items()]
    for number in range(rounds):
        progress(f"adversarial: round {number + 1} of {rounds}")
        for stream in streams:
            stream.sample()
    return [stream.result() for stream in streams]


class _Stream:
    def __init__(self, name: str, records: Records) -> None:
        self._name = name
        self._samples: list[tuple[float, float]] = []
        self._is_new = name in _NEW_DEFINITIONS
        middle = len(records) // 2 if self._is_new else 0
        self._first, self._records = records[:middle], records[middle:]
        self._begin()
        for translator in (self._relay, self._slow):
            for record in records * (0 if self._is_new else _WARM):
                translator.translate(record)
        self._repeat = 1
        if not self._is_new:
            self._repeat = max(1, round(_SAMPLE_SECONDS / self._seconds(self._slow)))

    def _begin(self) -> None:
        self._relay, self._slow = ROUTES[0].translator(engine(mode())), ROUTES[0].translator()

    def sample(self) -> None:
        """Take one sample of each, in either order."""
        if self._is_new:
            self._begin()
            # What was made without success at first is once and for all.
            for record, way in itertools.product(self._first, (self._slow, self._relay)):
                way.translate(record)
        ways = [self._slow, self._relay]
        if len(self._samples) % 2:
            ways.reverse()
        found = {way: self._seconds(way) for way in ways}
        self._samples.append((found[self._slow], found[self._relay]))

    def _seconds(self, translator: Translator) -> float:
        translate, records = translator.translate, self._records
        gc.collect()
        began = time.process_time()
        for _ in range(self._repeat):
            for record in records:
                translate(record)
        return (time.process_time() - began) / self._repeat

    def result(self) -> Worst:
        """Put the samples together."""
        count = len(self._records)
        slow, relay = (statistics.median(each) for each in zip(*self._samples, strict=True))
        before = 0 if self._is_new else self._relay.paths["fast"]
        for record in () if self._is_new else self._records:
            self._relay.translate(record)
        return Worst(
            self._name,
            sum(len(record.value or b"") for record in self._records) / count,
            (self._relay.paths["fast"] - before) / count,
            slow * 1e6 / count,
            relay * 1e6 / count,
            statistics.median(ours / theirs for theirs, ours in self._samples),
        )


# ---------------------------------------------------------------- streams


def _table(workload: str) -> tuple[ConsumerRecord, Records]:
    """A table's statement, and inserts of it."""
    statement, *rows = wide.messages(workload, 4 * _MESSAGES)
    inserts = [row for row in rows if b'"type":"INSERT"' in (row.value or b"")]
    return statement, inserts[:_MESSAGES]


def _changed(workload: str, change: Callable[[bytes, int], bytes]) -> Records:
    """Inserts of a table, of which some are as they were, so that there is a template, and all others are
    changed.
    """
    statement, rows = _table(workload)
    values = [change(row.value or b"", at) if at % 8 else row.value for at, row in enumerate(rows)]
    changed = [msgspec.structs.replace(row, value=value) for row, value in zip(rows, values, strict=True)]
    return [statement, *changed]


def _with_text(workload: str, text: bytes) -> Records:
    """With another text in the last column that has one."""

    def change(value: bytes, _: int) -> bytes:
        start = value.rindex(b'"data":[{')
        found = list(re.finditer(rb'":"([0-9a-f]{16,24})"', value[start:]))[-1]
        return value[: start + found.start(1)] + text + value[start + found.end(1) :]

    return _changed(workload, change)


def _with_number(workload: str, text: bytes) -> Records:
    """With another text in the last column of a decimal."""

    def change(value: bytes, _: int) -> bytes:
        start = value.rindex(b'"data":[{')
        found = list(re.finditer(rb'":"(\d+\.\d\d)"', value[start:]))[-1]
        return value[: start + found.start(1)] + text + value[start + found.end(1) :]

    return _changed(workload, change)


def _missing(value: bytes, at: int) -> bytes:
    """Without the last columns of the row: so many are missing that shapes come again late."""
    row = value[value.rindex(b'"data":[{') + 9 : value.rindex(b"}]")]
    members = row.split(b',"')
    kept = b',"'.join(members[: len(members) - at])
    return value.replace(row, kept)


def _near_misses(workload: str, shapes: int) -> Records:
    """So many shapes with the same text at the marker, which differ at the end alone, one after the other."""
    statement, rows = _table(workload)
    values = [_missing(row.value or b"", at % shapes) for at, row in enumerate(rows)]
    changed = [msgspec.structs.replace(row, value=value) for row, value in zip(rows, values, strict=True)]
    return [statement, *changed]


def _random_shapes(workload: str) -> Records:
    """Rows of which each lacks other columns."""
    statement, rows = _table(workload)
    chance = random.Random(1)  # noqa: S311 - made to be the same in every run
    made = []
    for row in rows:
        value = row.value or b""
        old = value[value.rindex(b'"data":[{') + 9 : value.rindex(b"}]")]
        first, *members = old.split(b',"')
        kept = [member for member in members if chance.random() < 0.7]
        made.append(msgspec.structs.replace(row, value=value.replace(old, b',"'.join([first, *kept]))))
    return [statement, *made]


def _with_ddl(workload: str, every: int) -> Records:
    """A statement before every few rows, which drops the templates: each a new version of the table."""
    statement, *rows = wide.messages(workload, _STATEMENTS * every)
    records = [statement]
    for at, row in enumerate(rows):
        if at % every == 0:
            records.append(wide.altered(row, at // every))
        records.append(row)
    return [msgspec.structs.replace(record, offset=at) for at, record in enumerate(records)]


def _spaced(value: bytes, _: int) -> bytes:
    return value[:-1] + b" }"


def _conditions(workload: str) -> Records:
    """Updates: both rows, with a comparison of every column."""
    statement, *rows = wide.messages(workload, 8 * _MESSAGES)
    return [statement, *[row for row in rows if b'"type":"UPDATE"' in (row.value or b"")][:_MESSAGES]]


_EVERY = (4, 8, 16, 64)
_PLAIN, _OTHER, _MIXED = rb"\"\\\n" * 2, rb"\/\u0041", rb"\u00e9\ud83d\ude00"
_STREAMS: dict[str, Callable[[], Records]] = {
    "ordinary rows": lambda: _changed("wide_12", lambda value, _at: value),
    "updates of 40 columns": lambda: _conditions("wide_40"),
    "escapes as msgspec writes them, 200 bytes": lambda: _with_text("wide_12", _PLAIN * 16),
    "as msgspec writes them, 20 kB": lambda: _with_text("wide_12", _PLAIN * 1600),
    "other escapes, 200 bytes": lambda: _with_text("wide_12", _OTHER * 25),
    "other escapes, 4 kB": lambda: _with_text("wide_12", _OTHER * 500),
    "other escapes, 20 kB": lambda: _with_text("wide_12", _OTHER * 2500),
    "escaped letters of other scripts, 4 kB": lambda: _with_text("wide_12", _MIXED * 220),
    "escaped letters of other scripts, 20 kB": lambda: _with_text("wide_12", _MIXED * 1100),
    "plain text, 1 MB": lambda: _with_text("wide_12", b"x" * 1_000_000)[:9],
    "a decimal of 65 digits": lambda: _with_number("wide_12", b"9" * 63 + b".99"),
    "a decimal of 60 kB": lambda: _with_number("wide_12", b"9" * 60_000 + b".99"),
    "white space at the end, 12 columns": lambda: _changed("wide_12", _spaced),
    "white space at the end, 200 columns": lambda: _changed("wide_200", _spaced),
    f"{MAX_TRIED} shapes of one marker in turn, 12 columns": lambda: _near_misses("wide_12", MAX_TRIED),
    f"{MAX_TRIED + 1} of them, 12 columns": lambda: _near_misses("wide_12", MAX_TRIED + 1),
    f"{MAX_TRIED + 1} of them, 200 columns": lambda: _near_misses("wide_200", MAX_TRIED + 1),
    f"{3 * MAX_TRIED} of them, 40 columns": lambda: _near_misses("wide_40", 3 * MAX_TRIED),
    "other columns in each row of 40": lambda: _random_shapes("wide_40"),
    f"{3 * MAX_TRIED} of them, 200 columns": lambda: _near_misses("wide_200", 3 * MAX_TRIED),
    **{f"a statement every {every} rows": partial(_with_ddl, "wide_12", every) for every in _EVERY},
}
_NEW_DEFINITIONS = {name for name in _STREAMS if name.startswith("a statement")}
