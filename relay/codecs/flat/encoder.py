"""Encoder of flat JSON."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from relay.codecs.codec import ChosenKey, EncodedRecord, chooses_none
from relay.codecs.flat.options import FlatOptions, carries
from relay.codecs.flat.values import FlatValueWriter
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.row_keys import without_key
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.row_writing import RowTarget, TypedWriters
from relay.codecs.shared.rows import TypedRows, TypeInfo
from relay.codecs.shared.ticdc import commit_ts_of, split_chosen_keys, split_updates
from relay.model.errors import NotRepresentable
from relay.model.events import Column, Event, Images, Op, RowChange, Source, TableSchema
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import has_parameters
from relay.templates.tracing import NotTemplatable, mark_of, refuse_traced

NAME: Final = "flat-json"

_DELETE: Final = Op.DELETE

_UPDATE: Final = Op.UPDATE

_READ: Final = Op.READ

_UNTYPED: Final = Loss.UNTYPED

_TYPE_PARAMETERS: Final = Loss.TYPE_PARAMETERS

_BEFORE_IMAGE: Final = Loss.BEFORE_IMAGE

_EVENT_TIME: Final = Loss.EVENT_TIME_PRECISION

_LETTERS: Final = {Op.INSERT: "c", Op.UPDATE: "u", Op.DELETE: "d", Op.READ: "r"}

_NUMBERS: Final = {op: int(op is Op.DELETE) for op in Op}

_DELETED: Final[dict[str, tuple[Any, Any]]] = {
    "text": ("false", "true"),
    "numbers": (0, 1),
    "booleans": (False, True),
}

#: Errors that printing raises for texts that no JSON can hold.
_UNPRINTABLE: Final = (UnicodeError, msgspec.MsgspecError)

_print: Final = msgspec.json.Encoder(enc_hook=mark_of).encode

#: Returns a fact of a row's source, or its number, for the format of a column.
Fact = Callable[[Source, ConsumerRecord, list[Loss]], Any]


class _FlatPlan(msgspec.Struct, frozen=True, eq=False):
    """The common parts of all rows of a table version.

    `key`: the names of the key's columns in its order, with their fields in a row that is a struct, () if
    there is none. `key_value`: the value of a one-column key, of such a row; `key_start`: the text before it.
    `chosen`: the columns of a key chosen by a rule, () without one. `tails`: by operation, the text between a
    row's last column and the columns of its source. `width`: the number of columns of a whole row.
    `loses_parameters`: types have parameters.
    """

    key: tuple[tuple[str, str], ...]
    key_value: Callable[[Any], Any] | None
    chosen: tuple[str, ...]
    key_start: bytes
    tails: dict[Op, bytes]
    width: int
    loses_parameters: bool


#: Approximate memory of a column in a plan.
_PLAN_COLUMN_BYTES: Final = 20


class _FlatTarget(RowTarget[_FlatPlan]):
    """The row target for flat objects."""

    has_structs = True
    has_before = False
    has_virtual = True

    def __init__(self, options: FlatOptions, chosen: ChosenKey) -> None:
        self._options, self._added = options, {name: option for option, name in options.added.items()}
        self._chosen = chosen
        self._values = FlatValueWriter(options.forms())
        self.shortcuts, self.lost = self._values.shortcuts, self._values.lost

    def plan(self, schema: TableSchema) -> _FlatPlan:
        """Return the plan of a table version. Raises NotRepresentable if an added name is taken."""
        for column in schema.columns:
            if column.name in self._added:
                option = self._added[column.name]
                reason = f"the table has a column of the name that the target option {option} gives another"
                raise NotRepresentable(NAME, column.name, reason)
        columns, chosen = schema.columns, self._chosen(schema.id)
        field_of = {column.name: f"f{at}" for at, column in enumerate(columns)}
        handle = frozenset(schema.handle_key())
        wanted = chosen or [name for name in field_of if name in handle]
        key = tuple([(name, field_of[name]) for name in wanted if name in field_of])
        if len(key) < len(chosen or handle):
            key = ()
        return _FlatPlan(
            key=key,
            key_value=operator.attrgetter(key[0][1]) if len(key) == 1 else None,
            chosen=chosen,
            key_start=b"{%b:" % _print(key[0][0]) if key else b"",
            tails={op: self._tail(schema, op) for op in Op},
            width=len(columns),
            loses_parameters=any(has_parameters(column.type) for column in columns),
        )

    def _tail(self, schema: TableSchema, op: Op) -> bytes:
        options = self._options
        operations: dict[Op, Any] = _LETTERS if options.op_values == "letters" else _NUMBERS
        added = (
            (options.op_column, operations[op]),
            (options.deleted_column, _DELETED[options.deleted_values][op is Op.DELETE]),
            (options.database_column, schema.id.database),
            (options.table_column, schema.id.table),
        )
        return b"".join([b",%b:%b" % (_print(name), _print(value)) for name, value in added if name])

    def plan_bytes(self, plan: _FlatPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return _PLAN_COLUMN_BYTES * plan.width + sum(map(len, plan.tails.values()))

    def losses(self, plan: _FlatPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: types and parameters of the source."""
        untyped = (_UNTYPED,) if type_info.types else ()
        loses_parameters = type_info.parameters and plan.loses_parameters
        return (*untyped, _TYPE_PARAMETERS) if loses_parameters else untyped

    def columns_of(self, schema: TableSchema) -> Sequence[Column]:
        """Return a table's columns; with `zero-dates=null` all but the key's may be NULL."""
        if self._options.zero_dates == "keep":
            return schema.columns
        key = frozenset([*schema.handle_key(), *self._chosen(schema.id)])
        return [msgspec.structs.replace(each, nullable=each.name not in key) for each in schema.columns]

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return self._values.of(column)


def _key(plan: _FlatPlan, row: Any) -> bytes | None:  # noqa: ANN401 - a dict, or a struct made at run time
    """Return the key of a row; None if the table has none, or the row lacks a column of it."""
    key = plan.key
    if type(row) is not dict:
        if plan.key_value is not None:
            return plan.key_start + _print(plan.key_value(row)) + b"}"
        return _print({name: getattr(row, field) for name, field in key}) if key else None
    columns = {name: row[name] for name, _ in key if name in row}
    return _print(columns) if key and len(columns) == len(key) else None


class FlatEncoder:
    """Encodes flat JSON. `chosen`: the rules for keys."""

    def __init__(self, options: FlatOptions, answers: LookupCache, chosen: ChosenKey | None = None) -> None:
        pool, found = CachePool(answers.limits.cache_bytes), carries(options)
        target = _FlatTarget(options, chosen or chooses_none)
        self.prepare = _split_updates if chosen is None else functools.partial(_split, chosen)
        self._rows, self._lost = TypedWriters(NAME, target, pool), target.lost
        self._end = _end_writer(options)
        self._loses_values = options.zero_dates == "null"
        self._marks_deleted = options.deletes in {"rewrite", "both"}
        self._has_tombstones = options.deletes in {"tombstone", "both"}
        self._has_time, self._has_snapshot = found.event_time_milliseconds, found.snapshot
        self._count_lost = source_losses(found)

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the messages of rows, and count all other events; see `relay.codecs.codec.Encoder`."""
        if len(events) == 1:
            return self._event(events[0], source_record, losses)
        return self._payloads(events, source_record, losses)

    def _payloads(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        for event in events:
            yield from self._event(event, source_record, losses)

    def _event(self, event: Event, source_record: ConsumerRecord, losses: list[Loss]) -> list[EncodedRecord]:
        if not isinstance(event, RowChange):
            losses.append(loss_of(event))
            return []
        try:
            return self._row(event, source_record, losses)
        except _UNPRINTABLE:
            raise NotRepresentable(NAME, "", "text that is not Unicode") from None

    def _row(
        self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> list[EncodedRecord]:
        source, op, lost = change.source, change.op, self._lost
        if lost:
            lost.clear()
        plan, before, after, row_losses = self._rows.write(change)
        row = before if after is None else after
        key, payloads = _key(plan, row), []
        if key is None and plan.chosen:
            has = row if type(row) is dict else {column.name for column in change.schema.columns}
            raise without_key(NAME, change.table, plan.chosen, has)
        if op is not _DELETE or self._marks_deleted:
            end = self._end(source, source_record, losses)
            payloads.append(EncodedRecord(key, b"".join((_print(row)[:-1], plan.tails[op], end))))
            losses += row_losses
            if lost:
                losses += lost
        elif self._loses_values:
            refuse_traced(change.emitted_at_ns)  # a template would count the losses of its row
        if op is _DELETE:
            payloads += self._tombstones(key, losses)
        elif op is _UPDATE and _has_old_row(change.images):
            losses.append(_BEFORE_IMAGE)
        if not self._has_time:
            losses.append(_EVENT_TIME)
        self._count_lost(source, losses, change.transaction)
        if op is _READ and not self._has_snapshot and not source.snapshot:
            losses.append(Loss.SNAPSHOT)
        return payloads

    def _tombstones(self, key: bytes | None, losses: list[Loss]) -> list[EncodedRecord]:
        """Return a DELETE's record without value, if wanted; without a key it would delete nothing."""
        has_tombstone = self._has_tombstones and key is not None
        if not self._marks_deleted:
            losses.append(Loss.DELETE_IMAGE if has_tombstone else Loss.DELETE)
        return [EncodedRecord(key, None)] if has_tombstone else []


def _split(chosen: ChosenKey, events: list[Event]) -> list[Event]:
    """Split updates of message keys: of the keys that rules choose, and of other tables' own keys."""
    events = split_updates(events, lambda schema: () if chosen(schema.id) else schema.handle_key())
    return split_chosen_keys(events, chosen)


def _has_old_row(images: Images) -> bool:
    """Return whether the source has the old row, without reading it."""
    if type(images) is TypedRows:
        return images.old is not None
    return images.cells_at((), is_old=True) is not None


def _end_writer(options: FlatOptions) -> Callable[[Source, ConsumerRecord, list[Loss]], bytes]:
    """Return the function that writes the end of a message: the columns from the row's source."""
    version: Fact = _offset if options.version == "offset" else _rising_commit_ts
    columns: tuple[tuple[str, bytes, Fact], ...] = (
        (options.time_column, b"%d", _event_time_ms),
        (options.commit_ts_column, b"%b", _commit_ts),
        (options.gtid_column, b"%b", _gtid),
        (options.version_column, b"%d", version),
    )
    chosen = [(name, form, fact) for name, form, fact in columns if name]
    starts = [b",%b:" % _print(name).replace(b"%", b"%%") for name, _, _ in chosen]
    texts = [start + form for start, (_, form, _) in zip(starts, chosen, strict=True)]
    end, facts = b"".join(texts) + b"}", [fact for _, _, fact in chosen]
    marked_end = b"".join([start + b"%b" for start in starts]) + b"}"

    def marked(*values: Any) -> bytes:  # noqa: ANN401 - traced values, and JSON
        return marked_end % tuple([each if type(each) is bytes else _print(each) for each in values])

    def write_one(source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> bytes:
        values = only(source, source_record, losses)
        try:
            return end % values
        except NotTemplatable:
            return marked(values)

    def write(source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> bytes:
        values = tuple([fact(source, source_record, losses) for fact in facts])
        try:
            return end % values
        except NotTemplatable:
            return marked(*values)

    only = facts[0] if facts else _event_time_ms
    return write_one if len(facts) == 1 else write


def _split_updates(events: list[Event]) -> list[Event]:
    return split_updates(events, TableSchema.handle_key)


def _event_time_ms(source: Source, _source_record: ConsumerRecord, _losses: list[Loss]) -> int:
    return source.event_time_ns // 1_000_000


def _commit_ts(source: Source, _source_record: ConsumerRecord, _losses: list[Loss]) -> bytes:
    return _print(source.commit_ts)


def _gtid(source: Source, _source_record: ConsumerRecord, _losses: list[Loss]) -> bytes:
    return _print(source.gtid)


def _rising_commit_ts(source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> int:
    return commit_ts_of(source, source_record, losses)


def _offset(_source: Source, source_record: ConsumerRecord, _losses: list[Loss]) -> int:
    return source_record.offset
