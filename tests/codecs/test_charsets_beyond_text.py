"""Charsets and collations that a message tells of columns, and the text of its statement does not."""

from __future__ import annotations

from typing import Any

import pytest
from debezium_support import DEBEZIUM, record
from debezium_support import ddl as debezium_ddl
from simple_support import DDL_TS, ROW_TS, SIMPLE, column, ddl, records, table
from support import CANAL, OPEN, TICDC

from relay import Loss, NotRepresentable, Translator

TEXT = "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY, `e` ENUM('a','b'), `v` VARCHAR(11), `r` BLOB)"
GENERAL, LATIN = ("utf8mb4", "utf8mb4_general_ci"), ("latin1", "latin1_bin")


def definition(charset: str, collation: str, **more: Any) -> dict[str, Any]:
    charsets: dict[str, Any] = {"charset": charset, "collate": collation}
    return table(
        column("e", "enum", elements=["a", "b"], **charsets), column("v", "varchar", **charsets), **more
    )


def counted(target: str, *messages: dict[str, Any], **options: str) -> int:
    translator = Translator(SIMPLE, target, None, options)
    for each in records(*messages):
        translator.translate(each)
    return translator.losses[Loss.TYPE_PARAMETERS]


@pytest.mark.parametrize("target", [TICDC, OPEN, CANAL, "canal-protobuf", "ckafka-json"])
@pytest.mark.parametrize("declared", [GENERAL, LATIN])
def test_a_text_without_them_loses_charset_and_collation_of_its_columns(
    target: str, declared: tuple[str, str]
) -> None:
    statement = ddl("CREATE", TEXT, definition(*declared))
    assert counted(target, statement) == 1
    with pytest.raises(NotRepresentable, match="type-parameters"):
        counted(target, statement, strict="type-parameters")


@pytest.mark.parametrize(
    ("declared", "lost"), [(GENERAL, 1), (LATIN, 0), (("latin1", "latin1_swedish_ci"), 1)]
)
@pytest.mark.parametrize("target", [DEBEZIUM, "debezium-json"])
def test_debezium_has_charsets_and_no_collations(target: str, declared: tuple[str, str], lost: int) -> None:
    assert counted(target, ddl("CREATE", TEXT, definition(*declared))) == lost


@pytest.mark.parametrize(("type_", "lost"), [("enum", 1), ("set", 1), ("varchar", 0), ("text", 0)])
def test_maxwell_has_charsets_of_text_and_none_of_enum_and_set(type_: str, lost: int) -> None:
    members: dict[str, Any] = {"elements": ["a", "b"]} if type_ in {"enum", "set"} else {}
    declaration = table(column("e", type_, charset="latin1", collate="latin1_bin", **members))
    declared = f"{type_.upper()}('a','b')" if members else "VARCHAR(11)" if type_ == "varchar" else "TEXT"
    statement = ddl("CREATE", f"CREATE TABLE `d`.`t` (`e` {declared})", declaration)
    assert counted("maxwell-json", statement, output_ddl="true") == lost


def test_simple_loses_neither_charset_nor_collation() -> None:
    assert counted("ticdc-simple-avro", ddl("CREATE", TEXT, definition(*GENERAL))) == 0


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (TEXT, ("utf8mb4", "utf8mb4_bin")),
        (f"{TEXT} COLLATE utf8mb4_general_ci", GENERAL),
        (f"{TEXT} CHARSET latin1", LATIN),
        (TEXT.replace("'b')", "'b') CHARSET latin1").replace("(11)", "(11) COLLATE latin1_bin"), LATIN),
        (f"{TEXT} CHARSET utf8mb3", ("utf8", "utf8_bin")),
    ],
)
def test_what_the_text_says_is_not_lost(text: str, declared: tuple[str, str]) -> None:
    assert counted(TICDC, ddl("CREATE", text, definition(*declared))) == 0


def test_what_the_database_gives_is_not_lost() -> None:
    database = ddl("QUERY", "CREATE DATABASE `d` COLLATE utf8mb4_general_ci", table(), at=DDL_TS)
    statement = ddl("CREATE", TEXT, definition(*GENERAL, version=ROW_TS), at=ROW_TS)
    assert counted(TICDC, database, statement) == 0


def test_a_later_statement_does_not_lose_them_again() -> None:
    first = ddl("CREATE", TEXT, definition(*GENERAL))
    later = ddl("ALTER", "ALTER TABLE `d`.`t` COMMENT 'x'", definition(*GENERAL, version=ROW_TS), at=ROW_TS)
    assert counted(OPEN, first, later) == 1


def test_a_message_of_ticdc_debezium_loses_charsets() -> None:
    found = debezium_ddl("CREATE TABLE t (e ENUM('a'))", "t", 1)
    enum = {
        "name": "e", "jdbcType": 12, "nativeType": None, "comment": None, "defaultValueExpression": None,
        "enumValues": ["'a'"], "typeName": "ENUM", "typeExpression": "ENUM", "charsetName": "gbk", "length": 1,
        "scale": None, "position": 1, "optional": True, "autoIncremented": False, "generated": False,
    }  # fmt: skip
    shown = {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": [], "columns": [enum], "comment": None}
    found["payload"]["tableChanges"] = [{"type": "CREATE", "id": '"shop"."t"', "table": shown}]
    for target, lost in ((TICDC, 1), (OPEN, 1), (DEBEZIUM, 0), (SIMPLE, 0)):
        translator = Translator(DEBEZIUM, target)
        translator.translate(record(found))
        assert translator.losses[Loss.TYPE_PARAMETERS] == lost
