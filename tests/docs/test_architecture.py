"""docs/architecture.md names code that exists, and its tables of modules are complete."""

from __future__ import annotations

import functools
import importlib
import re
from types import ModuleType

import pytest
from docs.generate import ROOT

#: Names of the standard library, and the group of entry points for protocols.
_FOREIGN = {"Decimal", "Protocol"}
_ENTRY_POINTS = "relay.protocols"
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
_PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
_QUOTED = sorted(set(re.findall(r"`([^`]+)`", _PROSE)))
_DOTTED = [name for name in _QUOTED if re.fullmatch(r"relay(\.\w+)+", name) and name != _ENTRY_POINTS]
_FILES = [
    name for name in _QUOTED if re.fullmatch(r"(relay|tests|docs|helm)/[\w./-]+", name) and "NAME" not in name
]
_CLASSES = [name for name in _QUOTED if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)?", name)]


@functools.cache
def defined() -> frozenset[str]:
    """Names of classes, and of what modules assign, in all of relay."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "relay").rglob("*.py")]
    return frozenset(
        name for text in texts for name in re.findall(r"^(?:class |def )?(\w+)\b", text, re.MULTILINE)
    )


@pytest.mark.parametrize("name", _DOTTED)
def test_a_dotted_name_exists(name: str) -> None:
    module: str = ""
    found: object = None
    for part in name.split("."):
        module = f"{module}.{part}".strip(".")
        if found is None or isinstance(found, ModuleType):
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError:
                found = getattr(found, part)
        else:
            found = getattr(found, part)


@pytest.mark.parametrize("name", _FILES)
def test_a_file_exists(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_exists(name: str) -> None:
    assert name.partition(".")[0] in defined() | _FOREIGN


def test_codec_fields_exist() -> None:
    from relay.codecs.codec import Codec

    named = re.findall(r"`Codec\.(\w+)`", TEXT)
    step = TEXT.partition("**`Codec`.**")[2].partition("**Detection.**")[0]
    named += re.findall(r"^ +\* `(\w+)`:", step, re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if name not in Codec.__struct_fields__] == []


@pytest.mark.parametrize("package", ["relay.service.loop", "relay.io.kafka", "spark_backfill"])
def test_a_table_has_every_module(package: str) -> None:
    table = TEXT.partition(f"| module of `{package}` |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    modules = [path.stem for path in (ROOT / package.replace(".", "/")).glob("*.py")]
    assert sorted(named) == sorted(name for name in modules if not name.startswith("__"))


def test_every_question_has_an_answer() -> None:
    table = TEXT.partition("\n## Where is …?\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| Where ")]
    assert len(rows) == 16
    assert [question for question, answer in rows if "`" not in answer] == []
