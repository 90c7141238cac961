"""Whether what a reader of the target finds is what the source said, as far as the target carries it."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from fuzz.findings import BrokenError, Setting
from relay import ABSENT, DecodeError, Event, Loss, Op, RowChange, SchemaChange
from relay.codecs import PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Before
from relay.model.events import Cell, Column, DdlKind, Row, TableSchema
from relay.mysql.ddl.drops import drop_keywords
from relay.mysql.types import BINARIES, FRACTIONAL, INTEGER_BITS, quoted_table

#: Words that say that a row's cells are not all there, or not as they were.
VALUES_LOST: Final = frozenset(
    {
        *(
            Loss.VALUE_INFERRED,
            Loss.INVALID_TEXT,
            Loss.DECIMAL_DIGITS,
            Loss.ZERO_DATE,
            Loss.JSON_NULL,
            Loss.TIME_RANGE,
            Loss.YEAR_BELOW_100,
        ),
        *(Loss.ENUM_INDEX, Loss.NULL_REPLACED_BY_DEFAULT, Loss.NULL_OR_DEFAULT, Loss.EPOCH_OR_ZERO_DATE),
        *(Loss.COLUMN_TYPE, Loss.TYPE_PARAMETERS, Loss.UNTYPED, Loss.SCHEMA_INFERRED, Loss.EMPTY_ROW),
    }
)
#: What cells of a column are, by its base type, as `relay.model.events` says; of others they may be anything.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys([*INTEGER_BITS, "bit", "year"], (int,)),
    **dict.fromkeys(BINARIES, (bytes,)),
    **dict.fromkeys(["float", "double"], (float,)),
    **dict.fromkeys(["char", "varchar", "text", "date", "datetime", "timestamp", "time", "json"], (str,)),
    "decimal": (Decimal,),
}
_BEFORE_LOST: Final = frozenset(
    {Loss.BEFORE_MISSING, Loss.BEFORE_IMAGE, Loss.COLUMNS_ABSENT, Loss.DELETE_IMAGE}
)


#: Statements that are not written, or not with this copy.
_UNWRITTEN_STATEMENTS: Final = frozenset(
    {Loss.DDL, Loss.TRUNCATE_OR_DROP, Loss.DDL_COPIES, Loss.ADMIN_STATEMENT}
)


#: The kind of failure where a reader takes a message, and not the values in it.
VALUES_REFUSED: Final = "values refused"


class Target(NamedTuple):
    """What the target of a route carries. `copies`: of every statement; None if it carries none.
    `names_dropped`: DROP TABLE and TRUNCATE are written anew, with the table's full name, as the producer does.
    """

    route: str
    copies: int | None
    knows_before: bool
    keeps_order: bool
    names_dropped: bool = False

    @classmethod
    def of(cls, setting: Setting) -> Target:
        """The target of a setting."""
        codec = PROTOCOLS[setting.target]
        carries = codec.encodes(parse_options(codec, setting.target_options, "to"))
        copies = (setting.partitions or 1) if codec.ddl_everywhere else 1
        # A statement goes to the topics of all tables that it is about, and to those of a whole database.
        has_one_topic = "{table}" not in setting.topic and not setting.rules
        return cls(
            f"{setting.source} -> {setting.target}",
            copies if carries.ddl and has_one_topic else None,
            carries.before is not Before.NONE,
            {setting.partitions, *(rule.partitions for rule in setting.rules)} <= {None, 1},
            setting.target in {"debezium-json", "debezium-avro"},
        )


def compare(
    target: Target, given: Sequence[Event], found: Sequence[Event], losses: AbstractSet[Loss]
) -> None:
    """Raise BrokenError if the reader found other events than the source had."""
    route = target.route
    if target.copies is not None and not _UNWRITTEN_STATEMENTS & losses:
        _same_statements(target, target.copies, given, found)
    rows = [event for event in given if isinstance(event, RowChange)]
    read = [event for event in found if isinstance(event, RowChange)]
    if Loss.EMPTY_ROW in losses:
        # NULLs alone name no columns, and a reader that does not know the table finds no row. The loss is counted
        # for messages without a row, too, so all such rows may be found as well.
        rows, read = _with_a_value(rows), _with_a_value(read)
    if Loss.DELETE in losses:  # the row that is gone has no message: only the others are looked for
        rows, read = _not_deleted(rows), _not_deleted(read)
    at = 0
    for change in rows:
        here = read[at : at + 2]
        if not here:
            raise BrokenError("events", "rows are missing", route, f"{len(rows)} rows, {len(read)} read")
        used = _same_change(route, change, here, losses, knows_before=target.knows_before)
        at += used
        if used == 1 and not VALUES_LOST & losses and target.keeps_order:
            _same_images(route, change, here[0])
    if at != len(read):
        raise BrokenError("events", "rows too many", route, f"{len(rows)} rows, {len(read)} read")


def _with_a_value(changes: Sequence[RowChange]) -> list[RowChange]:
    return [
        change
        for change in changes
        if any(
            not (cell is None or cell is ABSENT)
            for row in (change.before, change.after)
            for cell in row or ()
        )
    ]


def _not_deleted(changes: Sequence[RowChange]) -> list[RowChange]:
    return [change for change in changes if change.op is not Op.DELETE]


def _same_statements(target: Target, copies: int, given: Sequence[Event], found: Sequence[Event]) -> None:
    route = target.route
    read = [event.ddl for event in found if isinstance(event, SchemaChange)]
    changes = [event for event in given if isinstance(event, SchemaChange)]
    expected = [change for change in changes for _ in range(copies)]
    single = [change for change in changes if len(change.kinds) < 2]  # others stay as they are
    if any(len(change.targets) > 1 or len(change.renamed) > 1 for change in single):
        return  # some producers write one statement for each table
    if any(pair.old.database != pair.new.database for change in single for pair in change.renamed):
        return  # TiCDC names both databases
    # Maxwell has a message for each table.
    several = {change.ddl for change in changes if len(change.targets) > 1 or len(change.renamed) > 1}
    expected = [change for text, group in groupby(expected, _ddl) for change in _once(text, group, several)]
    read = [each for text, group in groupby(read) for each in _once(text, group, several)]
    if len(expected) != len(read):
        raise BrokenError("events", "number of statements", route, f"{len(expected)} said, {len(read)} read")
    for change, text in zip(expected, read, strict=True):
        if _bare(text) not in map(_bare, _texts(target, change)):
            raise BrokenError("events", "another statement", route, f"{change.ddl[:200]!r} / {text[:200]!r}")


_ddl: Final = attrgetter("ddl")
Statement = TypeVar("Statement")


def _once(text: str, repeated: Iterator[Statement], several: AbstractSet[str]) -> list[Statement]:
    """Neighbors of one text: the first one if it is about several tables, else all."""
    return [next(repeated)] if text in several else [*repeated]


def _bare(text: str) -> str:
    """A statement without backslashes: producers differ in what they mean."""
    return text.replace("\\", "")


def _texts(target: Target, change: SchemaChange) -> list[str]:
    """The texts that a target may have of a statement: its own, and as the target's producer writes it."""
    words = drop_keywords(change.ddl)
    if target.names_dropped and words and change.kinds == (DdlKind.DROP_TABLE,):
        return [change.ddl, f"{words} {quoted_table(change.table)}"]
    if target.names_dropped and change.kinds == (DdlKind.TRUNCATE_TABLE,):
        # A row's message of `skipped.operations=none` has no text.
        return [change.ddl, f"TRUNCATE TABLE {quoted_table(change.table)}"]
    return [change.ddl]


def _same_change(
    route: str, change: RowChange, here: Sequence[RowChange], losses: AbstractSet[Loss], *, knows_before: bool
) -> int:
    """How many changes that were read stand for one of the source: two if it was split."""
    # Where a target tells whole seconds, a row of the first second of 1970 looks like one of a snapshot.
    ops = [_without_snapshot(each.op) for each in here]
    if change.table != here[0].table and Loss.COLUMN_NAMES not in losses:
        raise BrokenError("events", "another table", route, f"{change.table} / {here[0].table}")
    if change.op is Op.UPDATE and ops == [Op.DELETE, Op.INSERT]:
        return 2
    expected = _without_snapshot(change.op)
    may_be_insert = expected is Op.UPDATE and (not knows_before or bool(_BEFORE_LOST & losses))
    if ops[0] is not expected and not (may_be_insert and ops[0] is Op.INSERT):
        raise BrokenError("events", f"{change.op.value} became {here[0].op.value}", route)
    return 1


def _without_snapshot(op: Op) -> Op:
    """The operation; INSERT for a row that a snapshot has read, which not all targets tell apart."""
    return Op.INSERT if op is Op.READ else op


def are_sound(events: Sequence[Event]) -> bool:
    """Whether the values of all rows can be read, and read back. Text that both sides spell alike passes
    unread; words for what is no number are written and refused (docs/decisions/debezium-json-read.md).
    """
    try:
        rows = [
            row for event in events if isinstance(event, RowChange) for row in (event.before, event.after)
        ]
    except DecodeError:
        return False
    return all(math.isfinite(cell) for row in rows for cell in row or () if isinstance(cell, float))


def lacks_digits(change: RowChange) -> bool:
    """Whether a DECIMAL has fewer digits after its decimal point than its column."""
    rows = (
        zip(change.schema.columns, change.before or (), strict=False),
        zip(change.schema.columns, change.after or (), strict=False),
    )
    return any(
        isinstance(cell, Decimal) and -int(cell.as_tuple().exponent) < (column.type.scale or 0)
        for row in rows
        for column, cell in row
    )


def _has_types_of_model(route: str, change: RowChange) -> None:
    """Raise BrokenError for a cell that is not of its column's kind, where the definition is known."""
    for row in (change.before, change.after):
        for column, cell in zip(change.schema.columns, row or (), strict=row is not None):
            kinds = _KINDS.get(column.type.base)
            if cell is None or cell is ABSENT or kinds is None or type(cell) in kinds:
                continue
            kind = f"{type(cell).__name__} in {column.type.base}"
            raise BrokenError("model", kind, route.partition(" -> ")[0], f"{cell!r:.200}")


def _same_images(route: str, change: RowChange, read: RowChange) -> None:
    try:
        given = change.before, change.after
    except DecodeError:
        return  # text that passes unread
    try:
        found = read.before, read.after
    except DecodeError as error:
        raise BrokenError("read back", VALUES_REFUSED, route, str(error)) from error
    if change.schema.complete:
        _has_types_of_model(route, change)
    if not (change.schema.complete and read.schema.complete):
        return
    if _types(change.schema) != _types(read.schema):
        return
    for which, one, other in zip(("before", "after"), given, found, strict=True):
        if one is not None and other is not None:
            _same_row(f"{route}", which, (change.schema, one), (read.schema, other))


def _types(schema: TableSchema) -> dict[str, object]:
    return {column.name: column.type for column in schema.columns}


def _same_row(route: str, which: str, one: tuple[TableSchema, Row], other: tuple[TableSchema, Row]) -> None:
    cells = {column.name: cell for column, cell in zip(other[0].columns, other[1], strict=True)}
    for column, cell in zip(one[0].columns, one[1], strict=True):
        found = cells[column.name]
        if cell is ABSENT or found is ABSENT or plain_value(cell, column) == plain_value(found, column):
            continue
        members = column.type.members or ()
        if len(set(members)) < len(members):
            continue  # MySQL warns of a name that a SET has twice: a text does not tell which one is meant
        if cell == cell:  # noqa: PLR0124 - not NaN, which equals nothing
            raise BrokenError(
                "values",
                f"{column.type.base} {which}",
                route,
                f"{column.type}: {cell!r:.200} / {found!r:.200}",
            )


#: Before the last two digits of hours.
_ZEROS_OF_HOURS: Final = re.compile(r"(?<!\d)0+(?=\d\d:)")
_JSON_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]++', re.DOTALL)


def plain_value(cell: Cell, column: Column) -> object:
    """The cell; a FLOAT as the 32 bits that it has in MySQL, a fraction of a second without zeros behind it,
    hours without zeros before them, no time at all without a sign,
    BINARY without the bytes that it is padded with: sources may leave them out, and readers put them back;
    JSON and VECTOR without the spaces that MySQL prints between their parts, and others do not, and JSON
    without a byte as the null that it is for MySQL; the YEAR 1900, which MySQL does not have, as the 0000 that
    Debezium writes so.
    """
    if column.type.base == "year" and cell == 1900:
        return 0
    if isinstance(cell, str) and column.type.base in {"json", "vector"}:
        return _JSON_SPACE.sub(lambda match: match[1] or "", cell) or "null"
    if isinstance(cell, str) and column.type.base in FRACTIONAL:
        whole, point, fraction = cell.partition(".")
        text = whole + (point + fraction).rstrip(".0")
        if column.type.base == "time":
            text = _ZEROS_OF_HOURS.sub("", text)
        return text if text.strip("-0:") else text.removeprefix("-")
    if isinstance(cell, bytes) and column.type.base == "binary":
        return cell.rstrip(b"\0")
    if column.type.base != "float" or not isinstance(cell, float):
        return cell
    try:
        return struct.pack(">f", cell)
    except OverflowError:
        return cell
