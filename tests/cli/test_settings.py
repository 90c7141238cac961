"""What commands with a configuration have in common: `--set`, and positions of records."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from config_support import MINIMAL
from typer.testing import Result

from relay.cli.commands import app
from relay.cli.exits import ProgressReport
from relay.cli.explain import position_of
from relay.cli.requests.options import ConfigSource
from relay.cli.requests.route import ExplainRequest
from relay.model.errors import ConfigError
from relay.model.records import RecordPosition

Run = Callable[..., Result]


def options(command: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command with the names of its options."""
    context = typer.Context(command)
    for name in command.list_commands(context):
        each = command.get_command(context, name)
        assert each is not None
        if isinstance(each, typer.core.TyperGroup):
            yield from options(each, (*path, name))
        else:
            yield " ".join((*path, name)), {name for option in each.params for name in option.opts}


COMMANDS = dict(options(typer.main.get_command(app)))  # type: ignore[arg-type]  # it has commands


def test_set_is_wherever_a_configuration_is() -> None:
    with_file = {name for name, found in COMMANDS.items() if "--config" in found}
    assert {"run", "check", "explain", "dead-letters list", "schema-history import"} <= with_file
    assert [name for name in sorted(with_file) if "--set" not in COMMANDS[name]] == []


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "0/1"),
        ("dead-letters", "list"),
        ("dead-letters", "show", "0/1"),
        ("dead-letters", "replay"),
        ("schema-history", "show"),
        ("schema-history", "export"),
        ("schema-history", "import", "-"),
        ("schema-history", "reset"),
    ],
)
def test_what_set_says_is_heeded(relay: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(MINIMAL)
    result = relay(*command, "--config", file, "--set", "route.to=nothing")
    assert result.exit_code == 2
    assert "error: route.to: unknown protocol 'nothing'" in result.stderr


@pytest.fixture
def one(tmp_path: Path) -> ConfigSource:
    file = tmp_path / "relay.toml"
    file.write_text(MINIMAL)
    return ConfigSource(file=file)


@pytest.fixture
def two(one: ConfigSource) -> ConfigSource:
    return msgspec.structs.replace(one, settings=("source.topics=orders,items",))


def position_asked(source: ConfigSource, asked: dict[str, Any]) -> RecordPosition:
    return position_of(ExplainRequest(config=source, **asked), source.load())


@pytest.mark.parametrize(
    "asked",
    [
        {"position": "orders/1/7"},
        {"position": "1/7"},
        {"partition": 1, "offset": 7},
        {"topic": "orders", "partition": 1, "offset": 7},
    ],
)
def test_positions(one: ConfigSource, asked: dict[str, Any]) -> None:
    assert position_asked(one, asked) == RecordPosition("orders", 1, 7)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"position": "1/7"}, "POSITION: lacks the topic (its source topics are: orders, items)"),
        (
            {"partition": 1, "offset": 7},
            "--topic: lacks the topic (its source topics are: orders, items)",
        ),
        (
            {"position": "users/1/7"},
            "POSITION: 'users' is not a source topic of this configuration (its source",
        ),
        ({"position": "orders/1"}, "POSITION: lacks the topic"),
        ({"position": "orders"}, "POSITION: 'orders' is not a position (write TOPIC/PARTITION/OFFSET"),
        ({"position": "orders/1/x"}, "POSITION: 'orders/1/x' is not a position"),
        ({}, "POSITION: is missing (write TOPIC/PARTITION/OFFSET, or --partition N --offset N)"),
        ({"partition": 1}, "POSITION: is missing"),
        (
            {"position": "orders/1/7", "offset": 3},
            "POSITION: cannot be combined with --topic, --partition or --offset",
        ),
    ],
)
def test_positions_that_are_wrong(two: ConfigSource, asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        position_asked(two, asked)
    assert str(raised.value).startswith(problem)


def test_a_configuration_knows_its_file(one: ConfigSource) -> None:
    config = one.load()
    assert config.file == str(one.file)
    assert config.of_process(0).file == config.file


@pytest.mark.parametrize(
    ("is_terminal", "quiet", "printed"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
def test_progress_is_printed_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    quiet: bool,
    printed: int,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    progress = ProgressReport("replaying", quiet=quiet)
    progress(1, 3)
    moment = time.monotonic() + 3
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    progress(2, 3)
    progress(3, 3)
    assert capsys.readouterr().err.splitlines() == ["replaying: 2 of 3"] * printed
