"""The Canal family's edge cases of messages: envelopes, DDL, watermarks, garbage.

Rows, values, large messages and CKafka are in modules of their own; the last test here asks for all of them.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from edge_cases.canal_family import (
    AB,
    CASES,
    CREATE_AB,
    EXTENSION,
    before_and_after,
    cell,
    change,
    column_names,
    counted,
    ddl,
    known,
    records,
    schema_change,
    sent,
    watermark,
)
from support import CANAL, TICDC, events, record, row_message, translate
from typer.testing import CliRunner

from relay import ConsumerRecord, DdlKind, Malformed, TableId, Translator, UnsupportedMessage, Watermark
from relay.cli.commands import app
from relay.model.errors import MessageTooLarge

CKAFKA = "ckafka-json"
ROW = {"id": "1", "a": "1", "b": "x"}
INSERT = row_message(AB, ROW, pkNames=["id"])
TSO = 470615239864877056
EITHER_WAY = [(TICDC, CANAL), (CANAL, TICDC)]


@CASES.covers("1")
@pytest.mark.parametrize("protocol", [TICDC, CANAL, CKAFKA])
@pytest.mark.parametrize("empty", [None, b""])
def test_a_tombstone_is_skipped_and_counted(protocol: str, empty: bytes | None) -> None:
    translator = Translator(protocol, CANAL)
    assert translator.translate(ConsumerRecord("topic", 0, 0, 0, b"key", empty)) == []
    assert translator.losses == {"tombstone": 1}


# ---------------------------------------------------------------- watermarks and the order of commits


@CASES.covers("49")
def test_three_partitions_have_a_watermark_each_and_their_least_holds_for_all() -> None:
    marks = [record(watermark(TSO + at), partition=at) for at in (2, 0, 1)]
    found = [event for event in events(TICDC, marks) if isinstance(event, Watermark)]
    assert [event.source.commit_ts for event in found] == [TSO + 2, TSO, TSO + 1]
    translator = Translator(TICDC, TICDC, None, EXTENSION, partitions=2)
    for partition in range(3):
        translator.translate(record(INSERT, partition=partition))
    out = [
        json.loads(produced.value or b"")["_tidb"]
        for mark in marks
        for produced in translator.translate(mark)
    ]
    assert out == [{"watermarkTs": TSO}] * 2


@CASES.covers("50")
def test_a_row_below_the_watermark_is_forwarded() -> None:
    late = INSERT | {"_tidb": {"commitTs": TSO - 5}}
    assert sent(TICDC, CANAL, watermark(TSO), late)[0]["data"] == [ROW]
    assert sent(TICDC, TICDC, watermark(TSO), late, writing=EXTENSION)[0]["_tidb"] == {"commitTs": TSO - 5}


@CASES.covers("51")
def test_a_row_of_another_partition_at_the_commit_ts_of_a_ddl_is_older_than_it() -> None:
    create = ddl("CREATE TABLE t (a DECIMAL(9,2))", "CREATE", _tidb={"commitTs": TSO})
    alter = ddl("ALTER TABLE t MODIFY a DECIMAL(9,3)", _tidb={"commitTs": TSO + 10})
    rows = [row_message({"a": "decimal"}, {"a": "1"}, _tidb={"commitTs": TSO + at}) for at in (10, 11)]
    messages = [
        *records(create, alter),
        *(record(row, offset=at, partition=1) for at, row in enumerate(rows)),
    ]
    assert [out["mysqlType"] for out in translate(TICDC, CANAL, messages)[2:]] == [
        {"a": "decimal(9,2)"},
        {"a": "decimal(9,3)"},
    ]


@CASES.covers("70")
def test_unknown_members_of_tidb_are_kept_in_the_event() -> None:
    message = INSERT | {"_tidb": {"commitTs": TSO, "tableId": 5}}
    assert change(TICDC, message).source.unknown_fields == {"_tidb.tableId": 5}
    assert sent(TICDC, TICDC, message, writing=EXTENSION)[0]["_tidb"] == {"commitTs": TSO}
    assert counted(TICDC, TICDC, message, writing=EXTENSION)["unknown-fields"] == 1


# ---------------------------------------------------------------- DDL and statements


@CASES.covers("52")
def test_ddl_without_a_table_is_the_databases() -> None:
    found = schema_change(TICDC, ddl("CREATE DATABASE `d`", "QUERY", ""))
    assert (found.table, found.kinds) == (TableId("d", ""), (DdlKind.CREATE_DATABASE,))


@CASES.covers("53")
def test_a_rename_moves_the_definition() -> None:
    create = ddl("CREATE TABLE `x` (`c` DECIMAL(9,3))", "CREATE", "x", database="a", _tidb={"commitTs": TSO})
    rename = ddl("RENAME TABLE `a`.`x` TO `b`.`y`", "RENAME", "y", database="b", _tidb={"commitTs": TSO + 1})
    row = cell("decimal", "1.000", database="b", table="y", _tidb={"commitTs": TSO + 2})
    assert known(TICDC, create, rename, table="x", database="a") is None
    assert column_names(known(TICDC, create, rename, table="y", database="b")) == ["c"]
    assert sent(TICDC, CANAL, create, rename, row)[0]["mysqlType"] == {"c": "decimal(9,3)"}


@CASES.covers("54")
def test_the_text_and_not_the_word_says_what_a_statement_does() -> None:
    alter = ddl("ALTER TABLE t ADD INDEX i(c), ADD COLUMN d INT", "CINDEX")
    assert column_names(known(CANAL, ddl("CREATE TABLE t (c INT)", "CREATE"), alter)) == ["c", "d"]
    assert schema_change(CANAL, alter).kinds == (DdlKind.ADD_INDEX, DdlKind.ADD_COLUMN)


@CASES.covers("55")
def test_drop_of_two_tables_drops_both_and_is_two_messages_for_ticdc() -> None:
    tables = [ddl(f"CREATE TABLE {name} (c INT)", "CREATE", name) for name in "ab"]
    drop = ddl("DROP TABLE a, b", "ERASE", "a")
    assert [column_names(known(CANAL, *tables, table=name)) for name in "ab"] == [["c"], ["c"]]
    assert [known(CANAL, *tables, drop, table=name) for name in "ab"] == [None, None]
    out = sent(CANAL, TICDC, *tables, drop)
    assert [(one["type"], one["table"], one["sql"]) for one in out] == [
        ("ERASE", "a", "DROP TABLE `d`.`a`"),
        ("ERASE", "b", "DROP TABLE `d`.`b`"),
    ]


@CASES.covers("56")
def test_database_ddl_of_canal_up_to_1_1_4_is_known_by_its_text() -> None:
    message = ddl("CREATE DATABASE x", "QUERY", "", database="x", isDdl=False)
    found = schema_change(CANAL, message)
    assert (found.table, found.kinds) == (TableId("x", ""), (DdlKind.CREATE_DATABASE,))
    assert [(out["isDdl"], out["type"]) for out in sent(CANAL, TICDC, message)] == [(True, "QUERY")]


@pytest.mark.parametrize(
    ("word", "sql", "loss"),
    [
        CASES.param("57", "QUERY", "update product set weight = 5.1 where id = 107", "statement"),
        CASES.param("59", "XACOMMIT", "XA COMMIT X'31',X'',1", "admin-statement"),
        CASES.param("59", "XAROLLBACK", "XA ROLLBACK X'31',X'',1", "admin-statement"),
    ],
)
def test_statements_that_are_no_change_are_passed_over_and_counted(word: str, sql: str, loss: str) -> None:
    message = ddl(sql, word, "product", database="", isDdl=False)
    assert sent(CANAL, TICDC, message) == []
    assert counted(CANAL, TICDC, message) == {loss: 1}


@CASES.covers("58")
@pytest.mark.parametrize("word", ["INSERT", "UPDATE", "DELETE"])
def test_a_change_without_its_rows_is_an_error_and_not_a_silent_loss(word: str) -> None:
    with pytest.raises(UnsupportedMessage, match="binlog_format is not ROW"):
        sent(CANAL, TICDC, ddl("INSERT INTO t VALUES (1)", word, isDdl=False))


@CASES.covers("60")
def test_a_statement_that_is_not_understood_passes_and_leaves_no_wrong_definition() -> None:
    unknown = ddl("ALTER TABLE t MODIFY b VARCHAR(20) 'x")
    assert schema_change(CANAL, ddl(CREATE_AB, "CREATE"), unknown).kinds == ()
    assert sent(CANAL, TICDC, unknown)[0]["sql"] == unknown["sql"]
    assert change(CANAL, ddl(CREATE_AB, "CREATE"), INSERT).schema.complete
    assert not change(CANAL, ddl(CREATE_AB, "CREATE"), unknown, INSERT).schema.complete


@CASES.covers("61")
@pytest.mark.parametrize(
    ("said", "canal", "ticdc"),
    [
        ("decimal(10, 4)", "decimal(10,4)", "decimal"),
        ("INTEGER", "int", "int"),
        ("BIGINT unsigned", "bigint unsigned", "bigint unsigned"),
    ],
)
def test_types_in_their_authors_spelling(said: str, canal: str, ticdc: str) -> None:
    assert sent(CANAL, CANAL, cell(said, "1"))[0]["mysqlType"] == {"c": canal}
    assert sent(CANAL, TICDC, cell(said, "1"))[0]["mysqlType"] == {"c": ticdc}


@CASES.covers("62")
def test_text_with_a_length_is_text_that_canal_took_for_bytes() -> None:
    message = cell("TEXT(100)", "你好".encode().decode("latin-1"), sqlType={"c": 2004})
    assert before_and_after(CANAL, message) == (None, ("你好",))
    assert sent(CANAL, TICDC, message)[0]["data"] == [{"c": "你好"}]


# ---------------------------------------------------------------- text, times, garbage


@CASES.covers("85", "86", "88")
def test_what_cannot_be_read_is_a_dead_letter_and_lines_may_end_in_any_way(tmp_path: Path) -> None:
    good, foo = json.dumps(INSERT), json.dumps(INSERT | {"type": "FOO"})
    bad = [foo, good[: len(good) // 2], "{]", "{}"]
    lines = ["", good, *bad, "", good]
    (tmp_path / "CDC000001.json").write_bytes("\r\n".join(lines).encode())
    files = [tmp_path / name for name in ("CDC000001.json", "out", "dead")]
    route = ["translate", "--from", TICDC, "--to", CANAL, "--on-error", "dead-letter"]
    result = CliRunner().invoke(
        app, [*route, str(files[0]), "--output", str(files[1]), "--dead-letters", str(files[2])]
    )
    assert result.exit_code == 0, result.output
    out, dead = ([json.loads(line) for line in file.read_text().splitlines()] for file in files[1:])
    assert [json.loads(one["value"])["data"] for one in out] == [[ROW], [ROW]]
    assert [one["value"] for one in dead] == bad
    codes = [dict(one["headers"])["relay.error.code"] for one in dead]
    assert codes == ["decode.unsupported", "decode.malformed", "decode.malformed", "decode.malformed"]


@CASES.covers("85", "86")
@pytest.mark.parametrize("protocol", [TICDC, CANAL, CKAFKA])
def test_garbage_is_never_an_empty_row(protocol: str) -> None:
    for text in ("{]", "{}", json.dumps(INSERT)[:-9], json.dumps(INSERT | {"data": []})):
        with pytest.raises(Malformed):
            sent(protocol, CANAL, text)
    with pytest.raises(UnsupportedMessage, match="type: "):
        sent(protocol, CANAL, INSERT | {"type": "FOO"})


@CASES.covers("87")
@pytest.mark.parametrize("protocol", [TICDC, CANAL, CKAFKA])
def test_two_objects_in_one_value_are_refused_as_a_whole(protocol: str) -> None:
    for between in ("", "\n"):
        with pytest.raises(Malformed):
            sent(protocol, CANAL, between.join([json.dumps(INSERT)] * 2))


@CASES.covers("95")
@pytest.mark.parametrize(("gtid", "expected"), [("", None), (None, None), ("a:1-5", "a:1-5")])
def test_an_empty_gtid_is_none(gtid: str | None, expected: str | None) -> None:
    message = INSERT | {"gtid": gtid}
    assert change(CANAL, message).source.gtid == expected
    assert sent(CANAL, CANAL, message)[0]["gtid"] == (expected or "")


@CASES.covers("96")
@pytest.mark.parametrize("protocol", [TICDC, CANAL])
def test_without_es_the_time_is_that_of_sending_or_of_the_record(protocol: str) -> None:
    for absent in ({"es": None}, {}):
        message = {name: member for name, member in INSERT.items() if name != "es"} | absent
        (found,) = events(protocol, [record(message, timestamp_ms=5)])
        assert found.source.event_time_ns == INSERT["ts"] * 10**6
        (found,) = events(protocol, [record(message | {"ts": None}, timestamp_ms=5)])
        assert found.source.event_time_ns == 5 * 10**6


@CASES.covers("97")
@pytest.mark.parametrize("protocol", [TICDC, CANAL, CKAFKA])
def test_a_byte_order_mark_is_passed_over(protocol: str) -> None:
    assert sent(protocol, CANAL, b"\xef\xbb\xbf" + json.dumps(INSERT).encode())[0]["data"] == [ROW]


@pytest.mark.parametrize(("source", "target"), EITHER_WAY)
@pytest.mark.parametrize(
    ("plain", "escaped"),
    [CASES.param("98", "<a> & b", "\\u003ca\\u003e \\u0026 b"), CASES.param("99", "a\u2028b", "a\\u2028b")],
)
def test_escaped_and_raw_characters_are_the_same(source: str, target: str, plain: str, escaped: str) -> None:
    for text in (plain, escaped):
        message = json.dumps(cell("text", "TEXT"), ensure_ascii=False).replace("TEXT", text)
        assert before_and_after(source, message) == (None, (plain,))
        assert sent(source, target, message)[0]["data"] == [{"c": plain}]


@CASES.covers("100")
def test_large_texts_and_wide_rows_pass_unless_they_are_above_the_targets_limit() -> None:
    types = {f"c{at}": "int" for at in range(1500)} | {"text": "longtext"}
    data = dict.fromkeys(types, "1") | {"text": "x" * 1_500_000}
    message = row_message(types, data)
    for source, target in EITHER_WAY:
        assert sent(source, target, message)[0]["data"] == [data]
    with pytest.raises(MessageTooLarge):
        sent(CANAL, TICDC, message, writing={"max-message-bytes": "1000000"})


def test_every_number_is_a_case_or_a_decision() -> None:
    for part in ("rows", "values", "variants", "packets"):
        importlib.import_module(f"edge_cases.test_canal_family_{part}")
    CASES.check()
