"""Inspect the newest messages of source and target topics, without joining a group.

`relay check --connect` looks at those of the source topics. A first start looks for earlier output in the
target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from relay.config import Config
from relay.config.wiring import translator_of
from relay.core.detection import FormatHints, detect
from relay.io.kafka.clients import Brokers, Clusters
from relay.io.kafka.reading import Part, read_part
from relay.model.errors import Malformed, RelayError, ServiceError, UnsupportedMessage
from relay.model.lookups import Need
from relay.model.records import SOURCE_HEADER, ConsumerRecord
from relay.service.check import CheckState, Finding

#: Number of records inspected per topic, and the time limit for reading them.
_RECORDS: Final = 20
_SECONDS: Final = 20.0


async def message_findings(config: Config, brokers: Brokers, topics: Iterable[str]) -> list[Finding]:
    """Inspect the newest messages of topics that can be read."""
    found: list[Finding] = []
    for topic in topics:
        subject = f"source messages of {topic}"
        records: list[ConsumerRecord] = []
        try:
            async with asyncio.timeout(_SECONDS):
                await read_part(brokers, topic, Part(last=_RECORDS), records.append)
        except (ServiceError, TimeoutError) as error:
            reason = str(error) or f"not read within {_SECONDS:.0f} s"
            found.append(Finding(CheckState.UNTESTED, subject, reason))
            continue
        found += _findings(config, subject, records)
    return found


def _findings(config: Config, subject: str, records: Sequence[ConsumerRecord]) -> Iterator[Finding]:
    """Judge messages by whether the route's protocol can read them, and by their detected format."""
    name, messages = config.route.from_, [each for each in records if each.value is not None]
    if not messages:
        yield Finding(CheckState.UNTESTED, subject, "there is none yet, so the format is unknown")
        return
    dialects = detect(messages).dialects
    looks = " and ".join(f"{each.text}" for each in dialects) or "no known format"
    newest = f"the newest {len(messages)}" if len(messages) > 1 else "the newest one"
    refused = list(_refused(config, messages))
    if refused:
        state = CheckState.FAILED if len(refused) == len(messages) else CheckState.NOTE
        error, message = refused[0]
        named = FormatHints().named(error, message)
        text = f"{len(refused)} of {newest} cannot be read as {name}: {named}"
        yield Finding(state, subject, text)
    elif dialects and all(name not in each.protocols for each in dialects):
        yield Finding(CheckState.NOTE, subject, f"{newest} can be read as {name}, and look like {looks}")
    else:
        yield Finding(CheckState.OK, subject, f"{newest} look like {looks}")


def _refused(
    config: Config, messages: Sequence[ConsumerRecord]
) -> Iterator[tuple[RelayError, ConsumerRecord]]:
    """Yield the messages that are not of the route's protocol, with their errors.

    A message that needs a registry, a storage or an earlier definition cannot be judged here, and is not
    reported.
    """
    translator = translator_of(config)
    for message in messages:
        try:
            translator.inspect(message)
        except (Malformed, UnsupportedMessage) as error:
            yield error, message
        except (Need, RelayError):
            continue


_EARLIER_OUTPUT_SECONDS: Final = 10.0
_MOST_TARGETS: Final = 20


async def earlier_output(config: Config, clusters: Clusters) -> str:
    """Return evidence, as text, that a target topic has records of a source topic: its newest record.

    Returns "" if none was found or if the check was not possible. Topics of tables are not checked, and of
    many other topics only some.
    """
    try:
        async with asyncio.timeout(_EARLIER_OUTPUT_SECONDS):
            for topic in islice(config.fixed_topics, _MOST_TARGETS):
                newest: list[ConsumerRecord] = []
                await read_part(clusters.target, topic, Part(last=1), newest.append)
                for record in newest:
                    mark = dict(record.headers).get(SOURCE_HEADER) or b""
                    source = mark.decode(errors="replace").rsplit("/", 3)[0]
                    if source in config.source.topics:
                        return f"topic {topic} has records of source topic {source}"
    except (ServiceError, TimeoutError):
        pass
    return ""
