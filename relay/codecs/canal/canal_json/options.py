"""Options of Canal's JSON, and the capabilities of its messages with them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from relay.codecs.canal.shared.canal_common import (
    UpstreamOptions,
    canal_carries,
    canal_style,
)
from relay.codecs.losses import Before, Capabilities
from relay.model.errors import Problem
from relay.mysql.values import TextStyle, read_hex


class CanalOptions(UpstreamOptions, frozen=True):
    """Options of upstream Canal's JSON."""

    hex_binary: Annotated[
        bool,
        Meta(
            description="binary values are hex, as Tencent DTS writes them when it is not compatible with "
            "Canal; false: as set by `binary`, but hex where `… +00:00` after a TIMESTAMP proves it",
            extra={"side": "source"},
        ),
    ] = False
    table: Annotated[
        str,
        Meta(
            pattern=r"^([^.]+\.[^.]+)?$",
            description="`database.table` of rows without a name, as Flink's SQL sink writes them",
            extra={"side": "source"},
        ),
    ] = ""

    def problems(self) -> list[Problem]:
        """Report that two forms of binary values are set."""
        found = super().problems()
        if self.hex_binary and self.binary == "base64":
            found.append(Problem("hex-binary", "contradicts binary=base64", "leave one of them out"))
        return found


def carries(options: CanalOptions) -> Capabilities:
    """Return the capabilities of the messages."""
    return canal_carries(options, Before.CHANGED)


def text_style(options: CanalOptions) -> TextStyle:
    """Return the text style of values."""
    return canal_style(options, read_binary=read_hex if options.hex_binary else None)
