"""The schema history: the source records that changed the catalogue, kept in a compacted topic.

A record of that topic has the source position `topic/partition/offset` as its key, so a repeated one changes nothing, and as its
value one line of a record file (docs/architecture.md): the source record, whole. To know the tables again, relay decodes them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from relay.config import Config
from relay.errors import CodecError, TopicUnusable
from relay.needs import Need
from relay.record_lines import format_record, parse_record
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.ddl_follower import DdlFollower
from relay.service.logs import Log
from relay.service.objects import Translates
from relay.service.status import Board
from relay.service.transport import Partition, Position, Source
from relay.service.whole_topic import WholeTopic


def history_record(record: ConsumerRecord, topic: str) -> ProducerRecord:
    """What the history keeps of a source record that changed the catalogue."""
    key = f"{record.topic}/{record.partition}/{record.offset}".encode()
    return ProducerRecord(topic, 0, record.timestamp_ms, key, format_record(record, record.offset))


def source_records(kept: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """The source records that history records hold, in order; those that were taken out (null) are left out.

    Raises TopicUnusable if the topic holds anything else.
    """
    found = []
    for each in kept:
        if each.value is None:
            continue
        try:
            found.append(parse_record(each.value))
        except ValueError as error:
            raise TopicUnusable(
                f"{each.topic}/{each.partition} at {each.offset} is no record of a schema history: {error}; "
                f"name a topic of its own as history_topic in [schema]"
            ) from error
    return found


def teach(translator: Translates, records: Iterable[ConsumerRecord]) -> int:
    """Have the translator learn; gives how many records it could not read, as after a change of the route."""
    failed = 0
    for record in records:
        try:
            translator.learn(record)
        except (CodecError, Need):
            failed += 1
    return failed


class Schemas:
    """Keeps a translator's catalogue up to date: with the schema history, and with the DDL of partition 0 if rows wait for it."""

    def __init__(self, config: Config, translator: Translates, log: Log, board: Board) -> None:
        self._translator, self._log, self._board = translator, log, board
        self._source_topics = config.source.topics
        self._topic = (
            WholeTopic(config.target_servers, config.target_security, config.history_topic) if config.history_topic else None
        )
        self._follower = DdlFollower(config, translator) if config.schema.wait else None
        self._is_loaded = False

    @property
    def ahead(self) -> AbstractSet[tuple[str, int, int]]:
        """Places of records that taught the translator before their turn in the loop."""
        return self._follower.ahead if self._follower else frozenset()

    async def load(self) -> None:
        """Learn everything that the history holds by now. Raises BrokerUnavailable, TopicUnusable."""
        if self._topic is None:
            return
        learnt = source_records(await self._topic.to_end(self._board.beat))
        failed = teach(self._translator, learnt)
        self._board.check("schema-history", ok=True)
        if learnt or not self._is_loaded:
            self._is_loaded = True
            self._log.info("schemas.loaded", records=len(learnt), unreadable=failed)

    async def begin(self, source: Source, positions: Mapping[Partition, Position]) -> None:
        """Read partition 0 ahead of what was just opened. Raises PollFailed, ServiceError."""
        if self._follower is None:
            return
        firsts = [Partition(topic, 0) for topic in self._source_topics]
        others = await source.look([first for first in firsts if first not in positions], {})
        await self._follower.begin({first: (positions.get(first) or others[first]).offset for first in firsts})

    async def ready(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Learn what other instances have added to the history, and what the polled records wait for. Raises PollFailed."""
        if self._topic is not None and (new := await self._topic.new()):
            teach(self._translator, source_records(new))
        if self._follower is not None:
            for records in polled.values():
                await self._follower.wait_for(records)

    async def stop(self) -> None:
        """Disconnect."""
        if self._topic is not None:
            await self._topic.stop()
        if self._follower is not None:
            await self._follower.stop()


async def read_history(config: Config) -> list[ConsumerRecord]:
    """All source records of the configured history, in order; none if there is no history. Raises ServiceError."""
    if not config.history_topic:
        return []
    topic = WholeTopic(config.target_servers, config.target_security, config.history_topic)
    try:
        return source_records(await topic.to_end())
    finally:
        await topic.stop()
