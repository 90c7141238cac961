"""Converting spatial values between MySQL's own bytes and Maxwell's text (WKT, as JTS prints it).

`read_geometry` and `geometry_text` are inverse except for the SRID, which the text lacks: it is read as 0.
Both raise ValueError. Source: OGC Simple Features 1.2.1 §7, §8; MySQL Reference Manual 8.4 §13.4.3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Final

from relay.mysql.numbers import go_text

_KINDS: Final = {
    "POINT": 1, "LINESTRING": 2, "POLYGON": 3, "MULTIPOINT": 4, "MULTILINESTRING": 5, "MULTIPOLYGON": 6,
    "GEOMETRYCOLLECTION": 7,
}  # fmt: skip
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
#: The kinds of the parts of a MULTI….
_PARTS: Final = {4: 1, 5: 2, 6: 3}
_COLLECTION: Final = 7
#: Maximum nesting of collections; MySQL's limit is the size of a value.
_DEEPEST: Final = 64
_SRID_BYTES: Final = 4
_TOKEN: Final = re.compile(r"\s*([A-Za-z]+|[(),]|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)")

# ---------------------------------------------------------------- text to bytes


def read_geometry(text: str) -> bytes:
    """Return the bytes of a text: the SRID 0, and WKB with the lowest byte first. Raises ValueError."""
    words = _GeometryTokens(text)
    wkb = _geometry(words, _DEEPEST)
    words.end()
    return bytes(_SRID_BYTES) + wkb


class _GeometryTokens:
    """The tokens (words, numbers and punctuation) of a text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def next(self) -> str:
        """Take the next token. Raises ValueError."""
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise ValueError("not a geometry")
        self._at = found.end()
        return found[1].upper()

    def has(self, word: str) -> bool:
        """Take the next token if it is this one; return whether it is."""
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[1].upper() != word:
            return False
        self._at = found.end()
        return True

    def expect(self, word: str) -> None:
        """Take this token. Raises ValueError."""
        if not self.has(word):
            raise ValueError("not a geometry")

    def end(self) -> None:
        """Raise ValueError if there are more tokens."""
        if self._text[self._at :].strip():
            raise ValueError("not a geometry")


def _geometry(words: _GeometryTokens, depth: int) -> bytes:
    kind = _KINDS.get(words.next())
    if kind is None or depth < 0:
        raise ValueError("not a geometry")
    return _body(words, kind, depth)


def _body(words: _GeometryTokens, kind: int, depth: int) -> bytes:
    """Parse the part after a geometry's name."""
    head = struct.pack("<BI", 1, kind)
    if kind == 1:
        words.expect("(")
        point = _point(words)
        words.expect(")")
        return head + point
    if words.has("EMPTY"):
        return head + struct.pack("<I", 0)
    if kind == 2:
        return head + _points(words)
    if kind == 3:
        return head + _listed(words, _points)
    if kind == _COLLECTION:
        return head + _listed(words, lambda inner: _geometry(inner, depth - 1))
    return head + _listed(words, lambda inner: _part(inner, _PARTS[kind], depth))


def _part(words: _GeometryTokens, kind: int, depth: int) -> bytes:
    """Parse a part of a MULTI…, which has no name; a point may lack its parentheses."""
    return _body(words, kind, depth)


def _listed(words: _GeometryTokens, part: Callable[[_GeometryTokens], bytes]) -> bytes:
    """Parse the parts in parentheses; return them after their number."""
    words.expect("(")
    parts = [part(words)]
    while words.has(","):
        parts.append(part(words))
    words.expect(")")
    return struct.pack("<I", len(parts)) + b"".join(parts)


def _points(words: _GeometryTokens) -> bytes:
    return _listed(words, _point)


def _point(words: _GeometryTokens) -> bytes:
    return struct.pack("<dd", _coordinate(words), _coordinate(words))


def _coordinate(words: _GeometryTokens) -> float:
    try:
        return float(words.next())
    except ValueError:  # its text quotes the value
        raise ValueError("not a geometry") from None


# ---------------------------------------------------------------- bytes to text


def geometry_text(value: bytes) -> str:
    """Return the text of MySQL's bytes, without their SRID. Raises ValueError."""
    wkb = _Bytes(value[_SRID_BYTES:])
    try:
        text = _text(wkb, _DEEPEST)
    except struct.error:
        raise ValueError("not a geometry") from None
    wkb.end()
    return text


class _Bytes:
    """WKB, read from its first byte to its last."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def head(self) -> tuple[int, str]:
        """Take the byte order and the kind of a geometry."""
        order = ">" if self._data[self._at : self._at + 1] == b"\0" else "<"
        self._at += 1
        return self.count(order), order

    def count(self, order: str) -> int:
        """Take a number of 4 bytes. Raises struct.error."""
        (found,) = struct.unpack_from(f"{order}I", self._data, self._at)
        self._at += 4
        return int(found)

    def point(self, order: str) -> str:
        """Take a point's numbers as text. Raises struct.error, ValueError."""
        x, y = struct.unpack_from(f"{order}dd", self._data, self._at)
        self._at += 16
        return f"{go_text(x)} {go_text(y)}"

    def end(self) -> None:
        """Raise ValueError if there are more bytes."""
        if self._at != len(self._data):
            raise ValueError("not a geometry")


def _text(wkb: _Bytes, depth: int) -> str:
    kind, order = wkb.head()
    name = _NAMES.get(kind)
    if name is None or depth < 0:
        raise ValueError("not a geometry")
    return f"{name} {_shape(wkb, kind, order, depth)}"


def _shape(wkb: _Bytes, kind: int, order: str, depth: int) -> str:
    if kind == 1:
        return f"({wkb.point(order)})"
    count = wkb.count(order)
    if not count:
        return "EMPTY"
    return f"({', '.join(_shapes(wkb, kind, order, count, depth))})"


def _shapes(wkb: _Bytes, kind: int, order: str, count: int, depth: int) -> Iterator[str]:
    for _ in range(count):
        if kind == 2:
            yield wkb.point(order)
        elif kind == 3:
            yield _shape(wkb, 2, order, depth)
        elif kind == _COLLECTION:
            yield _text(wkb, depth - 1)
        else:
            part, part_order = wkb.head()
            if part != _PARTS[kind]:
                raise ValueError("not a geometry")
            yield _shape(wkb, part, part_order, depth)
