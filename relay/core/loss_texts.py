"""Descriptions of a route's losses.

They are keyed by field of `Capabilities` for those of a wire format, and by `Loss` for counted ones. Both
tables are complete: otherwise this module cannot be imported (kinds) or a test fails (fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from relay.codecs import Handling, LargeMessageOptions
from relay.codecs.codec import Options
from relay.codecs.losses import FIELDS_OF_LOSSES, Capabilities, Loss, has_fact

FIELD_TEXTS: Final[Mapping[str, str]] = {
    "before": "the old row of an update",
    "deletes": "deleted rows",
    "delete_image": "the columns of a deleted row other than its key",
    "primary_key": "the columns of the primary key",
    "column_types": "the types of columns",
    "type_parameters": "type parameters: lengths, precisions, the members of ENUM and SET",
    "column_charset": "charsets of columns that are not in the text of their DDL",
    "column_enum_charset": "charsets of ENUM and SET that are not in the text of their DDL",
    "column_collation": "collations of columns that are not in the text of their DDL",
    "ddl": "DDL: schema changes are not written",
    "truncate": "TRUNCATE of a table: readers keep its rows",
    "watermark": "watermarks",
    "exact_decimals": "DECIMAL digits beyond the precision of a 64-bit float",
    "every_date": "zero dates, dates that are not in the calendar, years below 100",
    "every_time": "TIME beyond a day, fractional seconds, or years that the encoding of times cannot "
    "represent",
    "null_beside_default": "NULL in a column that has a default",
    "event_time_milliseconds": "the fraction of a second of the event time",
    "event_time_nanoseconds": "the fraction of a millisecond of the event time",
    "commit_ts": "the commit ts of TiDB",
    "start_ts": "the start ts of TiDB",
    "gtid": "the GTID of the transaction",
    "binlog_position": "the binlog file and position",
    "binlog_row": "the number of a row in its binlog event",
    "source_name": "the name of the source (TiCDC's cluster id)",
    "snapshot": "whether a row comes from a snapshot or from the log",
    "row_key": "the row key of TiKV",
    "physical_partition": "the table id of a partition (`ptn`)",
    "schema_id": "Maxwell's schema number (`schema_id`)",
    "trail_position": "the position in GoldenGate's trail (`pos`)",
    "server_id": "the id of the MySQL server",
    "thread_id": "the id of the MySQL thread",
    "query": "the statement that changed the row",
    "transaction": "the transaction of a row",
    "transaction_order": "a row's position in its transaction",
    "transaction_total": "the number of events in a transaction",
    "transaction_marks": "BEGIN and END of transactions",
}

#: Kinds of loss without a field.
_OTHER_TEXTS: Final[Mapping[Loss, str]] = {
    Loss.ADMIN_STATEMENT: "a statement that changes no table (GRANT, CREATE USER and the like), not written",
    Loss.BEFORE_MISSING: "the old row of an update, which the source does not have",
    Loss.BINLOG_POSITION_SYNTHETIC: "the source has no binlog position: the offset is used",
    Loss.BOOTSTRAP: "a table definition without its DDL statement",
    Loss.CHECKSUM: "a row whose checksum does not match its values, or that its producer marks as corrupted",
    Loss.COLUMNS_ABSENT: "the row lacks columns that its table has",
    Loss.COMMIT_TS_SYNTHETIC: "the source has no commit ts: it is derived from event time and offset",
    Loss.DDL_COPIES: "a statement's copies in other partitions, where the target has it once",
    Loss.DDL_MERGED: "statements of shards, which the table that they are merged into has or gets once",
    Loss.DDL_NOT_REWRITTEN: "statements that relay cannot rewrite for the column or table rules: not written",
    Loss.DDL_NOT_UNDERSTOOD: "the statement is written unchanged, but was not applied to the schema",
    Loss.EMPTY_ROW: "a row message without a row",
    Loss.ENUM_INDEX: "an ENUM or SET number without a label",
    Loss.EPOCH_OR_ZERO_DATE: "1970-01-01, which may represent a zero date",
    Loss.EVENT_TIME: "the source has no event time: that of the message or of the Kafka record is used",
    Loss.UNKNOWN_FIELDS: "members of the message that its protocol does not define",
    Loss.HEARTBEAT: "heartbeats",
    Loss.INVALID_TEXT: "bytes in a text value that are not UTF-8",
    Loss.JSON_NULL: "the JSON document null, which readers see as NULL",
    Loss.EVENTS_FILTERED: "events of kinds that the route leaves out",
    Loss.COLUMNS_FILTERED: "statements that only concern dropped columns, or definitions that rules replace",
    Loss.ROWS_DEDUPLICATED: "rows that the source sent again, dropped by `deduplicate`",
    Loss.ROWS_BELOW_WATERMARK: "rows below the watermark that `deduplicate` does not remember: written",
    Loss.REPEATS_ABOVE_WATERMARK: "rows sent again before a watermark passed them: written again",
    Loss.ROWS_FILTERED: "rows that a row rule leaves out (`where`, `ignore_updates_of`)",
    Loss.COLUMN_NAMES: "names of databases, tables or columns replaced because Avro does not accept them",
    Loss.NO_TOPIC: "statements of databases and watermarks, while no table's topic is in use",
    Loss.NULL_OR_DEFAULT: "a column's default, which may represent NULL",
    Loss.RECORD_TIME: "the Kafka timestamp is beyond the year 4199: it is kept, but not used as a time",
    Loss.REPEATED_HOUR: "a local time that occurs twice when clocks go back: the earlier one is used",
    Loss.SCHEMA_INFERRED: "the table's DDL is not known: column types are inferred from the message",
    Loss.STATEMENT: "a statement that is not DDL",
    Loss.TABLE_DEFINITION: "a statement about a table whose definition is not known: only the table's name "
    "is written",
    Loss.TABLES_FILTERED: "events of tables that the route leaves out; their DDL is still applied",
    Loss.TRUNCATE_OR_DROP: "a TRUNCATE or DROP that is not written: readers keep the rows that it removed",
    Loss.TOMBSTONE: "a record without a value, which has no information",
    Loss.VALUE_INFERRED: "the type of a column is known only from its value",
    Loss.ZONE_INFERRED: "TIMESTAMP values without a zone: read in the zone of the source option `timezone`",
}


def _text_of(kind: Loss) -> str:
    if kind in _OTHER_TEXTS:
        return _OTHER_TEXTS[kind]
    return FIELD_TEXTS[FIELDS_OF_LOSSES.get(kind, kind.replace("-", "_"))]


LOSS_TEXTS: Final[Mapping[Loss, str]] = {kind: _text_of(kind) for kind in Loss}


class RouteLoss(msgspec.Struct, frozen=True):
    """One loss of a route: the field of `Capabilities`, its description, and its counters.

    `kinds`: the loss kinds by which it is counted, as in `strict`.
    """

    what: str
    text: str
    kinds: tuple[Loss, ...] = ()


#: Loss kinds of fields that share a kind with another field.
_KINDS_OF_FIELDS: Final[Mapping[str, Loss]] = {
    "column_charset": Loss.TYPE_PARAMETERS,
    "column_enum_charset": Loss.TYPE_PARAMETERS,
    "column_collation": Loss.TYPE_PARAMETERS,
    "event_time_nanoseconds": Loss.EVENT_TIME_PRECISION,
    "truncate": Loss.TRUNCATE_OR_DROP,
}


def _kinds_of(field: str) -> tuple[Loss, ...]:
    names = {
        kind: FIELDS_OF_LOSSES.get(kind, kind.replace("-", "_")) for kind in Loss if kind not in _OTHER_TEXTS
    }
    if field in _KINDS_OF_FIELDS:
        return (_KINDS_OF_FIELDS[field],)
    return tuple(kind for kind, name in names.items() if name == field)


#: Fields that are part of another field, and are not listed if that one is lost.
_PARTS: Final[Mapping[str, str]] = {"column_enum_charset": "column_charset", "truncate": "ddl"}


def route_losses(source: Capabilities, target: Capabilities) -> list[RouteLoss]:
    """Return the facts that the source has and the target cannot represent."""
    lost = [field for field in FIELD_TEXTS if has_fact(source, field) and not has_fact(target, field)]
    return [
        RouteLoss(field, FIELD_TEXTS[field], _kinds_of(field))
        for field in lost
        if _PARTS.get(field) not in lost
    ]


def large_row_losses(options: Options) -> list[RouteLoss]:
    """Return the facts that these target options omit from rows above the limit."""
    if (
        isinstance(options, LargeMessageOptions)
        and options.large_message_handle_option is Handling.HANDLE_KEY_ONLY
    ):
        text = "columns other than the handle key, in rows above max-message-bytes"
        return [RouteLoss("large_rows", text)]
    return []
