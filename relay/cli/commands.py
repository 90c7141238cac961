"""The program `relay` and its commands.

A command's arguments and help are its request (`relay.cli.requests`). The module of a request is imported
when its command is called, or when help lists the commands; the module that does the work, when the command
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

_REQUESTS: Final = "relay.cli.requests"
#: The commands in the order of help: a request, or a group's help and the requests of its commands.
COMMANDS: Final[Mapping[str, str | tuple[str, Mapping[str, str]]]] = {
    "translate": "files:TranslateRequest",
    "inspect": "files:InspectRequest",
    "detect": "files:DetectRequest",
    "capture": "topics:CaptureRequest",
    "produce": "topics:ProduceRequest",
    "diff": "files:DiffRequest",
    "formats": "files:FormatsRequest",
    "run": "route:RunRequest",
    "check": "route:CheckRequest",
    "explain": "route:ExplainRequest",
    "demo": "route:DemoRequest",
    "playground": "route:PlaygroundRequest",
    "dead-letters": (
        "List and show records that could not be relayed, and replay them when the cause is fixed.",
        {
            "list": "dead_letters:ListRequest",
            "show": "dead_letters:ShowDeadLettersRequest",
            "replay": "dead_letters:ReplayRequest",
        },
    ),
    "offsets": (
        "Show the committed offsets of a route, and change them while it is stopped.",
        {
            "show": "offsets:ShowOffsetsRequest",
            "seek": "offsets:SeekRequest",
            "reset": "offsets:ResetOffsetsRequest",
        },
    ),
    "schema-history": (
        "Show, export, import, repair or reset the table definitions that relay keeps across restarts.",
        {
            "show": "schema_history:ShowHistoryRequest",
            "export": "schema_history:ExportRequest",
            "import": "schema_history:ImportRequest",
            "repair": "schema_history:RepairRequest",
            "reset": "schema_history:ResetRequest",
        },
    ),
}


class _Program(TyperGroup):
    """The program. A command is made on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own click calls it
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:  # noqa: ANN401, ARG002 - as above
        """Return a command, None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _command(cmd_name)
        made: TyperCommand | TyperGroup = self.commands[cmd_name]  # type: ignore[assignment]  # no others are made
        return made


def _command(name: str) -> TyperCommand | TyperGroup:
    """Make a command, or a group of commands."""
    from relay.cli.command import add_command

    entry = COMMANDS[name]
    requests: Mapping[str, str]
    if isinstance(entry, str):
        made, requests = typer.Typer(add_completion=False, rich_markup_mode="rich"), {name: entry}
    else:
        about, requests = entry
        made = typer.Typer(
            name=name, help=about, no_args_is_help=True, add_completion=False, rich_markup_mode="rich"
        )
    for each, request in requests.items():
        module, _, kind = request.partition(":")
        add_command(made, each, getattr(import_module(f"{_REQUESTS}.{module}"), kind))
    found: TyperCommand | TyperGroup = typer.main.get_command(made)  # type: ignore[assignment]  # typer's own
    return found


app = typer.Typer(
    name="relay",
    cls=_Program,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done, 1 a bug in relay, 2 your input or options, "
    "3 the environment (a broker, a disk), 4 differences (relay diff), 130 interrupted.",
)


def _version(wanted: bool) -> None:  # typer calls it so
    if wanted:
        from importlib.metadata import version

        from relay.io import kernel

        typer.echo(f"relay {version('relay-cdc')}")
        typer.echo(kernel.installed().text)
        raise typer.Exit


@app.callback()
def _relay(
    context: typer.Context,
    *,
    show_traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", envvar="RELAY_TRACEBACK", help="Show where an error was raised, for a bug report."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of relay and of its native kernel.",
        ),
    ] = False,
) -> None:
    """Translate change events from one CDC format into another, in files or between Kafka topics.

    Run [bold]relay demo[/bold] for a demonstration, or [bold]relay COMMAND --help[/bold] for the options of
    a command and an example.
    """
    del version
    context.obj = show_traceback
