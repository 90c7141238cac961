"""The table of layers in docs/architecture.md is the one that the import contracts enforce."""

from __future__ import annotations

import re
import tomllib

from docs.generate import ROOT

_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
_MOST_LAYERS = 15


def _layers(container: str) -> list[str]:
    """The layers of a package, from the top."""
    found = [each for each in _CONTRACTS["contracts"] if each["type"] == "layers"]
    (layers,) = [each["layers"] for each in found if each.get("containers", [""]) == [container]]
    assert isinstance(layers, list)
    return layers


def test_the_table_of_layers_is_that_of_the_contracts() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = text.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = [
        re.findall(r"`(relay[\w.]*)`", row.split("|")[1])
        for row in table.splitlines()
        if row.startswith("| `")
    ]
    assert rows == [layer.split(" : ") for layer in _layers("")]
    assert len(rows) <= _MOST_LAYERS


def test_every_package_is_in_a_layer() -> None:
    names = {name.split(".")[1] for layer in _layers("") for name in layer.split(" : ")}
    assert names == {each.parent.name for each in (ROOT / "relay").glob("*/__init__.py")}
