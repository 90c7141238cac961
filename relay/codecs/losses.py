"""What a wire can carry, and what is counted where it cannot.

`Lossy` names the counters, `Carries` says what a wire holds with given options, `source_losses` counts what a
target lacks of an event's `Source`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from relay.model import Event, Heartbeat, Source, TransactionMark, Watermark


class Lossy(enum.StrEnum):
    """What a route can lose: the names of the counters."""

    COMMIT_TS = "commit-ts"
    COMMIT_TS_SYNTHETIC = "commit-ts-synthetic"
    WATERMARK = "watermark"
    TRANSACTION_MARK = "transaction-mark"
    HEARTBEAT = "heartbeat"
    TOMBSTONE = "tombstone"
    STATEMENT = "statement"
    GTID = "gtid"
    ROW_KEY = "row-key"
    EXTRAS = "extras"
    SNAPSHOT = "snapshot"
    SCHEMA_GUESSED = "schema-guessed"
    VALUE_GUESSED = "value-guessed"
    DDL_NOT_UNDERSTOOD = "ddl-not-understood"
    BEFORE_UNKNOWN = "before-unknown"
    COLUMNS_ABSENT = "columns-absent"
    TYPE_PARAMETERS = "type-parameters"
    DELETE_IMAGE = "delete-image"
    BEFORE_IMAGE = "before-image"
    INVALID_TEXT = "invalid-text"
    COLUMN_TYPE = "column-type"
    UNTYPED = "untyped"
    START_TS = "start-ts"
    SOURCE_NAME = "source-name"
    EMPTY_ROW = "empty-row"
    DECIMAL_DIGITS = "decimal-digits"
    ZERO_DATE = "zero-date"
    YEAR_BELOW_100 = "year-below-100"
    ENUM_INDEX = "enum-index"
    NULL_REPLACED_BY_DEFAULT = "null-replaced-by-default"
    NULL_OR_DEFAULT = "null-or-default"
    EPOCH_OR_ZERO_DATE = "epoch-or-zero-date"
    PRIMARY_KEY = "primary-key"
    EVENT_TIME_PRECISION = "event-time-precision"
    BINLOG_POSITION = "binlog-position"
    BINLOG_POSITION_SYNTHETIC = "binlog-position-synthetic"

    # Counted for every row; Enum's own hash is a Python function.
    __hash__ = str.__hash__


#: What is counted although nothing is lost by it: what relay had to assume, and text that passes without
#: being understood.
INFORMATIONAL: Final = frozenset(
    {Lossy.SCHEMA_GUESSED, Lossy.DDL_NOT_UNDERSTOOD, Lossy.NULL_OR_DEFAULT, Lossy.EPOCH_OR_ZERO_DATE}
)


#: What is lost of an event for which the target has no message.
UNSUPPORTED_EVENT_LOSSES: Final[Mapping[type[Event], Lossy]] = {
    Watermark: Lossy.WATERMARK,
    TransactionMark: Lossy.TRANSACTION_MARK,
    Heartbeat: Lossy.HEARTBEAT,
}


class Before(enum.StrEnum):
    """How much of a changed row's old image a wire carries."""

    FULL = "full"
    CHANGED = "changed columns (the rest follows from the new row)"
    NONE = "none"


class Keys(enum.StrEnum):
    """What the Kafka key of a row's message stands for: what a compacted topic keeps the last record of.

    `MESSAGE`: a key belongs to its message and is data; messages of one transaction may have the same.
    """

    NONE = "none (null keys)"
    MESSAGE = "the message"
    ROW = "the row"


class Carries(msgspec.Struct, frozen=True, kw_only=True):
    """What a wire, with given options, can say. Booleans are printed as yes or no.

    Values that most wires hold have the default True, facts that only some know the default False.
    `exact_decimals`: all digits of DECIMAL. `every_date`: zero dates, dates that are not in the calendar,
    years below 100. `null_beside_default`: NULL in a column that has a default. `source_name`: the name of
    the source, TiCDC's cluster id. `snapshot`: that a row was read from a table and not from the log.
    `physical_partition`: the table id of a partitioned table's partition.
    """

    before: Before
    delete_image: bool
    primary_key: bool
    column_types: bool = True
    type_parameters: bool
    ddl: bool
    watermark: bool
    exact_decimals: bool = True
    every_date: bool = True
    null_beside_default: bool = True
    event_time_milliseconds: bool = True
    commit_ts: bool
    start_ts: bool = False
    gtid: bool
    binlog_position: bool = False
    source_name: bool = False
    snapshot: bool = False
    row_key: bool = False
    physical_partition: bool = False
    transaction_marks: bool = False


def source_losses(carries: Carries, source_name: str | None = None) -> Callable[[Source, list[Lossy]], None]:
    """How a target counts what it loses of an event's `Source`. `source_name`: the one that it writes, if it
    writes one.
    """
    keeps_commit_ts, keeps_row_key, keeps_snapshot = carries.commit_ts, carries.row_key, carries.snapshot
    may_keep = {"ptn"} if carries.physical_partition else set()

    def count(source: Source, lossy: list[Lossy]) -> None:
        if not keeps_commit_ts and source.commit_ts is not None:
            lossy.append(_COMMIT_TS)
        if source.extras is not None and not source.extras.keys() <= may_keep:
            lossy.append(Lossy.EXTRAS)
        if source.snapshot and not keeps_snapshot:
            lossy.append(Lossy.SNAPSHOT)
        if source.row_key is not None and not keeps_row_key:
            lossy.append(Lossy.ROW_KEY)
        # Most sources have none of what is left.
        if (
            source.start_ts is None
            and source.gtid is None
            and source.binlog_position is None
            and source.name is None
        ):
            return
        rare = {
            Lossy.START_TS: source.start_ts is not None and not carries.start_ts,
            Lossy.GTID: source.gtid is not None and not carries.gtid,
            Lossy.BINLOG_POSITION: source.binlog_position is not None and not carries.binlog_position,
            Lossy.SOURCE_NAME: source.name not in {None, _NO_NAME, source_name},
        }
        lossy += [what for what, is_lost in rare.items() if is_lost]

    return count


_COMMIT_TS: Final = Lossy.COMMIT_TS
#: The cluster id of every TiCDC that was not given one.
_NO_NAME: Final = "default"
