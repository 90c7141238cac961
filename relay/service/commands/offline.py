"""A translator for a single command, outside the loop, with the definitions of the schema history."""

from __future__ import annotations

from typing import NamedTuple

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.config.registries import resolver_of
from relay.config.wiring import translator_with_schema_dumps
from relay.core.translator import Translator
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.model.errors import TopicUnusable
from relay.model.records import ConsumerRecord, RecordPosition
from relay.service.loop.history import apply_records, read_history
from relay.topics.matching import with_found_topics


class HistoryTranslator(NamedTuple):
    """A translator, the number of records in the history, and how many of these were unreadable."""

    translator: Translator
    records: int
    failed: int


async def learned_translator(config: Config, upto: RecordPosition | None = None) -> HistoryTranslator:
    """Make the route's translator with the definitions of the schema history.

    Raises ServiceError, and TopicUnusable if a source topic whose partitions must be known cannot be seen.

    `upto`: records of the same partition at or after this position are left out. Later ones of other
    partitions are harmless: the catalog knows definitions as of a position.
    """
    records = await _history(config)
    if upto is not None:
        records = [
            record for record in records if record.position[:2] != upto[:2] or record.offset < upto.offset
        ]
    translator = translator_with_schema_dumps(config)
    if translator.needs_all_partitions or translator.copies_ddl:
        # Watermarks of a few records would make promises about partitions that were not read, and DDL is
        # written to all partitions.
        translator.expect_partitions(await _source_partitions(config))
    return HistoryTranslator(
        translator, len(records), apply_records(translator, records, resolver_of(config))
    )


async def _source_partitions(config: Config) -> list[tuple[str, int]]:
    """Return all partitions of the source topics. Raises TopicUnusable if a topic cannot be seen."""
    config = await with_found_topics(config)
    seen = await TopicAdmin(Brokers.from_settings(source_cluster(config))).look(config.source.topics)
    for name in config.source.topics:
        if name not in seen.found:
            why = seen.unusable.get(name)
            problem = f"cannot be used: {why}" if why else "does not exist"
            raise TopicUnusable(
                f"topic {name} at {config.source.bootstrap_servers} {problem}; its number of partitions "
                f"determines where watermarks and copies of DDL go"
            )
    return [(name, number) for name, topic in seen.found.items() for number in range(topic.partitions)]


async def _history(config: Config) -> list[ConsumerRecord]:
    """Return the history's source records; none before relay's first start, which creates the topic."""
    topic = config.history_topic
    if not topic:
        return []
    topics = await TopicAdmin(Brokers.from_settings(target_cluster(config))).look([topic])
    return await read_history(config) if topic in topics.found else []
