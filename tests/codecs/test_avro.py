"""Avro on the wire: frames, schemas of others that are refused, values that are none of their schema."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from avro_support import avro_bytes
from hypothesis import given
from hypothesis import strategies as st

from relay.codecs import codec_named
from relay.codecs.shared.avro import (
    AvroSchema,
    Frame,
    Part,
    RegisteredSchemas,
    SchemaIds,
    frame_of,
    framed,
    is_full_name,
    list_for,
    named_schemas,
    subject_of,
)
from relay.codecs.shared.avro_writing import value_writer, written
from relay.codecs.shared.caches import CachePool
from relay.model.avro_types import parse_types
from relay.model.errors import Malformed, SchemaRefused, UnsupportedMessage
from relay.model.lookups import LookupCache, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import ConsumerRecord, Header

GUID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
GUID_BYTES = bytes.fromhex("01b7b4a7f09c964e4aa687fb5de9ef0c63")
ROW = {
    "type": "record",
    "name": "Row",
    "namespace": "shop.orders",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "a", "type": ["null", "string"], "default": None},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "at", "type": {"type": "int", "logicalType": "date"}},
    ],
}


def message(value: bytes | None, *headers: Header, key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, key, value, headers)


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (message(b"\0\0\0\0\x07abc"), Frame(7, b"abc")),
        (message(b"\0\x7f\xff\xff\xff"), Frame((1 << 31) - 1, b"")),
        (message(GUID_BYTES + b"abc"), Frame(GUID, b"abc")),
        # The header wins, though the body begins as a frame does.
        (message(b"\0\0\0\0\x07", ("__value_schema_id", GUID_BYTES)), Frame(GUID, b"\0\0\0\0\x07")),
        (message(b"\x02", ("__value_schema_id", b"\0\0\0\0\x09")), Frame(9, b"\x02")),
        # The last one of its name counts; an empty one does not.
        (
            message(b"\x02", ("__value_schema_id", b"x"), ("__value_schema_id", b"\0\0\0\0\x09")),
            Frame(9, b"\x02"),
        ),
        (message(b"\0\0\0\0\x07", ("__value_schema_id", b"")), Frame(7, b"")),
        (message(b"\0\0\0\0\x07", ("__VALUE_SCHEMA_ID", b"\0\0\0\0\x09")), Frame(7, b"")),
        (message(b"\0\0\0\0\x07", ("__key_schema_id", b"\0\0\0\0\x09")), Frame(7, b"")),
        (message(None), None),
        (message(None, ("__value_schema_id", GUID_BYTES)), None),
    ],
)
def test_frames(record: ConsumerRecord, expected: Frame | None) -> None:
    assert frame_of("p", record, "value") == expected


def test_a_key_has_its_own_frame_and_header() -> None:
    assert frame_of("p", message(None, key=framed(3, b"k")), "key") == Frame(3, b"k")
    headed = message(None, ("__key_schema_id", b"\0\0\0\0\x09"), key=b"k")
    assert frame_of("p", headed, "key") == Frame(9, b"k")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty"),
        (b"\0\0\0", "ends within its schema id"),
        (GUID_BYTES[:-1], "ends within its schema id"),
        (b"\0\0\0\0\0abc", "schema id 0"),
        (b"\0\xff\xff\xff\xff", "schema id -1"),
        (b'{"a":1}', "0x7b, not with a schema id: this looks like JSON"),
        (b"\x03\x00", "0x03, not with a schema id"),
    ],
)
def test_what_is_no_frame_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        frame_of("p", message(value), "value")


@pytest.mark.parametrize("header", [b"\0\0\0\0\x07x", b"\x07", b"\0\0"])
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_header_that_is_no_id_is_named(header: bytes, part: Part) -> None:
    name = f"__{part}_schema_id"
    with pytest.raises(Malformed, match=f"p: header {name}: "):
        frame_of("p", message(b"\x02", (name, header), key=b"\x02"), part)


# ---------------------------------------------------------------- values


def test_values_are_those_of_avro_without_logical_types() -> None:
    schema = AvroSchema(json.dumps(ROW))
    row = {"id": 1, "a": ("string", "é"), "d": b"\xff\x80\x00", "at": -719_162}
    body = avro_bytes(schema.text, row)
    assert schema.read("p", "value", body) == {**row, "a": "é"}


def test_a_name_in_the_namespace_and_a_full_one_are_the_same_type() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
    fields = [
        {"name": "e", "type": inner},
        {"name": "short", "type": ["null", "E"]},
        {"name": "full", "type": {"type": "array", "items": "a.E"}},
        {"name": "f", "type": {"type": "fixed", "name": "b.F", "size": 2}},
        {"name": "m", "type": {"type": "map", "values": "b.F"}},
    ]
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "namespace": "a", "fields": fields}))
    row = {"e": "Y", "short": ("a.E", "X"), "full": ["X"], "f": b"ab", "m": {"k": b"cd"}}
    read = schema.read("p", "value", avro_bytes(schema.text, row))
    assert read == {**row, "short": "X"}
    assert schema.type.fields[1].type.present is schema.type.fields[0].type


@pytest.mark.parametrize("number", [*range(-140, 0), -(1 << 31), -(1 << 62), 2, 3, 64, 1 << 31])
def test_a_number_that_no_branch_and_no_symbol_has_is_refused(number: int) -> None:
    """By fastavro, which takes a negative one as one from the end."""
    inner = {"type": "enum", "name": "a.E", "symbols": ["X", "Y"]}
    row = {"type": "record", "name": "a.b.R", "fields": [{"name": "e", "type": "a.E"}]}
    bad = avro_bytes('"long"', number)
    for schema, bodies in (
        (["null", "long"], [bad + b"\x02"]),
        (inner, [bad]),
        ({"type": "array", "items": ["null", inner]}, [b"\x02" + bad + b"\0", b"\x02\x02" + bad + b"\0"]),
        (
            {"type": "map", "values": ["null", {**row, "fields": [{"name": "e", "type": inner}]}]},
            [b"\x02\x02k" + bad + b"\0", b"\x02\x02k\x02" + bad + b"\0"],
        ),
        (
            {
                "type": "record",
                "name": "a.T",
                "fields": [{"name": "f", "type": inner}, {"name": "r", "type": row}],
            },
            [b"\x02" + bad],
        ),
    ):
        compiled = AvroSchema(json.dumps(schema))
        for body in bodies:
            with pytest.raises(Malformed, match="not a value"):
                compiled.read("p", "value", body)


def test_a_list_that_is_asked_for_numbers_refuses_those_below_zero() -> None:
    """For fastavro in Python, which does not ask for the length."""
    numbered = list_for(lambda *_: 0)(["X", "Y"])
    assert numbered[1] == "Y"
    with pytest.raises(IndexError):
        numbered[-1]


def test_a_type_without_a_namespace_is_found_within_one() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
    row = {"type": "record", "name": "a.R", "fields": [{"name": "e", "type": "E"}]}
    fields = [{"name": "f", "type": inner}, {"name": "r", "type": row}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "T", "fields": fields}))
    assert schema.read("p", "value", b"\0\x02") == {"f": "X", "r": {"e": "Y"}}


def test_a_union_by_itself_is_a_schema() -> None:
    schema = AvroSchema('["null", "long"]')
    assert [schema.read("p", "key", body) for body in (b"\0", b"\x02\x0e")] == [None, 7]


def test_schemas_of_elsewhere_are_part_of_one() -> None:
    other = json.dumps(
        {"type": "record", "name": "O", "namespace": "b", "fields": [{"name": "i", "type": "int"}]}
    )
    text = json.dumps({"type": "record", "name": "a.R", "fields": [{"name": "o", "type": ["null", "b.O"]}]})
    schema = AvroSchema(text, (("b.O", other),))
    assert schema.read("p", "value", b"\x02\x0e") == {"o": {"i": 7}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02",
        b"\x02\x02\x06ab",  # a text beyond the end
        b"\x02\x02\x01ab\x00\x00",  # of a negative length
        b"\x02\x02\x02\xff\x00\x00",  # no UTF-8
        b"\x02\x04\x00\x00",  # branch 2 of two
        b"\x02\x01\x00\x00",  # branch -1
        b"\x02\x03\x00\x00",
        b"\x02\x07\x00\x00",
        b"\x02\x00\x00\x00\x00",  # one byte too many
        b"\xff" * 40,
    ],
)
def test_bytes_that_are_no_value_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        AvroSchema(json.dumps(ROW)).read("p", "value", body)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_value_or_refused(body: bytes) -> None:
    try:
        AvroSchema(json.dumps(ROW)).read("p", "value", body)
    except Malformed as error:
        assert error.path == "value"


@pytest.mark.parametrize(
    "row",
    [
        {"id": 1 << 63, "a": None, "d": b"", "at": 1},
        {"id": "x", "a": None, "d": b"", "at": 1},
        {"id": 1, "a": 7, "d": b"", "at": 1},
        {"id": 1, "a": "\ud800", "d": b"", "at": 1},
        {"id": 1},
        None,
    ],
)
def test_values_that_a_schema_has_no_form_for_are_refused(row: Any) -> None:
    write = value_writer(parse_types(json.dumps(ROW)))
    with pytest.raises((ValueError, TypeError)):
        written(write, row)


_INSIDE = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "long"}]}
_EVERYTHING = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "i", "type": ["null", "int"]},
        {"name": "l", "type": ["long", "null"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": ["bytes", "null"]},
        {"name": "o", "type": "boolean"},
        {"name": "r", "type": ["null", _INSIDE]},
        {"name": "a", "type": {"type": "array", "items": ["null", "In"]}},
    ],
}
_LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
_INSIDES = st.none() | st.fixed_dictionaries({"x": _LONGS})


@given(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
            "l": st.none() | _LONGS,
            "f": st.floats(width=32),
            "d": st.floats(),
            "s": st.none() | st.text(st.characters(codec="utf-8")),
            "b": st.none() | st.binary(max_size=80),
            "o": st.booleans(),
            "r": _INSIDES,
            "a": st.lists(_INSIDES, max_size=3),
        }
    )
)
def test_values_are_written_as_fastavro_writes_them(row: dict[str, Any]) -> None:
    text = json.dumps(_EVERYTHING)
    assert written(value_writer(parse_types(text)), row) == avro_bytes(text, row)


@pytest.mark.parametrize(
    "type_", [["int", "string"], ["null", "int", "string"], {"type": "map", "values": "int"}]
)
def test_types_that_are_not_written_are_refused(type_: Any) -> None:
    with pytest.raises(ValueError, match="has "):
        value_writer(parse_types(json.dumps(type_)))


# ---------------------------------------------------------------- schemas


def nested(depth: int) -> Any:
    found: Any = "int"
    for _ in range(depth):
        found = {"type": "array", "items": found}
    return found


def doubling(depth: int) -> Any:
    """A record that stands for 2^depth values, in little text."""
    found: Any = "int"
    for level in range(depth):
        fields = [
            {"name": "a", "type": found},
            {"name": "b", "type": found if level == 0 else f"R{level - 1}"},
        ]
        found = {"type": "record", "name": f"R{level}", "fields": fields}
    return found


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
            "contains itself",
        ),
        (nested(70), "nested more than 64 deep"),
        (doubling(30), "more values than relay reads"),
        ({"type": "array", "items": "null"}, "few bytes could become very many"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "few bytes could"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
            "two fields of one name",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Q"}]}, "does not have"),
        ([{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}], "twice"),
        ({"type": "record", "name": "R"}, "without fields"),
        ({"type": "record", "fields": []}, "without a name"),
        ({"type": "enum", "name": "E"}, "without symbols"),
        ({"type": "enum", "name": "E", "symbols": ["a-b"]}, "an invalid or duplicate symbol"),
        ({"type": "enum", "name": "E", "symbols": ["a", "a"]}, "duplicate"),
        ({"type": "fixed", "name": "F", "size": 1 << 40}, "without a size"),
        ([], "union of nothing"),
        (["null", ["int"]], "union of nothing, or of unions"),
        (7, "not a type"),
    ],
)
def test_schemas_that_relay_does_not_read_are_refused(document: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_types(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '"x'])
def test_what_is_no_json_is_no_schema(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parse_types(text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "array", "R", "null"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "values", "namespace"]), inner),
    max_leaves=12,
))  # fmt: skip
def test_any_json_is_a_schema_or_refused(document: Any) -> None:
    try:
        parse_types(json.dumps(document))
    except ValueError as error:
        assert type(error) is ValueError


# ---------------------------------------------------------------- registries


def found(answers: LookupCache, id: int | str, part: Part = "value") -> AvroSchema:
    return RegisteredSchemas("p", answers).find(id, part)


def test_a_schema_is_asked_for_and_compiled_once() -> None:
    answers = LookupCache()
    schemas = RegisteredSchemas("p", answers)
    with pytest.raises(SchemaById) as raised:
        schemas.find(7, "value")
    assert raised.value == SchemaById("source", 7)
    answers.provide(raised.value, RegisteredSchema(json.dumps(ROW)))
    assert schemas.find(7, "value") is schemas.find(7, "key")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (RegisteredSchema("{}", "JSON"), "schema 7 is JSON, not Avro"),
        (RegisteredSchema("{"), "schema 7 is not JSON"),
        (RegisteredSchema('{"type":"record","name":"R"}'), "schema 7 has a record without fields"),
    ],
)
def test_registered_schemas_that_cannot_be_used_are_named(schema: RegisteredSchema, reason: str) -> None:
    answers = LookupCache()
    answers.provide(SchemaById("source", 7), schema)
    with pytest.raises(UnsupportedMessage, match=reason):
        found(answers, 7)


def test_many_schemas_stay_within_the_cache() -> None:
    answers = LookupCache(msgspec.structs.replace(LookupCache().limits, cache_bytes=100_000))
    schemas = RegisteredSchemas("p", answers)
    found = []
    for id in range(1, 200):
        answers.provide(SchemaById("source", id), RegisteredSchema(json.dumps({**ROW, "name": f"R{id}"})))
        found.append(schemas.find(id, "value"))
        assert found[-1].type.name == f"shop.orders.R{id}"
    kept = [schemas.find(id, "value") is each for id, each in reversed([*enumerate(found, 1)])]
    assert kept[0]
    assert sum(kept) < 20
    assert len(list(answers)) == 199


def test_an_id_is_asked_for_by_subject_and_text() -> None:
    answers = LookupCache()
    ids = SchemaIds(answers, CachePool(1 << 20))
    with pytest.raises(SchemaId) as raised:
        ids.framed("t-value", "{}", b"body")
    assert raised.value == SchemaId("target", "t-value", RegisteredSchema("{}"))
    answers.provide(raised.value, 9)
    assert ids.framed("t-value", "{}", b"body") == b"\0\0\0\0\x09body"
    with pytest.raises(SchemaId):
        ids.framed("u-value", "{}", b"body")


@pytest.mark.parametrize("id", [-1, 0, 1 << 31])
def test_an_id_that_no_frame_can_hold_is_refused(id: int) -> None:
    answers = LookupCache()
    ids = SchemaIds(answers, CachePool(1 << 20))
    answers.provide(SchemaId("target", "t-value", RegisteredSchema("{}")), id)
    with pytest.raises(SchemaRefused, match=f"schema id {id}"):
        ids.framed("t-value", "{}", b"body")


def test_the_schemas_that_a_record_names() -> None:
    number, guid = framed(7, b"body"), b"\1" + bytes(range(16)) + b"body"
    found = named_schemas(ConsumerRecord("t", 0, 0, 0, number, guid))
    assert found == [7, "00010203-0405-0607-0809-0a0b0c0d0e0f"]
    assert named_schemas(ConsumerRecord("t", 0, 0, 0, b"key", None)) == []
    # A statement of TiCDC begins as a GUID does.
    statement = ConsumerRecord("t", 0, 0, 0, None, b'\1{"query":"CREATE TABLE t (id INT)","type":3}')
    registry = codec_named("ticdc-avro", "from").registry
    assert registry is not None
    assert not registry.named_schemas(statement)


def test_subjects() -> None:
    assert subject_of("TopicNameStrategy", "t", "key", "a.R") == "t-key"
    assert subject_of("RecordNameStrategy", "t", "key", "a.R") == "a.R"
    assert subject_of("TopicRecordNameStrategy", "t", "value", "a.R") == "t-a.R"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a.b.C", True),
        ("a.1b.C", True),
        ("C", True),
        ("a.1", False),
        ("a..C", False),
        ("a-b.C", False),
        ("", False),
    ],
)
def test_full_names(name: str, is_one: bool) -> None:
    assert is_full_name(name) is is_one
