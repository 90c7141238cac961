"""The commands about a topic or a file of one's own, their arguments and their help: `relay detect`, `relay
capture`, `relay produce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from relay.cli.arguments import STANDARD, InputFormat, Quiet, Settings
from relay.cli.exits import finish
from relay.cli.topic_request import TopicRequest
from relay.errors import ConfigError, Problem

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
FromTopic = Annotated[
    str | None,
    typer.Option(
        "--from-topic", metavar="TOPIC", help="Read this topic in place of INPUT, without joining a group."
    ),
]
Last = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        metavar="N",
        help="The newest N records of the topic.",
        show_default="100, if nothing else says which",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Records of the topic from this time on: 2026-11-26T10:00 (UTC), or how long ago: 90s, 15m, "
        "2h, 1d.",
    ),
]
_Topic = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="The topic; may be left out if the configuration has one alone."),
]
_Registry = Annotated[
    str | None,
    typer.Option(
        "--registry", metavar="URL|FILE", help="The schema registry of Avro messages, which tells more."
    ),
]
_Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only records before this time.")]
_Offsets = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help="Only these offsets: 100..200 (without 200), 100.., ..200, or 100."),
]
_Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", min=0, metavar="N", help="Only this partition; may be repeated."),
]


def topic_of(
    topic: str | None,
    brokers: str | None,
    config: Path | None,
    settings: Sequence[str] | None,
    last: int | None,
    since: str | None,
) -> TopicRequest | None:
    """Return what --from-topic and its companions ask for; None if INPUT is to be read.

    Raises ConfigError for companions without it.
    """
    if topic is not None:
        return TopicRequest(
            topic=topic,
            bootstrap=brokers,
            config=config,
            settings=tuple(settings or ()),
            last=last,
            since=since,
            option="--from-topic",
        )
    given = {"--brokers": brokers, "--config": config, "--set": settings, "--last": last, "--since": since}
    problems = [
        Problem(option, "is about a topic, and none is named", "add --from-topic TOPIC")
        for option, value in given.items()
        if value
    ]
    if problems:
        raise ConfigError(problems)
    return None


def detect(
    context: typer.Context,
    *,
    inputs: Inputs = None,
    topic: _Topic = None,
    brokers: Brokers = None,
    config: TopicConfig = None,
    last: Last = None,
    since: Since = None,
    registry: _Registry = None,
    input_format: Format = InputFormat.AUTO,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Name the protocol of messages, its dialect and settings, and by what they are known.

    Of a file the first 200 records are looked at, of a topic the newest 100. Formats that relay does not
    read are named, too. The exit status is 2 if it is none that relay reads.
    """

    def work() -> int:
        from relay.cli.detect import show_detected
        from relay.cli.inputs import open_inputs

        if topic is None and brokers is None and config is None:
            with open_inputs(inputs or (), input_format) as opened:
                return show_detected(opened, input_format, registry, as_json=as_json)
        if inputs:
            raise ConfigError([Problem("INPUT", "cannot stand beside a topic", "leave one of them out")])
        from relay.cli.topics import open_topic

        request = TopicRequest(
            topic=topic,
            bootstrap=brokers,
            config=config,
            settings=tuple(settings or ()),
            last=last,
            since=since,
        )
        with open_topic(request, quiet=False) as opened:
            return show_detected(opened, InputFormat.RECORDS, registry, as_json=as_json)

    raise finish(work, show_traceback=context.obj)


def capture(
    context: typer.Context,
    *,
    topic: _Topic = None,
    brokers: Brokers = None,
    config: TopicConfig = None,
    last: Last = None,
    since: Since = None,
    until: _Until = None,
    offsets: _Offsets = None,
    partition: _Partitions = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole topic up to its present end.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also what comes later, until Ctrl-C.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the records go; - for stdout.")
    ] = STANDARD,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Write records of a Kafka topic as a record file, which the other commands read.

    A record is a line of JSON, exact to the byte: topic, partition, offset, timestamp (ms), headers, key,
    value. No group is joined and nothing is committed, so nobody else is disturbed.
    """
    from relay.cli.capture import capture as work

    request = TopicRequest(
        topic=topic,
        bootstrap=brokers,
        config=config,
        settings=tuple(settings or ()),
        last=last,
        since=since,
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
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic that is written; it must exist.")],
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

    request = TopicRequest(topic=topic, bootstrap=brokers, config=config, settings=tuple(settings or ()))
    raise finish(
        lambda: work(request, inputs or (), input_format, quiet=quiet, dry_run=dry_run),
        show_traceback=context.obj,
    )


#: The commands with their examples.
COMMANDS = (
    ("detect", detect, "Example: relay detect --brokers localhost:9092 --topic orders"),
    (
        "capture",
        capture,
        "Example: relay capture --brokers localhost:9092 --topic orders --since 2h -o in.jsonl",
    ),
    ("produce", produce, "Example: relay produce in.jsonl --brokers localhost:9092 --topic orders-copy"),
)
