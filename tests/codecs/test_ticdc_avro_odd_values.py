"""Values that no column of TiDB has, as TiCDC Avro has a form for them, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_registry import MemoryRegistry
from support import CANAL, record, row_message
from test_table_topics import ddl

from relay import ConsumerRecord, Loss, NotRepresentable, Resolver, RowChange, Translator


def test_a_row_that_lost_a_value_has_no_checksum() -> None:
    """Its reader would compute another one and take the row for corrupted."""
    checked = {
        "enable-tidb-extension": "true",
        "avro-decimal-handling-mode": "string",
        "avro-bigint-unsigned-handling-mode": "string",
        "integrity-check-level": "correctness",
    }
    translator = Translator(CANAL, "ticdc-avro", None, checked)
    types = {"id": "int", "e": "enum('a','b')"}
    lost, kept = (
        record(row_message(types, {"id": "1", "e": each}), at) for at, each in enumerate(["3", "2"])
    )
    (out,) = Resolver().translate(translator, lost)
    assert translator.losses[Loss.ENUM_INDEX] == 1
    assert (out.value or b"").endswith(b"\0\0\0")
    (out,) = Resolver().translate(translator, kept)
    assert not (out.value or b"").endswith(b"\0\0\0")


def test_a_vector_is_written_as_tidb_prints_it_or_not_at_all() -> None:
    translator = Translator(CANAL, "ticdc-avro")
    (out,) = Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1, -2.5e3]"})))
    assert b"[1,-2.5e3]" in (out.value or b"")
    with pytest.raises(NotRepresentable, match="ticdc-avro: v: "):
        Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1,x]"})))


def default_in_the_schema(definition: str, value: str = "1") -> Any:
    """The default that the registered schema has for a column that is defined so; None if it has none."""
    registry = MemoryRegistry()
    resolver = Resolver(registries={"target": registry})
    translator = Translator(CANAL, "ticdc-avro")
    resolver.translate(translator, record(ddl(f"CREATE TABLE t (c {definition})"), 0))
    resolver.translate(
        translator, record(row_message({"c": definition.partition(" default")[0]}, {"c": value}), 1)
    )
    (text,) = [text for text in registry.fake.texts.values() if '"c"' in text]
    (field,) = [field for field in json.loads(text)["fields"] if field["name"] == "c"]
    return field.get("default")


@pytest.mark.parametrize(
    ("definition", "default"),
    [
        ("int default 1e3", 1000),
        ("int default '7.0'", 7),
        ("bigint default 0e50", 0),
        ("bigint unsigned default 18446744073709551615", -1),
        ("int default (next value for `s`)", None),
        ("double default (nextval(`d`.`s`))", None),
        ("varchar(40) default (next value for `s`)", "nextval(`d`.`s`)"),
    ],
)
def test_a_default_is_that_of_the_schema(definition: str, default: Any) -> None:
    assert default_in_the_schema(definition) == default


@pytest.mark.parametrize(
    "definition",
    [f"{base} default 1e{digits}" for base in ("int", "bigint") for digits in (20, 5000, 9999999)],
)
def test_a_default_beyond_its_column_is_refused_at_once(definition: str) -> None:
    with pytest.raises(NotRepresentable, match="the default of 'c'"):
        default_in_the_schema(definition)


def test_a_default_that_is_no_double_is_refused() -> None:
    with pytest.raises(NotRepresentable, match="the default of 'c'"):
        default_in_the_schema("double default 1e999")


@pytest.mark.parametrize("word", ["enum", "set"])
def test_a_member_that_hides_the_comma_behind_it_is_refused(word: str) -> None:
    r"""TiCDC joins `a\` and `b` to the text of the one member `a,b`."""
    row = row_message({"v": rf"{word}('a\','b')"}, {"v": "1"})
    with pytest.raises(NotRepresentable, match="ticdc-avro: v: a member ends with a backslash"):
        Resolver().translate(Translator(CANAL, "ticdc-avro"), record(row))


@pytest.mark.parametrize(
    "members", [["a,b", "c"], ["a", "b\\"], ["a\\,b", "c"], ["a\\b", ""], ["", "a"], [",", ",,"], ["\\"]]
)
def test_members_are_read_as_they_were_written(members: list[str]) -> None:
    text = ",".join(f"'{member}'" for member in members)
    (out,) = Resolver().translate(
        Translator(CANAL, "ticdc-avro"), record(row_message({"v": f"enum({text})"}, {"v": "1"}))
    )
    reader = Translator("ticdc-avro", "ticdc-avro")
    (change,) = Resolver().inspect(reader, ConsumerRecord("t", 0, 0, 0, out.key, out.value))
    assert isinstance(change, RowChange)
    assert change.schema.columns[0].type.members == tuple(members)
    assert change.after == (1,)
