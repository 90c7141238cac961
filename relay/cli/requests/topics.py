"""Requests of the commands that copy records between a topic and a file."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from relay.cli.command import CommandRequest
from relay.cli.files import STANDARD, LineFormat
from relay.cli.requests.options import Format, Inputs, Output, Quiet, ShortSourceTopic, TopicOption, Until


class CaptureRequest(CommandRequest, frozen=True, kw_only=True):
    """Write records of a Kafka topic to a record file, which the other commands read.

    A record is a line of JSON, exact to the byte: topic, partition, offset, timestamp (ms), headers, key,
    value. No group is joined and nothing is committed, so other consumers are not disturbed.
    """

    WORK: ClassVar = "relay.cli.capture:capture"
    EXAMPLE: ClassVar = "relay capture --brokers localhost:9092 --from-topic orders --since 2h -o in.jsonl"

    topic: ShortSourceTopic
    until: Until = None
    offsets: Annotated[
        str | None,
        typer.Option(
            metavar="RANGE", help="Only these offsets: 100..200 (without 200), 100.., ..200, or 100."
        ),
    ] = None
    partitions: Annotated[
        tuple[int, ...],
        typer.Option("--partition", min=0, metavar="N", help="Only this partition; may be repeated."),
    ] = ()
    everything: Annotated[bool, typer.Option("--all", help="The whole topic up to its current end.")] = False
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C.")
    ] = False
    output: Output = STANDARD
    quiet: Quiet = False


class TargetTopic(TopicOption, frozen=True, kw_only=True):
    """A topic to write."""

    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic to write to.")]

    @property
    def option(self) -> str:
        """The option that names the topic."""
        return "--topic"


class ProduceRequest(CommandRequest, frozen=True, kw_only=True):
    """Write a record file to a Kafka topic: each record in its partition, with key, headers, timestamp.

    All records are checked first. If the topic lacks a record's partition, or does not accept its size,
    nothing is written.
    """

    WORK: ClassVar = "relay.cli.capture:produce"
    EXAMPLE: ClassVar = "relay produce in.jsonl --brokers localhost:9092 --topic orders-copy"

    inputs: Inputs = ()
    topic: TargetTopic
    create: Annotated[
        bool,
        typer.Option(
            "--create", help="Create the topic if it does not exist, with the partitions of the records."
        ),
    ] = False
    input_format: Format = LineFormat.AUTO
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check that all records would fit.")] = False
    quiet: Quiet = False
