"""Options of `flat-json`: the columns that are added to a row, the handling of DELETEs, and forms of values.

The names of added columns are those of Debezium's ExtractNewRecordState (`add.fields` with its prefix `__`),
0 and 1 as operations are StarRocks'. Sources: Debezium 3.x "New Record State Extraction"; StarRocks "Change
data through loading"; ClickHouse "ReplacingMergeTree"; Apache Doris "Batch Deletion", "Sequence Column".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta

from relay.codecs.codec import ZonedOptions
from relay.codecs.flat.values import Forms
from relay.codecs.losses import Before, Capabilities
from relay.model.errors import Problem

_TARGET: Final = {"side": "target"}


class FlatOptions(ZonedOptions, frozen=True):
    """Options of the output."""

    op_column: Annotated[
        str,
        Meta(
            description="column for the operation; as for all these columns, empty means none", extra=_TARGET
        ),
    ] = "__op"
    op_values: Annotated[
        Literal["letters", "numbers"],
        Meta(
            description="operations: c, u, d, r (row of a snapshot); or 0 for a row, 1 for a deleted one",
            extra=_TARGET,
        ),
    ] = "letters"
    deleted_column: Annotated[
        str, Meta(description="column for whether the row is deleted", extra=_TARGET)
    ] = "__deleted"
    deleted_values: Annotated[
        Literal["text", "numbers", "booleans"],
        Meta(description='its values: "true" and "false"; 1 and 0; true and false', extra=_TARGET),
    ] = "text"
    database_column: Annotated[str, Meta(description="column for the database's name", extra=_TARGET)] = (
        "__db"
    )
    table_column: Annotated[str, Meta(description="column for the table's name", extra=_TARGET)] = "__table"
    time_column: Annotated[
        str, Meta(description="column for the event time, milliseconds since 1970", extra=_TARGET)
    ] = "__source_ts_ms"
    commit_ts_column: Annotated[
        str, Meta(description="column for TiDB's commit ts; null if the source has none", extra=_TARGET)
    ] = ""
    gtid_column: Annotated[
        str, Meta(description="column for the GTID; null if the source has none", extra=_TARGET)
    ] = ""
    version_column: Annotated[
        str, Meta(description="column for a number that increases with each change of a row", extra=_TARGET)
    ] = ""
    version: Annotated[
        Literal["commit-ts", "offset"],
        Meta(
            description="that number: the commit ts, or one derived from event time and offset (counted); "
            "or the offset of the source record",
            extra=_TARGET,
        ),
    ] = "commit-ts"
    deletes: Annotated[
        Literal["rewrite", "tombstone", "both", "drop"],
        Meta(
            description="representation of a DELETE: the old row, marked; a tombstone; the row and then the "
            "tombstone; or nothing (counted)",
            extra=_TARGET,
        ),
    ] = "rewrite"
    decimals: Annotated[
        Literal["text", "number"], Meta(description="DECIMAL, with all its digits", extra=_TARGET)
    ] = "text"
    binary: Annotated[Literal["base64", "hex"], Meta(description="binary values", extra=_TARGET)] = "base64"
    enum: Annotated[
        Literal["label", "index"],
        Meta(description="ENUM and SET: labels, or index and bit map as numbers", extra=_TARGET),
    ] = "label"
    json: Annotated[
        Literal["text", "nested"],
        Meta(description="JSON columns: as text, or as nested JSON", extra=_TARGET),
    ] = "text"
    timestamp_format: Annotated[
        Literal["sql", "iso"],
        Meta(
            description="DATETIME and TIMESTAMP: 2026-01-15 10:20:30.5, "
            "or 2026-01-15T10:20:30.5, with Z or the offset after a TIMESTAMP",
            extra=_TARGET,
        ),
    ] = "sql"
    zero_dates: Annotated[
        Literal["keep", "null"],
        Meta(
            description="dates that are not in the calendar: MySQL's text, or null (counted; not in the "
            "key's columns)",
            extra=_TARGET,
        ),
    ] = "keep"

    @property
    def added(self) -> Mapping[str, str]:
        """Return the names of the added columns, by option, in order."""
        columns = {
            "op-column": self.op_column,
            "deleted-column": self.deleted_column,
            "database-column": self.database_column,
            "table-column": self.table_column,
            "time-column": self.time_column,
            "commit-ts-column": self.commit_ts_column,
            "gtid-column": self.gtid_column,
            "version-column": self.version_column,
        }
        return {option: name for option, name in columns.items() if name}

    def writing_problems(self) -> list[Problem]:
        """Report two columns of one name, and deleted rows that look like all others."""
        found: list[Problem] = []
        options: dict[str, str] = {}
        for option, name in self.added.items():
            if name in options:
                found.append(Problem(option, f"names the same column as {options[name]}"))
            options[name] = option
        if self.deletes in {"rewrite", "both"} and not (self.op_column or self.deleted_column):
            hint = "name op-column or deleted-column, or choose deletes=tombstone"
            found.append(Problem("deletes", "would write deleted rows that look like any other row", hint))
        return found

    def without_effect(self) -> dict[str, str]:
        """Report options of columns that are not added."""
        columns = {
            "op-values": ("op-column", self.op_column),
            "deleted-values": ("deleted-column", self.deleted_column),
            "version": ("version-column", self.version_column),
        }
        empty = {option: f"{column} is empty" for option, (column, name) in columns.items() if not name}
        return {**super().without_effect(), **empty}

    def forms(self) -> Forms:
        """Return the form of values."""
        return Forms(
            text_decimals=self.decimals == "text",
            base64=self.binary == "base64",
            has_labels=self.enum == "label",
            nests_json=self.json == "nested",
            is_iso=self.timestamp_format == "iso",
            keeps_zero_dates=self.zero_dates == "keep",
            zone=self.zone(),
        )


def carries(options: FlatOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    has_version = bool(options.version_column) and options.version == "commit-ts"
    return Capabilities(
        before=Before.NONE,
        deletes=options.deletes != "drop",
        delete_image=options.deletes in {"rewrite", "both"},
        primary_key=True,
        column_types=False,
        type_parameters=False,
        ddl=False,
        truncate=False,
        watermark=False,
        every_date=options.zero_dates == "keep",
        event_time_milliseconds=bool(options.time_column),
        commit_ts=bool(options.commit_ts_column) or has_version,
        gtid=bool(options.gtid_column),
        snapshot=bool(options.op_column) and options.op_values == "letters",
    )


# ---------------------------------------------------------------- readers

_NO_SOURCE: Final = {"database-column": "", "table-column": "", "time-column": ""}
_NEEDLESS: Final = "the table has no such column"
_NO_SOURCE_REASONS: Final = dict.fromkeys(_NO_SOURCE, _NEEDLESS)
#: Sets of options for known readers; docs/readers.md has the readers' own settings that go with them.
PROFILES: Final = {
    "clickhouse": {
        "op-column": "",
        **_NO_SOURCE,
        "deleted-column": "__deleted",
        "deleted-values": "numbers",
        "version-column": "__version",
        "deletes": "rewrite",
        "timestamp-format": "sql",
        "zero-dates": "null",
    },
    "starrocks": {
        "op-column": "__op",
        "op-values": "numbers",
        "deleted-column": "",
        **_NO_SOURCE,
        "deletes": "rewrite",
        "timestamp-format": "sql",
        "zero-dates": "null",
    },
    "doris": {
        "op-column": "",
        **_NO_SOURCE,
        "deleted-column": "__deleted",
        "deleted-values": "numbers",
        "version-column": "__version",
        "deletes": "rewrite",
        "timestamp-format": "sql",
        "zero-dates": "null",
    },
    "elasticsearch": {
        "op-column": "",
        "deleted-column": "",
        "database-column": "",
        "table-column": "",
        "deletes": "tombstone",
        "json": "nested",
        "timestamp-format": "iso",
        "zero-dates": "null",
    },
}
_NO_TOMBSTONES: Final = "a tombstone has no columns to load"
_DATETIME_REASONS: Final = {
    "timestamp-format": "DATETIME reads MySQL's text",
    "zero-dates": "DATE and DATETIME have no zero dates",
}
_REPLACING: Final = _NO_SOURCE_REASONS | {
    "op-column": _NEEDLESS,
    "deleted-column": "marks deleted rows",
    "deleted-values": "1 marks a deleted row",
    "version-column": "of the rows with one key, the one with the largest version remains",
    "deletes": _NO_TOMBSTONES,
}
PROFILE_REASONS: Final = {
    "clickhouse": _REPLACING
    | {
        "timestamp-format": "DateTime64 reads MySQL's text",
        "zero-dates": "ClickHouse reads 0000-00-00 as 1900-01-01, without an error",
    },
    "starrocks": _NO_SOURCE_REASONS
    | {
        "op-column": "Routine Load reads the operation from this column",
        "op-values": "0 is an upsert, 1 a delete",
        "deleted-column": _NEEDLESS,
        "deletes": _NO_TOMBSTONES,
    }
    | _DATETIME_REASONS,
    "doris": _REPLACING | _DATETIME_REASONS,
    "elasticsearch": {
        **dict.fromkeys(("op-column", "database-column", "table-column"), "a document is the row alone"),
        "deleted-column": "a deleted row has no document",
        "deletes": "behavior.on.null.values=delete deletes the document",
        "json": "nested documents can be searched",
        "timestamp-format": "the type date reads it without a format",
        "zero-dates": "the type date refuses the whole document",
    },
}
