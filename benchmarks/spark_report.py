"""The results of the Spark benchmark, their limits, and the report in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from benchmarks.spark_matrix import FULL, Case, Parameters

WORKER_MB: Final = 250
DRIVER_MB: Final = 400
HEAP_MB: Final = 1024
LISTING_SECONDS: Final = 30
#: Times of the job, by those of the identity job.
RATIO: Final = 1.2
RATIO_OF_MANY_TABLES: Final = 1.5
#: Time with one core, by that with two.
TWO_CORES: Final = 1.6
#: The outputs of `tables-to-parquet`, and the formats of `listing`.
OUTPUTS: Final = ("records", "rows")
FORMATS: Final = ("record files", "Parquet", "TiCDC storage sink")
#: With more waiting processes, times are those of a busy machine.
_BUSY_LOAD: Final = 0.5
_MOST_DIGITS: Final = 6
NOT_MEASURED: Final = "not measured"
_HEAD: Final = "| part | case | figure | limit | verdict |\n| --- | --- | --- | --- | --- |"
_NOTES: Final = """\
Times are wall-clock times; ratios and times of several rounds are medians. Memory is the peak resident size
(RSS) of a process, shared pages included."""
_Key = TypeVar("_Key")


class Run(msgspec.Struct, frozen=True):
    """A run. `cpu_seconds`: processor time of Java, workers and driver.

    worker_mb, driver_mb: Peak resident memory (RSS) of the largest Python worker, and of the driver's Python.
        Pages that workers share count for each of them.
    """

    seconds: float
    cpu_seconds: float
    worker_mb: float
    driver_mb: float


class Speed(msgspec.Struct, frozen=True, tag=True):
    """The runs of a case; those with the same number have run in turn."""

    case: Case
    job: Sequence[Run]
    identity: Sequence[Run]

    @property
    def ratios(self) -> list[float]:
        """The ratio of the times of each round."""
        pairs = zip(self.job, self.identity, strict=True)
        return [job.seconds / identity.seconds for job, identity in pairs]

    @property
    def cpu_ratio(self) -> float:
        """The median ratio of processor times."""
        pairs = zip(self.job, self.identity, strict=True)
        return statistics.median(job.cpu_seconds / identity.cpu_seconds for job, identity in pairs)


class Cores(msgspec.Struct, frozen=True, tag=True):
    """The runs by number of cores; those with the same number have run in turn."""

    messages: int
    runs: dict[int, Sequence[Run]]

    def gain(self, number: int) -> float | None:
        """Return the median ratio of the times with one core and with `number`; None if not measured."""
        one, many = (self.runs.get(each, ()) for each in (1, number))
        if number == 1 or not one or not many:
            return None
        return statistics.median(a.seconds / b.seconds for a, b in zip(one, many, strict=True))


class Simulated(msgspec.Struct, frozen=True, tag=True):
    """The driver's Python with counters of `tasks` tasks, each with `tables` tables. `base_mb`: before."""

    tasks: int
    tables: int
    base_mb: float
    peak_mb: float
    seconds: float


class ManyTables(msgspec.Struct, frozen=True, tag=True):
    """A run with small tasks. `tasks`: their number."""

    case: Case
    tasks: int
    run: Run


class Same(msgspec.Struct, frozen=True, tag=True):
    """The comparison of the job's output with relay's. `difference`: empty if every byte is the same."""

    case: Case
    records: int
    tasks: int
    relay_seconds: float
    run: Run
    difference: str


class TablesWritten(msgspec.Struct, frozen=True, tag=True):
    """Tables written to folders by table. `output`: one of `OUTPUTS`; `heap_mb`: Java's largest heap."""

    tables: int
    output: str
    messages: int
    heap_mb: float
    run: Run


class Listing(msgspec.Struct, frozen=True, tag=True):
    """An input that was listed and checked. `kind`: one of `FORMATS`."""

    files: int
    kind: str
    run: Run


Result = Speed | Cores | Simulated | ManyTables | Same | TablesWritten | Listing


class Machine(msgspec.Struct, frozen=True):
    """The machine and its software. `load`: the load average of the last minute at the start."""

    cpu: str
    cores: int
    memory_gb: float
    load: float
    software: str


class Results(msgspec.Struct):
    """All results so far. `failed`: the errors of parts that failed."""

    machine: Machine
    route: str
    started: str
    parameters: str
    minutes: float = 0.0
    found: list[Result] = []
    failed: dict[str, str] = {}


class Limit(NamedTuple):
    """The largest value that a figure may have, or the smallest one. `unit`: follows the number."""

    bound: float
    unit: str
    digits: int = 0
    is_least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.shown(self.bound)}"

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return value >= self.bound if self.is_least else value <= self.bound

    def shown(self, value: float) -> str:
        """Return a value as text. A value that misses the limit does not look like the bound."""
        digits = self.digits
        while not self.holds(value) and round(value, digits) == self.bound and digits < _MOST_DIGITS:
            digits += 1
        return f"{value:,.{digits}f} {self.unit}"


class Row(NamedTuple):
    """A line of the report. `value`: None if it was not measured. `limit`: None without one."""

    part: str
    case: str
    limit: Limit | None
    value: float | None = None
    detail: str = ""
    #: Whether the measurement failed, or found a difference.
    is_failure: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the value misses its limit, or the measurement failed."""
        missed = self.limit is not None and self.value is not None and not self.limit.holds(self.value)
        return missed or self.is_failure

    @property
    def verdict(self) -> str:
        """The last column."""
        if self.is_failure:
            return "**FAILED**"
        if self.is_missed:
            return "**MISSED**"
        if self.value is None and not self.detail:
            return NOT_MEASURED
        return "no limit" if self.limit is None else "met"

    def __str__(self) -> str:
        shown = self.detail
        if self.value is not None and self.limit is not None:
            shown = f"{self.limit.shown(self.value)}{'; ' if self.detail else ''}{self.detail}"
        shown = shown or "unknown"
        return f"| {self.part} | {self.case} | {shown} | {self.limit or '–'} | {self.verdict} |"


def rows(results: Results, required: Parameters = FULL) -> list[Row]:
    """Return the lines of the report: the figures that were measured, then others that are `required`."""
    failures = [
        Row(part, "the part", None, detail=_cell(text), is_failure=True)
        for part, text in results.failed.items()
    ]
    groups: list[Callable[[list[Result], Parameters], Iterator[Row]]] = [
        *(_speed, _cores, _memory, _same, _tables, _listing)
    ]
    found = [row for group in groups for row in group(results.found, required)]
    return failures + sorted(found, key=lambda row: row.verdict == NOT_MEASURED)


def report(results: Results, required: Parameters = FULL) -> str:
    """Return the report in Markdown."""
    machine, found = results.machine, rows(results, required)
    missed = sum(row.is_missed for row in found)
    missing = sum(row.verdict == NOT_MEASURED for row in found)
    lines = [
        "# Benchmark of the Spark job",
        f"{results.route}. Started {results.started}, {results.minutes:.1f} minutes. {results.parameters}",
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:.0f} GB. {machine.software}",
        f"Load average at the start: {machine.load:.2f}.",
        f"{len(found)} figures: {missed} missed or failed, {missing} not measured.",
        "\n".join([_HEAD, *map(str, found)]),
        _NOTES,
    ]
    if machine.load > _BUSY_LOAD:
        lines[3] += " **The machine was not idle: the times are too long.**"
    return "\n\n".join(lines) + "\n"


def _speed(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    measured = {each.case: each for each in found if isinstance(each, Speed)}
    for case in _all(measured, required.cases):
        limit = Limit(RATIO if case.tables == 1 else RATIO_OF_MANY_TABLES, "× identity", 2)
        result = measured.get(case)
        if result is None:
            yield Row("speed", str(case), limit)
        else:
            rounds = ", ".join(f"{ratio:.2f}" for ratio in result.ratios)
            times = f"{_seconds(result.job)} and {_seconds(result.identity)}"
            detail = f"{times}; rounds: {rounds}; processor time {result.cpu_ratio:.2f} ×"
            yield Row("speed", str(case), limit, statistics.median(result.ratios), detail)
        yield from _peaks("speed", str(case), result.job if result else ())


def _cores(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    measured = {each.messages: each for each in found if isinstance(each, Cores)}
    limit = Limit(TWO_CORES, "× one core", 2, is_least=True)
    for messages in _all(measured, [required.most_messages]):
        result = measured.get(messages, Cores(messages, {}))
        times = "; ".join(f"{number}: {_seconds(runs)}" for number, runs in result.runs.items())
        gains = {number: gain for number in result.runs if (gain := result.gain(number))}
        for number in dict.fromkeys([2, *gains]):
            case = f"{messages:,} messages, {number} cores"
            gain = gains.get(number)
            if number == 2 or gain is None:
                yield Row("cores", case, limit, gain, f"by cores: {times}" if gain else "")
            else:
                yield Row("cores", case, None, detail=f"{gain:.2f} × one core")
        runs = [run for each in result.runs.values() for run in each]
        yield from _peaks("cores", f"{messages:,} messages", runs)


def _memory(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    simulated = {(each.tasks, each.tables): each for each in found if isinstance(each, Simulated)}
    for tasks, tables in _all(simulated, [(required.tasks, max(required.tables))]):
        case = f"{tasks:,} tasks × {tables:,} tables, simulated: driver's Python"
        limit = Limit(DRIVER_MB, "MB")
        if result := simulated.get((tasks, tables)):
            detail = f"{result.base_mb:.0f} MB before; {result.seconds:.0f} s"
            yield Row("memory", case, limit, result.peak_mb, detail)
        else:
            yield Row("memory", case, limit)
    many = [each for each in found if isinstance(each, ManyTables)]
    for each in many:
        yield from _peaks("memory", f"{each.case}, {each.tasks} tasks", [each.run])
    if not any(each.case.tables == max(required.tables) for each in many):
        yield from _peaks("memory", f"{max(required.tables):,} tables, small tasks", ())


def _same(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    measured = {each.case: each for each in found if isinstance(each, Same)}
    for case in _all(measured, required.compared):
        result, limit = measured.get(case), Limit(0, "differences")
        if result is None:
            yield Row("same", str(case), limit)
            continue
        times = f"{result.tasks} tasks; relay {result.relay_seconds:.0f} s, job {result.run.seconds:.0f} s"
        if result.difference:
            yield Row("same", str(case), limit, detail=f"{result.difference}; {times}", is_failure=True)
        else:
            yield Row("same", str(case), limit, 0, f"all {result.records:,} records are equal; {times}")


def _tables(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    measured = {(each.tables, each.output): each for each in found if isinstance(each, TablesWritten)}
    for tables, output in _all(measured, [(required.parquet_tables, each) for each in OUTPUTS]):
        case, limit = f"{tables:,} tables as {output}: Java heap", Limit(HEAP_MB, "MB")
        if result := measured.get((tables, output)):
            detail = f"{result.messages:,} messages written in {result.run.seconds:.0f} s"
            yield Row("tables-to-parquet", case, limit, result.heap_mb, detail)
        else:
            yield Row("tables-to-parquet", case, limit)
        runs = [result.run] if result else []
        yield from _peaks("tables-to-parquet", f"{tables:,} tables as {output}", runs)


def _listing(found: Sequence[Result], required: Parameters) -> Iterator[Row]:
    measured = {(each.files, each.kind): each for each in found if isinstance(each, Listing)}
    for files, kind in _all(measured, [(required.files, each) for each in FORMATS]):
        case, limit = f"{files:,} files: {kind}", Limit(LISTING_SECONDS, "s", 1)
        result = measured.get((files, kind))
        yield Row("listing", case, limit, result.run.seconds if result else None)


def _peaks(part: str, case: str, runs: Sequence[Run]) -> Iterator[Row]:
    """Yield the largest peaks of runs of the job."""
    for name, limit, values in (
        ("Python worker", WORKER_MB, [run.worker_mb for run in runs]),
        ("driver's Python", DRIVER_MB, [run.driver_mb for run in runs]),
    ):
        yield Row(part, f"{case}: {name}", Limit(limit, "MB"), max(values, default=None))


def _all(measured: Iterable[_Key], required: Iterable[_Key]) -> list[_Key]:
    """Return the required keys, then others that were measured."""
    return list(dict.fromkeys([*required, *measured]))


def _seconds(runs: Sequence[Run]) -> str:
    return f"{statistics.median(run.seconds for run in runs):.1f} s"


def _cell(text: str) -> str:
    """Return text that fits a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())[:300]
