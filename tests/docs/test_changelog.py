"""The tables of CHANGELOG.md: moved modules exist, and every renamed key, option and loss has its hint."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec

import pytest
from docs.generate import ROOT

from relay import Translator
from relay.codecs.given_options import RENAMED_OPTIONS
from relay.codecs.losses import Loss, strict_problems
from relay.config import Config
from relay.config.key_names import new_name, type_at
from relay.model.errors import ConfigError

_TABLE = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n### Moved modules\n")[2]
_ROWS = [
    row.strip("| ").split(" | ") for row in _TABLE.partition("\n### ")[0].splitlines() if row[:3] == "| `"
]
_TABLE_OF_NAMES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n### Renamed\n")[2]
_RENAMED = [
    row.strip("| ").split(" | ")
    for row in _TABLE_OF_NAMES.partition("\n### ")[0].splitlines()[3:]
    if row.startswith("|")
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


def renamed(kind: str) -> dict[str, str]:
    """The names of one kind in the table of renamed things: new ones by old ones."""
    return {old.strip("`"): new.strip("`") for found, old, new in _RENAMED if found == kind}


def test_the_error_about_an_old_key_names_the_new_one() -> None:
    for old, new in renamed("key").items():
        *table, name = new.split(".")
        assert new_name(old.split(".")) == name
        assert type_at(Config, (*table, name)) is not None
        assert type_at(Config, tuple(old.split("."))) is None


def test_the_error_about_an_old_loss_names_the_new_one() -> None:
    for old, new in renamed("loss").items():
        (problem,) = strict_problems(f"all,-{old}")
        assert problem.hint == f"it was renamed to {new}"
        assert new in set(Loss)


def test_the_error_about_an_old_option_names_the_new_one() -> None:
    assert renamed("option") == RENAMED_OPTIONS
    with pytest.raises(ConfigError, match="it was renamed to missing-before"):
        Translator("canal-json", "maxwell-json", target_options={"unknown-before": "insert"})


@pytest.mark.parametrize(("kind", "page"), [("log event", "log-events.md"), ("metric", "monitoring.md")])
def test_the_documentation_has_the_new_names(kind: str, page: str) -> None:
    text = (ROOT / "docs/operations" / page).read_text(encoding="utf-8")
    for old, new in renamed(kind).items():
        assert re.split("[{`]", new)[0] in text
        assert f"`{re.split('[{`]', old)[0]}`" not in text or kind == "metric"


def test_each_fragment_has_a_known_type_and_a_text() -> None:
    """Towncrier ignores a file with another name, and the entry would be missing in the release."""
    types = {
        each["directory"]
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert [
        path.name for path in fragments if path.suffixes[-2:-1] not in [[f".{each}"] for each in types]
    ] == []
    assert [path.name for path in fragments if not path.read_text(encoding="utf-8").strip()] == []
