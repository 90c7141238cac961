"""What the runs of the peers come to: medians, relay beside each of the others, and a table of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec
from rich.table import Table

from benchmarks.peers_programs import RELAY, Contest
from benchmarks.peers_runs import PeerRun


class Source(msgspec.Struct, frozen=True):
    """A source topic: bytes of a row's key and value, and what share of them the broker stores."""

    bytes_per_row: float
    compressed: float


class Ratio(msgspec.Struct, frozen=True):
    """Relay's share of a peer's speed, processor time and memory: medians of the rounds' ratios."""

    peer: str
    messages_per_second: float
    cpu_seconds: float
    peak_mb: float


class Result(msgspec.Struct, frozen=True):
    """A route: what each program reads, each program's medians, relay beside each peer, and all runs."""

    route: str
    counted: int
    sources: dict[str, Source]
    overall: list[PeerRun]
    ratios: list[Ratio]
    runs: list[PeerRun]


def result(contest: Contest, sources: Mapping[str, Source], runs: Sequence[PeerRun]) -> Result:
    """All of a route's runs; `sources` by their topics' names."""
    of_each = {each.name: [run for run in runs if run.program == each.name] for each in contest.programs}
    return Result(
        str(contest.route),
        contest.programs[0].source.counted,
        {each.name: sources[each.source.name] for each in contest.programs},
        [_overall(found) for found in of_each.values()],
        [ratio(of_each[RELAY], found) for name, found in of_each.items() if name != RELAY],
        list(runs),
    )


def _overall(runs: Sequence[PeerRun]) -> PeerRun:
    return PeerRun(
        runs[0].program,
        statistics.median(run.messages_per_second for run in runs),
        statistics.median(run.cpu_seconds for run in runs),
        statistics.median(run.peak_mb for run in runs),
        statistics.median(run.start_seconds for run in runs),
        statistics.median(run.bytes_written for run in runs),
        sorted({fault for run in runs for fault in run.faults}),
    )


def ratio(relay: Sequence[PeerRun], peer: Sequence[PeerRun]) -> Ratio:
    """Each round's relay beside the same round's peer: what else the machine did then was alike."""
    pairs = list(zip(relay, peer, strict=True))
    return Ratio(
        peer[0].program,
        statistics.median(ours.messages_per_second / theirs.messages_per_second for ours, theirs in pairs),
        statistics.median(ours.cpu_seconds / theirs.cpu_seconds for ours, theirs in pairs),
        statistics.median(ours.peak_mb / theirs.peak_mb for ours, theirs in pairs),
    )


def table(found: Result) -> Table:
    """One line a program, then one for relay beside each peer."""
    shown = Table(title=f"{found.route}: {found.counted} rows after a warm-up", title_justify="left")
    shown.add_column("program")
    for heading in ("bytes read", "zstd", "written", "rows/s", "CPU s/100k", "peak MB", "start s"):
        shown.add_column(heading, justify="right")
    for each in found.overall:
        source = found.sources[each.program]
        read = f"{source.bytes_per_row:.0f}", f"{source.compressed:.0%}", f"{each.bytes_written:.0f}"
        cost = f"{each.cpu_seconds:.2f}", f"{each.peak_mb:.0f}", f"{each.start_seconds:.1f}"
        shown.add_row(each.program, *read, f"{each.messages_per_second:.0f}", *cost)
    shown.add_section()
    for beside in found.ratios:
        cells = f"{beside.messages_per_second:.2f}", f"{beside.cpu_seconds:.2f}", f"{beside.peak_mb:.2f}"
        shown.add_row(f"relay / {beside.peer}", "", "", "", *cells, "", style="bold")
    return shown


def remarks(found: Result) -> list[str]:
    """What each program's output is not, beside relay's."""
    return [
        f"{each.program}: {'; '.join(each.faults) or 'writes what relay writes'}" for each in found.overall
    ]
