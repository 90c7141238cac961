"""Topics as arguments of commands: with --brokers alone, or with a configuration and its security."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import msgspec

from relay.cli.event_text import wall_time
from relay.cli.exits import ProgressReport, say
from relay.cli.files import Input
from relay.cli.inputs import kept_lines
from relay.cli.parsing import parse_time
from relay.cli.record_files import RecordWriter
from relay.cli.requests.options import SourceTopic, TopicOption
from relay.cli.source_positions import shown_topics
from relay.config import Config, load_config
from relay.config.addresses import parse_server, split_servers
from relay.config.kafka import producer_settings, source_cluster, target_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.reading import Part, quiet_client, read_part
from relay.io.kafka.settings import ClusterSettings, Compression, ProducerSettings, Security
from relay.model.errors import BrokerUnavailable, ConfigError, Problem, TopicUnusable
from relay.model.records import ConsumerRecord
from relay.text.redaction import quoted

#: Default number of records to read.
DEFAULT_LAST: Final = 100
_DELIVERY_SECONDS: Final = 120.0
_BATCH_BYTES: Final = 1 << 20
_OFFSETS: Final = re.compile(r"(\d{1,18})?\.\.(\d{1,18})?|(\d{1,18})")


class TopicAddress(msgspec.Struct, frozen=True):
    """A topic and its brokers; `producer`: settings for writing it."""

    topic: str
    brokers: Brokers
    producer: ProducerSettings


def locate(request: TopicOption) -> TopicAddress:
    """Find the topic and its brokers. Raises ConfigError."""
    if request.config is not None:
        if request.brokers is not None:
            message = "cannot be combined with --config, which has the brokers"
            raise ConfigError([Problem("--brokers", message, "leave one of them out")])
        return _of_config(request, load_config(request.config, request.settings))
    if request.brokers is None:
        hint = "--brokers host:9092, or --config relay.toml with its security"
        raise ConfigError([Problem("--brokers", "is missing: the topic's brokers are not known", hint)])
    if request.topic is None:
        raise ConfigError([Problem(request.option, "is missing", "name the topic")])
    for server in split_servers(request.brokers):
        try:
            parse_server(server)
        except ValueError as error:
            shown = "an address" if "@" in server else quoted(server)
            message = f"{shown} {error}"
            raise ConfigError([Problem("--brokers", message, "write host:9092")]) from error
    cluster = ClusterSettings(request.brokers, Security(table="--brokers"))
    producer = ProducerSettings(
        cluster=cluster,
        compression=Compression.ZSTD,
        max_batch_bytes=_BATCH_BYTES,
        delivery_timeout_seconds=_DELIVERY_SECONDS,
    )
    return TopicAddress(request.topic, Brokers.from_settings(cluster), producer)


def _of_config(request: TopicOption, config: Config) -> TopicAddress:
    """Return a topic of a configuration: by default its source topic.

    A topic that the route writes is at the target's brokers, any other at the source's.
    """
    topics = config.source.topics
    topic = request.topic or (topics[0] if len(topics) == 1 else None)
    if topic is None:
        hint = f"the source topics are {shown_topics(config)}"
        raise ConfigError([Problem(request.option, "is missing", hint)])
    is_written = topic in {*config.target_topics.values(), *config.own_topics.values()}
    if config.source.topics_pattern:
        is_written = config.has_target_name(topic)
    cluster = source_cluster(config)
    if is_written and not config.reads(topic):
        cluster = target_cluster(config)
    values = vars(producer_settings(config)) | {"cluster": cluster}
    return TopicAddress(topic, Brokers.from_settings(cluster), ProducerSettings(**values))


def part_of(
    request: SourceTopic,
    *,
    until: str | None = None,
    offsets: str | None = None,
    partitions: tuple[int, ...] = (),
    everything: bool = False,
    follow: bool = False,
) -> Part:
    """Return the part of the topic to read: by default the newest records. Raises ConfigError."""
    problems: list[Problem] = []
    now_ms = int(time.time() * 1000)
    since_ms = until_ms = None
    if request.since is not None:
        since_ms = parse_time(request.since, now_ms, "--since", problems)
    if until is not None:
        until_ms = parse_time(until, now_ms, "--until", problems)
    first, end = _offsets(offsets, problems)
    is_bounded = request.since or until or offsets or everything
    if is_bounded and request.last is not None:
        message = "cannot be combined with --since, --until, --offsets or --all"
        problems.append(Problem("--last", message, "leave one of them out"))
    if problems:
        raise ConfigError(problems)
    last = request.last
    if last is None and not is_bounded:
        last = 0 if follow else DEFAULT_LAST
    return Part(
        last=last,
        since_ms=since_ms,
        until_ms=until_ms,
        first=first,
        end=end,
        partitions=partitions,
        follow=follow,
    )


def _offsets(text: str | None, problems: list[Problem]) -> tuple[int | None, int | None]:
    """Parse `10..20` (20 is not part of it), `10..`, `..20` or `10`."""
    if text is None:
        return None, None
    found = _OFFSETS.fullmatch(text)
    if found is None or text == "..":
        hint = "for example 100..200 (without 200), 100.., ..200, or 100 alone"
        problems.append(Problem("--offsets", f"{text!r} is not a range of offsets", hint))
        return None, None
    first, end, alone = found.groups()
    if alone is not None:
        return int(alone), int(alone) + 1
    return int(first or 0), None if end is None else int(end)


def read(located: TopicAddress, part: Part, each: Callable[[ConsumerRecord], None], *, quiet: bool) -> None:
    """Pass records of a topic to `each`. Ctrl-C ends following, and is no interruption then.

    Raises ConfigError, TopicUnusable, BrokerUnavailable.
    """
    progress = ProgressReport(f"reading {located.topic}", quiet=quiet or part.follow)
    try:
        with quiet_client():
            asyncio.run(read_part(located.brokers, located.topic, part, each, progress))
    except KeyboardInterrupt:
        if not part.follow:
            raise


@contextmanager
def open_topic(request: SourceTopic, *, quiet: bool) -> Iterator[Input]:
    """Yield records of a topic as an input. Raises ConfigError, TopicUnusable, BrokerUnavailable."""
    located, part = locate(request), part_of(request)
    count = 0

    def write(raw: BinaryIO) -> None:
        nonlocal count
        writer = RecordWriter(raw, "a temporary file")
        read(located, part, writer.write_original, quiet=quiet)
        writer.flush()
        count = writer.records

    with kept_lines(write, f"topic {located.topic}") as opened:
        if not count and not quiet:
            say(none_found(located, part))
        yield opened


def none_found(located: TopicAddress, part: Part) -> str:
    """Return a message for an empty part of a topic, with the newest readable record."""
    if part.follow:
        return f"no record of topic {located.topic} has come"
    found: list[ConsumerRecord] = []
    if not part.last:
        try:
            read(located, Part(last=1, partitions=part.partitions), found.append, quiet=True)
        except (TopicUnusable, BrokerUnavailable):
            return f"topic {located.topic} has no such record"
    if not found:
        chosen = f" in its partitions {', '.join(map(str, part.partitions))}" if part.partitions else ""
        return f"topic {located.topic} has no record{chosen}"
    newest = found[0]
    problem = f"topic {located.topic} has no such record; its newest is {newest.position}"
    return (
        problem
        if newest.timestamp_ms == -1
        else f"{problem}, of {wall_time(1_000_000 * newest.timestamp_ms)}"
    )
