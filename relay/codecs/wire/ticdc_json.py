"""JSON as TiCDC prints it: as msgspec does, but with long escapes for two characters."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relay.templates.tracing import mark_of

# `bytes in bytes` first asks whether the former is a number, at the price of an exception; finding a number
# takes a tenth of that.
BACKSLASH: Final = ord("\\")
_print = msgspec.json.Encoder(enc_hook=mark_of).encode
#: msgspec has short escapes for two characters for which TiCDC has none.
_ESCAPE: Final = re.compile(rb"\\(.)")
_LONG_ESCAPES: Final = {b"b": rb"\u0008", b"f": rb"\u000c"}


def printed(value: object) -> bytes:
    """JSON as TiCDC escapes it. Raises OverflowError beyond 64 bits, UnicodeError for lone surrogates."""
    text = _print(value)
    return with_long_escapes(text) if BACKSLASH in text else text


def with_long_escapes(text: bytes) -> bytes:
    """Return msgspec's JSON with the escapes that TiCDC has."""
    if text.find(b"\\b") >= 0 or text.find(b"\\f") >= 0:
        return _ESCAPE.sub(lambda match: _LONG_ESCAPES.get(match[1], match[0]), text)
    return text
