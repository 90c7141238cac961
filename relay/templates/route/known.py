"""The facts shared by all rows that fit a template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from relay.codecs.losses import Loss
from relay.model.events import Event, TableId
from relay.model.records import Header
from relay.templates.engine import Message

#: Returns whether a row with this partition and offset follows the DDL that it must follow.
Allows = Callable[[int, int], bool]


class EvaluatesRows(Protocol):
    """The row rules for the rows of a template."""

    def evaluate(self, value: bytes) -> tuple[Any, bytes]:
        """Return the verdict on a row, and its message's value without the cells before it."""
        ...


class TopicOfRows(NamedTuple):
    """The target topic of a template's rows. It is valid until the translator returns to an earlier state,
    which changes `seen_version`.
    """

    name: str
    seen_version: int


class TemplateInfo:
    """The facts shared by all rows that fit a template with the same losses, and the number of such rows.

    An engine's number contains additions for lossy values; `lost` converts them to loss kinds.
    """

    __slots__ = (
        "allows",
        "condition_cell_parts",
        "events",
        "fingerprint",
        "has_tombstone",
        "headers",
        "is_of_marks",
        "is_unused_since_start",
        "is_used",
        "left_out",
        "losses",
        "lost",
        "more",
        "read_losses",
        "row_filter",
        "served",
        "size",
        "table",
        "topic",
        "uses",
        "written_for",
    )

    def __init__(  # noqa: PLR0913 - one parameter per fact
        self,
        events: list[Event],
        losses: list[Loss],
        headers: tuple[Header, ...],
        allows: Allows | None,
        lost: Callable[[int], list[str]],
        *,
        table: TableId,
        more: list[tuple[Header, ...]],
        has_tombstone: bool,
        written_for: str | None = None,
        is_of_marks: bool = False,
    ) -> None:
        #: Counted for each row: its events, without values, and its losses.
        self.events, self.losses, self.lost = events, losses, lost
        #: The headers of the row's first payload, and of further ones.
        self.headers, self.more = headers, more
        #: Whether the template is for marks that become no message. The engine returns a message without key
        #: and value, which is not written.
        self.is_of_marks = is_of_marks
        #: Whether a record with the same key and no value follows.
        self.has_tombstone = has_tombstone
        #: The topic that the messages are for; None if they do not depend on it.
        self.written_for = written_for
        #: None: a row follows all DDL that it must follow, regardless of its position.
        self.allows = allows
        self.table = table
        #: The template's approximate bytes, and its hash, which is the same for equal templates.
        self.size = self.fingerprint = 0
        #: Rows that fitted and are not yet counted, and rows that are counted.
        self.uses = self.served = 0
        #: Whether a row has fitted since the last check.
        self.is_used = True
        #: Whether no row has fitted since the translator started over.
        self.is_unused_since_start = False
        #: The number of parts that the template prints before its value, for row rules; the losses of reading
        #: a row; and, once a row has fitted, the verdicts on its rows and the number that was left out.
        self.condition_cell_parts = 0
        self.read_losses: list[Loss] = []
        self.row_filter: EvaluatesRows | None = None
        self.left_out = 0
        #: The topic of rows, cached if it depends on their table.
        self.topic: TopicOfRows | None = None

    def with_losses(self, added: int) -> TemplateInfo:
        """Return the same facts for records whose values made these additions to the template's number."""
        found = TemplateInfo(
            self.events,
            [*self.losses, *map(Loss, self.lost(added))],
            self.headers,
            self.allows,
            self.lost,
            table=self.table,
            more=self.more,
            has_tombstone=self.has_tombstone,
            written_for=self.written_for,
            is_of_marks=self.is_of_marks,
        )
        found.condition_cell_parts, found.read_losses = self.condition_cell_parts, self.read_losses
        return found


#: The facts of a template that adjacent rows fit, and the messages that they become.
FoundRows = tuple[TemplateInfo, list[Message]]
