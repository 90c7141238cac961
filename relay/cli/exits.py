"""How commands end: one function decides the exit status, one words the error.

0 done · 1 a defect of relay · 2 the user's input or options · 3 the surroundings · 130 interrupted (Ctrl-C).
A reader that closes the pipe early (`relay translate … | head`) has what it wanted: that is 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

import typer

from relay.errors import ConfigError, RelayError

INTERRUPTED = 130
DEFECT = 1


def finish(work: Callable[[], int | None], *, show_traceback: bool) -> typer.Exit:
    """Do a command's work, report what stopped it, and give the exit for the caller to raise."""
    try:
        status = work() or 0
        sys.stdout.flush()
    except (
        Exception,
        KeyboardInterrupt,
    ) as error:  # the outermost place: whatever comes here is reported, not hidden
        status = _status(error)
        if isinstance(error, BrokenPipeError):
            _discard_stdout()
        else:
            _report(error, show_traceback=show_traceback)
    return typer.Exit(status)


def _status(error: BaseException) -> int:
    if isinstance(error, RelayError):
        return error.exit_status
    if isinstance(error, BrokenPipeError):
        return 0
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else DEFECT


def _report(error: BaseException, *, show_traceback: bool) -> None:
    if show_traceback:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say_error(str(problem))
    elif isinstance(error, RelayError):
        say_error(describe(error))
    elif not isinstance(error, KeyboardInterrupt):
        advice = "" if show_traceback else "; RELAY_TRACEBACK=1 shows where"
        say_error(
            f"this is a defect of relay, please report it{advice}: {type(error).__name__}: {describe(error)}"
        )


def describe(error: BaseException) -> str:
    """Give the error's text behind its notes, which tell where in the input it happened."""
    return ": ".join([*getattr(error, "__notes__", ()), str(error)])


def say(text: str) -> None:
    """Print on stderr. That nobody reads it, or that it is full, changes neither the work nor the exit
    status.
    """
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)


def say_error(text: str) -> None:
    """Print one error on stderr."""
    say(typer.style("error: ", fg=typer.colors.RED, bold=True) + text)


def _discard_stdout() -> None:
    """Point stdout at nothing, or the interpreter's own flush at exit complains about the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
