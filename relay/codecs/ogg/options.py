"""Options of `ogg-json`."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from relay.codecs.codec import ZonedOptions
from relay.codecs.losses import Before, Capabilities

NAME: Final = "ogg-json"


class OggOptions(ZonedOptions, frozen=True):
    """Options of GoldenGate."""

    timezone: Annotated[
        str,
        Meta(
            description="time zone of `op_ts`, `current_ts` and TIMESTAMP text: a name (Asia/Shanghai) or an "
            "offset (+08:00)"
        ),
    ] = "UTC"


CARRIES: Final = Capabilities(
    before=Before.FULL,
    delete_image=True,
    primary_key=True,
    column_types=False,
    type_parameters=False,
    # TRUNCATE is the only statement; nothing defines a table, so no row has to wait for DDL.
    ddl=False,
    watermark=False,
    event_time_nanoseconds=True,
    commit_ts=False,
    gtid=False,
    trail_position=True,
)
