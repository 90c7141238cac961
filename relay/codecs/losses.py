"""Capabilities of wire formats, and the losses that are counted without them.

`Loss` names the counters, `Capabilities` describes a format with given options, `source_losses` counts the
facts of an event's `Source` that a target lacks. `refused_losses` reads the target option `strict`: `false`
refuses nothing, `true` or `all` every kind that is a loss; `commit-ts` adds one, `-commit-ts` takes one from
`all`.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from relay.model.errors import Problem
from relay.model.events import (
    Bootstrap,
    DdlKind,
    Event,
    Heartbeat,
    SchemaChange,
    Source,
    Transaction,
    TransactionMark,
    Watermark,
)
from relay.text.hints import hint_for
from relay.text.redaction import quoted


class Loss(enum.StrEnum):
    """The losses of a route: the names of the counters."""

    COMMIT_TS = "commit-ts"
    COMMIT_TS_SYNTHETIC = "commit-ts-synthetic"
    WATERMARK = "watermark"
    TRANSACTION_MARK = "transaction-mark"
    HEARTBEAT = "heartbeat"
    DDL = "ddl"
    TRUNCATE_OR_DROP = "truncate-or-drop"
    ADMIN_STATEMENT = "admin-statement"
    TOMBSTONE = "tombstone"
    STATEMENT = "statement"
    GTID = "gtid"
    ROW_KEY = "row-key"
    UNKNOWN_FIELDS = "unknown-fields"
    PHYSICAL_PARTITION = "physical-partition"
    SCHEMA_ID = "schema-id"
    TRAIL_POSITION = "trail-position"
    SNAPSHOT = "snapshot"
    SCHEMA_INFERRED = "schema-inferred"
    VALUE_INFERRED = "value-inferred"
    DDL_NOT_UNDERSTOOD = "ddl-not-understood"
    DDL_NOT_REWRITTEN = "ddl-not-rewritten"
    DDL_MERGED = "ddl-merged"
    BEFORE_MISSING = "before-missing"
    COLUMNS_ABSENT = "columns-absent"
    TYPE_PARAMETERS = "type-parameters"
    DELETE = "delete"
    DELETE_IMAGE = "delete-image"
    BEFORE_IMAGE = "before-image"
    INVALID_TEXT = "invalid-text"
    COLUMN_TYPE = "column-type"
    COLUMN_NAMES = "column-names"
    UNTYPED = "untyped"
    START_TS = "start-ts"
    SOURCE_NAME = "source-name"
    EMPTY_ROW = "empty-row"
    DECIMAL_DIGITS = "decimal-digits"
    ZERO_DATE = "zero-date"
    TIME_RANGE = "time-range"
    YEAR_BELOW_100 = "year-below-100"
    ENUM_INDEX = "enum-index"
    JSON_NULL = "json-null"
    NULL_REPLACED_BY_DEFAULT = "null-replaced-by-default"
    NULL_OR_DEFAULT = "null-or-default"
    EPOCH_OR_ZERO_DATE = "epoch-or-zero-date"
    REPEATED_HOUR = "repeated-hour"
    ZONE_INFERRED = "zone-inferred"
    CHECKSUM = "checksum"
    PRIMARY_KEY = "primary-key"
    EVENT_TIME = "event-time"
    EVENT_TIME_PRECISION = "event-time-precision"
    BINLOG_POSITION = "binlog-position"
    BINLOG_POSITION_SYNTHETIC = "binlog-position-synthetic"
    BINLOG_ROW = "binlog-row"
    SERVER_ID = "server-id"
    THREAD_ID = "thread-id"
    QUERY = "query"
    TRANSACTION = "transaction"
    TRANSACTION_ORDER = "transaction-order"
    TRANSACTION_TOTAL = "transaction-total"
    BOOTSTRAP = "bootstrap"
    DDL_COPIES = "ddl-copies"
    TABLE_DEFINITION = "table-definition"
    RECORD_TIME = "record-time"
    TABLES_FILTERED = "tables-filtered"
    EVENTS_FILTERED = "events-filtered"
    COLUMNS_FILTERED = "columns-filtered"
    ROWS_FILTERED = "rows-filtered"
    ROWS_DEDUPLICATED = "rows-deduplicated"
    ROWS_BELOW_WATERMARK = "rows-below-watermark"
    REPEATS_ABOVE_WATERMARK = "repeats-above-watermark"
    NO_TOPIC = "no-topic"

    # Counted for every row; Enum's own hash is a Python function.
    __hash__ = str.__hash__


#: Counted although nothing is lost: facts that relay had to assume, text that passes without being
#: understood, statements that change no table and are not written, copies of a statement that the target has
#: once (of other partitions, or of other shards of a merged table), invalid timestamps of records (they are
#: kept, but messages cannot have them), events left out on request, rows that may be repeated and are
#: written, facts of no table while no topic is in use yet, and records without a value, which have no
#: content: a target with tombstones writes its own.
INFORMATIONAL: Final = frozenset(
    {
        Loss.SCHEMA_INFERRED,
        Loss.DDL_NOT_UNDERSTOOD,
        Loss.ADMIN_STATEMENT,
        Loss.NULL_OR_DEFAULT,
        Loss.EPOCH_OR_ZERO_DATE,
        Loss.REPEATED_HOUR,
        Loss.ZONE_INFERRED,
        Loss.DDL_COPIES,
        Loss.DDL_MERGED,
        Loss.TABLE_DEFINITION,
        Loss.RECORD_TIME,
        Loss.TABLES_FILTERED,
        Loss.EVENTS_FILTERED,
        Loss.COLUMNS_FILTERED,
        Loss.ROWS_FILTERED,
        Loss.ROWS_DEDUPLICATED,
        Loss.ROWS_BELOW_WATERMARK,
        Loss.REPEATS_ABOVE_WATERMARK,
        Loss.NO_TOPIC,
        Loss.TOMBSTONE,
    }
)


#: Those of them that relay had to assume: another source, or an earlier statement, would have had the fact.
INFERRED: Final = frozenset(
    {
        Loss.SCHEMA_INFERRED,
        Loss.NULL_OR_DEFAULT,
        Loss.EPOCH_OR_ZERO_DATE,
        Loss.REPEATED_HOUR,
        Loss.ZONE_INFERRED,
    }
)
#: The kinds that `all` refuses.
LOSSES: Final = frozenset(Loss) - INFORMATIONAL
#: Events left out on request, before `strict` could refuse them.
_ON_REQUEST: Final = frozenset(
    {
        Loss.TABLES_FILTERED,
        Loss.EVENTS_FILTERED,
        Loss.COLUMNS_FILTERED,
        Loss.ROWS_FILTERED,
        Loss.ROWS_DEDUPLICATED,
    }
)
_ALL: Final = frozenset({"all", "true", "1"})
_NONE: Final = frozenset({"", "false", "0", "none"})
#: Earlier names of kinds, so that the error about an old name gives the new one.
_RENAMED: Final[Mapping[str, Loss]] = {
    "schema-guessed": Loss.SCHEMA_INFERRED,
    "value-guessed": Loss.VALUE_INFERRED,
    "zone-guessed": Loss.ZONE_INFERRED,
    "before-unknown": Loss.BEFORE_MISSING,
    "extras": Loss.UNKNOWN_FIELDS,
    "names": Loss.COLUMN_NAMES,
    "kind-left-out": Loss.EVENTS_FILTERED,
    "table-left-out": Loss.TABLES_FILTERED,
}
#: The name of a kind in a text of `strict`, without the sign before it.
_KIND_NAME: Final = re.compile(r"[a-z][a-z-]*")
_KINDS: Final[dict[str, Loss]] = {kind.value: kind for kind in Loss}
_LISTED_BY: Final = "`relay formats --from … --to …` names those of a route, docs/protocols.md lists all"


def refused_losses(text: str) -> frozenset[Loss]:
    """Return the kinds that a text refuses; the text must have no `strict_problems`."""
    refused: set[Loss] = set()
    accepted: set[Loss] = set()
    for name in _names(text):
        if name in _ALL:
            refused |= LOSSES
        elif name.startswith("-"):
            accepted.add(_KINDS[name[1:]])
        elif name not in _NONE:
            refused.add(_KINDS[name])
    return frozenset(refused - accepted)


def strict_without(refused: frozenset[Loss], lost: frozenset[Loss]) -> str:
    """Return the text that refuses the same kinds but for some; "false" if nothing is left."""
    left = refused - lost
    taken = LOSSES - left
    if not left or len(taken) > len(left):
        return ",".join(sorted(left)) or "false"
    return ",".join(["all", *(f"-{kind}" for kind in sorted(taken)), *sorted(left - LOSSES)])


def with_present_names(text: str) -> str:
    """Return a text of `strict` with the present names of kinds that were renamed."""
    return _KIND_NAME.sub(lambda found: _RENAMED.get(found[0], found[0]), text)


def strict_problems(text: str) -> list[Problem]:
    """Return the problems of the text; `path` is the option's name."""
    return [Problem("strict", *fault) for fault in _faults(_names(text))]


def _faults(names: list[str]) -> Iterator[tuple[str, str]]:
    """Find the problems of kinds' names, each with a hint."""
    takes_all = not _ALL.isdisjoint(names)
    for name in names:
        kind = name.removeprefix("-")
        if name in _NONE and len(names) > 1:
            yield f"{name} cannot be combined with other kinds", "leave it out"
        elif name in _ALL or name in _NONE:
            continue
        elif kind not in _KINDS:
            hint = hint_for(kind, [*_KINDS, "all"], _LISTED_BY, new_name=_RENAMED.get(kind))
            yield f"unknown kind of loss {quoted(kind)}", hint
        elif _KINDS[kind] in _ON_REQUEST:
            yield f"{kind} is left out on request, which is never refused", "leave it out"
        elif kind != name and not takes_all:
            yield f"{name} excludes a kind, but no kinds are refused", f"write all,{name}"
        elif name in names and kind != name and kind in names:
            yield f"{kind} is both included and excluded", "keep one of the two"


def _names(text: str) -> list[str]:
    """Parse a list: separated by commas, or as JSON and TOML write it."""
    names: object = None
    if text.startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
    if not isinstance(names, list):
        names = text.split(",")
    return [str(name).strip().lower() for name in names] or [""]


#: Losses of events for which the target has no message.
UNSUPPORTED_EVENT_LOSSES: Final[Mapping[type[Event], Loss]] = {
    SchemaChange: Loss.DDL,
    Watermark: Loss.WATERMARK,
    TransactionMark: Loss.TRANSACTION_MARK,
    Heartbeat: Loss.HEARTBEAT,
    Bootstrap: Loss.BOOTSTRAP,
}


#: Statements that remove rows without a message for each: a reader that misses them keeps the rows.
_REMOVING_ROWS: Final = frozenset(
    {
        DdlKind.DROP_DATABASE,
        DdlKind.DROP_TABLE,
        DdlKind.TRUNCATE_TABLE,
        DdlKind.DROP_PARTITION,
        DdlKind.TRUNCATE_PARTITION,
    }
)


def removing_kind(kinds: Iterable[DdlKind]) -> DdlKind | None:
    """Return the first kind of statement that removes rows without a message for each, if any."""
    return next((kind for kind in kinds if kind in _REMOVING_ROWS), None)


def loss_of(event: Event) -> Loss:
    """Return the loss of an event for which the target has no message."""
    if isinstance(event, SchemaChange):
        if is_administration(event):
            return Loss.ADMIN_STATEMENT
        if removing_kind(event.kinds) is not None:
            return Loss.TRUNCATE_OR_DROP
    return UNSUPPORTED_EVENT_LOSSES[type(event)]


def statement_losses(change: SchemaChange, carries: Capabilities) -> list[Loss]:
    """Return the losses of a target that writes the text of a statement without its column charsets."""
    lost = carries.ddl and not all(getattr(carries, f"column_{what}") for what in change.beyond_text)
    return [Loss.TYPE_PARAMETERS] if lost else []


def is_administration(change: SchemaChange) -> bool:
    """Return whether a statement manages users, privileges and the like, and changes no table."""
    return bool(change.kinds) and set(change.kinds) == {DdlKind.ADMINISTRATION}


class Before(enum.StrEnum):
    """The part of a changed row's old image that a wire has."""

    FULL = "full"
    CHANGED = "changed columns (the rest follows from the new row)"
    NONE = "none"


class Keys(enum.StrEnum):
    """The meaning of a row's Kafka key, by which a compacted topic keeps the last record.

    `MESSAGE`: a key belongs to its message and is data; messages of one transaction may have the same.
    """

    NONE = "none (null keys)"
    MESSAGE = "the message"
    ROW = "the row"


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a wire with given options. Booleans are printed as yes or no.

    Values that most wires hold have the default True, facts that only some know the default False.
    `truncate`: TRUNCATE of a table, which some wires have without other DDL, and others lack beside it.
    `exact_decimals`: all digits of DECIMAL. `every_date`: zero dates, dates that are not in the calendar,
    years below 100. `every_time`: TIME beyond a day, years far from now, all digits of a second.
    `null_beside_default`: NULL in a column that has a default. `source_name`: the name of the source, TiCDC's
    cluster id. `snapshot`: whether a row comes from a snapshot or from the log. `query`: the statement that
    changed the row. `physical_partition`: the table id of a partitioned table's partition. `column_charset`,
    `column_collation`: of the columns after a statement, besides its text; `column_enum_charset`: of those
    that are ENUM or SET. `schema_id`: Maxwell's number of a schema. `trail_position`: the position in
    GoldenGate's trail. `binlog_row`: a row's number in its event of the binlog. `transaction_order`: a row's
    number in its transaction.
    """

    before: Before
    deletes: bool = True
    delete_image: bool
    primary_key: bool
    column_types: bool = True
    type_parameters: bool
    column_charset: bool = False
    column_enum_charset: bool = False
    column_collation: bool = False
    ddl: bool
    truncate: bool = True
    watermark: bool
    exact_decimals: bool = True
    every_date: bool = True
    every_time: bool = True
    null_beside_default: bool = True
    event_time_milliseconds: bool = True
    event_time_nanoseconds: bool = False
    commit_ts: bool
    start_ts: bool = False
    gtid: bool
    binlog_position: bool = False
    binlog_row: bool = False
    source_name: bool = False
    snapshot: bool = False
    row_key: bool = False
    server_id: bool = False
    thread_id: bool = False
    query: bool = False
    physical_partition: bool = False
    schema_id: bool = False
    trail_position: bool = False
    transaction: bool = False
    transaction_order: bool = False
    transaction_total: bool = False
    transaction_marks: bool = False

    def has(self, what: Loss) -> bool:
        """Return whether the wire can hold the fact that this kind counts; none can hold unknown fields."""
        return what is not Loss.UNKNOWN_FIELDS and bool(getattr(self, what.replace("-", "_")))


#: Kinds of loss for a field of `Capabilities` with another name; most have a field of the same name.
FIELDS_OF_LOSSES: Final[Mapping[Loss, str]] = {
    Loss.BEFORE_IMAGE: "before",
    Loss.COLUMN_TYPE: "column_types",
    Loss.DECIMAL_DIGITS: "exact_decimals",
    Loss.DELETE: "deletes",
    Loss.EVENT_TIME_PRECISION: "event_time_milliseconds",
    Loss.NULL_REPLACED_BY_DEFAULT: "null_beside_default",
    Loss.TIME_RANGE: "every_time",
    Loss.TRANSACTION_MARK: "transaction_marks",
    Loss.UNTYPED: "column_types",
    Loss.YEAR_BELOW_100: "every_date",
    Loss.ZERO_DATE: "every_date",
}
#: Fields of a row's current values. Readers of the target miss these, whatever the formats are.
_ROW_FIELDS: Final = frozenset(
    {"deletes", "exact_decimals", "every_date", "every_time", "null_beside_default"}
)
#: Facts that targets make up if the source lacks them, by the field of `Capabilities`.
_MADE_UP: Final[Mapping[Loss, str]] = {
    Loss.COMMIT_TS_SYNTHETIC: "commit_ts",
    Loss.BINLOG_POSITION_SYNTHETIC: "binlog_position",
}


def expected_losses(source: Capabilities, target: Capabilities) -> frozenset[Loss]:
    """Return the kinds of loss that follow from the two formats alone and leave the rows unchanged: facts
    besides the rows that the source has and the target cannot hold, and facts that the target makes up.

    Each row of such a route has them; any other kind of loss is unexpected.
    """
    found = {Loss.HEARTBEAT, Loss.BOOTSTRAP}
    for kind in Loss:
        field = FIELDS_OF_LOSSES.get(kind, kind.replace("-", "_"))
        if field not in Capabilities.__struct_fields__ or field in _ROW_FIELDS:
            continue
        if has_fact(source, field) and not has_fact(target, field):
            found.add(kind)
    found.update(kind for kind, field in _MADE_UP.items() if not has_fact(source, field))
    if source.event_time_nanoseconds and not target.event_time_nanoseconds:
        found.add(Loss.EVENT_TIME_PRECISION)
    return frozenset(found)


def has_fact(carries: Capabilities, field: str) -> bool:
    """Return whether messages have a fact, by its field in `Capabilities`."""
    value = getattr(carries, field)
    # The changed columns suffice: with the new row they determine the whole old row.
    return value is not Before.NONE if isinstance(value, Before) else bool(value)


_NO_FACTS: Final[dict[str, Any]] = dict.fromkeys(Capabilities.__struct_fields__, False)
#: The capabilities of a decoder for a protocol that is only written.
NOTHING: Final = Capabilities(**_NO_FACTS | {"before": Before.NONE})

#: The loss for each field of `Source` and of `Transaction`; None for fields that every target has in some
#: form. A target carries a field if its `Capabilities` has the counter's name set.
SOURCE_LOSSES: Final[Mapping[str, Loss | None]] = {
    "connector": None,
    "event_time_ns": None,
    "commit_ts": Loss.COMMIT_TS,
    "start_ts": Loss.START_TS,
    "name": Loss.SOURCE_NAME,
    "gtid": Loss.GTID,
    "binlog_file": None,  # counted with the position, which it needs
    "binlog_position": Loss.BINLOG_POSITION,
    "server_id": Loss.SERVER_ID,
    "thread_id": Loss.THREAD_ID,
    "snapshot": Loss.SNAPSHOT,
    "query": Loss.QUERY,
    "row_key": Loss.ROW_KEY,
    "unknown_fields": Loss.UNKNOWN_FIELDS,
    "time_unit_ns": None,
    "binlog_row": Loss.BINLOG_ROW,
    "physical_partition": Loss.PHYSICAL_PARTITION,
    "schema_id": Loss.SCHEMA_ID,
    "trail_position": Loss.TRAIL_POSITION,
}
TRANSACTION_LOSSES: Final[Mapping[str, Loss | None]] = {
    "id": Loss.TRANSACTION,
    "order": Loss.TRANSACTION_ORDER,
    "table_order": Loss.TRANSACTION_ORDER,
    "total": Loss.TRANSACTION_TOTAL,
}
#: Facts in MySQL's binlog, and the snapshot state.
_OF_LOG: Final = ("gtid", "binlog_position", "binlog_row", "server_id", "thread_id", "snapshot", "query")
#: The default cluster id of TiCDC.
_NO_NAME: Final = "default"


class CountSourceLosses(Protocol):
    """Counts the losses of an event's source, and of its transaction if it has one."""

    def __call__(self, source: Source, losses: list[Loss], transaction: Transaction | None = None) -> None:
        """Append the loss of each fact that is lost."""
        ...


def source_losses(carries: Capabilities, source_name: str | None = None) -> CountSourceLosses:
    """Return the function that counts a target's losses. `source_name`: the name that the target writes
    itself, if any.
    """
    keeps_commit_ts = carries.commit_ts
    lacks = _MissingFacts(carries)
    keeps_log = lacks.source.keys().isdisjoint(_OF_LOG)
    own_names = {None, _NO_NAME, source_name}
    #: Event times are truncated to milliseconds; encoders that truncate them to seconds count it themselves.
    is_cut = carries.event_time_milliseconds and not carries.event_time_nanoseconds
    #: Losses by the facts that a source has: rows of one source have the same facts.
    seen: dict[tuple[bool, ...], list[Loss]] = {}

    def count(source: Source, losses: list[Loss], transaction: Transaction | None = None) -> None:
        if not keeps_commit_ts and source.commit_ts is not None:
            losses.append(_COMMIT_TS)
        if source.name is not None and source.name not in own_names:
            losses.append(_SOURCE_NAME)
        if is_cut and source.event_time_ns % 1_000_000:
            losses.append(_EVENT_TIME_PRECISION)
        # Most rows have nothing else. This runs for every row, so it is spelled out; the contract test
        # of codecs finds a field that is forgotten here.
        if (
            transaction is None
            and source.start_ts is None
            and source.row_key is None
            and source.unknown_fields is None
            and source.physical_partition is None
            and source.schema_id is None
            and source.trail_position is None
            and (
                keeps_log
                or (
                    source.gtid is None
                    and source.binlog_position is None
                    and source.binlog_row is None
                    and source.server_id is None
                    and source.thread_id is None
                    and source.snapshot is None
                    and source.query is None
                )
            )
        ):
            return
        absent = _absent(source, transaction)
        lost = seen.get(absent)
        if lost is None:
            lost = seen[absent] = sorted(lacks.lost_of(source, transaction))
        losses += lost

    return count


def _absent(source: Source, transaction: Transaction | None) -> tuple[bool, ...]:
    """Return which of the facts that targets may lack are absent."""
    return (
        source.start_ts is None,
        source.gtid is None,
        source.binlog_position is None,
        source.binlog_row is None,
        source.server_id is None,
        source.thread_id is None,
        source.snapshot is None,
        source.query is None,
        source.row_key is None,
        source.unknown_fields is None,
        source.physical_partition is None,
        source.schema_id is None,
        source.trail_position is None,
        transaction is None,
        transaction is None or transaction.order is None,
        transaction is None or transaction.table_order is None,
        transaction is None or transaction.total is None,
    )


class _MissingFacts:
    """The facts that a target lacks, except commit ts and the source's name: `source`: the fields of a source
    by name; and those of a transaction.
    """

    def __init__(self, carries: Capabilities) -> None:
        self.source = _lost_fields(SOURCE_LOSSES, carries)
        for apart in ("commit_ts", "name"):
            self.source.pop(apart, None)
        self._transaction = _lost_fields(TRANSACTION_LOSSES, carries)

    def lost_of(self, source: Source, transaction: Transaction | None) -> set[Loss]:
        """Return the losses of this source and transaction."""
        found = {what for name, what in self.source.items() if getattr(source, name) is not None}
        of_transaction = [
            what for name, what in self._transaction.items() if getattr(transaction, name, None) is not None
        ]
        return found.union(of_transaction)


def _lost_fields(losses: Mapping[str, Loss | None], carries: Capabilities) -> dict[str, Loss]:
    """Return the fields that a target lacks, by name."""
    return {name: what for name, what in losses.items() if what is not None and not carries.has(what)}


_COMMIT_TS: Final = Loss.COMMIT_TS
_SOURCE_NAME: Final = Loss.SOURCE_NAME
_EVENT_TIME_PRECISION: Final = Loss.EVENT_TIME_PRECISION
