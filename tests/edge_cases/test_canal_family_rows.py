"""The Canal family's edge cases of rows: images, keys, names, incomplete rows, look-alikes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from edge_cases.canal_family import (
    AB,
    CASES,
    CREATE_AB,
    EXTENSION,
    before_and_after,
    change,
    counted,
    ddl,
    known,
    sent,
)
from support import CANAL, TICDC, events, record, row_message

from relay import ABSENT, NotRepresentable, Op, RowChange, Translator
from relay.model.events import Snapshot

CKAFKA = "ckafka-json"
CREATE = ddl(CREATE_AB, "CREATE")
STRICT = {"strict": "true"}


def ab(number: int | str, a: str | None = "1", b: str | None = "x") -> dict[str, Any]:
    return {"id": str(number), "a": a, "b": b}


def rows(protocol: str, message: dict[str, Any]) -> list[RowChange]:
    found = events(protocol, [record(message)])
    assert all(isinstance(event, RowChange) for event in found)
    return [event for event in found if isinstance(event, RowChange)]


# ---------------------------------------------------------------- several rows, and the old row


@CASES.covers("2")
def test_nine_rows_are_nine_inserts_in_order_and_nine_messages() -> None:
    message = row_message(AB, *(ab(number) for number in range(9)))
    assert [(found.op, found.after) for found in rows(CANAL, message)] == [
        (Op.INSERT, (number, 1, "x")) for number in range(9)
    ]
    assert [out["data"] for out in sent(CANAL, TICDC, message)] == [[ab(number)] for number in range(9)]


@CASES.covers("3")
def test_old_has_the_changed_columns_of_every_row() -> None:
    types = {"id": "int(11)", "name": "varchar(255)", "weight": "float"}
    data = [
        {"id": "101", "name": "scooter", "weight": "5.17"},
        {"id": "102", "name": "car battery", "weight": "5.17"},
    ]
    message = row_message(types, *data, op="UPDATE", old=[{"weight": "3.14"}, {"weight": "8.1"}])
    assert [found.before for found in rows(CANAL, message)] == [
        (101, "scooter", 3.14),
        (102, "car battery", 8.1),
    ]
    assert [found.after for found in rows(CANAL, message)] == [
        (101, "scooter", 5.17),
        (102, "car battery", 5.17),
    ]


@CASES.covers("4")
def test_a_name_that_an_earlier_row_of_the_message_left_in_old_is_no_change() -> None:
    message = row_message(
        AB, ab(1, "2", "x"), ab(2, "5", "y"), op="UPDATE", old=[{"a": "1"}, {"a": "5", "b": "2"}]
    )
    assert [found.before for found in rows(CANAL, message)] == [(1, 1, "x"), (2, 5, "2")]
    assert [out["old"] for out in sent(CANAL, CANAL, message)] == [[{"a": "1"}], [{"b": "2"}]]
    assert [out["old"] for out in sent(CANAL, TICDC, message)] == [[ab(1, "1", "x")], [ab(2, "5", "2")]]


@CASES.covers("5")
@pytest.mark.parametrize("target", [TICDC, CANAL])
def test_old_that_is_shorter_than_data_tells_of_no_row_and_is_counted(target: str) -> None:
    message = row_message(AB, ab(1), ab(2), op="UPDATE", old=[{"a": "0"}])
    assert [(found.op, found.before, found.after) for found in rows(CANAL, message)] == [
        (Op.UPDATE, None, (1, 1, "x")),
        (Op.UPDATE, None, (2, 1, "x")),
    ]
    out = sent(CANAL, target, message)
    assert [(one["type"], one["data"], one["old"]) for one in out] == [
        ("INSERT", [ab(1)], None),
        ("INSERT", [ab(2)], None),
    ]
    assert counted(CANAL, target, message)["before-missing"] == 2


@CASES.covers("6")
@pytest.mark.parametrize(("source", "target"), [(TICDC, CANAL), (CANAL, TICDC)])
def test_an_update_that_changes_nothing_is_not_dropped(source: str, target: str) -> None:
    message = row_message(AB, ab(1), op="UPDATE", old=[{}])
    assert before_and_after(source, message) == ((1, 1, "x"), (1, 1, "x"))
    assert sent(source, CANAL, message)[0]["old"] == [{}]
    assert sent(source, target, message)[0]["type"] == "UPDATE"


@pytest.mark.parametrize("source", [TICDC, CANAL])
@pytest.mark.parametrize(
    ("old", "description", "before"),
    [
        CASES.param("7", {"description": None}, "x", (1, "1", None)),
        CASES.param("8", {"w": "0"}, None, (1, "0", None)),
    ],
)
def test_present_null_was_null_and_what_is_absent_was_the_same(
    source: str, old: Any, description: str | None, before: Any
) -> None:
    types = {"id": "int", "w": "varchar(9)", "description": "varchar(9)"}
    message = row_message(types, {"id": "1", "w": "1", "description": description}, op="UPDATE", old=[old])
    assert before_and_after(source, message) == (before, (1, "1", description))
    assert sent(source, CANAL, message)[0]["old"] == [old]


@pytest.mark.parametrize(
    ("op", "old", "images"),
    [
        CASES.param("9", "INSERT", [None], (None, (1, 1, "x"))),
        CASES.param("10", "DELETE", [ab(1)], ((1, 1, "x"), None)),
        CASES.param("11", "DELETE", None, ((1, 1, "x"), None)),
    ],
)
def test_old_of_inserts_and_deletes_says_nothing(op: str, old: Any, images: tuple[Any, Any]) -> None:
    message = row_message(AB, ab(1), op=op, old=old, ts=0)
    found = change(TICDC, message)
    assert (found.op.name, found.before, found.after) == (op, *images)
    for target in (TICDC, CANAL):
        (out,) = sent(TICDC, target, message)
        assert (out["type"], out["data"], out["old"]) == (op, [ab(1)], None)


@CASES.covers("12")
def test_the_whole_old_row_becomes_what_differs_for_canal() -> None:
    message = row_message(AB, ab(1, "2", "y"), op="UPDATE", old=[ab(1, None, "y")])
    assert sent(TICDC, CANAL, message)[0]["old"] == [{"a": None}]


@CASES.covers("13")
def test_what_differs_becomes_the_whole_old_row_for_ticdc() -> None:
    message = row_message(AB, ab(1, "2", "y"), op="UPDATE", old=[{"a": None}])
    assert sent(CANAL, TICDC, message)[0]["old"] == [ab(1, None, "y")]
    assert sent(CANAL, TICDC, message, writing={"only-output-updated-columns": "true"})[0]["old"] == [
        {"a": None}
    ]


# ---------------------------------------------------------------- keys and names


@CASES.covers("45")
def test_no_key_is_an_empty_list_for_ticdc_and_null_for_canal() -> None:
    assert sent(TICDC, CANAL, row_message(AB, ab(1), pkNames=[]))[0]["pkNames"] is None
    assert sent(CANAL, TICDC, row_message(AB, ab(1), pkNames=None))[0]["pkNames"] == []
    translator = Translator(TICDC, CANAL, partitions=16)
    spread = [
        translator.translate(record(row_message(AB, ab(number), pkNames=[])))[0].partition
        for number in range(9)
    ]
    assert len(set(spread)) == 1  # keyless rows are indistinguishable: one partition


@CASES.covers("46")
@pytest.mark.parametrize(("source", "target"), [(TICDC, CANAL), (CANAL, TICDC)])
def test_key_columns_are_named_in_table_order(source: str, target: str) -> None:
    create = ddl("CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a))", "CREATE")
    message = row_message({"a": "int", "b": "int"}, {"a": "1", "b": "2"}, pkNames=["a", "b"])
    assert change(source, create, message).schema.primary_key == ("b", "a")
    assert sent(source, target, create, message)[0]["pkNames"] == ["a", "b"]


NAMES = [
    'q"uote',
    "it's",
    "a.b",
    "back\\slash",
    "i`d",
    "中文",
    "é",
    "e\u0301",
    "😀",
    "Id",
    "UPPER",
    " blank ",
]
ENVELOPE = ["data", "old", "type", "_tidb", "id", "database", "table", "es", "isDdl", "sqlType"]


@pytest.mark.parametrize(("source", "target"), [(TICDC, CANAL), (CANAL, TICDC)])
@pytest.mark.parametrize("names", [CASES.param("47", NAMES), CASES.param("48", ENVELOPE)])
def test_names_of_columns_are_kept_to_the_letter(source: str, target: str, names: list[str]) -> None:
    data, old = ({name: f"{name} {word}" for name in names} for word in ("new", "old"))
    message = row_message(
        dict.fromkeys(names, "varchar(99)"), data, op="UPDATE", old=[old], pkNames=names[:2]
    )
    assert before_and_after(source, message) == (tuple(old.values()), tuple(data.values()))
    (out,) = sent(
        source, target, message, writing={"output-raw-change-event": "true"} if target == TICDC else {}
    )
    assert (out["data"], out["old"], out["pkNames"]) == ([data], [old], names[:2])
    assert list(out["data"][0]) == list(out["mysqlType"]) == list(out["sqlType"]) == names


@CASES.covers("47")
def test_names_of_columns_are_compared_with_their_case() -> None:
    create = ddl("CREATE TABLE t (id DECIMAL(9,3))", "CREATE")
    assert change(TICDC, create, row_message({"id": "decimal"}, {"id": "1.000"})).schema == known(
        TICDC, create
    )
    message = row_message({"ID": "decimal"}, {"ID": "1.000"})
    assert [column.name for column in change(TICDC, create, message).schema.columns] == ["ID"]
    assert counted(TICDC, CANAL, create, message)["schema-inferred"] == 1


# ---------------------------------------------------------------- incomplete rows


@CASES.covers("64")
def test_a_minimal_row_image_is_not_filled_with_null() -> None:
    message = row_message(AB, {"id": "1", "a": None}, pkNames=["id"])
    assert before_and_after(CANAL, CREATE, message) == (None, (1, None, ABSENT))
    for target in (TICDC, CANAL):
        assert sent(CANAL, target, CREATE, message)[0]["data"] == [{"id": "1", "a": None}]
        assert counted(CANAL, target, CREATE, message)["columns-absent"] == 1
        with pytest.raises(NotRepresentable, match="columns-absent"):
            sent(CANAL, target, CREATE, message, writing=STRICT)


@CASES.covers("65")
@pytest.mark.parametrize("create", [[CREATE], []], ids=["known", "unknown"])
def test_a_handle_key_is_never_taken_for_the_whole_row(create: list[dict[str, Any]]) -> None:
    message = row_message(
        {"id": "int"}, {"id": "1"}, pkNames=["id"], _tidb={"commitTs": 1 << 60, "onlyHandleKey": True}
    )
    found = change(TICDC, *create, message)
    assert found.after == ((1, ABSENT, ABSENT) if create else (1,))
    (out,) = sent(TICDC, CANAL, *create, message)
    assert out["data"] == [{"id": "1"}]
    assert counted(TICDC, CANAL, *create, message)["columns-absent"] == 1
    with pytest.raises(NotRepresentable, match="columns-absent"):
        sent(TICDC, CANAL, *create, message, writing=STRICT)


@CASES.covers("69")
def test_a_delete_with_the_handle_key_alone_has_one_column() -> None:
    delete = row_message({"id": "int"}, {"id": "1"}, op="DELETE", pkNames=["id"])
    assert before_and_after(TICDC, CREATE, delete) == ((1, ABSENT, ABSENT), None)
    (out,) = sent(TICDC, CKAFKA, CREATE, delete)
    assert (out["OLD_VALUES"], out["NEW_VALUES"]) == ({"id": "1"}, None)
    assert counted(TICDC, CKAFKA, CREATE, delete)["columns-absent"] == 1


# ---------------------------------------------------------------- updates of a key


@CASES.covers("71")
def test_an_update_that_ticdc_has_split_stays_two_events() -> None:
    tidb = {"commitTs": 470615239864877056}
    delete, insert = (
        row_message(AB, ab(at + 1), op=op, pkNames=["id"], _tidb=tidb)
        for at, op in enumerate(("DELETE", "INSERT"))
    )
    for target, options in ((TICDC, EXTENSION), (CANAL, {})):
        translator = Translator(TICDC, target, None, options)
        out = [
            translator.translate(record(message, offset=at)) for at, message in enumerate((delete, insert))
        ]
        assert [len(produced) for produced in out] == [1, 1]
        assert translator.events == {"delete": 1, "insert": 1}
    assert [sent(TICDC, CANAL, message)[0]["type"] for message in (delete, insert)] == ["DELETE", "INSERT"]


@CASES.covers("72")
def test_an_update_of_a_key_is_split_unless_it_shall_stay_raw() -> None:
    update = row_message(AB, ab(2), op="UPDATE", old=[{"id": "1", "a": "0"}], pkNames=["id"])
    out = sent(CANAL, TICDC, update)
    assert [(one["type"], one["data"], one["old"]) for one in out] == [
        ("DELETE", [ab(1, "0")], None),
        ("INSERT", [ab(2)], None),
    ]
    raw = {"output-raw-change-event": "true"}
    assert [one["type"] for one in sent(CANAL, TICDC, update, writing=raw)] == ["UPDATE"]


# ---------------------------------------------------------------- look-alikes


@CASES.covers("82")
def test_init_is_a_row_of_a_snapshot() -> None:
    found = change(CANAL, row_message(AB, ab(1), op="INIT"))
    assert (found.op, found.after, found.source.snapshot) == (Op.READ, (1, 1, "x"), Snapshot.TRUE)
    for target in (TICDC, CANAL):
        assert sent(CANAL, target, row_message(AB, ab(1), op="INIT"))[0]["type"] == "INSERT"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        CASES.param(
            "83", '{"data":{"id":"1","w":"5.3"},"type":"INSERT","database":"d","table":"t"}', ("1", "5.3")
        ),
        CASES.param(
            "83", '{"data":[{"id":1,"w":5.3}],"type":"INSERT","database":"d","table":"t"}', ("1", "5.3")
        ),
        CASES.param(
            "84",
            '{"data":[{"id":12345678901234567890,"w":0.10}],"type":"INSERT","database":"d","table":"t"}',
            ("12345678901234567890", "0.10"),
        ),
    ],
)
def test_native_values_and_single_rows_of_other_producers(text: str, row: tuple[str, str]) -> None:
    assert before_and_after(CANAL, text) == (None, row)
    assert sent(CANAL, TICDC, text)[0]["data"] == [dict(zip(("id", "w"), row, strict=True))]


@CASES.covers("84")
def test_native_numbers_keep_their_digits_where_the_type_is_known() -> None:
    create = ddl("CREATE TABLE t (id BIGINT UNSIGNED, w DECIMAL(3,2))", "CREATE")
    text = '{"data":[{"id":12345678901234567890,"w":0.10}],"type":"INSERT","database":"d","table":"t","es":1700000001000}'
    _, after = before_and_after(CANAL, create, text)
    assert after == (12345678901234567890, Decimal("0.10"))
    assert str(after[1]) == "0.10"
