"""TRUNCATE and DROP that a target does not get, and statements that change no table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import CANAL, TICDC, WRITABLE, captured, record, row_message
from typer.testing import CliRunner

from relay import ConsumerRecord, Loss, NotRepresentable, Translator
from relay.cli.commands import app
from relay.core.counts import MAX_UNWRITTEN


def statement(sql: str, offset: int = 0, word: str = "QUERY", *, is_ddl: bool = True) -> ConsumerRecord:
    nothing = {"data": None, "mysqlType": None, "sqlType": None, "pkNames": None}
    return record(row_message({}) | {"isDdl": is_ddl, "type": word, "sql": sql} | nothing, offset)


REMOVING = {
    "TRUNCATE TABLE t": ["d.t (truncate table, topic/0/7)"],
    "TRUNCATE t": ["d.t (truncate table, topic/0/7)"],
    "DROP TABLE t, x.u": ["d.t (drop table, topic/0/7)", "x.u (drop table, topic/0/7)"],
    "DROP DATABASE x": ["x (drop database, topic/0/7)"],
    "ALTER TABLE t DROP PARTITION p0, p1": ["d.t (drop partition, topic/0/7)"],
    "ALTER TABLE t TRUNCATE PARTITION p0": ["d.t (truncate partition, topic/0/7)"],
    "ALTER TABLE t ADD z INT; DROP TABLE t": ["d.t (drop table, topic/0/7)"],
    "CREATE TABLE u (a INT); DROP TABLE t": ["d.t (drop table, topic/0/7)"],
    "TRUNCATE t; DROP TABLE x.u": ["d.t (truncate table, topic/0/7)", "x.u (drop table, topic/0/7)"],
    "DROP DATABASE x; ALTER TABLE t ADD z INT": ["x (drop database, topic/0/7)"],
}


@pytest.mark.parametrize("sql", REMOVING)
@pytest.mark.parametrize("target", [("flat-json", {}), ("canal-json", {"ddl": "drop"}), ("ticdc-avro", {})])
def test_statements_that_remove_rows_are_counted_by_themselves(
    sql: str, target: tuple[str, dict[str, str]]
) -> None:
    translator = Translator(CANAL, target[0], None, target[1])
    one = statement(sql, 7)
    assert translator.translate(one) == []
    assert translator.losses[Loss.TRUNCATE_OR_DROP] == 1
    assert translator.losses[Loss.DDL] == 0
    topic = one.topic
    assert [str(each) for each in translator.unwritten_statements] == [
        each.replace("topic/", f"{topic}/") for each in REMOVING[sql]
    ]


def test_statements_that_remove_no_rows_are_counted_as_ddl_and_not_listed() -> None:
    translator = Translator(CANAL, "flat-json")
    for offset, sql in enumerate(
        ("ALTER TABLE t ADD a INT", "CREATE TABLE t (a INT)", "RENAME TABLE t TO u")
    ):
        translator.translate(statement(sql, offset))
    assert (translator.losses[Loss.DDL], translator.unwritten_statements) == (3, [])


def test_a_truncate_that_is_written_is_not_listed() -> None:
    kept = Translator(CANAL, TICDC)
    assert kept.translate(statement("TRUNCATE TABLE t"))
    assert kept.unwritten_statements == []


def test_a_statement_with_a_copy_in_each_partition_is_listed_and_counted_once() -> None:
    translator = Translator("ticdc-open-protocol", "flat-json")
    records = list(captured("ticdc/open-protocol.3-partitions/10_ddl"))
    for each in records:
        translator.translate(each)
    listed = translator.unwritten_statements
    assert len(listed) == translator.losses[Loss.TRUNCATE_OR_DROP] == 10
    assert {each.position.rpartition("/")[0] for each in listed} == {"ticdc-10_ddl/0"}
    for each in records:  # delivered once more
        translator.translate(each)
    assert translator.unwritten_statements == listed


def test_many_statements_are_counted_beyond_those_that_are_listed() -> None:
    translator = Translator(CANAL, "flat-json")
    for offset in range(MAX_UNWRITTEN + 5):
        translator.translate(statement(f"TRUNCATE TABLE t{offset}", offset))
    assert len(translator.unwritten_statements) == MAX_UNWRITTEN
    assert len(translator.unwritten_after(MAX_UNWRITTEN - 1)) == 1
    assert translator.losses[Loss.TRUNCATE_OR_DROP] == MAX_UNWRITTEN + 5


def test_strict_refuses_them_unless_ddl_is_left_out_on_request() -> None:
    with pytest.raises(NotRepresentable, match="truncate-or-drop"):
        Translator(CANAL, "flat-json", None, {"strict": "truncate-or-drop"}).translate(
            statement("TRUNCATE TABLE t")
        )
    options = {"strict": "truncate-or-drop", "ddl": "drop"}
    assert Translator(CANAL, CANAL, None, options).translate(statement("TRUNCATE TABLE t")) == []


def test_the_summary_names_table_and_position(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(statement("TRUNCATE TABLE t").value or b"")
    result = CliRunner().invoke(app, ["translate", "--from", CANAL, "--to", "flat-json", str(path)])
    assert "lost     truncate-or-drop 1" in result.stderr
    assert "  Warning: TRUNCATE and DROP were not written" in result.stderr
    assert "    d.t (truncate table, stdin/0/0)" in result.stderr


ADMINISTRATION = ("GRANT ALL ON d.t TO u", "CREATE USER u", "ALTER USER u ACCOUNT LOCK", "DROP ROLE r", "REVOKE ALL ON t FROM u",
                  "SET PASSWORD FOR u = 'x'", "FLUSH PRIVILEGES", "XA COMMIT 'x'")  # fmt: skip


@pytest.mark.parametrize("sql", ADMINISTRATION)
@pytest.mark.parametrize("is_ddl", [True, False])
@pytest.mark.parametrize(
    "target", sorted(WRITABLE - {"ticdc-simple-avro", "debezium-avro", "ticdc-debezium-avro"})
)
def test_statements_about_no_table_never_stop_a_strict_route(sql: str, target: str, *, is_ddl: bool) -> None:
    accepted = "-commit-ts-synthetic,-binlog-position-synthetic,-watermark,-gtid,-event-time-precision"
    translator = Translator(CANAL, target, None, {"strict": f"all,{accepted}"})
    out = translator.translate(statement(sql, 1, is_ddl=is_ddl))
    assert bool(out) != bool(translator.losses[Loss.ADMIN_STATEMENT])
    assert not translator.losses[Loss.STATEMENT]
    assert not translator.unwritten_statements


def test_other_texts_without_rows_are_still_a_loss() -> None:
    message = json.loads(statement("UPDATE t SET a = 1", is_ddl=False).value or b"")
    with pytest.raises(NotRepresentable, match="statement"):
        Translator(CANAL, CANAL, None, {"strict": "true"}).translate(record(message))


def test_ddl_that_is_not_called_so_and_not_understood_leaves_no_stale_definition() -> None:
    translator = Translator(CANAL, CANAL)
    translator.translate(statement("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'))"))
    translator.translate(statement("ALTER TABLE t MODIFY e ENUM('b','a') SOMETHING (x)", 1, is_ddl=False))
    assert translator.losses[Loss.DDL_NOT_UNDERSTOOD] == 1
    translator.translate(
        record(row_message({"id": "int", "e": "enum"}, {"id": "1", "e": "1"}, pkNames=["id"]), 2)
    )
    assert translator.losses[Loss.SCHEMA_INFERRED] == 1
