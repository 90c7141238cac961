"""Shared helpers of the commands: `NAME=VALUE` options, choices, and opening input and output files.

`relay --help` loads this module, too, so it imports nothing slow.
"""

from __future__ import annotations

import enum
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

import typer

from relay.cli.origins import Origins
from relay.io.files import open_regular
from relay.model.errors import ConfigError, Problem
from relay.model.limits import Limits
from relay.text.redaction import quoted, shown_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
from datetime import timedelta

from relay.text.durations import milliseconds_of, parse_duration, parse_timestamp

#: The name for stdin and stdout.
STANDARD = "-"


class LineFormat(enum.StrEnum):
    """How input lines are read."""

    AUTO = "auto"
    RECORDS = "records"
    VALUES = "values"
    KCAT = "kcat"


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


def key_values(
    texts: Iterable[str],
    path: str,
    problems: list[Problem],
    example: str = "enable-tidb-extension=true",
) -> dict[str, str]:
    """Parse the `name=value` texts of the option `path`; append errors to `problems`."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            message = f"{quoted(text)} is not of the form NAME=VALUE"
            problems.append(Problem(path, message, f"for example {example}"))
        elif name in found:
            problems.append(Problem(f"{path} {shown_name(name)}", "given twice", "keep one of the two"))
        else:
            found[name] = value
    return found


def limits_of(texts: Iterable[str], problems: list[Problem]) -> Limits:
    """Parse the `name=value` texts of `--limit`; append errors to `problems`."""
    given = key_values(texts, "--limit", problems, "rows=20000")
    names = Limits.__struct_fields__
    values: dict[str, int] = {}
    for name, text in given.items():
        if name not in names:
            shown, hint = shown_name(name), f"limits: {', '.join(names)}"
            problems.append(Problem(f"--limit {shown}", f"unknown limit {shown!r}", hint))
        elif not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or not int(text):
            problems.append(Problem(f"--limit {name}", f"{quoted(text)} is not a number greater than 0"))
        else:
            values[name] = int(text)
    return Limits(**values)


#: Of a limit: no machine has more bytes.
_MOST_DIGITS: Final = 18


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


def parse_time(text: str, now_ms: int, option: str, problems: list[Problem]) -> int | None:
    """Parse a point in time, or an age; the result is in milliseconds since 1970."""
    try:
        return now_ms - parse_duration(text) // timedelta(milliseconds=1)
    except ValueError:
        pass
    try:
        return milliseconds_of(parse_timestamp(text))
    except ValueError:
        hint = "for example 2026-01-31T12:00, which is UTC, or 2h for two hours ago"
        problems.append(Problem(option, f"{quoted(text)} is neither a time nor a duration", hint))
        return None
