"""The commands about a topic or a file of one's own, their arguments and their help: `relay detect`, `relay
capture`, `relay produce`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from relay.cli.arguments import STANDARD, InputFormat, Output, Quiet, Settings
from relay.cli.exits import finish
from relay.cli.topic_options import Brokers, TopicConfig, TopicOptions, Until, with_topic_options
from relay.cli.topic_request import TopicRequest

# ruff: noqa: PLR0913  # a command has as many parameters as it has options

Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT",
        help="Files or folders, also .gz and .zst; - or nothing for stdin.",
        show_default=False,
    ),
]
Format = Annotated[
    InputFormat,
    typer.Option(
        metavar="FORMAT",
        help="What a line of INPUT is: a record (records), only a message value (values), or what `kcat -J` "
        "prints (kcat). auto: the first line decides.",
    ),
]
_Registry = Annotated[
    str | None,
    typer.Option(
        "--from-registry",
        metavar="URL|FILE",
        help="The schema registry of Avro messages, which tells more.",
    ),
]
_Offsets = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help="Only these offsets: 100..200 (without 200), 100.., ..200, or 100."),
]
_Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", min=0, metavar="N", help="Only this partition; may be repeated."),
]


@with_topic_options(short=True)
def detect(
    context: typer.Context,
    *,
    inputs: Inputs = None,
    of_topic: TopicOptions,
    registry: _Registry = None,
    input_format: Format = InputFormat.AUTO,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object, of several files one a line.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Name the protocol of messages, its dialect and settings, and by what they are known.

    Of each file the first 200 records are looked at, of a topic the newest 100. Formats that relay does not
    read are named, too. The exit status is 2 if any input is none that relay reads.
    """

    def work() -> int:
        from relay.cli.detect import Again, show_detected, show_detected_files

        request = of_topic.in_place_of(inputs or ())
        if request is None:
            return show_detected_files(inputs or (), input_format, registry, as_json=as_json)
        from relay.cli.topics import open_topic

        with open_topic(request, quiet=quiet) as opened:
            return show_detected(opened, Again(request.arguments, registry), as_json=as_json)

    raise finish(work, show_traceback=context.obj)


@with_topic_options(short=True)
def capture(
    context: typer.Context,
    *,
    of_topic: TopicOptions,
    until: Until = None,
    offsets: _Offsets = None,
    partition: _Partitions = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole topic up to its present end.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also what comes later, until Ctrl-C.")
    ] = False,
    output: Output = STANDARD,
    quiet: Quiet = False,
) -> None:
    """Write records of a Kafka topic as a record file, which the other commands read.

    A record is a line of JSON, exact to the byte: topic, partition, offset, timestamp (ms), headers, key,
    value. No group is joined and nothing is committed, so nobody else is disturbed.
    """
    from relay.cli.capture import capture as work

    request = msgspec.structs.replace(
        of_topic.request,
        until=until,
        offsets=offsets,
        partitions=tuple(dict.fromkeys(partition or ())),
        everything=everything,
        follow=follow,
    )
    raise finish(lambda: work(request, output, quiet=quiet), show_traceback=context.obj)


def produce(
    context: typer.Context,
    *,
    inputs: Inputs = None,
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic that is written.")],
    create: Annotated[
        bool,
        typer.Option(
            "--create", help="Create the topic if it does not exist, with the partitions of the records."
        ),
    ] = False,
    brokers: Brokers = None,
    config: TopicConfig = None,
    input_format: Format = InputFormat.AUTO,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check whether all would fit.")] = False,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Write a record file into a Kafka topic: each record in its partition, with key, headers, timestamp.

    All records are checked first. If the topic lacks the partition of one, or takes none of its size,
    nothing is written.
    """
    from relay.cli.capture import produce as work

    request = TopicRequest(
        topic=topic, bootstrap=brokers, config=config, settings=tuple(settings or ()), option="--topic"
    )
    raise finish(
        lambda: work(request, inputs or (), input_format, quiet=quiet, dry_run=dry_run, create=create),
        show_traceback=context.obj,
    )


#: The commands with their examples.
COMMANDS = (
    ("detect", detect, "Example: relay detect --brokers localhost:9092 --from-topic orders"),
    (
        "capture",
        capture,
        "Example: relay capture --brokers localhost:9092 --from-topic orders --since 2h -o in.jsonl",
    ),
    ("produce", produce, "Example: relay produce in.jsonl --brokers localhost:9092 --topic orders-copy"),
)
