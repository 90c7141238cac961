"""The same thing has the same name in every command, and messages name options that the command has."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from config_support import MINIMAL
from support import DATA
from typer.testing import Result

import relay
from relay.cli import commands
from relay.cli.option_names import IMPORT, SIDES, USUAL, Spelling

Run = Callable[..., Result]
NAMED = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
DML = str(DATA / "ticdc/canal-json.tidb-extension/09_dml.jsonl")
#: Options of Kafka's and MySQL's own programs, which texts name, too.
OF_OTHERS = {"--alter", "--batch", "--bootstrap-server", "--create", "--raw", "--replication-factor"}  # fmt: skip


def all_commands() -> dict[str, Any]:
    """Every command, by its name."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        if not isinstance(command, typer.core.TyperGroup):
            yield name, command
            return
        for word in command.list_commands(context):
            yield from walk(command.get_command(context, word), f"{name} {word}".strip())

    program = typer.main.get_command(commands.app)
    context = typer.Context(program)
    return dict(walk(program, ""))


COMMANDS = all_commands()
OPTIONS = {
    name: {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    | {str(each.metavar).removesuffix("...") for each in command.params if each.param_type_name == "argument"}
    | {"--help", "-h"}
    for name, command in COMMANDS.items()
}
ALL = set().union(*OPTIONS.values()) | {"--traceback", "--version"}


def test_an_option_has_the_same_short_name_wherever_it_is() -> None:
    short: dict[str, set[tuple[str, ...]]] = {}
    for command in COMMANDS.values():
        for each in command.params:
            names = [option for option in each.opts if option.startswith("--")]
            if names:
                short.setdefault(names[0], set()).add(tuple(o for o in each.opts if not o.startswith("--")))
    assert {name: each for name, each in short.items() if len(each) > 1} == {}
    assert short["--output"] == {("-o",)}


def test_an_input_is_named_alike() -> None:
    """What reads files and topics names both, their protocol and registry, and definitions in the same way."""
    for name in ("translate", "inspect", "detect", "capture"):
        topic = {"--from-topic", "--brokers", "--config", "--set", "--last", "--since", "--quiet"}
        assert topic <= OPTIONS[name], name
    for name in ("translate", "inspect", "detect", "produce"):
        assert {"INPUT", "--input-format"} <= OPTIONS[name]
    for name in ("translate", "inspect", "diff"):
        assert {"--schema-dump", "--dump-database", "--dump-as-of", "--limit"} <= OPTIONS[name]


@pytest.mark.parametrize(
    ("spelling", "names", "without"),
    [
        (USUAL, ["translate", "inspect"], []),
        (SIDES[0], ["diff"], []),
        (SIDES[1], ["diff"], []),
        (IMPORT, ["schema-history import"], ["protocol", "option", "registry"]),
    ],
)
def test_a_command_has_what_its_spelling_says(
    spelling: Spelling, names: list[str], without: list[str]
) -> None:
    said = {getattr(spelling, each) for each in spelling.__struct_fields__ if each not in without}
    for name in names:
        assert said <= OPTIONS[name]


def test_texts_name_options_that_there_are() -> None:
    """No text of relay's code names an option that no command has."""
    wrong = {}
    for path in Path(relay.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                unknown = set(NAMED.findall(node.value)) - ALL - OF_OTHERS
                if unknown:
                    wrong[f"{path.name}:{node.lineno}"] = unknown
    assert wrong == {}


WRONG = [
    "translate --from x --to y IN",
    "translate --from canal-json --to canal-json --from-option a=b --to-option a=b --topic {x} IN",
    "translate --from canal-json --to canal-json --on-error dead-letter IN",
    "translate --from canal-json --to canal-json --dead-letters x IN",
    "translate --from canal-json --to canal-json --output IN IN",
    "translate --from canal-json --to canal-json --partition-by key IN",
    "translate --from canal-json --to canal-json --dump-as-of x IN",
    "translate --from canal-json --to canal-json --schema-dump DUMP IN",
    "translate --from canal-json --to debezium-avro IN",
    "translate --from debezium-avro --to canal-json IN",
    "translate --from auto --to canal-json WRONG",
    "translate --from canal-json --to canal-json --last 3",
    "translate --from canal-json --to canal-json --brokers h",
    "translate --from canal-json --to canal-json --include-table x --exclude-event y IN",
    "translate --from canal-json --to canal-json WRONG",
    "inspect --from x IN",
    "inspect --from debezium-avro IN",
    "inspect --from auto WRONG",
    "inspect --from canal-json --limit x=1 --from-option y=1 IN",
    "inspect --from canal-json --dump-database x IN",
    "inspect --from canal-json --schema-dump DUMP WRONG",
    "inspect --from canal-json --from-topic t IN",
    "inspect --from canal-json --from-topic t --brokers h:x",
    "detect --last 3",
    "detect --from-topic t",
    "detect --from-topic t IN",
    "detect --from-registry nowhere IN",
    "detect nowhere",
    "capture --brokers h",
    "capture --from-topic t",
    "capture --from-topic t --brokers h --last 3 --offsets 3..5",
    "capture --from-topic t --brokers h --since x --until y",
    "capture --from-topic t --brokers h --output .",
    "produce --topic t IN",
    "produce --topic t --brokers h nowhere",
    "diff --a x IN IN",
    "diff --a canal-json --b y --a-option x=1 --b-option y=1 IN IN",
    "diff --a debezium-avro IN IN",
    "diff --a canal-json --b debezium-avro IN IN",
    "diff --a auto WRONG IN",
    "diff --a auto IN WRONG",
    "diff --a canal-json --key x=1 --limit y=1 --include-table z IN IN",
    "diff --a canal-json --dump-as-of x IN IN",
    "diff --a canal-json --schema-dump DUMP IN IN",
    "diff --a canal-json IN nowhere",
    "diff --a canal-json - -",
    "formats --from x --to y",
    "formats --from canal-json --from-option x=y",
    "formats --from-option x=y --profile x",
    "formats --to canal-json --profile x --to-option profile=y",
    "run --config TOML --log-format text --set x --processes 3 --set delivery.processes=0",
    "run --config TOML --processes 0",
    "run --config TOML --log-level loud",
    "check --config TOML --set x=1 --set source.topics=a*",
    "explain --config TOML orders/0",
    "explain --config TOML orders/0/1 --topic t",
    "explain --config TOML --partition 0",
    "dead-letters list --config TOML --since x --until y",
    "dead-letters show --config TOML x",
    "dead-letters replay --config TOML --since x",
    "schema-history import --config TOML --database x --as-of y --ca-file z",
    "schema-history import --config TOML --sql DUMP",
    "schema-history import --config TOML --sql DUMP --from-database mysql://u@h IN",
    "schema-history import --config TOML --sql DUMP --password-file x --as-of y",
    "schema-history import --config TOML --from-database x --database y",
    "schema-history import --config TOML --from-database mysql://u:p@h",
]


@pytest.mark.parametrize("line", WRONG)
def test_messages_name_options_of_the_command(
    line: str, relay: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("DUMP", "CREATE TABLE t (id int);"), ("WRONG", '{"x":1}\n'), ("TOML", MINIMAL)):
        Path(name).write_text(text)
    Path("IN").symlink_to(DML)
    name = next(each for each in COMMANDS if line.startswith(f"{each} "))
    result = relay(*line.split())
    assert "Traceback" not in result.stderr
    assert "bug in relay" not in result.stderr
    assert result.exit_code == 2 or "DUMP" in line
    said = [each for each in result.stderr.splitlines() if each.startswith(("error: ", "warning: ", "│"))]
    assert said
    for text in said:
        assert set(NAMED.findall(text)) - OPTIONS[name] == set(), text
        subject = text.partition(": ")[2].partition(":")[0]
        assert not re.match(r"(from|to)(\.option|$)|target\.|(in|ex)clude_", subject) or "--config" in line, (
            text
        )
        if re.fullmatch(r"[A-Z]+( \d+)?", subject):
            assert subject.partition(" ")[0] in OPTIONS[name] | {"WRONG", "DUMP"}, text
