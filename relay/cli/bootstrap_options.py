"""`--bootstrap` and its like, as options of commands."""

from __future__ import annotations

from typing import Annotated

import typer

BootstrapFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--bootstrap",
        metavar="FILE|FOLDER",
        help="Definitions of tables that the input has no DDL of: a dump, or SHOW CREATE TABLE. May be "
        "repeated.",
    ),
]
BootstrapDatabase = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-database", metavar="NAME", help="Database of tables that the dump names without one."
    ),
]
BootstrapAsOf = Annotated[
    str,
    typer.Option(
        "--bootstrap-as-of",
        metavar="WHEN",
        help="Since when it holds: start (before everything), a commit ts, or a time with its zone.",
    ),
]
