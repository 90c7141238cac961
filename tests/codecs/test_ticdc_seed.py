"""Every message printed in PingCAP's page "TiCDC Canal-JSON Protocol", in both directions.

The page's `//` comments and trailing commas are artefacts of the page and are left out; where it prints
`...`, the members of its first complete sample stand.
"""

from __future__ import annotations

from typing import Any

import pytest
from support import events, record, translate

from relay import DdlKind, Op, RowChange, SchemaChange, TableId, Watermark

DDL = {
    "id": 0, "database": "test", "table": "", "pkNames": None, "isDdl": True, "type": "QUERY", "es": 1639633094670,
    "ts": 1639633095489, "sql": "drop database if exists test", "sqlType": None, "mysqlType": None, "data": None, "old": None,
    "_tidb": {"commitTs": 163963309467037594},
}  # fmt: skip
TYPES = {"c_bigint": -5, "c_int": 4, "c_mediumint": 4, "c_smallint": 5, "c_tinyint": -6, "id": 4}
WORDS = {
    "c_bigint": "bigint", "c_int": "int", "c_mediumint": "mediumint", "c_smallint": "smallint", "c_tinyint": "tinyint", "id": "int",
}  # fmt: skip
ROW = {
    "c_bigint": "9223372036854775807", "c_int": "2147483647", "c_mediumint": "8388607", "c_smallint": "32767", "c_tinyint": "127",
    "id": "2",
}  # fmt: skip
ZEROED = ROW | {"c_int": "0", "c_tinyint": "0"}
INSERT = {
    "id": 0, "database": "test", "table": "tp_int", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1639633141221,
    "ts": 1639633142960, "sql": "", "sqlType": TYPES, "mysqlType": WORDS, "data": [ROW], "old": None,
    "_tidb": {"commitTs": 163963314122145239},
}  # fmt: skip
WATERMARK = {
    "id": 0, "database": "", "table": "", "pkNames": None, "isDdl": False, "type": "TIDB_WATERMARK", "es": 1640007049196,
    "ts": 1640007050284, "sql": "", "sqlType": None, "mysqlType": None, "data": None, "old": None,
    "_tidb": {"watermarkTs": 429918007904436226},
}  # fmt: skip
UPDATE = INSERT | {"type": "UPDATE", "data": [ZEROED], "old": [ROW]}
CHANGED_ONLY = {"c_int": "2147483647", "c_tinyint": "127"}
DELETE = INSERT | {"type": "DELETE", "data": [ZEROED], "old": None}
DELETE_BEFORE_5_4 = DELETE | {"old": [ZEROED]}
INSERT_BEFORE_5_4 = INSERT | {"old": [None]}

CREATE_T = (
    "create table t ( id int auto_increment, c_decimal decimal(10, 4) null, c_char char(16) null, c_varchar varchar(16) null,"
    " c_binary binary(16) null, c_varbinary varbinary(16) null, c_enum enum('a','b','c') null, c_set set('a','b','c') null,"
    " c_bit bit(64) null, constraint pk primary key (id) )"
)
BARE = {
    "c_binary": "binary", "c_bit": "bit", "c_char": "char", "c_decimal": "decimal", "c_enum": "enum", "c_set": "set",
    "c_varbinary": "varbinary", "c_varchar": "varchar", "id": "int",
}  # fmt: skip
FULL = {
    "c_binary": "binary(16)", "c_bit": "bit(64)", "c_char": "char(16)", "c_decimal": "decimal(10,4)", "c_enum": "enum('a','b','c')",
    "c_set": "set('a','b','c')", "c_varbinary": "varbinary(16)", "c_varchar": "varchar(16)", "id": "int",
}  # fmt: skip
T_ROW = {
    "id": "1", "c_decimal": "123.4560", "c_char": "abc", "c_varchar": "abc", "c_binary": "abc" + "\0" * 13, "c_varbinary": "abc",
    "c_enum": "1", "c_set": "3", "c_bit": "65",
}  # fmt: skip
T_INSERT = INSERT | {
    "table": "t",
    "sqlType": {},
    "mysqlType": BARE,
    "data": [T_ROW],
    "_tidb": {"commitTs": 163963314122145240},
}

EXTENSION = {"enable-tidb-extension": "true"}


@pytest.mark.parametrize("message", [DDL, INSERT, WATERMARK, UPDATE, DELETE], ids=lambda m: m["type"])
def test_a_message_of_the_page_comes_back_as_it_was(message: dict[str, Any]) -> None:
    assert translate("ticdc-canal-json", "ticdc-canal-json", [record(message)], None, EXTENSION) == [message]


@pytest.mark.parametrize("message", [DDL, INSERT, UPDATE, DELETE], ids=lambda m: m["type"])
def test_without_the_extension_the_same_message_lacks_tidb(message: dict[str, Any]) -> None:
    plain = {name: value for name, value in message.items() if name != "_tidb"}
    assert translate("ticdc-canal-json", "ticdc-canal-json", [record(message)]) == [plain]
    assert translate("ticdc-canal-json", "ticdc-canal-json", [record(plain)]) == [plain]


def test_ddl_is_a_schema_change_of_the_database() -> None:
    (event,) = events("ticdc-canal-json", [record(DDL)])
    assert isinstance(event, SchemaChange)
    assert event.table == TableId("test", "")
    assert event.kinds == (DdlKind.DROP_DATABASE,)
    assert event.ddl == "drop database if exists test"
    assert event.source.commit_ts == 163963309467037594
    assert event.source.event_time_ns == 1639633094670_000_000


def test_insert_has_exact_values_in_column_order() -> None:
    (event,) = events("ticdc-canal-json", [record(INSERT)])
    assert isinstance(event, RowChange)
    assert event.op is Op.INSERT
    assert event.before is None
    assert event.after == (9223372036854775807, 2147483647, 8388607, 32767, 127, 2)
    assert event.schema.primary_key == ("id",)


def test_watermark_is_the_tso_it_says() -> None:
    (event,) = events("ticdc-canal-json", [record(WATERMARK)])
    assert isinstance(event, Watermark)
    assert event.source.commit_ts == 429918007904436226


def test_update_with_all_columns_in_old_becomes_canals_with_the_changed_ones() -> None:
    (canal,) = translate("ticdc-canal-json", "canal-json", [record(UPDATE)])
    assert canal["data"] == [ZEROED]
    assert canal["old"] == [CHANGED_ONLY]
    assert canal["mysqlType"] == WORDS
    assert canal["sqlType"] == TYPES


def test_canals_update_with_the_changed_columns_becomes_ticdcs_with_all() -> None:
    canal = {
        "data": [ZEROED], "database": "test", "es": 1639633141221, "gtid": "", "id": 0, "isDdl": False, "mysqlType": WORDS,
        "old": [CHANGED_ONLY], "pkNames": ["id"], "sql": "", "sqlType": TYPES, "table": "tp_int", "ts": 1639633142960,
        "type": "UPDATE",
    }  # fmt: skip
    plain = {name: value for name, value in UPDATE.items() if name != "_tidb"}
    assert translate("canal-json", "ticdc-canal-json", [record(canal)]) == [plain]
    (again,) = translate("ticdc-canal-json", "canal-json", [record(UPDATE)])
    assert again == canal


@pytest.mark.parametrize("delete", [DELETE, DELETE_BEFORE_5_4], ids=["since 5.4", "before 5.4"])
def test_both_forms_of_delete_are_one_event(delete: dict[str, Any]) -> None:
    (event,) = events("ticdc-canal-json", [record(delete)])
    assert isinstance(event, RowChange)
    assert event.op is Op.DELETE
    assert event.before == (9223372036854775807, 0, 8388607, 32767, 0, 2)
    assert event.after is None
    assert translate("ticdc-canal-json", "ticdc-canal-json", [record(delete)], None, EXTENSION) == [DELETE]


def test_insert_of_releases_before_5_4_has_a_null_in_old() -> None:
    assert translate(
        "ticdc-canal-json", "ticdc-canal-json", [record(INSERT_BEFORE_5_4)], None, EXTENSION
    ) == [INSERT]


def test_mysql_type_gets_its_parameters_from_the_tables_ddl() -> None:
    ddl = DDL | {"table": "t", "type": "CREATE", "sql": CREATE_T}
    _, canal = translate("ticdc-canal-json", "canal-json", [record(ddl), record(T_INSERT, offset=1)])
    assert canal["mysqlType"] == FULL
    assert canal["data"] == [
        T_ROW | {"c_binary": "abc"}
    ]  # Canal sends BINARY as MySQL's log has it, without trailing zero bytes
    assert list(canal["data"][0]) == list(T_ROW)


def test_canals_parameters_are_taken_off_for_ticdc() -> None:
    canal = {
        "data": [T_ROW | {"c_binary": "abc"}], "database": "test", "es": 1, "id": 1, "isDdl": False,
        "mysqlType": FULL | {"c_decimal": "decimal(10, 4)"}, "old": None, "pkNames": ["id"], "sql": "", "sqlType": {}, "table": "t",
        "ts": 2, "type": "INSERT",
    }  # fmt: skip
    (ticdc,) = translate("canal-json", "ticdc-canal-json", [record(canal)])
    assert ticdc["mysqlType"] == BARE
    assert ticdc["data"] == [T_ROW]


@pytest.mark.parametrize(
    ("mysql_type", "value", "code"),
    [
        ("tinyint", "-128", -6), ("tinyint", "127", -6), ("tinyint unsigned", "0", -6), ("tinyint unsigned", "127", -6),
        ("tinyint unsigned", "128", 5), ("tinyint unsigned", "255", 5), ("smallint", "-32768", 5), ("smallint", "32767", 5),
        ("smallint unsigned", "32767", 5), ("smallint unsigned", "32768", 4), ("smallint unsigned", "65535", 4),
        ("mediumint", "-8388608", 4), ("mediumint unsigned", "8388607", 4), ("mediumint unsigned", "8388608", 4),
        ("mediumint unsigned", "16777215", 4), ("int", "-2147483648", 4), ("int unsigned", "2147483647", 4),
        ("int unsigned", "2147483648", -5), ("int unsigned", "4294967295", -5), ("bigint", "-9223372036854775808", -5),
        ("bigint unsigned", "9223372036854775807", -5), ("bigint unsigned", "9223372036854775808", 3),
        ("bigint unsigned", "18446744073709551615", 3), ("tinyint unsigned", None, -6), ("bigint unsigned", None, -5),
        ("tinyint(1)", "1", -6), ("float", "1.5", 7), ("double", "1.5", 8), ("decimal", "1.50", 3), ("char", "a", 1),
        ("varchar", "a", 12), ("binary", "a", 2004), ("varbinary", "a", 2004), ("tinytext", "a", 2005), ("text", "a", 2005),
        ("mediumtext", "a", 2005), ("longtext", "a", 2005), ("tinyblob", "a", 2004), ("blob", "a", 2004), ("mediumblob", "a", 2004),
        ("longblob", "a", 2004), ("date", "2020-02-20", 91), ("datetime", "2020-02-20 02:20:20", 93),
        ("timestamp", "2020-02-20 02:20:20", 93), ("time", "02:20:20", 92), ("year", "2020", 12), ("enum", "1", 4),
        ("set", "3", -7), ("bit", "1", -7), ("json", "{}", 12),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["ticdc-canal-json", "canal-json"])
def test_sql_type_by_type_and_value(target: str, mysql_type: str, value: str | None, code: int) -> None:
    message = INSERT | {"pkNames": [], "sqlType": {}, "mysqlType": {"c": mysql_type}, "data": [{"c": value}]}
    (out,) = translate("ticdc-canal-json", target, [record(message)])
    assert out["sqlType"] == {"c": code}
