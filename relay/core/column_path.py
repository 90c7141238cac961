"""Translates columns of records by templates: many rows with one call, with the output and counts of
`FastPath`.

A row that needs more than an engine's output is left to the translator, in its turn.
"""

from __future__ import annotations

from typing import NamedTuple

from relay.core.allowed_templates import AllowedTemplates, most_row_bytes_of
from relay.core.pipeline import Pipeline
from relay.templates.columns import RecordColumns, TextColumn, WrittenColumns
from relay.templates.route.route_templates import RouteTemplates


class TranslatedRows(NamedTuple):
    """The messages of adjacent rows: one for each, or one and its tombstone.

    Each has the partition and the timestamp of its source, and its source mark as its only header.

    rows: How many rows there are.
    topics, topic_of_message: The topics that messages go to, and the index of each message's topic as
        little-endian numbers of 32 bits.
    are_tombstones: 1 for each tombstone, and 0 for other messages.
    is_blocked: Whether the next row must be translated as a record. If not, another call goes on with it.
    """

    rows: int
    topics: list[str]
    topic_of_message: bytes
    are_tombstones: bytes
    keys: TextColumn
    values: TextColumn
    marks: TextColumn
    is_blocked: bool = False

    @property
    def size_bytes(self) -> int:
        """The bytes of all keys and values."""
        return len(self.keys.data) + len(self.values.data)


class ColumnPath:
    """Translates rows that fit templates, stay in their partition, and become one message, or one and its
    tombstone, without own headers.
    """

    def __init__(self, line: Pipeline, templates: RouteTemplates, allowed: AllowedTemplates) -> None:
        self._line, self._templates, self._allowed = line, templates, allowed
        self._most_row_bytes = most_row_bytes_of(line)

    def translate(  # noqa: PLR0913, PLR0917 - as `Translator.translate_columns`
        self,
        topic: str,
        partition: int,
        columns: RecordColumns,
        first: int,
        end: int,
        most_bytes: int,
        most_row_bytes: int,
    ) -> TranslatedRows | None:
        """Translate the rows from `first` on; see `Translator.translate_columns`."""
        line, templates, allowed = self._line, self._templates, self._allowed
        if line.catalog is not templates.catalog or templates.idle:
            return None
        of_topic, path = templates.of_topic(topic), line.path_of(topic, partition)
        allowed.enter(of_topic, path, columns.offset_of(first))
        most_row_bytes = min(most_row_bytes, self._most_row_bytes)
        try:
            written = WrittenColumns(
                *of_topic.engine.translate_columns(
                    columns, first, end, most_bytes, most_row_bytes, path.header_prefix
                )
            )
        except MemoryError:
            return None
        used = allowed.count(of_topic, written.uses)
        found = TranslatedRows(
            written.rows,
            [allowed.topic_of(known) for known in used],
            written.use_of_message,
            written.are_tombstones,
            TextColumn(*written.keys),
            TextColumn(*written.values),
            TextColumn(*written.marks),
        )
        stopped = first + found.rows
        allowed.reached(columns.offset_of(max(first, stopped - 1)))
        if stopped == end or found.size_bytes >= most_bytes:
            return found
        if written.refused is not None:
            offset = columns.offset_of(stopped)
            allowed.reached(offset)
            if allowed.allow(of_topic, written.refused, partition, offset):
                return found
        return found._replace(is_blocked=True)
