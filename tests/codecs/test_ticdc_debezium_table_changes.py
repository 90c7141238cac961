"""`tableChanges` of TiCDC Debezium, read: definitions that a message itself tells, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, ddl, message, record, row
from support import CANAL, DATA, OPEN, TICDC, captured

from relay import Loss, Malformed, NotRepresentable, SchemaChange, Translator
from relay.model.events import TableId, TableSchema

LATER = 463586886942720001


def column(name: str, type_name: str, position: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "jdbcType": 12, "nativeType": None, "comment": None, "defaultValueExpression": None, "enumValues": None,
        "typeName": type_name, "typeExpression": type_name, "charsetName": None, "length": None, "scale": None, "position": position,
        "optional": True, "autoIncremented": False, "generated": False,
    } | more  # fmt: skip


COLUMNS: list[dict[str, Any]] = [
    column("id", "BIGINT UNSIGNED", 1, optional=False, autoIncremented=True, generated=True),
    column("at", "DATETIME", 2, length=3),
    column("raw", "VARBINARY", 3, length=16),
    column("e", "ENUM", 4, length=1, enumValues=["'a'", "'it's'"], charsetName="gbk", defaultValueExpression="a"),
    column("s", "SET", 5, length=3, enumValues=["'x'", "'y'"], charsetName="latin1"),
    column("b", "BIT", 6, length=10, defaultValueExpression="101"),
    column("d", "DECIMAL", 7, length=12, scale=2, comment="price"),
    column("v", "VARCHAR", 8, charsetName="latin1"),
    column("ts", "TIMESTAMP", 9, length=6, defaultValueExpression="1970-01-01 00:00:00", autoIncremented=True, generated=True),
]  # fmt: skip
TABLE: dict[str, Any] = {
    "defaultCharsetName": "utf8mb4",
    "primaryKeyColumnNames": ["id"],
    "columns": COLUMNS,
    "comment": None,
}
ID = '"shop"."t"'


def statement(
    text: str, *changes: dict[str, Any], table: str = "t", commit_ts: int = 1, kind: str = "ALTER"
) -> dict[str, Any]:
    """A DDL message; without `changes` it tells `TABLE`."""
    found = ddl(text, table, commit_ts)
    found["payload"]["tableChanges"] = list(changes) or [{"type": kind, "id": ID, "table": TABLE}]
    return found


ALTER = "ALTER TABLE `t` ADD INDEX `k` (`at`)"
VALUES = {
    "id": -1, "at": 1768443630123, "raw": "AAH/", "e": "it's", "s": "x,y", "b": "AwI=", "d": 1.5, "v": "x",
    "ts": "2026-01-15T02:20:30.000001Z",
}  # fmt: skip
ROW = (
    (1 << 64) - 1,
    "2026-01-15 02:20:30.123",
    b"\x00\x01\xff",
    2,
    3,
    515,
    "1.50",
    "x",
    "2026-01-15 02:20:30.000001",
)


def learned(*messages: dict[str, Any]) -> Translator:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    for at, one in enumerate(messages):
        translator.translate(record(one, offset=at))
    return translator


def definition(translator: Translator, table: str = "t") -> TableSchema | None:
    return translator.catalog.newest(TableId("shop", table))[1]


def changes_of(out: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out.value)["payload"]["tableChanges"]
    return found


@pytest.mark.parametrize(
    ("text", "kind"), [(ALTER, "ALTER"), ("CREATE TABLE `t` LIKE `x`", "CREATE"), ("not SQL", "ALTER")]
)
def test_a_row_without_schema_is_exact_after_a_statement_that_tells_its_table(text: str, kind: str) -> None:
    translator = learned(statement(text, kind=kind))
    (event,) = translator.inspect(record(message(after=VALUES), {"payload": {"id": -1}}, 1))
    change = row(event)
    cells = zip(VALUES, change.after or (), strict=True)
    assert tuple(str(cell) if name == "d" else cell for name, cell in cells) == ROW
    assert not translator.losses[Loss.SCHEMA_INFERRED]
    assert change.schema.primary_key == ("id",)


def test_the_row_in_other_formats() -> None:
    canal = Translator(DEBEZIUM, CANAL)
    opened = Translator(DEBEZIUM, OPEN)
    for translator in (canal, opened):
        translator.translate(record(statement(ALTER)))
    (out,) = canal.translate(record(message(after=VALUES), offset=1))
    value = json.loads(out.value or b"")
    assert value["data"][0] | {"raw": None} == {
        "id": str(ROW[0]), "at": ROW[1], "raw": None, "e": "2", "s": "3", "b": "515", "d": "1.50", "v": "x",
        "ts": ROW[8],
    }  # fmt: skip
    assert value["data"][0]["raw"] == "\x00\x01\xff"
    assert value["mysqlType"] == {
        "id": "bigint unsigned", "at": "datetime(3)", "raw": "varbinary(16)", "e": "enum('a','it''s')", "s": "set('x','y')",
        "b": "bit(10)", "d": "decimal(12,2)", "v": "varchar(5)", "ts": "timestamp(6)",
    }  # fmt: skip
    assert opened.translate(record(message(after=VALUES), offset=1))
    assert not canal.losses[Loss.SCHEMA_INFERRED]
    assert not opened.losses[Loss.SCHEMA_INFERRED]


@pytest.mark.parametrize("text", [ALTER, "CREATE TABLE `t` LIKE `x`", "not SQL", "TRUNCATE TABLE `t`"])
@pytest.mark.parametrize("options", [NO_SCHEMA, {}])
def test_declared_changes_are_carried_over(text: str, options: dict[str, str]) -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM, None, options)
    (out,) = translator.translate(record(statement(text)))
    assert changes_of(out) == [{"type": "ALTER", "id": ID, "table": TABLE}]
    assert set(translator.losses) <= {Loss.DDL_NOT_UNDERSTOOD}


@pytest.mark.parametrize(
    "file", sorted(path.stem for path in (DATA / "ticdc/debezium").glob("*.jsonl")), ids=str
)
def test_what_ticdc_tells_is_carried_over_by_a_relay_that_knows_no_table(file: str) -> None:
    for one in captured(f"ticdc/debezium/{file}"):
        given = json.loads(one.value or b"")["payload"]
        if "ddl" in given:
            translator = Translator(DEBEZIUM, DEBEZIUM, None, {"strict": "true"})
            (out,) = translator.translate(one)
            assert changes_of(out) == given["tableChanges"]


def test_charsets_of_enum_and_set_are_kept_for_later_statements() -> None:
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` ENUM('a','b'),`s` SET('x'),`w` ENUM('q'))"
    columns = [
        column("id", "INT", 1, optional=False),
        column("e", "ENUM", 2, length=1, enumValues=["'a'", "'b'"], charsetName="gbk"),
        column("s", "SET", 3, length=1, enumValues=["'x'"], charsetName="latin1"),
        column("w", "ENUM", 4, length=1, enumValues=["'q'"], charsetName="utf8mb4"),
    ]
    translator = learned(
        statement(create, {"type": "CREATE", "id": ID, "table": TABLE | {"columns": columns}})
    )
    (out,) = translator.translate(record(ddl("ALTER TABLE `t` DROP COLUMN `w`", commit_ts=2), offset=1))
    shown = {each["name"]: each["charsetName"] for each in changes_of(out)[0]["table"]["columns"]}
    assert shown == {"id": None, "e": "gbk", "s": "latin1"}


def test_declared_changes_precede_the_text_and_the_text_adds_the_rest() -> None:
    """The keys beside the primary one, ON UPDATE, generated columns and the sign of DECIMAL are in the text."""
    create = (
        "CREATE TABLE `t` (`id` INT PRIMARY KEY,`at` DATETIME(3) ON UPDATE CURRENT_TIMESTAMP(3),`u` INT NOT NULL,"
        "`g` INT GENERATED ALWAYS AS (`u` + 1) VIRTUAL,`d` DECIMAL(8,2) UNSIGNED COLLATE utf8mb4_bin,UNIQUE KEY `k`(`u`))"
    )
    columns = [
        column("id", "BIGINT", 1, optional=False),
        column("at", "DATETIME", 2, length=6),
        column("u", "INT", 3, optional=False, defaultValueExpression="7"),
        column("g", "BIGINT", 4),
        column("d", "DECIMAL", 5, length=9, scale=3),
    ]
    found = definition(
        learned(statement(create, {"type": "CREATE", "id": ID, "table": TABLE | {"columns": columns}}))
    )
    assert found is not None
    by_text = definition(learned(ddl(create)))
    assert by_text is not None
    at, _, g, d = found.columns[1:]
    assert [(one.type.base, one.type.length, one.type.scale) for one in found.columns] == [
        ("bigint", None, None), ("datetime", 6, None), ("int", None, None), ("bigint", None, None), ("decimal", 9, 3),
    ]  # fmt: skip
    assert (at.on_update, g.generated, d.type.unsigned) == (
        by_text.columns[1].on_update,
        by_text.columns[3].generated,
        True,
    )
    assert (found.unique_keys, found.primary_key) == (by_text.unique_keys, ("id",))


def test_a_definition_that_says_what_the_text_says_changes_nothing() -> None:
    for one in captured("ticdc/debezium/05_charsets"):
        given = json.loads(one.value or b"")["payload"]
        if given.get("ddl", "").startswith("CREATE TABLE"):
            without = json.loads(one.value or b"")
            for change in without["payload"]["tableChanges"]:
                change["table"] = None
            table = given["source"]["table"]
            names = []
            for value in (given, without):
                translator = Translator(DEBEZIUM, DEBEZIUM)
                translator.inspect(record(value))
                found = translator.catalog.newest(TableId("charset_db", table))[1]
                assert found is not None
                names.append([(each.name, each.type.base, each.type.length) for each in found.columns])
            assert names[0] == names[1]


@pytest.mark.parametrize(
    ("id_", "table"),
    [(ID, "t"), ('"shop"."old","shop"."t"', "t"), ('"shop"."q""t"', 'q"t'), ('"shop"."q"t"', 'q"t')],
)
def test_the_id_names_the_table_of_a_statement_that_is_not_understood(id_: str, table: str) -> None:
    translator = learned(statement("FROB t", {"type": "ALTER", "id": id_, "table": TABLE}, table=table))
    assert definition(translator, table) is not None


def test_several_tables_are_learned_and_carried_over() -> None:
    changes = [{"type": "ALTER", "id": f'"shop"."{name}"', "table": TABLE} for name in ("t", "u")]
    translator = Translator(DEBEZIUM, DEBEZIUM)
    (out,) = translator.translate(record(statement(ALTER, *changes)))
    assert changes_of(out) == changes
    assert definition(translator)
    assert definition(translator, "u")


def test_a_table_declared_as_dropped_is_unknown() -> None:
    """A DROP without a table is one only where the text is not understood: DROP INDEX has the same word."""
    drop = {"type": "DROP", "id": ID, "table": None}
    assert definition(learned(statement(ALTER), statement("FROB t", drop, commit_ts=2))) is None
    assert (
        definition(learned(statement(ALTER), statement("DROP INDEX `k` ON `t`", drop, commit_ts=2)))
        is not None
    )
    assert (
        definition(learned(statement("DROP TABLE `t`", {"type": "DROP", "id": ID, "table": TABLE}))) is None
    )


def test_a_statement_of_every_partition_is_learned_once() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    for at in range(3):
        translator.translate(record(statement("not SQL"), offset=at))
    assert translator.catalog.versions == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "ID"}, ".name"),
    ({"name": ""}, ".name"),
    ({"typeName": ""}, ".typeName"),
    ({"typeName": "("}, ""),
    ({"length": -1}, ".length"),
    ({"length": "3"}, ".length"),
    ({"length": 1 << 40}, ".length"),
    ({"length": 7}, ""),
    ({"typeName": "BIT", "length": 65}, ""),
    ({"typeName": "DECIMAL", "length": 70, "scale": 40}, ""),
    ({"typeName": "SET", "enumValues": [f"'{at}'" for at in range(65)]}, ""),
    ({"enumValues": "a"}, ".enumValues"),
    ({"optional": 1}, ".optional"),
    ({"defaultValueExpression": [1]}, ".defaultValueExpression"),
]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, ""),
        (["x"], "[0]"),
        ([{"id": ID}], "[0]"),
        ([{"type": "MOVE", "id": ID}], "[0].type"),
        ([{"type": "ALTER", "id": 5}], "[0].id"),
        ([{"type": "ALTER", "id": ID, "table": []}], "[0].table"),
        ([{"type": "ALTER", "id": ID, "table": {"columns": {}}}], "[0].table.columns"),
        ([{"type": "ALTER", "id": ID, "table": {"columns": [5]}}], "[0].table.columns[0]"),
        ([{"type": "ALTER", "id": ID, "table": {"columns": [{"name": "a"}]}}], "[0].table.columns[0]"),
        ([{"type": "ALTER", "id": ID, "table": TABLE | {"primaryKeyColumnNames": ["x"]}}], "[0].table.primaryKeyColumnNames"),
        *(
            ([{"type": "ALTER", "id": ID, "table": TABLE | {"columns": [COLUMNS[0], COLUMNS[1] | wrong]}}], f"[0].table.columns[1]{member}")
            for wrong, member in WRONG
        ),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_with_its_path(changes: Any, path: str) -> None:
    value = ddl("not SQL")
    value["payload"]["tableChanges"] = changes
    translator = learned()
    with pytest.raises(Malformed) as caught:
        translator.translate(record(value))
    assert caught.value.path == "payload.tableChanges" + path
    assert translator.catalog.versions == 0


@pytest.mark.parametrize("name", ["t", '"d".a"', ""])
def test_an_id_that_is_not_understood_is_that_of_the_message(name: str) -> None:
    value = ddl("ALTER TABLE `t` COMMENT 'x'")
    value["payload"]["tableChanges"] = [{"type": "ALTER", "id": name, "table": TABLE}]
    translator = learned()
    (event,) = translator.inspect(record(value))
    assert isinstance(event, SchemaChange)
    assert [change.table for change in event.table_changes] == [event.table]
    assert translator.losses[Loss.DDL_NOT_UNDERSTOOD] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"type": "ALTER", "id": ID, "table": TABLE, "new": 1},
        {"type": "ALTER", "id": ID, "table": TABLE | {"attributes": []}},
        {"type": "ALTER", "id": ID, "table": TABLE | {"columns": [COLUMNS[0] | {"invisible": True}]}},
    ],
)
@pytest.mark.parametrize("target", [DEBEZIUM, TICDC, OPEN])
def test_members_that_are_not_known_are_counted(change: dict[str, Any], target: str) -> None:
    translator = Translator(DEBEZIUM, target)
    translator.translate(record(statement(ALTER, change)))
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 1
    with pytest.raises(NotRepresentable, match="unknown-fields"):
        Translator(DEBEZIUM, target, None, {"strict": "true"}).translate(record(statement(ALTER, change)))


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        ({"typeName": "INT", "length": 0}, "int"),
        ({"typeName": "CHAR"}, "char(1)"),
        ({"typeName": "CHAR", "length": 0}, "char(0)"),
        ({"typeName": "VARCHAR", "typeExpression": "VARCHAR(32)"}, "varchar(32)"),
        ({"typeName": "BIT"}, "bit(1)"),
        ({"typeName": "TINYINT", "length": 1}, "tinyint(1)"),
        ({"typeName": "INT UNSIGNED ZEROFILL", "length": 8}, "int(8) unsigned zerofill"),
        ({"typeName": "DOUBLE", "typeExpression": "DOUBLE(22,4)", "scale": 4}, "double(22,4)"),
        ({"typeName": "FLOAT", "scale": 2.0}, "float(12,2)"),
        ({"typeName": "FLOAT", "length": 12}, "float"),
        ({"typeName": "TIME"}, "time"),
        ({"typeName": "TIME", "length": 0}, "time"),
        ({"typeName": "VECTOR", "typeExpression": "VECTOR(3)", "length": 3}, "vector(3)"),
        ({"typeName": "ENUM", "typeExpression": "ENUM('a','b')"}, "enum('a','b')"),
        ({"typeName": "LONGBLOB"}, "longblob"),
        ({"typeName": "NEW_TYPE"}, "new_type"),
    ],
)
def test_types_are_read_with_their_parameters(wire: dict[str, Any], read: str) -> None:
    columns = [COLUMNS[0], column("c", "", 2) | wire]
    translator = Translator(DEBEZIUM, CANAL)
    translator.translate(
        record(statement(ALTER, {"type": "ALTER", "id": ID, "table": TABLE | {"columns": columns}}))
    )
    (out,) = translator.translate(record(message(after={"id": 1, "c": None}), offset=1))
    assert json.loads(out.value or b"")["mysqlType"]["c"] == read


def test_columns_stand_where_their_positions_say() -> None:
    columns = [COLUMNS[1] | {"position": 2}, COLUMNS[0] | {"position": 1}]
    found = definition(
        learned(statement(ALTER, {"type": "ALTER", "id": ID, "table": TABLE | {"columns": columns}}))
    )
    assert found
    assert [each.name for each in found.columns] == ["id", "at"]


def test_a_dropped_view_of_which_relay_saw_nothing_is_shown_as_it_came() -> None:
    view = {
        "type": "DROP",
        "id": '"shop"."v"',
        "table": TABLE | {"primaryKeyColumnNames": [], "columns": [column("a", "UNSPECIFIED", 1)]},
    }
    translator = Translator(DEBEZIUM, DEBEZIUM)
    (out,) = translator.translate(record(statement("DROP VIEW `shop`.`v`", view, table="v")))
    assert changes_of(out) == [view]
    assert definition(translator, "v") is None


# ---------------------------------------------------------------- renames


def renamed(source: str, *messages: Any) -> tuple[list[list[dict[str, Any]]], Translator]:
    translator = Translator(source, DEBEZIUM)
    outs = [out for at, one in enumerate(messages) for out in translator.translate(record(one, offset=at))]
    return [changes_of(out) for out in outs], translator


def canal_ddl(sql: str, table: str) -> dict[str, Any]:
    return {"database": "shop", "table": table, "isDdl": True, "type": "QUERY", "sql": sql, "es": 1, "ts": 1}


def test_each_message_of_a_rename_of_several_tables_has_its_table() -> None:
    creates = [canal_ddl(f"CREATE TABLE {name} (of_{name} INT)", name) for name in "ab"]
    found, translator = renamed(CANAL, *creates, canal_ddl("RENAME TABLE a TO x, b TO a", "x"))
    assert [
        (change["id"], [each["name"] for each in change["table"]["columns"]]) for (change,) in found[2:]
    ] == [
        ('"shop"."a","shop"."x"', ["of_a"]),
        ('"shop"."b","shop"."a"', ["of_b"]),
    ]
    assert not translator.losses[Loss.TABLE_DEFINITION]


def test_type_and_names_need_no_definition() -> None:
    found, translator = renamed(CANAL, canal_ddl("RENAME TABLE a TO x, b TO a", "x"))
    assert found == [
        [{"type": "ALTER", "id": '"shop"."a","shop"."x"', "table": None}],
        [{"type": "ALTER", "id": '"shop"."b","shop"."a"', "table": None}],
    ]
    assert translator.losses[Loss.TABLE_DEFINITION] == 2


def test_what_relay_writes_of_an_unknown_table_it_reads() -> None:
    (changes,), _ = renamed(CANAL, canal_ddl("ALTER TABLE a ADD COLUMN c INT", "a"))
    translator = Translator(DEBEZIUM, DEBEZIUM)
    (event,) = translator.inspect(record(statement("ALTER TABLE a ADD COLUMN c INT", *changes, table="a")))
    assert isinstance(event, SchemaChange)
    assert (event.after, event.table_changes[0].definition) == (None, None)
    assert definition(translator, "a") is None


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE auto_ts DROP COLUMN a, RENAME x.y, DROP COLUMN a",
        "RENAME TABLE a TO x.y",
        "RENAME TABLE a TO x.y, b TO z",
        "RENAME TABLE x.y TO a",
        'RENAME TABLE `a"b` TO x.`c"d`',
        "CREATE TABLE a (id INT)",
        'CREATE TABLE `a"b` (id INT)',
        "ALTER TABLE a ADD COLUMN c INT",
    ],
)
def test_what_relay_writes_of_a_statement_without_a_database_it_reads(text: str) -> None:
    given = canal_ddl(text, "a") | {"database": ""}
    outs = Translator(CANAL, DEBEZIUM).translate(record(given))
    reader, again = Translator(DEBEZIUM, DEBEZIUM), Translator(DEBEZIUM, CANAL)
    for at, out in enumerate(outs):
        (event,) = reader.inspect(record(out.value, offset=at))
        assert isinstance(event, SchemaChange)
        assert not any(
            "``" in json.loads(one.value or b"")["sql"] for one in again.translate(record(out.value))
        )


@pytest.mark.parametrize(
    "word", ["CREATE VIEW v AS SELECT 'secret'" + " x" * 5000, "a - at `$[0].type`", "", 'x"\n']
)
def test_a_word_that_is_not_one_of_those_allowed_is_not_quoted(word: str) -> None:
    with pytest.raises(Malformed) as caught:
        learned().translate(record(statement(ALTER, {"type": word, "id": ID, "table": None})))
    assert caught.value.path == "payload.tableChanges[0].type"
    assert caught.value.reason == "Invalid enum value, none of those allowed"
