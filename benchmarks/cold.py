"""Tables that relay has not seen before: what few rows of each cost with an engine and without.

A template is derived once for each shape of rows, and pays off only if rows of the shape follow. Each sample
is the first pass of a fresh translator over a load, in processor time, after the CREATE TABLE of every table;
the ways take turns. The floor parses each message and writes the finished one, as in `benchmarks.codecs`.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import orjson

from benchmarks import wide
from benchmarks.routes import ROUTES
from relay.core.translator import Translator
from relay.io.kernel import engine, mode
from relay.model.records import ConsumerRecord
from relay.templates.engine import Engine

_COLUMNS: Final = 12
#: Half updates, 40 % inserts, 10 % deletes.
_OPS: Final = ("UPDATE",) * 5 + ("INSERT",) * 4 + ("DELETE",)


class Load(NamedTuple):
    """Rows of tables in turn. `ddl_every`: how many rows follow each DDL statement; 0 for no statements."""

    tables: int
    rows_per_table: int
    ddl_every: int = 0


LOADS: Final[Mapping[str, Load]] = {
    "1,000 tables of 5 rows": Load(1_000, 5),
    "3,000 tables of 5 rows": Load(3_000, 5),
    "1,000 tables of 30 rows": Load(1_000, 30),
    "100 tables of 100 rows, DDL every 50 rows": Load(100, 100, ddl_every=50),
}


class Cold(msgspec.Struct, frozen=True):
    """One load; times are microseconds of processor time a row, ratios the medians of the rounds' own.

    `slow_ratio`: without an engine, to the floor; `ratio`: with an engine, to the time without.
    """

    name: str
    rows: int
    floor_us: float
    slow_us: float
    relay_us: float
    slow_ratio: float
    ratio: float


def measure(rounds: int, progress: Callable[[str], None], loads: Mapping[str, Load] = LOADS) -> list[Cold]:
    """Measure every load; without an engine both ways are the same."""
    found = []
    for name, load in loads.items():
        progress(f"cold: {name}")
        found.append(_measured(name, load, rounds))
    return found


def _measured(name: str, load: Load, rounds: int) -> Cold:
    statements, records = _records(load)
    count = load.tables * load.rows_per_table
    documents = _documents(statements, records)
    texts = [record.value or b"" for record in records]
    samples = []
    for number in range(rounds):
        floor = _seconds(lambda: _parse_and_write(texts, documents))
        ways = (None, engine(mode()))
        times = {
            way: _seconds_of(_knowing(statements, way), records)
            for way in (ways[::-1] if number % 2 else ways)
        }
        samples.append((floor, *(times[way] for way in ways)))
    floor, slow, relay = (statistics.median(each) * 1e6 / count for each in zip(*samples, strict=True))
    return Cold(
        name,
        count,
        floor,
        slow,
        relay,
        statistics.median(slow / floor for floor, slow, _ in samples),
        statistics.median(relay / slow for _, slow, relay in samples),
    )


def _records(load: Load) -> tuple[Sequence[ConsumerRecord], Sequence[ConsumerRecord]]:
    """The statements that create the tables, and the load."""
    count = load.tables * load.rows_per_table
    messages = list(wide.of_tables(load.tables, _COLUMNS, count, _OPS))
    statements, rows = messages[: load.tables], messages[load.tables :]
    records: list[ConsumerRecord] = []
    for at, row in enumerate(rows):
        if load.ddl_every and at % load.ddl_every == 0:
            records.append(wide.altered(row, at))
        records.append(row)
    first = len(statements)
    return statements, [msgspec.structs.replace(each, offset=first + at) for at, each in enumerate(records)]


def _knowing(statements: Sequence[ConsumerRecord], fills: type[Engine] | None) -> Translator:
    """A fresh translator that has the definitions of all tables."""
    translator = ROUTES[0].translator(fills)
    for record in statements:
        translator.translate(record)
    return translator


def _documents(statements: Sequence[ConsumerRecord], records: Sequence[ConsumerRecord]) -> list[object]:
    translate = _knowing(statements, None).translate
    return [orjson.loads(out.value or b"null") for record in records for out in translate(record)]


def _parse_and_write(texts: Sequence[bytes], documents: Sequence[object]) -> None:
    for text in texts:
        orjson.loads(text)
    for document in documents:
        orjson.dumps(document)


def _seconds_of(translator: Translator, records: Sequence[ConsumerRecord]) -> float:
    def one_pass() -> None:
        for record in records:
            translator.translate(record)

    return _seconds(one_pass)


def _seconds(work: Callable[[], None]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began
