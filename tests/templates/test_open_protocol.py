"""Open Protocol as a source of templates: which messages fit; the same comes out of the others, too."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from open_support import V1, cell, ddl, framed, raw, row, segment
from support import OPEN, TICDC
from templates_support import Both

from relay import ConsumerRecord
from relay.model.events import RowChange
from relay.templates.engine import MAX_TRIED
from relay.templates.route.deriving import Deriver

TABLE = ddl("CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(9), price DOUBLE, note TEXT, at TIMESTAMP)")


def image(**values: Any) -> dict[str, Any]:
    """Columns of the table as TiCDC writes them."""
    cells = {
        "id": cell(3, 1, 11, h=True),
        "name": cell(15, "a", 64),
        "price": cell(5, 1.5, 65),
        "note": cell(252, "eA==", 64),
        "at": cell(7, "2024-01-01 00:00:00", 65),
    }
    return {name: known | {"v": values[name]} if name in values else known for name, known in cells.items()}


INSERT = row({"u": image()})
TEXT = (
    '{"u":{"id":{"t":3,"h":true,"f":11,"v":%s},"price":{"t":5,"f":65,"v":%s},"name":{"t":15,"f":64,"v":%s}}}'
)
KEY = '{"ts":%s,"scm":"d","tbl":"t","t":1}'


def text(identity: str = "1", price: str = "1.5", name: str = '"a"', ts: str = "5") -> ConsumerRecord:
    """A row of a table without DDL, of JSON tokens."""
    return framed((KEY % ts, (TEXT % (identity, price, name)).encode("utf-8", "surrogateescape")))


@pytest.mark.parametrize(
    ("record", "fits"),
    [
        (text("-5", "2", '"b\\"\\u00e9"'), True),
        (text("null", "null", "null"), True),
        (text(ts="18446744073709551615"), True),
        (text("0", "-0.0"), True),
        (text("0", "1e300"), True),
        (text(ts="18446744073709551616"), False),
        (text(ts="-1"), False),
        (text(ts="null"), False),
        (text("-0"), False),
        (text("1.0"), False),
        (text('"1"'), False),
        (text("18446744073709551616"), False),
        (text(price="-0"), False),
        (text(price="1e999"), False),
        (text(price="NaN"), False),
        (text(price='"1.5"'), False),
        (text(name='"\udcff"'), False),
        (text(name='"\\ud800"'), False),
        (text(name="1"), False),
        (text(name="true"), False),
        (text('1,"v":2'), False),
        (text('1,"x":2'), False),
        (text(" 1"), False),
    ],
)
def test_values(record: ConsumerRecord, fits: bool) -> None:
    both = Both(OPEN).learn(text(), text())
    assert both.fits(text())
    assert both.fits(record) is fits


def changed(**flags: Any) -> dict[str, Any]:
    return {name: flags.get(name, known) for name, known in image().items() if flags.get(name, known)}


@pytest.mark.parametrize(
    "record",
    [
        framed(row({"u": changed(name=None)})),
        framed(row({"u": image() | {"more": cell(3, 1)}})),
        framed(row({"u": changed(name=cell(15, "a", 65))})),
        framed(row({"u": changed(name=cell(254, "a", 64))})),
        framed(row({"u": changed(name=cell(15, "a", 64, h=False))})),
        framed(row({"u": changed(name=cell(15, "a", None))})),
        framed(row({"u": changed(note=cell(252, "é", 64))})),
        framed(row({"u": changed(note=cell(252, "/w==", 64))})),
        framed(row({"u": changed(at=cell(7, "yesterday", 65))})),
        framed(row({"u": dict(reversed(image().items()))})),
        framed(row({"d": image()})),
        framed(row({"u": image(), "p": image()})),
        framed(row({"u": image(), "p": None})),
        framed(row({"u": image()}, ptn=7)),
        framed(row({"u": image()}, ohk=True)),
        framed(row({"u": image()}, ccl="s3://nothing")),
        framed(row({"u": image()}, t=3)),
        framed(row({"u": image()}, scm="e")),
        framed(row(b"{}")),
        framed(row(b"")),
        framed(INSERT, row({"d": image()})),
        raw(V1 + segment(b'{"ts":5,"scm":"d","tbl":"t","t":1}'), None),
        raw(None, segment(b"{}")),
    ],
)
def test_other_shapes(record: ConsumerRecord) -> None:
    both = Both(OPEN).learn(framed(TABLE), framed(INSERT), framed(INSERT))
    assert both.fits(framed(INSERT))
    assert not both.fits(record)
    assert both.fits(framed(INSERT))


@pytest.mark.parametrize("change", [1, -1, 1 << 40, 1 << 63])
@pytest.mark.parametrize("part", ["key", "value"])
def test_lengths_are_checked(part: str, change: int) -> None:
    record = framed(INSERT)
    both = Both(OPEN).learn(framed(INSERT), framed(INSERT))
    assert both.fits(record)
    key, value = record.key or b"", record.value or b""
    if part == "key":
        key = key[:8] + struct.pack(">Q", len(key) - 16 + change) + key[16:]
    else:
        value = struct.pack(">Q", len(value) - 8 + change) + value[8:]
    assert not both.fits(raw(key, value))


@pytest.mark.parametrize(
    ("value", "has_template"),
    [
        ('{"u": {"a" : {"v":1, "t":3, "f":65}}}', True),
        ('{"u":{"a":{"t":3,"x":[{}],"f":65,"v":1}}}', True),
        ('{"u":{"a":{"t":3,"f":65,"v":1}},"more":2}', True),
        ('{"u":{"a":{"t":3,"v":1}}}', True),
        ('{"u":{"a":{"t":3,"h":true,"f":65,"v":1,"v":2}}}', False),
        ('{"u":{"a":{"t":3,"f":65,"v":1},"a":{"t":3,"f":65,"v":1}}}', False),
        ('{"u":{"a":{"t":15,"v":"a"}}}', False),
        ('{"u":{}}', False),
        (' {"u":{"a":{"t":3,"f":65,"v":1}}}', False),
    ],
)
def test_odd_shapes_that_come_again(value: str, has_template: bool) -> None:
    both = Both(OPEN)
    assert [both.fits(framed(row(value))) for _ in range(3)] == [False, False, has_template]
    assert both.fits(framed(row(value.replace("1", "2")))) is has_template


def test_a_key_with_its_members_in_another_order() -> None:
    key = '{"scm":"d","tbl":"t","ts":5,"t":1}'
    both = Both(OPEN)
    assert not any(both.fits(framed((key, {"u": image()}))) for _ in range(3))


@pytest.mark.parametrize(
    ("old", "fits"),
    [
        ({"name": "b"}, True),
        ({"name": None, "note": "eQ=="}, True),
        ({"price": 1.5}, True),
        ({}, True),
        ({"id": 2}, False),
        ({"id": 1}, True),
        ({"price": "1"}, False),
    ],
)
def test_old_rows_of_some_columns(old: dict[str, Any], fits: bool) -> None:
    """An update of a key becomes two messages."""
    before = image(**old)
    record = framed(row({"u": image(), "p": {name: before[name] for name in old}}))
    first = framed(row({"u": image(), "p": {"name": before["name"]}}))
    both = Both(OPEN, target=TICDC).learn(framed(TABLE), first, first)
    assert both.fits(record) is fits


@pytest.mark.parametrize(
    "old",
    [
        '{"t":15,"f":64,"v":"b"}',
        '{"name":{"t":15,"f":64,"v":"b"},"t":5,"f":65,"v":1.5}',
        '{"name":{"t":15,"f":65,"v":"b"}}',
        '{"name":{"t":15,"f":64,"h":true,"v":"b"}}',
        '{"note":{"t":252,"f":64,"v":"eQ=="},"name":{"t":15,"f":64,"v":"b"}}',
        '{"more":{"t":3,"f":65,"v":1}}',
        '{"name":{"t":15,"f":64,"v":"b"},"name":{"t":15,"f":64,"v":"b"}}',
    ],
)
def test_old_rows_of_other_cells(old: str) -> None:
    new = image(name=None)
    first = framed(row({"u": new, "p": {"name": image()["name"]}}))
    both = Both(OPEN).learn(framed(TABLE), first, first)
    assert both.fits(first)
    text = bytes(framed(row({"u": new})).value or b"")[8:-1].decode() + ',"p":' + old + "}"
    assert not both.fits(framed(row(text)))


def test_full_old_rows() -> None:
    update = framed(row({"u": image(), "p": image(name="b")}))
    both = Both(OPEN, target=TICDC).learn(framed(TABLE), update, update)
    assert both.fits(framed(row({"u": image(note="eQ=="), "p": image(price=None)})))
    assert not both.fits(framed(row({"u": image(id=2), "p": image(id=1)})))


def at_times(*times: int) -> list[ConsumerRecord]:
    return [framed(row({"u": image()}, ts=ts)) for ts in times]


def test_rows_before_a_statement() -> None:
    """They have a template of their own; at the very moment of the statement the pipeline decides."""
    both = Both(OPEN).learn(framed(ddl("CREATE TABLE d.t (id INT PRIMARY KEY, name TEXT)", ts=100)))
    old, older, moment, new = at_times(99, 98, 100, 101)
    both.learn(new, new)
    assert both.fits(new)
    both.learn(old)
    assert [both.fits(each) for each in (old, older, new, moment)] == [True, True, True, False]


def test_rows_between_statements() -> None:
    """Each definition has a template, also where all statements are known before the first row."""
    both = Both(OPEN).learn(framed(ddl("CREATE TABLE d.t (id INT PRIMARY KEY, name TEXT)", ts=100)))
    for ts in (200, 300, 400):
        both.learn(framed(ddl(f"ALTER TABLE d.t MODIFY COLUMN name VARCHAR({ts})", ts=ts)))
    both.learn(*at_times(450))
    for ts in (450, 350, 250, 150, 50):
        both.learn(*at_times(ts))
        assert all(both.fits(each) for each in at_times(ts - 1, ts, ts + 1, ts + 49, ts - 49))
    assert all(both.fits(each) for each in at_times(450, 350, 250, 150, 50))
    assert not any(both.fits(each) for each in at_times(100, 200, 300, 400))


def test_a_template_that_has_served_may_go() -> None:
    """Tables with more definitions than templates are tried: what comes next is derived at once."""
    both = Both(OPEN)
    times = range(1000, 1000 + 1000 * 3 * MAX_TRIED, 1000)
    for ts in times:
        both.learn(
            framed(ddl(f"CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY, name VARCHAR({ts}))", ts=ts))
        )
    both.learn(*at_times(1001))
    for ts in times:
        both.learn(*at_times(ts + 2))
        assert all(both.fits(each) for each in at_times(*range(ts + 3, ts + 3 + 64)))


def test_templates_that_come_back_drive_each_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more definitions than templates are tried, in turn: these are derived ever less often."""
    made: list[RowChange] = []
    derive = Deriver.derive

    def noting(self: Deriver, record: ConsumerRecord, change: RowChange, *args: Any) -> Any:
        made.append(change)
        return derive(self, record, change, *args)

    monkeypatch.setattr(Deriver, "derive", noting)
    both = Both(OPEN)
    times = range(1000, 1000 * (MAX_TRIED + 3), 1000)
    for ts in times:
        both.learn(
            framed(ddl(f"CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY, name VARCHAR({ts}))", ts=ts))
        )
    for _ in range(5):
        for ts in times:
            for record in at_times(*range(ts + 1, ts + 70)):
                both.fits(record)
    assert len(made) < 3 * len(times)


def test_times_of_records() -> None:
    def at(time_ms: int) -> ConsumerRecord:
        record = framed(INSERT)
        return ConsumerRecord("topic", 0, 0, time_ms, record.key, record.value)

    both = Both(OPEN).learn(at(1000), at(2000))
    assert both.fits(at(3000))
    both.learn(at(-1))
    assert both.fits(at(-1))
    assert both.fits(at(0))
    assert not both.fits(at(1 << 60))


def test_local_times() -> None:
    both = Both(OPEN, {"timezone": "Asia/Shanghai"}).learn(framed(INSERT), framed(INSERT))
    assert not both.fits(framed(INSERT))
    both = Both(OPEN, {"timezone": "Asia/Shanghai"}).learn(text(), text())
    assert both.fits(text())


def test_compressed_messages() -> None:
    both = Both(OPEN, {"large-message-handle-compression": "lz4"})
    both.learn(framed(INSERT), framed(INSERT), framed(INSERT))
