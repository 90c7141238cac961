"""Templates of rows of TiCDC Debezium JSON: commit ts and times besides the images."""

from __future__ import annotations

from typing import Final

from relay.catalog import Catalog
from relay.codecs.codec import TracedMessage
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder
from relay.codecs.debezium.shared.traced import RowMessage, fitting_change
from relay.codecs.shared.ticdc import TSO_END
from relay.codecs.shared.traced import follows_ddl
from relay.model.events import RowChange
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.scanning import Path
from relay.templates.tracing import NotTemplatable, Trace

_MILLISECOND_NS: Final = 1_000_000
_MS: Final[Path] = ("source", "ts_ms")
_COMMIT_TS: Final[Path] = ("source", "commit_ts")
_START_TS: Final[Path] = ("source", "start_ts")
_EMITTED_MS: Final[Path] = ("ts_ms",)


def traced_row(
    rows: DebeziumRowDecoder, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
) -> TracedMessage:
    """Return a message of one row with traced values. Raises NotTemplatable."""
    message = RowMessage(rows, record, change, trace, (_MS, _COMMIT_TS, _START_TS, _EMITTED_MS))
    ms = message.number(_MS, -TIME_END_MS, TIME_END_MS)
    emitted_ms = message.number(_EMITTED_MS, -TIME_END_MS, TIME_END_MS)
    if ms is None or emitted_ms is None or not ms or not emitted_ms:
        raise NotTemplatable
    commit_ts = message.number(_COMMIT_TS, 1, TSO_END)
    start_ts = message.number(_START_TS, 0, TSO_END)
    event_time_ns = ms * _MILLISECOND_NS
    effective = catalog.effective_schema(change.table, change.source.at(record))
    after = follows_ddl(message.known, effective, commit_ts, event_time_ns, record)
    source = {"event_time_ns": event_time_ns, "commit_ts": commit_ts, "start_ts": start_ts}
    traced = fitting_change(change, message, source, emitted_ms * _MILLISECOND_NS)
    return TracedMessage(message.key, message.value, traced, after)
