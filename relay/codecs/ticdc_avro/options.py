"""The options of TiCDC Avro, and the capabilities of its messages with them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from relay.codecs.codec import ZonedOptions
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.id_headers import SchemaIdPlace
from relay.codecs.shared.ticdc import (
    CorruptionHandling,
    DecimalMode,
    IntegrityCheck,
    RawChangeEvent,
)
from relay.codecs.ticdc_avro.values import Modes
from relay.model.errors import Problem

_TARGET: Final = {"side": "target"}


class TicdcAvroOptions(ZonedOptions, frozen=True):
    """Options of TiCDC's sink URI and changefeed."""

    enable_tidb_extension: Annotated[
        bool,
        Meta(description="write operation, commit ts and time of rows: `_tidb_op`, `_tidb_commit_ts` …"),
    ] = False
    avro_enable_watermark: Annotated[
        bool,
        Meta(
            description="write statements, watermarks, and deletes with their commit ts, as messages "
            "without a schema. Few readers support them; relay always reads them"
        ),
    ] = False
    avro_include_before_value: Annotated[
        bool, Meta(description="write the old row, `_ticdc_before`, and the whole row of a delete")
    ] = False
    avro_decimal_handling_mode: DecimalMode = "precise"
    avro_bigint_unsigned_handling_mode: Annotated[
        Literal["long", "string"],
        Meta(description="BIGINT UNSIGNED as long, negative from 2^63 on, or as text"),
    ] = "long"
    integrity_check_level: IntegrityCheck = "none"
    corruption_handle_level: CorruptionHandling = "warn"
    keyspace: Annotated[
        str, Meta(description="first part of schema namespaces: TiCDC's keyspace", extra=_TARGET)
    ] = "default"
    output_raw_change_event: RawChangeEvent = False
    schema_id: SchemaIdPlace = "prefix"

    @property
    def modes(self) -> Modes:
        """Return the form of numbers."""
        return Modes(
            self.avro_decimal_handling_mode == "string", self.avro_bigint_unsigned_handling_mode == "string"
        )

    @property
    def has_checksums(self) -> bool:
        """Return whether checksums of rows are verified and written."""
        return self.integrity_check_level == "correctness"

    def writing_problems(self) -> list[Problem]:
        """Report combinations of options that TiCDC refuses."""
        problems = super().writing_problems()
        if self.avro_enable_watermark and not self.enable_tidb_extension:
            problems.append(Problem("avro-enable-watermark", "needs enable-tidb-extension=true"))
        if self.has_checksums and not self.enable_tidb_extension:
            problems.append(Problem("integrity-check-level", "correctness needs enable-tidb-extension=true"))
        if self.has_checksums and not (self.modes.has_decimal_text and self.modes.has_bigint_text):
            message = (
                "correctness needs avro-decimal-handling-mode=string and "
                "avro-bigint-unsigned-handling-mode=string"
            )
            problems.append(Problem("integrity-check-level", message))
        return problems

    def without_effect(self) -> dict[str, str]:
        """Report options for sources."""
        found = super().without_effect()
        found["corruption-handle-level"] = "it applies to rows that are read"
        return found


def carries(options: TicdcAvroOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    return Capabilities(
        before=Before.FULL if options.avro_include_before_value else Before.NONE,
        delete_image=options.avro_include_before_value,
        primary_key=True,
        type_parameters=False,
        ddl=options.avro_enable_watermark,
        truncate=options.avro_enable_watermark,
        watermark=options.avro_enable_watermark,
        commit_ts=options.enable_tidb_extension,
        gtid=False,
    )
