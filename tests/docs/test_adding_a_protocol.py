"""docs/adding-a-protocol.md: its code is that of the codec which it builds, and its messages are those of a case.

The first line of a block of code is the path of its file; a line `...` is between two excerpts. `console` blocks are run
by `test_documentation.py`.
"""

from __future__ import annotations

import json
import re

import pytest
from docs.generate import ROOT
from golden.messages import rows_of

PAGE = (ROOT / "docs/adding-a-protocol.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```([a-z]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXCERPTS = [
    (path, excerpt)
    for language, block in BLOCKS
    if language == "python"
    for path, _, code in [block.removeprefix("# ").partition("\n")]
    for excerpt in code.split("...\n")
]


@pytest.mark.parametrize(("path", "excerpt"), EXCERPTS)
def test_code_is_that_of_the_codec(path: str, excerpt: str) -> None:
    assert excerpt.strip("\n")
    assert excerpt in (ROOT / path).read_text(encoding="utf-8")


def test_the_message_is_one_of_the_cases() -> None:
    (message,) = [block for language, block in BLOCKS if language == "json"]
    assert json.loads(message) in [json.loads(record.value or b"") for record in rows_of("ogg-json")]


def test_every_block_is_tested() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "json", "sh", "console"}
    assert len({path for path, _ in EXCERPTS}) == 7


def test_named_files_exist() -> None:
    commands = "".join(block for language, block in BLOCKS if language == "sh")
    names = re.findall(r"`((?:relay|tests|docs|changelog\.d)/[\w./-]+\w)`", PAGE)
    names += re.findall(r"\btests/[\w./-]+\w", commands)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_page_takes_an_afternoon() -> None:
    assert len(PAGE.splitlines()) <= 250
    files = (ROOT / "relay/codecs/ogg").glob("*.py")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 450
