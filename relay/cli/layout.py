"""Fit text to a terminal: lines are wrapped between words, if the width is known."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

#: Minimum width for wrapping.
_NARROWEST: Final = 40
#: Assumed width of a page that is written into a file or a pipe.
_PAGE: Final = 100


def width() -> int | None:
    """Return the number of columns of the terminal on stdout.

    None for a pipe or a file, whose lines are not wrapped: that would only make them hard to search.
    """
    return _width_of(sys.stdout)


def page_width() -> int:
    """Return the width of a text for reading: that of the terminal, and a usual one for a file."""
    return width() or _PAGE


def error_width() -> int | None:
    """Return the same of stderr."""
    return _width_of(sys.stderr)


def _width_of(stream: TextIO) -> int | None:
    if not stream.isatty():
        return None
    columns = shutil.get_terminal_size().columns
    return columns if columns >= _NARROWEST else None


def wrapped(text: str, first: str, rest: str, columns: int | None) -> list[str]:
    """Return a text as lines: `first` precedes the first of them, `rest` the others. Words stay whole."""
    if columns is None or len(first) + len(text) <= columns:
        return [first + text]
    return textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def pairs(rows: Sequence[tuple[str, str]], columns: int | None, indent: str = "  ") -> list[str]:
    """Return names with texts beside them, one below the other; a wrapped text stays in its column."""
    name_width = max(map(len, dict(rows)), default=0)
    lines: list[str] = []
    for name, text in rows:
        first = f"{indent}{name:{name_width}}  "
        lines += [line.rstrip() for line in wrapped(text, first, " " * len(first), columns)]
    return lines
