"""Every message printed on Tencent Cloud's page "Canal Format of MySQL Subscription Message" (597/52603), in
both directions.

The page prints `sql` of the CREATE TABLE with real newlines inside the JSON string, and so does this file.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import CANAL, TICDC, events, record, translate

from relay import DdlKind, Op, RowChange, SchemaChange, TableId, Translator
from relay.model.events import Snapshot

CKAFKA = "ckafka-json"


def page_ddl(database: str, time: int, sql: str, table: str, word: str) -> str:
    """A DDL message of the page: everything but these members is the same in all of them."""
    return (
        f'{{\n"data": null,\n"database": "{database}",\n"es": {time},\n"id": 0,\n"isDdl": true,\n"mysqlType": null,\n"old": null,\n'
        f'"pkNames": null,\n"sql": "{sql}",\n"sqlType": null,\n"table": "{table}",\n"ts": {time},\n"type": "{word}"\n}}'
    )


CREATE_SQL = """CREATE TABLE `customers` (
`id` int NOT NULL AUTO_INCREMENT,
`first_name` varchar(255) NOT NULL,
`last_name` varchar(255) NOT NULL,
`email` varchar(255) NOT NULL,
PRIMARY KEY (`id`),
UNIQUE KEY `email` (`email`),
KEY `ix_id` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=1041 DEFAULT CHARSET=utf8"""
CREATE_DATABASE_SQL = "CREATE DATABASE `dip_test` CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
DROP_DATABASE_SQL = "DROP DATABASE IF EXISTS `dip_test`"
ALTER_SQL = "ALTER TABLE `user` ADD COLUMN `createtime` datetime NULL DEFAULT CURRENT_TIMESTAMP"
DROP_SQL = "DROP TABLE IF EXISTS `dip_test`.`customers`"

#: Name, message, what it does, its table, when (milliseconds).
DDL = [
    (
        "create database",
        page_ddl("dip_test", 1655812326, CREATE_DATABASE_SQL, "", "QUERY"),
        DdlKind.CREATE_DATABASE,
        TableId("dip_test", ""),
        1655812326000,
    ),
    (
        "drop database",
        page_ddl("dip_test", 1655812326, DROP_DATABASE_SQL, "", "QUERY"),
        DdlKind.DROP_DATABASE,
        TableId("dip_test", ""),
        1655812326000,
    ),
    (
        "create table",
        page_ddl("dip_test", 1655812326, CREATE_SQL, "customers", "CREATE"),
        DdlKind.CREATE_TABLE,
        TableId("dip_test", "customers"),
        1655812326000,
    ),
    (
        "alter table",
        page_ddl("test", 1655782153, ALTER_SQL, "user", "ALTER"),
        DdlKind.ADD_COLUMN,
        TableId("test", "user"),
        1655782153000,
    ),
    (
        "drop table",
        page_ddl("dip_test", 1655812326, DROP_SQL, "customers", "ERASE"),
        DdlKind.DROP_TABLE,
        TableId("dip_test", "customers"),
        1655812326000,
    ),
    (
        "rename table",
        page_ddl("testDB", 1656300979748, "rename table test to t_test", "t_test", "RENAME"),
        DdlKind.RENAME_TABLE,
        TableId("testDB", "t_test"),
        1656300979748,
    ),
]
DDL_MESSAGES = [message for _, message, _, _, _ in DDL]
DDL_NAMES = [name for name, *_ in DDL]

ANNE = '{\n"last_name": "Kretchmar",\n"id": "1004",\n"first_name": "Anne",\n"email": "annek@noanswer.org"\n}'
ANNE_MARIE = ANNE.replace("Anne", "Anne Marie")


def page_row(position: int, new: str, old: str, time: str, letter: str) -> str:
    """A row message of the page."""
    return (
        f'{{\n"BINLOG_NAME": "mysql-bin.000003",\n"BINLOG_POS": {position},\n"DATABASE": "inventory",\n"EVENT_SERVER_ID": null,\n'
        f'"GLOBAL_ID": null,\n"GROUP_ID": null,\n"NEW_VALUES": {new},\n"OLD_VALUES": {old},\n"TABLE": "customers",\n'
        f'"TIME": "{time}",\n"TYPE": "{letter}"\n}}'
    )


INSERT = page_row(154, ANNE, "null", "19700101080000", "I")
UPDATE = page_row(484, ANNE_MARIE, ANNE, "20160611015029", "U")
DELETE = page_row(805, "null", ANNE_MARIE, "20160611020502", "D")
ROWS = [INSERT, UPDATE, DELETE]
ROW_NAMES = ["insert", "update", "delete"]
#: The page's table, in the database of the page's rows.
CREATE_INVENTORY = page_ddl("inventory", 1465581000, CREATE_SQL, "customers", "CREATE")

#: Debezium's tutorial, from which the rows come: seconds since 1970.
UPDATED, DELETED = 1465581029, 1465581902
ARRIVED = 1465582000123
ANNE_ROW = {"last_name": "Kretchmar", "id": "1004", "first_name": "Anne", "email": "annek@noanswer.org"}
ANNE_MARIE_ROW = ANNE_ROW | {"first_name": "Anne Marie"}
WORDS = {"id": "int", "first_name": "varchar(255)", "last_name": "varchar(255)", "email": "varchar(255)"}
CODES = {"id": 4, "first_name": 12, "last_name": 12, "email": 12}


def page_records(*messages: str) -> Any:
    return [record(message, offset=at, timestamp_ms=ARRIVED) for at, message in enumerate(messages)]


def parsed(message: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(message, strict=False)
    return document


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("message", ROWS, ids=ROW_NAMES)
def test_a_row_of_the_page_comes_back_as_it_was(message: str) -> None:
    (out,) = translate(CKAFKA, CKAFKA, page_records(message))
    assert json.dumps(out) == json.dumps(parsed(message))  # the order of members and columns is the same, too


@pytest.mark.parametrize("message", ROWS, ids=ROW_NAMES)
def test_with_its_table_known_a_row_has_the_columns_in_table_order(message: str) -> None:
    _, out = translate(CKAFKA, CKAFKA, page_records(CREATE_INVENTORY, message))
    assert out == parsed(message)
    assert all(list(image) == list(WORDS) for image in (out["NEW_VALUES"], out["OLD_VALUES"]) if image)


def test_rows_of_the_page_as_events() -> None:
    _, insert, update, delete = events(CKAFKA, page_records(CREATE_INVENTORY, *ROWS))
    assert isinstance(insert, RowChange)
    assert isinstance(update, RowChange)
    assert isinstance(delete, RowChange)
    anne, anne_marie = ((1004, name, "Kretchmar", "annek@noanswer.org") for name in ("Anne", "Anne Marie"))
    assert (insert.op, insert.before, insert.after) == (Op.READ, None, anne)
    assert (update.op, update.before, update.after) == (Op.UPDATE, anne, anne_marie)
    assert (delete.op, delete.before, delete.after) == (Op.DELETE, anne_marie, None)
    assert update.table == TableId("inventory", "customers")
    assert update.schema.primary_key == ("id",)
    assert [(c.source.binlog_file, c.source.binlog_position) for c in (insert, update, delete)] == [
        ("mysql-bin.000003", 154), ("mysql-bin.000003", 484), ("mysql-bin.000003", 805),
    ]  # fmt: skip
    assert [c.source.event_time_ns // 1_000_000 for c in (insert, update, delete)] == [
        ARRIVED,
        UPDATED * 1000,
        DELETED * 1000,
    ]
    assert [c.source.snapshot for c in (insert, update, delete)] == [Snapshot.TRUE, None, None]


def canal_row(
    word: str, data: dict[str, Any], es: int, offset: int, old: Any = None, *, is_known: bool = True
) -> dict[str, Any]:
    """What Canal's format has for a row of the page."""
    names = list(WORDS) if is_known else list(ANNE_ROW)
    return {
        "data": [{name: data[name] for name in names}], "database": "inventory", "es": es, "gtid": "", "id": offset, "isDdl": False,
        "mysqlType": WORDS if is_known else dict.fromkeys(names, "varchar"), "old": old, "pkNames": ["id"] if is_known else None,
        "sql": "", "sqlType": CODES if is_known else dict.fromkeys(names, 12), "table": "customers", "ts": ARRIVED, "type": word,
    }  # fmt: skip


def canal_rows(*, is_known: bool) -> list[dict[str, Any]]:
    first = int(is_known)
    return [
        canal_row("INSERT", ANNE_ROW, ARRIVED, first, is_known=is_known),
        canal_row(
            "UPDATE", ANNE_MARIE_ROW, UPDATED * 1000, first + 1, [{"first_name": "Anne"}], is_known=is_known
        ),
        canal_row("DELETE", ANNE_MARIE_ROW, DELETED * 1000, first + 2, is_known=is_known),
    ]


def test_rows_of_the_page_become_canals() -> None:
    _, *out = translate(CKAFKA, CANAL, page_records(CREATE_INVENTORY, *ROWS))
    assert [json.dumps(message) for message in out] == [
        json.dumps(message) for message in canal_rows(is_known=True)
    ]


def test_without_its_table_a_rows_columns_are_all_varchar_and_that_is_counted() -> None:
    translator = Translator(CKAFKA, CANAL)
    out = [
        json.loads(one.value or b"") for source in page_records(*ROWS) for one in translator.translate(source)
    ]
    assert out == canal_rows(is_known=False)
    assert translator.losses == {
        "schema-inferred": 3,
        "type-parameters": 3,
        "snapshot": 1,
        "event-time": 1,
        "binlog-position": 3,
    }


def ticdc_row(canal: dict[str, Any]) -> dict[str, Any]:
    """What TiCDC's format has for the row that Canal's has so."""
    bare = {name: word.partition("(")[0] for name, word in canal["mysqlType"].items()}
    old = None if canal["old"] is None else [canal["data"][0] | canal["old"][0]]
    return {name: value for name, value in canal.items() if name != "gtid"} | {
        "id": 0, "mysqlType": bare, "old": old, "pkNames": canal["pkNames"] or [],
    }  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False], ids=["types known", "types inferred"])
def test_rows_of_the_page_become_ticdcs(is_known: bool) -> None:
    out = translate(CKAFKA, TICDC, page_records(*[CREATE_INVENTORY] * is_known, *ROWS))
    assert out[is_known:] == [ticdc_row(message) for message in canal_rows(is_known=is_known)]


@pytest.mark.parametrize("source", [CANAL, TICDC])
def test_canals_and_ticdcs_rows_become_the_pages(source: str) -> None:
    canal = canal_rows(is_known=True)[1:]
    messages = canal if source == CANAL else [ticdc_row(message) for message in canal]
    translator = Translator(source, CKAFKA)
    out = [
        json.loads(one.value or b"")
        for at, m in enumerate(messages)
        for one in translator.translate(record(m, offset=at + 7))
    ]
    assert out == [
        parsed(UPDATE) | {"BINLOG_NAME": "", "BINLOG_POS": 7},
        parsed(DELETE) | {"BINLOG_NAME": "", "BINLOG_POS": 8},
    ]
    assert {
        "binlog-position-synthetic": 2,
        "primary-key": 2,
        "column-type": 2,
    }.items() <= translator.losses.items()


def test_an_insert_has_its_time_unless_it_is_a_row_of_a_snapshot() -> None:
    insert = canal_rows(is_known=True)[0] | {"es": UPDATED * 1000}
    (plain,) = translate(CANAL, CKAFKA, [record(insert, offset=154)])
    assert plain == parsed(INSERT) | {"BINLOG_NAME": "", "TIME": "20160611015029"}
    (snapshot,) = translate(CANAL, CKAFKA, [record(insert | {"type": "INIT"}, offset=154)])
    assert snapshot == parsed(INSERT) | {"BINLOG_NAME": ""}


# ---------------------------------------------------------------- DDL


@pytest.mark.parametrize(("message", "kind", "table", "time"), [case[1:] for case in DDL], ids=DDL_NAMES)
def test_ddl_of_the_page_as_an_event(message: str, kind: DdlKind, table: TableId, time: int) -> None:
    (event,) = events(CKAFKA, page_records(message))
    assert isinstance(event, SchemaChange)
    assert (event.kinds, event.table) == ((kind,), table)
    assert event.ddl == parsed(message)["sql"]
    assert event.source.event_time_ns == event.emitted_at_ns == time * 1_000_000


@pytest.mark.parametrize("message", DDL_MESSAGES, ids=DDL_NAMES)
def test_ddl_of_the_page_comes_back_as_it_was_in_its_own_unit(message: str) -> None:
    translator = Translator(CKAFKA, CKAFKA)
    (out,) = translator.translate(page_records(message)[0])
    assert out.value == json.dumps(parsed(message), separators=(",", ":")).encode()
    assert not translator.losses


def test_milliseconds_are_lost_in_seconds_and_counted() -> None:
    rename = DDL_MESSAGES[-1]
    translator = Translator(CKAFKA, CKAFKA, None, {"ddl-time-unit": "s"})
    (out,) = translator.translate(page_records(rename)[0])
    assert json.loads(out.value or b"") == parsed(rename) | {"es": 1656300979, "ts": 1656300979}
    assert translator.losses == {"event-time-precision": 1}


def canal_ddl(message: str, time: int) -> dict[str, Any]:
    return parsed(message) | {"es": time, "ts": time, "gtid": ""}


@pytest.mark.parametrize(("message", "time"), [(case[1], case[4]) for case in DDL], ids=DDL_NAMES)
def test_ddl_of_the_page_becomes_canals_and_ticdcs(message: str, time: int) -> None:
    (canal,) = translate(CKAFKA, CANAL, page_records(message))
    assert canal == canal_ddl(message, time)
    (ticdc,) = translate(CKAFKA, TICDC, page_records(message))
    assert ticdc == {name: value for name, value in canal.items() if name != "gtid"}


@pytest.mark.parametrize(("message", "time"), [(case[1], case[4]) for case in DDL], ids=DDL_NAMES)
@pytest.mark.parametrize("source", [CANAL, TICDC])
def test_canals_and_ticdcs_ddl_becomes_the_pages(source: str, message: str, time: int) -> None:
    unit = "ms" if time % 1000 else "s"
    assert translate(source, CKAFKA, [record(canal_ddl(message, time))], None, {"ddl-time-unit": unit}) == [
        parsed(message)
    ]
