"""TiCDC Debezium's edge cases of schemas that need Python; the others are in tests/golden/ticdc-debezium.

The last test checks that the list is complete.
"""

from __future__ import annotations

import importlib
from typing import Any

import cramjam
import msgspec
import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, ddl, decoded, message, record, row
from edge_cases import canal_family
from edge_cases.ticdc_debezium import (
    CASES,
    change,
    debezium_row,
    sent,
    written,
)
from support import TICDC, row_message

from relay import ABSENT, Malformed

FIRST = "1970-01-01T00:00:00Z"

# ---------------------------------------------------------------- NULL and defaults


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
    for part in ("values", "events"):
        importlib.import_module(f"edge_cases.test_ticdc_debezium_{part}")
    CASES.check()
