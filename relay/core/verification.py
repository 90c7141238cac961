"""Verifies templates: records that fit one also take the slow path, and both results must be equal.

For tests, and for debugging differences: it takes longer than either path alone.
"""

from __future__ import annotations

from relay.core.translator import Translator
from relay.model.errors import CodecError, RelayError
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.templates.route.policy import EAGER_POLICY


class TemplatesDiffer(RelayError):
    """A template's output differs from the slow path's: a bug in relay. The message contains no values."""

    code = "templates-differ"


class ShadowTranslator(Translator):
    """A translator that verifies its templates. It returns the pipeline's output."""

    _template_policy = EAGER_POLICY
    _has_columns = False

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Return the target's records, like a translator without templates. Raises TemplatesDiffer."""
        uses, before, state = self.paths["fast"], self._settled().copy(), self.state
        by_template = super().translate(record)
        if self.paths["fast"] == uses:
            return by_template
        counts = self._settled()
        counted = counts.copy()
        self.restore(state)  # a record may have statements beside rows with a template
        try:
            slow = self._line.translate(record)
        except CodecError as error:
            raise TemplatesDiffer(f"{record.position}: the pipeline refuses it: {error}") from error
        if slow != by_template:
            raise TemplatesDiffer(f"{record.position}: {_difference(slow, by_template)}")
        if counts.since(counted) != counted.since(before):
            raise TemplatesDiffer(f"{record.position}: other events or losses are counted")
        counts.become(counted)
        return slow


def _difference(slow: list[ProducerRecord], by_template: list[ProducerRecord]) -> str:
    """Return the parts that differ, without their values."""
    if len(slow) != len(by_template):
        return f"{len(by_template)} records in place of {len(slow)}"
    parts = [
        name
        for ours, theirs in zip(by_template, slow, strict=True)
        for name in ProducerRecord.__struct_fields__
        if getattr(ours, name) != getattr(theirs, name)
    ]
    return "another " + ", ".join(dict.fromkeys(parts))
