"""Avro read as JSON and written from it by engines: what the codec makes of it, or nothing."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from avro_support import avro_bytes
from engine_support import ENGINES, KERNEL, needs_kernel
from reference_engine import Interpreter

from relay.codecs.debezium.shared.connect_reading import ConnectReader, text_op
from relay.codecs.debezium.shared.connect_writing import ConnectWriter
from relay.codecs.shared.avro import AvroSchema
from relay.model.errors import Malformed
from relay.templates.avro_ops import (
    Branch,
    Fixed,
    Items,
    Map,
    Nullable,
    Plain,
    PlainKind,
    Record,
    Symbols,
    Union,
)
from relay.templates.engine import AvroReader, Engine

PRIMITIVES: tuple[PlainKind, ...] = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
TEXTS = ("", "a", 'a "b" \\ c', "\n\b\f\x00\x1f\x7f", "é漢😀", "long " * 30)


def reader_of(engine: type[Engine], schema: AvroSchema) -> AvroReader:
    found = ConnectReader(schema.type).readable()
    assert found is not None
    return engine.avro_reader(*found[:3])


def by_codec(schema: AvroSchema, body: bytes) -> bytes | None:
    try:
        return ConnectReader(schema.type).json(schema.read("p", "value", body))
    except Malformed:
        return None


def random_type(rng: random.Random, names: list[str], depth: int = 0) -> Any:
    """The JSON of a type that Connect has a form for; a union has null and another one."""
    kind = rng.choice((*PRIMITIVES[1:], "union", "record", "enum", "fixed", "array"))
    if depth > 3 and kind in {"union", "record", "array"}:
        kind = "string"
    if kind == "union":
        other: Any = []
        while isinstance(other, list):
            other = random_type(rng, names, depth + 1)
        return rng.choice((["null", other], [other, "null"]))
    if kind == "array":
        return {"type": "array", "items": random_type(rng, names, depth + 1)}
    if kind not in {"record", "enum", "fixed"}:
        return kind
    names.append(f"N{len(names)}")
    found: dict[str, Any] = {"type": kind, "name": names[-1]}
    if kind == "enum":
        return {**found, "symbols": ["A", "b_2", "LONG"]}
    if kind == "fixed":
        return {**found, "size": rng.randrange(1, 5)}
    fields = []
    for at in range(rng.randrange(1, 6)):
        field = {"name": f"f{at}", "type": random_type(rng, names, depth + 1)}
        if rng.random() < 0.2:
            field["connect.field"] = f'the "{at}" é'
        fields.append(field)
    return {**found, "fields": fields}


def random_value(rng: random.Random, node: Any) -> Any:
    if isinstance(node, list):
        return random_value(rng, rng.choice(node))
    kind = node["type"] if isinstance(node, dict) else node
    edges = [0, 1, -1, 63, 64, -64, -65, 8191, 8192]
    if kind == "record":
        return {field["name"]: random_value(rng, field["type"]) for field in node["fields"]}
    if kind == "array":
        return [random_value(rng, node["items"]) for _ in range(rng.randrange(4))]
    if kind == "enum":
        return rng.choice(node["symbols"])
    makers: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "boolean": lambda: rng.random() < 0.5,
        "int": lambda: rng.choice([*edges, (1 << 31) - 1, -(1 << 31), rng.randrange(-(1 << 31), 1 << 31)]),
        "long": lambda: rng.choice([*edges, (1 << 63) - 1, -(1 << 63), rng.randrange(-(1 << 63), 1 << 63)]),
        "float": lambda: rng.choice([0.0, -0.0, 0.1, 1e10, 3.4e38, 1e-45, rng.uniform(-1e6, 1e6)]),
        "double": lambda: rng.choice([0.0, -0.0, 0.1, 1e16, 1.7e308, 5e-324, 123456.0, rng.gauss(0, 1e9)]),
        "string": lambda: rng.choice(TEXTS),
        "bytes": lambda: rng.randbytes(rng.randrange(6)),
        "fixed": lambda: rng.randbytes(node["size"]),
    }
    return makers[kind]()


def connect_type(rng: random.Random) -> dict[str, Any]:
    """A record of types that ConnectWriter has."""
    while True:
        fields = [{"name": "v", "type": random_type(rng, [])}, {"name": "w", "type": "string"}]
        found = {"type": "record", "name": "Top", "fields": fields}
        if not any(word in json.dumps(found) for word in ("enum", "fixed", "connect.field")):
            return found


def changed(rng: random.Random, body: bytes) -> bytes:
    if not body or rng.random() < 0.2:
        return body + rng.randbytes(rng.randrange(1, 3))
    at = rng.randrange(len(body))
    other = bytes((rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, body[at] ^ 1 << rng.randrange(8))),))
    return rng.choice((body[:at], body[:at] + body[at + 1 :], body[:at] + other + body[at + 1 :]))


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_read_as_the_codec_reads_them(engine: type[Engine]) -> None:
    rng = random.Random(11)
    read = 0
    for _ in range(300):
        document = {
            "type": "record",
            "name": "Top",
            "fields": [{"name": "v", "type": random_type(rng, [])}],
        }
        schema = AvroSchema(json.dumps(document))
        reader = reader_of(engine, schema)
        for _ in range(8):
            body = avro_bytes(schema.text, random_value(rng, document))
            expected = by_codec(schema, body)
            assert reader.text(b"frame" + body, 5) == expected
            damaged = changed(rng, body)
            found = reader.text(damaged, 0)
            assert found in {None, by_codec(schema, damaged)}
            read += found is not None
    assert read > 300


@needs_kernel
def test_the_kernel_reads_what_the_interpreter_reads() -> None:
    assert KERNEL is not None
    rng = random.Random(12)
    for kind in PRIMITIVES:
        op = Union((Plain(kind), Items(Plain("string")))) if kind != "null" else Items(Plain("null"))
        ours, theirs = (each.avro_reader(b"<", op, b">") for each in (Interpreter, KERNEL))
        for _ in range(2000):
            data = (
                b"\0" * (rng.random() < 0.8)
                + rng.choice((b"", b"\x80", b"\xff" * 8))
                + rng.randbytes(rng.randrange(11))
            )
            assert theirs.text(data, 0) == ours.text(data, 0), data.hex()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("op", "data", "expected"),
    [
        (Plain("int"), b"\x80\x00", b"0"),
        (Plain("int"), b"\xfe\xff\xff\xff\x0f", b"2147483647"),
        (Plain("int"), b"\x80\x80\x80\x80\x10", None),
        (Plain("long"), b"\xff" * 9 + b"\x01", b"-9223372036854775808"),
        (Plain("long"), b"\xff" * 9 + b"\x03", None),
        (Plain("long"), b"\x80" * 10 + b"\x00", None),
        (Plain("unsigned"), b"\x01", b"18446744073709551615"),
        (Plain("unsigned"), b"\x02", b"1"),
        (Plain("uint64"), b"\x80" + b"\0" * 7, b"9223372036854775808"),
        (Plain("uint64"), b"\0" * 7, None),
        (Branch(1, Plain("int")), b"\x02\x02", b"1"),
        (Branch(1, Plain("int")), b"\x00\x02", None),
        (Nullable(b"\x04x", Plain("int")), b"\x04x\x02", b"1"),
        (Nullable(b"\x04x", Plain("int")), b"\x00", b"null"),
        (Nullable(b"\x04x", Plain("int")), b"\x04y\x02", None),
        (Nullable(b"\x04x", Plain("int")), b"\x04", None),
        (Nullable(b"\x04x", Plain("int")), b"", None),
        (Nullable(b"\x02", Record(((b'"a":', Plain("int")),))), b"\x02\x02", b'{"a":1}'),
        (Map(((b"a", Plain("int")),)), b"\x02\x02a\x02\x00", None),
        (Plain("boolean"), b"\x02", None),
        (Plain("float"), struct.pack("<f", 0.1), b"0.10000000149011612"),
        (Plain("double"), struct.pack("<d", math.inf), None),
        (Plain("double"), struct.pack("<d", math.nan), None),
        (Plain("string"), b"\x01", None),
        (Plain("string"), b"\x02\xff", None),
        (Plain("string"), b"\x06\xed\xa0\x80", None),
        (Plain("bytes"), b"\x04\x00\xff", b'"AP8="'),
        (Fixed(2), b"\x00\xff", b'"AP8="'),
        (Symbols((b'"a"', b'"b"')), b"\x02", b'"b"'),
        (Symbols((b'"a"', b'"b"')), b"\x01", None),
        (Symbols((b'"a"', b'"b"')), b"\x04", None),
        (Union((Plain("null"), Plain("int"))), b"\x01\x02", None),
        (Union((Plain("null"), Plain("int"))), b"\x04\x02", None),
        (Record(()), b"", b"{}"),
        (Record(((b'"a":', Plain("null")), (b'"b":', Plain("int")))), b"\x01", b'{"a":null,"b":-1}'),
        (Items(Plain("int")), b"\x04\x02\x04\x02\x06\x00", b"[1,2,3]"),
        (Items(Plain("int")), b"\x00", b"[]"),
        # A block that tells its bytes.
        (Items(Plain("int")), b"\x03\x04\x02\x04\x00", None),
        (Items(Plain("null")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", None),
        (Plain("null"), b"\x00", None),
    ],
)
def test_single_values(engine: type[Engine], op: Any, data: bytes, expected: bytes | None) -> None:
    found = engine.avro_reader(b"(", op, b")").text(data, 0)
    assert found == (None if expected is None else b"(%b)" % expected)
    assert engine.avro_reader(b"(", op, b")").text(b"\0" + data, 1) == found


@pytest.mark.parametrize("engine", ENGINES)
def test_json_is_written_as_the_codec_writes_it(engine: type[Engine]) -> None:
    rng = random.Random(13)
    whole = damaged_ones = 0
    for _ in range(200):
        document = connect_type(rng)
        schema = AvroSchema(json.dumps(document))
        reader = ConnectReader(schema.type)
        head, _, end, _ = reader.readable() or pytest.fail("a map")
        writer = ConnectWriter(json.loads(head + b"null}")["schema"])
        ours = engine.avro_writer(head, text_op(writer.schema.type), end)
        for _ in range(8):
            body = avro_bytes(schema.text, random_value(rng, document))
            text = reader.json(schema.read("p", "value", body))
            found = ours.body(text)
            assert found == by_writer(writer, text, head) or found is None
            whole += found is not None
            damaged = head + changed(rng, text[len(head) :])
            found = ours.body(damaged)
            assert found in {None, by_writer(writer, damaged, head)}
            damaged_ones += found is not None
    assert whole > 1500
    assert damaged_ones > 100


def by_writer(writer: ConnectWriter, text: bytes, head: bytes) -> bytes | None:
    try:
        return writer.write(json.loads(text[len(head) : -1]))
    except (ValueError, TypeError):
        return None


_PAIR = Record(((b'"a":', Plain("null")), (b'"b":', Plain("int"))))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("op", "text", "expected"),
    [
        (Plain("int"), b"-2147483648", b"\xff\xff\xff\xff\x0f"),
        (Plain("int"), b"2147483648", None),
        (Plain("long"), b"-9223372036854775808", b"\xff" * 9 + b"\x01"),
        (Plain("long"), b"9223372036854775808", None),
        (Plain("long"), b"1.0", None),
        (Plain("long"), b"true", None),
        (Plain("unsigned"), b"18446744073709551615", b"\1"),
        (Plain("unsigned"), b"1", b"\2"),
        (Plain("unsigned"), b"-1", None),
        (Plain("unsigned"), b"18446744073709551616", None),
        (Plain("uint64"), b"9223372036854775808", b"\x80" + b"\0" * 7),
        (Plain("uint64"), b"-1", None),
        (Branch(1, Plain("int")), b"1", b"\2\2"),
        (Branch(0, Plain("null")), b"null", b"\0"),
        (Branch(0, Plain("null")), b"1", None),
        (Nullable(b"\4x", Plain("int")), b"1", b"\4x\2"),
        (Nullable(b"\4x", Plain("int")), b"null", b"\0"),
        (Nullable(b"\4x", Plain("int")), b"true", None),
        (Nullable(b"\4", Record(((b'"a":', Plain("int")),))), b'{"a":1}', b"\4\2"),
        (Map(((b"a", Plain("int")),)), b'{"a":1}', None),
        (Plain("boolean"), b"true", b"\1"),
        (Plain("boolean"), b"1", None),
        (Plain("float"), b"1e39", struct.pack("<f", math.inf)),
        (Plain("float"), b"-3", struct.pack("<f", -3)),
        (Plain("double"), b"9007199254740993", struct.pack("<d", 9007199254740992)),
        (Plain("double"), b"1e400", None),
        (Plain("double"), b'"NaN"', None),
        (Plain("string"), b'"a\\u00e9\\n"', b"\x08a\xc3\xa9\n"),
        (Plain("string"), b'"a', None),
        (Plain("bytes"), b'"AP8="', b"\4\x00\xff"),
        (Plain("bytes"), b'""', b"\0"),
        (Plain("bytes"), b'"AP8"', None),
        (Union((Plain("null"), Plain("int"))), b"null", b"\0"),
        (Union((Plain("int"), Plain("null"))), b"null", b"\2"),
        (Union((Plain("int"), Plain("null"))), b"-1", b"\0\1"),
        (Union((Plain("int"), Plain("string"))), b"-1", None),
        (Union((Plain("null"), Plain("null"))), b"null", None),
        (Items(Plain("int")), b"[]", b"\0"),
        (Items(Plain("int")), b"[1,2]", b"\4\2\4\0"),
        (Items(Plain("int")), b"[1,]", None),
        (_PAIR, b'{"a":null,"b":1}', b"\2"),
        (_PAIR, b'{"b":1,"a":null}', None),
        (_PAIR, b'{"a":null}', None),
        (_PAIR, b'{"a":null,"b":1,"c":1}', None),
        (Record(()), b"{}", b""),
        (Fixed(2), b'"AP8="', None),
        (Symbols((b'"a"',)), b'"a"', None),
        (Plain("null"), b"nul", None),
    ],
)
def test_single_texts(engine: type[Engine], op: Any, text: bytes, expected: bytes | None) -> None:
    writer = engine.avro_writer(b"<", op, b"!>")
    assert writer.body(b"<" + text + b"!>") == expected
    for other in (text, b"<" + text, b"<" + text + b"!> ", b"<!>", b"<", b""):
        assert writer.body(other) is None


@needs_kernel
@pytest.mark.parametrize("op", [(), ("what",), Plain("map"), Record(((b"a",),)), Union((1,))])  # type: ignore[arg-type]  # no ops
def test_what_is_no_op_is_refused(op: Any) -> None:
    assert KERNEL is not None
    with pytest.raises(ValueError, match=r"field|tuple|name|bytes"):
        KERNEL.avro_reader(b"", op, b"")


def test_a_map_is_not_for_engines() -> None:
    """Of a name that comes twice in it, the last value counts."""
    fields = [{"name": "m", "type": {"type": "map", "values": "int"}}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    assert ConnectReader(schema.type).readable() is None


def test_an_enum_that_is_named_very_often_is_not_for_engines() -> None:
    """Each place of it would have all its symbols."""
    symbols = [f"s{at}" for at in range(1_000)]
    enum = {"type": "enum", "name": "E", "symbols": symbols}
    fields = [{"name": f"f{at}", "type": "E" if at else enum} for at in range(100)]
    schema = AvroSchema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    assert ConnectReader(schema.type).readable() is None
    schema = AvroSchema(json.dumps({"type": "record", "name": "Top", "fields": fields[:10]}))
    assert ConnectReader(schema.type).readable() is not None
