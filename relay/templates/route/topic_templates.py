"""The templates of one source topic, and the decision when a shape of its messages gets one.

A shape groups messages that are counted together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from relay.templates.engine import Engine
from relay.templates.ops import LOSS
from relay.templates.route.known import TemplateInfo
from relay.templates.route.policy import DEFAULT_POLICY

#: Maximum shapes that are counted; beyond that, counting starts over.
_MAX_COUNTED: Final = 10_000
#: Back-off factor. After a failed derivation, the next attempt comes after this many times as many messages.
#: If templates replace one another, each is derived only after this many times as many messages as the
#: previous one.
_BACKOFF_FACTOR: Final = 8
#: Rows that should fit a template, for each derivation, successful or not.
BREAK_EVEN_ROWS: Final = 64
#: Maximum replaced templates that a topic remembers.
_MAX_REPLACED: Final = 1_000

#: Messages that are counted together: their text at the marker, and whether their rows are split.
Shape = tuple[bytes, bool]


class TopicTemplates:
    """The templates of a source topic's messages, and the counts of messages by shape.

    shape_bytes: Maximum bytes of the texts of shapes that are counted; beyond that, counting starts over.
    """

    def __init__(self, engine: Engine, shape_bytes: int = DEFAULT_POLICY.shape_bytes) -> None:
        self.engine, self._max_seen_bytes = engine, shape_bytes
        #: The number of messages before the first derivation, by their text at the marker.
        self._warmup_counts: dict[bytes, int] = {}
        self._warmup_bytes = 0
        self.forget_derivations()
        self.translate, self.translate_rows = engine.translate, engine.translate_rows
        self.translate_groups = engine.translate_groups
        #: Facts by the number that an engine returns.
        self.known: dict[int, TemplateInfo] = {}
        #: The numbers for records with losses, by the number of their template, and their total count.
        self._loss_variants: defaultdict[int, list[int]] = defaultdict(list)
        self.loss_variant_count = 0

    def forget_derivations(self) -> None:
        """Forget which shapes have a template or failed, and which templates replaced others.

        Warm-up counts stay, so that the next message of a shape can trigger its derivation.
        """
        #: By shape: messages that fitted no template, the number of the next message to derive one from, and
        #: the number of templates that replaced others.
        self._seen: dict[Shape, tuple[int, int, int]] = {}
        self._seen_bytes = 0
        #: The fingerprints of replaced templates; their number, and the number of their rows.
        self._replaced: set[int] = set()
        self._replaced_count = self._replaced_served = 0

    def add_loss_variant(self, number: int) -> TemplateInfo:
        """Return the facts of records for which an engine returns this number, and store them."""
        added, template = divmod(number, LOSS)
        known = self.known[number] = self.known[template].with_losses(added * LOSS)
        self._loss_variants[template].append(number)
        self.loss_variant_count += 1
        return known

    def pop_all(self, template: int) -> list[TemplateInfo]:
        """Remove and return the facts of a template."""
        variants = self._loss_variants.pop(template, ())
        self.loss_variant_count -= len(variants)
        return [self.known.pop(number) for number in (template, *variants) if number in self.known]

    def pop_loss_variants(self) -> list[TemplateInfo]:
        """Remove and return the facts of records with losses. Columns may have no rows then."""
        self.engine.disallow()
        found: list[TemplateInfo] = []
        for template, numbers in self._loss_variants.items():
            variants, base = [self.known.pop(number) for number in numbers], self.known[template]
            if any(known.uses or known.is_used for known in variants):
                base.is_used = True
            base.served += sum(known.served + known.uses for known in variants)
            found += variants
        self._loss_variants.clear()
        self.loss_variant_count = 0
        return found

    def count_warmup(self, marked: bytes, threshold: int) -> int:
        """Count a message without a template, by its text at the marker. Return the count.

        From `threshold` on, `count_message` counts such messages.
        """
        count = self._warmup_counts.get(marked)
        if count is None:
            if len(self._warmup_counts) >= _MAX_COUNTED or self._warmup_bytes > self._max_seen_bytes:
                self._warmup_counts.clear()
                self._warmup_bytes = 0
            self._warmup_bytes += len(marked)
            count = 0
        elif count >= threshold:
            return count
        self._warmup_counts[marked] = count + 1
        return count + 1

    def warmup_count(self, marked: bytes) -> int:
        """Return the number of messages that `count_warmup` has counted with this text."""
        return self._warmup_counts.get(marked, 0)

    def count_message(self, shape: Shape, threshold: int) -> tuple[int, int]:
        """Count a message without a template after the warm-up (`count_warmup`). Return the count, and the
        count at which to derive a template.

        `threshold`: the initial count at which to derive one.
        """
        if shape not in self._seen:
            if len(self._seen) >= _MAX_COUNTED or self._seen_bytes > self._max_seen_bytes:
                self._seen.clear()
                self._seen_bytes = 0
            self._seen_bytes += len(shape[0])
        seen, due, replaced = self._seen.get(shape, (threshold - 1, threshold, 0))
        self._seen[shape] = seen + 1, due, replaced
        return seen + 1, due

    def reset_counts(self, shape: Shape) -> None:
        """Reset the counts of messages of a shape."""
        if self._warmup_counts.pop(shape[0], None) is not None:
            self._warmup_bytes -= len(shape[0])
        if self._seen.pop(shape, None) is not None:
            self._seen_bytes -= len(shape[0])

    def displaces(self, derived: TemplateInfo, replaced: Sequence[TemplateInfo]) -> bool:
        """Return whether a template and those that it has replaced displace one another.

        They do if the new one was itself replaced before, or if the replaced ones have hardly been used.
        Otherwise rows have changed, as from one definition of a table to the next; or the replaced ones have
        only been left over (`RouteTemplates.start_over`).
        """
        fingerprint = replaced[0].fingerprint
        if fingerprint == derived.fingerprint:
            return True
        if all(known.is_unused_since_start for known in replaced):
            return False
        self._replaced_count += 1
        self._replaced_served += sum(known.served for known in replaced)
        if len(self._replaced) >= _MAX_REPLACED:
            self._replaced.clear()
        self._replaced.add(fingerprint)
        return (
            derived.fingerprint in self._replaced
            or self._replaced_served < BREAK_EVEN_ROWS * self._replaced_count
        )

    def note_derived(self, shape: Shape, *, displaces: bool) -> None:
        """Record that a template was derived from a message. `displaces`: see the method."""
        seen, replaced = self._counted(shape)
        replaced += displaces
        self._seen[shape] = seen, seen + _BACKOFF_FACTOR**replaced, replaced

    def note_failed(self, shape: Shape) -> None:
        """Record that no template could be derived from a message."""
        seen, replaced = self._counted(shape)
        self._seen[shape] = seen, seen * _BACKOFF_FACTOR, replaced

    def _counted(self, shape: Shape) -> tuple[int, int]:
        """Return the number of messages of a shape, and of its templates that replaced others.

        Its counts may have been reset meanwhile: tables of several databases can share a shape.
        """
        if shape not in self._seen:
            self._seen_bytes += len(shape[0])
            return 1, 0
        seen, _, replaced = self._seen[shape]
        return seen, replaced
