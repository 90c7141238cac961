"""Requests of the commands that work with a route's configuration, and of the demo and the playground."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandRequest
from relay.cli.requests.options import ColumnTexts, ConfigSource, HashKeyFile, Json, TableTexts, WhereTexts
from relay.io.log_text import LogFormat, LogLevel

Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        metavar="N",
        help="Share the work among N processes, as --set delivery.processes=N does.",
        show_default="that of the configuration, else 1",
    ),
]


class RunRequest(CommandRequest, frozen=True, kw_only=True):
    """Run the service: read Kafka topics, translate, write to other topics, commit, until stopped by SIGTERM
    or Ctrl-C.

    With --dry-run it starts at the group's committed position, and does not disturb a running relay.
    """

    WORK: ClassVar = "relay.cli.run:run"
    EXAMPLE: ClassVar = "relay run --config relay.toml --processes 2"

    config: ConfigSource
    processes: Processes = None
    log_level: Annotated[
        LogLevel | None,
        typer.Option(metavar="LEVEL", help="Lowest level to log: info, warning or error."),
    ] = None
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            metavar="FORM", help="Log format: text, json, or auto: text on a terminal, JSON elsewhere."
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Read, translate and count, but do not write, commit, create anything or join a group.",
        ),
    ] = False


class CheckRequest(CommandRequest, frozen=True, kw_only=True):
    """Check a configuration and the files that it names, and print all problems, or a summary of the route.
    Brokers are contacted only with --connect.

    With --connect: one line per check, ok, note, FAILED or untested, with the reason and a remedy. The exit
    status is 3 if one FAILED.
    """

    WORK: ClassVar = "relay.cli.check:check"
    EXAMPLE: ClassVar = "relay check --config relay.toml --connect"

    config: ConfigSource
    connect: Annotated[
        bool,
        typer.Option(
            "--connect", help="Also test brokers, TLS, login, topics and permissions; nothing is written."
        ),
    ] = False
    processes: Processes = None


class ExplainRequest(CommandRequest, frozen=True, kw_only=True):
    """Show the trace of one source record: its key and value, its events, the records written for it and the
    losses, or the error and its consequences.

    Table definitions come from the schema history, as of the record's position. Nothing is written or
    committed, and no group is joined, so a running relay is not disturbed.
    """

    WORK: ClassVar = "relay.cli.explain:explain"
    EXAMPLE: ClassVar = "relay explain orders/3/4711 --config relay.toml"

    position: Annotated[
        str | None,
        typer.Argument(
            metavar="POSITION",
            help="The source record, TOPIC/PARTITION/OFFSET; TOPIC is optional if there is only one.",
            show_default=False,
        ),
    ] = None
    config: ConfigSource
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Source topic, instead of POSITION.")] = (
        None
    )
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Source partition, instead of POSITION.")
    ] = None
    offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Source offset, instead of POSITION.")
    ] = None
    unmasked: Annotated[
        bool,
        typer.Option(
            "--unmasked", help="Show the source record and its events without the rules that hide values."
        ),
    ] = False
    as_json: Json = False


class DemoRequest(CommandRequest, frozen=True, kw_only=True):
    """Show a running relay on a real Apache Kafka, which is downloaded and started for the demo. Needs `pip
    install '.\\[demo]'` in relay's folder.
    """

    WORK: ClassVar = "relay.cli.run:demo"

    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's broker running until Ctrl-C.")] = (
        False
    )


class PlaygroundRequest(CommandRequest, frozen=True, kw_only=True):
    """Serve a local page that shows a pasted message, its events, the records of another protocol, and the
    losses, side by side. Ctrl-C stops it.

    The page has example messages, and all options and profiles with descriptions. It reads only pasted data,
    and stores nothing.
    """

    WORK: ClassVar = "relay.cli.playground.server:play"
    EXAMPLE: ClassVar = "relay playground --open"

    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; by default only this machine can connect."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="N", help="Port to listen on; 0 for any free port.")
    ] = 8090
    where: WhereTexts = ()
    columns: ColumnTexts = ()
    hash_key_file: HashKeyFile = None
    tables: TableTexts = ()
    opens: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False
