"""Output of commands on stderr, and their exit status: one function decides it, one formats the error.

0 done · 1 a bug in relay · 2 the user's input or options · 3 the environment · 4 `relay diff` has found
differences · 130 interrupted (Ctrl-C) · 143 ended by SIGTERM.
A reader that closes the pipe early (`relay translate … | head`) needs no more: that is 0.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Final

import typer

from relay.cli import layout
from relay.model.errors import ConfigError, RelayError
from relay.text.redaction import LONGEST, printable

BUG = 1
_ENVIRONMENT = 3
#: The system's errors for a full disk, which stdout may be redirected to; and for a closed stdout.
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF})
#: Of `relay diff`: the comparison found differences.
DIFFERENT = 4
INTERRUPTED = 130
_PROGRESS_SECONDS = 2.0
#: How many failed records are reported individually; the rest is only counted.
REPORTED = 20
#: Maximum characters of one part of an error: the location must leave space for the reason.
_LONGEST_PART = LONGEST // 3

#: Values of a variable that is switched on, as the command line reads it.
_YES: Final = frozenset({"1", "true", "t", "yes", "y", "on"})


def finish(work: Callable[[], int | None], *, show_traceback: bool) -> typer.Exit:
    """Run a command and report the error that stopped it. Return the exit for the caller to raise."""
    try:
        status = work() or 0
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # the outermost handler: everything is reported
        status = _ended_by(error, show_traceback=show_traceback)
    return typer.Exit(status)


def run_program(program: Callable[[], object]) -> None:
    """Run the whole command line. Raises SystemExit with the exit status.

    Output outside of the commands, help and version, ends like theirs.
    """
    try:
        try:
            program()
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise SystemExit(_status_without_reader(end.__context__)) from end
        raise
    except Exception as error:  # as above
        status = _ended_by(error, show_traceback=os.environ.get("RELAY_TRACEBACK", "").lower() in _YES)
        raise SystemExit(status) from error


def _status_without_reader(error: BrokenPipeError) -> int:
    """Return the exit status if typer or rich has ended with 1 because stdout was closed.

    That happens while they print help or errors in the arguments.
    """
    return int(getattr(error.__context__, "exit_code", 0))


def _ended_by(error: BaseException, *, show_traceback: bool) -> int:
    """Report an error, and return the exit status."""
    if not isinstance(error, BrokenPipeError):
        _report(error, show_traceback=show_traceback)
    if isinstance(error, BrokenPipeError) or _is_full(error):
        _discard_stdout()
    return _status(error)


def _status(error: BaseException) -> int:
    if isinstance(error, RelayError):
        return error.exit_status
    if isinstance(error, BrokenPipeError):
        return 0
    if _is_full(error) or isinstance(error, MemoryError):
        return _ENVIRONMENT
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else BUG


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_SPACE


def _report(error: BaseException, *, show_traceback: bool) -> None:
    if show_traceback:
        # After a bar, so that no line of an error's text can be mistaken for one of relay's own.
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(f"| {line}")
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say_error(str(problem))
    elif isinstance(error, RelayError):
        say_error(describe(error))
    elif isinstance(error, OSError) and _is_full(error):
        say_error(f"cannot write {error.filename or 'the output'}: {error.strerror}")
    elif isinstance(error, MemoryError):
        say_error("the process is out of memory; give it more, or less input at a time")
    elif not isinstance(error, KeyboardInterrupt):
        advice = "" if show_traceback else "; RELAY_TRACEBACK=1 shows where"
        say_error(
            f"this is a bug in relay, please report it (see CONTRIBUTING.md){advice}: "
            f"{type(error).__name__}: {describe(error)}"
        )


def describe(error: BaseException) -> str:
    """Return the error's notes, which locate it in the input, and its text; each bounded."""
    return ": ".join(
        printable(text, longest=_LONGEST_PART) for text in (*getattr(error, "__notes__", ()), str(error))
    )


def say(text: str) -> None:
    """Print one line on stderr, with control characters escaped.

    Only a terminal wraps it, between words, with a hanging indent. If that fails, neither the work nor the
    exit status changes.
    """
    _print("", "", text)


def say_error(text: str) -> None:
    """Print one error on stderr, as `say` does."""
    _print("error: ", typer.colors.RED, text)


def say_warning(text: str) -> None:
    """Print one warning on stderr, as `say` does."""
    _print("warning: ", typer.colors.YELLOW, text)


def _print(mark: str, color: str, text: str) -> None:
    text = printable(text)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    first, *rest = layout.wrapped(text, mark, indent, layout.error_width())
    if mark:
        first = typer.style(mark, fg=color, bold=True) + first.removeprefix(mark)
    with contextlib.suppress(OSError):
        typer.echo("\n".join((first, *rest)), err=True)


class ProgressReport:
    """Report progress on stderr every two seconds, so that quick work prints nothing.

    Only on a terminal: in a file progress is of no use.
    """

    def __init__(self, what: str, *, quiet: bool) -> None:
        self._what, self._quiet = what, quiet or not sys.stderr.isatty()
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def __call__(self, done: int, total: int) -> None:
        """Report the progress, if it is time."""
        if not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_SECONDS
            say(f"{self._what}: {done} of {total}")


def _discard_stdout() -> None:
    """Point stdout at /dev/null, or the interpreter's flush at exit reports unwritten data."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
