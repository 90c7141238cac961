"""The results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.codecs import TOTAL, Timing

if TYPE_CHECKING:
    from benchmarks.kafka import Result
    from benchmarks.table_topics import TablesResult


def codecs_table(timings: Sequence[Timing]) -> Table:
    """One section per route, with a line per workload and a total."""
    table = Table(
        title="Codecs, microseconds a message: with an engine and without (straight); cold: first pass",
        title_justify="left",
    )
    table.add_column("route")
    for heading in ("messages", "rows", "bytes", "floor", "relay", "ratio", "straight", "ratio", "cold"):
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
            f"{timing.straight_us:.1f}",
            f"{timing.straight_ratio:.2f}",
            f"{timing.cold_us:.0f}",
            style="bold" if is_total else "",
            end_section=is_total,
        )
    return table


def kafka_table(result: Result) -> Table:
    """One line per program."""
    messages = f"{result.messages} messages of {result.bytes_per_message:.0f} bytes"
    title = f"{result.route}, {result.load}: {messages}, {result.partitions} partitions"
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
