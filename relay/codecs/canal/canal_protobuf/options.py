"""Options of Canal's packets, and the capabilities of their messages with them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.codecs.canal.shared.canal_common import (
    UpstreamOptions,
    canal_carries,
)
from relay.codecs.losses import Before, Capabilities

NAME: Final = "canal-protobuf"

MS_NS: Final = 1_000_000

#: Properties of an END besides its id; Canal's clients ignore them.
COUNT_HEADER, TABLES = "eventCount", "tableCounts"


class ProtobufOptions(UpstreamOptions, frozen=True):
    """Options of upstream Canal's packets."""

    max_batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="entries per packet; above 1, events of one source record share a packet",
            extra={"side": "target"},
        ),
    ] = 1
    filter_transaction_entry: Annotated[
        bool,
        Meta(description="omit BEGIN and END of transactions", extra={"side": "target"}),
    ] = msgspec.field(name="canal.instance.filter.transaction.entry", default=False)


def carries(options: ProtobufOptions) -> Capabilities:
    """Return the capabilities of the messages."""
    return msgspec.structs.replace(
        canal_carries(options, Before.FULL),
        binlog_position=True,
        server_id=True,
        transaction_marks=not options.filter_transaction_entry,
    )
