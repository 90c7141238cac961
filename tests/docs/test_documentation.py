"""The documentation is true: its examples run, its tables are the code's, its links lead somewhere."""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from docs.generate import PARTS, PARTS_OF_PROTOCOLS, ROOT, generated, pages, settings
from support import CANAL, OPEN, TICDC, captured, translate

import relay
from relay import ConsumerRecord, Resolver, Translator
from relay.codecs import BUILT_IN
from relay.codecs.losses import Loss
from relay.codecs.open_protocol.frames import unframe
from relay.config import load_config
from relay.core.loss_texts import route_losses
from relay.model import errors

PAGES = pages()
FLAGSHIP, FLAGSHIP_LINE = "ticdc/canal-json.tidb-extension/09_dml", 13
_BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LOGGED = re.compile(r"(?:log\.(?:info|warning|error|rate_limited)|\bwrite)\(\s*\"([a-z.-]+)\"")
_SECONDS = re.compile(r"in \d+\.\d s")
_LONGEST_LINE = 132


class Command(NamedTuple):
    """A command of a `console` block, and the output that stands below it."""

    page: str
    text: str
    output: list[str]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return [body for found, body in _BLOCK.findall(text_of(page)) if found == language]


def prose(page: Path) -> str:
    return _BLOCK.sub("", text_of(page))


def commands() -> Iterator[Command]:
    for page in PAGES:
        for block in blocks(page, "console"):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Command(name_of(page), command, output.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_generated_parts_are_what_the_code_says(page: Path) -> None:
    assert text_of(page) == generated(text_of(page)), "run `python -m docs.generate` in the folder `tests`"


def test_every_generated_part_is_on_a_page() -> None:
    everything = "".join(map(text_of, PAGES))
    assert [
        name for name in PARTS if not re.search(f"<!-- generated: {name}( |$)", everything, re.MULTILINE)
    ] == []


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_protocol_has_a_page_with_all_generated_parts(protocol: str) -> None:
    page = text_of(ROOT / f"docs/protocols/{protocol}.md")
    codec = BUILT_IN[protocol]
    parts = set(PARTS_OF_PROTOCOLS) - (set() if codec.profiles else {"profiles"})
    parts -= set() if codec.is_writable else {"losses"}
    assert {name for name in PARTS_OF_PROTOCOLS if f"<!-- generated: {name} {protocol} -->" in page} == parts


def test_a_loss_table_has_each_loss_of_each_route() -> None:
    """The table of a target groups what `route_losses` has for each source and option: nothing is lost."""
    for codec in BUILT_IN.values():
        rows = [line.split(" | ") for line in PARTS_OF_PROTOCOLS["losses"](codec.name).splitlines()[2:]]
        for source, setting in itertools.product(
            (each for each in BUILT_IN.values() if each.is_readable), settings(codec)
        ):
            shown = {
                lost.removeprefix("| ")
                for lost, names, when in rows
                if names == "all" or f"`{source.name}`" in names.split(", ")
                if _holds(when.removesuffix(" |"), setting.text)
            }
            assert shown == {loss.text for loss in route_losses(source.decodes, setting.carries)}


def _holds(when: str, option: str) -> bool:
    """Whether a loss with these words about options occurs with an option ("": the defaults)."""
    named = bool(option) and option in when
    return named if when.startswith("lost only with") else not named


def test_console_examples_print_what_is_shown(tmp_path: Path) -> None:
    """Commands run in the order of the pages, as for a reader who tries them; what they write lands in a
    folder of the test.
    """
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "config.example.toml").symlink_to(ROOT / "config.example.toml")
    found = list(commands())
    assert {"translate", "inspect", "formats"} <= {command.text.split()[1] for command in found}
    for command in found:
        program, *arguments = shlex.split(command.text)
        assert program == "relay"
        ran = subprocess.run(
            [sys.executable, "-m", "relay", *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, (command, ran.stdout)
        shown, printed = (
            "\n".join(_SECONDS.sub("in … s", line) for line in lines)
            for lines in (command.output, ran.stdout.splitlines())
        )
        assert shown in printed, command


def test_the_library_example_runs(tmp_path: Path) -> None:
    example, rows, _ = blocks(ROOT / "docs/library.md", "python")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '"type":"UPDATE"' in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("Counter(")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", rows],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^update \S+\.\S+ \{'.*\} \{'", ran.stdout, re.MULTILINE)


def test_the_library_example_of_claim_checks_works(tmp_path: Path) -> None:
    """Rows above the limit go into a storage, and come back out of it."""
    scope: dict[str, Any] = {}
    exec(blocks(ROOT / "docs/library.md", "python")[2], scope)  # noqa: S102 - the page's own text
    uri = {"claim-check-storage-uri": str(tmp_path)}
    small = {
        "enable-tidb-extension": "true",
        "large-message-handle-option": "claim-check",
        "max-message-bytes": "2000",
    }
    records = captured("ticdc/canal-json.tidb-extension/04_strings_binary")
    writing = Translator(TICDC, TICDC, None, small | uri)
    reading = Translator(TICDC, TICDC, uri, {"enable-tidb-extension": "true"})
    values = []
    for record in records:
        for out in scope["translated"](Resolver(), writing, record):
            stored = ConsumerRecord("t", out.partition, record.offset, out.timestamp_ms, out.key, out.value)
            values += [json.loads(back.value) for back in scope["translated"](Resolver(), reading, stored)]
    whole = translate(TICDC, TICDC, records, None, {"enable-tidb-extension": "true"})
    assert values == whole
    assert len(list(tmp_path.iterdir())) == 4


def documents(block: str) -> list[str]:
    """The JSON documents of a block, each in its shortest form with the order of its members."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(block.rstrip()):
        document, at = decoder.raw_decode(block, at + len(block[at:]) - len(block[at:].lstrip()))
        found.append(json.dumps(document))
    return found


def test_the_second_flagship_messages_are_real() -> None:
    """Key and value of a row in Open Protocol, and of what relay makes of it."""
    *_, read, written = blocks(ROOT / "docs/examples.md", "json")
    records = captured("ticdc/open-protocol/09_dml")[:FLAGSHIP_LINE]
    (segments,) = unframe(records[-1].key, records[-1].value)
    assert [json.dumps(json.loads(text)) for text in segments] == documents(read)
    translator = Translator(OPEN, "ticdc-debezium", None, {"debezium-disable-schema": "true"})
    *_, out = [made for record in records for made in translator.translate(record)]
    assert [json.dumps(json.loads(text or b"")) for text in (out.key, out.value)] == documents(written)


def test_the_flagship_messages_are_real() -> None:
    read, written, *_ = (
        json.loads(documents(block)[0]) for block in blocks(ROOT / "docs/examples.md", "json")
    )
    records = captured(FLAGSHIP)[:FLAGSHIP_LINE]
    assert json.loads(records[-1].value or b"") == read
    out = translate(TICDC, CANAL, records)[-1]
    assert json.dumps(out) == json.dumps(written)
    assert set(written["old"][0]) == {
        name for name, old in read["old"][0].items() if old != read["data"][0][name]
    }


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("debezium-json", {"schemas.enable": "false"}), ("flat-json", {}), ("maxwell-json", {})],
)
def test_messages_on_the_pages_of_protocols_are_real(protocol: str, options: dict[str, str]) -> None:
    shown = documents(blocks(ROOT / f"docs/protocols/{protocol}.md", "json")[0])
    records = captured(FLAGSHIP)[:FLAGSHIP_LINE]
    translator = Translator(TICDC, protocol, None, options)
    *_, out = [made for record in records for made in translator.translate(record)]
    written = [json.dumps(json.loads(text or b"")) for text in (out.key, out.value)]
    assert written[-len(shown) :] == shown


def test_configurations_in_the_pages_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAY_TRACEBACK", raising=False)
    (whole,) = blocks(ROOT / "README.md", "toml")
    (route,) = blocks(ROOT / "docs/configuration.md", "toml")
    for number, text in enumerate((whole, route + whole[whole.index("[source]") :])):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        assert load_config(path).target_topics == {"orders": "orders.canal-json"}


def _subclasses(kind: type[errors.RelayError]) -> Iterator[type[errors.RelayError]]:
    yield kind
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("relay."):
            yield from _subclasses(subclass)


def _rows(page: str, heading: str) -> dict[str, list[str]]:
    """A table of a page: the first cell, without its back-ticks, and the others."""
    section = text_of(ROOT / page).partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {first.strip("`"): rest for first, *rest in rows}


def test_every_error_code_is_documented_with_its_status() -> None:
    documented = {
        code: int(cells[0])
        for code, cells in _rows("docs/operations/troubleshooting.md", "Error codes").items()
    }
    for module in pkgutil.walk_packages(relay.__path__, "relay."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert documented == {kind.code: kind.exit_status for kind in _subclasses(errors.RelayError)}


def test_every_log_event_is_documented() -> None:
    logged = {event for path in (ROOT / "relay").rglob("*.py") for event in _LOGGED.findall(text_of(path))}
    assert "relay.starting" in logged
    assert set(_rows("docs/operations/log-events.md", "Events")) == logged


def test_every_counter_is_documented() -> None:
    assert set(_rows("docs/protocols.md", "Counters")) == {str(what) for what in Loss}


def test_every_protocol_has_a_page_about_its_messages() -> None:
    pages = {path.stem: text_of(path) for path in (ROOT / "docs/protocols").glob("*.md")}
    assert set(pages) == set(BUILT_IN)
    for name, page in pages.items():
        assert page.startswith(f"# {name}\n")
        assert len(page.partition("\n## Messages\n")[2].partition("\n## ")[0].split()) > 50, name


def test_every_protocol_has_a_row_about_rows_without_a_definition() -> None:
    rows = _rows("docs/operations/schema-history.md", "Rows without a definition")
    readable = {name for name, codec in BUILT_IN.items() if codec.is_readable}
    assert {name.partition("`")[0] for name in rows} >= readable


def test_every_command_is_documented() -> None:
    from relay.cli.commands import COMMANDS

    rows = _rows("docs/command-line.md", "Commands")
    assert {name.removeprefix("relay ") for name in rows} == set(COMMANDS)


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    titles = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_local_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in _anchors(target), link


def test_pictures_exist() -> None:
    named = [
        (page, found) for page in PAGES for found in re.findall(r'(?:src|srcset)="([^"]+)"', prose(page))
    ]
    assert len(named) >= 2
    assert [(page, found) for page, found in named if not (page.parent / found).is_file()] == []


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 200


_WITH_CONTENTS = [
    *sorted((ROOT / "docs/operations").glob("*.md")),
    *sorted((ROOT / "docs/backfill").glob("*.md")),
    *(
        ROOT / f"docs/{name}.md"
        for name in ("backfill", "kubernetes", "configuration", "protocols", "routing")
    ),
]


@pytest.mark.parametrize("page", _WITH_CONTENTS, ids=name_of)
def test_a_table_of_contents_has_every_section(page: Path) -> None:
    contents, *_ = prose(page).partition("\n## ")
    sections = re.findall(r"^## (.+)$", prose(page), re.MULTILINE)
    missing = [title for title in sections if f"[{title}](#" not in contents]
    assert len(sections) == 1 or not missing, missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_not_too_long(page: Path) -> None:
    """Tables cannot be wrapped, nor can a command and what it prints."""
    lines = text_of(page).splitlines()
    assert [line for line in lines if len(line) > _LONGEST_LINE and not line.startswith(("|", "$ "))] == []


def test_strict_refuses_what_would_be_counted() -> None:
    """docs/protocols.md says that `strict` includes the commit ts."""
    translator = Translator(TICDC, CANAL, None, {"strict": "true"})
    with pytest.raises(errors.NotRepresentable):
        translator.translate(captured(FLAGSHIP)[0])
