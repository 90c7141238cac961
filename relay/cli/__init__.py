"""The command line. `main` is the `relay` program; every command lives in a module of its own."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the `relay` program with the arguments of the process. Raises SystemExit with the exit status."""
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's encoding lacks is escaped; it must end no command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Importing `relay.cli.check`, say, must not cost what the command line costs.
    from relay.cli.commands import app
    from relay.cli.exits import run_program

    run_program(lambda: app(prog_name="relay"))
