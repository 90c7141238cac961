"""The schema history: the source records that changed the catalogue, kept in a compacted topic.

A record of that topic has the source position `topic/partition/offset` as its key, so a repeated one changes nothing, and as its
value one line of a record file (docs/architecture.md): the source record, whole. To know the tables again, relay decodes them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay.config import Config
from relay.errors import CodecError, TopicUnusable
from relay.needs import Need
from relay.record_lines import format_record, parse_record
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.logs import Log
from relay.service.objects import Translates
from relay.service.status import Board
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
    """Keeps a translator's catalogue up to date with the schema history, its own entries and those of other instances."""

    def __init__(self, config: Config, translator: Translates, log: Log, board: Board) -> None:
        self._translator, self._log, self._board = translator, log, board
        self._topic = WholeTopic(config.target_servers, config.target_security, config.history_topic)
        self._is_loaded = False

    async def load(self) -> None:
        """Learn everything that the history holds by now. Raises BrokerUnavailable, TopicUnusable."""
        learnt = source_records(await self._topic.to_end())
        failed = teach(self._translator, learnt)
        self._board.check("schema-history", ok=True)
        if learnt or not self._is_loaded:
            self._is_loaded = True
            self._log.info("schemas.loaded", records=len(learnt), unreadable=failed)

    async def follow(self) -> None:
        """Learn what other instances have added since; does not wait."""
        if new := await self._topic.new():
            teach(self._translator, source_records(new))

    async def wait_for(self, records: Sequence[ConsumerRecord]) -> None:
        """Wait until the DDL that these records may need is known."""

    async def stop(self) -> None:
        """Disconnect."""
        await self._topic.stop()


class NoSchemas(Schemas):
    """No history: a restart knows tables only from the next DDL on."""

    def __init__(self) -> None:
        pass

    async def load(self) -> None:
        """There is nothing to learn."""

    async def follow(self) -> None:
        """There is nothing to learn."""

    async def stop(self) -> None:
        """There is nothing to stop."""


NO_SCHEMAS = NoSchemas()


async def read_history(config: Config) -> list[ConsumerRecord]:
    """All source records of the configured history, in order; none if there is no history. Raises ServiceError."""
    if not config.history_topic:
        return []
    topic = WholeTopic(config.target_servers, config.target_security, config.history_topic)
    try:
        return source_records(await topic.to_end())
    finally:
        await topic.stop()
