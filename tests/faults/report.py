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


def table(outcomes: dict[str, Outcome]) -> str:
    """Return the table in Markdown."""
    rows = [_HEADS, ("---",) * len(_HEADS)]
    for name, outcome in outcomes.items():
        fault = FAULTS[name]
        seconds = (outcome.page, outcome.check, outcome.metric, outcome.alert)
        shown = ["–" if each is None else f"{each:.1f} s" for each in seconds]
        check = ", ".join(f"`{each}`" for each in outcome.check_name.split())
        rows.append((fault.title, fault.evidence, check, *shown, outcome.headline, ", ".join(outcome.alerts)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(outcomes: dict[str, Outcome]) -> None:
    """Write it into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}", encoding="utf-8")
