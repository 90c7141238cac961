"""The options of both encodings of Simple, and the capabilities of their messages."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from relay.codecs.codec import KeepOrDrop
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.large_messages import LargeMessageOptions
from relay.codecs.shared.shaping import InsertUnknownBefore
from relay.codecs.shared.ticdc import (
    CorruptionHandling,
    IntegrityCheck,
    RawChangeEvent,
    RawClaimChecks,
)

_TARGET: Final = {"side": "target"}


class SimpleOptions(LargeMessageOptions, frozen=True):
    """Options of TiCDC's sink URI and changefeed."""

    timezone: Annotated[
        str,
        Meta(
            description="target: zone in which TIMESTAMP is written; source: zone of values that name none "
            "(`Local`): a name (Asia/Shanghai), or an offset (+08:00), which is written as UTC"
        ),
    ] = "UTC"
    ddl: Annotated[
        KeepOrDrop,
        Meta(
            description="DDL statements: written, or left out and counted; then a BOOTSTRAP replaces each, "
            "for every table that it defines",
            extra=_TARGET,
        ),
    ] = "keep"
    output_raw_change_event: RawChangeEvent = False
    missing_before: InsertUnknownBefore = "insert"
    send_bootstrap_in_msg_count: Annotated[
        int,
        Meta(
            ge=0,
            description="write a BOOTSTRAP before the rows of every N-th source record; 0: none. Rows whose "
            "table's DDL is not known always get one",
        ),
    ] = 10_000
    integrity_check_level: IntegrityCheck = "none"
    corruption_handle_level: CorruptionHandling = "warn"
    claim_check_raw_value: RawClaimChecks = False

    @property
    def has_start_ts(self) -> bool:
        """Return whether rows have the start ts of their transaction."""
        return False

    def without_effect(self) -> dict[str, str]:
        """Report claim-check options without claim checks, and options for sources."""
        found = super().without_effect()
        if "claim-check-storage-uri" in found:
            found["claim-check-raw-value"] = found["claim-check-storage-uri"]
        found["corruption-handle-level"] = "it applies to rows that are read"
        return found


class SimpleJsonOptions(SimpleOptions, frozen=True):
    """Options of the encoding as JSON."""

    simple_include_start_ts: Annotated[
        bool, Meta(description="write `startTs` of rows where the source has it", extra=_TARGET)
    ] = False

    @property
    def has_start_ts(self) -> bool:
        """Return whether rows have the start ts of their transaction."""
        return self.simple_include_start_ts


def carries(options: SimpleOptions) -> Capabilities:
    """Return the capabilities of the messages, including definitions."""
    return Capabilities(
        before=Before.FULL,
        delete_image=True,
        primary_key=True,
        type_parameters=True,
        column_charset=True,
        column_enum_charset=True,
        column_collation=True,
        ddl=True,
        watermark=True,
        commit_ts=True,
        start_ts=options.has_start_ts,
        gtid=False,
        physical_partition=True,
    )
