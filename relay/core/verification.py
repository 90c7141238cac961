"""Both ways at once: records that fit a template take the slow path as well, and the two must agree.

For tests, and to look for the reason of a difference: it takes longer than either way alone.
"""

from __future__ import annotations

from relay.core.translator import Translator
from relay.model.errors import CodecError, RelayError
from relay.model.records import ConsumerRecord, ProducerRecord


class TemplatesDiffer(RelayError):
    """A template gave something else than the slow path: a fault in relay. It quotes no value."""

    code = "templates-differ"


class ShadowTranslator(Translator):
    """A translator whose templates are checked. What it gives is the pipeline's."""

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Give the target's records, as a translator without templates does. Raises TemplatesDiffer."""
        uses, before = self.ways["template"], self._settled().copy()
        by_template = super().translate(record)
        if self.ways["template"] == uses:
            return by_template
        counts = self._settled()
        counted = counts.copy()
        try:
            straight = self._line.translate(record)
        except CodecError as error:
            raise TemplatesDiffer(f"{record.place}: the pipeline refuses it: {error}") from error
        if straight != by_template:
            raise TemplatesDiffer(f"{record.place}: {_difference(straight, by_template)}")
        if counts.since(counted) != counted.since(before):
            raise TemplatesDiffer(f"{record.place}: other events or losses are counted")
        counts.become(counted)
        return straight


def _difference(straight: list[ProducerRecord], by_template: list[ProducerRecord]) -> str:
    """Say which parts differ, without their values."""
    if len(straight) != len(by_template):
        return f"{len(by_template)} records in place of {len(straight)}"
    parts = [
        name
        for ours, theirs in zip(by_template, straight, strict=True)
        for name in ProducerRecord.__struct_fields__
        if getattr(ours, name) != getattr(theirs, name)
    ]
    return "another " + ", ".join(dict.fromkeys(parts))
