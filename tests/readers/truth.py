"""The contents of the source's database: every change of every row, read by SQL (tests/data/truth).

A file holds the tables of one set of statements. A change has `commit_ts`, `before` and `after` (null where
there is no such row), and `types` where the table's types are not those of the change before. Values are SQL's
own text, `{"hex": …}` of binary columns; TIMESTAMP is in UTC. Virtual columns are left out: no producer's
message has them.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, NamedTuple

from support import DATA

#: A row as its reader sees it: a value for each column that the table ever had, NULL where it has none.
Row = tuple[Any, ...]
#: "-" takes a row away, "+" puts one there.
Step = tuple[str, Row]
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"}
_BINARIES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_TIMES = {"datetime", "timestamp", "time"}
_DATES = {"date", "datetime", "timestamp"}
#: Servers show the greatest FLOAT with digits that round to more than it is.
_MAX_FLOAT32 = 3.4028234663852886e38


class SqlType(NamedTuple):
    """A column's type, as SHOW COLUMNS tells it: `decimal(10,2) unsigned`."""

    name: str
    numbers: tuple[int, ...]
    unsigned: bool
    members: tuple[str, ...]

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGERS

    @property
    def is_binary(self) -> bool:
        return self.name in _BINARIES


#: Of a column that DDL gave a type of another kind, so that nothing but text is declared for it.
MIXED: Final = SqlType("mixed", (), False, ())


@cache
def sql_type(declared: str) -> SqlType:
    name, arguments = re.fullmatch(r"(\w+)(?:\((.*)\))?.*", declared, re.DOTALL).groups()  # type: ignore[union-attr]  # every type has a name
    if name in {"enum", "set"}:
        members = re.findall(r"'((?:[^']|'')*)'", arguments)
        return SqlType(name, (), False, tuple(member.replace("''", "'") for member in members))
    numbers = tuple(map(int, arguments.split(","))) if arguments else ()
    return SqlType(name, numbers, "unsigned" in declared, ())


def is_calendar_date(cell: str | None) -> bool:
    """Whether a DATE, DATETIME or TIMESTAMP is no 0000-00-00, 2026-02-30 or the like."""
    try:
        datetime.fromisoformat(cell or "1970-01-01")
    except ValueError:
        return False
    return True


class Change(NamedTuple):
    """What a statement did to a row."""

    commit_ts: int
    before: Row | None
    after: Row | None

    @property
    def steps(self) -> list[Step]:
        return [(sign, row) for sign, row in (("-", self.before), ("+", self.after)) if row is not None]


class Table(NamedTuple):
    """A table with all columns that it ever had, each with its last type or MIXED, and its changes."""

    database: str
    name: str
    columns: dict[str, SqlType]
    changes: list[Change]
    #: Whether DDL came between its changes.
    altered: bool

    @property
    def id(self) -> str:
        return f"{self.database}.{self.name}"

    def without(self, names: set[str]) -> Table:
        """The table for a reader that has not declared these columns."""
        assert names <= self.columns.keys(), names - self.columns.keys()
        indexes = [at for at, name in enumerate(self.columns) if name not in names]
        columns = {name: kind for name, kind in self.columns.items() if name not in names}

        def left(row: Row | None) -> Row | None:
            return None if row is None else tuple(row[at] for at in indexes)

        changes = [Change(at, left(before), left(after)) for at, before, after in self.changes]
        return self._replace(columns=columns, changes=changes) if names else self

    def with_calendar_dates(self) -> Table:
        """The table for a reader that gets NULL for dates that are not in the calendar."""
        dates = {at for at, kind in enumerate(self.columns.values()) if kind.name in _DATES}

        def held(row: Row | None) -> Row | None:
            if row is None:
                return None
            return tuple(
                None if at in dates and not is_calendar_date(cell) else cell for at, cell in enumerate(row)
            )

        changes = [Change(at, held(before), held(after)) for at, before, after in self.changes]
        return self._replace(changes=changes)

    @property
    def begins_empty(self) -> bool:
        """Whether every row that goes has come before."""
        there: Counter[str] = Counter()
        for sign, row in (step for change in self.changes for step in change.steps):
            there[repr(row)] += 1 if sign == "+" else -1
            if there[repr(row)] < 0:
                return False
        return True

    def row(self, image: dict[str, Any] | None, value: Callable[[SqlType, Any], Any]) -> Row:
        """A reader's image of a row as a row; `value` makes a value of what the reader gives of it."""
        given = image or {}
        return tuple(
            None if given.get(name) is None else value(kind, given[name])
            for name, kind in self.columns.items()
        )


@cache
def tables(file: str) -> dict[tuple[str, str], Table]:
    """The tables of a set of statements, such as `09_dml`, by database and name."""
    entry = json.loads((DATA / "truth" / f"{file}.json").read_text(encoding="utf-8"))
    return {(each["database"], each["table"]): _table(each) for each in entry}


def _table(entry: dict[str, Any]) -> Table:
    columns: dict[str, SqlType] = {}
    definitions = [change["types"] for change in entry["changes"] if "types" in change]
    for definition in definitions:
        for name, text in definition.items():
            kind = sql_type(text)
            columns[name] = kind if columns.get(name, kind).name == kind.name else MIXED
    changes = [
        Change(each["commit_ts"], _row(columns, each["before"]), _row(columns, each["after"]))
        for each in entry["changes"]
    ]
    return Table(entry["database"], entry["table"], columns, changes, altered=len(definitions) > 1)


def _row(columns: dict[str, SqlType], image: dict[str, Any] | None) -> Row | None:
    return None if image is None else tuple(_cell(kind, image.get(name)) for name, kind in columns.items())


def _cell(kind: SqlType, content: Any) -> Any:
    given = bytes.fromhex(content["hex"]) if isinstance(content, dict) else content
    return None if given is None else value(kind, given)


def value(kind: SqlType, content: Any) -> Any:
    """A value in a form in which equal values are equal, whoever tells it: SQL's text, or bytes."""
    if kind.is_binary:
        return bytes(content)
    if kind.is_integer:
        return int(content)
    if kind.name in _TIMES:
        whole, _, fraction = str(content).replace("T", " ").partition(".")
        return f"{whole}.{fraction:0<6.6}"
    return _READ[kind.name](kind, content) if kind.name in _READ else str(content)


def _decimal(_: SqlType, text: str) -> str:
    """Without the zeros that say nothing."""
    whole, fraction = (*text.split("."), "")[:2]
    return f"{whole}.{fraction}".rstrip("0").rstrip(".")


def _mixed(_: SqlType, text: str) -> str:
    """Numbers as such, since `1.50` of a DECIMAL is `1.5` of a DOUBLE."""
    try:
        return f"{Decimal(text).normalize():f}"
    except InvalidOperation:
        return text


def _float(kind: SqlType, text: str) -> float:
    """FLOAT(p,s) and DOUBLE(p,s) are rounded where they are shown, and not by every server alike."""
    if kind.numbers[1:]:
        return round(float(text), kind.numbers[1])
    return _float32(text) if kind.name == "float" else float(text)


def _float32(text: str) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", min(max(float(text), -_MAX_FLOAT32), _MAX_FLOAT32)))
    return float(rounded)


_READ: Final[dict[str, Callable[[SqlType, str], Any]]] = {
    "decimal": _decimal,
    "double": _float,
    "float": _float,
    "json": lambda _, text: json.dumps(json.loads(text), sort_keys=True),
    "mixed": _mixed,
    "vector": lambda _, text: [_float32(each) for each in json.loads(text)],
}


def difference(table: Table, got: list[Step]) -> str:
    """What is wrong with the steps that a reader saw, in their order; empty where nothing is.

    Within a transaction rows have no order. An update that changes nothing may be there or not.
    """
    wanted = [
        _without_idle([step for change in changes for step in change.steps])
        for _, changes in itertools.groupby(table.changes, key=lambda change: change.commit_ts)
    ]
    left = _without_idle(got)
    for transaction in wanted:
        seen, left = left[: len(transaction)], left[len(transaction) :]
        if wrong := _unequal(table, transaction, seen):
            return wrong
    return _unequal(table, [], left)


def final_difference(table: Table, got: Iterable[Row]) -> str:
    """What is wrong with the rows that are left in the end; empty where nothing is."""
    return _unequal(table, [("+", row) for row in _left(table)], [("+", row) for row in got])


def replay_difference(table: Table, got: list[Step]) -> str:
    """The same for what a reader saw of another server than the truth's: no step takes away a row that is not
    there, and the rows that are left are the truth's.
    """
    there: Counter[str] = Counter()
    rows = {}
    for sign, row in got:
        rows[repr(row)] = row
        there[repr(row)] += 1 if sign == "+" else -1
        if there[repr(row)] < 0:
            return f"takes away a row that is not there: {_named(table, row)}"
    return final_difference(table, [rows[row] for row in there.elements()])


def _left(table: Table) -> list[Row]:
    rows: dict[str, Row] = {}
    there: Counter[str] = Counter()
    for sign, row in (step for change in table.changes for step in change.steps):
        rows[repr(row)] = row
        there[repr(row)] += 1 if sign == "+" else -1
    return [rows[row] for row in there.elements()]


def _without_idle(steps: list[Step]) -> list[Step]:
    found: list[Step] = []
    for sign, row in steps:
        if found and sign == "+" and found[-1] == ("-", row):
            found.pop()
        else:
            found.append((sign, row))
    return found


def _unequal(table: Table, wanted: list[Step], got: list[Step]) -> str:
    missing = Counter(map(repr, wanted)) - Counter(map(repr, got))
    more = Counter(map(repr, got)) - Counter(map(repr, wanted))
    if not missing and not more:
        return ""
    lacking = next((step for step in wanted if repr(step) in missing), None)
    extra = next((step for step in got if repr(step) in more), None)
    if lacking and extra and lacking[0] == extra[0]:
        pairs = zip(table.columns, lacking[1], extra[1], strict=True)
        return (
            lacking[0]
            + " "
            + "; ".join(f"{name}: {a!r} is {b!r}" for name, a, b in pairs if repr(a) != repr(b))
        )
    said = [
        f"{word} {step[0]} {_named(table, step[1])}"
        for word, step in (("lacks", lacking), ("has", extra))
        if step
    ]
    return ", ".join(said)


def _named(table: Table, row: Row) -> str:
    return str(dict(zip(table.columns, row, strict=True)))
