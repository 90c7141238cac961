"""The templates of one source topic, and when a shape of its messages is due for one.

A shape is what messages that are counted together have alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from relay.templates.engine import Engine
from relay.templates.ops import LOSS
from relay.templates.route.known import Known

#: How many shapes are counted before they have a template, and how many bytes their texts at the marker may
#: take; then counting begins anew.
_MOST_COUNTED: Final = 10_000
_MOST_COUNTED_BYTES: Final = 1 << 20
#: Where a template cannot be derived, it is tried again once this many times as many messages have come.
#: Where templates drive each other out, each is derived only after this many times as many messages as the
#: one before.
_PATIENCE: Final = 8
#: For each template that was made, or could not be, so many rows should have fitted one.
WORTH: Final = 64
#: How many templates of a topic are remembered that have lost their place.
_MOST_REPLACED: Final = 1_000

#: Messages that are counted together: their text at the marker, and whether their rows are split.
Shape = tuple[bytes, bool]


class TopicTemplates:
    """The templates of a source topic's messages, and how often shapes without one were met."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.translate, self.translate_rows = engine.translate, engine.translate_rows
        #: By what an engine gives as a template's number.
        self.known: dict[int, Known] = {}
        #: The numbers of records that lose something, by their template's, and how many there are.
        self._losing: defaultdict[int, list[int]] = defaultdict(list)
        self.losing_count = 0
        #: By shape: how many messages fitted no template, which one is to be the next, and how many templates
        #: were made that took the place of others.
        self._met: dict[Shape, tuple[int, int, int]] = {}
        self._met_bytes = 0
        #: The fingerprints of templates whose place others have taken; how many these were, and their rows.
        self._replaced: set[int] = set()
        self._replaced_count = self._replaced_served = 0

    def losing(self, number: int) -> Known:
        """Return what is known of records for which an engine gives this number, and keep it."""
        added, template = divmod(number, LOSS)
        known = self.known[number] = self.known[template].losing(added * LOSS)
        self._losing[template].append(number)
        self.losing_count += 1
        return known

    def pop_all(self, template: int) -> list[Known]:
        """Remove and return what is known of a template."""
        losing = self._losing.pop(template, ())
        self.losing_count -= len(losing)
        return [self.known.pop(number) for number in (template, *losing) if number in self.known]

    def pop_losing(self) -> list[Known]:
        """Remove and return what is known of records that lose something."""
        found: list[Known] = []
        for template, numbers in self._losing.items():
            losing, base = [self.known.pop(number) for number in numbers], self.known[template]
            if any(known.uses or known.is_used for known in losing):
                base.is_used = True
            base.served += sum(known.served + known.uses for known in losing)
            found += losing
        self._losing.clear()
        self.losing_count = 0
        return found

    def meet(self, shape: Shape, sight: int) -> tuple[int, int]:
        """Count a message that fitted no template. Return how many did, and of which to derive one: the one
        with number `sight` at first.
        """
        if shape not in self._met:
            if len(self._met) >= _MOST_COUNTED or self._met_bytes > _MOST_COUNTED_BYTES:
                self._met.clear()
                self._met_bytes = 0
            self._met_bytes += len(shape[0])
        met, due, replaced = self._met.get(shape, (0, sight, 0))
        self._met[shape] = met + 1, due, replaced
        return met + 1, due

    def count_anew(self, shape: Shape) -> None:
        """Forget how many messages of a shape have come."""
        if self._met.pop(shape, None) is not None:
            self._met_bytes -= len(shape[0])

    def is_rival(self, made: Known, replaced: Sequence[Known]) -> bool:
        """Whether a template and what it has replaced drive each other out: it was replaced itself before, or
        those that were replaced have hardly been worth their making. Otherwise rows have moved on, as from
        one definition of a table to the next.
        """
        fingerprint = replaced[0].fingerprint
        if fingerprint == made.fingerprint:
            return True
        self._replaced_count += 1
        self._replaced_served += sum(known.served for known in replaced)
        if len(self._replaced) >= _MOST_REPLACED:
            self._replaced.clear()
        self._replaced.add(fingerprint)
        return made.fingerprint in self._replaced or self._replaced_served < WORTH * self._replaced_count

    def note_made(self, shape: Shape, *, is_rival: bool) -> None:
        """Note that a template was made of a message; `is_rival`: it drives out another one (`is_rival`)."""
        met, _, replaced = self._met[shape]
        replaced += is_rival
        self._met[shape] = met, met + _PATIENCE**replaced, replaced

    def note_none(self, shape: Shape) -> None:
        """Note that no template could be made of a message."""
        met, _, replaced = self._met[shape]
        self._met[shape] = met, met * _PATIENCE, replaced
