"""The table of docs/failures.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from faults.faults import FAULTS
from faults.trial import Outcome

PAGE: Final = Path(__file__).parents[2] / "docs" / "failures.md"
BEGIN, END = "<!-- faults -->\n", "<!-- end -->\n"
_HEADS = (
    "fault",
    "first evidence",
    "check",
    "page",
    "check fails",
    "metric",
    "alert after its `for`",
    "headline",
    "alerts",
)


def row(name: str, outcome: Outcome) -> tuple[str, ...]:
    """Return the cells of a fault."""
    fault = FAULTS[name]
    seconds = (outcome.page, outcome.check, outcome.metric, outcome.alert)
    shown = ["–" if each is None else f"{each:.1f} s" for each in seconds]
    check = ", ".join(f"`{each}`" for each in outcome.check_name.split())
    return (fault.title, fault.evidence, check, *shown, outcome.headline, ", ".join(outcome.alerts))


def written(outcomes: dict[str, Outcome]) -> None:
    """Write the rows of these faults into the page; those of others stay."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines() if " | " in line}
    for name, outcome in outcomes.items():
        cells = row(name, outcome)
        lines[cells[0]] = f"| {' | '.join(cells)} |"
    head = [f"| {' | '.join(cells)} |" for cells in (_HEADS, ("---",) * len(_HEADS))]
    rows = [lines[fault.title] for fault in FAULTS.values() if fault.title in lines]
    table = "\n".join([*head, *rows])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{after}", encoding="utf-8")
