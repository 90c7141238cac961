"""Messages made Avro by an engine: written from their JSON in one step, where the schema is known.

Contract: an `EngineSealer` gives what the codec itself gives, and raises what that raises. It leaves to it
the first message of each schema of a topic, and texts that the engine does not write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.codecs.wire.avro import PREFIX_BYTES, Part
from relay.codecs.wire.avro_opening import OP_BYTES, EngineSchema
from relay.codecs.wire.caches import ByteCache, CachePool
from relay.templates.engine import Engine

#: What stands before the Avro, and what writes that.
_Writer = tuple[bytes, Callable[[bytes], bytes | None]]

_KEY_BYTES: Final = 500


class EngineSealer:
    """Makes messages with an engine.

    `write`: how the codec makes any key or value for a topic. `find`: gives the schema of a text that `write`
    has just made something of, None if engines are not to write it.
    """

    def __init__(
        self,
        engine: type[Engine],
        write: Callable[[str, Part, bytes], bytes],
        find: Callable[[Part, bytes], EngineSchema | None],
        pool: CachePool,
    ) -> None:
        self._engine, self._write, self._find = engine, write, find
        #: Those of the last message of a topic, and all, by what stands before the Avro.
        self._newest: ByteCache[tuple[str, Part], _Writer] = pool.cache()
        self._all: ByteCache[tuple[str, Part, bytes], _Writer] = pool.cache()

    def seal(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return the Avro of a message's JSON; see `SealingEncoder`."""
        return (
            None if key is None else self._part(topic, "key", key),
            None if value is None else self._part(topic, "value", value),
        )

    def _part(self, topic: str, part: Part, text: bytes) -> bytes:
        newest = self._newest.get((topic, part))
        if newest is not None:
            prefix, write = newest
            body = write(text)
            if body is not None:
                return prefix + body
        sealed = self._write(topic, part, text)
        self._learn(topic, part, text, sealed[:PREFIX_BYTES])
        return sealed

    def _learn(self, topic: str, part: Part, text: bytes, prefix: bytes) -> None:
        """Learn the schema of a text, whose Avro stands behind this."""
        writer = self._all.get((topic, part, prefix))
        if writer is None:
            writer, size = self._made(part, text, prefix)
            self._all.keep((topic, part, prefix), writer, size)
        self._newest.keep((topic, part), writer, _KEY_BYTES)

    def _made(self, part: Part, text: bytes, prefix: bytes) -> tuple[_Writer, int]:
        """What writes texts of a schema, and the bytes that it takes."""
        schema = self._find(part, text)
        if schema is None:
            return (prefix, _writes_nothing), _KEY_BYTES
        head, op, end, values = schema
        return (prefix, self._engine.avro_writer(head, op, end).body), len(head) + OP_BYTES * (1 + values)


def _writes_nothing(_text: bytes) -> bytes | None:
    return None
