"""What is the same for all rows that fit a template."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from relay.codecs.losses import Loss
from relay.model.events import Event, TableId
from relay.model.records import Header
from relay.templates.engine import Message

#: Whether a row in this partition with this offset follows the DDL that it must follow.
Allows = Callable[[int, int], bool]


class TopicOfRows(NamedTuple):
    """The target topic of a template's rows. It holds until the translator goes back to an earlier state:
    then `seen_version` is another.
    """

    name: str
    seen_version: int


class Known:
    """What is the same for all rows that fit a template and lose the same, and how many these were.

    Of values that lose something, the number of a template says which: `lost` has the words for what they
    add to it.
    """

    __slots__ = (
        "allows",
        "events",
        "fingerprint",
        "has_tombstone",
        "headers",
        "is_used",
        "losses",
        "lost",
        "more",
        "served",
        "size",
        "table",
        "topic",
        "uses",
    )

    def __init__(  # noqa: PLR0913 - what is known
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
    ) -> None:
        #: What is counted for each row: its events, without values, and what is lost of them.
        self.events, self.losses, self.lost = events, losses, lost
        #: The headers of the row's payload, and of those that it becomes besides.
        self.headers, self.more = headers, more
        #: Whether a record with the same key and no value follows.
        self.has_tombstone = has_tombstone
        #: None: a row follows all DDL that it must follow, wherever it stands.
        self.allows = allows
        self.table = table
        #: The template's bytes, about, and a number that equal templates have alike.
        self.size = self.fingerprint = 0
        #: How many rows have fitted that are not counted yet, and how many of those that are.
        self.uses = self.served = 0
        #: Whether a row has fitted since somebody looked.
        self.is_used = True
        #: Where rows go, if that depends on their table and was asked before.
        self.topic: TopicOfRows | None = None

    def losing(self, added: int) -> Known:
        """Return the same for records of which values have added this to the template's number."""
        return Known(
            self.events,
            [*self.losses, *map(Loss, self.lost(added))],
            self.headers,
            self.allows,
            self.lost,
            table=self.table,
            more=self.more,
            has_tombstone=self.has_tombstone,
        )


#: What is known of a template that rows beside each other fit, and the messages that they become.
FoundRows = tuple[Known, list[Message]]
