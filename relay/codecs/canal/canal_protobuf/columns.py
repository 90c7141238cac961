"""The columns of rows. What hardly changes from row to row is parsed once.

The fields of a column besides its value are its encoding: name, types, whether it belongs to the key.
`TableColumns` keeps encodings with what they mean. The same bytes always mean the same, so a kept encoding is
never wrong, whatever happens to the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from relay.codecs.canal.canal_protobuf.protobuf import varint_at
from relay.codecs.shared.caches import CachePool

#: The tags of a column in a row.
_BEFORE_TAG: Final = 0x0A
_AFTER_TAG: Final = 0x12
#: Maximum encodings kept of the columns at one index of an image. One column has several: changed or not,
#: NULL or not, and the types that Canal gives small and large numbers.
_KEPT_ENCODINGS: Final = 8
#: Maximum lists of columns, and facts about them, kept per table.
_KEPT_LISTS: Final = 64
#: Memory of an encoding, and of a list of columns or its facts, besides their texts; of a column in a list.
_ENCODING_BYTES: Final = 500
_LIST_BYTES: Final = 300
_LISTED_BYTES: Final = 100


class WireColumn(msgspec.Struct, eq=False, frozen=True, gc=False):
    """A column of a row, without its value."""

    name: str = ""
    mysql_type: str = ""
    sql_type: int = 0
    is_key: bool = False

    def is_like(self, other: WireColumn) -> bool:
        """Return whether two columns have the same name, types and key."""
        return (self.name, self.mysql_type, self.sql_type, self.is_key) == (
            other.name,
            other.mysql_type,
            other.sql_type,
            other.is_key,
        )


class WireColumns(msgspec.Struct, eq=False, frozen=True):
    """The columns of a row image, in order. `is_unique`: whether no two have the same name."""

    columns: tuple[WireColumn, ...]
    names: tuple[str, ...]
    is_unique: bool


NO_COLUMNS: Final = WireColumns((), (), True)


class WireImage(msgspec.Struct, gc=False):
    """A row before or after a change. `texts`: the value of each column; None is NULL."""

    columns: WireColumns
    texts: list[str | None]


class WireRow(msgspec.Struct, gc=False):
    """The columns of a row before the change and after it."""

    before: WireImage
    after: WireImage


class ColumnFacts(msgspec.Struct, frozen=True):
    """The columns of all rows of an entry, as a message of Canal in JSON has them."""

    pk_names: list[str]
    mysql_type: msgspec.Raw
    sql_type: msgspec.Raw


class ColumnEncoding(msgspec.Struct, frozen=True):
    """An encoded column without its value, and what it means.

    head: The bytes before the size of the value; of a column without a value, all bytes.
    tail: The bytes after the value.
    has_value: Whether the column has a value; otherwise its text is `text`.
    """

    head: bytes
    tail: bytes
    has_value: bool
    column: WireColumn
    text: str | None


class TableColumns:
    """The encodings and lists of columns in rows of one table. `pool`: counts their memory.

    facts: The facts about lists of columns (`keep_facts`).
    """

    def __init__(self, pool: CachePool) -> None:
        self.facts: dict[tuple[WireColumns, ...], ColumnFacts] = {}
        self._pool = pool
        # By the index in an image. A tuple is unpacked faster than a struct is read.
        self._encodings: list[list[tuple[bytes, bytes, bool, WireColumn, str | None]]] = []
        self._lists: dict[tuple[WireColumn, ...], WireColumns] = {(): NO_COLUMNS}

    # A function for the match of one column made packets of 100 rows with 10 columns 5 % slower to decode.
    def row(self, data: bytes) -> WireRow | None:  # noqa: C901, PLR0912 - as the line above says
        """Return a row. None if an encoding of its columns is not kept, if it has other fields than
        columns, or is invalid.
        """
        before, after = list[WireColumn](), list[WireColumn]()
        old_texts, new_texts = list[str | None](), list[str | None]()
        encodings = self._encodings
        at, row_end = 0, len(data)
        try:
            while at < row_end:
                tag, size = data[at], data[at + 1]
                at += 2
                if size >= 0x80:
                    size, at = varint_at(data, at - 1)
                end = at + size
                if tag == _AFTER_TAG:
                    columns, texts = after, new_texts
                elif tag == _BEFORE_TAG:
                    columns, texts = before, old_texts
                else:
                    return None
                for head, tail, has_value, column, text in encodings[len(columns)]:
                    if not data.startswith(head, at):
                        continue
                    start = at + len(head)
                    if not has_value:
                        if start == end:
                            columns.append(column)
                            texts.append(text)
                            break
                        continue
                    length = data[start]
                    start += 1
                    if length >= 0x80:
                        length, start = varint_at(data, start - 1)
                    value_end = start + length
                    if value_end + len(tail) == end and data.startswith(tail, value_end):
                        columns.append(column)
                        texts.append(data[start:value_end].decode())
                        break
                else:
                    return None
                at = end
        except (IndexError, ValueError):
            return None
        if at > row_end:
            return None
        return WireRow(WireImage(self.list_of(before), old_texts), WireImage(self.list_of(after), new_texts))

    def keep(self, index: int, found: ColumnEncoding) -> None:
        """Keep an encoding of the columns at an index of images."""
        while len(self._encodings) <= index:
            self._encodings.append([])
        kept = self._encodings[index]
        head, tail, column = found.head, found.tail, found.column
        for its_head, its_tail, _, its_column, _ in kept:
            if its_column.is_like(column):
                column = its_column
            if (its_head, its_tail) == (head, tail):
                return
        if len(kept) >= _KEPT_ENCODINGS:
            kept.pop(0)
        kept.append((head, tail, found.has_value, column, found.text))
        self._pool.spend(_ENCODING_BYTES + 2 * (len(head) + len(tail)))

    def list_of(self, columns: Sequence[WireColumn]) -> WireColumns:
        """Return the list of a row's columns, the same object for the same columns if possible."""
        key = tuple(columns)
        found = self._lists.get(key)
        if found is None:
            names = tuple([column.name for column in key])
            found = WireColumns(key, names, len(set(names)) == len(names))
            if len(self._lists) >= _KEPT_LISTS:
                self._lists.clear()
            self._lists[key] = found
            self._pool.spend(_LIST_BYTES + _LISTED_BYTES * len(key))
        return found

    def keep_facts(self, lists: tuple[WireColumns, ...], facts: ColumnFacts) -> None:
        """Keep the facts about an entry whose rows have these lists of columns."""
        if len(self.facts) >= _KEPT_LISTS:
            self.facts.clear()
        self.facts[lists] = facts
        self._pool.spend(_LIST_BYTES + 2 * (len(facts.mysql_type) + len(facts.sql_type)))
