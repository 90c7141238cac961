"""Encoder of Maxwell 1.45: rows of the log and of a bootstrap, and DDL.

In Maxwell the key of a statement, and of a row without a primary key, is random; here it is derived from the
position of the source record, so that every run writes the same key.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.maxwell.definitions import table_json
from relay.codecs.maxwell.messages import camel_case
from relay.codecs.maxwell.options import NAME, MaxwellOptions, carries
from relay.codecs.maxwell.values import SOME_DOCUMENT, MaxwellValueWriter, as_it_came, read_unknown_set
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.row_writing import RowTarget, TypedWriters
from relay.codecs.shared.rows import TypeInfo
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import mysql_text
from relay.codecs.shared.traced import TracedCells, put_of
from relay.model.errors import NotRepresentable
from relay.model.events import (
    Column,
    DdlKind,
    Event,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    Transaction,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import has_parameters
from relay.templates.tracing import NotTemplatable, Traced, TracedDigits, TracedNumber, TracedOp, mark_of

_UPDATE: Final = Op.UPDATE
_READ: Final = Op.READ
_ROW_TYPES: Final = {
    Op.INSERT: "insert",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.READ: "bootstrap-insert",
}
_SECOND_NS: Final = 1_000_000_000
_MS_NS: Final = 1_000_000
#: `push_ts` has microseconds.
_MICROSECOND_NS: Final = 1_000
#: Errors that printing raises for values that no JSON of this protocol can hold.
_UNPRINTABLE: Final = (OverflowError, UnicodeError, msgspec.MsgspecError)
_print: Final = msgspec.json.Encoder(enc_hook=mark_of).encode
_SCHEMA_ID: Final = "schema_id"

# ---------------------------------------------------------------- rows


class _MaxwellPlan(msgspec.Struct, frozen=True, eq=False):
    """The common parts of all rows of a table version: the beginning of a message, the columns of the primary
    key in its order, and their names in a Kafka key.
    """

    head: bytes
    key: tuple[str, ...]
    key_names: tuple[bytes, ...]
    key_head: bytes
    width: int
    loses_parameters: bool


#: Approximate memory of a column in a plan.
_PLAN_COLUMN_BYTES: Final = 60


class _MaxwellTarget(RowTarget[_MaxwellPlan]):
    """The row target for Maxwell."""

    has_virtual = True
    shortcuts = MappingProxyType({(read_unknown_set, None): as_it_came})

    def __init__(self, options: MaxwellOptions) -> None:
        self._values = MaxwellValueWriter(
            has_null_dates=options.output_null_zerodates, has_nulls=options.output_nulls
        )
        self.lost = self._values.lost
        self._is_camel = options.output_naming_strategy != "none"
        self._is_array = options.kafka_key_format == "array"

    def plan(self, schema: TableSchema) -> _MaxwellPlan:
        """Return the plan of a table version. Raises NotRepresentable for two columns of one name."""
        names = {column.name: self._name(column.name) for column in schema.columns}
        if len(set(names.values())) < len(names):
            raise NotRepresentable(NAME, "", "two columns would have one name in camel case")
        database, table = _print(schema.id.database), _print(schema.id.table)
        key = schema.primary_key or ()
        lower = [_print(("" if self._is_array else "pk.") + name.lower()) for name in key]
        return _MaxwellPlan(
            head=b'{"database":%b,"table":%b' % (database, table),
            key=tuple(map(self._name, key)),
            key_names=tuple(lower),
            key_head=(b"[%b,%b," if self._is_array else b'{"database":%b,"table":%b,') % (database, table),
            width=len(names),
            loses_parameters=any(has_parameters(column.type) for column in schema.columns),
        )

    def _name(self, name: str) -> str:
        return camel_case(name) if self._is_camel else name

    def plan_bytes(self, plan: _MaxwellPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return len(plan.head) + len(plan.key_head) + _PLAN_COLUMN_BYTES * plan.width

    def losses(self, plan: _MaxwellPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: types and parameters of the source."""
        untyped = (Loss.UNTYPED,) if type_info.types else ()
        loses_parameters = type_info.parameters and plan.loses_parameters
        return (*untyped, Loss.TYPE_PARAMETERS) if loses_parameters else untyped

    def columns_of(self, schema: TableSchema) -> Sequence[Column]:
        """Return a table's columns by their names in rows; all but the key's may be NULL."""
        key = frozenset(schema.primary_key or ())
        return [
            msgspec.structs.replace(each, name=self._name(each.name), nullable=each.name not in key)
            for each in schema.columns
        ]

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return self._values.of(column)


class MaxwellEncoder:
    """Encodes Maxwell's JSON."""

    prepare: Final = None

    def __init__(self, options: MaxwellOptions, answers: LookupCache) -> None:
        self._options, says = options, carries(options)
        target = _MaxwellTarget(options)
        self._rows, self._lost = (
            TypedWriters(NAME, target, CachePool(answers.limits.cache_bytes)),
            target.lost,
        )
        self._count_lost = source_losses(says)
        of_ddl = msgspec.structs.replace(says, server_id=False, thread_id=False, query=False)
        self._count_lost_of_ddl = source_losses(of_ddl)
        self._count_lost_of_end = source_losses(msgspec.structs.replace(of_ddl, binlog_position=False))
        self._is_camel = options.output_naming_strategy != "none"
        self._is_array = options.kafka_key_format == "array"

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages; see `relay.codecs.codec.Encoder`."""
        numbers = iter(range(len(events) + 1))
        for at, event in enumerate(events):
            try:
                if isinstance(event, RowChange):
                    following = events[at + 1] if at + 1 < len(events) else None
                    is_last = _ends(following, event.transaction)
                    yield self._row(event, source_record, next(numbers), losses, is_last=is_last)
                elif isinstance(event, SchemaChange) and self._options.output_ddl:
                    yield from self._ddl(event, source_record, losses)
                elif self._options.output_commit_info and at and _ends_row(event, events[at - 1]):
                    self._count_lost_of_end(event.source, losses)
                    losses += _lost_of_end(event)
                else:
                    losses.append(loss_of(event))
            except _UNPRINTABLE:
                raise NotRepresentable(
                    NAME, "", "a number beyond 64 bits, or text that is not Unicode"
                ) from None

    def _row(
        self,
        change: RowChange,
        source_record: ConsumerRecord,
        number: int,
        losses: list[Loss],
        *,
        is_last: bool,
    ) -> EncodedRecord:
        options, lost = self._options, self._lost
        if lost:
            lost.clear()
        plan, before, after, row_losses = self._rows.write(change)
        op, row = change.op, before if after is None else after
        if op is _UPDATE and before is None:
            op = op_without_before(options.missing_before, NAME)
        if change.source.snapshot is not None and op is Op.INSERT:
            op = _READ
        parts = [plan.head, *self._facts(op, change, losses, is_last=is_last)]
        parts += self._key_facts(plan, row)
        parts.append(self._member("data", self._data(row)))
        if op is _UPDATE and before is not None:
            parts.append(self._member("old", self._old(before, row)))
        losses += [*row_losses, *lost]
        return EncodedRecord(self._key(plan, row, source_record, number), b",".join(parts) + b"}")

    def _data(self, row: dict[str, Any]) -> bytes:
        if self._options.output_nulls:
            return _print(row)
        if _are_traced(row):
            raise NotTemplatable  # the NULL columns differ between messages
        return _print({name: value for name, value in row.items() if value is not None})

    def _old(self, before: dict[str, Any], row: dict[str, Any]) -> bytes:
        """Return the old values of changed columns, always including NULLs: nothing else shows them."""
        if _are_traced(before):
            return _print(_comparable(before).changed(_comparable(row)))
        return _print(
            {name: value for name, value in before.items() if _differ(value, row.get(name, _NOTHING))}
        )

    # ------------------------------------------------------------ facts

    def _facts(self, op: Op, change: RowChange, losses: list[Loss], *, is_last: bool) -> list[bytes]:
        """Return the members between the table's name and the row."""
        source, options = change.source, self._options
        if source.event_time_ns % _SECOND_NS:
            losses.append(Loss.EVENT_TIME_PRECISION)
        found: list[tuple[str, Any]] = []
        if options.output_row_query and source.query is not None:
            found.append(("query", self._query(source.query)))
        found += [("type", _ROW_TYPES[op]), ("ts", source.event_time_ns // _SECOND_NS)]
        transaction = change.transaction
        if op is not _READ and options.output_commit_info:
            transaction = self._commit(transaction, found, losses, is_last=is_last)
        self._count_lost(source, losses, transaction)
        found += self._origin(source)
        if options.output_push_timestamp:
            micros = change.emitted_at_ns // _MICROSECOND_NS
            text = f"{micros // 1_000_000}.{micros % 1_000_000:06}"
            found.append(("push_ts", msgspec.Raw(text.encode())))
        return [self._member(name, _print(value)) for name, value in found]

    def _query(self, text: str) -> str:
        most = self._options.row_query_max_length
        return text[:most] if most else text

    def _commit(
        self,
        transaction: Transaction | None,
        found: list[tuple[str, Any]],
        losses: list[Loss],
        *,
        is_last: bool,
    ) -> Transaction | None:
        """Add `xid`, and `xoffset` or, for the last row, `commit`, and count the rest. Return the transaction
        if its id is no number: all of it is lost.
        """
        xid = None if transaction is None else _number_of_id(transaction.id)
        if transaction is None or xid is None:
            return transaction
        found.append(("xid", xid))
        order = transaction.order
        if is_last:
            found.append(("commit", True))
        elif self._options.output_xoffset and order is not None and order > 0:
            found.append(("xoffset", order - 1))
            order = None
        if order is not None or transaction.table_order is not None:
            losses.append(Loss.TRANSACTION_ORDER)
        if transaction.total is not None:
            losses.append(Loss.TRANSACTION_TOTAL)
        return None

    def _origin(self, source: Source) -> Iterator[tuple[str, Any]]:
        options, position = self._options, source.binlog_position
        if options.output_binlog_position and source.binlog_file is not None and position is not None:
            yield "position", f"{source.binlog_file}:{position}"
        if options.output_gtid_position and source.gtid is not None:
            yield "gtid", source.gtid
        if options.output_server_id and source.server_id is not None:
            yield "server_id", source.server_id
        if options.output_thread_id and source.thread_id is not None:
            yield "thread_id", source.thread_id
        if options.output_schema_id and source.schema_id is not None:
            yield _SCHEMA_ID, source.schema_id

    def _key_facts(self, plan: _MaxwellPlan, row: dict[str, Any]) -> list[bytes]:
        options = self._options
        found: list[tuple[str, Any]] = []
        if options.output_primary_keys and row.keys() >= set(plan.key):
            found.append(("primary_key", [row[name] for name in plan.key]))
        if options.output_primary_key_columns:
            found.append(("primary_key_columns", plan.key))
        return [self._member(name, _print(value)) for name, value in found]

    def _member(self, name: str, value: bytes) -> bytes:
        return b'"%b":%b' % ((camel_case(name) if self._is_camel else name).encode(), value)

    # ------------------------------------------------------------ keys

    def _key(
        self, plan: _MaxwellPlan, row: dict[str, Any], source_record: ConsumerRecord, number: int
    ) -> bytes | None:
        """Return the key of a row after the change: a generated id in a table without a primary key, None for
        a row that lacks columns of its key.
        """
        columns = [
            (name, row[column])
            for name, column in zip(plan.key_names, plan.key, strict=True)
            if column in row
        ]
        if len(columns) < len(plan.key):
            return None
        if self._is_array:
            return plan.key_head + b"[%b]]" % b",".join([b"{%b:%b}" % (n, _print(v)) for n, v in columns])
        if not columns:
            return plan.key_head + b'"_uuid":"%b"}' % _message_id(source_record, number)
        return plan.key_head + b",".join([b"%b:%b" % (n, _print(v)) for n, v in columns]) + b"}"

    # ------------------------------------------------------------ DDL

    def _ddl(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the messages of a statement, one a table, each with the whole text; none, counted, for a
        statement that Maxwell has no message for.
        """
        messages = _statements(change)
        if not messages:
            losses.append(loss_of(change))
            return
        self._count_lost_of_ddl(change.source, losses)
        event_ms = change.source.event_time_ns // _MS_NS
        for number, shown in enumerate(messages):
            message = {
                **shown,
                "ts": event_ms,
                "sql": mysql_text(change),
                **dict(self._origin_of_ddl(change.source)),
            }
            yield EncodedRecord(_message_id(source_record, number), _print(message))

    def _origin_of_ddl(self, source: Source) -> Iterator[tuple[str, Any]]:
        for name, value in self._origin(source):
            if name in {"position", "gtid", _SCHEMA_ID}:
                yield name, value


_NOTHING: Final = object()


def _comparable(row: dict[str, Any]) -> TracedCells:
    """Return traced cells whose different values always print differently. Excludes a JSON column's document
    null, which is not NULL.
    """
    found = TracedCells(row)
    for name, cell in row.items():
        if not isinstance(cell, Traced):  # a constant of a `RowProjection`
            continue
        put = put_of(cell)
        if put.write == SOME_DOCUMENT:
            found[name] = TracedOp(cell.trace, put._replace(losses=None, adds=0))
    return found


def _are_traced(row: dict[str, Any]) -> bool:
    """Return whether a row has traced values."""
    return any(isinstance(cell, Traced) for cell in row.values())


def _differ(old: object, new: object) -> bool:
    return bool(old != new)


def _number_of_id(text: str | TracedDigits) -> int | TracedNumber | None:
    """Return a transaction's id as a number; None if it is not a number."""
    if isinstance(text, TracedDigits):
        return text.within(0, 10**_MOST_DIGITS)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


#: 64 bits hold any number of this many digits.
_MOST_DIGITS: Final = 18


def _ends(event: Event | None, transaction: Transaction | None) -> bool:
    """Return whether a row of this transaction, before this event, is the last one."""
    if transaction is None:
        return False
    if transaction.total is not None and transaction.order == transaction.total:
        return True
    return isinstance(event, TransactionMark) and not event.is_begin and event.id == transaction.id


def _ends_row(event: Event, row: Event) -> bool:
    """Return whether an event is the END of a transaction that the row before it has already closed."""
    if not isinstance(row, RowChange) or row.transaction is None or _number_of_id(row.transaction.id) is None:
        return False
    return row.op is not _READ and _ends(event, msgspec.structs.replace(row.transaction, total=None))


def _lost_of_end(event: Event) -> list[Loss]:
    """Return the losses of an END: facts that the last row of its transaction lacks."""
    has_counts = isinstance(event, TransactionMark) and event.count is not None
    return [Loss.TRANSACTION_TOTAL] if has_counts else []


def _message_id(source_record: ConsumerRecord, number: int) -> bytes:
    """Return a UUID for a message, derived from its source record and its number among the messages."""
    identity = f"{source_record.position}/{number}"
    digest = hashlib.blake2b(identity.encode(errors="surrogatepass"), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4)).encode()


# ---------------------------------------------------------------- DDL

_OF_DATABASE: Final = {
    DdlKind.CREATE_DATABASE: "database-create",
    DdlKind.ALTER_DATABASE: "database-alter",
    DdlKind.DROP_DATABASE: "database-drop",
}
#: Statements that Maxwell has no message for.
_WITHOUT_MESSAGE: Final = frozenset(
    {
        DdlKind.CREATE_VIEW,
        DdlKind.DROP_VIEW,
        DdlKind.TRUNCATE_TABLE,
        DdlKind.RECOVER_TABLE,
        DdlKind.SEQUENCE,
        DdlKind.ADMINISTRATION,
        DdlKind.OTHER,
    }
)
_CHARSET: Final = re.compile(r"\b(?:CHARACTER\s+SET|CHARSET)(?:\s*=\s*|\s+)'?(\w+)", re.IGNORECASE).search


def _statements(change: SchemaChange) -> list[dict[str, Any]]:
    """Return the members of a statement's messages besides its text; none if Maxwell has no message."""
    kind = change.kinds[0] if change.kinds else None
    if kind is None or kind in _WITHOUT_MESSAGE:
        return []
    if kind in _OF_DATABASE:
        return [_database(change, _OF_DATABASE[kind])]
    if kind is DdlKind.DROP_TABLE:
        return [_named("table-drop", table) for table in change.targets or (change.table,)]
    after = {schema.id: schema for schema in change.definitions}
    if kind is DdlKind.CREATE_TABLE:
        tables = change.targets or (change.table,)
        return [_named("table-create", table) | _table_member("def", after.get(table)) for table in tables]
    before = {schema.id: schema for schema in change.known_before}
    pairs = [(pair.old, pair.new) for pair in change.renamed] or [
        (table, table) for table in change.targets or (change.table,)
    ]
    return [
        _named("table-alter", old)
        | _table_member("old", before.get(old))
        | _table_member("def", after.get(new))
        for old, new in pairs
    ]


def _named(type_: str, table: TableId) -> dict[str, Any]:
    return {"type": type_, "database": table.database, "table": table.table}


def _table_member(member: str, schema: TableSchema | None) -> dict[str, Any]:
    return {} if schema is None else {member: table_json(schema)}


def _database(change: SchemaChange, type_: str) -> dict[str, Any]:
    """Return the members of a statement about a database, with its character set if the text has it."""
    found: dict[str, Any] = {"type": type_, "database": change.table.database}
    charset = None if type_ == "database-drop" else _CHARSET(change.ddl)
    return found if charset is None else {**found, "charset": charset[1]}
