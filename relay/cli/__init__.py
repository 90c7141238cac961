"""The command line. `main` is the `relay` program; every command lives in a module of its own."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Final

_STDERR: Final = 2
#: The status that a shell gives to what SIGTERM has ended.
_TERMINATED: Final = 128 + signal.SIGTERM


def main() -> None:
    """Run the `relay` program with the arguments of the process. Raises SystemExit with the exit status."""
    _exit_on_sigterm()
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's encoding lacks is escaped; it must end no command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Importing `relay.cli.check`, say, must not cost what the command line costs.
    from relay.cli.commands import app
    from relay.cli.exits import run_program

    run_program(lambda: app(prog_name="relay"))


def _exit_on_sigterm() -> None:
    """Let SIGTERM end a container's first process as it ends any other: Linux ignores it for a first process
    without a handler. An exception might not end a loop of asyncio.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))


def _replace_closed_streams() -> None:
    """Keep the numbers of the streams that the shell has closed (`>&-`), which else the next files would get:
    only what is written to stdout is to fail then, and nobody reads stderr.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the process ends
