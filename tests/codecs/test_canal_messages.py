"""Rows, DDL and control messages of Canal and TiCDC Canal-JSON: shapes, releases and what is counted as lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import (
    CANAL,
    OPEN,
    TICDC,
    captured,
    events,
    named_refusal,
    record,
    row_message,
    translate,
    translated_records,
)

from relay import (
    ABSENT,
    ConfigError,
    ConsumerRecord,
    DdlKind,
    Malformed,
    NotRepresentable,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
    UnsupportedMessage,
)

AB = {"id": "int", "a": "int", "b": "varchar(9)"}


def ddl(sql: str, word: str = "ALTER", table: str = "t", **more: Any) -> dict[str, Any]:
    return {
        "id": 0,
        "database": "d",
        "table": table,
        "isDdl": True,
        "type": word,
        "es": 1,
        "ts": 2,
        "sql": sql,
    } | more


def losses(source: str, target: str, *messages: dict[str, Any], **options: dict[str, str]) -> dict[str, int]:
    translator = Translator(source, target, options.get("source"), options.get("to"))
    translated_records(translator, [record(message, offset=at) for at, message in enumerate(messages)])
    return {what.value: count for what, count in translator.losses.items()}


# ---------------------------------------------------------------- rows


def test_nine_rows_in_one_message_are_nine_messages() -> None:
    rows = [{"id": str(n), "a": "1", "b": "x"} for n in range(9)]
    out = translate(CANAL, TICDC, [record(row_message(AB, *rows))])
    assert [message["data"] for message in out] == [[row] for row in rows]


def test_rows_go_back_into_one_message_when_asked() -> None:
    rows = [{"id": str(n), "a": "1", "b": "x"} for n in range(5)]
    source = record(row_message(AB, *rows, op="UPDATE", old=[{"a": "0"}] * 5))
    out = translate(CANAL, CANAL, [source], None, {"max-batch-size": "3"})
    assert [len(message["data"]) for message in out] == [3, 2]
    assert [len(message["old"]) for message in out] == [3, 2]


def test_the_number_in_sql_type_is_each_rows_own() -> None:
    unsigned = row_message({"u": "tinyint unsigned"}, {"u": "200"}, {"u": "5"}, sqlType={"u": -6})
    assert [message["sqlType"]["u"] for message in translate(CANAL, TICDC, [record(unsigned)])] == [5, -6]


def test_null_has_its_own_numbers_in_canal() -> None:
    nulls = row_message({"s": "set('a')", "j": "json", "b": "blob"}, {"s": None, "j": None, "b": None})
    assert translate(TICDC, CANAL, [record(nulls)])[0]["sqlType"] == {"s": 2004, "j": 1111, "b": 2004}
    assert translate(CANAL, TICDC, [record(nulls)])[0]["sqlType"] == {"s": -7, "j": 12, "b": 2004}


def test_accumulated_names_in_old_are_no_change() -> None:
    rows = [{"id": "1", "a": "1", "b": "x"}, {"id": "2", "a": "5", "b": "y"}]
    update = row_message(AB, *rows, op="UPDATE", old=[{"a": "0"}, {"a": "5", "b": "x"}])
    assert [message["old"] for message in translate(CANAL, CANAL, [record(update)])] == [
        [{"a": "0"}],
        [{"b": "x"}],
    ]


def test_misaligned_old_of_canal_up_to_1_1_6_is_unknown_and_counted() -> None:
    rows = [{"id": "1", "a": "1", "b": "x"}, {"id": "2", "a": "5", "b": "y"}]
    update = row_message(AB, *rows, op="UPDATE", old=[{"a": "0"}])
    for event in events(CANAL, [record(update)]):
        assert isinstance(event, RowChange)
        assert event.op is Op.UPDATE
        assert event.before is None
    assert losses(CANAL, TICDC, update)["before-missing"] == 2


def test_an_update_that_changes_nothing_is_kept() -> None:
    update = row_message(AB, {"id": "1", "a": "1", "b": "x"}, op="UPDATE", old=[{}])
    (event,) = events(TICDC, [record(update)])
    assert isinstance(event, RowChange)
    assert event.before == event.after == (1, 1, "x")
    assert translate(TICDC, CANAL, [record(update)])[0]["old"] == [{}]


def test_present_null_was_null_and_absent_was_the_same() -> None:
    update = row_message(AB, {"id": "1", "a": None, "b": "x"}, op="UPDATE", old=[{"b": None}])
    (event,) = events(CANAL, [record(update)])
    assert isinstance(event, RowChange)
    assert event.before == (1, None, None)
    assert translate(CANAL, TICDC, [record(update)])[0]["old"] == [{"id": "1", "a": None, "b": None}]


def test_a_table_without_a_key() -> None:
    assert (
        translate(TICDC, CANAL, [record(row_message(AB, {"id": "1", "a": "1", "b": "x"}, pkNames=[]))])[0][
            "pkNames"
        ]
        is None
    )
    assert (
        translate(CANAL, TICDC, [record(row_message(AB, {"id": "1", "a": "1", "b": "x"}, pkNames=None))])[0][
            "pkNames"
        ]
        == []
    )


def test_the_primary_key_is_named_in_column_order() -> None:
    create = ddl("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (b, a))", "CREATE")
    row = row_message(
        {"a": "int", "b": "int", "c": "int"}, {"a": "1", "b": "2", "c": "3"}, pkNames=["a", "b"]
    )
    messages = [record(create), record(row, offset=1)]
    _, event = events(TICDC, messages)
    assert isinstance(event, RowChange)
    assert event.schema.primary_key == ("b", "a")
    assert translate(TICDC, CANAL, messages)[1]["pkNames"] == ["a", "b"]


def test_names_are_kept_to_the_letter() -> None:
    names = ["data", "old", "_tidb", "a.b", 'q"', "中文", "é", "back\\slash", "i`d", "😀", "Id"]
    row = row_message(dict.fromkeys(names, "int"), {name: str(at) for at, name in enumerate(names)})
    (out,) = translate(TICDC, CANAL, [record(row)])
    assert list(out["data"][0]) == names


def test_virtual_generated_columns_are_canals_alone() -> None:
    create = ddl(
        "CREATE TABLE t (id INT, v INT GENERATED ALWAYS AS (id + 1) VIRTUAL, b VARCHAR(9))", "CREATE"
    )
    row = row_message({"id": "int", "v": "int", "b": "varchar(9)"}, {"id": "1", "v": "2", "b": "x"})
    _, out = translate(CANAL, TICDC, [record(create), record(row, offset=1)])
    assert out["data"] == [{"id": "1", "b": "x"}]
    assert list(out["mysqlType"]) == list(out["sqlType"]) == ["id", "b"]


def test_handle_key_only_messages_are_partial_and_counted() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "CREATE")
    row = row_message(
        {"id": "int"},
        {"id": "1"},
        pkNames=["id"],
        _tidb={"commitTs": 470615239864877056, "onlyHandleKey": True},
    )
    messages = [create, row]
    _, event = events(TICDC, [record(message, offset=at) for at, message in enumerate(messages)])
    assert isinstance(event, RowChange)
    assert event.after == (1, ABSENT, ABSENT)
    assert losses(TICDC, CANAL, *messages) == {"columns-absent": 1, "commit-ts": 1}


def test_deletes_with_the_handle_key_alone() -> None:
    create = ddl("CREATE TABLE t (id INT, a INT, b VARCHAR(9) NOT NULL, UNIQUE KEY u (b))", "CREATE")
    delete = row_message(AB, {"id": "1", "a": "2", "b": "x"}, op="DELETE", pkNames=[])
    option = {"delete-only-output-handle-key-columns": "true"}
    _, out = translate(TICDC, TICDC, [record(create), record(delete, offset=1)], None, option)
    assert out["data"] == [{"b": "x"}]
    assert losses(TICDC, TICDC, create, delete, to=option) == {"delete-image": 1, "type-parameters": 1}


def test_updates_of_a_key_are_split_unless_they_shall_stay_raw() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "CREATE")
    update = row_message(AB, {"id": "2", "a": "1", "b": "x"}, op="UPDATE", old=[{"id": "1"}], pkNames=["id"])
    messages = [record(create), record(update, offset=1)]
    _, kept = translate(CANAL, TICDC, messages, None, {"output-raw-change-event": "true"})
    assert kept["type"] == "UPDATE"
    _, delete, insert = translate(CANAL, TICDC, messages)
    assert (delete["type"], delete["data"]) == ("DELETE", [{"id": "1", "a": "1", "b": "x"}])
    assert (insert["type"], insert["data"]) == ("INSERT", [{"id": "2", "a": "1", "b": "x"}])


FLAT = "flat-json"
KEYED = {"id": "int", "d": "decimal(9,2)", "b": "varchar(9)"}
OLD_ROW, NEW_ROW = {"id": "1", "d": "1.0", "b": None}, {"id": "2", "d": "2.50", "b": "x"}


@pytest.mark.parametrize("target", [TICDC, OPEN, FLAT])
@pytest.mark.parametrize("old", [OLD_ROW, {"id": "1", "d": "1.0", "b": None, "gone": "y"}])
def test_the_parts_of_a_split_update_are_written_like_rows_of_their_own(
    target: str, old: dict[str, str | None]
) -> None:
    """Also where the old row has a column that the new one lacks."""
    types = KEYED | dict.fromkeys(old.keys() - KEYED.keys(), "varchar(9)")
    update = row_message(types, NEW_ROW, op="UPDATE", old=[old], pkNames=["id"])
    delete = row_message(types, old, op="DELETE", pkNames=["id"])
    insert = row_message(KEYED, NEW_ROW, pkNames=["id"])
    together, apart = (Translator(CANAL, target) for _ in range(2))
    for offset in range(20):  # readers and writers are compiled after some rows
        whole = [out.value for out in together.translate(record(update, offset))]
        parts = [out.value for one in (delete, insert) for out in apart.translate(record(one, offset))]
        assert whole == parts


def test_a_split_update_names_the_old_row_that_is_malformed() -> None:
    update = row_message(KEYED, NEW_ROW, op="UPDATE", old=[{"id": "1", "d": "x"}], pkNames=["id"])
    for target in (TICDC, OPEN, FLAT):
        translator = Translator(CANAL, target)
        for offset in range(20):
            with pytest.raises(Malformed, match=r"old\[0\]\.d"):
                translator.translate(record(update, offset))


def test_text_with_a_length_that_canal_takes_for_a_blob() -> None:
    mistaken = "你好".encode().decode("latin-1")
    row = row_message({"c": "TEXT(100)"}, {"c": mistaken}, sqlType={"c": 2004})
    assert translate(CANAL, TICDC, [record(row)])[0]["data"] == [{"c": "你好"}]
    assert translate(
        CANAL, TICDC, [record(row_message({"c": "TEXT(100)"}, {"c": "你好"}, sqlType={"c": 2005}))]
    )[0]["data"] == [{"c": "你好"}]


def test_a_type_that_cannot_be_read_makes_no_text_of_bytes() -> None:
    create = ddl("create table t (c varbinary(16))", "CREATE")
    row = row_message({"c": "longtext("}, {"c": "\0\0"}, sqlType={"c": 2004})
    _, out = translate(CANAL, CANAL, [record(create), record(row, offset=1)], None, {"binary": "base64"})
    assert (out["data"], out["mysqlType"]) == ([{"c": "AAA="}], {"c": "varbinary(16)"})


def test_the_row_key_goes_where_it_is_asked_for() -> None:
    rows = [r for r in captured("ticdc/canal-json.row-key/07_keys") if b'"rowkey"' in (r.value or b"")]
    both = {"enable-tidb-extension": "true", "output-row-key": "true"}
    kept = translate(TICDC, TICDC, rows, None, both)
    assert [m["_tidb"] for m in kept] == [m["_tidb"] for m in translate(TICDC, TICDC, rows, None, both)]
    assert all(list(message["_tidb"]) == ["commitTs", "rowkey"] for message in kept)
    assert all(
        list(message["_tidb"]) == ["commitTs"]
        for message in translate(TICDC, TICDC, rows, None, {"enable-tidb-extension": "true"})
    )


def test_a_commit_ts_is_made_from_time_and_offset_where_there_is_none() -> None:
    row = row_message(AB, {"id": "1", "a": "1", "b": "x"})
    (out,) = translate(CANAL, TICDC, [record(row, offset=7)], None, {"enable-tidb-extension": "true"})
    assert out["_tidb"] == {"commitTs": (1700000000123 << 18) + 7}
    assert losses(CANAL, TICDC, row, to={"enable-tidb-extension": "true"})["commit-ts-synthetic"] == 1


# ---------------------------------------------------------------- DDL


@pytest.mark.parametrize(
    ("sql", "ticdc", "canal"),
    [
        ("CREATE TABLE `t` (`a` INT)", "CREATE", "CREATE"), ("DROP TABLE `d`.`t`", "ERASE", "ERASE"),
        ("TRUNCATE TABLE `t`", "TRUNCATE", "TRUNCATE"), ("RENAME TABLE `d`.`x` TO `d`.`t`", "RENAME", "RENAME"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`)", "CINDEX", "CINDEX"), ("ALTER TABLE `t` DROP PRIMARY KEY", "DINDEX", "DINDEX"),
        ("ALTER TABLE `t` DROP FOREIGN KEY `f`", "DINDEX", "DINDEX"), ("ALTER TABLE `t` ADD COLUMN `b` INT", "ALTER", "ALTER"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`), ADD COLUMN `b` INT", "ALTER", "CINDEX"), ("CREATE DATABASE `d`", "QUERY", "QUERY"),
        ("ALTER TABLE `t` /*T![ttl] REMOVE TTL */", "QUERY", "ALTER"), ("RECOVER TABLE `t`", "QUERY", "QUERY"),
        ("ALTER TABLE `d`.`t` EXCHANGE PARTITION `p0` WITH TABLE `d`.`u`", "QUERY", "ALTER"),
    ],
)  # fmt: skip
def test_the_word_for_a_statement_comes_from_its_text(sql: str, ticdc: str, canal: str) -> None:
    message = [record(ddl(sql, "WRONG"))]
    assert translate(TICDC, TICDC, message)[0]["type"] == ticdc
    assert translate(TICDC, CANAL, message)[0]["type"] == canal
    assert translate(TICDC, CANAL, message)[0]["sql"] == sql


def test_a_statement_that_is_not_understood_passes_and_is_counted() -> None:
    strange = ddl("ALTER UNIVERSE SET gravity = 0", "ALTER")
    (out,) = translate(TICDC, CANAL, [record(strange)])
    assert (out["sql"], out["type"], out["isDdl"]) == ("ALTER UNIVERSE SET gravity = 0", "ALTER", True)
    assert losses(TICDC, CANAL, strange)["ddl-not-understood"] == 1


def test_several_tables_in_one_statement_are_a_message_each_for_ticdc() -> None:
    out = translate(CANAL, TICDC, [record(ddl("DROP TABLE a, `b`", "ERASE", table="a"))])
    assert [(m["table"], m["sql"]) for m in out] == [("a", "DROP TABLE `d`.`a`"), ("b", "DROP TABLE `d`.`b`")]
    out = translate(CANAL, TICDC, [record(ddl("RENAME TABLE a TO x, b TO e.a", "RENAME", table="x"))])
    assert [(m["database"], m["table"], m["sql"]) for m in out] == [
        ("d", "x", "RENAME TABLE `d`.`a` TO `d`.`x`"),
        ("e", "a", "RENAME TABLE `d`.`b` TO `e`.`a`"),
    ]


def test_database_ddl_of_canal_up_to_1_1_4_is_no_ddl_by_its_flag() -> None:
    (event,) = events(
        CANAL, [record(ddl("CREATE DATABASE `x`", "QUERY", table="", database="`x`", isDdl=False))]
    )
    assert isinstance(event, SchemaChange)
    assert event.kinds == (DdlKind.CREATE_DATABASE,)
    assert event.table == TableId("x", "")


@pytest.mark.parametrize("word", ["QUERY", "XACOMMIT"])
def test_statements_that_change_no_rows_are_counted(word: str) -> None:
    message = ddl("update t set a = 1", word, isDdl=False)
    assert translate(CANAL, TICDC, [record(message)]) == []
    assert losses(CANAL, TICDC, message) == {"statement": 1}


def test_statement_based_changes_are_refused_because_the_rows_are_missing() -> None:
    with pytest.raises(UnsupportedMessage, match="binlog_format is not ROW"):
        translate(CANAL, TICDC, [record(ddl("INSERT INTO t VALUES (1)", "INSERT", isDdl=False))])


def test_a_row_at_the_ddls_own_commit_ts_has_the_definition_before_it() -> None:
    ext = {"enable-tidb-extension": "true", "content-compatible": "true"}
    create = ddl("CREATE TABLE t (a VARCHAR(5))", "CREATE", _tidb={"commitTs": 10})
    alter = ddl("ALTER TABLE t MODIFY a VARCHAR(9)", _tidb={"commitTs": 20})
    rows = [row_message({"a": "varchar"}, {"a": "x"}, _tidb={"commitTs": ts}) for ts in (20, 21, 15)]
    out = translate(
        TICDC, TICDC, [record(m, offset=at) for at, m in enumerate([create, alter, *rows])], None, ext
    )
    assert [m["mysqlType"]["a"] for m in out[2:]] == ["varchar(5)", "varchar(9)", "varchar(5)"]


def test_a_table_without_ddl_is_translated_from_what_the_message_says() -> None:
    row = row_message({"id": "bigint unsigned", "e": "enum"}, {"id": "1", "e": "2"})
    (out,) = translate(TICDC, CANAL, [record(row)])
    assert out["mysqlType"] == {"id": "bigint unsigned", "e": "enum"}
    assert losses(TICDC, CANAL, row) == {"schema-inferred": 1, "type-parameters": 1}


def test_a_catalog_that_contradicts_the_message_gives_way() -> None:
    create = ddl("CREATE TABLE t (a INT, b VARCHAR(5))", "CREATE")
    row = row_message({"a": "bigint", "b": "varchar"}, {"a": "1", "b": "x"})
    _, out = translate(TICDC, CANAL, [record(create), record(row, offset=1)])
    assert out["mysqlType"] == {"a": "bigint", "b": "varchar(5)"}


# ---------------------------------------------------------------- control and refusals


def test_watermarks_pass_only_where_there_is_a_word_for_them() -> None:
    mark = {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "es": 5,
        "ts": 6,
        "_tidb": {"watermarkTs": 429918007904436226},
    }
    (kept,) = translate(TICDC, TICDC, [record(mark)], None, {"enable-tidb-extension": "true"})
    assert kept["_tidb"] == {"watermarkTs": 429918007904436226}
    assert translate(TICDC, CANAL, [record(mark)]) == []
    assert losses(TICDC, CANAL, mark) == {"watermark": 1}


@pytest.mark.parametrize("value", [b"", None])
def test_tombstones_are_skipped_and_counted(value: bytes | None) -> None:
    translator = Translator(TICDC, CANAL)
    source = record({})
    tombstone = type(source)(source.topic, 0, 0, 0, None, value)
    assert translator.translate(tombstone) == []
    assert translator.losses == {"tombstone": 1}


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("{]", ""), ("", ""), ("[]", ""), ("{}", ""), ('"x"', ""), ("nul", ""), ('{"type":"INSERT","es":"x"}', "es"),
        ('{"type":"INSERT","data":[]}', "data"), ('{"type":"INSERT","data":null}', "data"), ('{"type":"INSERT","es":1e400}', "es"),
        ('{"type":"INSERT","data":[{"a":"\\ud800"}]}', ""),
        ('{"type":"TIDB_WATERMARK"}', "_tidb.watermarkTs"),
        ('{"type":"INSERT","data":[{}],"_tidb":{"commitTs":-1}}', "_tidb.commitTs"),
        ('{"type":"INSERT","data":[{}],"_tidb":{"commitTs":18446744073709551616}}', "_tidb.commitTs"),
        ('{"type":"INSERT","data":[{"a":"1"}],"_tidb":{"commitTs":5,"rowkey":"?"}}', "_tidb.rowkey"), ("[" * 100_000, "value"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_malformed(message: str, path: str) -> None:
    if message == "":
        message = " "
    with pytest.raises(Malformed) as raised:
        translate(TICDC, CANAL, [record(message)])
    assert raised.value.path == path


def test_an_unknown_type_is_unsupported() -> None:
    for source in (TICDC, CANAL):
        with pytest.raises(UnsupportedMessage, match="type"):
            translate(source, CANAL, [record(row_message(AB, {"id": "1", "a": "1", "b": "x"}, op="FOO"))])


def test_strict_refuses_to_lose_anything() -> None:
    row = row_message({"id": "int"}, {"id": "1"}, _tidb={"commitTs": 1})
    translator = Translator(TICDC, CANAL, None, {"strict": "true"})
    with pytest.raises(NotRepresentable, match="would lose: commit-ts; "):
        translator.translate(record(row))
    assert not translator.losses
    assert not translator.events


def test_unknown_options_suggest_close_names_and_all_problems_are_reported() -> None:
    with pytest.raises(ConfigError) as raised:
        Translator("ticdc-canal-jsn", CANAL, {}, {"max-batch-sise": "1", "max-batch-size": "many"})
    text = str(raised.value)
    assert "did you mean ticdc-canal-json" in text
    assert "did you mean max-batch-size?" in text
    assert "'many' does not fit" in text


def test_a_minimal_row_image_keeps_the_old_value_of_a_column_that_the_new_row_lacks() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "CREATE")
    update = row_message(AB, {"id": "1", "a": "2"}, op="UPDATE", old=[{"b": "x"}], pkNames=["id"])
    messages = [create, update]
    for target in (TICDC, CANAL):
        _, out = translate(CANAL, target, [record(message, offset=at) for at, message in enumerate(messages)])
        assert out["data"] == [{"id": "1", "a": "2"}]
        assert out["old"][0]["b"] == "x"
        assert losses(CANAL, target, *messages)["columns-absent"] == 1


def test_watermarks_do_not_multiply_with_the_partitions() -> None:
    mark = {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "es": 5,
        "ts": 6,
        "_tidb": {"watermarkTs": 429918007904436226},
    }
    to_canal = Translator(TICDC, CANAL, partitions=3)
    assert to_canal.translate(record(mark)) == []
    assert to_canal.losses == {"watermark": 1}
    to_ticdc = Translator(TICDC, TICDC, None, {"enable-tidb-extension": "true"}, partitions=3)
    assert [out.partition for out in to_ticdc.translate(record(mark))] == [0, 1, 2]
    assert [out.partition for out in to_ticdc.translate(record(ddl("CREATE DATABASE d", "QUERY")))] == [0]


def test_ticdcs_messages_read_as_canals_are_distinguished() -> None:
    mark = {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "es": 5,
        "ts": 6,
        "_tidb": {"watermarkTs": 429918007904436226},
    }
    assert named_refusal(CANAL, record(mark)).endswith("is the source protocol ticdc-canal-json?")
    assert (
        losses(CANAL, CANAL, row_message(AB, {"id": "1", "a": "2", "b": "x"}, _tidb={"commitTs": 1}))[
            "unknown-fields"
        ]
        == 1
    )


def test_losing_type_parameters_is_counted_where_the_message_had_them() -> None:
    full, bare = {"a": "decimal(9,2)"}, {"a": "decimal"}
    assert losses(CANAL, TICDC, row_message(full, {"a": "1.00"}))["type-parameters"] == 1
    assert "type-parameters" not in losses(TICDC, TICDC, row_message(bare, {"a": "1.00"}))


def test_parts_of_a_split_update_go_where_their_own_keys_go() -> None:
    def row(key: str, op: str, old: Any = None) -> dict[str, Any]:
        return row_message(AB, {"id": key, "a": "1", "b": "x"}, op=op, old=old, pkNames=["id"])

    translator = Translator(CANAL, TICDC, None, {"output-raw-change-event": "false"}, partitions=8)
    insert_1, insert_2 = (translator.translate(record(row(key, "INSERT")))[0].partition for key in "12")
    delete, insert = translator.translate(record(row("2", "UPDATE", [{"id": "1"}])))
    assert insert_1 != insert_2
    assert (delete.partition, insert.partition) == (insert_1, insert_2)


def test_a_leniently_read_message_is_mended_like_a_strict_one() -> None:
    mistaken = "é".encode().decode("latin-1")
    message = row_message(
        {"id": "int", "c": "text(100)"}, {"id": 1, "c": mistaken}, sqlType={"id": 4, "c": 2004}
    )
    assert translate(CANAL, TICDC, [record(message)])[0]["data"] == [{"id": "1", "c": "é"}]


def test_an_event_time_too_large_for_a_commit_ts_is_malformed() -> None:
    with pytest.raises(Malformed, match="es"):
        translate(
            CANAL, TICDC, [record(row_message(AB, {"id": "1", "a": "1", "b": "x"}, es=1700000000000000))]
        )


def test_tables_whose_names_differ_in_case_alone_are_two() -> None:
    create = ddl("create table t (a int primary key, b decimal(9,3))", "CREATE")
    like = ddl("create table T like t", "CREATE", table="T")
    row = row_message({"a": "int", "b": "decimal"}, {"a": "1", "b": "1.000"}, table="T")
    out = translate(
        TICDC, CANAL, [record(message, offset=at) for at, message in enumerate([create, like, row])]
    )
    assert out[2]["mysqlType"] == {"a": "int", "b": "decimal(9,3)"}


def test_many_shapes_of_one_table_are_kept_ready() -> None:
    names = [f"c{n}" for n in range(12)]
    translator = Translator(CANAL, TICDC)
    shapes = [dict.fromkeys(names[:end], "1") for end in range(1, 13)]
    for cells in shapes * 3:
        translator.translate(record(row_message(dict.fromkeys(cells, "int"), cells)))
    assert translator.events == {"insert": 36}


def mark(watermark_ts: int, partition: int) -> ConsumerRecord:
    message = {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "es": 5,
        "ts": 6,
        "_tidb": {"watermarkTs": watermark_ts},
    }
    return record(message, offset=watermark_ts, partition=partition)


def test_a_watermark_holds_for_spread_rows_when_every_source_partition_has_reached_it() -> None:
    translator = Translator(TICDC, TICDC, None, {"enable-tidb-extension": "true"}, partitions=2)
    for partition in (0, 1):
        translator.translate(
            record(
                row_message(AB, {"id": "1", "a": "1", "b": "x"}, _tidb={"commitTs": 5}), partition=partition
            )
        )
    assert translator.translate(mark(1000, 0)) == []
    out = translator.translate(mark(700, 1))
    assert [(r.partition, json.loads(r.value or b"")["_tidb"]) for r in out] == [
        (at, {"watermarkTs": 700}) for at in (0, 1)
    ]
    assert translator.translate(mark(600, 1)) == []
    assert [json.loads(r.value or b"")["_tidb"] for r in translator.translate(mark(2000, 1))] == [
        {"watermarkTs": 1000}
    ] * 2


def test_statements_without_a_flag_are_no_ddl_if_they_are_changes_of_rows() -> None:
    nothing: list[list[str] | None] = [None, []]
    for data in nothing:
        message = {
            "type": "INSERT",
            "sql": "INSERT INTO t VALUES (1)",
            "data": data,
            "database": "d",
            "table": "t",
            "es": 1,
            "ts": 1,
        }
        with pytest.raises(UnsupportedMessage, match="binlog_format"):
            translate(CANAL, TICDC, [record(message)])


def test_if_exists_is_kept_for_every_table_and_view() -> None:
    dropped = ddl("DROP TABLE IF EXISTS `a`,`b` /* generated by server */", "ERASE", table="a")
    assert [m["sql"] for m in translate(CANAL, TICDC, [record(dropped)])] == [
        "DROP TABLE IF EXISTS `d`.`a`",
        "DROP TABLE IF EXISTS `d`.`b`",
    ]
    views = ddl("DROP VIEW v1, v2", "QUERY", table="")
    assert [m["sql"] for m in translate(CANAL, TICDC, [record(views)])] == [
        "DROP VIEW `d`.`v1`",
        "DROP VIEW `d`.`v2`",
    ]


def test_a_type_number_stands_in_where_there_is_no_type_word() -> None:
    row = row_message({"id": "", "b": ""}, {"id": "1", "b": "\u00ff"}, sqlType={"id": 4, "b": 2004})
    (event,) = events(CANAL, [record(row)])
    assert isinstance(event, RowChange)
    assert event.after == (1, b"\xff")


def test_labels_and_offsets_of_look_alikes_become_what_ticdc_writes() -> None:
    types = {"e": "enum('a','b')", "s": "set('x','y')", "t": "timestamp"}
    row = row_message(types, {"e": "b", "s": "x,y", "t": "2021-05-17 15:22:42 +08:00"})
    (out,) = translate(CANAL, TICDC, [record(row)])
    assert out["data"] == [{"e": "2", "s": "3", "t": "2021-05-17 07:22:42"}]
    for cell in ({"e": "zz"}, {"b": "\ufffd"}):
        wrong = row_message({"e": "enum('a','b')", "b": "varbinary(9)"}, cell)
        with pytest.raises(Malformed) as raised:
            translate(CANAL, TICDC, [record(wrong)])
        assert raised.value.path == f"data[0].{next(iter(cell))}"


def test_strict_accepts_a_table_that_is_known_from_its_rows_alone() -> None:
    row = row_message(AB, {"id": "1", "a": "1", "b": "x"})
    out = translate(CANAL, TICDC, [record(row)], None, {"strict": "true", "content-compatible": "true"})
    assert len(out) == 1


@pytest.mark.parametrize("target", [CANAL, "ckafka-json"])
def test_backslashes_of_tidbs_ddl_are_escaped_for_readers_of_mysqls(target: str) -> None:
    """TiDB writes `'back\\slash'` for a member with one backslash; MySQL's text has two."""
    ddl = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a\\b` INT,`e` ENUM('a','back\\slash','it''s\\'))"
    created = {"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "es": 1, "ts": 1, "sql": ddl}
    (sent,) = translate(TICDC, target, [record(created)])
    assert (
        sent["sql"]
        == "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a\\b` INT,`e` ENUM('a','back\\\\slash','it''s\\\\'))"
    )
    (read,) = events(target, [record(sent)])
    assert isinstance(read, SchemaChange)
    assert read.after is not None
    assert read.after.columns[2].type.members == ("a", "back\\slash", "it's\\")
    assert translate(target, target, [record(sent)])[0]["sql"] == sent["sql"]
