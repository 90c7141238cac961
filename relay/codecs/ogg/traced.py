"""Templates of rows: their times, position and cells differ; everything else is the same."""

from __future__ import annotations

from relay.codecs.ogg.messages import TIMES, OggMessage, parse
from relay.codecs.shared.json_cells import cell_tokens
from relay.codecs.shared.local_times import LocalTimes
from relay.codecs.shared.traced_messages import (
    TEXT,
    CellTokens,
    Declaration,
    TracedPart,
    TracedRow,
    VariableMember,
    local_time,
)
from relay.model.events import RowChange
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace


def traced_row(
    record: ConsumerRecord, change: RowChange, trace: Trace, times: LocalTimes, limits: Limits
) -> tuple[TracedRow, OggMessage]:
    """Return the split message of a row, and its decoded form with traced members. Raises NotTemplatable."""
    key, value = TracedPart(record.key), TracedPart(record.value)
    row = TracedRow(record, change, trace, key, value)
    key.vary_scalars()
    declared: Declaration = {name: VariableMember((name,), local_time(times.zone)) for name in TIMES}
    declared = {"pos": VariableMember(("pos",), TEXT), **declared}
    value.vary(declared)
    reader = row.reader

    def cells(part: str) -> list[CellTokens]:
        return [cell_tokens(reader, at, value.kind_at((part, name))) for at, name in enumerate(reader.names)]

    row.vary_cells(reader.names, cells, limits)
    row.split()
    message = parse(value.text, times, [])
    if message.without_counterpart() is not None:
        raise NotTemplatable
    return row, value.traced(message, declared, trace)
