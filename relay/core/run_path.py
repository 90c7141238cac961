"""Translates runs of records by templates, from the bytes of a source batch into those of a target batch,
with the output and counts of `FastPath`.

A record that needs more than an engine's output is left to the translator, in its turn.
"""

from __future__ import annotations

from relay.core.allowed_templates import AllowedTemplates, most_row_bytes_of
from relay.core.pipeline import Pipeline
from relay.templates.batches import SourceBatch, TargetBatch, WrittenRun
from relay.templates.route.route_templates import RouteTemplates


class RunPath:
    """Translates records without headers that fit templates, keep their partition, and become one message, or
    one and its tombstone, without own headers.
    """

    def __init__(self, line: Pipeline, templates: RouteTemplates, allowed: AllowedTemplates) -> None:
        self._line, self._templates, self._allowed = line, templates, allowed
        self._most_row_bytes = most_row_bytes_of(line)

    def translate(
        self,
        topic: str,
        partition: int,
        source: SourceBatch,
        first: int,
        end: int,
        targets: list[TargetBatch | None],
    ) -> int:
        """Translate the rows from `first` on; see `Translator.translate_batch`."""
        line, templates, allowed = self._line, self._templates, self._allowed
        if line.catalog is not templates.catalog or templates.idle:
            return 0
        of_topic, path = templates.of_topic(topic), line.path_of(topic, partition)
        if not targets or not of_topic.known:
            return 0
        allowed.enter(of_topic, path, source.offset_of(first))
        row = first
        while row < end:
            run = WrittenRun(
                *of_topic.engine.translate_batch(
                    source, row, end, targets, self._most_row_bytes, path.header_prefix
                )
            )
            allowed.count(of_topic, run.uses)
            row += run.rows
            if run.refused is None:
                break
            if not allowed.allow(of_topic, run.refused, partition, source.offset_of(row)):
                break
        allowed.reached(source.offset_of(max(first, row - 1)))
        return row - first
