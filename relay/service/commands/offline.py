"""A translator for a single command, outside the loop, with the definitions of the schema history."""

from __future__ import annotations

from typing import NamedTuple

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.kafka.admin import TopicAdmin
from relay.kafka.clients import Brokers
from relay.records import ConsumerRecord, Place
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
            record for record in records if record.place[:2] != upto[:2] or record.offset < upto.offset
        ]
    translator = config.translator()
    if config.target_partitions or translator.copies_ddl:
        # Watermarks of a few records alone would be promises about partitions that were not read, and DDL is
        # written to all of them.
        admin = TopicAdmin(Brokers.from_settings(source_cluster(config)))
        sources = await admin.look(config.source.topics)
        translator.expect_partitions(
            (name, number) for name, topic in sources.found.items() for number in range(topic.partitions)
        )
    return Learned(translator, len(records), teach(translator, records))


async def _history(config: Config) -> list[ConsumerRecord]:
    """Return the history's source records; none before relay's first start, which creates the topic."""
    topic = config.history_topic
    if not topic:
        return []
    topics = await TopicAdmin(Brokers.from_settings(target_cluster(config))).look([topic])
    return await read_history(config) if topic in topics.found else []
