"""What commands say to people at 80 columns, as texts in `golden/`: the help of every command that the
program has, and typical outputs. `WRITE=1 pytest tests/cli/test_golden.py` writes them anew; read the diff.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from config_support import MINIMAL
from rich.cells import cell_len
from rich.text import Text
from support import DATA, captured
from typer.testing import Result

from relay.cli import commands, layout
from relay.cli.dead_letters import print_letters
from relay.cli.explain import CountedLoss, Explanation, explanation_lines
from relay.cli.inspect import line_printer
from relay.config import load_config
from relay.config.wiring import translator_of
from relay.core.dead_letters import DeadLetter
from relay.core.loss_texts import LOSS_TEXTS
from relay.model.errors import Malformed
from relay.model.events import TableId
from relay.model.records import ConsumerRecord, RecordPosition
from relay.service.commands.offline import HistoryTranslator

Run = Callable[..., Result]
GOLDEN = Path(__file__).parent / "golden"
COLUMNS = 80
DML = DATA / "ticdc" / "canal-json.tidb-extension" / "09_dml.jsonl"
#: Texts that differ from run to run.
_VOLATILE = ((re.compile(r"in \d+\.\d s"), "in … s"),)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, whatever this test runs in, and no colors."""
    for name, value in (("COLUMNS", str(COLUMNS)), ("TERMINAL_WIDTH", str(COLUMNS)), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", COLUMNS)
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", None)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((COLUMNS, 24)))
    monkeypatch.setattr(layout, "width", lambda: COLUMNS)
    monkeypatch.setattr(layout, "error_width", lambda: COLUMNS)


def check(name: str, text: str) -> None:
    """Compare a text with the golden one of that name, or write it."""
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    hint = "WRITE=1 pytest tests/cli/test_golden.py writes it"
    assert file.exists(), f"{file} is missing: {hint}"
    assert text == file.read_text(encoding="utf-8"), hint


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if cell_len(line) > COLUMNS]


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command and group of commands that the program has; () is the program itself."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        if isinstance(command, typer.core.TyperGroup):
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), (*path, name))

    program = typer.main.get_command(commands.app)
    context = typer.Context(program)
    return walk(program, ())


@pytest.mark.parametrize("command", list(all_commands()), ids=lambda path: "-".join(path) or "relay")
def test_help(relay: Run, command: tuple[str, ...]) -> None:
    result = relay(*command, "--help")
    assert result.exit_code == 0
    assert too_wide(result.stdout) == []
    assert not re.findall(r"\w…[ │]", result.stdout), "a word is cut"
    check(f"help/{'-'.join(('relay', *command))}", result.stdout)


@pytest.mark.parametrize("command", list(all_commands()), ids=lambda path: "-".join(path) or "relay")
def test_help_has_no_markup(command: tuple[str, ...]) -> None:
    """Rich takes a word in brackets for a tag, and prints nothing for it. Only bold text is intended."""
    found = typer.main.get_command(commands.app)
    context = typer.Context(found)
    for name in command:
        found = found.get_command(context, name)  # type: ignore[attr-defined]  # all but the last are groups
    for text in (found.help, *(getattr(each, "help", None) for each in found.params)):
        written = re.sub(r"\[/?bold\]", "", text or "").replace("\\[", "[")
        assert Text.from_markup(text or "").plain == written


def test_no_golden_text_is_left_over() -> None:
    kept = {"-".join(("relay", *command)) for command in all_commands()}
    assert {file.stem for file in (GOLDEN / "help").glob("*.txt")} == kept


ROUTE = ("--from", "ticdc-canal-json", "--to", "canal-json")
WRONG_VALUES = ("--set", "delivery.drain_timeout_seconds=soon", "--set", "delivery.modes=1")
OUTPUTS: dict[str, tuple[str | Path, ...]] = {
    "formats-of-one": ("formats", "--to", "maxwell-json"),
    "formats-of-a-route": ("formats", "--from", "debezium-json", "--to", "canal-json"),
    "formats-profile": ("formats", "--to", "canal-json", "--profile", "flink"),
    "translate": ("translate", *ROUTE, DML, "--output", "OUT"),
    "translate-inferred": ("translate", *ROUTE, "ROWS", "--output", "OUT"),
    "translate-all-failed": ("translate", *ROUTE, "WRONG", "--on-error", "skip", "--output", "OUT"),
    "translate-stopped": ("translate", *ROUTE, "WRONG", "--output", "OUT"),
    "translate-wrong-options": (
        "translate",
        *ROUTE,
        DML,
        "--to-option",
        "strict=all,-comit-ts",
        "--topic",
        "a b",
    ),
    "inspect": ("inspect", "--from", "ticdc-canal-json", "SOME"),
    "inspect-wrong-file": ("inspect", "--from", "ticdc-canal-json", "WRONG"),
    "check": ("check", "--config", "CONFIG"),
    "check-wrong": ("check", "--config", "BROKEN"),
    "check-wrong-values": ("check", "--config", "CONFIG", *WRONG_VALUES),
    "no-file": ("run", "--config", "nowhere.toml", "--log-format", "text"),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files by the words that stand for them, called by short names."""
    monkeypatch.chdir(tmp_path)
    lines = DML.read_bytes().splitlines(keepends=True)
    rows = [line for line in lines if b"UPDATE" in line or b"INSERT" in line]
    texts = {
        "SOME": ("some.jsonl", b"".join(lines[:1] + lines[12:14])),
        "ROWS": ("rows.jsonl", b"".join(rows)),
        "WRONG": ("wrong.txt", b"id;name\n" * 25),
        "CONFIG": ("relay.toml", MINIMAL.encode()),
        "BROKEN": ("broken.toml", _BROKEN.encode()),
    }
    for name, text in texts.values():
        (tmp_path / name).write_bytes(text)
    return {word: name for word, (name, _) in texts.items()} | {"OUT": "out.jsonl"}


_BROKEN = (
    MINIMAL.replace('"kafka:9092"', '"${KAFKA}"')
    .replace('["orders"]', '["orders.*"]')
    .replace('to = "canal-json"', 'to = "canal-jsn"')
)


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(relay: Run, files: dict[str, str], name: str) -> None:
    arguments = [str(files.get(str(each), each)) for each in OUTPUTS[name]]
    result = relay(*arguments)
    shown = " ".join(each.replace(str(DML), DML.name) for each in arguments)
    streams = (("", result.stdout), ("stderr:\n", result.stderr))
    assert too_wide(result.stderr) == []
    said = "\n".join(f"{title}{text}" for title, text in streams if text)
    check(f"output/{name}", f"$ relay {shown}\n\n{said}\nexit status {result.exit_code}\n")


LETTERS = [
    DeadLetter(
        RecordPosition("relay.dead-letters", 0, number),
        ConsumerRecord("orders", 1, 4711 + number, 1_795_254_665_538 + number, None, None),
        code="encode.not-representable",
        protocol="canal-json",
        detail="the route would lose: commit-ts; the target option strict=all,-commit-ts accepts and counts it, strict=false every loss",
        path=path,
        tables=(TableId("shop_of_a_long_name", "orders"), TableId("shop", "items")),
        route="relay ticdc-canal-json to canal-json {topic}.canal",
    )
    for number, path in enumerate(("", "data[0].price"))
]


def test_dead_letters_in_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    print_letters(LETTERS, with_route=True, with_replayed=False)
    text = capsys.readouterr().out
    assert too_wide(text) == []
    check("output/dead-letters-list", text)


def test_dead_letters_in_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has a line for each, of any length."""
    monkeypatch.setattr(layout, "width", lambda: None)
    print_letters(LETTERS, with_route=False, with_replayed=True)
    check("output/dead-letters-list-in-a-pipe", capsys.readouterr().out)


def test_an_explanation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that is written, and a record that is refused."""
    file = tmp_path / "relay.toml"
    file.write_text(MINIMAL)
    config = load_config(file)
    translator = translator_of(config)
    row = captured("ticdc/canal-json.tidb-extension/09_dml")[12]
    row = ConsumerRecord("orders", 1, 12, row.timestamp_ms, None, row.value, (("trace", b"a1"),))
    events = translator.inspect(row)
    output = translator.translate(row)
    losses = [CountedLoss(kind, count, LOSS_TEXTS[kind]) for kind, count in translator.losses.most_common()]
    learned = HistoryTranslator(translator, 3, 0)
    written = Explanation(record=row, learned=learned, events=events, output=output, losses=losses)
    garbage = ConsumerRecord("orders", 1, 13, row.timestamp_ms, b"\xff", b"id;name", ())
    error = Malformed("ticdc-canal-json", "", "not valid JSON")
    refused = Explanation(record=garbage, learned=learned, events=[], error=error)
    for explanation in (written, refused):
        line_printer()([*explanation_lines(explanation, config), []])
    sys.stdout.flush()
    check("output/explain", capsys.readouterr().out)
