"""Open the input and output files of the commands, or stdin and stdout, and trace lines to their files.

`relay --help` loads this module, too, so it imports nothing slow.
"""

from __future__ import annotations

import enum
import io
import os
import stat
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import typer

from relay.io.files import open_regular
from relay.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: The name for stdin and stdout.
STANDARD = "-"


class LineFormat(enum.StrEnum):
    """How input lines are read."""

    AUTO = "auto"
    RECORDS = "records"
    VALUES = "values"
    KCAT = "kcat"


class RecordOrigin(NamedTuple):
    """The file and the line where a record begins. `is_value`: it was a value alone, without a position."""

    name: str
    line: int
    is_value: bool = False


class Origins:
    """The origins of the lines of a stream into which inputs were copied.

    Only the beginnings of runs of neighboring lines are kept.
    """

    def __init__(self, name: str) -> None:
        self._first_lines: list[int] = [1]
        self._runs: list[RecordOrigin] = [RecordOrigin(name, 1)]

    def begin(self, line: int, origin: RecordOrigin) -> None:
        """Note the origin of a line, counted from 1; the lines after it follow there, too. In order."""
        if self.at(line) == origin:
            return
        if self._first_lines[-1] == line:
            self._runs[-1] = origin
            return
        self._first_lines.append(line)
        self._runs.append(origin)

    def at(self, line: int) -> RecordOrigin:
        """Return the origin of a line."""
        run = max(bisect_right(self._first_lines, line) - 1, 0)
        first = self._runs[run]
        return first._replace(line=first.line + line - self._first_lines[run])


class Input(NamedTuple):
    """An opened input.

    Its name in messages and, of a regular file, its size; how its lines are read; and their origins, if they
    do not come from a file of that name.
    """

    stream: BinaryIO
    name: str
    size: int | None
    format: LineFormat = LineFormat.AUTO
    origins: Origins | None = None


@contextmanager
def open_input(name: str, option: str = "INPUT") -> Iterator[Input]:
    """Open a file, `-` being stdin. Raises ConfigError, about `option`, when it cannot be read."""
    if name == STANDARD:
        if sys.stdin is None:
            raise ConfigError([Problem(option, "stdin is closed", "give a file, or open it")])
        if sys.stdin.isatty():
            typer.echo("Reading records from the terminal, one per line; press Ctrl-D to end.", err=True)
        yield Input(sys.stdin.buffer, "stdin", None)
        return
    path = Path(name)
    try:
        stream = open_regular(path)
    except (OSError, ValueError) as error:
        problem = f"cannot read {name}: {getattr(error, 'strerror', None) or error}"
        raise ConfigError([Problem(option, problem, "give a file, or - for stdin")]) from error
    size = path.stat().st_size if path.is_file() else None
    with stream:
        yield Input(stream, name, size)


class OutputFile(io.FileIO):
    """A file whose old content stays until the first write."""

    def __init__(self, name: str) -> None:
        #: Whether a file without anything to write becomes empty.
        self.is_done = True
        self._is_begun, self._is_new = False, not Path(name).exists()
        super().__init__(name, "wb", opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC, 0o666))

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]  # as FileIO does
        """Write over the old content."""
        self.begin()
        return super().write(data)

    def begin(self) -> None:
        """Delete the old content."""
        if not self._is_begun and stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            self.truncate(0)
        self._is_begun = True

    def end(self, *, is_done: bool) -> None:
        """Delete the old content if all went well; otherwise leave it unless something was written."""
        if is_done:
            self.begin()
        elif self._is_new and not self._is_begun:
            Path(str(self.name)).resolve().unlink(missing_ok=True)


@contextmanager
def open_output(name: str, option: str) -> Iterator[BinaryIO]:
    """Open a file for writing without a buffer, `-` being stdout. Raises ConfigError if that fails.

    The old content stays until the first bytes are written, or until the command succeeds without any: an
    error before that leaves the file unchanged.
    """
    if name == STANDARD:
        sys.stdout.flush()
        # A test's stdout may have no raw file below it.
        yield cast("BinaryIO", getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))
        return
    try:
        stream = OutputFile(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([Problem(option, f"cannot write {name}: {reason}")]) from error
    with stream:
        try:
            yield cast("BinaryIO", stream)
        except BaseException:
            stream.end(is_done=False)
            raise
        stream.end(is_done=stream.is_done)


def same_file(one: str, other: str) -> bool:
    """Return whether two names mean one regular file: writing one destroys the other.

    `one` may be `-` (stdin).
    """
    if other == STANDARD:
        return False
    if one == STANDARD:
        return _is_stdin(Path(other))
    first, second = Path(one), Path(other)
    if first.exists() and second.exists():
        return first.is_file() and first.samefile(second)
    return first.absolute() == second.absolute()


def _is_stdin(path: Path) -> bool:
    """Return whether stdin was opened on this regular file (`< FILE`)."""
    try:
        return path.is_file() and os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    except (OSError, ValueError, AttributeError):  # stdin is closed, or not a file
        return False
