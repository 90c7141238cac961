"""Show a command's progress, on a terminal alone."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from relay.cli.files import Input

_EVERY_BYTES: Final = 1 << 20


class NoProgress:
    """No progress bar."""

    def at(self, bytes_read: int) -> None:
        """Show nothing."""


class _Bar(NoProgress):
    """A progress bar by bytes of the input, moved at most once a megabyte."""

    def __init__(self, size: int) -> None:
        # Loaded only for a terminal: rich's progress bars cost 50 ms to import.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        self.display = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self.display.add_task("", total=size)
        self._next = 0

    def at(self, bytes_read: int) -> None:
        """Show how much of the input has been read."""
        if bytes_read >= self._next:
            self._next = bytes_read + _EVERY_BYTES
            self.display.update(self._task, completed=bytes_read)


def stdout_is_seen() -> bool:
    """Return whether stdout may be visible on the terminal, itself or in a pager.

    A progress bar would interrupt it.
    """
    try:
        return not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return True


@contextmanager
def progress_of(source: Input, *, quiet: bool) -> Iterator[NoProgress]:
    """Show how much of an input has been read, if its size is known and stderr is a terminal."""
    if quiet or source.size is None or not sys.stderr.isatty():
        yield NoProgress()
        return
    bar = _Bar(source.size)
    with bar.display:
        yield bar
