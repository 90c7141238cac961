"""Decompress record batches, within a limit: a batch of some kilobytes may decompress to any size."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
from aiokafka.errors import CorruptRecordException

from relay.model.errors import TopicUnusable

#: The most bytes of a batch after decompression. Producers limit one before compression, often to a megabyte.
MOST_BATCH_BYTES: Final = 256 * 1024 * 1024
#: The size of the buffer that is kept from one batch to the next; most batches fit into it.
_USUAL_BYTES: Final = 2 * 1024 * 1024
_GROWTH: Final = 4
#: The text of cramjam's error for a buffer that is too small.
_NO_SPACE: Final = "failed to write whole buffer"
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
#: The beginning of Snappy's blocks as its Java library writes them: a marker and two versions.
_XERIAL_MARKER: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16


class _TooLarge(Exception):
    """The text has more bytes than allowed."""


class Unpacker:
    """Decompresses batches one after the other. Its buffer makes that several times faster."""

    def __init__(self, most_bytes: int = MOST_BATCH_BYTES) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray(min(_USUAL_BYTES, most_bytes))

    def unpack(self, codec: int, packed: bytes, where: str) -> bytes:
        """Decompress the records of a batch. `codec`: the number in its attributes. `where`: its position.

        Raises CorruptRecordException for damaged data or an unknown codec, TopicUnusable if the batch is too
        large.
        """
        try:
            if codec == _GZIP:
                return self._gunzip(packed)
            if codec == _SNAPPY:
                return self._unsnap(packed)
            if codec in _INTO_BUFFER:
                return self._into_buffer(_INTO_BUFFER[codec], packed)
        except (cramjam.DecompressionError, EOFError, OSError, zlib.error) as error:
            raise CorruptRecordException(f"{where}: a record batch is damaged: {error}") from error
        except _TooLarge as error:
            raise TopicUnusable(
                f"{where}: a record batch of {len(packed)} bytes decompresses to more than the "
                f"{self._most_bytes} bytes that relay allows; its producer must write smaller batches"
            ) from error
        raise CorruptRecordException(f"{where}: a record batch has the unknown compression {codec}")

    def _gunzip(self, packed: bytes) -> bytes:
        with gzip.GzipFile(fileobj=io.BytesIO(packed), mode="rb") as stream:
            text = stream.read(self._most_bytes + 1)
        self._check(len(text))
        return text

    def _unsnap(self, packed: bytes) -> bytes:
        if not packed.startswith(_XERIAL_MARKER):
            return self._unsnapped([packed])
        blocks, at = [], _XERIAL_HEAD_BYTES
        while at < len(packed):
            end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
            blocks.append(packed[at + 4 : end])
            at = end
        return self._unsnapped(blocks)

    def _unsnapped(self, blocks: list[bytes]) -> bytes:
        self._check(sum(map(cramjam.snappy.decompress_raw_len, blocks)))
        return b"".join([bytes(cramjam.snappy.decompress_raw(block)) for block in blocks])

    def _into_buffer(self, decompress_into: Callable[[bytes, bytearray], int], packed: bytes) -> bytes:
        buffer = self._buffer
        while True:
            try:
                length = decompress_into(packed, buffer)
            except cramjam.DecompressionError as error:
                if str(error) != _NO_SPACE:
                    raise
                # Larger buffers are not kept.
                self._check(len(buffer) + 1)
                buffer = bytearray(min(_GROWTH * len(buffer), self._most_bytes))
            else:
                return bytes(memoryview(buffer)[:length])

    def _check(self, length: int) -> None:
        if length > self._most_bytes:
            raise _TooLarge


_INTO_BUFFER: Final[dict[int, Callable[[bytes, bytearray], int]]] = {
    _LZ4: cramjam.lz4.decompress_into,
    _ZSTD: cramjam.zstd.decompress_into,
}
