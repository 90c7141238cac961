"""Whatever the bytes of key and value, Open Protocol gives events or a DecodeError; so does an encoder that
reads its rows.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_support import V1, cell, ddl, framed, raw, resolved, row, segment
from support import CANAL, OPEN, TICDC, captured, captured_files

from relay import ConsumerRecord, DecodeError, NotRepresentable, RowChange, Translator

VARIANTS = [
    "ticdc/open-protocol",
    "ticdc/open-protocol.batch",
    "ticdc/open-protocol.updated-columns",
    "ticdc/open-protocol.lz4",
]
TARGETS = [OPEN, CANAL, TICDC]
CREATE = ddl(
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b BLOB, c FLOAT, e TIMESTAMP, f ENUM('x'), g JSON)"
)
NEW = {
    "id": cell(3, 1, 11, h=True), "a": cell(15, "x", 64), "b": cell(252, "eA=="), "c": cell(4, 1.5),
    "e": cell(7, "2024-01-01 00:00:00"), "f": cell(247, 1, 64), "g": cell(245, "{}"),
}  # fmt: skip
SHORT = [
    row({"u": NEW}), row({"u": NEW, "p": {"a": cell(15, r"\x00", 64)}}), row({"d": NEW}), row('{"u":{"a":{"t":15,"v":"YQ=="}}}'),
    row('{"u":{"a":{"t":15,"f":64,"v":null}},"p":{"t":15,"f":64,"v":"a"}}'), resolved(9), CREATE,
]  # fmt: skip


def survives(translator: Translator, record: ConsumerRecord) -> bool:
    """Translate and read every value; True if it was a message."""
    try:
        translator.translate(record)
        for event in translator.inspect(record):
            if isinstance(event, RowChange):
                _ = event.before, event.after
    except (DecodeError, NotRepresentable) as error:
        assert error.reason
        return False
    return True


def warm(target: str = CANAL, source_options: dict[str, str] | None = None) -> Translator:
    """A translator that has seen the short messages, and so reads their like on the short way."""
    translator = Translator(OPEN, target, source_options)
    for at, message in enumerate((CREATE, *SHORT)):
        assert survives(translator, framed(message, offset=at))
    return translator


@given(st.none() | st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_arbitrary_bytes(key: bytes | None, value: bytes | None) -> None:
    translator = Translator(OPEN, OPEN)
    survives(translator, raw(key, value))
    survives(translator, raw(V1 + (key or b""), value))
    survives(translator, raw(V1 + segment(key or b""), segment(value or b"")))
    survives(translator, framed(row(value or b"")))


@pytest.mark.parametrize("target", TARGETS)
def test_short_messages_cut_at_every_byte(target: str) -> None:
    translator = warm(target)
    for message in SHORT:
        whole = framed(message)
        key, value = whole.key or b"", whole.value or b""
        for end in range(len(key)):
            assert not survives(translator, raw(key[:end], value))
        for end in range(len(value)):
            assert not survives(translator, raw(key, value[:end])) or (message == resolved(9) and end == 0)


@pytest.mark.one_case
@pytest.mark.parametrize("target", TARGETS)
def test_short_messages_with_every_byte_changed(target: str) -> None:
    translator = warm(target, {"timezone": "Asia/Shanghai"})
    for message in SHORT:
        whole = framed(message)
        key, value = whole.key or b"", whole.value or b""
        for other in (0x00, 0x22, 0x30, 0x39, 0x7B, 0x80, 0xFF):
            for at in range(len(key)):
                survives(translator, raw(key[:at] + bytes([other]) + key[at + 1 :], value))
            for at in range(len(value)):
                survives(translator, raw(key, value[:at] + bytes([other]) + value[at + 1 :]))


_number = st.integers() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False)
_scalar = st.none() | st.booleans() | _number | st.text(max_size=9)
_json = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_cell = st.fixed_dictionaries(
    {
        "t": st.sampled_from(
            [0, 1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 225, 245, 246, 247, 248, 252, 253, 254, 255]
        )
        | _json
    },
    optional={"f": st.integers(0, 511) | _json, "v": _json, "h": st.booleans() | _json, "x": _json},
)
_cells = st.dictionaries(
    st.sampled_from(["id", "a", "b", "c", "t", "v", "f", "", '"']), _cell | _json, max_size=4
)
_part = _cells | _json | _cell


@given(
    st.fixed_dictionaries({}, optional={"u": _part, "p": _part, "d": _part, "q": _json, "t": _json}),
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("ts", "t", "scm", "tbl", "ptn", "ohk", "ccl", "rid"), _json)
    ),
    st.sampled_from([1, 2, 3]),
)
def test_messages_with_anything_in_their_members(
    value: dict[str, Any], key: dict[str, Any], kind: int
) -> None:
    for target in TARGETS:
        translator = Translator(OPEN, target, {"timezone": "Asia/Shanghai"})
        survives(translator, framed((json.dumps(key), json.dumps(value))))
        for _ in range(2):
            survives(translator, framed(row(json.dumps(value), t=kind)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_captured_messages_cut_and_flipped_at_random(variant: str) -> None:
    chance = random.Random(20261121)
    translator = Translator(OPEN, CANAL)
    for path in captured_files(variant):
        for source in captured(path):
            key, value = source.key or b"", source.value or b""
            survives(translator, source)
            for end in {chance.randrange(len(key)) for _ in range(3)}:
                assert not survives(translator, raw(key[:end], value))
            for end in {chance.randrange(1, len(value)) for _ in range(3)}:
                assert not survives(translator, raw(key, value[:end]))
            for _ in range(3):
                parts = bytearray(key), bytearray(value)
                for _ in range(chance.randint(1, 4)):
                    part = chance.choice(parts)
                    part[chance.randrange(len(part))] = chance.randrange(256)
                survives(translator, raw(bytes(parts[0]), bytes(parts[1])))
