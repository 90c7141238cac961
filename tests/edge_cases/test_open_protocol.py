"""Open Protocol's edge cases of framing, keys and rows.

Values, and what is left of the list, are in modules of their own; the last test here asks for all of them.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from edge_cases.open_protocol import BATCH, CASES, error_of
from open_support import (
    DDL_KEY,
    ROW_KEY,
    V1,
    cell,
    change,
    counted,
    ddl,
    framed,
    raw,
    read,
    records,
    resolved,
    row,
    schema_change,
    segment,
    values,
    written,
)
from support import CANAL, OPEN

from relay import (
    ABSENT,
    ConsumerRecord,
    Malformed,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
    UnsupportedMessage,
    Watermark,
)
from relay.model.events import Event

A, B = cell(3, 1), cell(15, "x", 64)
INSERT = {"u": {"a": A, "b": B}}
RESOLVED_KEY = {"ts": 7, "t": 3}


def events(record: ConsumerRecord) -> list[Event]:
    return Translator(OPEN, OPEN).inspect(record)


# ---------------------------------------------------------------- framing


@pytest.mark.parametrize(
    ("key", "value", "error", "reason"),
    [
        CASES.param("F01", b"", None, Malformed, "key: shorter than the 8 bytes of the version"),
        CASES.param("F01", None, segment(INSERT), Malformed, "key: shorter than the 8 bytes of the version"),
        CASES.param(
            "F02", V1[:7], segment(INSERT), Malformed, "key: shorter than the 8 bytes of the version"
        ),
        CASES.param("F04", V1, bytes(8), Malformed, "value: 0 keys and 1 values"),
        CASES.param("F05", bytes(8), b"", UnsupportedMessage, r"key\[0\]: version 0 "),
        CASES.param("F06", (2).to_bytes(8, "big"), b"", UnsupportedMessage, "version 2 "),
        CASES.param("F07", b"\xff" * 8, b"", UnsupportedMessage, "version -1 "),
        CASES.param("F08", V1[::-1], b"", UnsupportedMessage, "version 72057594037927936 "),
        CASES.param(
            "F09", V1 + b"12345", b"", Malformed, r"key\[8\]: 5 bytes where a length of 8 bytes is expected"
        ),
        CASES.param(
            "F10",
            V1 + bytes(7) + b"<" + b"x" * 59,
            b"",
            Malformed,
            r"key\[8\]: a length of 60 where 59 bytes are left",
        ),
        CASES.param("F11", V1 + b"\xff" * 8, b"", Malformed, r"key\[8\]: a length of -1 "),
        CASES.param(
            "F12",
            V1 + segment(ROW_KEY),
            b"\x7f" + b"\xff" * 7,
            Malformed,
            r"value\[0\]: a length of 9223372036854775807 ",
        ),
        CASES.param("F13", V1 + segment(b""), segment(INSERT), Malformed, "key: "),
        CASES.param(
            "F14", V1 + segment(ROW_KEY) * 2, segment(INSERT), Malformed, "value: 2 keys and 1 values"
        ),
        CASES.param(
            "F15", V1 + segment(ROW_KEY), segment(INSERT) * 2, Malformed, "value: 1 keys and 2 values"
        ),
        CASES.param("F21", V1 + segment(ROW_KEY), b"", Malformed, "value"),
        CASES.param("F21", V1 + segment(ROW_KEY), None, Malformed, "value"),
        CASES.param("F22", V1 + segment(ROW_KEY), bytes(8), Malformed, "value"),
        CASES.param(
            "F27",
            None,
            b'{"id":0,"database":"d"}',
            Malformed,
            "key: .* the value is JSON, not the frames of this protocol",
        ),
        CASES.param(
            "F28",
            b"",
            V1 + segment(ROW_KEY) + segment(INSERT),
            Malformed,
            "key: empty, .* a file of TiCDC's storage sink",
        ),
    ],
)
def test_what_is_no_message(
    key: bytes | None, value: bytes | None, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        events(raw(key, value))


@CASES.covers("F03")
def test_a_message_without_events() -> None:
    for value in (b"", None):
        assert written([raw(V1, value)]) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        CASES.param("F16", lambda value: value[:-1], r"value\[162\]: a length of 71 where 70 bytes are left"),
        CASES.param(
            "F17", lambda value: value + b"x", r"value\[241\]: 1 bytes where a length of 8 bytes is expected"
        ),
    ],
)
def test_a_damaged_batch_gives_nothing_at_all(damage: Any, reason: str) -> None:
    whole = framed(*BATCH)
    with pytest.raises(Malformed, match=reason):
        events(raw(whole.key, damage(whole.value)))
    assert isinstance(error_of(raw(whole.key, damage(whole.value))), Malformed)


@pytest.mark.parametrize(
    "value",
    [
        CASES.param("F18", bytes(8)),
        CASES.param("F19", b""),
        CASES.param("F20", None),
        CASES.param("F23", segment("not examined")),
    ],
)
def test_a_watermark_whatever_its_value(value: bytes | None) -> None:
    record = raw(V1 + segment(RESOLVED_KEY), value)
    (event,) = events(record)
    assert isinstance(event, Watermark)
    assert event.source.commit_ts == 7
    assert written([record]) == [[(b'{"ts":7,"t":3}', b"")]]
    assert counted([record]) == {}


@CASES.covers("F24")
def test_three_watermarks_in_one_message_stay_in_order() -> None:
    found = events(framed(*map(resolved, (1, 2, 3))))
    assert [event.source.commit_ts for event in found if isinstance(event, Watermark)] == [1, 2, 3]


@CASES.covers("F25")
def test_rows_around_a_statement_in_one_message() -> None:
    alter = ddl("ALTER TABLE t ADD COLUMN c INT", 5, ts=6)
    first, statement, second = events(framed(row(INSERT), alter, row({"u": {"a": A, "b": B, "c": A}}, ts=7)))
    assert isinstance(first, RowChange)
    assert isinstance(statement, SchemaChange)
    assert isinstance(second, RowChange)
    assert (first.after, second.after) == ((1, "x"), (1, "x", 1))
    assert [
        len(message)
        for message in written([framed(row(INSERT), alter, row(INSERT, ts=7))], {"max-batch-size": "9"})
    ] == [1] * 3


@CASES.covers("F26")
def test_messages_of_old_releases_hold_thousands_of_events() -> None:
    found = events(framed(*[row({"u": {"a": cell(3, at)}}) for at in range(4096)]))
    assert [event.after for event in found if isinstance(event, RowChange)] == [(at,) for at in range(4096)]


# ---------------------------------------------------------------- keys


@CASES.covers("K01", "K11")
def test_members_in_any_order_and_unknown_ones() -> None:
    found = change(({"tbl": "b", "x": 1, "t": 1, "y": [{}], "scm": "a", "ts": 1}, INSERT))
    assert (found.table, found.source.commit_ts, found.after) == (TableId("a", "b"), 1, (1, "x"))
    assert change(({"tbl": "b", "t": 1, "scm": "a", "TS": 2, "ts": 1}, INSERT)).source.commit_ts == 1


@CASES.covers("K02")
def test_the_last_of_two_members_counts() -> None:
    key = '{"ts":5,"scm":"d","tbl":"t","t":1,"ohk":true,"ohk":false}'
    assert counted([framed((key, INSERT))]) == {}
    assert counted([framed((key.replace("true", "false", 1).replace("false}", "true}"), INSERT))]) == {
        "columns-absent": 1
    }
    claimed = key[:-1] + ',"ccl":"s3://bkt/cc/3f2b8c1e-0000-4000-8000-000000000001.json"}'
    with pytest.raises(UnsupportedMessage, match=r"key\.ccl: the row is in external storage"):
        events(framed((claimed, INSERT)))


@pytest.mark.parametrize(
    ("key", "error", "reason"),
    [
        CASES.param("K03", '{"scm":"d","tbl":"t","t":1}', Malformed, "missing required field `ts`"),
        *(
            CASES.param("K03", '{"ts":%s,"scm":"d","tbl":"t","t":1}' % ts, Malformed, "key.*ts")  # noqa: UP031 - braces
            for ts in ("-1", "1.5", "1.0", '"1"', "null", "18446744073709551616")
        ),
        CASES.param("K05", '{"ts":5,"scm":"d","tbl":"t"}', Malformed, "missing required field `t`"),
        CASES.param("K05", ROW_KEY | {"t": 0}, UnsupportedMessage, r"key\.t: not 1 \(row\)"),
        CASES.param("K05", ROW_KEY | {"t": 4}, UnsupportedMessage, r"key\.t: not 1 \(row\)"),
        CASES.param("K05", ROW_KEY | {"t": "1"}, Malformed, r"key.*\$\.t"),
        CASES.param("K06", '{"ts":5,"tbl":"t","t":1}', Malformed, "key: a row without `scm` and `tbl`"),
        CASES.param("K06", ROW_KEY | {"tbl": ""}, Malformed, "key: a row without `scm` and `tbl`"),
        CASES.param("K12", "[1]", Malformed, "key: .*array"),
        CASES.param("K12", '{"ts":5,"scm":"d","tbl":"t","t":1} x', Malformed, "key: .*trailing"),
    ],
)
def test_what_is_no_key(key: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        events(framed((key, INSERT)))


@CASES.covers("K04")
def test_the_largest_timestamp() -> None:
    assert change(row(INSERT, ts=18446744073709551615)).source.commit_ts == 18446744073709551615
    assert written(records(row(INSERT, ts=18446744073709551615)))[0][0][0].startswith(
        b'{"ts":18446744073709551615,'
    )


@CASES.covers("K07")
def test_both_generations_keys_of_a_databases_statement_are_one() -> None:
    value = {"q": "CREATE DATABASE `d`", "t": 1}
    found = [
        schema_change((key, value)) for key in ({"ts": 4, "scm": "d", "t": 2}, DDL_KEY | {"ts": 4, "tbl": ""})
    ]
    assert found[0] == found[1]
    assert found[0].table == TableId("d", "")
    assert (
        written(records(({"ts": 4, "scm": "d", "t": 2}, value)))[0][0][0]
        == b'{"ts":4,"scm":"d","tbl":"","t":2}'
    )


@CASES.covers("K08")
def test_the_row_id_says_nothing() -> None:
    assert change(row(INSERT, rid=-1)) == change(row(INSERT, rid=0)) == change(row(INSERT))


@CASES.covers("K09", "K10")
def test_the_physical_table_of_a_partition_is_kept() -> None:
    assert written(records(row(INSERT, ptn=112)))[0][0][0].endswith(b'"t":1,"ptn":112}')
    for ptn in (0, None):
        assert change(row(INSERT, ptn=ptn)) == change(row(INSERT))
    assert counted(records(row(INSERT, ptn=112)), CANAL) == {"commit-ts": 1, "physical-partition": 1}


@CASES.covers("K13")
def test_names_with_quotes_and_of_any_language() -> None:
    record = framed(row({"u": {'a"b': A, "列\\": B}}, scm='数"据', tbl="t\té"))
    (key, value), *_ = written([record])[0]
    assert raw(V1 + segment(key), segment(value)) == record


# ---------------------------------------------------------------- rows

OLD_B = {"b": cell(15, "old", 64)}


@pytest.mark.parametrize(
    ("value", "op", "before", "after"),
    [
        CASES.param("R01", INSERT, Op.INSERT, None, (1, "x")),
        CASES.param(
            "R02", INSERT | {"p": {"a": cell(3, 2), "b": cell(15, None, 64)}}, Op.UPDATE, (2, None), (1, "x")
        ),
        CASES.param("R03", INSERT | {"p": {}}, Op.UPDATE, (1, "x"), (1, "x")),
        CASES.param("R04", INSERT | {"p": OLD_B}, Op.UPDATE, (1, "old"), (1, "x")),
        CASES.param("R09", {"u": None, "d": {"a": A}}, Op.DELETE, (1,), None),
        CASES.param("R09", {"u": {"a": A}, "p": None, "d": None}, Op.INSERT, None, (1,)),
        CASES.param("R13", INSERT | {"p": {"b": cell(252, "old", 0)}}, Op.UPDATE, (1, "old"), (1, "x")),
    ],
)
def test_shapes_of_rows(value: dict[str, Any], op: Op, before: Any, after: Any) -> None:
    for earlier in (
        [],
        [row(value)],
        [row(INSERT)],
        [row(INSERT | {"p": INSERT["u"]}), row(INSERT | {"p": OLD_B})],
    ):
        found = change(*earlier, row(value))
        assert (found.op, found.before, found.after) == (op, before, after)
        assert [column.name for column in found.schema.columns] == list("ab")[: len(after or before)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        CASES.param("R05", {"p": {"a": A}}, "value: a row has either `u`"),
        CASES.param("R06", {"d": {"a": A}, "u": {"a": A}}, "value: a row has either `u`"),
        CASES.param("R06", {"d": {"a": A}, "p": {"a": A}}, "value: a row has either `u`"),
        CASES.param("R08", {"u": {}}, "value: a row without columns"),
        CASES.param("R08", {"d": {}}, "value: a row without columns"),
    ],
)
def test_what_is_no_row(value: dict[str, Any], reason: str) -> None:
    for earlier in ([], [row({"u": {"a": A}}), row({"d": {"a": A}})]):
        with pytest.raises(Malformed, match=reason):
            read(*earlier, row(value))


@CASES.covers("R07")
def test_a_row_that_came_and_went_in_one_transaction() -> None:
    assert read(row("{}")) == []
    assert counted([framed(row("{}"), row("{}"))]) == {"empty-row": 2}


@CASES.covers("R10")
def test_a_delete_with_its_key_alone_has_no_nulls() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, e INT)")
    delete = row({"d": {"id": cell(3, 1, 11, h=True)}})
    assert change(create, delete).before == (1, ABSENT, ABSENT, ABSENT, ABSENT)
    assert values(records(create, delete))[1] == {"d": {"id": cell(3, 1, 11, h=True)}}
    translator = Translator(OPEN, CANAL)
    _, canal = (out.value for record in records(create, delete) for out in translator.translate(record))
    assert json.loads(canal or b"")["data"] == [{"id": "1"}]
    assert counted(records(create, delete)) == {"columns-absent": 1}


@CASES.covers("R11")
def test_rows_with_the_handle_key_only_are_marked() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    only_key = row({"u": {"id": cell(3, 1, 11, h=True)}}, ohk=True)
    assert change(create, only_key).after == (1, ABSENT)
    assert counted([framed(create, only_key, only_key)]) == {"columns-absent": 2}
    assert counted([framed(only_key, only_key)]) == {"columns-absent": 2}


@CASES.covers("R12")
def test_a_column_that_only_the_old_row_has() -> None:
    found = change(row({"u": {"a": A}, "p": {"a": cell(3, 2), "b": B}}))
    assert (found.op, found.before, found.after) == (Op.UPDATE, (2, "x"), (1, ABSENT))
    assert counted(records(row({"u": {"a": A}, "p": {"b": B}}))) == {"columns-absent": 1}


@CASES.covers("R14")
def test_names_that_are_words_of_the_protocol() -> None:
    names = ("u", "p", "t", "d", "v", "f", "h", "", "q")
    new, old = (
        {name: cell(3, at) for at, name in enumerate(names)},
        {name: cell(3, -at) for at, name in enumerate(names)},
    )
    found = change(row({"u": new, "p": old}))
    assert [column.name for column in found.schema.columns] == list(names)
    assert (found.before, found.after) == (tuple(range(0, -9, -1)), tuple(range(9)))
    partial = change(row({"u": new, "p": {"t": old["t"], "v": old["v"]}}))
    assert partial.before == (0, 1, -2, 3, -4, 5, 6, 7, 8)
    assert values(records(row({"u": new, "p": old})))[0] == {"u": new, "p": old}


@CASES.covers("R15")
def test_the_last_of_two_columns_of_one_name_counts() -> None:
    value = '{"u":{"a":{"t":3,"f":65,"v":1},"a":{"t":3,"f":65,"v":2}}}'
    assert change(row(value)).after == change(row({"u": {"a": A}}), row(value)).after == (2,)


@CASES.covers("R16")
def test_the_order_of_columns_is_the_tables() -> None:
    create = ddl("CREATE TABLE t (b VARCHAR(9), a INT)")
    by_name, by_definition = row({"u": {"a": A, "b": B}}), row({"u": {"b": B, "a": A}})
    assert change(create, by_name) == change(create, by_definition) == change(create, by_name, by_definition)
    assert values(records(create, by_name))[1] == {"u": {"b": B, "a": A}}


@CASES.covers("R17")
def test_both_halves_of_a_split_update_pass_in_their_order() -> None:
    found = events(framed(*BATCH[:2]))
    assert [event.op for event in found if isinstance(event, RowChange)] == [Op.DELETE, Op.INSERT]
    assert written([framed(*BATCH[:2])]) == written([framed(BATCH[0]), framed(BATCH[1])])


def test_every_number_is_a_case_or_a_decision() -> None:
    for part in ("values", "events"):
        importlib.import_module(f"edge_cases.test_open_protocol_{part}")
    CASES.check()
