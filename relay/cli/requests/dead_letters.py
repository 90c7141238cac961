"""Requests of the commands of `relay dead-letters`."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandOptions, CommandRequest
from relay.cli.requests.options import ConfigSource, Json, Quiet, Since, Until


class LetterFilter(CommandOptions, frozen=True, kw_only=True):
    """The selection of dead letters."""

    codes: Annotated[
        tuple[str, ...],
        typer.Option(
            "--code", metavar="CODE", help="Only errors of this code or family (`decode`); may be repeated."
        ),
    ] = ()
    tables: Annotated[
        tuple[str, ...],
        typer.Option(
            "--include-table",
            metavar="GLOB",
            help="Only records about tables that match database.table; may be repeated.",
        ),
    ] = ()
    since: Since = None
    until: Until = None
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only records of this source topic.")
    ] = None
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, metavar="N", help="Only records of this source partition."),
    ] = None
    offset: Annotated[
        int | None, typer.Option("--offset", min=0, metavar="N", help="Only records of this source offset.")
    ] = None
    route: Annotated[
        str | None,
        typer.Option(
            "--route",
            metavar="NAME",
            help="Only dead letters of this route, by its name in `show` and `list --json`.",
        ),
    ] = None
    replayed: Annotated[bool, typer.Option("--all", help="Include dead letters that were replayed.")] = False


class ListRequest(CommandRequest, frozen=True, kw_only=True):
    """List dead letters, newest last: position, original position, time, error and tables, but never keys and
    values.

    Times are the Kafka timestamps of the originals. The whole topic is read; no group is joined.
    """

    WORK: ClassVar = "relay.cli.dead_letters:list_dead_letters"
    EXAMPLE: ClassVar = "relay dead-letters list --config relay.toml --code decode --since 2h"

    config: ConfigSource
    filter: LetterFilter
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per dead letter.")] = False
    export: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the originals as a record file, for `relay inspect` and `relay translate`.",
        ),
    ] = None
    quiet: Quiet = False


class ShowDeadLettersRequest(CommandRequest, frozen=True, kw_only=True):
    """Show one dead letter: its error, its headers, and the original with key and value, as a line of a
    record file.
    """

    WORK: ClassVar = "relay.cli.dead_letters:show_dead_letter"
    EXAMPLE: ClassVar = "relay dead-letters show 0/12 --config relay.toml"

    position: Annotated[
        str,
        typer.Argument(metavar="POSITION", help="PARTITION/OFFSET, as `list` shows it.", show_default=False),
    ]
    config: ConfigSource
    as_json: Json = False
    quiet: Quiet = False


class ReplayRequest(CommandRequest, frozen=True, kw_only=True):
    """Translate dead letters again, with the current configuration, and write the results to the target.

    Replayed dead letters are marked, so that they are not replayed again. Those that fail again stay, are
    listed, and the exit status is 2. Replayed records come after newer ones of the same key.
    """

    WORK: ClassVar = "relay.cli.dead_letters:replay_dead_letters"
    EXAMPLE: ClassVar = "relay dead-letters replay --config relay.toml --code encode --dry-run"

    config: ConfigSource
    filter: LetterFilter
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Translate without writing.")] = False
    quiet: Quiet = False
