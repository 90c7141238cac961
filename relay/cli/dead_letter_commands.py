"""The commands of `relay dead-letters`, their arguments and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from relay.cli.arguments import ConfigFile, ConfigSource, Quiet, Settings
from relay.cli.exits import finish
from relay.cli.topic_options import Since, Until

# ruff: noqa: PLR0913  # a command has as many parameters as it has options

app = typer.Typer(
    no_args_is_help=True,
    help="Look at records that could not be relayed, and relay them again when the cause is gone.",
)

_Codes = Annotated[
    list[str] | None,
    typer.Option(
        "--code", metavar="CODE", help="Only errors of this code or family (`decode`); may be repeated."
    ),
]
_Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--include-table",
        metavar="GLOB",
        help="Only records about tables that match database.table; may be repeated.",
    ),
]
_Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="Only records of this source topic.")]
_Partition = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Only records of this source partition.")
]
_Offset = Annotated[int | None, typer.Option(min=0, metavar="N", help="Only records of this source offset.")]
_Route = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Only dead letters of this route, named as `show` and `list --json` name it."
    ),
]
_All = Annotated[bool, typer.Option("--all", help="Include dead letters that were replayed.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object per dead letter, for programs.")]


@app.command("list", epilog="Example: relay dead-letters list --config relay.toml --code decode --since 2h")
def _list(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    code: _Codes = None,
    table: _Tables = None,
    since: Since = None,
    until: Until = None,
    topic: _Topic = None,
    partition: _Partition = None,
    offset: _Offset = None,
    route: _Route = None,
    replayed: _All = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N.")] = None,
    as_json: _Json = False,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the originals as a record file, for `relay inspect` and `relay translate`.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """List dead letters, the newest last: position, original position, time, error and tables, but never keys
    and values.

    Times are the Kafka timestamps of the originals. The whole topic is read; no group is joined.
    """
    from relay.cli.dead_letters import Request, list_dead_letters

    request = Request(
        config=ConfigSource.from_options(config, settings),
        codes=tuple(code or ()),
        tables=tuple(table or ()),
        since=since,
        until=until,
        topic=topic,
        partition=partition,
        offset=offset,
        route=route,
        replayed=replayed,
        limit=limit,
        quiet=quiet,
    )
    raise finish(
        lambda: list_dead_letters(request, as_json=as_json, export=export), show_traceback=context.obj
    )


@app.command("show", epilog="Example: relay dead-letters show 0/12 --config relay.toml")
def _show(
    context: typer.Context,
    position: Annotated[
        str,
        typer.Argument(metavar="POSITION", help="PARTITION/OFFSET, as `list` shows it.", show_default=False),
    ],
    config: ConfigFile,
    *,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show one dead letter: its error, its headers, and the original with key and value, as a line of a
    record file.
    """
    from relay.cli.dead_letters import Request, show_dead_letter

    request = Request(config=ConfigSource.from_options(config, settings), quiet=quiet)
    raise finish(lambda: show_dead_letter(request, position, as_json=as_json), show_traceback=context.obj)


@app.command(
    "replay", epilog="Example: relay dead-letters replay --config relay.toml --code encode --dry-run"
)
def _replay(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    code: _Codes = None,
    table: _Tables = None,
    since: Since = None,
    until: Until = None,
    topic: _Topic = None,
    partition: _Partition = None,
    offset: _Offset = None,
    route: _Route = None,
    replayed: _All = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Translate, and write nothing.")] = False,
    quiet: Quiet = False,
) -> None:
    """Translate dead letters again, with the present configuration, and write the results to the target.

    Replayed dead letters are marked, so that they are not replayed again. Those that fail again stay, are
    listed, and the exit status is 2. Replayed records stand behind newer ones of the same key.
    """
    from relay.cli.dead_letters import Request, replay_dead_letters

    request = Request(
        config=ConfigSource.from_options(config, settings),
        codes=tuple(code or ()),
        tables=tuple(table or ()),
        since=since,
        until=until,
        topic=topic,
        partition=partition,
        offset=offset,
        route=route,
        replayed=replayed,
        limit=limit,
        quiet=quiet,
    )
    raise finish(lambda: replay_dead_letters(request, dry_run=dry_run), show_traceback=context.obj)
