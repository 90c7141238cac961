"""Inputs of every kind as one stream of lines: files, folders, compressed files, pasted text.

A single file of plain lines is passed on unchanged. Everything else is first written to a temporary file, one
record or message a line, so that readers may seek.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple, cast

import orjson

from relay.cli.files import STANDARD, Input, LineFormat, Origins, RecordOrigin, open_input
from relay.cli.record_files import RecordReader, text_of
from relay.cli.requests.options import SourceTopic
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, Malformed, Problem, ServiceError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Suffixes of record files in a folder, optionally followed by .gz or .zst.
SUFFIXES: Final = (".jsonl", ".json")
_COMPRESSED: Final = (".gz", ".zst")
#: Maximum bytes of a line in a compressed file. Kafka's records are shorter, even with base64 around them.
MAX_LINE_BYTES: Final = 256 << 20
#: An error of the operating system, in cramjam's format.
_OF_SYSTEM: Final = re.compile(r"\(os error (\d+)\)$").search
#: Maximum bytes of text that may be one document over several lines.
MAX_DOCUMENT_BYTES: Final = 64 << 20
_LONG_LIST: Final = (
    "a JSON list begins here that is too long to read at once: write one record per line (jq -c '.[]')"
)


@contextmanager
def open_inputs(
    names: Sequence[str], input_format: LineFormat = LineFormat.AUTO, *, option: str = "INPUT"
) -> Iterator[Input]:
    """Open all named inputs, `-` and nothing being stdin.

    Raises ConfigError, about `option`, for input that cannot be read; ServiceError if there is no space for a
    temporary file.
    """
    files = files_of(names, option)
    with ExitStack() as stack:
        if len(files) == 1:
            yield _one(files[0], stack, input_format, option)
            return
        name = ", ".join("stdin" if name == STANDARD else name for name in names)
        origins = Origins(name)
        with tempfile.TemporaryFile() as kept:
            _keep(kept, _lines_of_all(files, input_format, origins, option), name, option)
            yield Input(cast("BinaryIO", kept), name, rewound_size(kept), LineFormat.RECORDS, origins)


@contextmanager
def open_files_or_topic(
    names: Sequence[str], input_format: LineFormat, topic: SourceTopic | None, *, quiet: bool
) -> Iterator[Input]:
    """Open the named inputs, or the records of a topic instead. Raises as `open_inputs`."""
    if topic is None:
        with open_inputs(names, input_format) as opened:
            yield opened
        return
    # The Kafka client is only needed here.
    from relay.cli.topics import open_topic

    with open_topic(topic, quiet=quiet) as opened:
        yield opened


def files_of(names: Sequence[str], option: str = "INPUT") -> list[str]:
    """Return the files behind names, including those of folders; stdin for none. Raises ConfigError."""
    return [each for name in names or [STANDARD] for each in _files(name, option)]


def _files(name: str, option: str) -> list[str]:
    path = Path(name)
    if name == STANDARD or not path.is_dir():
        return [name]
    found = [str(each) for each in sorted(path.iterdir()) if each.is_file() and _is_record_file(each.name)]
    if not found:
        hint = f"record files end in {' or '.join(SUFFIXES)}; {' or '.join(_COMPRESSED)} may follow"
        raise ConfigError([Problem(option, f"cannot read {name}: it is a folder without record files", hint)])
    return found


def _is_record_file(name: str) -> bool:
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _one(name: str, stack: ExitStack, input_format: LineFormat, option: str) -> Input:
    """Open one file."""
    opened = stack.enter_context(open_input(name, option))
    origins = Origins(opened.name)
    opened = opened._replace(format=input_format, origins=origins)
    if opened.size is None:
        return opened._replace(stream=cast("BinaryIO", _Lines(documents_of(opened.stream, origins))))
    head = opened.stream.read(len(_ZSTD))
    opened.stream.seek(0)
    if not head.startswith((_GZIP, _ZSTD)) and not _begins_with_document(opened.stream):
        opened.stream.seek(0)
        return opened
    opened.stream.seek(0)
    kept = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    _keep(kept, documents_of(_plain(opened.stream, head, name, option), origins), name, option)
    return opened._replace(stream=cast("BinaryIO", kept), size=rewound_size(kept))


def _keep(
    kept: tempfile._TemporaryFileWrapper[bytes] | BinaryIO, lines: Iterable[bytes], name: str, option: str
) -> None:
    try:
        kept.writelines(lines)
        kept.seek(0)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ConfigError([Problem(option, f"cannot read {name}: {error}")]) from error
    except EOFError as error:
        raise ConfigError([Problem(option, f"cannot read {name}: the data is truncated")]) from error
    except OSError as error:
        reason = f"{error.strerror or error}; it is unpacked to {tempfile.gettempdir()} first"
        raise ServiceError(f"cannot read {name}: {reason}") from error


def _plain(stream: BinaryIO, head: bytes, name: str, option: str) -> Iterable[bytes]:
    """Return the lines of a stream, unpacked."""
    if head.startswith(_GZIP):
        return bounded_lines(gzip.open(stream), name, option)
    if head.startswith(_ZSTD):
        return _bounded_of_zstd(name, option)
    return stream


def _bounded_of_zstd(name: str, option: str) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked to another one: they may be too many for memory."""
    import cramjam

    with tempfile.NamedTemporaryFile() as unpacked:
        try:
            cramjam.zstd.decompress_into(cramjam.File(name), cramjam.File(unpacked.name))
        except cramjam.DecompressionError as error:
            if of_system := _OF_SYSTEM(str(error)):
                raise OSError(int(of_system[1]), os.strerror(int(of_system[1]))) from error
            raise ConfigError([Problem(option, f"cannot read {name}: {error}")]) from error
        yield from bounded_lines(unpacked, name, option)


def bounded_lines(
    stream: IO[bytes] | gzip.GzipFile, name: str, option: str, max_bytes: int = MAX_LINE_BYTES
) -> Iterator[bytes]:
    """Yield the lines of unpacked data, which may be much longer than its file.

    Raises ConfigError, about `option`, for a line of more than `max_bytes`.
    """
    number = 0
    while line := stream.readline(max_bytes + 1):
        number += 1
        if len(line) > max_bytes and not line.endswith(b"\n"):
            what = f"cannot read {name}: line {number} has more than {max_bytes} bytes"
            raise ConfigError([Problem(option, what)])
        yield line


def _lines_of_all(
    files: Sequence[str], input_format: LineFormat, origins: Origins, option: str
) -> Iterator[bytes]:
    """Yield the records of several files as lines of records; count those without offsets over all."""
    counted: Counter[tuple[str, int]] = Counter()
    line = 0
    for name in files:
        with ExitStack() as stack:
            reader = RecordReader.of(_one(name, stack, input_format, option), counted=counted)
            for record in reader:
                line += 1
                origins.begin(line, reader.origin)
                yield format_record(record, record.offset)


class _Lines:
    """Lines as a stream without seeking."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def seekable(self) -> bool:
        """Return False: it cannot be read twice."""
        return False


# ---------------------------------------------------------------- documents over several lines


class _Document(NamedTuple):
    """A JSON document in one line, and the line where it begins, counted from 1."""

    text: bytes
    line: int


def _begins_with_document(stream: Iterable[bytes]) -> bool:
    for number, line in enumerate(stream):
        if text := text_of(line, is_first=not number):
            return _begins_document(text)
    return False


def _begins_document(text: bytes) -> bool:
    """Return whether a line begins a JSON document and does not end it, or is a list.

    No protocol has messages that are lists.
    """
    start = text.lstrip()[:1]
    if start == b"[":
        return True
    if start != b"{":
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return True
    return False


def documents_of(
    lines: Iterable[bytes], origins: Origins, max_bytes: int = MAX_DOCUMENT_BYTES
) -> Iterator[bytes]:
    """Yield lines unchanged, except JSON over several lines and lists.

    A document over several lines, and each object of a list, becomes one line. Their beginnings go to
    `origins`. Outside of a JSON text a line feed is white space, and inside of a string there is none. Raises
    Malformed for a list of more than `max_bytes`.
    """
    stream = iter(lines)
    for before, line in enumerate(stream):
        text = text_of(line, is_first=True)
        if text and not _begins_document(text):
            yield from chain([line], stream)
        elif text:
            begun, size = [line], len(line)
            while size < max_bytes and (line := next(stream, b"")):
                begun.append(line)
                size += len(line)
            documents = _found_in(begun, before, origins)
            if not documents and size >= max_bytes and text.lstrip().startswith(b"["):
                origin = origins.at(before + 1)
                raise Malformed("record file", f"{origin.name} line {origin.line}", _LONG_LIST)
            yield from documents or begun
            yield from stream
        if text:
            return
        yield line


def _found_in(begun: Sequence[bytes], before: int, origins: Origins) -> list[bytes]:
    """Return the documents of the lines after the first `before` ones; none if they are something else."""
    documents = _joined(begun)
    if not documents:
        return []
    name = origins.at(1).name
    for number, document in enumerate(documents, before + 1):
        origins.begin(number, RecordOrigin(name, before + document.line))
    origins.begin(before + len(documents) + 1, RecordOrigin(name, before + len(begun) + 1))
    return [document.text for document in documents]


def _joined(lines: Sequence[bytes]) -> list[_Document]:
    """Return the documents of a text, each in a line; none if it is something else."""
    try:
        text = b"".join(lines).decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    found, end, line = list[_Document](), 0, 1
    for at, document in _texts(text):
        line += text.count("\n", end, at)
        found.append(_Document(document.replace("\r", " ").replace("\n", " ").encode() + b"\n", line))
        line += document.count("\n")
        end = at + len(document)
    return found


def _texts(text: str) -> list[tuple[int, str]]:
    """Return the documents of a text with their offsets, lists replaced by their objects.

    Returns none if the text is not JSON throughout.
    """
    decoder, at, found = json.JSONDecoder(), _behind_blanks(text, 0), list[tuple[int, str]]()
    try:
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            found += _objects(decoder, text, at) if _is_of_objects(value) else [(at, text[at:end])]
            at = _behind_blanks(text, end)
    except (ValueError, RecursionError):
        return []
    return found


def _is_of_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _objects(decoder: json.JSONDecoder, text: str, at: int) -> Iterator[tuple[int, str]]:
    """Yield the objects of a list, which begins at `at`."""
    while text[at] != "]":
        at = _behind_blanks(text, at + 1)
        _, end = decoder.raw_decode(text, at)
        yield at, text[at:end]
        at = _behind_blanks(text, end)


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


@contextmanager
def kept_lines(write: Callable[[BinaryIO], None], name: str) -> Iterator[Input]:
    """Yield the content that `write` puts into a temporary file as an input."""
    with tempfile.TemporaryFile() as kept:
        write(cast("BinaryIO", kept))
        yield Input(cast("BinaryIO", kept), name, rewound_size(kept), LineFormat.RECORDS)


def rewound_size(kept: tempfile._TemporaryFileWrapper[bytes] | BinaryIO) -> int:
    """Return the size of a file in bytes, and go back to its beginning."""
    end = kept.seek(0, 2)
    kept.seek(0)
    return end
