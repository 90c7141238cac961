"""docs/readers.md: every configuration is valid, and the reader's own settings beside it are for what relay
writes with it.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from docs.generate import ROOT
from support import captured

from relay import Resolver, Translator
from relay.cli.check import check
from relay.cli.requests.options import ConfigSource
from relay.cli.requests.route import CheckRequest
from relay.codecs import BUILT_IN
from relay.codecs.given_options import PROFILE

PAGE = (ROOT / "docs/readers.md").read_text(encoding="utf-8")
#: The topic that the page is about, and its table's columns.
TOPIC = "ticdc.dml_db.accounts"
COLUMNS = ["id", "name", "balance", "note", "email"]
_BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Section(NamedTuple):
    """A reader's part of the page: its heading, its text, and its blocks by language."""

    title: str
    text: str
    blocks: dict[str, list[str]]

    @classmethod
    def parse(cls, part: str) -> Section:
        title, _, text = part.partition("\n")
        blocks: dict[str, list[str]] = {}
        for language, body in _BLOCK.findall(text):
            blocks.setdefault(language, []).append(body)
        return cls(title, text, blocks)


SECTIONS = [Section.parse(part) for part in PAGE.split("\n## ")[1:]]
CONFIGURED = [section for section in SECTIONS if "toml" in section.blocks]
FLAT = [section for section in CONFIGURED if '"flat-json"' in section.blocks["toml"][0]]

every_section = pytest.mark.parametrize("section", CONFIGURED, ids=lambda section: section.title)


def written(section: Section) -> list[tuple[str, bytes | None, bytes | None]]:
    """Topic, key and value of what the configuration makes of a captured topic."""
    config = tomllib.loads(section.blocks["toml"][0])
    route, topic = config["route"], config["target"]["topic"]
    assert (route["from"], config["source"]["topics"]) == ("ticdc-open-protocol", ["ticdc"])
    translator = Translator(route["from"], route["to"], None, route.get("to_options"), topic=topic)
    records = [
        msgspec.structs.replace(record, topic="ticdc") for record in captured("ticdc/open-protocol/09_dml")
    ]
    resolver = Resolver()
    made = [out for record in records for out in resolver.translate(translator, record)]
    return [(out.topic, out.key, out.value) for out in made]


def of_accounts(section: Section) -> list[tuple[Any, Any]]:
    """Keys and values of the page's table, read as JSON."""
    found = [(key, value) for topic, key, value in written(section) if topic == TOPIC]
    assert len(found) > 20
    return [(key and json.loads(key), value and json.loads(value)) for key, value in found]


def test_every_reader_is_in_the_table() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\]", PAGE, re.MULTILINE)
    assert rows == [section.title for section in SECTIONS]


def test_every_profile_has_a_reader() -> None:
    shown = {
        (config["to"], config["to_options"][PROFILE])
        for config in (_route(section) for section in CONFIGURED)
        if PROFILE in config.get("to_options", {})
    }
    assert shown == {(name, profile) for name, codec in BUILT_IN.items() for profile in codec.profiles}


def _route(section: Section) -> Any:
    return tomllib.loads(section.blocks["toml"][0])["route"]


@every_section
def test_relay_check_finds_the_configuration_valid(
    section: Section, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = section.blocks["toml"]
    path = tmp_path / "relay.toml"
    path.write_text(text, encoding="utf-8")
    assert check(CheckRequest(config=ConfigSource(file=path))) == 0
    assert capsys.readouterr().out.startswith("configuration is valid\n")


@every_section
def test_settings_beside_it_are_json_where_they_look_so(section: Section) -> None:
    for block in section.blocks.get("json", []):
        json.loads(block)


@every_section
def test_readers_name_the_topic_that_is_written(section: Section) -> None:
    topics = {topic for topic, _, _ in written(section)}
    settings = "\n".join(
        block for kind, blocks in section.blocks.items() if kind != "toml" for block in blocks
    )
    if "topics.regex" in settings:
        regex = json.loads(section.blocks["json"][0])["config"]["topics.regex"]
        assert all(re.fullmatch(regex, topic) for topic in topics)
    elif "topic" in settings:
        assert TOPIC in settings
        assert TOPIC in topics
    elif "destination" in settings:
        assert topics == set(re.findall(r"destination: (\S+)", settings))


@pytest.mark.parametrize("section", FLAT, ids=lambda section: section.title)
def test_loaders_take_each_member_of_a_row(section: Section) -> None:
    """Those with a list of columns have exactly what is written, so that no loader meets a name it lacks."""
    rows = [row for _, row in of_accounts(section) if row is not None]
    # The captured table loses columns, and gets others; the page is about how it was made.
    whole = [row for row in rows if [name for name in row if not name.startswith("__")] == COLUMNS]
    (members,) = {tuple(row) for row in whole}
    for listed in _listed(section):
        assert sorted(listed) == sorted(members)


def _listed(section: Section) -> list[list[str]]:
    """The lists of columns in a section: of Routine Load, its paths, ClickHouse's table, a mapping."""
    found = []
    for sql in section.blocks.get("sql", []):
        found += [
            re.split(r",\s*", columns) for columns in re.findall(r"^COLUMNS \((.*)\)", sql, re.MULTILINE)
        ]
        found += [re.findall(r"\$\.(\w+)", paths) for paths in re.findall(r'"jsonpaths" = (.*)', sql)]
        if "ENGINE = ReplacingMergeTree" in sql:
            (table,) = re.findall(r"CREATE TABLE accounts \((.*?)\n\)", sql, re.DOTALL)
            found.append(re.findall(r"(?:^|, )\s*(\w+) [A-Z]", table, re.MULTILINE))
    for block in section.blocks.get("json", []):
        if "mappings" in json.loads(block):
            found.append(list(json.loads(block)["mappings"]["properties"]))
    return found


def test_there_are_lists_of_columns_to_look_at() -> None:
    lists = {section.title: len(_listed(section)) for section in FLAT}
    assert lists == {
        "Readers of unwrapped rows": 0,
        "ClickHouse": 1,
        "StarRocks": 2,
        "Doris": 2,
        "Elasticsearch": 1,
    }


def test_deleted_rows_are_what_each_loader_takes() -> None:
    by_title = {section.title: section for section in FLAT}
    marks = {"ClickHouse": ("__deleted", 1), "Doris": ("__deleted", 1), "StarRocks": ("__op", 1)}
    for title, (column, mark) in marks.items():
        rows = [row for _, row in of_accounts(by_title[title])]
        assert {row[column] for row in rows} == {0, mark}
    unwrapped = of_accounts(by_title["Readers of unwrapped rows"])
    assert {row["__deleted"] for _, row in unwrapped} == {"true", "false"}
    deleted = [key for key, row in of_accounts(by_title["Elasticsearch"]) if row is None]
    assert deleted
    assert all(key is not None for key in deleted)


def test_versions_never_fall() -> None:
    by_title = {section.title: section for section in FLAT}
    for title in ("ClickHouse", "Doris"):
        newest: dict[int, int] = {}
        for _, row in of_accounts(by_title[title]):
            assert newest.get(row["id"], 0) <= row["__version"]
            newest[row["id"]] = row["__version"]
