"""What is printed, and chaos-results.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.experiment import Outcome
from chaos.verify import Defect

_COLUMNS = (Defect.LOST, Defect.DUPLICATE, Defect.ABORTED, Defect.DISORDER, Defect.STALE, Defect.CHANGED)


class Report:
    """Prints as results come, and writes them to a file at the end, beside what other commands have left
    there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._console = Console(highlight=False, width=None if Console().is_terminal else 200)

    def run(self, outcome: Outcome, number: int, total: int) -> None:
        """Print one run."""
        verdict = "FAILED" if outcome.problems else "ok"
        self._console.print(
            f"{number:3}/{total} {verdict:6} {outcome.scenario} {outcome.mode} --seed {outcome.seed}: {outcome.seconds:.0f} s, "
            f"{', '.join(outcome.faults)}; {outcome.repeats} repeated, {outcome.aborted} aborted, "
            f"{sum(outcome.warnings.values())} warnings, "
            f"caught up in {outcome.caught_up_seconds:.1f} s, {outcome.peak_mb:.0f} MB",
            soft_wrap=True,
        )
        for problem in outcome.problems:
            self._console.print(f"        {problem}", markup=False, soft_wrap=True)

    def runs(self, outcomes: Sequence[Outcome]) -> int:
        """Print the table of all runs and write them; gives the exit status."""
        table = Table(title="chaos")
        heads = (
            "runs",
            "failed",
            *map(str, _COLUMNS),
            "repeats",
            "hidden aborted",
            "warnings",
            "slowest stop",
            "peak memory",
        )
        for head in ("scenario", "mode", *heads):
            table.add_column(
                head,
                justify="left" if head in {"scenario", "mode"} else "right",
                no_wrap=head in {"scenario", "mode"},
            )
        for scenario, mode in dict.fromkeys((each.scenario, each.mode) for each in outcomes):
            table.add_row(
                scenario,
                mode,
                *_cells([each for each in outcomes if (each.scenario, each.mode) == (scenario, mode)]),
            )
        self._console.print(table)
        self._write({"runs": [dataclasses.asdict(each) for each in outcomes]})
        return int(any(each.problems for each in outcomes))

    def close(self, result: tuple[Mapping[str, Any], bool]) -> int:
        """Print and write what a measurement has found: its figures, and whether every target was met."""
        figures, is_good = result
        for name, value in figures.items():
            if not isinstance(value, list | dict):
                self._console.print(f"{name}: {value}", markup=False)
        self._write({str(figures["what"]): dict(figures)})
        return 0 if is_good else 1

    def _write(self, part: Mapping[str, Any]) -> None:
        found = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._path.write_text(json.dumps({**found, **part}, indent=1) + "\n")


def _cells(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        str(len(outcomes)),
        str(sum(bool(each.problems) for each in outcomes)),
        *(str(sum(each.defects.get(str(defect), 0) for each in outcomes)) for defect in _COLUMNS),
        f"{median(each.repeats for each in outcomes):.0f}",
        f"{median(each.aborted for each in outcomes):.0f}",
        f"{median(sum(each.warnings.values()) for each in outcomes):.0f}",
        f"{max(each.stop_seconds for each in outcomes):.1f} s",
        f"{max(each.peak_mb for each in outcomes):.0f} MB",
    ]
