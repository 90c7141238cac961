"""Requests of the commands of `relay offsets`."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandOptions, CommandRequest
from relay.cli.requests.options import WATCH_SECONDS, ConfigSource, Quiet

Partitions = Annotated[
    tuple[str, ...],
    typer.Option(
        "--partition",
        metavar="[TOPIC/]N",
        help="Only this source partition; may be repeated. The topic is optional if the route has only one.",
        show_default="all",
    ),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per partition.")]


class ChangeOptions(CommandOptions, frozen=True, kw_only=True):
    """How a change of committed offsets is shown and made."""

    execute: Annotated[
        bool,
        typer.Option(
            "--execute/--dry-run",
            help="Store the new offsets; by default the command only shows the effect.",
        ),
    ] = False
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count the repeated or skipped records by reading them. Without it only the offsets are "
            "known, and there may be fewer records than offsets.",
        ),
    ] = False
    watch: Annotated[
        int,
        typer.Option(
            "--watch",
            min=0,
            metavar="SECONDS",
            help="With exactly-once and --execute: seconds to watch for a commit by a running shard, counted "
            "from its last transaction.",
        ),
    ] = WATCH_SECONDS
    as_json: JsonLines = False
    quiet: Quiet = False


class ShowOffsetsRequest(CommandRequest, frozen=True, kw_only=True):
    """Show the committed offset and the lag of each source partition, and where the offsets are stored.

    relay may be running; the command joins no group and writes nothing. `next` is where the next start
    begins: at the committed offset, or without one at `source.start`; "-" if relay would not start.
    """

    WORK: ClassVar = "relay.cli.offsets:show"
    EXAMPLE: ClassVar = "relay offsets show --config relay.toml"

    config: ConfigSource
    as_json: JsonLines = False
    quiet: Quiet = False


class SeekRequest(CommandRequest, frozen=True, kw_only=True):
    """Change the committed offsets of a stopped route: back to repeat records, forward to skip some.

    Give exactly one target. Without --execute, the command only shows which records would be repeated
    or skipped. With --execute, it fails if an instance of the route is running.

    Repeated records are written to the target again, even with exactly-once. They have the same relay.source
    header as before. A reader that applies them in order goes back to older rows until relay has caught up.
    """

    WORK: ClassVar = "relay.cli.offsets:seek"
    EXAMPLE: ClassVar = "relay offsets seek --to-time 2h --config relay.toml"

    config: ConfigSource
    offsets: Annotated[
        tuple[str, ...],
        typer.Option(
            "--to-offset",
            metavar="[TOPIC/]PARTITION/OFFSET",
            help="The next record to read of a partition, as in relay.source, logs and `relay explain`; may "
            "be repeated. Other partitions keep their offsets.",
        ),
    ] = ()
    time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="The first record with this Kafka timestamp or a later one, else the end: 2026-11-26T10:00 "
            "(UTC), or how long ago: 90s, 15m, 2h, 1d.",
        ),
    ] = None
    commit_ts: Annotated[
        int | None,
        typer.Option(
            "--to-commit-ts",
            min=1,
            metavar="TS",
            help="Start ten minutes before this TiDB commit ts, because clocks differ; at the oldest record "
            "if no record is that new.",
        ),
    ] = None
    earliest: Annotated[bool, typer.Option("--to-earliest", help="The oldest record.")] = False
    latest: Annotated[bool, typer.Option("--to-latest", help="The end.")] = False
    partitions: Partitions = ()
    change: ChangeOptions


class ResetOffsetsRequest(CommandRequest, frozen=True, kw_only=True):
    """Change the committed offsets of a stopped route to `source.start`, as if it had never run.

    Without --execute, the command only shows which records would be repeated or skipped. With --execute, it
    fails if an instance of the route is running. Dead letters, the schema history and the target keep their
    records. Repeated records are written to the target again, even with exactly-once.
    """

    WORK: ClassVar = "relay.cli.offsets:reset"
    EXAMPLE: ClassVar = "relay offsets reset --config relay.toml --execute"

    config: ConfigSource
    partitions: Partitions = ()
    change: ChangeOptions
