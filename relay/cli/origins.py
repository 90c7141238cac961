"""Origins of the lines of an input that was copied into another stream."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class RecordOrigin(NamedTuple):
    """The file and the line where a record begins. `is_value`: it was a value alone, without a position."""

    name: str
    line: int
    is_value: bool = False


class Origins:
    """The origins of a stream's lines. Only the beginnings of runs of neighboring lines are kept."""

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
