"""Tables of which rows are translated before any DDL of them is known are named, each with its rows."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from reference_engine import Interpreter
from support import CANAL, TICDC, record, row_message, translated_records
from typer.testing import CliRunner

from relay import ConsumerRecord, Translator
from relay.catalog import HISTORY_LIMIT, Unknown
from relay.cli.commands import app
from relay.core.counts import MAX_INFERRED_TABLES
from relay.model.events import TableId

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"


def row(table: str = "t", offset: int = 0) -> ConsumerRecord:
    return record(row_message({"id": "int"}, {"id": "1"}, pkNames=["id"], table=table), offset)


def create(offset: int = 0) -> ConsumerRecord:
    ddl = {"isDdl": True, "type": "CREATE", "sql": CREATE, "data": None, "mysqlType": None, "sqlType": None}
    return record(row_message({}) | ddl, offset)


def ckafka_row(offset: int = 0) -> ConsumerRecord:
    message = {
        "DATABASE": "d",
        "TABLE": "t",
        "TYPE": "I",
        "NEW_VALUES": {"id": "1"},
        "TIME": "20240101000000",
    }
    return record(json.dumps(message), offset)


@pytest.mark.parametrize(
    ("source", "rows"),
    [(TICDC, [row(), row(offset=1)]), (CANAL, [row(), row(offset=1)]), ("ckafka-json", [ckafka_row()])],
)
def test_rows_before_their_ddl(source: str, rows: list[ConsumerRecord]) -> None:
    translator = Translator(source, CANAL)
    assert translator.inferred_tables == {}
    translated_records(
        translator, [*rows, create(offset=5), row("t", 6) if source != "ckafka-json" else ckafka_row(6)]
    )
    assert translator.inferred_tables == {TableId("d", "t"): len(rows)}


def test_those_that_came_since_a_number_of_them() -> None:
    """Also of rows that fit templates, which are counted later."""
    translator, names = Translator(TICDC, CANAL, engine=Interpreter), ["b", "a", "c"]
    assert translator.inferred_after(0) == []
    for at, name in enumerate(names):
        compact = msgspec.json.encode(json.loads(row(name).value or b""))
        translated_records(translator, [record(compact, offset) for offset in range(4)])
        assert translator.inferred_after(at) == [TableId("d", name)]
        assert translator.inferred_after(at + 1) == []
    assert translator.inferred_after(0) == [TableId("d", name) for name in names]
    assert translator.inferred_tables == dict.fromkeys(translator.inferred_after(0), 4)
    assert translator.paths["fast"]


def test_rows_behind_their_ddl_are_not_named() -> None:
    translator = Translator(TICDC, CANAL)
    translated_records(translator, [create(), row(offset=1)])
    assert translator.inferred_tables == {}


def test_a_refused_record_and_an_inspected_one_are_not_counted() -> None:
    translator = Translator(TICDC, CANAL, None, {"strict": "true"})
    typed = record(row_message({"v": "decimal"}, {"v": "1"}, pkNames=["v"]))
    with pytest.raises(Exception, match="type-parameters"):
        translator.translate(typed)
    translator.inspect(row())
    assert translator.inferred_tables == {}


def test_no_more_than_some_are_named() -> None:
    translator = Translator(TICDC, CANAL)
    translated_records(translator, [row(f"t{number}", number) for number in range(MAX_INFERRED_TABLES + 5)])
    assert len(translator.inferred_tables) == MAX_INFERRED_TABLES
    translator.translate(row("t0", 10_000))
    translator.translate(row(f"t{MAX_INFERRED_TABLES + 1}", 10_001))
    assert translator.inferred_tables[TableId("d", "t0")] == 2
    assert len(translator.inferred_tables) == MAX_INFERRED_TABLES


@pytest.mark.parametrize(
    ("target", "inferred", "known"), [("flat-json", "2", "b"), ("debezium-json", "2", "b")]
)
def test_a_key_changes_with_its_ddl_unless_that_was_learned_before(
    target: str, inferred: str, known: str
) -> None:
    create = record(
        row_message({}) | {"isDdl": True, "type": "CREATE", "sql": "CREATE TABLE t (e ENUM('a','b') PRIMARY KEY)",
                           "data": None, "mysqlType": None, "sqlType": None}
    )  # fmt: skip
    one = record(row_message({"e": "enum"}, {"e": "2"}, pkNames=["e"]), 1)
    options = {"schemas.enable": "false"} if target == "debezium-json" else {}
    route: tuple[str, str, dict[str, str], dict[str, str]] = (TICDC, target, {}, options)

    def keys(translator: Translator, *records: ConsumerRecord) -> list[str]:
        found = translated_records(translator, list(records))
        return [json.loads(each.key or b"")["e"] for each in found if b'"e"' in (each.key or b"")]

    assert keys(
        Translator(*route),
        one,
        msgspec.structs.replace(create, offset=2),
        msgspec.structs.replace(one, offset=3),
    ) == [inferred, known]
    # What `relay schema-history import` does before the first row.
    imported = Translator(*route)
    imported.learn(create)
    assert keys(imported, one) == [known]


def test_the_summary_says_what_may_become_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(json.dumps(row_message({"id": "int"}, {"id": "1"}, pkNames=["id"])) + "\n")
    for target, is_keyed in ((CANAL, False), ("flat-json", True)):
        said = CliRunner().invoke(app, ["translate", "--from", TICDC, "--to", target, str(path)]).stderr
        assert "types inferred from the messages" in said
        assert ("keys of their rows" in said) == is_keyed


def statement(sql: str, offset: int, database: str = "d") -> ConsumerRecord:
    nothing = {"data": None, "mysqlType": None, "sqlType": None, "table": "T" if "TABLE T" in sql else "t"}
    message = row_message({}) | {"isDdl": True, "type": "QUERY", "sql": sql, "database": database} | nothing
    return record(message, offset)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ([], Unknown.NO_DDL),
        (["CREATE TABLE x (id INT)", "ALTER TABLE t ADD id INT"], Unknown.NO_DDL),
        (["CREATE TABLE t (id INT)", "ALTER TABLE t ADD"], Unknown.NOT_UNDERSTOOD),
        (["CREATE TABLE t (id INT) oops(", "ALTER TABLE t ADD a INT"], Unknown.NOT_UNDERSTOOD),
        (["CREATE TABLE t AS SELECT 1 AS id"], Unknown.QUERY),
        (
            ["CREATE TABLE t (id INT)", "ALTER TABLE t DROP a", "ALTER TABLE t ADD a INT"],
            Unknown.DOES_NOT_FIT,
        ),
        (["CREATE TABLE t (id INT, id INT)"], Unknown.DOES_NOT_FIT),
        (["RENAME TABLE x TO t"], Unknown.COPIED),
        (["CREATE TABLE t (id INT)", "DROP TABLE t"], Unknown.DROPPED),
        (["CREATE TABLE T (id INT)"], Unknown.OTHER_NAME),
        (["CREATE TABLE t (id INT)", "DROP TABLE T"], Unknown.AMBIGUOUS),
        (["CREATE TABLE t (id INT, a INT)"], Unknown.CONTRADICTED),
    ],
)
def test_the_reason_for_inferred_types_is_named(
    statements: list[str], reason: Unknown, tmp_path: Path
) -> None:
    if reason is Unknown.CONTRADICTED:
        last = record(row_message({"id": "int", "z": "int"}, {"id": "1", "z": "2"}), len(statements))
    else:
        last = row("t", len(statements))
    records = [statement(sql, offset) for offset, sql in enumerate(statements)]
    translator = Translator(CANAL, TICDC)
    translated_records(translator, [*records, last])
    assert {table.table: translator.why_unknown(table) for table in translator.inferred_tables} == {
        "t": reason
    }
    path = tmp_path / "records"
    path.write_bytes(b"\n".join([each.value or b"" for each in (*records, last)]))
    said = CliRunner().invoke(app, ["translate", "--from", CANAL, "--to", TICDC, str(path)]).stderr
    assert f"    d.t 1: {reason}\n" in said


@pytest.mark.one_case
@pytest.mark.parametrize("columns", [1, 1000])
def test_more_statements_ahead_than_are_kept_are_the_reason(columns: int) -> None:
    """Of a wide table fewer are kept."""
    made = ", ".join(f"c{number} INT" for number in range(columns))
    translator, count = Translator(TICDC, CANAL), HISTORY_LIMIT + 5 if columns == 1 else 70
    translator.learn(at_ts(statement(f"CREATE TABLE t (id INT PRIMARY KEY, {made})", 0), 1))
    for number in range(count):
        names = ", ".join(f"MODIFY c{each} BIGINT" for each in range(columns))
        translator.learn(at_ts(statement(f"ALTER TABLE t {names}", number + 1), number + 100))
    translator.translate(at_ts(row("t", 10_000), 50))
    assert translator.why_unknown(TableId("d", "t")) == Unknown.TOO_MANY
    translator.translate(at_ts(row("t", 10_001), 100_000))
    assert translator.inferred_tables == {TableId("d", "t"): 1}


def at_ts(given: ConsumerRecord, commit_ts: int) -> ConsumerRecord:
    message = json.loads(given.value or b"") | {"_tidb": {"commitTs": commit_ts << 18}}
    return msgspec.structs.replace(given, value=json.dumps(message).encode())
