"""TiCDC Debezium's edge cases of values that need Python: numbers 1 to 68."""

from __future__ import annotations

import pytest
from debezium_support import DEBEZIUM
from edge_cases.ticdc_debezium import (
    CASES,
    canal_row,
    read,
    sent,
    written,
)
from support import TICDC

# ---------------------------------------------------------------- schemas


@pytest.mark.parametrize(
    ("definition", "type_", "name"),
    [
        CASES.param("1", "DATE", "int32", "io.debezium.time.Date"),
        CASES.param("8", "DATETIME", "int64", "io.debezium.time.Timestamp"),
        CASES.param("9", "DATETIME(3)", "int64", "io.debezium.time.Timestamp"),
        CASES.param("9", "DATETIME(4)", "int64", "io.debezium.time.MicroTimestamp"),
        CASES.param("15", "TIMESTAMP", "string", "io.debezium.time.ZonedTimestamp"),
        CASES.param("18", "TIME", "int64", "io.debezium.time.MicroTime"),
        CASES.param("24", "YEAR", "int32", "io.debezium.time.Year"),
        CASES.param("25", "TINYINT(1)", "int16", None),
        CASES.param("26", "TINYINT UNSIGNED", "int16", None),
        CASES.param("27", "BIGINT UNSIGNED", "int64", None),
        CASES.param("32", "FLOAT", "float", None),
        CASES.param("33", "FLOAT(5,2)", "double", None),
        CASES.param("38", "DECIMAL(10,2)", "double", None),
        CASES.param("44", "BIT(1)", "boolean", None),
        CASES.param("45", "BIT(10)", "bytes", "io.debezium.data.Bits"),
        CASES.param("60", "VARBINARY(9)", "string", None),
        CASES.param("64", "JSON", "string", "io.debezium.data.Json"),
        CASES.param("67", "VECTOR(3)", "string", "io.debezium.data.TiDBVectorFloat32"),
    ],
)
def test_the_type_in_the_schema(definition: str, type_: str, name: str | None) -> None:
    field = written(definition, None).field()
    assert (field["type"], field.get("name")) == (type_, name)


# ---------------------------------------------------------------- numbers


@CASES.covers("31")
def test_a_default_that_a_float_cannot_hold() -> None:
    made = written("BIGINT DEFAULT 9223372036854775807", "1")
    assert b'"default":9223372036854776000' in (made.outs[0].value or b"")
    said = {"type": "int64", "default": 9223372036854776000}
    assert read("BIGINT", "9223372036854775807", said) == read(None, "9223372036854775807", said) == 2**63 - 1


# ---------------------------------------------------------------- ENUM and SET


@pytest.mark.parametrize(
    ("definition", "allowed", "shown"),
    [
        CASES.param("49", "ENUM('a,b','c')", r"a\,b,c", ["'a,b'", "'c'"]),
        CASES.param("50", "ENUM('it''s')", "it's", ["'it's'"]),
        CASES.param("51", "ENUM('x\\\\y')", r"x\y", [r"'x\y'"]),
        CASES.param("54", "SET('a','b','c')", "a,b,c", ["'a'", "'b'", "'c'"]),
    ],
)
def test_the_members_in_schema_and_ddl(definition: str, allowed: str, shown: list[str]) -> None:
    create, insert = canal_row(definition, "1")
    assert sent(TICDC, DEBEZIUM, create, insert).field()["parameters"] == {"allowed": allowed}
    (change_,) = sent(TICDC, DEBEZIUM, create).payload["tableChanges"]
    assert change_["table"]["columns"][1]["enumValues"] == shown
    kind = "Enum" if definition.startswith("ENUM") else "EnumSet"
    said = {"type": "string", "name": f"io.debezium.data.{kind}", "parameters": {"allowed": allowed}}
    assert read(None, written(definition, "1").cell(), said) == 1
