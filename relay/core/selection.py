"""Selects the events to translate: by time, table and kind. Omitted events still update the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from relay.codecs.losses import Loss, loss_of
from relay.model.errors import ConfigError, Problem
from relay.model.events import (
    Bootstrap,
    Event,
    Heartbeat,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    TransactionMark,
    Watermark,
)
from relay.model.table_globs import TableFilter, TableGlob
from relay.text.redaction import quoted

#: Kinds of events, by their public names: rows by their operation, all others by their class.
KINDS: Final[dict[Op | type[Event], str]] = {
    Op.INSERT: "insert",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.READ: "read",
    SchemaChange: "schema-change",
    Watermark: "watermark",
    Bootstrap: "bootstrap",
    TransactionMark: "transaction-mark",
    Heartbeat: "heartbeat",
}


class Selection(NamedTuple):
    """Selects the events to translate.

    since_commit_ts, before_commit_ts: Select events at or after the one commit ts and before the other. An
        event without a commit ts is selected by its event time. Two translators whose bounds meet therefore
        return each event once.
    watermarks, ddl: Whether to select watermarks and DDL. The target options of the same names also apply.
    definitions: The target's rows need definitions: an omitted statement is replaced with a Bootstrap for
        each definition that it creates.
    tables: Selected tables; None for all. An event without a table is always selected.
    left_out_kinds: Kinds of events that are not selected.
    """

    since_commit_ts: int = 0
    before_commit_ts: int | None = None
    watermarks: bool = True
    ddl: bool = True
    definitions: bool = False
    tables: TableFilter | None = None
    left_out_kinds: frozenset[str] = frozenset()

    def filter(self, events: list[Event]) -> tuple[list[Event], Sequence[Loss]]:
        """Return the events to translate, and the losses to count.

        The losses are those of omitted tables, kinds, watermarks and DDL, but not of events out of bounds.
        """
        kept: list[Event] = []
        left_out: list[Loss] = []
        for event in events:
            if not self._is_within(event.source.tso):
                continue
            if self.tables is not None and not _is_of(event, self.tables):
                left_out.append(Loss.TABLES_FILTERED)
            elif self.left_out_kinds and kind_of(event) in self.left_out_kinds:
                left_out.append(Loss.EVENTS_FILTERED)
                kept += self._definitions_instead(event)
            elif isinstance(event, Watermark) and not self.watermarks:
                left_out.append(Loss.WATERMARK)
            elif isinstance(event, SchemaChange) and not self.ddl:
                left_out.append(loss_of(event))
                kept += self._definitions_instead(event)
            elif isinstance(event, Bootstrap) and not (self.ddl or self.definitions):
                left_out.append(Loss.BOOTSTRAP)
            else:
                kept.append(event)
        return kept, left_out

    def _is_within(self, commit_ts: int) -> bool:
        """Return whether a commit ts is within the bounds."""
        # An event before 1970 has a negative commit ts, which the default bound must not exclude.
        if self.since_commit_ts and commit_ts < self.since_commit_ts:
            return False
        return self.before_commit_ts is None or commit_ts < self.before_commit_ts

    def _definitions_instead(self, event: Event) -> Iterator[Bootstrap]:
        """Yield the definitions that rows need from an omitted event."""
        if self.definitions and isinstance(event, SchemaChange):
            yield from (each for each in event.definitions_after() if self.has_table(each.schema.id))

    @classmethod
    def choosing(
        cls,
        *,
        include_tables: Iterable[str] = (),
        exclude_tables: Iterable[str] = (),
        include_events: Iterable[str] = (),
        exclude_events: Iterable[str] = (),
    ) -> Selection:
        """Create a selection of tables by globs (`shop.*`) and of events by kinds, as in the configuration.

        The keys have the names of the arguments. Raises ConfigError with all problems.
        """
        problems: list[Problem] = []
        found = cls()
        try:
            found = found._replace(tables=chosen_tables(include_tables, exclude_tables))
        except ConfigError as error:
            problems += error.problems
        try:
            found = found._replace(left_out_kinds=left_out_kinds(include_events, exclude_events))
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        return found

    def has_table(self, table: TableId) -> bool:
        """Return whether a table is selected."""
        return self.tables is None or self.tables.has(table)


def kind_of(event: Event) -> str:
    """Return the event's name in counters: `insert`, `update` … for rows, else the name of its class."""
    return KINDS[event.op if isinstance(event, RowChange) else type(event)]


def _is_of(event: Event, tables: TableFilter) -> bool:
    """Return whether an event is about a selected table, or about none."""
    if isinstance(event, RowChange):
        return tables.has(event.table)
    if isinstance(event, SchemaChange):
        return tables.has_any(event)
    return not isinstance(event, Bootstrap) or tables.has(event.schema.id)


def chosen_tables(include: Iterable[str], exclude: Iterable[str]) -> TableFilter | None:
    """Parse globs for tables; return None if there are none.

    Raises ConfigError with all problems, with the keys `include_tables` and `exclude_tables`.
    """
    problems: list[Problem] = []
    globs: dict[str, list[TableGlob]] = {}
    for key, texts in (("include_tables", include), ("exclude_tables", exclude)):
        globs[key] = []
        for text in texts:
            try:
                globs[key].append(TableGlob.parse(text))
            except ValueError as error:
                problems.append(Problem(key, f"{quoted(text)} {error}"))
    if problems:
        raise ConfigError(problems)
    found = TableFilter(tuple(globs["include_tables"]), tuple(globs["exclude_tables"]))
    return None if found == TableFilter() else found


def left_out_kinds(include: Iterable[str], exclude: Iterable[str]) -> frozenset[str]:
    """Return the kinds of events that are not selected.

    Raises ConfigError with all problems, with the keys `include_events` and `exclude_events`.
    """
    kinds = frozenset(KINDS.values())
    included, excluded = frozenset(include), frozenset(exclude)
    problems = [
        Problem(key, f"unknown kind of event {quoted(name)}", f"kinds: {', '.join(KINDS.values())}")
        for key, names in (("include_events", included), ("exclude_events", excluded))
        for name in sorted(names - kinds)
    ]
    if problems:
        raise ConfigError(problems)
    return (kinds - included if included else frozenset()) | excluded
