"""Detection rules: how codecs recognize messages of their protocols.

A codec's `detection_rule` accepts any bytes, raises nothing, and returns a match: the evidence, its strength,
and the options of the message's producer. `relay.core.detection` compares the matches.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from relay.model.records import Header

REFUSED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NUMBER, _GUID = 0, 1
#: Decoders of JSON skip it.
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUMBER_BYTES, _GUID_BYTES = 5, 17


class Strength(enum.IntEnum):
    """The strength of a match.

    POSSIBLE: the message may be one of this protocol. LIKELY: it has a combination that no other format has.
    CERTAIN: it has a part that only this producer writes.
    """

    POSSIBLE = 1
    LIKELY = 2
    CERTAIN = 3


class FormatMatch(NamedTuple):
    """A codec's evidence in a message. `title`: the users' name of the format. `settings`: options of the
    codec that describe the producer, as far as this message shows.
    """

    strength: Strength
    title: str
    evidence: str
    settings: Mapping[str, str] = {}


class DetectionMessage:
    """A message for detection rules.

    `text`: the value decompressed and without a byte order mark; `compression`: its compression ("" for
    none). `members`: those of a JSON object, none for any other value. `avro`: the bytes after the id of a
    registry's schema, None if there is no such id before it, as with `is_bare`; `schema`: that schema's text,
    "" if unknown.
    """

    __slots__ = ("_inside", "avro", "compression", "headers", "key", "members", "schema", "text", "value")

    def __init__(  # noqa: PLR0913 - the parts of a message
        self,
        key: bytes | None,
        value: bytes,
        headers: tuple[Header, ...] = (),
        *,
        text: bytes | None = None,
        compression: str = "",
        schema: str = "",
        avro: bytes | None = None,
    ) -> None:
        self.key, self.value, self.headers = key, value, headers
        self.text = (value if text is None else text).removeprefix(_BYTE_ORDER_MARK)
        self.compression, self.schema = compression, schema
        self.members: Mapping[str, msgspec.Raw] = members_in(self.text)
        self.avro = avro
        self._inside: dict[tuple[str, ...], Mapping[str, msgspec.Raw]] = {(): self.members}

    def string(self, name: str) -> str:
        """Return the text of a member, "" if it has none."""
        return string_in(self.members, name)

    def inside(self, *path: str) -> Mapping[str, msgspec.Raw]:
        """Return the members of an object in the message; none if there is no object."""
        found = self._inside.get(path)
        if found is None:
            text = self.inside(*path[:-1]).get(path[-1])
            found = self._inside[path] = {} if text is None else members_in(text)
        return found


def members_in(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object, none for any other text."""
    try:
        return _decode_members(text)
    except REFUSED:
        return {}


def string_in(members: Mapping[str, msgspec.Raw], name: str) -> str:
    """Return the text of a member, "" if it has none."""
    try:
        return msgspec.json.decode(members.get(name, b""), type=str)
    except REFUSED:
        return ""


def behind_schema_id(value: bytes) -> bytes | None:
    """Return the bytes after a schema id: four bytes above 0 after a zero byte, or a GUID after a 1."""
    if value[:1] == bytes([_NUMBER]) and len(value) > _NUMBER_BYTES:
        id = int.from_bytes(value[1:_NUMBER_BYTES], "big", signed=True)
        return value[_NUMBER_BYTES:] if id > 0 else None
    if value[:1] == bytes([_GUID]) and len(value) > _GUID_BYTES and value[1:2] != b"{":
        return value[_GUID_BYTES:]
    return None


#: Returns the match of a message; None if nothing in it points to this protocol.
DetectionRule = Callable[[DetectionMessage], FormatMatch | None]


def matches_nothing(_: DetectionMessage) -> FormatMatch | None:
    """Return None: nothing identifies messages of a protocol."""
    return None
