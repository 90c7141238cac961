"""The schema history: the source records that changed the catalog, kept in a compacted topic.

The key of a record of that topic is the source position `topic/partition/offset`, so a repeated one changes
nothing. Its value is one line of a record file (docs/architecture.md): the whole source record. On startup
relay decodes these records again to restore the table definitions.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, NamedTuple

from relay.catalog.definitions import is_from_stream, undefined
from relay.catalog.redacted_records import source_topic
from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.config.wiring import check_table_names
from relay.core.dead_letters import ROUTE_HEADER
from relay.core.selection import chosen_tables
from relay.io.kafka.clients import Brokers, Clusters
from relay.io.kafka.ports import Health, Partition, RecordSource, StartPosition
from relay.io.kafka.whole_topic import WholeTopic
from relay.io.logs import Log
from relay.io.record_lines import format_record, parse_record
from relay.io.resolver import Resolver
from relay.model.errors import CodecError, TopicUnusable
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, Header, ProducerRecord, RecordPosition, size_of
from relay.service.loop.async_resolver import Translates, learn
from relay.service.loop.ddl_order import DdlFollower, DdlOrder, DdlPartitions
from relay.service.observe.status import Status

_SHARED: Final = (
    "the schema history has records of another route, or of this one before its group, protocols or target "
    "topic were changed. Routes that share a group_id divide the partitions among themselves: give each "
    "route its own group_id and history_topic"
)


def history_record(record: ConsumerRecord, topic: str, route: str = "") -> ProducerRecord:
    """Return the history's record for one that changed the catalog (`Translator.storable`).

    `route`: the name of the route that has read it; "" for imported records.
    """
    key = str(RecordPosition(source_topic(record), record.partition, record.offset)).encode()
    headers: tuple[Header, ...] = ((ROUTE_HEADER, route.encode()),) if route else ()
    # No timestamp: the value has the record's, and a broker may refuse one from a clock that runs ahead.
    return ProducerRecord(topic, 0, 0, key, format_record(record, record.offset), headers)


def kept_records(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return the history's live records: the newest of each key, in order. A null deletes its key."""
    found: dict[bytes | None, ConsumerRecord] = {}
    for each in records:
        if each.value is None:
            found.pop(each.key, None)
        else:
            found[each.key] = each
    return list(found.values())


class Unreadable(NamedTuple):
    """A record of the history without a readable source record, and why.

    `is_foreign`: its key is not one of relay's.
    """

    kept: ConsumerRecord
    why: str
    is_foreign: bool

    def __str__(self) -> str:
        kept = self.kept
        return (
            f"{kept.topic}/{kept.partition} at {kept.offset} is not a record of a schema history: {self.why}"
        )


class Entries(NamedTuple):
    """The source records in the history, and its unreadable records.

    The source records are in order, without duplicates and deleted ones.
    """

    records: list[ConsumerRecord]
    unreadable: list[Unreadable]

    def checked(self) -> Entries:
        """Return the entries.

        Raises TopicUnusable if one of relay's is damaged: a table's definition would be missing.
        """
        for each in self.unreadable:
            if not each.is_foreign:
                raise TopicUnusable(f"{each}; {_REPAIR}")
        return self


_REPAIR = (
    "set history_topic in [schema] to a dedicated topic or, if only relay writes to this one, remove the "
    "unreadable records with `relay schema-history repair`"
)


def entries_of(records: Iterable[ConsumerRecord]) -> Entries:
    """Parse the history's own records."""
    found = Entries([], [])
    for kept in kept_records(records):
        try:
            found.records.append(parse_record(kept.value or b""))
        except ValueError as error:
            found.unreadable.append(Unreadable(kept, str(error), not _is_position(kept.key)))
    return found


def source_records(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return the source records of the history, without foreign records.

    Raises TopicUnusable for a damaged entry.
    """
    return entries_of(records).checked().records


def _is_position(key: bytes | None) -> bool:
    """Return whether a key is a source position, as relay's are."""
    _, *numbers = (key or b"").rsplit(b"/", 2)
    return len(numbers) == 2 and all(number.isdigit() for number in numbers)


def apply_records(
    translator: Translates, records: Iterable[ConsumerRecord], resolver: Resolver | None = None
) -> int:
    """Apply records to the translator; return how many it could not read: the route may have changed.

    `resolver` fetches the external data of records, and blocks: for commands, not for the loop. Raises its
    errors.
    """
    failed = 0
    for record in records:
        try:
            if resolver is None:
                translator.learn(record)
            else:
                resolver.learn(translator, record)
        except (CodecError, Need):
            failed += 1
    return failed


_UNKNOWN = (
    "include_tables names tables without a known definition: until their DDL is read, column types of their "
    "rows are inferred from the messages; `schema_dumps` in [schema] or `relay schema-history "
    "import` provides definitions"
)
#: Longest stretch of learning before heartbeats get their turn.
_YIELD_SECONDS = 0.010


class Schemas:
    """Keep a translator's catalog up to date: with the schema history, and with DDL that rows wait for.

    The latter comes from other partitions. `ddl_order`: which rows wait, where the loop reads that DDL
    itself. `clusters`: those of the configuration, if their files were read before. `resolver` fetches the
    external data of records. `topic`: reads the history, instead of a reader for the configured topic.
    """

    def __init__(  # noqa: PLR0913 - the sources of definitions, and their observers
        self,
        config: Config,
        translator: Translates,
        log: Log,
        status: Status,
        clusters: Clusters | None = None,
        resolver: Resolver | None = None,
        *,
        topic: WholeTopic | None = None,
    ) -> None:
        self._resolver = resolver or Resolver()
        clusters = clusters or Clusters.from_settings(source_cluster(config), target_cluster(config))
        self._translator, self._log, self._status = translator, log, status
        self._source_topics = config.source.topics
        if topic is None and config.history_topic:
            topic = WholeTopic(clusters.target, config.history_topic)
        self._topic = topic
        self._ddl_partitions = DdlPartitions(config.ddl_topics)
        self._follower = (
            DdlFollower(
                config,
                translator,
                status.heartbeat,
                clusters.source,
                self._resolver,
                ddl_partitions=self._ddl_partitions,
            )
            if config.waits_for_ddl
            else None
        )
        self.ddl_order = DdlOrder(self._ddl_partitions)
        # Read, but not learned yet, because reading was interrupted.
        self._unlearned: list[ConsumerRecord] = []
        # Records learned from the history, by source position, since everything was safe.
        self._kept: dict[tuple[str, int, int], ConsumerRecord] = {}
        self._most_bytes = config.limits.cache_bytes
        self._bytes_kept = 0
        self._is_loaded = self._is_reported = False
        self._chosen = chosen_tables(config.route.include_tables, ())
        self._route = config.route_name
        # Names of other routes that have written to the history, and records that relay did not write.
        self._other_routes: set[str] = set()
        self._foreign_records: dict[int, str] = {}
        self._own_records = 0
        # Topics of the history that are not read here, and that were logged.
        self._foreign: set[str] = set()

    def read_topics(self, config: Config) -> None:
        """Note that the source topics have changed."""
        self._source_topics = config.source.topics
        self._ddl_partitions.replace(config.ddl_topics)

    @property
    def history_health(self) -> Health | None:
        """Return the health of the schema history's client; None without a history."""
        return self._topic.health if self._topic is not None else None

    @property
    def reader_health(self) -> list[Health]:
        """Return the health of the readers of source topics other than the loop's."""
        return [self._follower.health] if self._follower is not None else []

    @property
    def ahead(self) -> AbstractSet[tuple[str, int, int]]:
        """Return the positions of records that the translator learned before their turn in the loop."""
        return self._follower.ahead if self._follower else frozenset()

    @property
    def stored_ahead(self) -> Mapping[tuple[str, int, int], ConsumerRecord]:
        """Return what the history keeps of such records on a route that hides values."""
        return self._follower.stored_ahead if self._follower else MappingProxyType({})

    @property
    def earlier_output(self) -> str:
        """Return evidence in the history that this route has run before, as text; "" if there is none."""
        if self._topic is None or not self._own_records:
            return ""
        return f"the schema history {self._topic.name} has records of this route"

    async def load(self) -> None:
        """Learn all current records of the history, and log tables chosen by name that are still unknown.

        Raises BrokerUnavailable, TopicUnusable, and ConfigError for tables with the same name in the target.
        """
        if self._topic is not None:
            await self._load(self._topic)
        if not self._is_reported:
            self._is_reported = True
            check_table_names(self._translator)
            if unknown := undefined(self._translator.catalog, self._chosen):
                self._log.warning("schemas.unknown", tables=unknown, message=_UNKNOWN)

    async def _load(self, topic: WholeTopic) -> None:
        await topic.to_end(self._unlearned.extend, self._status.heartbeat)
        learned = self._entries()
        if self._foreign_records and not self._own_records and not self._is_loaded and not learned:
            raise TopicUnusable(f"{next(iter(self._foreign_records.values()))}; {_REPAIR}")
        failed = await self._learn(learned)
        self._unlearned.clear()
        self._status.set_check("schema-history", ok=True)
        if learned or not self._is_loaded:
            self._is_loaded = True
            self._log.info("schemas.loaded", records=len(learned), unreadable=failed)

    async def begin(self, source: RecordSource, positions: Mapping[Partition, StartPosition]) -> None:
        """Make rows of newly opened partitions wait for the partitions with their DDL.

        If they were opened together, the DDL is processed before those rows; otherwise it is read ahead.
        Raises PollFailed, ServiceError.
        """
        if self._follower is None:
            return
        firsts = self._ddl_partitions.firsts(positions)
        self.ddl_order.begin(first for first in firsts if first in positions)
        others = await source.look([first for first in firsts if first not in positions], {})
        if others:
            # Another instance writes to the history before it commits.
            await self.load()
        await self._follower.begin({first: others[first].offset for first in others})

    async def ready(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Learn entries of other instances in the history, and the DDL that polled records need.

        Raises PollFailed.
        """
        if self._topic is not None and (new := await self._topic.new()):
            self._unlearned += new
        if self._unlearned:
            await self._learn(self._entries())
            self._unlearned.clear()
        if self._follower is not None:
            await self._follower.wait_for(polled)

    @property
    def holds_much(self) -> bool:
        """Return whether all rounds should be settled to release records learned out of turn.

        True once the records learned since everything was last safe exceed a number of bytes.
        """
        return self._bytes_kept + (self._follower.bytes_kept if self._follower else 0) > self._most_bytes

    def settled(self, positions: Mapping[Partition, int]) -> None:
        """Release records learned out of turn: everything before these positions is safe.

        Nothing is in flight, so the translator's state is never reset to one before them.
        """
        self._kept.clear()
        self._bytes_kept = 0
        if self._follower is not None:
            self._follower.settled(positions)

    async def rewound(self, positions: Mapping[Partition, int]) -> None:
        """Make the translator, whose state was reset, learn again the records learned out of turn.

        The loop reads again from these positions.
        """
        for record in list(self._kept.values()):
            self._status.heartbeat()
            await self._apply(record)
        self.ddl_order.rewound()
        if self._follower is not None:
            await self._follower.rewound(positions)

    async def stop(self) -> None:
        """Disconnect."""
        if self._topic is not None:
            await self._topic.stop()
        if self._follower is not None:
            await self._follower.stop()

    def _entries(self) -> list[ConsumerRecord]:
        """Return source records that were read and not learned yet; log entries of other routes and programs.

        Raises TopicUnusable.
        """
        found = entries_of(self._unlearned).checked()
        for each in found.unreadable:
            if each.kept.offset not in self._foreign_records:
                self._foreign_records[each.kept.offset] = str(each)
                self._log.rate_limited("schemas.foreign-record", "", message=f"{each}; {_REPAIR}")
        self._note_routes(self._unlearned)
        return found.records

    def _note_routes(self, kept: Iterable[ConsumerRecord]) -> None:
        """Count the entries of this route, and log the names of others, each once."""
        names = [dict(each.headers).get(ROUTE_HEADER) for each in kept]
        routes = Counter(name.decode(errors="replace") for name in names if name is not None)
        self._own_records += routes.pop(self._route, 0)
        if new := sorted(routes.keys() - self._other_routes):
            self._other_routes.update(new)
            self._log.warning("schemas.shared", routes=new, message=_SHARED)

    async def _learn(self, records: Sequence[ConsumerRecord]) -> int:
        """Learn, yielding to heartbeats in between; return how many records could not be read.

        A cancelled caller may begin again: nothing is learned twice.
        """
        self._log_foreign(records)
        failed, pause_at = 0, time.monotonic() + _YIELD_SECONDS
        for record in records:
            self._kept[record.topic, record.partition, record.offset] = record
            if self._follower is not None:
                self._follower.written((source_topic(record), record.partition, record.offset))
            self._bytes_kept += size_of([record])
            failed += not await self._apply(record)
            if time.monotonic() >= pause_at:
                self._status.heartbeat()
                await asyncio.sleep(0)
                pause_at = time.monotonic() + _YIELD_SECONDS
        return failed

    async def _apply(self, record: ConsumerRecord) -> bool:
        """Apply a record to the translator; return whether the translator could read it."""
        try:
            await learn(self._resolver, self._translator, record)
        except (CodecError, Need):
            return False
        return True

    def _log_foreign(self, records: Sequence[ConsumerRecord]) -> None:
        """Log topics that are not read here, each once: another route may use the same history."""
        foreign = [
            topic
            for record in records
            if is_from_stream(record) and (topic := source_topic(record)) not in self._source_topics
        ]
        if new := set(foreign) - self._foreign:
            self._foreign |= new
            self._log.warning(
                "schemas.foreign", topics=sorted(new), records=sum(topic in new for topic in foreign)
            )


async def read_history(config: Config) -> list[ConsumerRecord]:
    """Return all source records of the configured history, in order; none without a history.

    Raises ServiceError.
    """
    if not config.history_topic:
        return []
    topic = WholeTopic(Brokers.from_settings(target_cluster(config)), config.history_topic)
    try:
        found: list[ConsumerRecord] = []
        await topic.to_end(found.extend)
        return source_records(found)
    finally:
        await topic.stop()
