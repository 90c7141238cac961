"""Options of Open Protocol, and the capabilities of its messages with them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.large_messages import LargeMessageOptions
from relay.codecs.shared.shaping import InsertUnknownBefore
from relay.codecs.shared.ticdc import RawChangeEvent


class OpenOptions(LargeMessageOptions, frozen=True):
    """Options of TiCDC's sink URI and changefeed; those that change the content matter on the target side."""

    max_batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="maximum rows per message; above 1, rows of neighboring source records are joined",
        ),
    ] = 1
    only_output_updated_columns: Annotated[
        bool, Meta(description="`p` of an UPDATE has only the columns that changed")
    ] = False
    delete_only_output_handle_key_columns: Annotated[
        bool, Meta(description="a DELETE has only the handle key's columns")
    ] = False
    output_old_value: Annotated[
        bool, Meta(description="false: an UPDATE has no `p`, so readers see an INSERT")
    ] = True
    missing_before: InsertUnknownBefore = "insert"
    output_raw_change_event: RawChangeEvent = False

    def without_effect(self) -> dict[str, str]:
        """Report options of old rows if none is written."""
        found = super().without_effect()
        if not self.output_old_value:
            options = ("only-output-updated-columns", "missing-before")
            found |= dict.fromkeys(options, "output-old-value=false leaves old rows out")
        return found


def _before(options: OpenOptions) -> Before:
    if not options.output_old_value:
        return Before.NONE
    return Before.CHANGED if options.only_output_updated_columns else Before.FULL


def carries(options: OpenOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    return Capabilities(
        before=_before(options),
        delete_image=not options.delete_only_output_handle_key_columns,
        primary_key=True,
        type_parameters=False,
        ddl=True,
        watermark=True,
        commit_ts=True,
        gtid=False,
        physical_partition=True,
    )
