"""Read and write record files, lines of `relay.io.record_lines`, as a stream.

Input may also be plain message values, one a line, or the output of `kcat -J`; the first line decides
(`LineFormat.AUTO`). Routes whose DDL is written to all partitions must know those of the input before the
first record is translated (`with_partitions`).
"""

from __future__ import annotations

import os
import select
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from tempfile import TemporaryFile, gettempdir
from typing import BinaryIO, NamedTuple

import msgspec

from relay.cli.files import Input, LineFormat, Origins, RecordOrigin
from relay.io.record_lines import DECODE_ERRORS, format_record, parse_record
from relay.model.errors import Malformed, ServiceError
from relay.model.records import ConsumerRecord, Header, ProducerRecord
from relay.text.redaction import plain_json

#: Topic of records whose input does not name one.
DEFAULT_TOPIC = "stdin"
_FORMAT_NAME = "record file"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FLUSH_BYTES = 1 << 18


class _KcatProbe(msgspec.Struct, gc=False):
    """The members that identify a line of `kcat -J`."""

    payload: msgspec.Raw
    partition: int
    offset: int
    topic: str
    ts: int = -1
    key: msgspec.Raw = msgspec.Raw(b"null")
    headers: list[str | None] | None = None


_KCAT_DECODER = msgspec.json.Decoder(_KcatProbe)


class _Probe(msgspec.Struct, gc=False):
    """The members that identify a record: both must be present."""

    value: msgspec.Raw
    partition: msgspec.Raw


_PROBE_DECODER = msgspec.json.Decoder(_Probe)


class RecordReader:
    """Iterate over the records of a stream.

    `line` is the number of the line last read, `bytes_read` counts the input. Blank lines are skipped.
    `format` is AUTO until the first line has been seen. `name` is the input's name in errors. `placed`:
    whether a record must name its topic and its offset. `counted`: how many records without an offset each
    partition has had. `origins`: the origins of the lines.
    """

    def __init__(
        self,
        stream: Iterable[bytes],
        name: str,
        input_format: LineFormat = LineFormat.AUTO,
        *,
        placed: bool = False,
        counted: Counter[tuple[str, int]] | None = None,
        origins: Origins | None = None,
    ) -> None:
        self._stream = stream
        self._placed = placed
        self._counted: Counter[tuple[str, int]] = Counter() if counted is None else counted
        self._origins = Origins(name) if origins is None else origins
        self.name = name
        self.format = input_format
        self.line = 0
        self.bytes_read = 0

    @classmethod
    def of(
        cls,
        source: Input,
        lines: Iterable[bytes] | None = None,
        counted: Counter[tuple[str, int]] | None = None,
    ) -> RecordReader:
        """Read an opened input. `lines`: its lines, if they were taken from it already."""
        stream = source.stream if lines is None else lines
        return cls(stream, source.name, source.format, origins=source.origins, counted=counted)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for line in self._lines():
            if self.format is LineFormat.AUTO:
                self.format = detect(line)
            if self.format is LineFormat.RECORDS:
                yield self._record(line)
            elif self.format is LineFormat.KCAT:
                yield self._kcat(line)
            else:
                yield self._value(line)

    def _lines(self) -> Iterator[bytes]:
        for line in self._stream:
            self.line += 1
            self.bytes_read += len(line)
            if text := text_of(line, is_first=self.line == 1):
                yield text

    def _value(self, line: bytes) -> ConsumerRecord:
        return ConsumerRecord(DEFAULT_TOPIC, 0, self._next_offset(DEFAULT_TOPIC, 0), 0, None, line)

    def _record(self, line: bytes) -> ConsumerRecord:
        try:
            if self._placed:
                return parse_record(line)
            return parse_record(line, DEFAULT_TOPIC, self._next_offset)
        except ValueError as error:
            raise Malformed(_FORMAT_NAME, self._read_at(), str(error)) from error

    def _kcat(self, line: bytes) -> ConsumerRecord:
        try:
            found = _KCAT_DECODER.decode(line)
            key, value = _kcat_bytes(found.key), _kcat_bytes(found.payload)
        except DECODE_ERRORS as error:
            raise Malformed("kcat -J", self._read_at(), str(error)) from error
        names = found.headers or []
        headers = tuple(
            (name or "", None if value is None else value.encode())
            for name, value in zip(names[::2], names[1::2], strict=False)
        )
        return ConsumerRecord(found.topic, found.partition, found.offset, found.ts, key, value, headers)

    def where(self, record: ConsumerRecord) -> str:
        """Return the location of the last record in the input, for errors.

        A plain value has no position.
        """
        return self._read_at() if self.origin.is_value else f"{self._read_at()} ({record.position})"

    def position_of(self, record: ConsumerRecord) -> str:
        """Return the record's position; for a plain value, its location in the input."""
        return self._read_at() if self.origin.is_value else str(record.position)

    @property
    def origin(self) -> RecordOrigin:
        """Return the origin of the last record."""
        found = self._origins.at(self.line)
        return found._replace(is_value=found.is_value or self.format is LineFormat.VALUES)

    def _read_at(self) -> str:
        return f"{self.origin.name} line {self.origin.line}"

    def _next_offset(self, topic: str, partition: int) -> int:
        self._counted[topic, partition] += 1
        return self._counted[topic, partition] - 1


def text_of(line: bytes, *, is_first: bool) -> bytes:
    """Return a line without its end, LF or CR LF; b"" for a blank one."""
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    if is_first:
        # Editors of Windows begin a file with it.
        text = text.removeprefix(_BYTE_ORDER_MARK)
    return b"" if text.isspace() else text


def _kcat_bytes(part: msgspec.Raw) -> bytes | None:
    """Return a key or a payload: kcat prints it as a text, or as JSON if configured to decode it."""
    text = bytes(part)
    if text == b"null":
        return None
    return msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text


def detect(line: bytes) -> LineFormat:
    """Detect the format of all lines from the first."""
    for decoder, found in ((_PROBE_DECODER, LineFormat.RECORDS), (_KCAT_DECODER, LineFormat.KCAT)):
        try:
            decoder.decode(line)
        except DECODE_ERRORS:
            continue
        return found
    return LineFormat.VALUES


class RecordWriter:
    """Write records as lines, with offsets counted from 0 in each topic and partition.

    A file never ends in the middle of a line. `raw` is an unbuffered binary file, `name` its name in errors.
    `live` writes every record at once, for input that arrives slowly.
    """

    def __init__(self, raw: BinaryIO, name: str, *, live: bool = False) -> None:
        self._raw = raw
        self._name = name
        self._live = live
        self._pending = bytearray()
        self._counted: Counter[tuple[str, int]] = Counter()
        # On a terminal control characters are escaped; elsewhere the bytes are those that relay would write
        # to Kafka.
        self._is_shown = raw.isatty()
        self.records = 0

    def write(self, record: ProducerRecord) -> None:
        """Write a translated record; its offset is the number of those before it in its partition."""
        partition = record.topic, record.partition
        self._append(format_record(record, self._counted[partition]))
        self._counted[partition] += 1

    def write_original(self, record: ConsumerRecord, more_headers: Sequence[Header] = ()) -> None:
        """Write a source record unchanged, with its offset and additional headers."""
        headers = (*record.headers, *more_headers)
        self._append(format_record(msgspec.structs.replace(record, headers=headers), record.offset))

    def _append(self, line: bytes) -> None:
        self._pending += plain_json(line) if self._is_shown else line
        self.records += 1
        if self._live or len(self._pending) >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Pass all buffered data to the operating system.

        Raises ServiceError if it accepts no more, BrokenPipeError if the reader has gone.
        """
        data, self._pending = self._pending, bytearray()
        sent = 0
        try:
            while sent < len(data):
                written: int | None = self._raw.write(memoryview(data)[sent:])
                if written is None:  # a non-blocking pipe that is full
                    select.select((), (self._raw,), ())
                sent += written or 0
        except BaseException as error:
            self.records -= data.count(b"\n", sent)
            self._cut_half_line(data, sent)
            if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
                raise
            reason = error.strerror or error
            raise ServiceError(
                f"cannot write {self._name}: {reason}; records written so far are kept"
            ) from error

    def _cut_half_line(self, data: bytearray, sent: int) -> None:
        """Remove an incomplete line from the file's end, whose last bytes are the first `sent` of `data`."""
        half = sent - (data.rfind(b"\n", 0, sent) + 1)
        if half and self._raw.seekable():
            end = self._raw.seek(0, os.SEEK_END)  # a file opened for appending has other bytes before ours
            self._raw.seek(end - half)
            self._raw.truncate()


class InputPartitions(NamedTuple):
    """The lines of an input from its beginning, and its partitions: topic and number."""

    lines: Iterable[bytes]
    partitions: Iterable[tuple[str, int]]


class _RecordPartition(msgspec.Struct, gc=False):
    """The partition of a record; its other members are ignored."""

    partition: int
    topic: str | None = None


_PARTITION_DECODER = msgspec.json.Decoder(_RecordPartition)


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
            where = _PARTITION_DECODER.decode(text_of(line, is_first=number == 0))
        except DECODE_ERRORS:
            continue
        found[where.topic or DEFAULT_TOPIC, where.partition] = None
    return list(found)
