"""The commands of `relay schema-history`, their arguments and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from relay.cli.arguments import STANDARD, ConfigFile, ConfigSource, Output, Quiet, Settings
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
    output: Output = STANDARD,
    quiet: Quiet = False,
) -> None:
    """Write the source records that the history keeps as a record file, for `import`, `relay inspect` and
    `relay translate`.
    """
    from relay.cli.schema_history import export

    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: export(given, output, quiet=quiet), show_traceback=context.obj)


@app.command("import", epilog="Example: relay schema-history import --sql dump.sql --config relay.toml")
def _import(  # noqa: PLR0913 - a command has as many parameters as it has options
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
    sql: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Definitions in place of records: SHOW CREATE TABLE, or a dump, .sql or .sql.gz, of "
            "mysqldump, mydumper, Dumpling. May be repeated.",
        ),
    ] = None,
    from_database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Definitions of a live server: mysql://USER@HOST:PORT/DB. The password is in "
            "--password-file or RELAY_DATABASE_PASSWORD.",
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --sql: database of tables that the dump names without one."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Since when the definitions hold: start (before everything, the default), a commit ts, a "
            "time with its zone, or now (--from-database).",
            show_default=False,
        ),
    ] = None,
    password_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --from-database: a file with the password.")
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --from-database: use TLS, and trust these certificates."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Put table definitions into the history: records of an export or captured from the source, a dump, or
    what a database says of its tables.

    Of records, the others of INPUT are passed over; each must name its topic, partition and offset. Of dumps
    and databases, the tables that the route chooses are taken. The history's topic is created if it is
    missing. Running instances learn what is new at once. The exit status is 2 if something could not be read.
    """
    given = ConfigSource.from_options(config, settings)
    if sql or from_database is not None:
        from relay.cli.definitions import DefinitionRequest, import_definitions

        request = DefinitionRequest(
            sql=tuple(sql or ()),
            url=from_database,
            database=database,
            as_of=as_of,
            password_file=password_file,
            ca_file=ca_file,
            has_records=input_name != STANDARD or topic is not None,
            quiet=quiet,
        )
        raise finish(lambda: import_definitions(given, request), show_traceback=context.obj)
    from relay.cli.schema_history import import_records, only_with_definitions

    def records() -> int:
        only_with_definitions(
            {"--database": database, "--as-of": as_of, "--password-file": password_file, "--ca-file": ca_file}
        )
        return import_records(given, input_name, topic, quiet=quiet)

    raise finish(records, show_traceback=context.obj)


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
