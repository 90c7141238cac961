"""Debezium's own connectors: keys that are not those of their tables, values that the binlog lacks, ids in
`tableChanges`, and `null` as a value.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_json_support import DDL_TOPIC, DEBEZIUM, column, ddl, decoded, image, record, row, wrapped
from fake_registry import MemoryRegistry
from support import record as canal_record

from relay import ConsumerRecord, Loss, Resolver, RowChange, SchemaChange, Translator
from relay.model.events import ABSENT, TableId

ID, NAME = column("id", "int32", optional=False), column("name", "string")
ROUTED = "__dbz__physicalTableIdentifier"
KEYED = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"), topic=DDL_TOPIC)


def key_with(*columns: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A key with its schema block."""
    return {"schema": {"type": "struct", "fields": list(columns), "optional": False}, "payload": values}


def keys(*records: ConsumerRecord, target: str = "flat-json") -> tuple[list[Any], Translator]:
    """The keys that are written, as JSON, and the translator."""
    translator = Translator(
        DEBEZIUM, target, None, {"schemas.enable": "false"} if target == DEBEZIUM else None
    )
    made = [out for one in records for out in translator.translate(one)]
    return [None if out.key is None else json.loads(out.key) for out in made], translator


# ---------------------------------------------------------------- fields of keys that are no columns


@pytest.mark.parametrize("target", ["flat-json", DEBEZIUM])
@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", [ROUTED, "tenant"])
def test_a_field_that_a_router_adds_to_the_key_is_counted(
    name: str, is_known: bool, is_wrapped: bool, target: str
) -> None:
    values = {"id": 1, name: "dbz.shop.t"}
    key = key_with(ID, column(name, "string"), **values) if is_wrapped else values
    payload = row("u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"})
    message = wrapped(payload, ID, NAME) if is_wrapped else payload
    rows = [record(message, key, at) for at in range(40)]
    found, translator = keys(*([KEYED] if is_known else []), *rows, target=target)
    assert found[-40:] == [{"id": 1}] * 40
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 40
    assert translator.losses[Loss.SCHEMA_INFERRED] == (0 if is_known else 40)


def test_a_key_is_looked_at_in_every_row() -> None:
    """A router that is added later, or taken away: what was kept for other rows says nothing."""
    message = wrapped(row(after={"id": 1, "name": "a"}), ID, NAME)
    own, routed = key_with(ID, id=1), key_with(ID, column("x", "string"), id=1, x="y")
    plan = [own] * 40 + [routed] * 3 + [own] * 2 + [routed] * 40
    found, translator = keys(KEYED, *(record(message, key, at) for at, key in enumerate(plan)))
    assert found == [{"id": 1}] * len(plan)
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 43


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", [ROUTED, "tenant"])
def test_a_delete_without_its_row_has_no_column_that_a_router_has_added(name: str, is_known: bool) -> None:
    key = key_with(ID, column(name, "string"), **{"id": 7, name: "x"})
    message = record(wrapped(row("d"), ID, NAME), key, 1)
    events, counted = decoded(*([KEYED] if is_known else []), message)
    assert image(events[-1], is_old=True) == {"id": 7, "name": ABSENT}
    assert (counted["columns-absent"], counted["unknown-fields"]) == (1, 1)


def test_without_schemas_the_routers_own_field_is_known_by_its_name() -> None:
    events, _ = decoded(record(row("d"), {"id": 7, ROUTED: "x"}))
    assert image(events[0], is_old=True) == {"id": 7}


# ---------------------------------------------------------------- message.key.columns


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_table_without_a_key_has_the_one_of_its_messages(is_wrapped: bool) -> None:
    keyless = record(ddl("CREATE TABLE t (id INT, name TEXT)"), topic=DDL_TOPIC)
    payload = row(after={"id": 1, "name": "a"})
    message, key = (wrapped(payload, ID, NAME), key_with(ID, id=1)) if is_wrapped else (payload, {"id": 1})
    rows = [record(message, key, at) for at in range(40)]
    for target in ("flat-json", DEBEZIUM):
        found, translator = keys(keyless, *rows, target=target)
        assert found[-40:] == [{"id": 1}] * 40
        assert Loss.SCHEMA_INFERRED not in +translator.losses
    # Without one in the message there is none.
    assert keys(keyless, *rows, *(record(message, None, 40 + at) for at in range(3)))[0][-4:] == [
        {"id": 1},
        None,
        None,
        None,
    ]


def test_a_table_with_a_key_keeps_it() -> None:
    message = wrapped(row(after={"id": 1, "name": "a"}), ID, NAME)
    found, _ = keys(KEYED, record(message, key_with(NAME, name="a"), 1))
    assert found == [{"id": 1}]


# ---------------------------------------------------------------- values that the binlog lacks

WORD, AS_BYTES = "__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
BLOCK = (column("id", "int32"), column("n", "int16"), column("body", "string"), column("photo", "bytes"))


def noblob(body: Any = WORD, photo: Any = AS_BYTES) -> dict[str, Any]:
    before = {"id": 1, "n": 1, "body": body, "photo": photo}
    return wrapped(row("u", before, before | {"n": 2}), *BLOCK)


@pytest.mark.parametrize("target", [DEBEZIUM, "debezium-avro"])
def test_the_schema_of_a_table_is_the_same_for_rows_that_lack_columns(target: str) -> None:
    """As `binlog_row_image=NOBLOB` leaves them out."""

    whole = wrapped(row(after={"id": 1, "n": 1, "body": "x", "photo": "AA=="}), *BLOCK)
    given = [record(whole, {"id": 1}), *(record(noblob(), {"id": 1}, at) for at in range(1, 40))]
    translator, registry = Translator(DEBEZIUM, target), MemoryRegistry()
    resolver = Resolver(registries={"target": registry})
    made = [out for one in given for out in resolver.translate(translator, one)]
    if target == DEBEZIUM:
        values = [json.loads(out.value or b"") for out in made]
        assert len({json.dumps(value["schema"]) for value in values}) == 1
        assert values[-1]["payload"]["before"] == {"id": 1, "n": 1, "body": WORD, "photo": AS_BYTES}
        assert values[-1]["payload"]["after"] == {"id": 1, "n": 2, "body": WORD, "photo": AS_BYTES}
    else:
        assert {len(ids) for ids in registry.fake.subjects.values()} == {1}
    assert translator.losses[Loss.COLUMNS_ABSENT] == 39


@pytest.mark.parametrize("column", ["n INT", "short VARCHAR(5)", "e ENUM('a')", "d DATETIME"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_row_whose_columns_cannot_all_have_a_placeholder_has_none(column: str, is_missing: bool) -> None:
    definition = f"id INT PRIMARY KEY, body TEXT, raw BINARY(40), doc JSON, {column}"
    created = record(ddl(f"CREATE TABLE t ({definition})"), topic=DDL_TOPIC)
    translator = Translator(DEBEZIUM, DEBEZIUM, None, {"schemas.enable": "false"})
    translator.translate(created)
    given = {"id": 1} if is_missing else {"id": 1, column.split(maxsplit=1)[0]: None}
    (out,) = translator.translate(record(row(after=given), {"id": 1}, 1))
    more = {} if is_missing else {"body": WORD, "raw": AS_BYTES, "doc": WORD}
    assert json.loads(out.value or b"")["after"] == given | more


@pytest.mark.parametrize(
    ("options", "text", "data"),
    [
        ({"unavailable.value.placeholder": "gone"}, "gone", "Z29uZQ=="),
        ({"unavailable.value.placeholder": "hex:676F6E65"}, "gone", "Z29uZQ=="),
        ({"unavailable.value.placeholder": "gone", "binary.handling.mode": "hex"}, "gone", "676f6e65"),
    ],
)
def test_the_placeholder_is_an_option_of_both_sides(options: dict[str, str], text: str, data: str) -> None:
    created = record(
        ddl("CREATE TABLE t (id INT PRIMARY KEY, n INT, body TEXT, photo BLOB)"), topic=DDL_TOPIC
    )
    payload = row(after={"id": 1, "n": 1, "body": text, "photo": data})
    events, counted = decoded(created, record(payload, {"id": 1}), options=options)
    assert image(events[-1]) == {"id": 1, "n": 1, "body": ABSENT, "photo": ABSENT}
    assert counted == {"columns-absent": 1}
    # The usual word is a value then.
    assert (
        image(
            decoded(created, record(row(after={"id": 1, "body": WORD}), {"id": 1}), options=options)[0][-1]
        )["body"]
        == WORD
    )
    translator = Translator(DEBEZIUM, DEBEZIUM, options, {**options, "schemas.enable": "false"})
    (*_, out) = [out for one in (created, record(payload, {"id": 1}, 1)) for out in translator.translate(one)]
    assert json.loads(out.value or b"")["after"] == payload["after"]


# ---------------------------------------------------------------- ids in `tableChanges`

COLUMNS = [{"name": "id", "typeName": "INT", "optional": False, "position": 1}]
TABLE = {"primaryKeyColumnNames": ["id"], "columns": COLUMNS}


@pytest.mark.parametrize(
    ("name", "id_", "counted"),
    [
        ('a"', '"shop".a"', 1),
        ('"a', '"shop"."a', 1),
        ('"a"', '"shop"."a"', 0),
        ('a"b', '"shop"."a""b"', 0),
        ("t", "shop.t", 1),
        ("t", "", 1),
    ],
)
@pytest.mark.parametrize("snapshot", ["false", "true"])
def test_an_id_that_is_not_understood_is_the_messages_table(
    name: str, id_: str, counted: int, snapshot: str
) -> None:
    text = f"CREATE TABLE `{name}` (id INT PRIMARY KEY)"
    change = {"type": "CREATE", "id": id_, "table": TABLE}
    created = record(ddl(text, [change], {"table": name, "snapshot": snapshot}), topic=DDL_TOPIC)
    message = record(row(after={"id": 1}, source={"table": name}), {"id": 1}, 1)
    events, found = decoded(created, message)
    last = events[-1]
    assert isinstance(last, RowChange)
    assert (last.schema.complete, last.table) == (True, TableId("shop", name))
    assert found.get("ddl-not-understood", 0) == counted


def test_without_a_table_in_the_source_the_statement_tells_it() -> None:
    change = {"type": "CREATE", "id": '"shop".a"', "table": TABLE}
    text = 'CREATE TABLE `a"` (id INT PRIMARY KEY)'
    (event,), counted = decoded(record(ddl(text, [change], {"table": None}), topic=DDL_TOPIC))
    assert isinstance(event, SchemaChange)
    assert [each.table for each in event.table_changes] == [TableId("shop", 'a"')]
    assert counted == {"ddl-not-understood": 1}


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ('a"', '"shop".a"'),
        ('"a', '"shop"."a'),
        ('"a"', '"shop"."a"'),
        ('a"b', '"shop"."a""b"'),
        ("t", '"shop"."t"'),
    ],
)
def test_an_id_is_written_as_the_connector_writes_it(name: str, id_: str) -> None:
    created = canal_record(
        {"database": "shop", "table": name, "isDdl": True, "type": "CREATE", "es": 1700000000000, "ts": 1700000000001,
         "sql": f"CREATE TABLE `{name}` (id INT PRIMARY KEY)"}
    )  # fmt: skip
    translator = Translator("canal-json", DEBEZIUM, None, {"schemas.enable": "false"})
    (out,) = translator.translate(created)
    (change,) = json.loads(out.value or b"")["tableChanges"]
    assert change["id"] == id_


@pytest.mark.parametrize("base", ["DATETIME", "TIMESTAMP"])
def test_on_update_is_written_as_a_generated_column(base: str) -> None:
    definition = (
        f"d {base} DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, e DATETIME, n INT AUTO_INCREMENT"
    )
    created = canal_record(
        {"database": "shop", "table": "t", "isDdl": True, "type": "CREATE", "es": 1700000000000, "ts": 1700000000001,
         "sql": f"CREATE TABLE t (id INT PRIMARY KEY, {definition}, KEY (n))"}
    )  # fmt: skip
    translator = Translator("canal-json", DEBEZIUM, None, {"schemas.enable": "false"})
    (out,) = translator.translate(created)
    columns = json.loads(out.value or b"")["tableChanges"][0]["table"]["columns"]
    assert [(each["autoIncremented"], each["generated"]) for each in columns] == [
        (False, False), (True, True), (False, False), (True, True),
    ]  # fmt: skip


# ---------------------------------------------------------------- no value


@pytest.mark.parametrize("protocol", [DEBEZIUM, "ticdc-debezium"])
@pytest.mark.parametrize("value", [b"null", b" null\n", b"", None])
def test_a_value_of_null_is_a_tombstone(protocol: str, value: bytes | None) -> None:
    translator = Translator(protocol, "canal-json")
    assert translator.translate(ConsumerRecord("t", 0, 0, 0, b'{"id":1}', value)) == []
    assert +translator.losses == {Loss.TOMBSTONE: 1}
