"""`relay schema-history import` and `reset`: what changes the schema history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from relay.cli.arguments import InputFormat, open_input
from relay.cli.event_text import printable
from relay.cli.exits import describe, say, say_error
from relay.cli.history import history_config, kept
from relay.cli.letters import Progress
from relay.cli.record_files import RecordReader
from relay.config import Config, Mode
from relay.errors import CodecError, ConfigError, Problem, ServiceError
from relay.kafka.reading import quiet_client
from relay.needs import Need
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.commands.history_admin import ensure_topic, members, write
from relay.service.loop.history import history_record, source_records, teach

FAILED = 2


@dataclass
class _Found:
    """What a file held: how many records, those that change the catalogue as the history's own, and how many
    had no meaning.
    """

    read: int = 0
    unreadable: int = 0
    entries: list[ProducerRecord] = field(default_factory=list)


def import_records(config_path: Path, input_name: str, topic: str | None, *, quiet: bool) -> int:
    """Write those records of INPUT into the history that change the catalogue; gives 2 if some could not be
    read.

    Nothing is written if INPUT is no record file, or contradicts the history. Raises ConfigError, Malformed,
    ServiceError.
    """
    config = history_config(config_path)
    with open_input(input_name) as opened, quiet_client():
        if asyncio.run(ensure_topic(config)) and not quiet:
            say(f"topic {config.history_topic} was created")
        known = kept(config, quiet=quiet)
        reader = RecordReader(opened.stream, opened.name, InputFormat.RECORDS, placed=True)
        found = _changing(reader, config, topic, known)
        if found.entries:
            asyncio.run(
                write(config, found.entries, Progress(f"writing {config.history_topic}", quiet=quiet))
            )
    if not quiet:
        others = found.read - len(found.entries) - found.unreadable
        say(
            f"records read: {found.read}, imported: {len(found.entries)}, known already or not about tables: {others}, "
            f"unreadable: {found.unreadable}"
        )
    return FAILED if found.unreadable else 0


def _changing(
    reader: RecordReader, config: Config, topic: str | None, known: Iterable[ConsumerRecord]
) -> _Found:
    """Find the records that change the catalogue beyond what is known."""
    values = {each.key: each.value for each in known}
    translator = config.translator()
    teach(translator, source_records(known))
    found = _Found()
    for given in reader:
        record = given if topic is None else msgspec.structs.replace(given, topic=topic)
        found.read += 1
        before = translator.catalog
        try:
            translator.learn(record)
        except CodecError as error:
            error.add_note(
                f"{reader.name} line {reader.line} ({record.topic}/{record.partition}/{record.offset})"
            )
            say_error(describe(error))
            found.unreadable += 1
        except Need:
            # Only rows are large enough for a claim check, no producer sends DDL by one.
            continue
        if translator.catalog is before:
            continue
        entry = history_record(record, config.history_topic)
        if values.setdefault(entry.key, entry.value) != entry.value:
            raise _contradiction(reader, record)
        found.entries.append(entry)
    return found


def _contradiction(reader: RecordReader, record: ConsumerRecord) -> ConfigError:
    place = printable(f"{record.topic}/{record.partition}/{record.offset}")
    hint = "its records are of another topic of that name: --topic gives them a name of their own"
    return ConfigError(
        [
            Problem(
                "INPUT", f"{reader.name} line {reader.line}: the history has another record of {place}", hint
            )
        ]
    )


def reset(config_path: Path, *, yes: bool, quiet: bool) -> int:
    """Take everything out of the history; without `yes` say what would follow, and give 2. Raises
    ConfigError, ServiceError.
    """
    config = history_config(config_path)
    entries = kept(config, quiet=quiet)
    topic, group = config.history_topic, config.source.group_id
    if not entries:
        say(f"schema history {topic} is empty")
        return 0
    with quiet_client():
        running = asyncio.run(members(config))
    if not yes:
        for line in (*_consequences(topic, len(entries)), _running(config, running)):
            say(line)
        say_error("nothing was changed; --yes does it")
        return FAILED
    if isinstance(running, int) and running:
        raise ServiceError(
            f"group {group} has {running} members: stop all instances first; nothing was changed"
        )
    if not quiet:
        say(_running(config, running))
    now_ms = int(time.time() * 1000)
    nothing = [ProducerRecord(topic, 0, now_ms, each.key, None) for each in entries]
    with quiet_client():
        asyncio.run(write(config, nothing, Progress(f"emptying {topic}", quiet=quiet)))
    if not quiet:
        say(f"records taken out of {topic}: {len(entries)}")
    return 0


def _consequences(topic: str, count: int) -> list[str]:
    return [
        f"schema history {topic} has {count} records. Without them relay knows a table only from its next CREATE TABLE on:",
        "until then its rows are read with the types that they tell themselves, and counted as schema-guessed.",
        "`relay schema-history export` keeps a copy, which `import` puts back.",
        "Stop all instances first: one that runs goes on with what it knows, and adds to the history.",
    ]


def _running(config: Config, members: int | str) -> str:
    group = config.source.group_id
    if isinstance(members, str):
        return f"Whether instances run cannot be told: {members}."
    if members:
        return f"Group {group} has {members} members now."
    if config.delivery.mode is Mode.EXACTLY_ONCE:
        return "Whether instances run cannot be told: those of exactly-once are no members of a group."
    return f"Group {group} has no members now."
