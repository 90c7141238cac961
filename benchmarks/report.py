"""The results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks import wide
from benchmarks.codecs import TOTAL, Timing
from benchmarks.cold import Cold
from benchmarks.machine import Machine
from benchmarks.rules import RulesCost
from benchmarks.start import Command, Start

if TYPE_CHECKING:
    from benchmarks.adversarial import Worst
    from benchmarks.kafka import Result
    from benchmarks.table_memory import TableMemory
    from benchmarks.table_topics import TablesResult


def codecs_table(timings: Sequence[Timing]) -> Table:
    """One section per route, with a line per workload and a total."""
    table = Table(
        title="Codecs, microseconds a message: with an engine and without (slow); cold: first pass",
        title_justify="left",
    )
    table.add_column("route")
    for heading in ("messages", "rows", "bytes", "floor", "relay", "ratio", "slow", "ratio", "cold"):
        table.add_column(heading, justify="right")
    seen: set[str] = set()
    for timing in timings:
        if timing.route not in seen:
            seen.add(timing.route)
            table.add_row(timing.route, style="bold")
        is_total = timing.workload == TOTAL
        table.add_row(
            f"  {timing.workload}",
            str(timing.messages),
            str(timing.rows),
            f"{timing.bytes_per_message:.0f}",
            f"{timing.floor_us:.1f}",
            f"{timing.relay_us:.1f}",
            f"{timing.ratio:.2f}",
            f"{timing.slow_us:.1f}",
            f"{timing.slow_ratio:.2f}",
            f"{timing.cold_us:.0f}",
            style="bold" if is_total else "",
            end_section=is_total,
        )
    return table


def machine_line(machine: Machine) -> str:
    """What all figures below it depend on."""
    packages = ", ".join(f"{name} {number}" for name, number in machine.packages.items())
    kernel = machine.kernel or "without kernel"
    return f"{machine.python}, {machine.cpus} CPUs, {kernel}; {packages}"


def columns_table(timings: Sequence[Timing]) -> Table:
    """What a column costs in tables of few and of many, and a message of one table and of many tables."""
    table = Table(
        title="Made rows of one route: distinct values, mysqlType as Go prints it; microseconds a column",
        title_justify="left",
    )
    for heading in ("workload", "columns", "tables", "floor", "relay", "slow"):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for timing in made_of_one_route(timings):
        columns = wide.columns_of(timing.workload)
        times = (timing.floor_us, timing.relay_us, timing.slow_us)
        cells = [f"{each / columns:.3f}" for each in times]
        table.add_row(timing.workload, str(columns), str(wide.TABLES.get(timing.workload, 1)), *cells)
    return table


def columns_line(timings: Sequence[Timing]) -> str:
    """Whether a column of 40 costs no more than one of 8."""
    per_column = {
        timing.workload: timing.relay_us / wide.columns_of(timing.workload)
        for timing in made_of_one_route(timings)
    }
    ratio = per_column["wide_40"] / per_column["wide_8"]
    return f"A column of 40 shuffled ones costs {ratio:.2f} of one of 8 (to be at most 1.00)"


def made_of_one_route(timings: Sequence[Timing]) -> list[Timing]:
    """The made workloads of the route that has all of them."""
    first = timings[0].route
    made = {**wide.COLUMNS, **wide.TABLES}
    return [timing for timing in timings if timing.route == first and timing.workload in made]


def adversarial_table(found: Sequence[Worst], most: float) -> Table:
    """What the streams cost that templates are no help for, the dearest last."""
    title = "Chosen to be slow with an engine, microseconds of processor time a message"
    table = Table(title=f"{title}; the ratio is to be at most {most:.2f}", title_justify="left")
    table.add_column("stream")
    for heading in ("bytes", "by template", "slow", "relay", "ratio"):
        table.add_column(heading, justify="right")
    for each in sorted(found, key=lambda each: each.ratio):
        table.add_row(
            each.name,
            f"{each.bytes_per_message:.0f}",
            f"{each.by_template:.0%}",
            f"{each.slow_us:.1f}",
            f"{each.relay_us:.1f}",
            f"{each.ratio:.2f}",
            style="bold" if each.ratio > most else "",
        )
    return table


def cold_table(found: Sequence[Cold]) -> Table:
    """What tables cost that relay has not seen before."""
    title = "Tables seen for the first time, microseconds of processor time a row"
    table = Table(title=title, title_justify="left")
    table.add_column("load")
    for heading in ("rows", "floor", "slow", "relay", "slow / floor", "relay / slow"):
        table.add_column(heading, justify="right")
    for each in found:
        table.add_row(
            each.name,
            str(each.rows),
            f"{each.floor_us:.1f}",
            f"{each.slow_us:.1f}",
            f"{each.relay_us:.1f}",
            f"{each.slow_ratio:.2f}",
            f"{each.ratio:.2f}",
        )
    return table


def rules_table(found: Sequence[RulesCost]) -> Table:
    """What column rules cost."""
    title = "Column rules, microseconds of processor time a row; speed without rules = 1"
    table = Table(title=title, title_justify="left")
    table.add_column("target")
    table.add_column("rules")
    for heading in ("relay", "speed", "slow", "speed"):
        table.add_column(heading, justify="right")
    for each in found:
        cells = (each.relay_us, each.speed, each.slow_us, each.slow_speed)
        table.add_row(each.target, each.name, *[f"{cell:.2f}" for cell in cells])
    return table


def memory_lines(found: Sequence[TableMemory], most_mb: int) -> list[str]:
    """What many wide tables take."""
    return [
        f"{each.tables} tables of {each.columns} columns, {each.rows} rows, {each.engine or 'slow'}: "
        f"peak {each.peak_mb:.0f} MB (to be below {most_mb}), {each.base_mb:.0f} MB of it before the first; "
        f"{each.templates} rows by template"
        for each in found
    ]


def command_lines(found: Sequence[Command]) -> list[str]:
    """Return what short commands cost."""
    return [f"{each.name}: {each.cpu_seconds:.3f} s of CPU, {each.ratio:.2f}" for each in found]


def start_line(found: Start) -> str:
    """Return how soon `relay run` writes its first record."""
    return (
        f"first output after {found.relay:.2f} s, of the loop after {found.floor:.2f} s: "
        f"{found.later:.2f} s later"
    )


def kafka_table(result: Result) -> Table:
    """One line per program."""
    messages = f"{result.messages} messages of {result.bytes_per_message:.0f} bytes"
    size = f"{result.compressed:.1%} of it by zstd"
    title = f"{result.route}, {result.load}: {messages}, {size}, {result.partitions} partitions"
    table = Table(title=title, title_justify="left")
    table.add_column("program")
    for heading in ("messages/s", "CPU s / 100 000", "peak MB"):
        table.add_column(heading, justify="right")
    for run in result.overall:
        table.add_row(
            run.program, f"{run.messages_per_second:.0f}", f"{run.cpu_seconds:.2f}", f"{run.peak_mb:.0f}"
        )
    table.add_section()
    table.add_row(
        f"{result.overall[1].program} to the other",
        f"{result.ratio:.2f}",
        f"{result.cpu_ratio:.2f}",
        "",
        style="bold",
    )
    return table


def tables_table(result: TablesResult) -> Table:
    """One line for each way to write many tables."""
    title = f"{result.route}: {result.messages} messages of {result.tables} tables, 1 partition a topic"
    table = Table(title=title, title_justify="left")
    table.add_column("target")
    for heading in ("messages/s", "CPU s / 100 000", "peak MB"):
        table.add_column(heading, justify="right")
    for run in result.overall:
        table.add_row(
            run.program, f"{run.messages_per_second:.0f}", f"{run.cpu_seconds:.2f}", f"{run.peak_mb:.0f}"
        )
    table.add_section()
    speed, cpu = f"{result.ratio:.2f}", f"{result.cpu_ratio:.2f}"
    table.add_row("share of the speed", speed, cpu, "", style="bold")
    return table
