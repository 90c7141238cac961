"""docs/decisions/transport.md names code and tests that exist, and leaves no row without one or a reason."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest
from docs.generate import ROOT

TEXT = (ROOT / "docs/decisions/transport.md").read_text(encoding="utf-8")
PACKAGES = {"kafka", "service", "topics"}
_QUOTED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)*)`")
_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def rows() -> list[list[str]]:
    """The cells of all tables, without headings."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in {"rule", "issue", "case"}]


@functools.cache
def names_of_tests() -> frozenset[str]:
    files = Path(ROOT / "tests/service").glob("test_*.py")
    return frozenset(name for path in files for name in _TEST.findall(path.read_text(encoding="utf-8")))


def test_there_are_tables() -> None:
    assert len(rows()) > 35


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_a_row_has_a_test_or_a_reason(row: list[str]) -> None:
    named = [name for cell in row for name in _QUOTED.findall(cell) if name.startswith("test_")]
    assert named or "not applicable" in "".join(row)
    assert [name for name in named if name not in names_of_tests()] == []


def test_every_test_that_is_named_exists() -> None:
    assert {name for name in _QUOTED.findall(TEXT) if name.startswith("test_")} <= names_of_tests()


def test_every_place_that_is_named_exists() -> None:
    names = {name for name in _QUOTED.findall(TEXT) if name.partition(".")[0] in PACKAGES}
    assert len(names) > 15
    for path in names:
        # `kafka.sink.KafkaSink.stop`: modules first, then names in them.
        module = "relay.io" if path.startswith("kafka.") else "relay"
        found: object = importlib.import_module(module)
        for name in path.split("."):
            if isinstance(found, ModuleType):
                module = f"{module}.{name}"
                with contextlib.suppress(ModuleNotFoundError):
                    found = importlib.import_module(module)
                    continue
            found = getattr(found, name)
