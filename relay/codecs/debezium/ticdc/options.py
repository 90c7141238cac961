"""Options of TiCDC Debezium, and the capabilities of its messages with them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.large_messages import (
    CompressionOptions,
)
from relay.codecs.shared.shaping import KeepUnknownBefore, Key, Tombstones
from relay.codecs.shared.ticdc import RawChangeEvent

NAME: Final = "ticdc-debezium"

#: Common to the dialect in JSON and in Avro.
ClusterId = Annotated[
    str,
    Meta(
        description="TiCDC's cluster id: `source.name`, and the first part of schema names",
        extra={"side": "target"},
    ),
]


class TicdcDebeziumOptions(CompressionOptions, frozen=True):
    """TiCDC's sink-URI options. Those that change content are for targets; the decoder detects them."""

    timezone: Annotated[str, Meta(description="no effect: this format has TIMESTAMP in UTC")] = "UTC"
    debezium_disable_schema: Annotated[bool, Meta(description="omit `schema` from key and value")] = False
    debezium_include_start_ts: Annotated[
        bool, Meta(description="write `source.start_ts` where the source has it")
    ] = False
    enable_tidb_extension: Annotated[
        bool,
        Meta(description="write `tidb_type`, declare TiCDC's own members of `source`, and write watermarks"),
    ] = False
    output_old_value: Annotated[bool, Meta(description="write `before` of an UPDATE")] = True
    missing_before: KeepUnknownBefore = "update"
    key: Key = "producer"
    tombstones: Tombstones = False
    output_raw_change_event: RawChangeEvent = False
    cluster_id: ClusterId = "default"
    replace_null_with_default: Annotated[
        bool,
        Meta(
            description="write NULL as the column's default if it has one, as TiCDC does; "
            "false: write null, and leave `default` out of the schema of optional columns",
            extra={"side": "target"},
        ),
    ] = msgspec.field(name="replace.null.with.default", default=True)

    def without_effect(self) -> dict[str, str]:
        """Report the zone, and options of old rows if none is written."""
        found = super().without_effect()
        found["timezone"] = "this format has TIMESTAMP in UTC, whatever the zone"
        if not self.output_old_value:
            found["missing-before"] = "output-old-value=false leaves old rows out"
        return found


def carries(options: TicdcDebeziumOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    return Capabilities(
        before=Before.FULL if options.output_old_value else Before.NONE,
        delete_image=True,
        primary_key=True,
        column_types=options.enable_tidb_extension and not options.debezium_disable_schema,
        type_parameters=False,
        column_charset=True,
        column_enum_charset=True,
        ddl=True,
        watermark=options.enable_tidb_extension,
        exact_decimals=False,
        every_date=False,
        null_beside_default=not options.replace_null_with_default,
        commit_ts=True,
        start_ts=options.debezium_include_start_ts,
        source_name=True,
        gtid=False,
    )
