"""Templates of rows of Debezium's own connectors: times, the log position and the order in a transaction
besides the images.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import AfterDdl, TracedMessage
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder
from relay.codecs.debezium.shared.traced import RowMessage, fitting_change
from relay.model.events import Position, RowChange, Source, Transaction
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.scanning import Path
from relay.templates.tracing import NotTemplatable, Trace, TracedNumber

_END_NS: Final = TIME_END_MS * 1_000_000
#: Above any log position.
_END: Final = 1 << 63
#: Units of time, the finest first: the name of the member, and its nanoseconds.
_UNITS: Final = (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000))
_MS: Final[Path] = ("source", "ts_ms")
_POSITION: Final[Path] = ("source", "pos")
_ROW: Final[Path] = ("source", "row")
_THREAD: Final[Path] = ("source", "thread")
_FILE: Final[Path] = ("source", "file")
_GTID: Final[Path] = ("source", "gtid")
_QUERY: Final[Path] = ("source", "query")
_TRANSACTION: Final[Path] = ("transaction", "id")
_ORDER: Final[Path] = ("transaction", "total_order")
_TABLE_ORDER: Final[Path] = ("transaction", "data_collection_order")
_NUMBERS: Final[tuple[Path, ...]] = (
    *[("source", name) for name, _ in _UNITS],
    *[(name,) for name, _ in _UNITS],
    _POSITION,
    _ROW,
    _THREAD,
    _ORDER,
    _TABLE_ORDER,
)
_TEXTS: Final[tuple[Path, ...]] = (_GTID, _QUERY, _TRANSACTION)


def traced_row(
    rows: DebeziumRowDecoder, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
) -> TracedMessage:
    """Return a message of one row with traced values. Raises NotTemplatable."""
    at, newest = catalog.newest(change.table)
    follows_in_log = at is not None and _follows_in_log(change.source, at, record)
    texts = _TEXTS if follows_in_log else (*_TEXTS, _FILE)
    message = RowMessage(rows, record, change, trace, _NUMBERS, texts)
    if newest is not message.known:
        raise NotTemplatable
    source = _source(change.source, message, has_file=not follows_in_log)
    after = None
    if at is not None:
        after = _log_follows(change.source, source, at) if follows_in_log else _follows(message, at, record)
    traced = fitting_change(change, message, source, _time_ns(message, ()))
    if change.transaction is not None:
        traced = msgspec.structs.replace(traced, transaction=_transaction(change.transaction, message))
    return TracedMessage(message.key, message.value, traced, after)


# ---------------------------------------------------------------- facts


def _source(source: Source, message: RowMessage, *, has_file: bool) -> dict[str, Any]:
    """Return the members of the source that have traced values. `has_file`: the file is one of them."""
    file = message.text(_FILE) if has_file else source.binlog_file
    found: dict[str, Any] = {
        "event_time_ns": _time_ns(message, ("source",)),
        "thread_id": message.number(_THREAD),
        "gtid": message.text(_GTID) or source.gtid,
        "query": message.text(_QUERY) or source.query,
        "binlog_file": file,
    }
    position = None if file is None else message.number(_POSITION, 0, _END)
    if position is not None:
        found |= {"binlog_position": position, "binlog_row": message.number(_ROW)}
    return found


def _time_ns(message: RowMessage, part: Path) -> TracedNumber:
    """Return the time of a part of the message, in the finest unit that it has."""
    ms = message.number((*part, "ts_ms"), -TIME_END_MS, TIME_END_MS)
    for name, unit_ns in _UNITS:
        number = message.number((*part, name))
        if number is not None:
            found = number * unit_ns
            if ms is None or not ms or not found or not (found >= -_END_NS and found < _END_NS):
                raise NotTemplatable
            return found
    raise NotTemplatable


def _transaction(transaction: Transaction, message: RowMessage) -> Transaction:
    identifier = message.text(_TRANSACTION)
    if identifier is None:
        raise NotTemplatable
    return msgspec.structs.replace(
        transaction, id=identifier, order=message.number(_ORDER), table_order=message.number(_TABLE_ORDER)
    )


# ---------------------------------------------------------------- order


def _is_same_partition(at: Position, record: ConsumerRecord) -> bool:
    """Return whether DDL is in the partition of a record."""
    return at.partition == record.partition and at.topic == record.topic


def _follows_in_log(source: Source, at: Position, record: ConsumerRecord) -> bool:
    """Return whether only the log position orders a row after DDL; the file then belongs to the shape."""
    millisecond_ns = source.event_time_ns // 1_000_000 * 1_000_000
    return not _is_same_partition(at, record) and millisecond_ns <= at.event_time_ns


def _log_follows(source: Source, traced: dict[str, Any], at: Position) -> AfterDdl:
    """Note that rows of other partitions come later in the log than DDL, as the actual one does."""
    file, position = source.binlog_file, traced.get("binlog_position")
    if at.log is None or file is None or position is None:
        raise NotTemplatable
    log_file = len(file), file
    if log_file < at.log[:2] or (log_file == at.log[:2] and not position > at.log[2]):
        raise NotTemplatable
    return AfterDdl(at, is_alone=False)


def _follows(message: RowMessage, at: Position, record: ConsumerRecord) -> AfterDdl:
    """Note that rows follow DDL as the actual one does: by their time, or by offset in its partition."""
    ms = message.number(_MS)
    if ms is None:
        raise NotTemplatable
    after = AfterDdl(at, is_alone=not ms * 1_000_000 > at.event_time_ns)
    if not after.allows(record):
        raise NotTemplatable
    return after
