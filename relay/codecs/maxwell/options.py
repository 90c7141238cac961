"""Options of `maxwell-json`, under their names in Maxwell's configuration.

Defaults are Maxwell's. Sources: zendesk/maxwell 1.45 docs/docs/config.md, MaxwellOutputConfig.java.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from relay.codecs.codec import Options
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.shaping import KeepUnknownBefore, Key, Tombstones

NAME: Final = "maxwell-json"
_TARGET: Final = {"side": "target"}


class MaxwellOptions(Options, frozen=True):
    """Options of Maxwell (source), or of the output (target)."""

    output_ddl: Annotated[bool, Meta(description="write DDL", extra=_TARGET)] = msgspec.field(
        name="output_ddl", default=False
    )
    output_commit_info: Annotated[
        bool, Meta(description="write `xid`, `xoffset` and `commit` of rows", extra=_TARGET)
    ] = msgspec.field(name="output_commit_info", default=True)
    output_xoffset: Annotated[
        bool, Meta(description="write `xoffset`: a row's position in its transaction, from 0", extra=_TARGET)
    ] = msgspec.field(name="output_xoffset", default=True)
    output_binlog_position: Annotated[
        bool, Meta(description="write `position`, as `file:offset`", extra=_TARGET)
    ] = msgspec.field(name="output_binlog_position", default=False)
    output_gtid_position: Annotated[bool, Meta(description="write `gtid`", extra=_TARGET)] = msgspec.field(
        name="output_gtid_position", default=False
    )
    output_server_id: Annotated[bool, Meta(description="write `server_id`", extra=_TARGET)] = msgspec.field(
        name="output_server_id", default=False
    )
    output_thread_id: Annotated[bool, Meta(description="write `thread_id`", extra=_TARGET)] = msgspec.field(
        name="output_thread_id", default=False
    )
    output_schema_id: Annotated[
        bool, Meta(description="write `schema_id`, of a source that is Maxwell itself", extra=_TARGET)
    ] = msgspec.field(name="output_schema_id", default=False)
    output_push_timestamp: Annotated[
        bool,
        Meta(
            description="write `push_ts`: the time at which the source's tool created the message, in "
            "seconds",
            extra=_TARGET,
        ),
    ] = msgspec.field(name="output_push_timestamp", default=False)
    output_row_query: Annotated[
        bool, Meta(description="write `query`: the statement that changed the row", extra=_TARGET)
    ] = msgspec.field(name="output_row_query", default=False)
    row_query_max_length: Annotated[
        int, Meta(ge=0, description="maximum characters of `query`; 0: all", extra=_TARGET)
    ] = msgspec.field(name="row_query_max_length", default=0)
    output_primary_keys: Annotated[
        bool, Meta(description="write `primary_key`: the values of the key's columns", extra=_TARGET)
    ] = msgspec.field(name="output_primary_keys", default=False)
    output_primary_key_columns: Annotated[
        bool, Meta(description="write `primary_key_columns`: their names", extra=_TARGET)
    ] = msgspec.field(name="output_primary_key_columns", default=False)
    output_nulls: Annotated[
        bool,
        Meta(
            description="`data` has columns that are NULL; false: in a source, a missing nullable column "
            "is NULL (in an `old` row: unchanged); in a target, NULL columns are omitted from `data`"
        ),
    ] = msgspec.field(name="output_nulls", default=True)
    output_null_zerodates: Annotated[
        bool,
        Meta(
            description="dates that are not in the calendar are null (counted; not in the key's columns)",
            extra=_TARGET,
        ),
    ] = msgspec.field(name="output_null_zerodates", default=False)
    output_naming_strategy: Annotated[
        Literal["none", "underscore_to_camelcase"],
        Meta(
            description="case of column names in rows, and of members; in a source, columns are matched "
            "by the table's definition, and keep these names without one"
        ),
    ] = msgspec.field(name="output_naming_strategy", default="none")
    kafka_key_format: Annotated[
        Literal["hash", "array"],
        Meta(
            description='keys: {"database", "table", "pk.id"}, or [database, table, [{"id"}]]', extra=_TARGET
        ),
    ] = msgspec.field(name="kafka_key_format", default="hash")
    ddl_kafka_topic: Annotated[
        str,
        Meta(description="topic for DDL, if it differs from the topic of the rows", extra={"side": "source"}),
    ] = msgspec.field(name="ddl_kafka_topic", default="")
    missing_before: KeepUnknownBefore = "update"
    key: Key = "producer"
    tombstones: Tombstones = False

    def without_effect(self) -> dict[str, str]:
        """Report options of members that are not written."""
        found = super().without_effect()
        if not self.output_commit_info:
            found["output_xoffset"] = "output_commit_info=false leaves it out"
        if not self.output_row_query:
            found["row_query_max_length"] = "output_row_query=false leaves `query` out"
        if self.key == "primary-key":
            found["kafka_key_format"] = "key=primary-key writes keys of another form"
        if not self.output_ddl:
            found["ddl"] = "output_ddl=false leaves DDL out"
        return found


def carries(options: MaxwellOptions) -> Capabilities:
    """Return the capabilities of messages with these options.

    Transactions are not included: `xid` is a number, and few sources have ids that are numbers.
    """
    return Capabilities(
        before=Before.CHANGED,
        delete_image=True,
        primary_key=True,
        column_types=False,
        type_parameters=False,
        column_charset=options.output_ddl,
        ddl=options.output_ddl,
        truncate=False,
        watermark=False,
        every_date=not options.output_null_zerodates,
        event_time_milliseconds=False,
        commit_ts=False,
        gtid=options.output_gtid_position,
        binlog_position=options.output_binlog_position,
        schema_id=options.output_schema_id,
        server_id=options.output_server_id,
        thread_id=options.output_thread_id,
        query=options.output_row_query and not options.row_query_max_length,
        snapshot=True,
    )
