"""Templates whose rows an engine may translate alone, because its output for them is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay.core.pipeline import PartitionPath, Pipeline, overhead_bytes
from relay.templates.route.known import TemplateInfo
from relay.templates.route.route_templates import RouteTemplates
from relay.templates.route.topic_templates import TopicTemplates

#: After this many templates that were allowed one by one, with a call of the engine for each, all others are
#: allowed at once.
_MAX_ALLOWED_SINGLY: Final = 16


class AllowedTemplates:
    """The permissions of a route's engines, and the uses that engines report."""

    def __init__(self, line: Pipeline, templates: RouteTemplates) -> None:
        self._line, self._templates = line, templates
        self._moves_rows = line.router.moves_rows
        #: What engines have allowed templates for: a partition, and a state of the router; and the last
        #: offset there. Rows at later offsets follow all DDL that a row at this one follows.
        self._allowed_for: tuple[PartitionPath, int] | None = None
        self._last_offset = 0
        #: The topics with templates that are allowed; and those where some are for one partition only.
        self._allowing: set[TopicTemplates] = set()
        self._positional: set[TopicTemplates] = set()
        #: The state of the router for which topics of tables are known, and the current partition.
        self._seen_version = line.seen_version
        self._path: PartitionPath | None = None
        #: The places of target topics.
        self._indices: dict[str, int] = {}
        #: The number of templates that were allowed one by one since all were disallowed.
        self._allowed_singly = 0

    def start_over(self) -> None:
        """Withdraw all permissions."""
        for of_topic in self._allowing:
            of_topic.engine.disallow()
        self._allowing.clear()
        self._positional.clear()
        self._allowed_for = None

    def target_index(self, topic: str) -> int:
        """Return the place of a target topic, for `Engine.translate_batch`."""
        return self._indices.setdefault(topic, len(self._indices))

    def enter(self, of_topic: TopicTemplates, path: PartitionPath, offset: int) -> None:
        """Keep the permissions that hold for the rows of a partition from an offset on."""
        version = self._line.seen_version
        if self._moves_rows and version != self._seen_version:
            self.start_over()
        self._seen_version = version
        if self._allowed_for != (path, version) or offset < self._last_offset:
            self._allowed_for, self._allowed_singly = (path, version), 0
            if of_topic in self._positional:
                self._positional.discard(of_topic)
                of_topic.engine.disallow()
        self._path, self._last_offset = path, offset

    def reached(self, offset: int) -> None:
        """Note the last offset that was translated."""
        self._last_offset = offset

    def allow(self, of_topic: TopicTemplates, number: int, partition: int, offset: int) -> bool:
        """Let the engine translate rows with a number, if their output is complete. Return whether it is.

        `offset`: that of a row with this number.
        """
        known = self._templates.known_of(of_topic, number)
        if not self._allow_one(of_topic, number, known, partition, offset):
            return False
        self._allowed_singly += 1
        if self._allowed_singly == _MAX_ALLOWED_SINGLY:
            for other, facts in of_topic.known.items():
                self._allow_one(of_topic, other, facts, partition, offset)
        return True

    def _allow_one(
        self, of_topic: TopicTemplates, number: int, known: TemplateInfo, partition: int, offset: int
    ) -> bool:
        if known.headers or known.is_of_marks or known.condition_cell_parts:
            return False
        if known.allows is not None and not known.allows(partition, offset):
            return False
        if self._moves_rows and not self._has_topic(known):
            return False
        self._allowing.add(of_topic)
        if known.allows is not None:
            self._positional.add(of_topic)
        of_topic.engine.allow(number, known.has_tombstone, self.target_index(self.topic_of(known)))
        return True

    def topic_of(self, known: TemplateInfo) -> str:
        """Return the topic of a template's rows in the current partition."""
        path = self._path
        assert path is not None  # noqa: S101 - a partition was entered
        return path.target if known.topic is None or not self._moves_rows else known.topic.name

    def _has_topic(self, known: TemplateInfo) -> bool:
        """Return whether an earlier record has shown the topic of a template's rows."""
        return known.topic is not None and known.topic.seen_version == self._line.seen_version

    @staticmethod
    def count(of_topic: TopicTemplates, uses: Iterable[tuple[int, int]]) -> list[TemplateInfo]:
        """Count the rows of templates by their numbers; return the facts of these templates."""
        found: list[TemplateInfo] = []
        for number, rows in uses:
            # Facts that are dropped are not allowed any more.
            known = of_topic.known[number]
            known.uses += rows
            found.append(known)
        return found


def most_row_bytes_of(line: Pipeline) -> int:
    """Return the size up to which a row's message and its tombstone are within the limit of output."""
    return max(0, line.limits.output_bytes // 2 - overhead_bytes(1))
