"""What Canal's parser of DDL, Druid, leaves in messages of rows: back-ticks inside names doubled, and columns
with CHARACTER SET binary as text (Canal 1.1.8).
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from support import CANAL, TICDC, events, record, row_message, translate

from relay import ConsumerRecord, Op, RowChange

NATIVE = "debezium-json"


def _ddl(sql: str) -> ConsumerRecord:
    return record(row_message({}) | {"data": None, "isDdl": True, "type": "CREATE", "sql": sql})


CREATE = _ddl("CREATE TABLE t (`a``b` INT NOT NULL PRIMARY KEY, `q``` VARCHAR(9), n INT)")
TYPES = {"a``b": "INT", "q``": "VARCHAR(9)", "n": "INT"}


def _row(**more: Any) -> ConsumerRecord:
    row = {"a``b": "1", "q``": "new", "n": "3"}
    return record(row_message(TYPES, row, pkNames=["a``b"], **more), offset=1)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("target", [CANAL, TICDC])
def test_a_name_has_its_own_backticks(target: str, is_known: bool) -> None:
    update = _row(op="UPDATE", old=[{"q``": "old"}])
    *_, out = translate(CANAL, target, [*[CREATE] * is_known, update])
    assert out["data"] == [{"a`b": "1", "q`": "new", "n": "3"}]
    assert out["pkNames"] == ["a`b"]
    assert list(out["mysqlType"]) == ["a`b", "q`", "n"]
    assert out["old"][0]["q`"] == "old"


def test_warm_rows_too() -> None:
    rows = [_row(op="UPDATE", old=[{"q``": "old"}])] * 100
    out = translate(CANAL, NATIVE, [CREATE, *rows], None, {"schemas.enable": "false", "ddl": "drop"})
    assert len(out) == 100
    for each in out:
        assert each["before"] == {"a`b": 1, "q`": "old", "n": 3}
        assert each["after"] == {"a`b": 1, "q`": "new", "n": 3}


def test_a_changed_key_is_seen() -> None:
    (_, delete, insert) = translate(CANAL, TICDC, [CREATE, _row(op="UPDATE", old=[{"a``b": "2"}])])
    assert (delete["type"], insert["type"]) == ("DELETE", "INSERT")
    assert delete["data"][0]["a`b"] == "2"


def test_a_name_that_is_so_stays() -> None:
    """Where the definition has that very column; relay's own messages double nothing."""
    create = _ddl("CREATE TABLE t (`a````b` INT, c INT)")
    row = record(row_message({"a``b": "INT", "c": "INT"}, {"a``b": "1", "c": "2"}), offset=1)
    assert translate(CANAL, CANAL, [create, row])[1]["data"] == [{"a``b": "1", "c": "2"}]


def test_names_that_would_be_one_stay_two() -> None:
    row = record(row_message({"a``b": "INT", "a`b": "INT"}, {"a``b": "1", "a`b": "2"}))
    (event,) = events(CANAL, [row])
    assert isinstance(event, RowChange)
    assert [column.name for column in event.schema.columns] == ["a``b", "a`b"]


BINARY = _ddl(
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET binary, c CHAR(4) CHARACTER SET binary,"
    " b TEXT CHARACTER SET binary)"
)
TEXTS = {"id": "INT", "v": "VARCHAR(9)", "c": "CHAR(4)", "b": "TEXT"}


def _texts(**more: Any) -> ConsumerRecord:
    row = {"id": "1", "v": "é", "c": "pad", "b": None}
    return record(row_message(TEXTS, row, sqlType={"id": 4, "v": 12, "c": 1, "b": 2005}, **more), offset=1)


def test_text_of_a_binary_column_is_its_bytes() -> None:
    (_, event) = events(CANAL, [BINARY, _texts()])
    assert isinstance(event, RowChange)
    assert event.after == (1, "é".encode(), b"pad\0", None)
    assert event.op is Op.INSERT


@pytest.mark.parametrize("times", [1, 100])
def test_readers_get_a_binary_column(times: int) -> None:
    rows = [_texts(op="UPDATE", old=[{"v": "è"}])] * times
    out = translate(CANAL, CANAL, [BINARY, *rows], None, {"profile": "flink"})
    assert len(out) == times
    assert out[-1]["data"][0] == {
        "id": "1", "v": b64encode("é".encode()).decode(), "c": b64encode(b"pad\0").decode(), "b": None,
    }  # fmt: skip
    assert out[-1]["old"] == [{"v": b64encode("è".encode()).decode()}]
    assert out[-1]["mysqlType"]["v"] == "varbinary(9)"


def test_text_is_text_where_the_definition_says_so() -> None:
    create = _ddl("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), c CHAR(4), b TEXT)")
    out = translate(CANAL, CANAL, [create, _texts()], None, {"profile": "flink"})
    assert out[-1]["data"] == [{"id": "1", "v": "é", "c": "pad", "b": None}]
