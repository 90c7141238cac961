"""Records as columns, in the form that Arrow has in memory, so that one call translates many rows."""

from __future__ import annotations

from typing import NamedTuple


class TextColumn(NamedTuple):
    """Arrow's layout of a binary column.

    `starts`: the n + 1 offsets into `data`, little-endian int32. `valid`: the validity bitmap, least
    significant bit first; None without nulls.
    """

    starts: bytes
    data: bytes
    valid: bytes | None


class RecordColumns(NamedTuple):
    """The records of one partition. `offsets`, `times_ms`: little-endian numbers of 64 bits."""

    keys: TextColumn
    values: TextColumn
    offsets: bytes
    times_ms: bytes

    def offset_of(self, row: int) -> int:
        """Return the offset of a row's record."""
        return int.from_bytes(self.offsets[8 * row : 8 * row + 8], "little", signed=True)


class WrittenColumns(NamedTuple):
    """The messages that rows became: one for each, or one and its tombstone.

    `rows`: how many rows there are. `refused`: the number of the template that the next row fits, if it is
    not allowed. `uses`: the numbers of the templates, with how many rows used each. `use_of_message`: the
    index in `uses` of each message, as little-endian numbers of 32 bits. `are_tombstones`: 1 for each
    tombstone, and 0 for other messages. `marks`: their source marks.
    """

    rows: int
    refused: int | None
    uses: list[tuple[int, int]]
    use_of_message: bytes
    are_tombstones: bytes
    keys: TextColumn
    values: TextColumn
    marks: TextColumn
