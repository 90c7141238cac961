"""Strings of all characters, in each form that JSON has for them, are printed as msgspec prints them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from engine_support import ANYWHERE, ENGINES, filled, template

from relay.codecs.shared.ticdc import printed
from relay.templates.engine import Engine
from relay.templates.ops import MOST_REWRITTEN, Put, Take

pytestmark = pytest.mark.parametrize("make", ENGINES)

SURROGATES = range(0xD800, 0xE000)
#: How many characters are in a string.
SIZE = 1 << 9


def texts() -> Iterator[str]:
    characters = [chr(code) for code in range(0x110000) if code not in SURROGATES]
    for start in range(0, len(characters), SIZE):
        yield "".join(characters[start : start + SIZE])


def engine_of(make: type[Engine], put: Put) -> Engine:
    engine = make(ANYWHERE)
    engine.add(template((Take(("string",)),), (put,)))
    return engine


@pytest.mark.parametrize("has_capitals", [False, True])
def test_escaped(make: type[Engine], has_capitals: bool) -> None:
    engine, like_ticdc = engine_of(make, Put((0,))), engine_of(make, Put((0,), long_escapes=True))
    for text in texts():
        digits = text.encode("utf-16-be").hex("-", 2)
        units = (digits.upper() if has_capitals else digits).replace("-", r"\u")
        token = rf'"\u{units}"'.encode()
        assert filled(engine, token) == msgspec.json.encode(text)
        assert filled(like_ticdc, token) == printed(text)


def test_as_msgspec_prints_them(make: type[Engine]) -> None:
    engine, like_ticdc = engine_of(make, Put((0,))), engine_of(make, Put((0,), long_escapes=True))
    for text in texts():
        token = msgspec.json.encode(text)
        assert filled(engine, token) == token
        assert filled(like_ticdc, token) == printed(text)


def test_each_place_in_a_string(make: type[Engine]) -> None:
    """What is special is found wherever it stands among other characters."""
    engine = engine_of(make, Put((0,)))
    for length in range(20):
        for index in range(length + 1):
            before, behind = b"a" * index, b"a" * (length - index)
            for special in (rb"\"", rb"\\", rb"\n", "é".encode(), b"\x7f", b" ", b"!", b"#", b"[", b"]"):
                text = b'"' + before + special + behind + b'"'
                assert filled(engine, text) == text
            for special in (b'"', b"\x1f", b"\x00", b"\x80", b"\xff", b"\xa2", b"\xdc", b"\xc3", b"\\"):
                assert filled(engine, b'"' + before + special + behind + b" ") is None
                assert filled(engine, b'"' + before + special + behind + b' "') is None
            shorter = b'"' + before + b"/" + behind + b'"'
            assert filled(engine, shorter.replace(b"/", rb"\/")) == shorter


def test_lone_surrogates(make: type[Engine]) -> None:
    engine = engine_of(make, Put((0,)))
    for code in SURROGATES:
        assert filled(engine, b'"a"') == b'"a"', "which pays for those that do not fit"
        for text in (rb"\u%04x", rb"a\u%04xb", rb"\u%04x\u0041", rb"\u%04X\ud800", rb"\udc00\u%04x"):
            assert filled(engine, b'"' + text % code + b'"') is None
        assert filled(engine, b'"' + chr(code).encode("utf-8", "surrogatepass") + b'"') is None


def test_many_escapes(make: type[Engine]) -> None:
    engine = engine_of(make, Put((0,), long_escapes=True))
    for piece, result in ((rb"\b", rb"\u0008"), (rb"\n", rb"\n"), (rb"\"", rb"\"")):
        assert filled(engine, b'"' + piece * 100_000 + b'"') == b'"' + result * 100_000 + b'"'
    for piece, result in ((rb"\/", b"/"), (rb"\ud83d\ude00", "😀".encode()), (rb"\u0008", rb"\u0008")):
        assert filled(engine, b'"' + piece * 600 + b'"') == b'"' + result * 600 + b'"'


def test_long_texts_with_escapes_of_others(make: type[Engine]) -> None:
    """How far a string with such escapes begins before the part's end decides."""
    engine = make(ANYWHERE)
    engine.add(template((Take(("string",)), Take(("string",))), (Put((1,)), Put((0,)))))
    for escape in (rb"\/", rb"\u0041", rb"\u0008", rb"\u001F", rb"\ud83d\ude00"):
        for length, fits in ((MOST_REWRITTEN, True), (MOST_REWRITTEN + 1, False)):
            text = b'"' + escape + b'"'
            message = text + b'"' + b"x" * (length - len(text) - 2) + b'"'
            assert (filled(engine, message) is not None) == fits
            assert filled(engine, message[len(text) :] + text) is not None
