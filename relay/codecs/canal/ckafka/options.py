"""Options of CKafka's official format 1, and the capabilities of its messages with them."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Literal

from msgspec import Meta

from relay.codecs.canal.ckafka.values import ValueStyle
from relay.codecs.codec import ZonedOptions, zone_of
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.shaping import (
    Binary,
    KeepUnknownBefore,
    Key,
    Tombstones,
    ZeroDates,
    shaped_style,
)
from relay.mysql.numbers import java_text
from relay.mysql.values import TextStyle


class CkafkaOptions(ZonedOptions, frozen=True):
    """Options of CKafka's JSON. They are relay's own: the connector has none that change the content."""

    event_time_offset: Annotated[
        str,
        Meta(
            pattern=r"^[+-](0\d|1[0-4]):[0-5]\d$",
            description="UTC offset of TIME, the wall-clock time of a row's change",
        ),
    ] = "+08:00"
    value_style: Annotated[
        ValueStyle,
        Meta(
            description="value encoding: MySQL's text, Debezium's encodings, or "
            "both, detected from the form of each value",
            extra={"side": "source"},
        ),
    ] = "auto"
    missing_before: KeepUnknownBefore = "update"
    binary: Binary = "producer"
    zero_dates: ZeroDates = "keep"
    key: Key = "producer"
    tombstones: Tombstones = False
    ddl_time_unit: Annotated[
        Literal["auto", "s", "ms"],
        Meta(
            description="unit of `es` and `ts` in DDL; auto: that of a CKafka source, else seconds; as a "
            "source, both are read, distinguished by magnitude",
            extra={"side": "target"},
        ),
    ] = "auto"

    def without_effect(self) -> dict[str, str]:
        """Report `ddl-…` options that have no effect because DDL is not written."""
        found = super().without_effect()
        if self.ddl == "drop":
            found["ddl-time-unit"] = "ddl=drop leaves DDL out"
        return found

    def event_zone(self) -> tzinfo:
        """Return the zone of TIME."""
        return zone_of(self.event_time_offset)


def carries(options: CkafkaOptions) -> Capabilities:
    """Return the capabilities of the messages."""
    return Capabilities(
        before=Before.FULL,
        delete_image=True,
        primary_key=False,
        column_types=False,
        type_parameters=False,
        ddl=True,
        watermark=False,
        every_date=options.zero_dates != "null",
        event_time_milliseconds=False,
        commit_ts=False,
        gtid=True,
        binlog_position=True,
        snapshot=True,
    )


def text_style(options: CkafkaOptions) -> TextStyle:
    """Return the text style of values."""
    # The connector runs on Java and formats floats as Java does; Debezium pads BINARY(n) (DBZ-254).
    style = TextStyle(
        float_text=java_text, zero_year="0000", pads_binary=True, is_loose=True, zone=options.zone()
    )
    return shaped_style(style, options)
