"""Requests of the commands that process records from files or a topic."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandRequest
from relay.cli.files import STANDARD, LineFormat
from relay.cli.requests.options import (
    AUTO,
    ColumnTexts,
    DumpOptions,
    ExcludeTables,
    Format,
    From,
    FromOptions,
    FromRegistry,
    HashKeyFile,
    IncludeTables,
    Inputs,
    Json,
    Limits,
    Output,
    Quiet,
    ShortSourceTopic,
    SourceTopic,
    TableTexts,
    ToOptions,
    WhereTexts,
    options_of,
    sources,
    targets,
)
from relay.core.error_policies import Policy
from relay.model.limits import DEDUPLICATE_ROWS
from relay.routing.partitioning import Partitioning


class TranslateRequest(CommandRequest, frozen=True, kw_only=True):
    """Translate a file of change events, or a topic, from one protocol into another.

    INPUT is JSON Lines with one Kafka record per line: topic, partition, offset, timestamp (ms), headers,
    key, value. Key and value are null, text, or {"base64": "…"} for bytes that are not UTF-8. Lines of `kcat
    -J` are accepted, too; any other input consists of message values: one per line, or JSON over several
    lines. The output consists of records, with offsets counted from 0.

    A summary on stderr shows the number of translated events and the losses.
    """

    WORK: ClassVar = "relay.cli.translate:translate"
    EXAMPLE: ClassVar = "relay translate --from ticdc-canal-json --to canal-json in.jsonl --output out.jsonl"

    source: From = AUTO
    target: Annotated[
        str,
        typer.Option("--to", metavar="PROTOCOL", help="The output's protocol.", autocompletion=targets),
    ]
    inputs: Inputs = ()
    source_options: FromOptions = ()
    target_options: ToOptions = ()
    source_registry: FromRegistry = None
    target_registry: Annotated[
        str | None,
        typer.Option(
            "--to-registry",
            metavar="URL|FILE",
            help="The schema registry of an Avro output, or a file to which its schemas are added.",
        ),
    ] = None
    limits: Limits = ()
    output: Output = STANDARD
    topic: Annotated[
        str,
        typer.Option(
            metavar="TEMPLATE",
            help="The output's topic; {topic} is the record's own, {database} and {table} those of its "
            "events.",
        ),
    ] = "{topic}"
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2_147_483_647,
            metavar="N",
            help="Spread rows over N partitions by table and key, DDL as the target's readers expect it.",
            show_default="the record's own partition",
        ),
    ] = None
    partition_by: Annotated[
        Partitioning | None,
        typer.Option(
            metavar="HOW",
            help="How --partitions chooses a partition. index-value: table and key; key: the record's key, "
            "as Kafka's "
            "clients do.",
            show_default="index-value",
        ),
    ] = None
    include_tables: IncludeTables = ()
    exclude_tables: ExcludeTables = ()
    include_events: Annotated[
        tuple[str, ...],
        typer.Option(
            "--include-event",
            metavar="KIND",
            help="Only events of this kind: insert, schema-change …; repeatable.",
        ),
    ] = ()
    exclude_events: Annotated[
        tuple[str, ...],
        typer.Option("--exclude-event", metavar="KIND", help="No events of this kind; may be repeated."),
    ] = ()
    where: WhereTexts = ()
    columns: ColumnTexts = ()
    hash_key_file: HashKeyFile = None
    tables: TableTexts = ()
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", help="Drop rows that TiCDC sends again, below the watermark.")
    ] = False
    deduplicate_rows: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Written rows that --deduplicate remembers."),
    ] = DEDUPLICATE_ROWS
    input_format: Format = LineFormat.AUTO
    dumps: DumpOptions
    on_error: Annotated[
        Policy,
        typer.Option(
            metavar="POLICY",
            help="Policy for a record that cannot be translated: stop, skip or dead-letter.",
        ),
    ] = Policy.STOP
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File for such records, with headers relay.error.* (--on-error dead-letter).",
        ),
    ] = None
    source_topic: SourceTopic
    quiet: Quiet = False


class InspectRequest(CommandRequest, frozen=True, kw_only=True):
    """Show the change events in a file or a topic, value by value, as relay understands them.

    A column is shown as a value, as NULL, or as ABSENT if the message does not have it; an asterisk marks a
    changed column. Text is in quotes, binary is X'00FF'; times of TIMESTAMP columns are in UTC.

    With --json: kind, position, source, table, columns (name, type), before, after. Numbers and text are
    those of JSON, a decimal is {"decimal": "1.10"}, an infinite number is {"double": "-Infinity"}, bytes are
    {"base64": "…"}, absent columns are left out.
    """

    WORK: ClassVar = "relay.cli.inspect:inspect"
    EXAMPLE: ClassVar = "relay inspect --from canal-json in.jsonl"

    source: From = AUTO
    inputs: Inputs = ()
    source_options: FromOptions = ()
    source_registry: FromRegistry = None
    limits: Limits = ()
    input_format: Format = LineFormat.AUTO
    dumps: DumpOptions
    source_topic: ShortSourceTopic
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False
    quiet: Quiet = False


class DetectRequest(CommandRequest, frozen=True, kw_only=True):
    """Detect the protocol of messages, its dialect and settings, and show the evidence.

    The command examines the first 200 records of each file, or the newest 100 of a topic. It also recognizes
    formats that relay does not read. The exit status is 2 if relay cannot read one of the inputs.
    """

    WORK: ClassVar = "relay.cli.detect:show_detected"
    EXAMPLE: ClassVar = "relay detect --brokers localhost:9092 --from-topic orders"

    inputs: Inputs = ()
    source_topic: ShortSourceTopic
    registry: Annotated[
        str | None,
        typer.Option(
            "--from-registry",
            metavar="URL|FILE",
            help="The schema registry of Avro messages, for more evidence.",
        ),
    ] = None
    input_format: Format = LineFormat.AUTO
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object; for several files, one per line.")
    ] = False
    quiet: Quiet = False


class DiffRequest(CommandRequest, frozen=True, kw_only=True):
    """Compare two files of change events, of possibly different protocols, such as relay's output with
    another tool's, or the outputs of two runs.

    The comparison covers operation, key, old and new row, and statements, but not times and positions.
    Changes are matched by table and key; the order of changes with the same key matters. Losses of the
    protocols are counted separately. The exit status is 0 if nothing differs, 4 if something does.
    """

    WORK: ClassVar = "relay.cli.diff:diff"
    EXAMPLE: ClassVar = "relay diff --a ticdc-canal-json --b canal-json in.jsonl out.jsonl"

    left: Annotated[str, typer.Argument(metavar="A", help="A file or a folder; - for stdin.")]
    right: Annotated[str, typer.Argument(metavar="B", help="A file or a folder; - for stdin.")]
    a: Annotated[
        str,
        typer.Option(
            "--a",
            metavar="PROTOCOL",
            help="Protocol of A. auto: that of its first records.",
            autocompletion=sources,
        ),
    ]
    b: Annotated[
        str | None,
        typer.Option(
            "--b",
            metavar="PROTOCOL",
            help="Protocol of B.",
            autocompletion=sources,
            show_default="that of A, with its options",
        ),
    ] = None
    a_options: Annotated[
        tuple[str, ...],
        typer.Option(
            "--a-option",
            metavar="NAME=VALUE",
            help="An option of A's protocol; repeatable.",
            autocompletion=options_of("a", "source"),
        ),
    ] = ()
    b_options: Annotated[
        tuple[str, ...],
        typer.Option(
            "--b-option",
            metavar="NAME=VALUE",
            help="An option of B's protocol; repeatable.",
            autocompletion=options_of("b", "source"),
        ),
    ] = ()
    a_registry: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="The schema registry of an Avro A, or its schemas.")
    ] = None
    b_registry: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="The same for B.", show_default="that of A")
    ] = None
    dumps: DumpOptions
    include_tables: IncludeTables = ()
    exclude_tables: ExcludeTables = ()
    columns: ColumnTexts = ()
    hash_key_file: HashKeyFile = None
    keys: Annotated[
        tuple[str, ...],
        typer.Option(
            "--key",
            metavar="DB.TABLE=COL,…",
            help="Key columns of a table, if neither side has the right ones.",
        ),
    ] = ()
    limits: Limits = ()
    input_format: Format = LineFormat.AUTO
    window: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000_000,
            metavar="N",
            help="Maximum changes that wait for the other side; later ones count as missing.",
        ),
    ] = 50_000
    examples: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="Maximum differences to show.")
    ] = 10
    values: Annotated[bool, typer.Option("--values", help="Show keys and values of these differences.")] = (
        False
    )
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Also count differences that the protocols themselves cause."),
    ] = False
    as_json: Json = False
    quiet: Quiet = False


class FormatsRequest(CommandRequest, frozen=True, kw_only=True):
    """List the protocols with their options, or, with --from and --to, the losses of a route between two of
    them.
    """

    WORK: ClassVar = "relay.cli.formats:formats"
    EXAMPLE: ClassVar = "relay formats --from ticdc-canal-json --to canal-json"

    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PROTOCOL", help="Only this protocol, as a source.", autocompletion=sources
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="PROTOCOL", help="Only this protocol, as a target.", autocompletion=targets
        ),
    ] = None
    source_options: FromOptions = ()
    target_options: ToOptions = ()
    profile: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="Show the options that this profile of --to sets, and why."),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
