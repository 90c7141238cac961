"""Serializing messages to Avro with an engine: one step from their JSON for known schemas.

An `EngineSealer` returns the same bytes as the codec, and raises the same errors. It leaves to the codec the
first message of each schema of a topic, and texts that the engine does not write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.codecs.shared.avro import PREFIX_BYTES, Part
from relay.codecs.shared.avro_opening import OP_BYTES, EngineSchema
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.templates.engine import Engine

#: The bytes before the Avro, and the function that writes the Avro.
_Writer = tuple[bytes, Callable[[bytes], bytes | None]]

_NONE: Final[list[_Writer]] = []
_KEY_BYTES: Final = 500
#: Maximum schemas to compare with a text of a topic; texts of other schemas differ from it near their start.
_MOST_TRIED: Final = 32


class EngineSealer:
    """Serializes messages with an engine.

    `write`: the codec's function for any key or value for a topic. `find`: returns the schema of a text that
    `write` has just written, None if engines must not write it.
    """

    def __init__(
        self,
        engine: type[Engine],
        write: Callable[[str, Part, bytes], bytes],
        find: Callable[[Part, bytes], EngineSchema | None],
        pool: CachePool,
    ) -> None:
        self._engine, self._write, self._find = engine, write, find
        #: All writers by the bytes before the Avro, and those of a topic's last messages, newest first.
        self._all: ByteCache[tuple[str, Part, bytes], _Writer] = pool.cache()
        self._last: ByteCache[tuple[str, Part], list[_Writer]] = pool.cache()

    def seal(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return the Avro of a message's JSON; see `SerializingEncoder`."""
        return (
            None if key is None else self._part(topic, "key", key),
            None if value is None else self._part(topic, "value", value),
        )

    def _part(self, topic: str, part: Part, text: bytes) -> bytes:
        last = self._last.get((topic, part), _NONE)
        for at, (prefix, write) in enumerate(last):
            body = write(text)
            if body is not None:
                if at:
                    _move_to_front(last, at)
                return prefix + body
        sealed = self._write(topic, part, text)
        self._learn(topic, part, text, sealed[:PREFIX_BYTES])
        return sealed

    def _learn(self, topic: str, part: Part, text: bytes, prefix: bytes) -> None:
        """Learn the schema of a text whose Avro follows this prefix."""
        writer = self._all.get((topic, part, prefix))
        if writer is None:
            writer, size = self._build(part, text, prefix)
            self._all.keep((topic, part, prefix), writer, size)
        last = self._last.get((topic, part))
        if last is None:
            last = self._last.keep((topic, part), [], _KEY_BYTES)
        if writer not in last:
            last.insert(0, writer)
        del last[_MOST_TRIED:]

    def _build(self, part: Part, text: bytes, prefix: bytes) -> tuple[_Writer, int]:
        """Return the writer for texts of a schema, and its memory in bytes."""
        schema = self._find(part, text)
        if schema is None:
            return (prefix, _writes_nothing), _KEY_BYTES
        head, op, end, values = schema
        return (prefix, self._engine.avro_writer(head, op, end).body), len(head) + OP_BYTES * (1 + values)


def _move_to_front(writers: list[_Writer], at: int) -> None:
    writers.insert(0, writers.pop(at))


def _writes_nothing(_text: bytes) -> bytes | None:
    return None
