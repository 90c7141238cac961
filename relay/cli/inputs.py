"""Inputs of every kind as one stream of lines: files, folders, compressed files, what people paste.

A single file of plain lines is given as it is. Everything else is written to a temporary file first, one
record or message a line, so that whoever reads it may go back.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson

from relay.cli.arguments import STANDARD, Input, InputFormat, open_input
from relay.cli.record_files import RecordReader, text_of
from relay.errors import ConfigError, Problem, ServiceError
from relay.record_lines import format_record

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: What counts as a record file in a folder, with .gz or .zst behind it or not.
SUFFIXES: Final = (".jsonl", ".json")
_COMPRESSED: Final = (".gz", ".zst")
#: Most bytes of text that may be one document over several lines.
_MOST_PRINTED: Final = 64 << 20


@contextmanager
def open_inputs(names: Sequence[str], input_format: InputFormat = InputFormat.AUTO) -> Iterator[Input]:
    """Open everything that INPUT names, `-` and nothing being stdin. Raises ConfigError for what cannot be
    read, ServiceError if there is no room for a temporary file.
    """
    files = [each for name in names or [STANDARD] for each in _files(name)]
    with ExitStack() as stack:
        if len(files) == 1:
            yield _one(files[0], stack)
            return
        with tempfile.TemporaryFile() as kept:
            _keep(kept, _lines_of_all(files, input_format), ", ".join(names))
            yield Input(cast("BinaryIO", kept), ", ".join(names), _size(kept))


@contextmanager
def kept_lines(write: Callable[[BinaryIO], None], name: str) -> Iterator[Input]:
    """Give what `write` puts into a temporary file as an input."""
    with tempfile.TemporaryFile() as kept:
        write(cast("BinaryIO", kept))
        kept.seek(0)
        yield Input(cast("BinaryIO", kept), name, _size(kept))


def _files(name: str) -> list[str]:
    """Return the files that a name means: those of a folder, or itself."""
    path = Path(name)
    if name == STANDARD or not path.is_dir():
        return [name]
    found = [str(each) for each in sorted(path.iterdir()) if each.is_file() and _is_record_file(each.name)]
    if not found:
        hint = f"record files end in {' or '.join(SUFFIXES)}; {' or '.join(_COMPRESSED)} may follow"
        raise ConfigError(
            [Problem("INPUT", f"cannot read {name}: it is a folder without record files", hint)]
        )
    return found


def _is_record_file(name: str) -> bool:
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _one(name: str, stack: ExitStack) -> Input:
    """Open one file."""
    opened = stack.enter_context(open_input(name))
    if opened.size is None:
        return opened._replace(stream=cast("BinaryIO", _Lines(_documents(opened.stream))))
    head = opened.stream.read(len(_ZSTD))
    opened.stream.seek(0)
    if not head.startswith((_GZIP, _ZSTD)) and not _is_printed(opened.stream):
        opened.stream.seek(0)
        return opened
    opened.stream.seek(0)
    kept = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    _keep(kept, _documents(_plain(opened.stream, head, name)), name)
    return Input(cast("BinaryIO", kept), name, _size(kept))


def _keep(kept: tempfile._TemporaryFileWrapper[bytes] | BinaryIO, lines: Iterable[bytes], name: str) -> None:
    try:
        kept.writelines(lines)
        kept.seek(0)
    except gzip.BadGzipFile as error:
        raise ConfigError([Problem("INPUT", f"cannot read {name}: {error}")]) from error
    except EOFError as error:
        raise ConfigError([Problem("INPUT", f"cannot read {name}: it ends too early")]) from error
    except OSError as error:
        reason = f"{error.strerror or error}; it is unpacked to {tempfile.gettempdir()} first"
        raise ServiceError(f"cannot read {name}: {reason}") from error


def _size(kept: tempfile._TemporaryFileWrapper[bytes] | BinaryIO) -> int:
    end = kept.seek(0, 2)
    kept.seek(0)
    return end


def _plain(stream: BinaryIO, head: bytes, name: str) -> Iterable[bytes]:
    """Return the lines of a stream, unpacked."""
    if head.startswith(_GZIP):
        return gzip.open(stream)
    if head.startswith(_ZSTD):
        import cramjam

        try:
            data = bytes(cramjam.zstd.decompress(stream.read()))
        except cramjam.DecompressionError as error:
            raise ConfigError([Problem("INPUT", f"cannot read {name}: {error}")]) from error
        return data.splitlines(keepends=True)
    return stream


def _lines_of_all(files: Sequence[str], input_format: InputFormat) -> Iterator[bytes]:
    """Give the records of several files as lines of records; those without offsets are counted over all."""
    counted: Counter[tuple[str, int]] = Counter()
    for name in files:
        with ExitStack() as stack:
            opened = _one(name, stack)
            for record in RecordReader(opened.stream, opened.name, input_format, counted=counted):
                yield format_record(record, record.offset)


class _Lines:
    """Lines as a stream that cannot go back."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def seekable(self) -> bool:
        """Say that it cannot be read twice."""
        return False


# ---------------------------------------------------------------- documents over several lines


def _is_printed(stream: Iterable[bytes]) -> bool:
    """Whether the first line that is not blank begins a JSON document and does not end it."""
    for number, line in enumerate(stream):
        if text := text_of(line, is_first=not number):
            return _is_open(text)
    return False


def _is_open(text: bytes) -> bool:
    if not text.lstrip().startswith((b"{", b"[")):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return True
    return False


def _documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Give lines as they are; but documents of JSON that are printed over several lines as one line each.

    Outside of a JSON text a line feed is white space, and inside of a string there is none.
    """
    stream = iter(lines)
    for line in stream:
        text = text_of(line, is_first=True)
        if text and not _is_open(text):
            yield from chain([line], stream)
        elif text:
            begun, size = [line], len(line)
            while size < _MOST_PRINTED and (line := next(stream, b"")):
                begun.append(line)
                size += len(line)
            yield from _joined(begun) or begun
            yield from stream
        if text:
            return
        yield line


def _joined(lines: Sequence[bytes]) -> list[bytes]:
    """Return the documents of a text, each in a line; none if it is something else."""
    try:
        text = b"".join(lines).decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    decoder, at, found = json.JSONDecoder(), 0, list[bytes]()
    text = text.strip()
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(text[at:end].replace("\r", " ").replace("\n", " ").encode() + b"\n")
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found
