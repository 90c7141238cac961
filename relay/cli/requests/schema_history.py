"""Requests of the commands of `relay schema-history`."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandRequest
from relay.cli.files import STANDARD
from relay.cli.requests.options import ConfigSource, Output, Quiet


class ShowHistoryRequest(CommandRequest, frozen=True, kw_only=True):
    """List the tables in the history: versions, columns, and the newest statement about each."""

    WORK: ClassVar = "relay.cli.schema_history:show"
    EXAMPLE: ClassVar = "relay schema-history show --config relay.toml --table shop.orders"

    config: ConfigSource
    table: Annotated[
        str | None,
        typer.Option(metavar="DB.TABLE", help="The current definition of this table: columns, types, keys."),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False
    quiet: Quiet = False


class ExportRequest(CommandRequest, frozen=True, kw_only=True):
    """Write the source records in the history to a record file, for `import`, `relay inspect` and `relay
    translate`.
    """

    WORK: ClassVar = "relay.cli.schema_history:export"
    EXAMPLE: ClassVar = "relay schema-history export --config relay.toml --output history.jsonl"

    config: ConfigSource
    output: Output = STANDARD
    quiet: Quiet = False


class ImportRequest(CommandRequest, frozen=True, kw_only=True):
    """Add table definitions to the history: from records of an export or a capture, from a dump, or from a
    database.

    Records without definitions are skipped; each record must have its topic, partition and offset. From dumps
    and databases, only tables that the route selects are imported. The history's topic is created if it is
    missing. Running instances use new definitions immediately. The exit status is 2 if something could not be
    read.
    """

    WORK: ClassVar = "relay.cli.definitions:import_history"
    EXAMPLE: ClassVar = "relay schema-history import --sql dump.sql --config relay.toml"

    config: ConfigSource
    input: Annotated[str, typer.Argument(metavar="INPUT", help="A record file; - or nothing for stdin.")] = (
        STANDARD
    )
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Topic name for the records, if theirs belongs to another topic of the same name.",
        ),
    ] = None
    sql: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="FILE|FOLDER",
            help="Definitions instead of records: SHOW CREATE TABLE, or a dump, .sql or .sql.gz, of "
            "mysqldump, mydumper, Dumpling. May be repeated.",
        ),
    ] = ()
    url: Annotated[
        str | None,
        typer.Option(
            "--from-database",
            metavar="URL",
            help="Definitions of a live server: mysql://USER@HOST:PORT/DB. The password is in "
            "--password-file or RELAY_DATABASE_PASSWORD.",
        ),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --sql: database for tables that the dump names without one."),
    ] = None
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Time from which the definitions apply: start (before everything, the default), a commit "
            "ts, a "
            "time with its zone, or now (--from-database).",
            show_default=False,
        ),
    ] = None
    password_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --from-database: a file with the password.")
    ] = None
    ca_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --from-database: use TLS, and trust these certificates."),
    ] = None
    quiet: Quiet = False


class RepairRequest(CommandRequest, frozen=True, kw_only=True):
    """Remove records that are not valid entries from the history, such as records of another program.

    Instances may keep running.
    """

    WORK: ClassVar = "relay.cli.schema_history:repair"
    EXAMPLE: ClassVar = "relay schema-history repair --config relay.toml --yes"

    config: ConfigSource
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them; without this the command only lists them.")
    ] = False
    quiet: Quiet = False


class ResetRequest(CommandRequest, frozen=True, kw_only=True):
    """Empty the history. All instances must be stopped: a running one keeps its definitions, and adds to the
    history.
    """

    WORK: ClassVar = "relay.cli.schema_history:reset"
    EXAMPLE: ClassVar = "relay schema-history reset --config relay.toml --yes"

    config: ConfigSource
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this the command only shows the consequences.")
    ] = False
    quiet: Quiet = False
