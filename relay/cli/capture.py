"""`relay capture`: records of a topic as a record file. `relay produce`: a record file into a topic."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO, Final, cast

from relay.cli.exits import ProgressReport, say, say_warning
from relay.cli.files import STANDARD, Input, open_output
from relay.cli.inputs import open_inputs
from relay.cli.record_files import RecordReader, RecordWriter
from relay.cli.requests.topics import CaptureRequest, ProduceRequest
from relay.cli.topics import TopicAddress, locate, none_found, part_of, read
from relay.io.kafka.admin import NewTopic, TopicAdmin, TopicInfo
from relay.io.kafka.ports import Undelivered, start_sink
from relay.io.kafka.reading import quiet_client
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.sizes import NoKey, NoMatch, TopicLimits, exact_bytes
from relay.model.errors import ConfigError, DeliveryFailed, Problem, TopicUnusable
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.text.durations import duration_text
from relay.topics.plan import FOREVER_MS, KEPT_FOREVER, is_compacted, limit_of, retention_ms

#: How many records are passed to the client together.
_CHUNK: Final = 2_000
#: More partitions than this are probably a mistake in the file.
_MOST_CREATED: Final = 1_000
#: The broker's default replication factor.
_DEFAULT_REPLICAS: Final = -1
#: Maximum number of wrong records listed by name.
_NAMED: Final = 5


def capture(request: CaptureRequest) -> None:
    """Write records of a topic into a file. Raises ConfigError, ServiceError."""
    output, quiet = request.output, request.quiet
    located = locate(request.topic)
    part = part_of(
        request.topic,
        until=request.until,
        offsets=request.offsets,
        partitions=tuple(dict.fromkeys(request.partitions)),
        everything=request.everything,
        follow=request.follow,
    )
    with open_output(output, "--output") as raw:
        name = "stdout" if output == STANDARD else output
        writer = RecordWriter(raw, name, live=part.follow)
        ended = "stopped: only "
        try:
            read(located, part, writer.write_original, quiet=quiet)
            ended = ""
        finally:
            writer.flush()
            if not quiet:
                count = writer.records
                problem = f"{ended}{count} record{'s'[: count != 1]} of {located.topic} captured"
                say(problem if output == STANDARD else f"{problem} in {output}")
    if not writer.records and not quiet:
        say(none_found(located, part))


def produce(request: ProduceRequest) -> None:
    """Write the records of files into a topic: each in its partition, with key, headers and timestamp.

    Nothing is written if one of them does not fit. Raises ConfigError, TopicUnusable, DeliveryFailed.
    """
    located = locate(request.topic)
    opened_inputs = open_inputs(request.inputs, request.input_format)
    with opened_inputs as opened, _rereadable(opened) as source, quiet_client():
        written = asyncio.run(
            _produce(located, source, quiet=request.quiet, dry_run=request.dry_run, create=request.create)
        )
    if not request.quiet:
        what = "would be written" if request.dry_run else "written"
        say(f"{written} record{'s'[: written != 1]} {what} to {located.topic}")


@contextmanager
def _rereadable(opened: Input) -> Iterator[Input]:
    """Yield an input that can be read twice; one that cannot is copied to a temporary file."""
    if opened.stream.seekable():
        yield opened
        return
    with tempfile.TemporaryFile() as kept:
        kept.writelines(opened.stream)
        kept.seek(0)
        yield opened._replace(stream=cast("BinaryIO", kept))


async def _produce(located: TopicAddress, source: Input, *, quiet: bool, dry_run: bool, create: bool) -> int:
    topic, is_new = await _topic(located), False
    if topic is None and create:
        topic, is_new = TopicInfo(_partitions_of(_records(source)), KEPT_FOREVER), True
        if not topic.partitions:
            return 0
    if topic is None:
        hint = "create it first, or let --create do it"
        raise TopicUnusable(f"topic {located.topic} at {located.brokers.servers} does not exist; {hint}")
    count = _check(_records(source), located.topic, topic)
    if warning := _too_old(_records(source), located.topic, topic):
        say_warning(warning)
    if dry_run:
        return count
    if is_new:
        await _create(located, topic.partitions)
    progress = ProgressReport(f"writing {located.topic}", quiet=quiet)
    sink = KafkaSink(located.producer, {located.topic: limit_of(topic)}, located.brokers)
    done = 0
    try:
        await start_sink(sink)
        records = iter(_records(source))
        while chunk := list(islice(records, _CHUNK)):
            await sink.write([_for_topic(record, located.topic) for record in chunk])
            done += len(chunk)
            progress(done, count)
    except Undelivered as error:
        problem = f"writing failed: {error}; the first {done} of {count} records were written"
        raise DeliveryFailed(problem) from error
    finally:
        await sink.stop()
    return done


async def _topic(located: TopicAddress) -> TopicInfo | None:
    """Return the topic; None if it does not exist. Raises TopicUnusable."""
    seen = await TopicAdmin(located.brokers).look([located.topic])
    if why := seen.unusable.get(located.topic):
        raise TopicUnusable(f"topic {located.topic} at {located.brokers.servers} cannot be used: {why}")
    return seen.found.get(located.topic)


async def _create(located: TopicAddress, partitions: int) -> None:
    topic = NewTopic(located.topic, partitions, _DEFAULT_REPLICAS, KEPT_FOREVER)
    refused = await TopicAdmin(located.brokers).create([topic])
    if error := refused.get(located.topic):
        problem = f"topic {located.topic} at {located.brokers.servers} cannot be created: {error.message}"
        raise TopicUnusable(problem)


def _partitions_of(records: RecordReader) -> int:
    """Return the number of partitions that a new topic needs for these records; 0 if there are none.

    Raises ConfigError for an implausible number.
    """
    partitions = max([1 + record.partition for record in records], default=0)
    if partitions > _MOST_CREATED:
        problem = f"there are records of partition {partitions - 1}, and it makes {_MOST_CREATED} at most"
        raise ConfigError([Problem("--create", problem, "create it yourself if you need that many")])
    return partitions


def _records(source: Input) -> RecordReader:
    source.stream.seek(0)
    return RecordReader.of(source)


def _for_topic(record: ConsumerRecord, topic: str) -> ProducerRecord:
    return ProducerRecord(
        topic, record.partition, record.timestamp_ms, record.key, record.value, record.headers
    )


def _misfit_text(record: ConsumerRecord, name: str, misfit: NoMatch) -> str:
    if isinstance(misfit, NoKey):
        return f"has no key, and {name} is compacted: brokers refuse records without a key there"
    return f"takes {exact_bytes(_for_topic(record, name))} bytes, and {name} accepts {misfit.limit}"


def _too_old(records: RecordReader, name: str, topic: TopicInfo) -> str | None:
    """Return a warning if the topic deletes records soon after they are written, or refuses them."""
    settings = topic.settings or {}
    if settings.get("message.timestamp.type") == "LogAppendTime":
        return None
    kept = retention_ms(topic)
    accepted = int(settings.get("message.timestamp.before.max.ms", FOREVER_MS))
    now_ms = time.time_ns() // 1_000_000
    # -1 is no timestamp: Kafka keeps such a record as long as its segment.
    ages = [now_ms - record.timestamp_ms for record in records if record.timestamp_ms >= 0]
    if refused := sum(age > accepted for age in ages):
        return (
            f"{name} refuses records older than {duration_text(accepted)}, and {refused} of them are: "
            "raise its message.timestamp.before.max.ms"
        )
    if deleted := sum(age > kept for age in ages):
        return (
            f"{name} deletes records after {duration_text(kept)}, and {deleted} of them are older: "
            "they will be deleted soon after they are written; raise its retention.ms"
        )
    return None


def _check(records: RecordReader, name: str, topic: TopicInfo) -> int:
    """Count the records. Raises ConfigError with the first of those that the topic refuses."""
    limits = TopicLimits({name: limit_of(topic)}, [name] if is_compacted(topic) else [])
    problems: list[Problem] = []
    count = wrong = 0
    for record in records:
        count += 1
        problem = ""
        if record.partition >= topic.partitions:
            problem = f"is of a partition that {name} does not have: it has {topic.partitions}"
        elif (misfit := limits.misfit([_for_topic(record, name)])) is not None:
            problem = _misfit_text(record, name, misfit)
        if problem:
            wrong += 1
            if wrong <= _NAMED:
                problems.append(Problem(records.where(record), problem))
    if problems:
        rest = f", {wrong - _NAMED} more are not shown" if wrong > _NAMED else ""
        hint = f"add partitions, raise max.message.bytes, or choose another topic{rest}"
        raise ConfigError([*problems[:-1], problems[-1]._replace(hint=hint)])
    return count
