"""A translator for a single command, outside the loop, with the definitions of the schema history."""

from __future__ import annotations

from typing import NamedTuple

from relay.config import Config
from relay.dead_letters import Place
from relay.kafka.admin import Cluster
from relay.kafka.clients import source_settings, target_settings
from relay.records import ConsumerRecord
from relay.service.loop.history import read_history, teach
from relay.translator import Translator


class Learned(NamedTuple):
    """A translator, how many records the history has, and how many of these it could not read."""

    translator: Translator
    records: int
    failed: int


async def learned_translator(config: Config, upto: Place | None = None) -> Learned:
    """Make the route's translator with the definitions of the schema history. Raises ServiceError.

    `upto`: records of the same partition at this place or behind it are left out. Those of other partitions
    do no harm: the catalogue knows definitions as of a position.
    """
    records = await _history(config)
    if upto is not None:
        records = [
            record for record in records if Place.of(record)[:2] != upto[:2] or record.offset < upto.offset
        ]
    translator = config.translator()
    if config.target_partitions:
        # Watermarks of a few records alone would be promises about partitions that were not read.
        sources = await Cluster(config.source.bootstrap_servers, source_settings(config)).look(
            config.source.topics
        )
        translator.expect_partitions(
            (name, number) for name, topic in sources.found.items() for number in range(topic.partitions)
        )
    return Learned(translator, len(records), teach(translator, records))


async def _history(config: Config) -> list[ConsumerRecord]:
    """Return the history's source records; none before relay's first start, which creates the topic."""
    topic = config.history_topic
    if not topic:
        return []
    seen = await Cluster(config.target_servers, target_settings(config)).look([topic])
    return await read_history(config) if topic in seen.found else []
