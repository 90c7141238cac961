"""Find members of keys and of schema blocks that Kafka Connect does not define.

The bytes around the columns are the same in consecutive messages of a topic. They are parsed once, remembered
by topic, and compared as bytes after that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.unknown_members import (
    DefinedItems,
    DefinedObject,
    MessageParser,
    OpenMessage,
    Unknown,
    below,
    find_unknown,
    merged,
)

_NULL: Final = msgspec.Raw(b"null")
_BYTES: Final = 500

#: A schema: of a message, of a field, of the items of a list. Parameters may have any name.
_SCHEMA: Final = DefinedObject(
    dict.fromkeys(
        ("type", "optional", "field", "name", "version", "parameters", "doc", "default", "tidb_type")
    )
)
_SCHEMA.members |= {"fields": DefinedItems(_SCHEMA), "items": _SCHEMA, "keys": _SCHEMA, "values": _SCHEMA}


class _Wrapper(OpenMessage, gc=False):
    """A key as JsonConverter writes it with its schema."""

    schema: msgspec.Raw = _NULL
    payload: msgspec.Raw = _NULL


_parse_wrapper: Final = MessageParser(_Wrapper).parse
#: The members of a key with its schema, or of one with a payload alone.
WRAPPED: Final = b'"payload"'


class Blocks:
    """Finds undefined members, and caches those of each topic's last block."""

    def __init__(self, pool: CachePool) -> None:
        self._blocks: ByteCache[str, tuple[bytes, Unknown | None]] = pool.cache()
        #: The bytes before and after the columns of a key without undefined members.
        self._keys: ByteCache[str, tuple[bytes, bytes]] = pool.cache()
        #: Topics whose last schema block had undefined members.
        self.odd: set[str] = set()

    def unknown_in_value(self, topic: str, block: bytes) -> Unknown | None:
        """Return the undefined members of the schema block of a topic's message."""
        found = self._blocks.get(topic)
        if found is None or found[0] != block:
            found = (block, find_unknown(block, _SCHEMA, "schema"))
            self._blocks.keep(topic, found, len(block) + _BYTES)
            if found[1] is None:
                self.odd.discard(topic)
            else:
                self.odd.add(topic)
        return found[1]

    def unknown_in_key(self, topic: str, key: bytes) -> Unknown | None:
        """Return the undefined members of a key that has a wrapper; other keys have only columns."""
        around = self._keys.get(topic)
        if around is not None:
            head, tail = around
            is_between = key.find(b"}", len(head)) == len(key) - len(tail)
            if is_between and key.startswith(head) and key.endswith(tail):
                return None
        return self._look_at_key(topic, key)

    def _look_at_key(self, topic: str, key: bytes) -> Unknown | None:
        try:
            wrapper = _parse_wrapper(key)
        except REFUSED:
            return None
        columns = bytes(wrapper.payload)
        if not columns.startswith(b"{"):
            return None
        in_schema = find_unknown(bytes(wrapper.schema), _SCHEMA, "schema")
        found = below("key", merged(wrapper.unknown, in_schema))
        if found is None:
            at = key.find(columns) if key.startswith(b'{"payload":') else key.rfind(columns)
            around = key[: at + 1], key[at + len(columns) - 1 :]
            self._keys.keep(topic, around, len(key) + _BYTES)
        return found
