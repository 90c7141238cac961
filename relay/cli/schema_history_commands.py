"""The commands of `relay schema-history`, their arguments and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from relay.cli.arguments import STANDARD, ConfigFile, ConfigSource, Quiet, Settings
from relay.cli.exits import finish

app = typer.Typer(
    no_args_is_help=True,
    help="Show the table definitions that are kept over restarts, copy them, import them, or forget them.",
)


@app.command("show", epilog="Example: relay schema-history show --config relay.toml --table shop.orders")
def _show(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="DB.TABLE", help="The current definition of this table: columns, types, keys."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per table, for programs.")] = False,
    quiet: Quiet = False,
) -> None:
    """List the tables that the history knows: versions, columns, and the newest statement about each."""
    from relay.cli.schema_history import show

    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: show(given, table, as_json=as_json, quiet=quiet), show_traceback=context.obj)


@app.command(
    "export", epilog="Example: relay schema-history export --config relay.toml --output history.jsonl"
)
def _export(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Where the records are written; - for stdout.")
    ] = STANDARD,
    quiet: Quiet = False,
) -> None:
    """Write the source records that the history keeps as a record file, for `import`, `relay inspect` and
    `relay translate`.
    """
    from relay.cli.schema_history import export

    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: export(given, output, quiet=quiet), show_traceback=context.obj)


@app.command("import", epilog="Example: relay schema-history import ddl.jsonl --config relay.toml")
def _import(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    input_name: Annotated[
        str, typer.Argument(metavar="INPUT", help="A record file; - or nothing for stdin.")
    ] = STANDARD,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Topic name that the records get, if theirs is of another topic with the same name.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Put records that change table definitions into the history: an export, or records captured from the
    source.

    The other records of INPUT are passed over. Each record must name its topic, partition and offset. The
    history's topic is created if it is missing. Running instances learn what is new at once. The exit status
    is 2 if some records could not be read.
    """
    from relay.cli.schema_history import import_records

    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: import_records(given, input_name, topic, quiet=quiet), show_traceback=context.obj)


@app.command("reset", epilog="Example: relay schema-history reset --config relay.toml --yes")
def _reset(
    context: typer.Context,
    config: ConfigFile,
    *,
    settings: Settings = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this the command only says what would follow.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Empty the history. All instances must be stopped: one that runs keeps what it knows, and adds to the
    history.
    """
    from relay.cli.schema_history import reset

    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: reset(given, yes=yes, quiet=quiet), show_traceback=context.obj)
