"""Select topics and partitions of events from rules, the catalog and earlier rows; hold watermarks back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple, Protocol

import msgspec

from relay.catalog import Catalog
from relay.model.errors import NotRepresentable, UnusableTopicName
from relay.model.events import Bootstrap, Event, Position, RowChange, SchemaChange, TableId, Watermark
from relay.model.persistent_dict import PersistentDict
from relay.model.records import ConsumerRecord
from relay.model.table_globs import tables_of
from relay.mysql.ddl.parts import parts
from relay.routing.partitioning import ByKey, Partitioning, key_hash, table_hash
from relay.routing.rules import TopicRoute, TopicRule, topic_routes
from relay.routing.topic_names import TOPIC, unusable


class WatermarkGate(msgspec.Struct, frozen=True):
    """Watermarks of repartitioned rows: one is valid in every target partition once all source partitions
    have reached it.

    reached: The newest watermark of every source partition seen so far (None: only rows).
    passed: The newest watermark that was written.

    A value; `with_partition` and `after` return the next one.
    """

    reached: dict[tuple[str, int], int | None] = {}
    passed: int = -1

    def with_partition(self, record: ConsumerRecord) -> WatermarkGate:
        """Return the gate after a record of this partition."""
        key = record.topic, record.partition
        return self if key in self.reached else WatermarkGate(self.reached | {key: None}, self.passed)

    def after(self, mark: Watermark, record: ConsumerRecord) -> tuple[Watermark | None, WatermarkGate]:
        """Return the watermark that all partitions have now reached (None if not new), and the next gate."""
        key = record.topic, record.partition
        own = max(mark.source.commit_ts or 0, self.reached.get(key) or 0)
        reached = self.reached | {key: own}
        lowest = min(-1 if each is None else each for each in reached.values())
        if lowest <= self.passed:
            return None, WatermarkGate(reached, self.passed)
        source = msgspec.structs.replace(mark.source, commit_ts=lowest)
        return Watermark(source, mark.emitted_at_ns), WatermarkGate(reached, lowest)


#: Topics and partitions; with `ByKey`, a record's partition is known after it is encoded.
Destinations = Sequence[tuple[str, int]] | ByKey
#: Events in order, and the destinations of each of their messages.
Group = tuple[Destinations, Sequence[Event]]


class _TablePath(msgspec.Struct, frozen=True):
    """The destinations of a table's events from one source topic.

    destinations: Destinations of all its rows; None if they differ per row.
    mark: Key made of the source and target topic.
    owner: Identifies the table among tables with the same topic.
    conflicts: Tables that would have the same topic.
    """

    topic: str
    route: TopicRoute
    destinations: Destinations | None
    mark: str
    owner: tuple[str, ...]
    conflicts: tuple[TableId, ...]


class TopicsInUse(msgspec.Struct, frozen=True):
    """Topics in use that only rows have shown, not the catalog. A value, like the catalog.

    tables: One table without a definition for each source topic and target topic.
    owners: The first table of each target topic that another table might share, with the names from which the
        topic's name is built.
    """

    tables: PersistentDict[tuple[str, TableId]] = msgspec.field(default_factory=PersistentDict)
    owners: PersistentDict[tuple[tuple[str, ...], TableId]] = msgspec.field(default_factory=PersistentDict)


class RoutedEvents(NamedTuple):
    """The destinations of a record's events.

    groups: Groups of events in order, with their destinations.
    written: The events in these groups.
    gate, seen: The router's state after the record.
    copies: Number of statements that are not written, because partition 0 has them, too.
    unrouted: Events without a topic.
    """

    groups: Sequence[Group]
    written: list[Event]
    gate: WatermarkGate | None
    seen: TopicsInUse
    copies: int
    unrouted: Sequence[Event]


class Renaming(Protocol):
    """The names of tables in the target, if they differ from the source's."""

    def target_of(self, table: TableId) -> TableId:
        """Return the name in the target of a table of the source."""
        ...

    def source_of(self, table: TableId) -> TableId:
        """Return the name in the source of a table in the latest events, which have the target's names."""
        ...


MAX_PATHS: Final = 100_000


class Router:
    """Selects the topic and partitions of every event.

    topic, partitions, partition_by: Defaults for tables that no rule matches; the first match applies.
    reads_ddl_everywhere, writes_ddl_everywhere: Whether all partitions of the source or target have a copy of
        DDL.
    reserved: Topics that no table may use.
    selects: Returns whether a table of the source is selected; None selects all.
    renaming: The names of tables in the target; None if events have the source's names.
    max_paths: Maximum tables whose paths are cached; beyond that the cache is cleared.

    The router keeps only caches, the source's partitions (`expect`), and the numbers of partitions of written
    topics if they differ, whose count the cluster's number of topics limits. Raises ConfigError.
    """

    def __init__(  # noqa: PLR0913 - the parts of a route
        self,
        topic: str = "{topic}",
        partitions: int | None = None,
        partition_by: Partitioning | None = None,
        rules: Sequence[TopicRule] = (),
        *,
        reads_ddl_everywhere: bool = False,
        writes_ddl_everywhere: bool = False,
        reserved: frozenset[str] = frozenset(),
        selects: Callable[[TableId], bool] | None = None,
        renaming: Renaming | None = None,
        max_paths: int = MAX_PATHS,
    ) -> None:
        self._max_paths = max_paths
        self._rest, *self._rules = topic_routes(topic, partitions, partition_by, rules)
        self._reads_ddl_everywhere = reads_ddl_everywhere
        self._writes_ddl_everywhere = writes_ddl_everywhere
        self._reserved, self._selects, self._renaming = reserved, selects, renaming
        self._fed: dict[str, tuple[int, ...]] = {}
        self._all_fed: tuple[int, ...] = ()
        self._paths: dict[tuple[str, TableId], _TablePath] = {}
        self._keys: dict[TableId, tuple[str, ...]] = {}
        ways = (self._rest, *self._rules)
        self._widths = {route.width for route in ways}
        #: Number of partitions over which a topic's rows are distributed, if it differs between topics.
        self._partitions: dict[str, int] = {}
        #: Whether rows of some tables are repartitioned, and of all tables.
        self.spreads = any(route.partitions is not None for route in ways)
        self._spreads_all = all(route.partitions is not None for route in ways)
        #: Whether partitions may depend on the key that the target format gives a row.
        self.goes_by_key = any(route.by is Partitioning.KEY and not route.key for route in ways)
        #: Whether rules choose the columns of keys.
        self.chooses_keys = any(route.key for route in ways)
        #: Whether all tables of a source topic share one topic.
        self.is_one_topic = not self._rules and not self._rest.topic.is_by_table
        self._has_owners = any(route.topic.is_ambiguous for route in ways) or (
            len(ways) > 1 and any(route.topic.is_by_table for route in ways)
        )

    @property
    def makes_copies(self) -> bool:
        """Whether a statement may be copied to all partitions that the target topic gets from its sources."""
        is_everywhere = self._writes_ddl_everywhere and not self._reads_ddl_everywhere
        return is_everywhere and not self._spreads_all

    @property
    def moves_rows(self) -> bool:
        """Whether rows may go to another topic or partition than their source's."""
        return self.spreads or not self.is_one_topic

    @property
    def has_topics_of_tables_alone(self) -> bool:
        """Whether events about no table, such as the end of a transaction, have no topic."""
        return self._rest.topic.is_by_table

    @property
    def moves(self) -> Callable[[Sequence[Event]], bool] | None:
        """Returns whether any of these events may go elsewhere than to its own partition of the single topic;
        None if none ever does.

        Statements, and definitions without one, may if the two protocols have them in different partitions.
        """
        if self.moves_rows:
            return lambda _: True
        return _has_statement if self._reads_ddl_everywhere != self._writes_ddl_everywhere else None

    def expect(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Set the complete list of the source's partitions (topic, number)."""
        numbers: dict[str, set[int]] = defaultdict(set)
        for topic, number in partitions:
            numbers[topic].add(number)
        self._fed = {topic: tuple(sorted(found)) for topic, found in numbers.items()}
        self._all_fed = tuple(sorted(set().union(*numbers.values())))

    def topic_of(self, topic: str) -> str:
        """Return the target topic of a source topic, if all its tables share one."""
        return self._rest.topic.of_topic(topic)

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions over which a written table topic's rows are distributed; None if
        they keep the source's partitions.
        """
        return self._partitions.get(topic) if len(self._widths) > 1 else next(iter(self._widths))

    def key_of(self, table: TableId) -> tuple[str, ...]:
        """Return the columns that a rule chooses for the keys of a table's rows; () if no rule does."""
        found = self._keys.get(table)
        if found is None:
            if len(self._keys) >= self._max_paths:
                self._keys.clear()
            found = self._keys[table] = self._route_of(table).key
        return found

    def topic_of_row(self, event: Event, record: ConsumerRecord, seen: TopicsInUse) -> str | None:
        """Return the topic of a record's only event without calling `spread`; None if `spread` must decide.

        The shortcut applies if the event is a row of a table that had one before, and there is nothing to
        check or to remember. It is only for routes that keep the source's partition.
        """
        if type(event) is not RowChange:
            return None
        path = self._paths.get((record.topic, event.schema.id))
        if path is None or path.conflicts or not (event.schema.complete or path.mark in seen.tables):
            return None
        if self._has_owners:
            owner = seen.owners.get(path.topic)
            if owner is None or owner[0] != path.owner:
                return None
        return path.topic

    def spread(
        self,
        events: Sequence[Event],
        record: ConsumerRecord,
        catalog: Catalog,
        gate: WatermarkGate | None,
        seen: TopicsInUse,
    ) -> RoutedEvents:
        """Select the destinations of all events of a record. Raises UnusableTopicName."""
        out = _RoutingState(record, catalog, gate if gate is None else gate.with_partition(record), seen)
        for event in events:
            if isinstance(event, RowChange):
                self._row(event, out)
            elif isinstance(event, SchemaChange):
                self._statement(event, out)
            elif isinstance(event, Watermark):
                self._watermark(event, out)
            elif isinstance(event, Bootstrap):
                path = self._path(record.topic, event.schema.id)
                if self._accepts(path.route, record):
                    out.add(event, self._of_ddl(path.topic, path.route, record))
                else:
                    out.copies += 1
            elif self._rest.topic.is_by_table:
                out.unrouted.append(event)
            else:
                out.add(event, _everywhere(self.topic_of(record.topic), self._rest, record))
        return RoutedEvents(out.groups, out.written, out.gate, out.seen, out.copies, out.unrouted)

    def _row(self, change: RowChange, out: _RoutingState) -> None:
        record, table = out.record, change.table
        path = self._paths.get((record.topic, table)) or self._path(record.topic, table)
        if path.conflicts:
            _check_conflicts(table, path, out.catalog, change.source.at(record))
        if self._has_owners:
            out.seen = _owned(out.seen, table, path)
        if not change.schema.complete and path.mark not in out.seen.tables:
            tables = out.seen.tables.with_one(path.mark, (record.topic, table))
            out.seen = msgspec.structs.replace(out.seen, tables=tables)
        destinations = path.destinations
        if destinations is None:
            if path.route.partitions is None:
                destinations = ((path.topic, record.partition),)
            else:
                destinations = ((path.topic, key_hash(change) % path.route.partitions),)
        out.add(change, destinations)

    def _statement(self, change: SchemaChange, out: _RoutingState) -> None:
        record, found = out.record, dict[str, TopicRoute]()
        tables: defaultdict[str, list[TableId]] = defaultdict(list)
        for table in tables_of(change):
            if not table.table:
                found |= self._in_use(change, out, table.database)
            elif self._is_selected(table):
                path = self._path(record.topic, table)
                found[path.topic] = path.route
                tables[path.topic].append(table)
        taken = {topic: route for topic, route in found.items() if self._accepts(route, record)}
        separate: list[SchemaChange] = []
        if len(taken) > 1 and tables.keys() == found.keys():
            separate = parts(change, [tables[topic] for topic in taken])
        if separate:
            # Copying it entirely to each of n topics would yield up to n² messages if each table has a
            # separate topic.
            for item, part in zip(taken.items(), separate, strict=True):
                out.add_part(part, self._of_ddl(*item, record))
            out.written.append(change)
        elif taken:
            out.add(change, [each for item in taken.items() for each in self._of_ddl(*item, record)])
        elif found or not self._accepts(self._rest, record):
            out.copies += 1
        else:
            out.unrouted.append(change)

    def _is_selected(self, table: TableId) -> bool:
        """Return whether a table of an event is selected."""
        if self._selects is None:
            return True
        return self._selects(table if self._renaming is None else self._renaming.source_of(table))

    def _accepts(self, route: TopicRoute, record: ConsumerRecord) -> bool:
        """Return whether a statement in this partition is written, not only its copy in partition 0."""
        has_copies_itself = route.partitions is None and self._writes_ddl_everywhere
        return not record.partition or not self._reads_ddl_everywhere or has_copies_itself

    def _of_ddl(self, topic: str, route: TopicRoute, record: ConsumerRecord) -> list[tuple[str, int]]:
        """Return the destinations of a statement in one topic."""
        if route.width is not None:
            return [(topic, at) for at in (range(route.width) if self._writes_ddl_everywhere else (0,))]
        if self._reads_ddl_everywhere or not self._writes_ddl_everywhere:
            return [(topic, record.partition)]
        fed = self._all_fed if TOPIC not in route.topic.fields else self._fed.get(record.topic, ())
        return [(topic, at) for at in (fed if record.partition in fed else (*fed, record.partition))]

    def _watermark(self, mark: Watermark, out: _RoutingState) -> None:
        """Write a watermark: the original if partitions are kept, the lowest if rows are distributed."""
        passed = None
        if out.gate is not None:
            passed, out.gate = out.gate.after(mark, out.record)
        topics = self._in_use(mark, out)
        kept = [(topic, out.record.partition) for topic, route in topics.items() if route.partitions is None]
        spread = [(topic, at) for topic, route in topics.items() for at in range(route.width or 0)]
        if kept:
            out.add(mark, kept)
        if spread and passed is not None:
            out.add(passed, spread)
        if not topics:
            out.unrouted.append(mark)

    def _in_use(
        self, event: SchemaChange | Watermark, out: _RoutingState, database: str = ""
    ) -> dict[str, TopicRoute]:
        """Return the topics in use before an event, with their rules. `database`: its database; "": all."""
        record, found = out.record, dict[str, TopicRoute]()
        if not self._rest.topic.is_by_table:
            found[self.topic_of(record.topic)] = self._rest
            if not self._rules:
                return found
        known: Iterable[TableId] = out.catalog.tables(record.topic, event.source.at(record))
        if self._selects is not None:
            known = filter(self._selects, known)
        if self._renaming is not None:
            known = _renamed(known, self._renaming)
        # Only rows of selected tables are seen.
        without = (table for topic, table in out.seen.tables.values() if topic == record.topic)
        for table in chain(known, without):
            if database not in ("", table.database):
                continue
            with suppress(UnusableTopicName):
                path = self._paths.get((record.topic, table)) or self._path(record.topic, table)
                found[path.topic] = path.route
        return found

    def _path(self, topic: str, table: TableId) -> _TablePath:
        """Return the destinations of a table's events. Raises UnusableTopicName."""
        found = self._paths.get((topic, table))
        if found is None:
            found = self._new_path(topic, table)
            if len(self._paths) >= self._max_paths:
                self._paths.clear()
            self._paths[topic, table] = found
            if found.route.width is not None and len(self._widths) > 1:
                self._partitions[found.topic] = found.route.width
        return found

    def _new_path(self, topic: str, table: TableId) -> _TablePath:
        route = self._route_of(table)
        name = route.topic.name(topic, table) if route.topic.is_by_table else route.topic.of_topic(topic)
        if route.topic.is_by_table and name in self._reserved:
            raise unusable(table, f"would be {name}, which relay uses for itself or reads")
        conflicts = route.topic.conflicting_tables(topic, table) if route.topic.is_ambiguous else ()
        owner = route.topic.text, *route.topic.named(topic, table)
        return _TablePath(
            topic=name,
            route=route,
            destinations=_row_destinations(name, route, table),
            mark=f"{topic}\0{name}",
            owner=owner,
            conflicts=tuple(other for other in conflicts if self._route_of(other) == route),
        )

    def _route_of(self, table: TableId) -> TopicRoute:
        matching = (route for route in self._rules if route.match is not None and route.match.matches(table))
        return next(matching, self._rest)


class _RoutingState:
    """The routing of a record's events in progress: the members of `RoutedEvents` so far."""

    __slots__ = ("catalog", "copies", "gate", "groups", "record", "seen", "unrouted", "written")

    def __init__(
        self, record: ConsumerRecord, catalog: Catalog, gate: WatermarkGate | None, seen: TopicsInUse
    ) -> None:
        self.record, self.catalog, self.gate, self.seen = record, catalog, gate, seen
        self.groups: list[tuple[Destinations, list[Event]]] = []
        self.written: list[Event] = []
        self.unrouted: list[Event] = []
        self.copies = 0

    def add(self, event: Event, destinations: Destinations) -> None:
        """Write an event, grouped with the events before it if they have the same destinations."""
        self.written.append(event)
        self.add_part(event, destinations)

    def add_part(self, event: Event, destinations: Destinations) -> None:
        """Like `add`, for an event that is only part of the written one."""
        if self.groups and self.groups[-1][0] == destinations:
            self.groups[-1][1].append(event)
        else:
            self.groups.append((destinations, [event]))


def _renamed(tables: Iterable[TableId], renaming: Renaming) -> Iterator[TableId]:
    """Yield the names of tables in the target, of those that have one."""
    for table in tables:
        with suppress(NotRepresentable):
            name = renaming.target_of(table)
            yield name


def _row_destinations(topic: str, route: TopicRoute, table: TableId) -> Destinations | None:
    """Return the destinations of all rows of a table; None if each row has its own."""
    if route.by is Partitioning.TABLE:
        return ((topic, table_hash(table) % (route.partitions or 1)),)
    if route.by is Partitioning.KEY:
        count = route.partitions or 1
        return ByKey(topic, count, table_hash(table) % count)
    return None


def _has_statement(events: Sequence[Event]) -> bool:
    for event in events:  # noqa: SIM110 - a generator would cost every record
        if type(event) is SchemaChange or type(event) is Bootstrap:
            return True
    return False


def _everywhere(topic: str, route: TopicRoute, record: ConsumerRecord) -> Destinations:
    """Return the destinations of an event that concerns all rows of a topic."""
    if route.width is None:
        return ((topic, record.partition),)
    return [(topic, at) for at in range(route.width)]


def _check_conflicts(table: TableId, path: _TablePath, catalog: Catalog, at: Position) -> None:
    """Refuse a table if another table with the same topic is known. Raises UnusableTopicName."""
    for other in path.conflicts:
        if catalog.has(other, at):
            raise unusable(table, f"would be {path.topic}, which is also that of table {other}")


def _owned(seen: TopicsInUse, table: TableId, path: _TablePath) -> TopicsInUse:
    """Record the table of a topic. Raises UnusableTopicName if it is another table's."""
    first = seen.owners.get(path.topic)
    if first is None:
        owners = seen.owners.with_one(path.topic, (path.owner, table))
        return msgspec.structs.replace(seen, owners=owners)
    if first[0] != path.owner:
        raise unusable(table, f"would be {path.topic}, which is also that of table {first[1]}")
    return seen
