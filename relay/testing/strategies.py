"""Hypothesis strategies: tables with their DDL, and changes of their rows with every kind of value."""

from __future__ import annotations

import string
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import strategies as st

from relay.model.events import Op, Row, RowChange, Rows, SchemaChange, Source, TableId, TableSchema
from relay.mysql.ddl import define_table, read_ddl
from relay.mysql.ddl.statements import CreateTable
from relay.mysql.numbers import shortest_float32
from relay.mysql.types import INTEGER_BITS

#: Text of character columns: everything but lone surrogates and the zero byte, which MySQL's tools treat as
#: an end of text.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NAMES = st.text(string.ascii_letters + "_é表 -.$'", min_size=1, max_size=6).filter(
    lambda name: name == name.strip()
)
_MEMBERS = ("a", "it's", "x,y", "ü", "2")
_SET_MEMBERS = ("a", "it's", "ü", "2")


def _fraction(draw: st.DrawFn, digits: int) -> str:
    return (
        "." + "".join(draw(st.lists(st.sampled_from("0123456789"), min_size=digits, max_size=digits)))
        if digits
        else ""
    )


@st.composite
def _datetimes(draw: st.DrawFn, digits: int, years: tuple[int, int]) -> str:
    moment = draw(st.datetimes()).replace(
        year=draw(st.integers(*years)), month=draw(st.integers(1, 12)), day=draw(st.integers(1, 28))
    )
    return f"{moment.year:04}{moment:-%m-%d %H:%M:%S}{_fraction(draw, digits)}"


@st.composite
def _times(draw: st.DrawFn, digits: int) -> str:
    text = f"{draw(st.integers(0, 837)):02}:{draw(st.integers(0, 59)):02}:{draw(st.integers(0, 59)):02}{_fraction(draw, digits)}"
    is_zero = not text.strip("0:.")
    return text if is_zero or draw(st.booleans()) else f"-{text}"


def _integers(base: str, *, unsigned: bool) -> st.SearchStrategy[int]:
    bits = INTEGER_BITS[base]
    return (
        st.integers(0, (1 << bits) - 1)
        if unsigned
        else st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    )


class Kind(NamedTuple):
    """A column type as DDL has it, and its values."""

    ddl: str
    values: st.SearchStrategy[Any]


def _kinds() -> list[Kind]:
    kinds = [
        Kind(f"{base}{sign}", _integers(base, unsigned=bool(sign)))
        for base in INTEGER_BITS
        for sign in ("", " unsigned")
    ]
    kinds += [Kind(f"bit({bits})", st.integers(0, (1 << bits) - 1)) for bits in (1, 10, 64)]
    zeros = {digits: "0000-00-00 00:00:00" + (f".{'0' * digits}" if digits else "") for digits in (0, 3, 6)}
    kinds += [
        Kind(f"datetime({digits})", st.just(zero) | _datetimes(digits, (1000, 9999)))
        for digits, zero in zeros.items()
    ]
    kinds += [
        Kind(f"timestamp({digits})", st.just(zeros[digits]) | _datetimes(digits, (1971, 2037)))
        for digits in (0, 6)
    ]
    kinds += [Kind(f"time({digits})", _times(digits)) for digits in (0, 3, 6)]
    kinds += [
        Kind(base, TEXT) for base in ("varchar(40)", "char(40)", "tinytext", "text", "mediumtext", "longtext")
    ]
    kinds += [
        Kind(base, st.binary(max_size=12))
        for base in ("varbinary(40)", "tinyblob", "blob", "mediumblob", "longblob")
    ]
    members = ",".join("'" + member.replace("'", "''") + "'" for member in _MEMBERS)
    return [
        *kinds,
        Kind("float", st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32)),
        Kind("double", st.floats(allow_nan=False, allow_infinity=False)),
        Kind(
            "decimal(20,4)",
            st.integers(-(10**20) + 1, 10**20 - 1).map(lambda number: Decimal(number).scaleb(-4)),
        ),
        Kind(
            "decimal(65,0)",
            st.integers(-(10**65) + 1, 10**65 - 1).map(
                lambda number: Decimal((number < 0, _digits(number), 0))
            ),
        ),
        Kind("year", st.just(0) | st.integers(1901, 2155)),
        Kind("date", st.just("0000-00-00") | _datetimes(0, (1000, 9999)).map(lambda text: text[:10])),
        Kind("binary(4)", st.binary(min_size=4, max_size=4)),
        Kind(f"enum({members})", st.integers(1, len(_MEMBERS))),
        Kind("set('a','it''s','ü','2')", st.integers(0, (1 << len(_SET_MEMBERS)) - 1)),
        Kind("json", st.sampled_from(['{"k": [1, 2.50]}', "null", '"x"', "1e100"])),
    ]


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


KINDS = _kinds()
TABLE = TableId("shop", "orders")


class Case(NamedTuple):
    """A table's DDL and changes of its rows, in the order of their commit ts."""

    created: SchemaChange
    changes: tuple[RowChange, ...]


def _source(commit_ts: int) -> Source:
    return Source("ticdc", (commit_ts >> 18) * 1_000_000, commit_ts)


def creation(ddl: str, source: Source, emitted_at_ns: int) -> SchemaChange:
    """Return the event of a CREATE TABLE of `TABLE`."""
    found = read_ddl(ddl)
    (statement,) = found.statements
    assert isinstance(statement, CreateTable)
    after = define_table(TABLE, statement.changes)
    return SchemaChange(ddl, TABLE, found.kinds, "CREATE", source, emitted_at_ns, (TABLE,), (), after)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a table of up to 8 columns after its key, and up to 4 changes."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8))
    several = st.lists(_NAMES, min_size=len(kinds), max_size=len(kinds), unique_by=str.lower)
    names = draw(several.filter(lambda found: "id" not in map(str.lower, found)))
    columns = "".join(f", `{name}` {kind.ddl}" for name, kind in zip(names, kinds, strict=True))
    ddl = f"CREATE TABLE `orders` (`id` BIGINT NOT NULL PRIMARY KEY{columns})"
    start = 470615235786964992
    created = creation(ddl, _source(start), 1_795_254_653_000 * 1_000_000)
    assert created.after is not None
    row = st.tuples(_integers("bigint", unsigned=False), *(st.none() | kind.values for kind in kinds))
    changes = [
        draw(_change(created.after, row, start + (number + 1 << 18)))
        for number in range(draw(st.integers(1, 4)))
    ]
    return Case(created, tuple(changes))


@st.composite
def _change(draw: st.DrawFn, schema: TableSchema, rows: st.SearchStrategy[Row], commit_ts: int) -> RowChange:
    op = draw(st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE]))
    before = draw(rows) if op is not Op.INSERT else None
    after = draw(rows) if op is not Op.DELETE else None
    if before is not None and after is not None:
        after = (before[0], *after[1:])  # the key stays
    return RowChange(op, schema, Rows(before, after), _source(commit_ts), 1_795_254_653_500 * 1_000_000)
