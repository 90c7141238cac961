"""Compare the events of a source with what a reader of the target finds, and name a loss for each difference.

A difference is a field of an event that the reader does not find, or finds otherwise. It is explained by a kind
of loss that the translator has counted for the record, or by a rule of `EXCUSES`, which says why nothing is
lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from decoded_once import decoded_once
from fuzz.corpus import answer, captured_sample, reading_options, with_storage
from fuzz.events import plain_value  # the canonical form of a cell
from support import captured
from support import reading_options as options_of_file

from relay import (
    ABSENT,
    CodecError,
    ConsumerRecord,
    DecodeError,
    Event,
    Loss,
    Need,
    Op,
    ProducerRecord,
    RowChange,
    SchemaChange,
    Translator,
)
from relay.catalog import Catalog
from relay.codecs.losses import SOURCE_LOSSES, TRANSACTION_LOSSES
from relay.model.errors import ServiceError
from relay.model.events import (
    Bootstrap,
    Column,
    ColumnType,
    DdlKind,
    Default,
    Generated,
    Heartbeat,
    Row,
    Source,
    TableId,
    TableSchema,
    Transaction,
    TransactionMark,
    Watermark,
)
from relay.mysql.charsets import charset_of
from relay.mysql.ddl.drops import drop_keywords
from relay.mysql.types import DISPLAY_WIDTHS, INTEGER_BITS, quoted_table


class Difference(NamedTuple):
    """A field that the reader of a target finds otherwise: where, what the source has, what the reader finds."""

    where: str
    given: Any
    found: Any
    #: The event of the source, how many events stand for it, and the target.
    event: Any = None
    parts: int = 0
    target: str = ""
    #: Whether the reader has a definition of the row's table, and took another one or none for the row.
    is_of_order: bool = False
    #: The definitions that are compared, of the source and of the reader.
    tables: tuple[TableSchema, TableSchema] | None = None


class Skipped:
    """Stands among what a reader finds for a row that it has skipped and counted: one without columns, of a
    table that it does not know.
    """


#: What a reader finds.
Found = Event | Skipped
_Event = TypeVar("_Event", Event, Found)


class Pair(NamedTuple):
    """An event of the source, and what stands for it in the target: more than one event if it was split."""

    given: Event | None
    found: tuple[Found, ...]


# ---------------------------------------------------------------- pairs

#: Kinds of events, except for rows.
_KINDS: Final = (SchemaChange, Watermark, Bootstrap, TransactionMark, Heartbeat)


def pairs_of(given: Sequence[Event], found: Sequence[Found], *, lost_deletes: bool = False) -> Iterator[Pair]:
    """Pair events of a kind in their order. `lost_deletes`: some deleted rows have no message."""
    if lost_deletes:
        given, found = _not_deleted(given), _not_deleted(found)
    changes = [event for event in given if isinstance(event, RowChange)]
    yield from _rows(changes, [event for event in found if isinstance(event, RowChange | Skipped)])
    for kind in _KINDS:
        ours = [event for event in given if isinstance(event, kind)]
        theirs = [event for event in found if isinstance(event, kind)]
        if kind is TransactionMark:
            yield from _marks(ours, theirs)
        elif kind is SchemaChange:
            yield from _statements(ours, theirs)
        else:
            yield from _others(ours, theirs)


def _not_deleted(events: Sequence[_Event]) -> list[_Event]:
    return [event for event in events if not isinstance(event, RowChange) or event.op is not Op.DELETE]


def _statements(given: Sequence[Any], found: Sequence[Any]) -> Iterator[Pair]:
    """Pair statements; several may stand for one about several tables. A statement without a message has none."""
    left = list(found)
    for change in given:
        taken: list[Any] = []
        while left and _stands_for(left[0], change) and (not taken or _is_of_several(change)):
            taken.append(left.pop(0))
        yield Pair(change, tuple(taken))
    yield from (Pair(None, (each,)) for each in left)


def _is_of_several(change: SchemaChange) -> bool:
    return len(change.targets) > 1 or len(change.renamed) > 1


def _stands_for(found: SchemaChange, given: SchemaChange) -> bool:
    if found.source.time_ms // 1000 != given.source.time_ms // 1000:
        return False
    if _is_of_several(given):
        return set(found.targets) <= {*given.targets, given.table} and found.kinds == given.kinds
    is_same = found.table == given.table and (not given.kinds or found.kinds == given.kinds)
    return is_same or found.ddl == given.ddl


def _marks(given: Sequence[Any], found: Sequence[Any]) -> Iterator[Pair]:
    """Pair the marks of a transaction by what they mark."""
    left = {(mark.is_begin, mark.id): mark for mark in found}
    for mark in given:
        other = left.pop((mark.is_begin, mark.id), None)
        yield Pair(mark, () if other is None else (other,))
    yield from (Pair(None, (mark,)) for mark in left.values())


def _others(given: Sequence[Event], found: Sequence[Event]) -> Iterator[Pair]:
    for at in range(max(len(given), len(found))):
        yield Pair(given[at] if at < len(given) else None, tuple(found[at : at + 1]))


def _rows(given: Sequence[RowChange], found: Sequence[RowChange | Skipped]) -> Iterator[Pair]:
    left = list(found)
    for at, event in enumerate(given):
        taken = 1
        ops = [each.op for each in left[:2] if isinstance(each, RowChange)]
        rest = len(given) - at
        if event.op is Op.UPDATE and ops == [Op.DELETE, Op.INSERT]:
            taken = 2 if len(left) > rest else 1
        yield Pair(event, tuple(left[:taken]))
        del left[:taken]
    yield from (Pair(None, (each,)) for each in left)


# ---------------------------------------------------------------- differences


def differences(pair: Pair, target: str, catalog: Catalog) -> Iterator[Difference]:
    """Find the fields that differ. `catalog`: the reader's."""
    given, found = pair
    is_of_order = False
    if isinstance(given, RowChange) and found and isinstance(found[-1], RowChange):
        known = list(catalog.definitions(given.table))
        is_of_order = given.schema.complete and bool(known) and found[-1].schema != known[-1]
    for each in _differences(given, found):
        yield each._replace(event=given, parts=len(found), target=target, is_of_order=is_of_order)


def _differences(given: Event | None, found: tuple[Found, ...]) -> Iterator[Difference]:
    if given is None or not found or isinstance(found[-1], Skipped):
        kind = type(found[0] if given is None else given).__name__
        yield Difference(f"{kind}", given, found[0] if found else None)
        return
    last = found[-1]
    yield from _fields("source", given.source, last.source)
    if isinstance(given, RowChange) and isinstance(last, RowChange):
        yield from _changed(given, found)
    elif isinstance(given, SchemaChange):
        yield from _statement(
            given, _joined([each for each in found if isinstance(each, SchemaChange)], given.table)
        )
    elif isinstance(given, Bootstrap) and isinstance(last, Bootstrap):
        yield from _definition("bootstrap", given.schema, last.schema)
    elif isinstance(given, TransactionMark) and isinstance(last, TransactionMark):
        for name in ("is_begin", "id", "count", "table_counts"):
            yield from _field(f"mark.{name}", getattr(given, name), getattr(last, name))


def _field(where: str, given: object, found: object) -> Iterator[Difference]:
    if given != found:
        yield Difference(where, given, found)


def _fields(
    part: str, given: Source | Transaction | None, found: Source | Transaction | None
) -> Iterator[Difference]:
    known = given if given is not None else found
    for name in () if known is None else known.__struct_fields__:
        yield from _field(f"{part}.{name}", getattr(given, name, None), getattr(found, name, None))


def _changed(given: RowChange, found: Sequence[Found]) -> Iterator[Difference]:
    rows = [event for event in found if isinstance(event, RowChange)]
    last = rows[-1]
    if len(rows) == 1:
        yield from _field("op", given.op, last.op)
    yield from _fields("transaction", given.transaction, last.transaction)
    yield from _definition("schema", given.schema, last.schema)
    before = rows[0].before
    yield from _image("before", given, given.before, rows[0], before)
    yield from _image("after", given, given.after, last, last.after)


def _image(
    which: str, given: RowChange, row: Row | None, found: RowChange, other: Row | None
) -> Iterator[Difference]:
    if row is None or other is None:
        if (row is None) != (other is None):
            yield Difference(which, row is not None, other is not None)
        return
    cells = dict(
        zip(
            (column.name for column in found.schema.columns),
            zip(found.schema.columns, other, strict=True),
            strict=True,
        )
    )
    for column, cell in zip(given.schema.columns, row, strict=True):
        theirs, other_cell = cells.pop(column.name, (None, ABSENT))
        if not _same_cell(column, cell, theirs, other_cell):
            yield Difference(f"{which}.{column.type.base}", (column, cell), (theirs, other_cell))
    for name, (_, cell) in cells.items():
        if cell is not ABSENT:
            yield Difference(f"{which}.more", name, cell)


def _same_cell(column: Column, cell: Any, other: Column | None, found: Any) -> bool:
    if cell is ABSENT or cell is None or found is None or found is ABSENT or other is None:
        return cell is found
    if isinstance(cell, float) and isinstance(found, float) and math.isnan(cell) and math.isnan(found):
        return True
    return bool(plain_value(cell, column) == plain_value(found, column) and type(cell) is type(found))


def _definition(part: str, given: TableSchema, found: TableSchema) -> Iterator[Difference]:
    for each in _of_definition(part, given, found):
        yield each._replace(tables=(given, found))


def _of_definition(part: str, given: TableSchema, found: TableSchema) -> Iterator[Difference]:
    yield from _field(f"{part}.id", given.id, found.id)
    for name in (
        "primary_key",
        "unique_keys",
        "indexes",
        "complete",
        "charset",
        "collation",
        "comment",
        "table_id",
    ):
        yield from _field(f"{part}.{name}", getattr(given, name), getattr(found, name))
    theirs = {column.name: column for column in found.columns}
    for column in given.columns:
        other = theirs.pop(column.name, None)
        if other is None:
            yield Difference(f"{part}.column", column, None)
            continue
        for name in ("nullable", "default", "comment", "generated", "auto_increment", "on_update"):
            yield from _field(f"{part}.column.{name}", getattr(column, name), getattr(other, name))
        for name in column.type.__struct_fields__:
            for each in _field(f"{part}.type.{name}", getattr(column.type, name), getattr(other.type, name)):
                yield each._replace(given=(column.type, each.given), found=(other.type, each.found))
    for column in theirs.values():
        yield Difference(f"{part}.column", None, column)


def _joined(changes: Sequence[SchemaChange], table: TableId) -> SchemaChange:
    """Return statements about one table each as one about all of them."""
    first = next((each for each in changes if each.table == table), changes[0])
    return msgspec.structs.replace(
        first,
        targets=tuple(dict.fromkeys(table for each in changes for table in each.targets)),
        renamed=tuple(dict.fromkeys(pair for each in changes for pair in each.renamed)),
    )


def _statement(given: SchemaChange, found: SchemaChange) -> Iterator[Difference]:
    for name in ("ddl", "table", "kinds", "targets", "renamed"):
        yield from _field(f"ddl.{name}", getattr(given, name), getattr(found, name))
    if (given.after is None) != (found.after is None):
        yield Difference("ddl.after", given.after, found.after)
    elif given.after is not None and found.after is not None:
        yield from _definition("ddl.after", given.after, found.after)


# ---------------------------------------------------------------- a route


_SECOND_NS: Final = 1_000_000_000
#: What orders rows and statements: without it, a row may be read with an older definition, or with none.
_OF_ORDER: Final = frozenset(
    {Loss.COMMIT_TS, Loss.COMMIT_TS_SYNTHETIC, Loss.BINLOG_POSITION, Loss.EVENT_TIME_PRECISION}
)


class Step(NamedTuple):
    """A record with its events, what was counted for it, and what a reader finds in its messages."""

    record: ConsumerRecord
    given: list[Event]
    counted: Counter[Loss]
    found: list[Found]


class Case:
    """Records of a file, on their way through one route and back."""

    def __init__(self, file: str, target: str, options: Mapping[str, str]) -> None:
        sample = captured_sample(file)
        reading = {**options_of_file(file), **sample.options}
        written = with_storage(target, dict(options))
        self.label = f"{target} {dict(options)}"
        self.name = f"{file} -> {self.label}"
        self.source, self.target = sample.protocol, target
        self._records, self._objects = captured(file), dict(sample.objects)
        self.translator = decoded_once(file, Translator(sample.protocol, target, reading, written), reading)
        self.viewer = decoded_once(file, Translator(sample.protocol, sample.protocol, reading), reading)
        self._reading_options = reading_options(target, written)
        self.reader = self._new_reader()
        self._offsets: Counter[tuple[str, int]] = Counter()

    def _new_reader(self) -> Translator:
        return Translator(self.target, self.target, self._reading_options)

    def steps(self) -> Iterator[Step]:
        """Translate record by record; those that are refused lose nothing silently."""
        for record in self._records:
            counted = self.translator.losses
            try:
                produced = self._asked(self.translator, self.translator.translate, record)
                given = self._asked(self.viewer, self.viewer.inspect, record)
            except (CodecError, ServiceError):
                continue
            lost = self.translator.losses - counted
            may_meet = not _OF_ORDER.isdisjoint(lost) and any(map(self._is_of_a_statements_second, given))
            yield Step(record, given, lost, self._read(produced, may_meet=may_meet))

    def _is_of_a_statements_second(self, event: Event) -> bool:
        """Whether a row is of the second in which the reader has met a statement about its table."""
        if not isinstance(event, RowChange):
            return False
        second = event.source.event_time_ns // _SECOND_NS
        tables = self.reader.catalog.histories.get(event.table.database)
        versions = () if tables is None else tables.get(event.table.table, ())
        return any(version.at.event_time_ns // _SECOND_NS == second for version in versions)

    def _read(self, produced: Iterable[ProducerRecord], *, may_meet: bool) -> list[Found]:
        """What the reader finds. `may_meet`: rows and statements may meet in another order than the source's."""
        found: list[Found] = []
        for out in produced:
            partition = out.topic, out.partition
            for blob in out.blobs:
                self._objects[blob.name] = blob.data
            record = ConsumerRecord(
                out.topic,
                out.partition,
                self._offsets[partition],
                out.timestamp_ms,
                out.key,
                out.value,
                out.headers,
            )
            self._offsets[partition] += 1
            skipped = self.reader.losses[Loss.EMPTY_ROW]
            found += self._inspected(record, may_meet=may_meet)
            found += [Skipped()] * (self.reader.losses[Loss.EMPTY_ROW] - skipped)
        return found

    def _inspected(self, record: ConsumerRecord, *, may_meet: bool) -> list[Event]:
        """The events of a record. If a statement of the same second contradicts a row, that is what the row
        says by itself.
        """
        try:
            found: list[Event] = self._asked(self.reader, self.reader.inspect, record)
            _ = [(event.before, event.after) for event in found if isinstance(event, RowChange)]
        except DecodeError:
            if not may_meet:
                raise
            alone = self._new_reader()
            found = self._asked(alone, alone.inspect, record)
        return found

    def _asked(
        self, translator: Translator, call: Callable[[ConsumerRecord], Any], record: ConsumerRecord
    ) -> Any:
        while True:
            try:
                return call(record)
            except Need as need:
                translator.provide(need, answer(need, self._objects))


# ---------------------------------------------------------------- kinds of loss

#: What is counted with a statement or a definition and explains what later rows lack.
LASTING: Final = frozenset(
    {
        Loss.DDL,
        Loss.TRUNCATE_OR_DROP,
        Loss.DDL_NOT_UNDERSTOOD,
        Loss.TABLE_DEFINITION,
        Loss.BOOTSTRAP,
        Loss.DDL_COPIES,
        Loss.DDL_MERGED,
    }
)
#: What is counted with a statement and explains which charsets later rows lack.
OF_STATEMENTS: Final = frozenset({Loss.TYPE_PARAMETERS})
_OF_TYPES: Final = frozenset(
    {Loss.UNTYPED, Loss.TYPE_PARAMETERS, Loss.COLUMN_TYPE, Loss.SCHEMA_INFERRED, Loss.VALUE_INFERRED}
)
_OF_DEFINITIONS: Final = _OF_TYPES | LASTING
_OF_VALUES: Final = frozenset(
    {
        *(Loss.DECIMAL_DIGITS, Loss.ZERO_DATE, Loss.TIME_RANGE, Loss.YEAR_BELOW_100, Loss.ENUM_INDEX),
        *(Loss.JSON_NULL, Loss.NULL_REPLACED_BY_DEFAULT, Loss.INVALID_TEXT, Loss.COLUMN_TYPE),
        *(Loss.REPEATED_HOUR, Loss.ZONE_INFERRED, Loss.EPOCH_OR_ZERO_DATE, Loss.NULL_OR_DEFAULT),
    }
)
_OF_OLD_ROWS: Final = frozenset(
    {Loss.BEFORE_IMAGE, Loss.BEFORE_MISSING, Loss.DELETE_IMAGE, Loss.COLUMNS_ABSENT, Loss.DELETE}
)
_OF_DEFINITION_AFTER: Final = frozenset({Loss.DDL_NOT_UNDERSTOOD, Loss.TABLE_DEFINITION}) | (
    _OF_ORDER - {Loss.COMMIT_TS}
)
#: By the field of an event, the kinds of loss that may explain a difference.
KINDS: Final[dict[str, frozenset[Loss]]] = {
    "RowChange": frozenset({Loss.DELETE, Loss.EMPTY_ROW}),
    "SchemaChange": frozenset(
        {Loss.DDL, Loss.TRUNCATE_OR_DROP, Loss.ADMIN_STATEMENT, Loss.DDL_COPIES, Loss.STATEMENT}
    ),
    "Watermark": frozenset({Loss.WATERMARK}),
    "Bootstrap": frozenset({Loss.BOOTSTRAP, Loss.DDL_COPIES}),
    "TransactionMark": frozenset({Loss.TRANSACTION_MARK}),
    "Heartbeat": frozenset({Loss.HEARTBEAT}),
    "mark.count": frozenset({Loss.TRANSACTION_TOTAL}),
    "mark.table_counts": frozenset({Loss.TRANSACTION_TOTAL}),
    "op": frozenset({Loss.DELETE, Loss.SNAPSHOT, Loss.BEFORE_MISSING, Loss.BEFORE_IMAGE}),
    "before": _OF_OLD_ROWS,
    "before.": _OF_VALUES | _OF_OLD_ROWS,
    "after.": _OF_VALUES | {Loss.COLUMNS_ABSENT},
    "schema.": _OF_DEFINITIONS,
    "schema.id": frozenset({Loss.COLUMN_NAMES}),
    "schema.primary_key": frozenset({Loss.PRIMARY_KEY, Loss.SCHEMA_INFERRED, *LASTING}),
    "schema.column": _OF_DEFINITIONS | {Loss.COLUMN_NAMES, Loss.COLUMNS_ABSENT, Loss.DELETE_IMAGE},
    "bootstrap.": frozenset(),
    "ddl.after": _OF_DEFINITION_AFTER,
    **{
        f"ddl.after.{name}": _OF_DEFINITION_AFTER | {Loss.TYPE_PARAMETERS}
        for name in ("charset", "collation", "type.charset", "type.collation")
    },
    "ddl.": frozenset({Loss.DDL, Loss.DDL_NOT_UNDERSTOOD, Loss.TABLE_DEFINITION}),
    "source.event_time_ns": frozenset({Loss.EVENT_TIME, Loss.EVENT_TIME_PRECISION}),
    "source.commit_ts": frozenset({Loss.COMMIT_TS, Loss.COMMIT_TS_SYNTHETIC}),
    "source.binlog_position": frozenset({Loss.BINLOG_POSITION, Loss.BINLOG_POSITION_SYNTHETIC}),
    "source.binlog_file": frozenset({Loss.BINLOG_POSITION, Loss.BINLOG_POSITION_SYNTHETIC}),
    "source.binlog_row": frozenset({Loss.BINLOG_ROW}),
    **{
        f"source.{name}": frozenset({kind})
        for name, kind in SOURCE_LOSSES.items()
        if kind is not None and name not in {"commit_ts", "binlog_position", "binlog_row"}
    },
    **{
        f"transaction.{name}": frozenset({kind, Loss.TRANSACTION})
        for name, kind in TRANSACTION_LOSSES.items()
        if kind is not None
    },
}


def kinds_of(where: str) -> frozenset[Loss]:
    """Return the kinds of loss that may explain a difference there: those of its own, or of its part."""
    found = KINDS.get(where)
    while found is None and "." in where:
        where = where.rpartition(".")[0]
        found = KINDS.get(f"{where}.", KINDS.get(where))
    return found or frozenset()


# ---------------------------------------------------------------- excuses


class Excuse(NamedTuple):
    """Why a difference is no loss, and how to tell. `used_by`: a case that needs it, by file, target and the
    set of options.
    """

    why: str
    applies: Callable[[Difference], bool]
    used_by: tuple[str, str, str]


def _type_of(side: Any) -> Any:
    column = side[0] if isinstance(side, tuple) and side else None
    return column.type if isinstance(column, Column) else None


def explaining_kinds(difference: Difference) -> frozenset[Loss]:
    """Return the kinds of loss that may explain a difference. A cell that is read with another type differs for
    the reason for which the type does.
    """
    where = difference.where
    found = kinds_of(where)
    if where.startswith("schema.") and difference.is_of_order:
        found |= _OF_ORDER
    if where.startswith(("before.", "after.")):
        found |= {Loss.COLUMN_NAMES}
        ours, theirs = _type_of(difference.given), _type_of(difference.found)
        if ours is not None and theirs is not None and ours != theirs:
            found |= _OF_DEFINITIONS | (_OF_ORDER if difference.is_of_order else frozenset())
    return found


def _cells(d: Difference) -> tuple[Any, Any] | None:
    """The cells of a column that differs; None of another difference."""
    if isinstance(d.given, tuple) and isinstance(d.found, tuple):
        return d.given[-1], d.found[-1]
    return None


def _is_virtual(d: Difference) -> bool:
    side = d.given
    column = side[0] if isinstance(side, tuple) and side else side
    return isinstance(column, Column) and column.generated is Generated.VIRTUAL


def _is_new_to_the_source(d: Difference) -> bool:
    is_of_type = ".type." in d.where and d.given[-1] is None
    is_of_definition = d.where.startswith(("schema.", "ddl.after.", "bootstrap."))
    return is_of_definition and (is_of_type or d.given is None or d.given is ABSENT)


def _is_same_charset(d: Difference) -> bool:
    """Whether both definitions give a column, or the columns without a charset of their own, the same one."""
    if d.tables is None:
        return False
    types = (d.given[0], d.found[0]) if ".type." in d.where else (_TEXT, _TEXT)
    charsets = types[1].charset, types[1].collation, d.tables[1].charset, d.tables[1].collation
    if not d.target.startswith("ticdc-") and not any(charsets):
        return False  # MySQL has other defaults than TiDB.
    ours, theirs = (charset_of(*each) for each in zip(types, d.tables, strict=True))
    at = 0 if d.where.endswith(".charset") else 1
    return ours[at] == theirs[at]


_TEXT: Final = ColumnType("text")


def _is_default_of_simple(d: Difference) -> bool:
    """Definitions of TiCDC Simple leave out TiDB's defaults, and have no character set of the table."""
    where, given = d.where.partition(".")[2], d.given
    if where in {"charset", "collation"}:
        return given in {"utf8mb4", "utf8mb4_bin"}
    if where in {"type.charset", "type.collation"}:
        return given[1] in {"utf8mb4", "utf8mb4_bin"}
    if where == "type.length":
        return given[0].base in INTEGER_BITS and given[1] in set(DISPLAY_WIDTHS[given[0].base])
    return where == "column.default" and given == Default(None)


EXCUSES: Final = (
    Excuse(
        "TiCDC Simple puts the definition before a table's first row",
        lambda d: d.where == "Bootstrap" and d.event is None and "simple" in d.target,
        ("mysql/canal-protobuf/09_dml", "ticdc-simple-json", "reduced"),
    ),
    Excuse(
        "the value of a virtual generated column follows from the definition",
        _is_virtual,
        ("mysql/canal-json/11_enum_set_json_generated", "ticdc-debezium", "default"),
    ),
    Excuse(
        "every target has its own name for the connector",
        lambda d: d.where == "source.connector",
        ("mysql/canal-protobuf/09_dml", "ckafka-json", "reduced"),
    ),
    Excuse(
        "a source that was not given a name has that of the target",
        lambda d: d.where == "source.name" and d.given in {None, "default"},
        ("mysql/canal-protobuf/09_dml", "debezium-avro", "reduced"),
    ),
    Excuse(
        "the unit of a time is the wire's",
        lambda d: d.where == "source.time_unit_ns",
        ("mysql/canal-protobuf/09_dml", "ckafka-json", "reduced"),
    ),
    Excuse(
        "the reader knows more of a definition than the source said",
        _is_new_to_the_source,
        ("ticdc/canal-json.claim-check-raw/04_strings_binary", "ckafka-json", "full"),
    ),
    Excuse(
        "a column has the charset of its table, and a table of TiDB has TiDB's own, where nothing says another",
        lambda d: d.where.endswith((".charset", ".collation")) and _is_same_charset(d),
        ("mysql/canal-protobuf/09_dml", "ticdc-simple-json", "reduced"),
    ),
    Excuse(
        "TiCDC Simple finds a definition by ids, other wires by the table's name",
        lambda d: d.where.endswith(".table_id"),
        ("ticdc/simple.json/06_zero_dates", "canal-json", "reduced"),
    ),
    Excuse(
        "a statement of TiDB has its backslashes doubled for readers of MySQL's DDL",
        lambda d: d.where == "ddl.ddl" and d.given == d.found.replace("\\\\", "\\"),
        ("ticdc/debezium.no-schema/11_enum_set_json_generated", "canal-protobuf", "reduced"),
    ),
    Excuse(
        "a statement about several tables is written as one for each, as the producer does",
        lambda d: d.where == "ddl.ddl" and _is_of_several(d.event) and d.parts > 1,
        ("mysql/canal-protobuf.hashed/10_ddl", "ticdc-canal-json", "full"),
    ),
    Excuse(
        "a rename into another database names both databases",
        lambda d: (
            d.where == "ddl.ddl" and any(each.old.database != each.new.database for each in d.event.renamed)
        ),
        ("mysql/canal-protobuf.hashed/10_ddl", "ticdc-canal-json", "full"),
    ),
    Excuse(
        "the connector writes DROP TABLE anew, without comments",
        lambda d: (
            d.where == "ddl.ddl"
            and d.found
            in {f"{drop_keywords(d.given)} {name}" for name in (d.event.table, quoted_table(d.event.table))}
        ),
        ("mysql/canal-json/10_ddl", "debezium-json", "default"),
    ),
    Excuse(
        "TRUNCATE is a row's message, which has no text, with skipped.operations=none",
        lambda d: (
            d.where == "ddl.ddl"
            and d.event.kinds == (DdlKind.TRUNCATE_TABLE,)
            and d.found == f"TRUNCATE TABLE {quoted_table(d.event.table)}"
        ),
        ("ticdc/canal-json/10_ddl", "debezium-json", "full"),
    ),
    Excuse(
        "Debezium writes 0, which is no place in a transaction, where nobody says it",
        lambda d: (
            d.where in {"transaction.order", "transaction.table_order"} and d.given is None and d.found == 0
        ),
        ("mysql/canal-protobuf/09_dml", "debezium-avro", "full"),
    ),
    Excuse(
        "output_nulls=false leaves NULL out, as readers know from the definition",
        lambda d: (
            d.where.startswith(("before.", "after.", "schema.column"))
            and "'output_nulls': 'false'" in d.target
            and (d.where == "schema.column" or _cells(d) == (None, ABSENT))
        ),
        ("mysql/canal-protobuf/09_dml", "maxwell-json", "reduced"),
    ),
    Excuse(
        "a row of NULLs has no columns with output_nulls=false: who knows no definition counts it",
        lambda d: (
            isinstance(d.found, Skipped)
            and "'output_nulls': 'false'" in d.target
            and d.event is not None
            and set(d.event.before or d.event.after) == {None}
        ),
        ("mysql/canal-protobuf/09_dml", "maxwell-json", "reduced"),
    ),
    Excuse(
        "a table whose messages show virtual columns, without their values, is read by its own schema",
        lambda d: (
            d.where in {"schema.column.generated", "schema.complete", "schema.unique_keys"}
            and d.target.startswith("ticdc-debezium-avro")
            and any(column.generated is Generated.VIRTUAL for column in d.event.schema.columns)
        ),
        ("ticdc/debezium.no-schema/11_enum_set_json_generated", "ticdc-debezium-avro", "full"),
    ),
    Excuse(
        "that a row is of a snapshot is kept; which of its rows is the first or last is not of the row",
        lambda d: d.where == "source.snapshot" and None not in {d.given, d.found},
        ("mysql/debezium.snapshot/10_ddl", "ckafka-json", "full"),
    ),
    Excuse(
        "a row's number in its event is written where nobody says it",
        lambda d: d.where == "source.binlog_row" and d.given is None,
        ("mysql/canal-protobuf/09_dml", "debezium-avro", "reduced"),
    ),
    Excuse(
        "a definition without a statement is written as one of a snapshot",
        lambda d: isinstance(d.event, Bootstrap) and d.where == "source.snapshot",
        ("ticdc/simple.json/06_zero_dates", "debezium-json", "default"),
    ),
    Excuse(
        "a definition as a statement has the indexes of foreign keys as any other",
        lambda d: (
            d.where.endswith(".indexes")
            and d.target.startswith(("debezium-json", "debezium-avro"))
            and tuple(msgspec.structs.replace(index, is_implied=False) for index in d.given) == d.found
        ),
        ("ticdc/simple.json/10_ddl", "debezium-json", "default"),
    ),
    Excuse(
        "definitions of TiCDC Simple leave out TiDB's defaults",
        lambda d: (
            d.where.startswith(("bootstrap.", "schema."))
            and "simple" in d.target
            and _is_default_of_simple(d)
        ),
        ("mysql/debezium.snapshot/10_ddl", "ticdc-simple-avro", "default"),
    ),
)


class Uncounted(NamedTuple):
    """A difference that no kind of loss explains, where it was found, what was counted there, and why it is no
    loss; None if it is one.
    """

    case: str
    offset: int
    difference: Difference
    counted: list[str]
    excuse: str | None


def silent_losses(case: Case) -> list[Uncounted]:
    """Find the differences that nothing explains."""
    return [each for each in uncounted(case) if each.excuse is None]


def uncounted(case: Case) -> Iterator[Uncounted]:
    """Find the differences that no kind of loss explains."""
    lasting: set[Loss] = set()
    of_statements: set[Loss] = set()
    for step in case.steps():
        counted = set(step.counted)
        lasting |= counted & LASTING
        if any(isinstance(event, SchemaChange) for event in step.given):
            of_statements |= counted & OF_STATEMENTS
        pairs = pairs_of(step.given, step.found, lost_deletes=Loss.DELETE in counted)
        for pair in pairs:
            for difference in differences(pair, case.label, case.reader.catalog):
                has_charset = difference.where.endswith((".charset", ".collation"))
                known = counted | lasting | (of_statements if has_charset else set())
                if explaining_kinds(difference).isdisjoint(known):
                    why = next((each.why for each in EXCUSES if each.applies(difference)), None)
                    yield Uncounted(case.name, step.record.offset, difference, sorted(counted), why)
