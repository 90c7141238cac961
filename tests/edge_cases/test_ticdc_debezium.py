"""TiCDC Debezium's edge cases of NULL, defaults and schemas, numbers 69 to 82; and the check that the list is
complete.
"""

from __future__ import annotations

import importlib
from typing import Any

import cramjam
import msgspec
import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, block, ddl, decoded, message, record, row
from edge_cases import canal_family
from edge_cases.ticdc_debezium import (
    CASES,
    EXTENSION,
    canal_row,
    change,
    counted,
    debezium_row,
    read,
    sent,
    written,
)
from support import TICDC, row_message

from relay import ABSENT, Malformed

ZONED = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
FIRST = "1970-01-01T00:00:00Z"

# ---------------------------------------------------------------- NULL and defaults


@pytest.mark.parametrize(
    ("definition", "value", "lost"),
    [
        CASES.param("69", "INT DEFAULT 5", "5", {"null-replaced-by-default": 1}),
        CASES.param("70", "DATETIME DEFAULT CURRENT_TIMESTAMP", "0", {"null-replaced-by-default": 1}),
        CASES.param("71", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", "null", {}),
        CASES.param("73", "VARBINARY(5) DEFAULT 'ab'", '"YWI="', {"null-replaced-by-default": 1}),
    ],
)
def test_null_in_a_column_with_a_default(definition: str, value: str, lost: dict[str, int]) -> None:
    made = written(definition, None)
    assert (made.cell(), made.counted) == (value, lost)
    kept = written(definition, None, writing={"replace.null.with.default": "false"})
    assert (kept.cell(), kept.counted) == ("null", {})


@pytest.mark.parametrize(
    ("definition", "value", "canonical", "noted"),
    [
        CASES.param("69", "INT DEFAULT 5", "5", 5, {"null-or-default": 1}),
        CASES.param("69", "INT DEFAULT 5", "6", 6, {}),
        CASES.param("69", "INT NOT NULL DEFAULT 5", "5", 5, {}),
        CASES.param("70", "DATETIME DEFAULT CURRENT_TIMESTAMP", "0", None, {"null-or-default": 1}),
        CASES.param("71", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", "null", None, {}),
        CASES.param("73", "VARBINARY(5) DEFAULT 'ab'", '"YWI="', b"ab", {"null-or-default": 1}),
    ],
)
def test_a_value_that_may_have_been_null_is_noted(
    definition: str, value: str, canonical: Any, noted: dict[str, int]
) -> None:
    assert read(definition, value) == canonical
    assert counted(definition, value) == noted


@pytest.mark.parametrize(
    ("definition", "text", "default"),
    [
        CASES.param("69", "INT DEFAULT 5", "1", 5),
        CASES.param("70", "DATETIME DEFAULT CURRENT_TIMESTAMP", None, 0),
        CASES.param("71", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", None, None),
        CASES.param("72", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "2026-01-15 00:00:00", FIRST),
        CASES.param("73", "VARBINARY(5) DEFAULT 'ab'", None, "ab"),
    ],
)
def test_the_default_in_the_schema(definition: str, text: str | None, default: Any) -> None:
    field = written(definition, text).field()
    assert ("default" in field, field.get("default")) == (default is not None, default)
    assert field["optional"] is ("NOT NULL" not in definition)


@CASES.covers("74")
def test_a_default_that_is_not_of_its_type_does_not_matter() -> None:
    for definition in (None, "TIMESTAMP"):
        assert read(definition, f'"{FIRST}"', ZONED | {"default": 0}) == "0000-00-00 00:00:00"
        assert read(definition, "null", ZONED | {"default": 0}) is None


# ---------------------------------------------------------------- schemas


@CASES.covers("77")
def test_a_virtual_column_is_in_no_row_and_in_the_schema_once_as_written_and_twice_as_read() -> None:
    create = canal_family.ddl(
        "CREATE TABLE t (id INT PRIMARY KEY, g INT AS (id + 1) VIRTUAL, c INT)", "CREATE"
    )
    given = row_message({"id": "int", "c": "int"}, {"id": "1", "c": "2"}, pkNames=["id"])
    made = sent(TICDC, DEBEZIUM, record(create), record(given, offset=1))
    assert made.payload["after"] == {"id": 1, "c": 2}
    columns = [part["fields"] for part in made.values[0]["schema"]["fields"][:2]]
    assert [[field["field"] for field in each] for each in columns] == [["id", "g", "c"]] * 2
    assert made.counted == {}

    for each in columns:
        each.append(each[1])
    back = record(made.values[0], offset=1)
    alone = change(back)
    assert ([column.name for column in alone.schema.columns], alone.after) == (["id", "c"], (1, 2))
    known = change(
        record(ddl(create["sql"])),
        record(message(after={"id": 1, "c": 2}) | {"schema": made.values[0]["schema"]}),
    )
    assert known.after == (1, ABSENT, 2)


@CASES.covers("78")
def test_schema_names_have_allowed_characters_alone() -> None:
    given = row_message({"id": "int"}, {"id": "1"}, database="1a", table="t-名.x", pkNames=["id"])
    made = sent(TICDC, DEBEZIUM, record(given), writing={"cluster-id": "prod-cdc"})
    name = "prod_cdc._1a.t__.x"
    assert made.values[0]["schema"]["name"] == f"{name}.Envelope"
    assert [part["name"] for part in made.values[0]["schema"]["fields"][:2]] == [f"{name}.Value"] * 2
    assert f'"name":"{name}.Key"'.encode() in (made.outs[0].key or b"")
    source = made.payload["source"]
    assert [source[part] for part in ("name", "db", "table", "cluster_id")] == [
        "prod-cdc",
        "1a",
        "t-名.x",
        "prod-cdc",
    ]


@CASES.covers("79")
def test_without_a_schema_the_catalog_tells_the_types() -> None:
    made = sent(TICDC, DEBEZIUM, *canal_row("DECIMAL(9,2)", "1.50"), writing=NO_SCHEMA)
    assert [list(made.values[0]), made.payload["after"]] == [["payload"], {"id": 1, "c": 1.5}]
    assert made.outs[0].key == b'{"payload":{"id":1}}'
    assert str(read("DECIMAL(9,2)", "1.5")) == "1.50"
    assert read(None, "1.5") == 1.5
    assert counted(None, "1.5") == {"schema-inferred": 1, "value-inferred": 1}


@CASES.covers("80")
def test_what_only_the_row_or_only_the_schema_has() -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int32", "optional": True, "field": "unsent"},
    ]
    schema = block(*fields)
    value = message(after={"id": 1, "unsaid": 2}) | {"schema": schema}
    found = change(record(value, {"payload": {"id": 1}}))
    assert [column.name for column in found.schema.columns] == ["id", "unsaid"]
    assert found.source.commit_ts == 463586886942720001  # which no schema before v26.3.3 declares
    create = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, unsent INT)"))
    only = record(message(after={"id": 1}) | {"schema": schema}, {"payload": {"id": 1}}, 1)
    assert change(create, only).after == (1, ABSENT)
    assert sent(DEBEZIUM, TICDC, create, only, writing=EXTENSION).counted == {"columns-absent": 1}


@CASES.covers("82")
@pytest.mark.parametrize("reading", [{}, {"large-message-handle-compression": "lz4"}])
def test_keys_and_values_are_compressed_as_a_whole(reading: dict[str, str]) -> None:
    packing = NO_SCHEMA | {"large-message-handle-compression": "lz4"}
    plain = debezium_row("INT", "5")
    (out,) = sent(DEBEZIUM, DEBEZIUM, *plain, writing=packing).outs
    for part in (out.key, out.value):
        assert (part or b"")[:4] == b"\x04\x22\x4d\x18"
    assert bytes(cramjam.lz4.decompress(out.key or b"")) == b'{"payload":{"id":1}}'
    packed = msgspec.structs.replace(plain[-1], key=out.key, value=out.value)
    (event,), _ = decoded(packed, options=reading)
    assert (row(event).after, row(event).schema.primary_key) == ((1, 5), ("id",))
    with pytest.raises(Malformed, match="not an LZ4 frame"):
        decoded(plain[-1], options={"large-message-handle-compression": "lz4"})


def test_every_number_is_a_case_or_a_decision() -> None:
    for part in ("values", "events", "connector"):
        importlib.import_module(f"edge_cases.test_ticdc_debezium_{part}")
    CASES.check()
