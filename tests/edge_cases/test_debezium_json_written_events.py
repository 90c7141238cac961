"""Edge cases of events, keys and their order that `debezium-json` writes, numbers 76 and 83 to 120."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_json_support import DDL_TOPIC
from debezium_json_support import DEBEZIUM as NATIVE
from debezium_json_support import ddl as native_ddl
from debezium_json_support import record as native_record
from debezium_json_support import row as native_row
from edge_cases.canal_family import Options, ddl
from edge_cases.debezium_json_written import BARE, CASES, made
from edge_cases.ticdc_debezium import Sent
from open_support import ddl as open_ddl
from open_support import framed
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, NotRepresentable, Translator

CREATE = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE"))
TYPES = {"id": "int", "v": "int"}
TSO = 463586886942720001


def changed(new: dict[str, Any], op: str = "UPDATE", old: Any = None, **more: Any) -> ConsumerRecord:
    """A row of the table `d.t`."""
    return record(row_message(TYPES, new, op=op, old=old, **({"pkNames": ["id"]} | more)), offset=1)


def keys(found: Sent) -> list[Any]:
    """The messages' keys without schemas."""
    return [None if out.key is None else json.loads(out.key) for out in found.outs]


def ops(found: Sent) -> list[Any]:
    """Operation and images of each message; None for a tombstone."""
    return [value and (value["op"], value["before"], value["after"]) for value in found.values]


def statement(
    sql: str, word: str = "ALTER", table: str = "t", source: str = TICDC, options: Options | None = None
) -> Sent:
    """The messages of a statement about the table `d.t`."""
    one = record(ddl(sql, word, table), offset=1)
    return made(source, CREATE, one, options=BARE | (options or {}))


def shown(found: Sent) -> list[tuple[Any, ...]]:
    """Of each schema change its table, its text, and the type, the id and the columns of its list."""
    return [
        (
            value["source"]["table"],
            value["ddl"],
            [
                (each["type"], each["id"], each["table"] and [c["name"] for c in each["table"]["columns"]])
                for each in value["tableChanges"]
            ],
        )
        for value in found.values
    ]


# ---------------------------------------------------------------- rows


@CASES.covers("76")
@pytest.mark.parametrize("word", ["true", "first", "last_in_data_collection"])
def test_words_of_snapshots(word: str) -> None:
    message = native_row("r", after={"id": 1}, source={"snapshot": word})
    (value,) = made(NATIVE, native_record(message, {"id": 1}), options=BARE).values
    assert (value["op"], value["source"]["snapshot"]) == ("r", word)


@CASES.covers("83")
def test_an_update_without_its_old_row_is_an_insert_or_refused() -> None:
    one = changed({"id": "1", "v": "2"})
    assert ops(made(TICDC, CREATE, one, options=BARE)) == [("c", None, {"id": 1, "v": 2})]
    with pytest.raises(NotRepresentable):
        made(TICDC, CREATE, one, options=BARE | {"missing-before": "refuse"})


@CASES.covers("84", "85", "86")
@pytest.mark.parametrize("source", [TICDC, CANAL])
def test_an_update_of_a_key_is_three_messages(source: str) -> None:
    found = made(source, CREATE, changed({"id": "8", "v": "2"}, old=[{"id": "7"}]), options=BARE)
    assert keys(found) == [{"id": 7}, {"id": 7}, {"id": 8}]
    assert ops(found) == [("d", {"id": 7, "v": 2}, None), None, ("c", None, {"id": 8, "v": 2})]
    headers = [[header for header in out.headers if header[0].startswith("__")] for out in found.outs]
    assert headers == [
        [("__debezium.newkey", b'{"id":8}')],
        [("__debezium.newkey", b'{"id":8}')],
        [("__debezium.oldkey", b'{"id":7}')],
    ]


@CASES.covers("87")
def test_a_table_without_a_key_has_neither_keys_nor_tombstones() -> None:
    create = record(ddl("CREATE TABLE t (id INT, v INT)", "CREATE"))
    found = made(TICDC, create, changed({"id": "1", "v": "2"}, "DELETE", pkNames=None), options=BARE)
    assert (keys(found), ops(found)) == ([None], [("d", {"id": 1, "v": 2}, None)])


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        CASES.param("88", "id INT NOT NULL, v INT NOT NULL, UNIQUE KEY uk (v)", {"v": 2}),
        CASES.param("89", "id INT, v INT, PRIMARY KEY (v, id)", {"v": 2, "id": 1}),
    ],
)
def test_the_key_of_a_table(definition: str, key: dict[str, int]) -> None:
    create = record(ddl(f"CREATE TABLE t ({definition})", "CREATE"))
    found = made(TICDC, create, changed({"id": "1", "v": "2"}, "INSERT", pkNames=None), options=BARE)
    assert [list(each.items()) for each in keys(found)] == [list(key.items())]


@CASES.covers("90")
def test_a_delete_with_its_key_alone_has_no_other_columns() -> None:
    found = made(OPEN, framed(open_ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)")),
                 framed(open_row({"d": {"id": {"t": 3, "h": True, "f": 11, "v": 1}}}), offset=1))  # fmt: skip
    value, tombstone = found.values[0], found.outs[1].value
    assert tombstone is None
    assert value["payload"]["before"] == {"id": 1}
    assert [field["field"] for field in value["schema"]["fields"][0]["fields"]] == ["id"]


@CASES.covers("91")
def test_an_old_row_of_changed_columns_is_written_whole() -> None:
    old, new = (
        {"v": {"t": 3, "f": 0, "v": 1}},
        {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "v": {"t": 3, "f": 0, "v": 2}},
    )
    create = framed(open_ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)"))
    found = made(OPEN, create, framed(open_row({"u": new, "p": old}), offset=1), options=BARE)
    assert ops(found) == [("u", {"id": 1, "v": 1}, {"id": 1, "v": 2})]


@CASES.covers("92")
def test_an_update_that_changes_nothing() -> None:
    found = made(CANAL, CREATE, changed({"id": "1", "v": "2"}, old=[{}]), options=BARE)
    assert ops(found) == [("u", {"id": 1, "v": 2}, {"id": 1, "v": 2})]


@CASES.covers("93")
def test_tombstones_are_the_targets_own() -> None:
    create = native_record(native_ddl("CREATE TABLE t (id INT PRIMARY KEY)"), topic=DDL_TOPIC)
    delete = native_record(native_row("d", before={"id": 7}), {"id": 7}, 1)
    assert ops(made(NATIVE, create, delete, options=BARE)) == [("d", {"id": 7}, None), None]
    assert made(NATIVE, create, delete, native_record(None, {"id": 7}, 2), options=BARE).outs == []
    without = made(NATIVE, create, delete, options=BARE | {"tombstones.on.delete": "false"})
    assert ops(without) == [("d", {"id": 7}, None)]


@CASES.covers("110")
def test_a_commit_ts_orders_events_to_its_last_digit() -> None:
    one = record(row_message(TYPES, {"id": "1", "v": "2"}, pkNames=["id"], _tidb={"commitTs": TSO}), offset=1)
    (value,) = made(TICDC, CREATE, one, options=BARE).values
    assert (value["source"]["pos"], value["source"]["file"], value["source"]["gtid"]) == (TSO, "", None)


@CASES.covers("112")
def test_a_value_that_is_not_available_stays_so() -> None:
    create = native_record(native_ddl("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"), topic=DDL_TOPIC)
    one = native_record(native_row(after={"id": 1, "v": "__debezium_unavailable_value"}), {"id": 1}, 1)
    found = made(NATIVE, create, one)
    assert found.payload["after"] == {"id": 1, "v": "__debezium_unavailable_value"}
    assert [field["field"] for field in found.values[0]["schema"]["fields"][1]["fields"]] == ["id", "v"]

    left_out = made(NATIVE, create, one, options={"unavailable.value.placeholder": ""})
    assert left_out.payload["after"] == {"id": 1}
    assert [field["field"] for field in left_out.values[0]["schema"]["fields"][1]["fields"]] == ["id"]


@CASES.covers("114")
def test_a_row_of_a_partition_is_one_of_its_table() -> None:
    create = framed(open_ddl("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3"))
    one = framed(open_row({"u": {"id": {"t": 3, "h": True, "f": 11, "v": 1}}}, ptn=61), offset=1)
    (value,) = made(OPEN, create, one, options=BARE).values
    assert (value["source"]["table"], value["after"]) == ("t", {"id": 1})


@CASES.covers("116")
def test_a_time_in_milliseconds_is_the_same_in_all_units() -> None:
    (value,) = made(CANAL, CREATE, changed({"id": "1", "v": "2"}, "INSERT"), options=BARE).values
    for part, ms in ((value["source"], 1700000000123), (value, 1700000000456)):
        assert (part["ts_ms"], part["ts_us"], part["ts_ns"]) == (ms, ms * 1000, ms * 1_000_000)


# ---------------------------------------------------------------- statements and control messages


@CASES.covers("94")
def test_truncate_is_a_row_message_on_request() -> None:
    assert statement("TRUNCATE TABLE t", "TRUNCATE").outs == []
    found = statement("TRUNCATE TABLE t", "TRUNCATE", options={"skipped.operations": "none"})
    assert (keys(found), ops(found)) == ([None], [("t", None, None)])


@pytest.mark.parametrize(
    ("sql", "word", "expected"),
    [
        CASES.param("96", "ALTER TABLE t DROP INDEX i", "DINDEX", ("t", [("ALTER", '"d"."t"', ["id", "v"])])),
        CASES.param("96", "DROP INDEX i ON t", "DINDEX", ("", [])),
        CASES.param("97 98", "RENAME TABLE t TO u", "RENAME", ("u", [("ALTER", '"d"."u"', ["id", "v"])])),
        CASES.param("101", "DROP DATABASE d", "QUERY", (None, [])),
        CASES.param("102", "CREATE SEQUENCE s", "QUERY", ("", [])),
        CASES.param("102", "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES p (id)", "ALTER",
                    ("t", [("ALTER", '"d"."t"', ["id", "v"])])),
        CASES.param("104", "SET @a = 1", "QUERY", ("", [])),
        CASES.param("104", "ALTER TABLE t FROBNICATE (", "ALTER", ("", [])),
    ],
)  # fmt: skip
def test_statements(sql: str, word: str, expected: tuple[str | None, list[Any]]) -> None:
    table = "" if "DATABASE" in sql or "SET" in sql else "t"
    found = made(CANAL, CREATE, record(ddl(sql, word, table), offset=1), options=BARE)
    assert shown(found) == [(expected[0], sql, expected[1])]


@CASES.covers("99")
def test_a_rename_of_two_tables_is_a_message_each() -> None:
    found = made(CANAL, CREATE, record(ddl("CREATE TABLE a (n INT)", "CREATE", "a"), offset=1),
                 record(ddl("RENAME TABLE t TO u, a TO t", "RENAME", "u"), offset=2), options=BARE)  # fmt: skip
    assert shown(found) == [
        ("u", "RENAME TABLE t TO u", [("ALTER", '"d"."u"', ["id", "v"])]),
        ("t", "RENAME TABLE a TO t", [("ALTER", '"d"."t"', ["n"])]),
    ]


@CASES.covers("100")
def test_an_exchange_of_a_partition_is_about_the_partitioned_table() -> None:
    sql = "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x"
    assert shown(statement(sql)) == [("t", sql, [("ALTER", '"d"."t"', ["id", "v"])])]


@CASES.covers("103")
def test_a_statement_that_every_partition_has_is_written_once() -> None:
    translator, sql = Translator(OPEN, NATIVE, None, BARE), "CREATE TABLE t (id INT PRIMARY KEY)"
    outs = [out for at in range(3) for out in translator.translate(framed(open_ddl(sql), partition=at))]
    assert [(out.partition, json.loads(out.value or b"")["ddl"]) for out in outs] == [(0, sql)]


@CASES.covers("107")
def test_a_heartbeat_has_the_targets_name() -> None:
    beat = native_record({"ts_ms": 1768443630123}, {"serverName": "dbz"})
    found = made(NATIVE, beat, options=BARE | {"topic.prefix": "p"})
    assert (keys(found), found.values) == ([{"serverName": "p"}], [{"ts_ms": 1768443630123}])
    assert made(NATIVE, beat, options=BARE | {"heartbeats": "drop"}).outs == []


@CASES.covers("109")
def test_rows_do_not_wait_for_the_end_of_their_transaction() -> None:
    begin = {"status": "BEGIN", "id": "x", "event_count": None, "data_collections": None, "ts_ms": 1}
    one = native_record(
        native_row(after={"id": 1}, transaction={"id": "x", "total_order": 1, "data_collection_order": 1}),
        {"id": 1}, 1,
    )  # fmt: skip
    options = BARE | {"provide.transaction.metadata": "true"}
    found = made(NATIVE, native_record(begin, {"id": "x"}), one, options=options)
    assert [value["transaction"] for value in found.values] == [
        {"id": "x", "total_order": 1, "data_collection_order": 1}
    ]
