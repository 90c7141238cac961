"""The command line. `main` is the `relay` program; every command has a separate module."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Final

_STDERR: Final = 2
#: The exit status that a shell reports for a process ended by SIGTERM.
_TERMINATED: Final = 128 + signal.SIGTERM


def main() -> None:
    """Run the `relay` program with the arguments of the process. Raises SystemExit with the exit status."""
    _exit_on_sigterm()
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # Characters outside of the terminal's encoding are escaped; they must end no command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Importing `relay.cli.check`, for example, must not load the whole command line.
    from relay.cli.commands import app
    from relay.cli.exits import run_program

    run_program(lambda: app(prog_name="relay"))


def _exit_on_sigterm() -> None:
    """Let SIGTERM end a container's first process as it ends any other.

    Linux ignores it for a first process without a handler. An exception might not end a loop of asyncio.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))


def _replace_closed_streams() -> None:
    """Reopen the standard streams that the shell has closed (`>&-`), whose numbers the next files would get.

    Then only writing to stdout fails, and text on stderr is dropped.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the process ends
