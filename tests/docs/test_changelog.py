"""The table of moved modules in CHANGELOG.md names modules that exist."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest
from docs.generate import ROOT

_TABLE = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n### Moved modules\n")[2]
_ROWS = [
    row.strip("| ").split(" | ") for row in _TABLE.partition("\n### ")[0].splitlines() if row[:3] == "| `"
]
_NAME = re.compile(r"`(relay(?:\.\w+)+)`")


@pytest.mark.parametrize(("old", "new"), _ROWS)
def test_a_module_has_moved(old: str, new: str) -> None:
    packages = _NAME.findall(new)
    if "same names in" in new:
        packages = [f"{packages[0]}.{name.rpartition('.')[2]}" for name in _NAME.findall(old)]
    assert [name for name in packages if find_spec(name) is None] == []


def test_there_is_a_table() -> None:
    assert len(_ROWS) > 20
