"""Pages of docs/decisions have a status and are listed; decision records are numbered and have the same sections.

The glossary of CONTRIBUTING.md is short and sorted.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.generate import ROOT

_MOST_TERMS = 40
#: Words for which the field has others.
_WORDS = (Path(__file__).parent / "data/private-words.txt").read_text(encoding="utf-8").split("\n")
_PRIVATE_WORDS = re.compile(rf"\b({'|'.join(filter(None, _WORDS))})\b", re.IGNORECASE)
_DECISIONS = ROOT / "docs/decisions"
_PAGES = sorted(path for path in _DECISIONS.glob("*.md") if path.name != "README.md")
_RECORDS = [path for path in _PAGES if path.name[0].isdigit()]
_SECTIONS = ["Context", "Decision", "Alternatives considered", "Consequences", "Links"]
_LONGEST_RECORD = 60


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_status_and_a_date(page: Path) -> None:
    title, blank, status, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert blank == ""
    assert re.fullmatch(r"Status: (accepted|superseded by \[.+\]\(.+\)), 20\d\d-\d\d", status)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_a_page_has_no_private_words(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    assert _PRIVATE_WORDS.findall(prose) == []


def test_the_list_has_every_page() -> None:
    text = (_DECISIONS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(([\w-]+\.md)\)", text)) == [page.name for page in _PAGES]


def test_records_are_numbered() -> None:
    assert [path.name[:5] for path in _RECORDS] == [f"{number:04}-" for number in range(1, len(_RECORDS) + 1)]
    assert len(_RECORDS) >= 10


@pytest.mark.parametrize("page", _RECORDS, ids=lambda page: page.stem)
def test_a_record_has_all_sections_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == _SECTIONS
    assert len(text.splitlines()) <= _LONGEST_RECORD


def test_the_glossary_is_short_and_sorted() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("\n### Glossary\n")[2].partition("\n## ")[0]
    terms = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][2:]
    assert 0 < len(terms) <= _MOST_TERMS
    assert terms == sorted(terms, key=str.lower)
