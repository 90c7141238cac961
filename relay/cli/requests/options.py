"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from relay.cli.command import CommandOptions
from relay.cli.files import STANDARD, LineFormat
from relay.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from relay.codecs.codec import Side
    from relay.config import Config

#: How long to watch shards for a commit: longer than the minute after which an idle one commits.
WATCH_SECONDS: Final = 75


def sources(incomplete: str) -> list[str]:
    """Return the protocols that the shell may complete a name to, of those that can be read."""
    from relay.codecs import PROTOCOLS

    return [name for name, codec in PROTOCOLS.items() if codec.is_readable and name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Return those that can be written."""
    from relay.codecs import PROTOCOLS

    return [name for name, codec in PROTOCOLS.items() if codec.is_writable and name.startswith(incomplete)]


def options_of(protocol: str, side: Side) -> Callable[[typer.Context, str], list[str]]:
    """Return a completion function for option names: of the protocol in another parameter of the command, or
    of all protocols until that is given.
    """

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from relay.codecs import PROTOCOLS
        from relay.codecs.given_options import option_names

        chosen = PROTOCOLS.get(context.params.get(protocol) or "")
        codecs = [chosen] if chosen else list(PROTOCOLS.values())
        names = sorted({f"{name}=" for codec in codecs for name in option_names(codec, side)})
        return [name for name in names if name.startswith(incomplete)]

    return complete


# ---------------------------------------------------------------- files

Inputs = Annotated[
    tuple[str, ...],
    typer.Argument(
        metavar="INPUT...",
        help="Files or folders, also .gz and .zst; - or nothing for stdin.",
        show_default=False,
    ),
]
Format = Annotated[
    LineFormat,
    typer.Option(
        metavar="FORMAT",
        help="Format of a line of INPUT: a record (records), a message value alone (values), or output of "
        "`kcat -J` (kcat). auto: detected from the first line.",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Output file; - for stdout. An existing file is replaced at the first record; a stopped run "
        "keeps the records written so far.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No summary and no progress; errors are still shown.")
]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]

# ---------------------------------------------------------------- protocols

#: Instead of a protocol: detect it from the first records.
AUTO: Final = "auto"

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PROTOCOL",
        help="Protocol of the input; `relay formats` lists them. auto: that of the first records.",
        autocompletion=sources,
    ),
]
FromOptions = Annotated[
    tuple[str, ...],
    typer.Option(
        "--from-option",
        metavar="NAME=VALUE",
        help="An option of the input protocol; may be repeated.",
        autocompletion=options_of("source", "source"),
    ),
]
ToOptions = Annotated[
    tuple[str, ...],
    typer.Option(
        "--to-option",
        metavar="NAME=VALUE",
        help="An option of the output protocol; may be repeated.",
        autocompletion=options_of("target", "target"),
    ),
]
FromRegistry = Annotated[
    str | None,
    typer.Option(
        "--from-registry",
        metavar="URL|FILE",
        help="The schema registry of an Avro input, or a file with its schemas.",
    ),
]
Limits = Annotated[
    tuple[str, ...],
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="A limit of a record, as in \\[limits] of the configuration: rows=20000; may be repeated.",
    ),
]
ColumnTexts = Annotated[
    tuple[str, ...],
    typer.Option(
        "--column",
        metavar="RULE",
        help="Leave out, hide or rename columns: 'drop shop.customers email,phone', "
        "'mask shop.* iban last=4'; may be repeated.",
    ),
]
WhereTexts = Annotated[
    tuple[str, ...],
    typer.Option(
        "--where",
        metavar="RULE",
        help="Only rows for which a CEL expression is true: \"shop.orders: status == 'paid'\"; "
        "may be repeated.",
    ),
]
TableTexts = Annotated[
    tuple[str, ...],
    typer.Option(
        "--table",
        metavar="RULE",
        help="Rename tables, by regular expressions: 'shop.orders -> archive.orders', "
        "'shop\\.(.*) -> archive.{1}', or merge them: 'shop\\.orders_\\d+ -> shop.orders merge'; "
        "may be repeated.",
    ),
]
HashKeyFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The secret key of rules that hash values (--column 'hash …')."),
]
IncludeTables = Annotated[
    tuple[str, ...],
    typer.Option(
        "--include-table", metavar="GLOB", help="Only tables that match database.table; may be repeated."
    ),
]
ExcludeTables = Annotated[
    tuple[str, ...],
    typer.Option(
        "--exclude-table",
        metavar="GLOB",
        help="No tables that match; their DDL still applies. May be repeated.",
    ),
]


class DumpOptions(CommandOptions, frozen=True, kw_only=True):
    """`--schema-dump`: dumps with table definitions, and the moment from which they hold."""

    files: Annotated[
        tuple[str, ...],
        typer.Option(
            "--schema-dump",
            metavar="FILE|FOLDER",
            help="Definitions of tables whose DDL is not in the input: a dump, or SHOW CREATE TABLE. May be "
            "repeated.",
        ),
    ] = ()
    database: Annotated[
        str | None,
        typer.Option(
            "--dump-database",
            metavar="NAME",
            help="Database for tables that the dump names without one.",
        ),
    ] = None
    as_of: Annotated[
        str,
        typer.Option(
            "--dump-as-of",
            metavar="WHEN",
            help="Time from which it applies: start (before everything), a commit ts, or a time with its "
            "zone.",
        ),
    ] = "start"


# ---------------------------------------------------------------- configuration

Settings = Annotated[
    tuple[str, ...],
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="Set a configuration key; overrides file and environment. May be repeated.",
    ),
]


class ConfigSource(CommandOptions, frozen=True, kw_only=True):
    """The source of a command's configuration: a file, overridden by `--set`."""

    file: Annotated[
        Path,
        typer.Option(
            "--config", "-c", metavar="FILE", help="The configuration, a TOML file.", show_default=False
        ),
    ]
    settings: Settings = ()

    def load(self, **keys: str | int | None) -> Config:
        """Read it. Raises ConfigError with every problem.

        keys: Values that options of their own set, over all others, by keys with two underscores between
            table and key; None for those that are not given.
        """
        from relay.config import load_config

        return load_config(self.file, self.with_keys(**keys))

    def with_keys(self, **keys: str | int | None) -> tuple[str, ...]:
        """Return the settings with more of them, written as for `load`."""
        given = [f"{name.replace('__', '.')}={value}" for name, value in keys.items() if value is not None]
        return (*self.settings, *given)


# ---------------------------------------------------------------- topics

Brokers = Annotated[
    str | None,
    typer.Option("--brokers", "-b", metavar="HOST:PORT", help="The brokers, if they need no login or TLS."),
]
TopicConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="A configuration with the brokers, TLS and login of the topic."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only records from this time on: 2026-11-26T10:00 (UTC), or how long ago: 90s, 15m, 2h, 1d.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only records before this time, written like --since."),
]
_TOPIC_HELP = "The topic to read; no group is joined. Optional if --config names only one topic."


class TopicOption(CommandOptions, frozen=True, kw_only=True):
    """The location of a topic. `option`: the command's option for its name."""

    topic: str | None = None
    brokers: Brokers = None
    config: TopicConfig = None
    settings: Settings = ()

    @property
    def option(self) -> str:
        """The option that names the topic."""
        return "--from-topic"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The topic as arguments of a command that reads it."""
        given = {"--from-topic": self.topic, "--brokers": self.brokers, "--config": self.config}
        named = [
            word for option, value in given.items() if value is not None for word in (option, str(value))
        ]
        return (*named, *(word for setting in self.settings for word in ("--set", setting)))


class SourceTopic(TopicOption, frozen=True, kw_only=True):
    """A topic to read instead of files, and the selection of its records."""

    topic: Annotated[str | None, typer.Option("--from-topic", metavar="TOPIC", help=_TOPIC_HELP)] = None
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            min=1,
            max=1_000_000,
            metavar="N",
            help="The newest N records of the topic.",
            show_default="100, unless other options select records",
        ),
    ] = None
    since: Since = None

    def in_place_of(self, inputs: Sequence[str]) -> SourceTopic | None:
        """Return the topic that is read, None if files are. Raises ConfigError for both."""
        topic = {"--from-topic": self.topic, "--brokers": self.brokers, "--config": self.config}
        named = [option for option, value in topic.items() if value is not None]
        if named and any(name != STANDARD for name in inputs):
            raise ConfigError(
                [Problem("INPUT", f"cannot be combined with {named[0]}", "leave one of them out")]
            )
        if named:
            return self
        others = {"--set": self.settings, "--last": self.last, "--since": self.since}
        problems = [
            Problem(option, "needs a topic, and none is named", "add --from-topic TOPIC")
            for option, value in others.items()
            if value
        ]
        if problems:
            raise ConfigError(problems)
        return None


class ShortSourceTopic(SourceTopic, frozen=True, kw_only=True):
    """The same, for commands in which `--topic` is unambiguous."""

    topic: Annotated[
        str | None, typer.Option("--from-topic", "--topic", metavar="TOPIC", help=_TOPIC_HELP)
    ] = None
