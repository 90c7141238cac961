"""Translates columns of records by templates: many rows with one call, with the output and counts of
`FastPath`.

A row that needs more than an engine's output is left to the translator, in its turn.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.core.pipeline import PartitionPath, Pipeline, overhead_bytes
from relay.templates.columns import RecordColumns, TextColumn, WrittenColumns
from relay.templates.route.known import TemplateInfo
from relay.templates.route.route_templates import RouteTemplates
from relay.templates.route.topic_templates import TopicTemplates

#: After this many templates that were allowed one by one, with a call of the engine for each, all others are
#: allowed at once.
_MAX_ALLOWED_SINGLY: Final = 16


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

    def __init__(self, line: Pipeline, templates: RouteTemplates) -> None:
        self._line, self._templates = line, templates
        self._moves_rows = line.router.moves_rows
        #: A message of this size and its tombstone are within the limit of a record's output.
        self._most_row_bytes = max(0, line.limits.output_bytes // 2 - overhead_bytes(1))
        #: What engines have allowed templates for: a partition, and a state of the router; and the last
        #: offset there. Rows at later offsets follow all DDL that a row at this one follows.
        self._allowed_for: tuple[PartitionPath, int] | None = None
        self._last_offset = 0
        #: The number of templates that were allowed one by one since all were disallowed.
        self._allowed_singly = 0

    def start_over(self) -> None:
        """Forget what engines have allowed."""
        self._allowed_for = None

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
        line, templates = self._line, self._templates
        if line.catalog is not templates.catalog or templates.idle:
            return None
        of_topic, path = templates.of_topic(topic), line.path_of(topic, partition)
        if self._allowed_for != (path, line.seen_version) or columns.offset_of(first) < self._last_offset:
            self._allowed_for, self._allowed_singly = (path, line.seen_version), 0
            of_topic.engine.disallow()
        most_row_bytes = min(most_row_bytes, self._most_row_bytes)
        try:
            written = WrittenColumns(
                *of_topic.engine.translate_columns(
                    columns, first, end, most_bytes, most_row_bytes, path.header_prefix
                )
            )
        except MemoryError:
            return None
        # Facts that are dropped are not allowed any more.
        used = [of_topic.known[number] for number, _ in written.uses]
        for known, (_, rows) in zip(used, written.uses, strict=True):
            known.uses += rows
        found = TranslatedRows(
            written.rows,
            [self._topic_of(known, path) for known in used],
            written.use_of_message,
            written.are_tombstones,
            TextColumn(*written.keys),
            TextColumn(*written.values),
            TextColumn(*written.marks),
        )
        stopped = first + found.rows
        self._last_offset = columns.offset_of(max(first, stopped - 1))
        if stopped == end or found.size_bytes >= most_bytes:
            return found
        if written.refused is not None:
            offset = self._last_offset = columns.offset_of(stopped)
            if self._allow(of_topic, written.refused, partition, offset):
                return found
        return found._replace(is_blocked=True)

    def _allow(self, of_topic: TopicTemplates, number: int, partition: int, offset: int) -> bool:
        """Let the engine translate rows with a number, if their output is complete. Return whether it is.

        `offset`: that of a row with this number.
        """
        known = self._templates.known_of(of_topic, number)
        if not self._is_complete(known, partition, offset):
            return False
        of_topic.engine.allow(number, known.has_tombstone)
        self._allowed_singly += 1
        if self._allowed_singly == _MAX_ALLOWED_SINGLY:
            self._allow_all(of_topic, partition, offset)
        return True

    def _allow_all(self, of_topic: TopicTemplates, partition: int, offset: int) -> None:
        """Let the engine translate the rows of all templates with complete output, from an offset on."""
        for number, known in of_topic.known.items():
            if self._is_complete(known, partition, offset):
                of_topic.engine.allow(number, known.has_tombstone)

    def _is_complete(self, known: TemplateInfo, partition: int, offset: int) -> bool:
        """Return whether an engine gives the whole output of a template's rows from an offset on."""
        if known.headers or known.is_of_marks or known.condition_cell_parts:
            return False
        if known.allows is not None and not known.allows(partition, offset):
            return False
        return not self._moves_rows or self._has_topic(known)

    def _has_topic(self, known: TemplateInfo) -> bool:
        """Return whether an earlier record has shown the topic of a template's rows."""
        return known.topic is not None and known.topic.seen_version == self._line.seen_version

    def _topic_of(self, known: TemplateInfo, path: PartitionPath) -> str:
        return path.target if known.topic is None or not self._moves_rows else known.topic.name
