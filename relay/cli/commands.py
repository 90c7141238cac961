"""The commands of `relay`, their arguments and their help.

Each command imports the module that does its work when it is called, so that `relay translate` loads no Kafka
client.
"""

from __future__ import annotations

import inspect
from typing import Annotated

import msgspec
import typer

from relay.cli.arguments import STANDARD, ConfigFile, ConfigSource, InputFormat, Output, Quiet, Settings
from relay.cli.bootstrap_options import BootstrapAsOf, BootstrapDatabase, BootstrapFiles
from relay.cli.dead_letter_commands import app as dead_letters
from relay.cli.exits import finish
from relay.cli.schema_history_commands import app as schema_history
from relay.cli.topic_commands import COMMANDS, Format, Inputs
from relay.cli.topic_options import TopicOptions, with_topic_options
from relay.log_text import LogFormat, LogLevel
from relay.partitioning import Partitioning
from relay.policies import Policy

# ruff: noqa: PLR0913  # a command has as many parameters as it has options

app = typer.Typer(
    name="relay",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done, 1 a bug in relay, 2 your input or options, "
    "3 the environment (a broker, a disk), 4 differences (relay diff), 130 interrupted.",
)


def _sources(incomplete: str) -> list[str]:
    """Return the protocols that the shell may complete a name to, of those that can be read."""
    from relay.codecs import PROTOCOLS

    return [name for name, codec in PROTOCOLS.items() if codec.is_readable and name.startswith(incomplete)]


def _targets(incomplete: str) -> list[str]:
    """Return those that can be written."""
    from relay.codecs import PROTOCOLS

    return [name for name, codec in PROTOCOLS.items() if codec.is_writable and name.startswith(incomplete)]


_From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PROTOCOL",
        help="Protocol of the input; `relay formats` lists them. auto: the one that its first records have.",
        autocompletion=_sources,
    ),
]
_To = Annotated[
    str, typer.Option("--to", metavar="PROTOCOL", help="The output's protocol.", autocompletion=_targets)
]
_FromOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--from-option", metavar="NAME=VALUE", help="An option of the input protocol; may be repeated."
    ),
]
_ToOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--to-option", metavar="NAME=VALUE", help="An option of the output protocol; may be repeated."
    ),
]
_FromRegistry = Annotated[
    str | None,
    typer.Option(
        "--from-registry",
        metavar="URL|FILE",
        help="The schema registry of an Avro input, or a file with its schemas.",
    ),
]
_ToRegistry = Annotated[
    str | None,
    typer.Option(
        "--to-registry",
        metavar="URL|FILE",
        help="The schema registry of an Avro output, or a file to which its schemas are added.",
    ),
]
_Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="A limit of a record, as in \\[limits] of the configuration: rows=20000; may be repeated.",
    ),
]
_Topic = Annotated[
    str,
    typer.Option(
        metavar="TEMPLATE",
        help="The output's topic; {topic} is the record's own, {database} and {table} those of its events.",
    ),
]
_Partitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=2_147_483_647,
        metavar="N",
        help="Spread rows over N partitions by table and key, DDL as the target's readers expect it.",
        show_default="the record's own partition",
    ),
]
_PartitionBy = Annotated[
    Partitioning | None,
    typer.Option(
        metavar="HOW",
        help="What --partitions goes by. index-value: table and key; key: the record's key, as Kafka's "
        "clients do.",
        show_default="index-value",
    ),
]
_IncludeTable = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Only tables that match database.table; may be repeated."),
]
_ExcludeTable = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="No tables that match; their DDL is learnt. May be repeated."),
]
_IncludeEvent = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND", help="Only events of this kind: insert, schema-change …; repeatable."),
]
_ExcludeEvent = Annotated[
    list[str] | None, typer.Option(metavar="KIND", help="No events of this kind; may be repeated.")
]
_OnError = Annotated[
    Policy,
    typer.Option(
        metavar="POLICY",
        help="What to do with a record that cannot be translated: stop, skip or dead-letter.",
    ),
]
_DeadLetters = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where such records are written, with headers relay.error.* (--on-error dead-letter).",
    ),
]


def _version(wanted: bool) -> None:  # typer calls it so
    if wanted:
        from importlib.metadata import version

        from relay import kernel

        typer.echo(f"relay {version('relay-cdc')}")
        typer.echo(kernel.installed().said)
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
    """Translate change events from one CDC format into another: in files, or as a relay in Kafka.

    [bold]relay demo[/bold] shows it at work; [bold]relay COMMAND --help[/bold] explains a command with an
    example.
    """
    del version
    context.obj = show_traceback


@app.command(
    "translate",
    epilog="Example: relay translate --from ticdc-canal-json --to canal-json in.jsonl --output out.jsonl",
)
@with_topic_options(short=False)
def _translate(
    context: typer.Context,
    *,
    source: _From,
    target: _To,
    inputs: Inputs = None,
    from_option: _FromOptions = None,
    to_option: _ToOptions = None,
    from_registry: _FromRegistry = None,
    to_registry: _ToRegistry = None,
    limit: _Limits = None,
    output: Output = STANDARD,
    topic: _Topic = "{topic}",
    partitions: _Partitions = None,
    partition_by: _PartitionBy = None,
    include_table: _IncludeTable = None,
    exclude_table: _ExcludeTable = None,
    include_event: _IncludeEvent = None,
    exclude_event: _ExcludeEvent = None,
    input_format: Format = InputFormat.AUTO,
    bootstrap: BootstrapFiles = None,
    bootstrap_database: BootstrapDatabase = None,
    bootstrap_as_of: BootstrapAsOf = "start",
    on_error: _OnError = Policy.STOP,
    dead_letters: _DeadLetters = None,
    of_topic: TopicOptions,
    quiet: Quiet = False,
) -> None:
    """Translate a file of change events, or a topic, from one protocol into another.

    INPUT is JSON Lines, one Kafka record a line: topic, partition, offset, timestamp (ms), headers, key,
    value. Key and value are null, text, or {"base64": "…"} for bytes that are not UTF-8. Lines of `kcat -J`
    are read, too; anything else is taken as message values: one a line, or JSON over several lines. The
    output is of records, with offsets counted from 0.

    A summary on stderr shows what was translated and what the target format could not carry.
    """
    from relay.cli.bootstrap import Bootstrap
    from relay.cli.translate import TranslateRequest, translate

    request = TranslateRequest(
        source=source,
        target=target,
        source_options=tuple(from_option or ()),
        target_options=tuple(to_option or ()),
        limits=tuple(limit or ()),
        input=tuple(inputs or ()),
        output=output,
        topic=topic,
        partitions=partitions,
        partition_by=partition_by,
        include_tables=tuple(include_table or ()),
        exclude_tables=tuple(exclude_table or ()),
        include_events=tuple(include_event or ()),
        exclude_events=tuple(exclude_event or ()),
        input_format=input_format,
        on_error=on_error,
        dead_letters=dead_letters,
        quiet=quiet,
        source_registry=from_registry,
        target_registry=to_registry,
        bootstrap=Bootstrap(tuple(bootstrap or ()), bootstrap_database, bootstrap_as_of),
    )

    def work() -> int:
        topic_request = of_topic.in_place_of(request.input)
        return translate(msgspec.structs.replace(request, topic_request=topic_request))

    raise finish(work, show_traceback=context.obj)


@app.command("inspect", epilog="Example: relay inspect --from canal-json in.jsonl")
@with_topic_options(short=True)
def _inspect(
    context: typer.Context,
    *,
    source: _From,
    inputs: Inputs = None,
    from_option: _FromOptions = None,
    from_registry: _FromRegistry = None,
    limit: _Limits = None,
    input_format: Format = InputFormat.AUTO,
    bootstrap: BootstrapFiles = None,
    bootstrap_database: BootstrapDatabase = None,
    bootstrap_as_of: BootstrapAsOf = "start",
    of_topic: TopicOptions,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per event, for programs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show the change events in a file or a topic, value by value, as relay understands them.

    A column is shown as a value, as NULL, or as ABSENT if the message does not have it; an asterisk marks a
    changed column. Text is in quotes, binary is X'00FF'; times of TIMESTAMP columns are in UTC.

    With --json: kind, position, source, table, columns (name, type), before, after. Numbers and text are
    those of JSON, a decimal is {"decimal": "1.10"}, bytes are {"base64": "…"}, absent columns are left out.
    """
    from relay.cli.bootstrap import Bootstrap
    from relay.cli.inspect import inspect

    definitions = Bootstrap(tuple(bootstrap or ()), bootstrap_database, bootstrap_as_of)
    options, limits = tuple(from_option or ()), tuple(limit or ())

    def work() -> int:
        return inspect(
            source,
            options,
            limits,
            tuple(inputs or ()),
            input_format,
            from_registry,
            as_json=as_json,
            topic=of_topic.in_place_of(inputs or ()),
            bootstrap=definitions,
            quiet=quiet,
        )

    raise finish(work, show_traceback=context.obj)


for _name, _command, _example in COMMANDS:
    app.command(_name, epilog=_example)(_command)


@app.command("diff", epilog="Example: relay diff --a ticdc-canal-json --b canal-json in.jsonl out.jsonl")
def _diff(
    context: typer.Context,
    *,
    left: Annotated[str, typer.Argument(metavar="A", help="A file or a folder; - for stdin.")],
    right: Annotated[str, typer.Argument(metavar="B", help="A file or a folder; - for stdin.")],
    a: Annotated[
        str,
        typer.Option(
            "--a",
            metavar="PROTOCOL",
            help="Protocol of A. auto: the one that its first records have.",
            autocompletion=_sources,
        ),
    ],
    b: Annotated[
        str | None,
        typer.Option(
            "--b",
            metavar="PROTOCOL",
            help="Protocol of B.",
            autocompletion=_sources,
            show_default="that of A, with its options",
        ),
    ] = None,
    a_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of A's protocol; repeatable.")
    ] = None,
    b_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of B's protocol; repeatable.")
    ] = None,
    a_registry: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="The schema registry of an Avro A, or its schemas.")
    ] = None,
    b_registry: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="The same of B.", show_default="that of A")
    ] = None,
    bootstrap: BootstrapFiles = None,
    bootstrap_database: BootstrapDatabase = None,
    bootstrap_as_of: BootstrapAsOf = "start",
    include_table: _IncludeTable = None,
    exclude_table: _ExcludeTable = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="DB.TABLE=COL,…", help="The key of a table, if neither side says it right."),
    ] = None,
    limit: _Limits = None,
    input_format: Format = InputFormat.AUTO,
    window: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000_000,
            metavar="N",
            help="Changes that may wait for the other side; what comes later counts as missing.",
        ),
    ] = 50_000,
    examples: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="How many differences are shown.")
    ] = 10,
    values: Annotated[bool, typer.Option("--values", help="Show keys and values of these.")] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Count differences that the protocols themselves cause as differences, too."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare two files of change events, of possibly different protocols: what relay has written with what
    another tool has written, or two runs.

    Changes are compared as relay understands them: operation, key, old and new row, statements; not times and
    positions. They meet by table and key, and the order of a key counts. What the protocols cannot carry is
    counted apart. The exit status is 0 if nothing differs, 4 if something does.
    """
    from relay.cli.bootstrap import Bootstrap
    from relay.cli.diff import DiffRequest, SideRequest, diff

    sides = (
        SideRequest(left, a, tuple(a_option or ()), a_registry),
        SideRequest(
            right,
            b or a,
            tuple((b_option or ()) if b or b_option else (a_option or ())),
            b_registry or a_registry,
        ),
    )
    request = DiffRequest(
        sides=sides,
        bootstrap=Bootstrap(tuple(bootstrap or ()), bootstrap_database, bootstrap_as_of),
        include_tables=tuple(include_table or ()),
        exclude_tables=tuple(exclude_table or ()),
        keys=tuple(key or ()),
        limits=tuple(limit or ()),
        input_format=input_format,
        window=window,
        examples=examples,
        values=values,
        strict=strict,
        as_json=as_json,
        quiet=quiet,
    )
    raise finish(lambda: diff(request), show_traceback=context.obj)


@app.command("formats", epilog="Example: relay formats --from ticdc-canal-json --to canal-json")
def _formats(
    context: typer.Context,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PROTOCOL", help="Only this protocol, as a source.", autocompletion=_sources
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="PROTOCOL", help="Only this protocol, as a target.", autocompletion=_targets
        ),
    ] = None,
    from_option: _FromOptions = None,
    to_option: _ToOptions = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="Show what this profile of --to sets, and why."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the protocols with their options, or, with --from and --to, what a route between two of them
    cannot carry.
    """
    from relay.cli.formats import formats

    options = tuple(from_option or ()), tuple(to_option or ())
    raise finish(
        lambda: formats(source, target, *options, profile=profile, as_json=as_json),
        show_traceback=context.obj,
    )


_Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        metavar="N",
        help="Share the work among N processes, as --set delivery.processes=N does.",
        show_default="1, or what the configuration says",
    ),
]


_LogLevel = Annotated[
    LogLevel | None, typer.Option(metavar="LEVEL", help="Log from this level on: info, warning, error.")
]
_LogFormat = Annotated[
    LogFormat | None,
    typer.Option(metavar="FORM", help="How to log: text, json, or auto: text on a terminal, JSON elsewhere."),
]


def _flags(settings: list[str] | None, **more: str | int | None) -> list[str]:
    """Return everything that flags set; `more` by keys, with two underscores between table and key."""
    others = [f"{name.replace('__', '.')}={value}" for name, value in more.items() if value is not None]
    return [*(settings or ()), *others]


@app.command("run", epilog="Example: relay run --config relay.toml --processes 2")
def _run(
    context: typer.Context,
    config: ConfigFile,
    *,
    processes: _Processes = None,
    log_level: _LogLevel = None,
    log_format: _LogFormat = None,
    settings: Settings = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Read and translate, and count; write, commit and create nothing, and join no group.",
        ),
    ] = False,
) -> None:
    """Run the relay: read a Kafka topic, translate, write to another, commit, until stopped by SIGTERM or
    Ctrl-C.

    With --dry-run it begins where the group has committed, and disturbs no relay at work.
    """
    from relay.cli.run import run
    from relay.config import load_config

    flags = _flags(settings, delivery__processes=processes, log__level=log_level, log__format=log_format)
    raise finish(lambda: run(load_config(config, flags), dry_run=dry_run), show_traceback=context.obj)


@app.command("check", epilog="Example: relay check --config relay.toml --connect")
def _check(
    context: typer.Context,
    *,
    config: ConfigFile,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect", help="Also try brokers, TLS, login, topics and permissions; nothing is written."
        ),
    ] = False,
    processes: _Processes = None,
    settings: Settings = None,
) -> None:
    """Check a configuration and the files that it names, and print everything that is wrong, or what it does.
    No broker is asked without --connect.

    With --connect: one line per check, ok, note, FAILED or untested, with the reason and what to do. The exit
    status is 3 if one FAILED.
    """
    from relay.cli.check import check

    flags = _flags(settings, delivery__processes=processes)
    raise finish(lambda: check(config, connect=connect, flags=flags), show_traceback=context.obj)


app.add_typer(dead_letters, name="dead-letters")
app.add_typer(schema_history, name="schema-history")


@app.command("explain", epilog="Example: relay explain orders/3/4711 --config relay.toml")
def _explain(
    context: typer.Context,
    position: Annotated[
        str | None,
        typer.Argument(
            metavar="POSITION",
            help="The source record, TOPIC/PARTITION/OFFSET; TOPIC may be left out if there is one alone.",
            show_default=False,
        ),
    ] = None,
    *,
    config: ConfigFile,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Source topic, in place of POSITION.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Source partition, in place of POSITION.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Source offset, in place of POSITION.")
    ] = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show the trace of one source record: its key and value, its events, what is written for it, what is
    lost, or the error and what follows from it.

    Table definitions come from the schema history, as of the record's position. Nothing is written or
    committed, and no group is joined, so a running relay is not disturbed.
    """
    from relay.cli.explain import Asked, explain

    asked = Asked(position, topic, partition, offset)
    given = ConfigSource.from_options(config, settings)
    raise finish(lambda: explain(given, asked, as_json=as_json), show_traceback=context.obj)


@app.command("demo")
def _demo(
    context: typer.Context,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the demo's broker running until Ctrl-C.")
    ] = False,
) -> None:
    """Show the relay at work on a real Apache Kafka, which is downloaded and started for it. Needs `pip
    install '.\\[demo]'` in relay's folder.
    """
    from relay.demo.play import play

    raise finish(lambda: play(keep=keep), show_traceback=context.obj)


@app.command("playground", epilog="Example: relay playground --open")
def _playground(
    context: typer.Context,
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where it is served; by default to this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="N", help="Its port; 0 for any that is free.")
    ] = 8090,
    opens: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Serve a local page on which a message is pasted or picked. It shows side by side its events, the
    records of another protocol, and what is lost. Ctrl-C ends it.

    All options and profiles are there, with their meaning. Only what is pasted is read, and nothing is kept.
    """
    from relay.cli.playground.command import play

    raise finish(lambda: play(host, port, opens=opens), show_traceback=context.obj)


def _with_whole_paragraphs(commands: typer.Typer) -> None:
    """Have the terminal break the lines of help, and not the width of this file."""
    for command in commands.registered_commands:
        command.help = _paragraphs(command.help or inspect.getdoc(command.callback) or "")
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _with_whole_paragraphs(group.typer_instance)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


_with_whole_paragraphs(app)
