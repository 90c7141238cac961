"""Records as columns: what their bytes say, and columns of what rows became."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence

from relay.templates.columns import RecordColumns, TextColumn, WrittenColumns
from relay.templates.engine import Translation

#: A record's key, value, offset and time.
_Record = tuple[bytes | None, bytes | None, int, int]


def records_of(columns: RecordColumns, first: int, end: int) -> Iterator[_Record]:
    """Give the records from a row on and before another one."""
    for row in range(first, end):
        (time_ms,) = struct.unpack_from("<q", columns.times_ms, 8 * row)
        yield text_of(columns.keys, row), text_of(columns.values, row), columns.offset_of(row), time_ms


def text_of(column: TextColumn, row: int) -> bytes | None:
    """Return the text of a row."""
    if column.valid is not None and not column.valid[row // 8] >> row % 8 & 1:
        return None
    start, end = struct.unpack_from("<ii", column.starts, 4 * row)
    return column.data[start:end]


def text_column(texts: Sequence[bytes | None]) -> TextColumn:
    """Return a column of texts."""
    starts, data = [0] if texts else [], b""
    valid = bytearray((len(texts) + 7) // 8)
    for row, text in enumerate(texts):
        data += text or b""
        starts.append(len(data))
        valid[row // 8] |= (text is not None) << row % 8
    return TextColumn(struct.pack(f"<{len(starts)}i", *starts), data, bytes(valid) if None in texts else None)


class Written:
    """What rows became, until it has enough bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.refused: int | None = None
        self._most_bytes, self._bytes = most_bytes, 0
        self._uses: Counter[int] = Counter()
        #: Each message, and whether it is a tombstone.
        self._messages: list[tuple[Translation, bool]] = []

    @property
    def is_full(self) -> bool:
        """Whether no further row begins."""
        return self._bytes >= self._most_bytes

    def add(self, found: Translation, *, has_tombstone: bool) -> None:
        """Add a row."""
        number, key, value, mark = found
        self._uses[number] += 1
        self._messages.append((found, False))
        self._bytes += len(key or b"") + len(value or b"")
        if has_tombstone:
            self._messages.append(((number, key, None, mark[:-1] + b"1"), True))
            self._bytes += len(key or b"")

    def columns(self) -> WrittenColumns:
        """Return the messages."""
        messages = [message for message, _ in self._messages]
        places = [list(self._uses).index(number) for number, *_ in messages]
        return WrittenColumns(
            self._uses.total(),
            self.refused,
            list(self._uses.items()),
            struct.pack(f"<{len(places)}I", *places),
            bytes(is_tombstone for _, is_tombstone in self._messages),
            text_column([key for _, key, _, _ in messages]),
            text_column([value for _, _, value, _ in messages]),
            text_column([mark for *_, mark in messages]),
        )
