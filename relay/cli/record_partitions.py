"""Find the partitions of an input, for routes whose DDL is written to all of them.

They must be known before the first record is translated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from tempfile import TemporaryFile, gettempdir
from typing import NamedTuple

import msgspec

from relay.cli.files import Input, LineFormat
from relay.cli.record_files import DEFAULT_TOPIC, detect, text_of
from relay.io.record_lines import DECODE_ERRORS
from relay.model.errors import ServiceError


class InputPartitions(NamedTuple):
    """The lines of an input from its beginning, and its partitions: topic and number."""

    lines: Iterable[bytes]
    partitions: Iterable[tuple[str, int]]


class _RecordPartition(msgspec.Struct, gc=False):
    """The partition of a record; its other members are ignored."""

    partition: int
    topic: str | None = None


_DECODER = msgspec.json.Decoder(_RecordPartition)


@contextmanager
def with_partitions(source: Input) -> Iterator[InputPartitions]:
    """Read an input to its end to find its partitions, and yield its lines anew.

    An input that cannot be read twice is copied to a temporary file meanwhile. Plain values are all of one
    partition, and pass as they come. Raises ServiceError if there is no space for the file.
    """
    stream, begun, input_format = source.stream, list[bytes](), source.format
    start = stream.tell() if stream.seekable() else None
    if input_format is LineFormat.AUTO:
        for line in stream:
            begun.append(line)
            if text := text_of(line, is_first=len(begun) == 1):
                input_format = detect(text)
                break
    lines = chain(begun, stream)
    if input_format not in {LineFormat.RECORDS, LineFormat.KCAT}:
        yield InputPartitions(lines, [(DEFAULT_TOPIC, 0)])
    elif start is not None:
        partitions = _partitions(lines)
        stream.seek(start)
        yield InputPartitions(stream, partitions)
    else:
        with TemporaryFile() as kept:
            try:
                kept.writelines(lines)
                kept.seek(0)
            except OSError as error:
                reason = f"{error.strerror or error}; input from a file needs no space there"
                raise ServiceError(f"cannot keep {source.name} in {gettempdir()}: {reason}") from error
            partitions = _partitions(kept)
            kept.seek(0)
            yield InputPartitions(kept, partitions)


def _partitions(lines: Iterable[bytes]) -> list[tuple[str, int]]:
    """Find the partitions that records name. A line that is not a record is refused by a later reader."""
    found: dict[tuple[str, int], None] = {}
    for number, line in enumerate(lines):
        try:
            where = _DECODER.decode(text_of(line, is_first=number == 0))
        except DECODE_ERRORS:
            continue
        found[where.topic or DEFAULT_TOPIC, where.partition] = None
    return list(found)
