"""The lists of edge cases in docs/edge-cases: every number is a folder in tests/golden, a test here or a line in
docs/decisions/edge-cases.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

_DOCS = Path(__file__).parents[2] / "docs"
_GOLDEN = Path(__file__).parents[1] / "golden"
_DECISIONS = _DOCS / "decisions" / "edge-cases.md"
_LISTED = re.compile(r"^\* ([A-Z]?\d+): \S", re.MULTILINE)
_Test = TypeVar("_Test", bound=Callable[..., Any])


class EdgeCases:
    """One protocol's list: all its numbers, and those that have a test.

    name: The file of the list in docs/edge-cases.
    section: The heading of its decisions. A number without a test is listed there as `* F04: why not`.
    golden: The folder of its cases in tests/golden; None: `name`.
    """

    def __init__(self, name: str, section: str, golden: str | None = None) -> None:
        self.section = section
        listed = _LISTED.findall((_DOCS / "edge-cases" / f"{name}.md").read_text(encoding="utf-8"))
        self.numbers = set(listed)
        assert len(listed) == len(self.numbers), f"{name}.md has a number twice"
        self.covered: set[str] = set()
        for file in (_GOLDEN / (golden or name)).glob("*/options.toml"):
            self._claim(tuple(tomllib.loads(file.read_text(encoding="utf-8"))["ids"]))

    def covers(self, *numbers: str) -> Callable[[_Test], _Test]:
        """Mark a test as the case of these numbers."""
        self._claim(numbers)
        return lambda test: test

    def param(self, numbers: str, *values: Any) -> Any:
        """One set of parameters of a test, as the case of these numbers (several with a blank between)."""
        self._claim(tuple(numbers.split()))
        return pytest.param(*values, id=numbers.replace(" ", "-"))

    def _claim(self, numbers: tuple[str, ...]) -> None:
        assert set(numbers) <= self.numbers, (
            f"{set(numbers) - self.numbers} are not in the list of {self.section}"
        )
        self.covered |= set(numbers)

    def decided(self) -> set[str]:
        """The numbers with a line in the decisions."""
        text = _DECISIONS.read_text(encoding="utf-8")
        section = text.partition(f"\n## {self.section}\n")[2].partition("\n## ")[0]
        assert section, f"{_DECISIONS.name} has no section {self.section}"
        lines = re.findall(r"^\* ([A-Z]?\d+(?:, [A-Z]?\d+)*): \S.*", section, re.MULTILINE)
        return {number for line in lines for number in line.split(", ")}

    def check(self) -> None:
        """Every number is a case or a decision, and none is both."""
        decided = self.decided()
        assert decided <= self.numbers, f"decisions about unknown numbers: {sorted(decided - self.numbers)}"
        assert not decided & self.covered, (
            f"both tested and decided against: {sorted(decided & self.covered)}"
        )
        missing = self.numbers - decided - self.covered
        assert not missing, f"neither a test nor a line in {_DECISIONS.name}: {sorted(missing)}"
