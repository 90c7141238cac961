"""Options of TiCDC Canal-JSON, and the capabilities of its messages with them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from relay.codecs.canal.shared.messages import (
    CanalDialect,
)
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.large_messages import (
    Handling,
    LargeMessageOptions,
)
from relay.codecs.shared.shaping import (
    Binary,
    InsertUnknownBefore,
    Key,
    Members,
    Tombstones,
    ZeroDates,
    shaped_style,
)
from relay.codecs.shared.ticdc import (
    RawChangeEvent,
    RawClaimChecks,
    bare_type_text,
    full_type_text,
)
from relay.model.errors import Problem
from relay.mysql.numbers import go_text
from relay.mysql.values import TextStyle


class TicdcOptions(LargeMessageOptions, frozen=True):
    """Options of TiCDC's sink URI.

    Those that change the content matter on the target side; the decoder detects them itself.
    """

    enable_tidb_extension: Annotated[
        bool, Meta(description="write `_tidb` with the commit ts, and watermarks")
    ] = False
    content_compatible: Annotated[
        bool, Meta(description="write mysqlType with parameters; implies only-output-updated-columns")
    ] = False
    only_output_updated_columns: Annotated[
        bool, Meta(description="`old` of an UPDATE has only the columns that changed")
    ] = False
    delete_only_output_handle_key_columns: Annotated[
        bool, Meta(description="a DELETE has only the handle key's columns")
    ] = False
    output_row_key: Annotated[bool, Meta(description="write `_tidb.rowkey` where the source has it")] = False
    output_raw_change_event: RawChangeEvent = False
    missing_before: InsertUnknownBefore = "insert"
    enum: Members = "index"
    binary: Binary = "producer"
    zero_dates: ZeroDates = "keep"
    key: Key = "producer"
    tombstones: Tombstones = False
    claim_check_raw_value: RawClaimChecks = False

    def writing_problems(self) -> list[Problem]:
        """Report options that write into `_tidb` if it is not written; see `Options.writing_problems`."""
        problems = super().writing_problems()
        if self.enable_tidb_extension:
            return problems
        reasons = []
        handling = self.large_message_handle_option
        if handling is not Handling.NONE:
            reasons.append(f"large-message-handle-option={handling} marks its messages in `_tidb`")
        if self.output_row_key:
            reasons.append("output-row-key=true writes into `_tidb`")
        return problems + [Problem("enable-tidb-extension", why, "set it to true") for why in reasons]

    def without_effect(self) -> dict[str, str]:
        """Report options that another option implies, and claim-check options without claim checks."""
        found = super().without_effect()
        if "claim-check-storage-uri" in found:
            found["claim-check-raw-value"] = found["claim-check-storage-uri"]
        if self.content_compatible:
            found["only-output-updated-columns"] = "content-compatible=true implies true"
        return found

    @property
    def writes_only_changed(self) -> bool:
        """Return whether `old` of an UPDATE has only the columns that changed."""
        return self.only_output_updated_columns or self.content_compatible


def carries(options: TicdcOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    extension = options.enable_tidb_extension
    return Capabilities(
        before=Before.CHANGED if options.writes_only_changed else Before.FULL,
        delete_image=not options.delete_only_output_handle_key_columns,
        primary_key=True,
        type_parameters=options.content_compatible,
        ddl=True,
        watermark=extension,
        every_date=options.zero_dates != "null",
        commit_ts=extension,
        gtid=False,
        row_key=extension and options.output_row_key,
    )


def text_style(options: TicdcOptions) -> TextStyle:
    """Return the text style of values."""
    style = TextStyle(float_text=go_text, zero_year="0", pads_binary=True, zone=options.zone())
    return shaped_style(style, options)


def text_dialect(options: TicdcOptions) -> CanalDialect:
    """Return the dialect of rows: text, types, and columns."""
    full = options.content_compatible
    type_text = full_type_text if full else bare_type_text
    return CanalDialect(text_style(options), type_text, with_virtual_columns=False, with_parameters=full)
