"""What commands with a configuration have in common: `--set`, and positions of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from config_support import MINIMAL
from typer.testing import Result

from relay.cli.arguments import ConfigSource
from relay.cli.commands import app
from relay.cli.explain import Asked
from relay.errors import ConfigError
from relay.records import Place

Run = Callable[..., Result]


def options(command: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command with the names of its options."""
    for name, each in command.commands.items():
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
    assert "error: route.to: there is no protocol 'nothing'" in result.stderr


@pytest.fixture
def one(tmp_path: Path) -> ConfigSource:
    file = tmp_path / "relay.toml"
    file.write_text(MINIMAL)
    return ConfigSource(file)


@pytest.fixture
def two(one: ConfigSource) -> ConfigSource:
    return one._replace(settings=("source.topics=orders,items",))


@pytest.mark.parametrize(
    "asked",
    [Asked("orders/1/7"), Asked("1/7"), Asked(None, None, 1, 7), Asked(None, "orders", 1, 7)],
)
def test_positions(one: ConfigSource, asked: Asked) -> None:
    assert asked.place(one.load()) == Place("orders", 1, 7)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (Asked("1/7"), "POSITION: lacks the topic (its source topics are: orders, items)"),
        (Asked(None, None, 1, 7), "--topic: lacks the topic (its source topics are: orders, items)"),
        (Asked("users/1/7"), "POSITION: 'users' is no source topic of this configuration (its source"),
        (Asked("orders/1"), "POSITION: lacks the topic"),
        (Asked("orders"), "POSITION: 'orders' is no position (write TOPIC/PARTITION/OFFSET"),
        (Asked("orders/1/x"), "POSITION: 'orders/1/x' is no position"),
        (Asked(), "POSITION: is missing (write TOPIC/PARTITION/OFFSET, or --partition N --offset N)"),
        (Asked(None, None, 1), "POSITION: is missing"),
        (Asked("orders/1/7", offset=3), "POSITION: is given beside --topic, --partition or --offset"),
    ],
)
def test_positions_that_are_wrong(two: ConfigSource, asked: Asked, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        asked.place(two.load())
    assert str(raised.value).startswith(problem)


def test_a_configuration_knows_its_file(one: ConfigSource) -> None:
    config = one.load()
    assert config.file == str(one.file)
    assert config.of_process(0).file == config.file
