"""A message of Simple, independent of its encoding.

`SimpleMessage` holds the members of any message; the values of `data` and `old` are the encoding's own. A
`SimpleWire` is one encoding: it reads and writes messages and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, Final, Protocol

import msgspec

from relay.codecs.codec import TracedMessage
from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.unknown_members import Unknown
from relay.codecs.simple.definitions import TableEntry
from relay.model.events import ColumnType, Event, Op, RowChange, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.records import ConsumerRecord
from relay.templates.tracing import Trace

#: The version of the protocol.
VERSION: Final = 1
OPS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
WORDS: Final = {Op.INSERT: "INSERT", Op.READ: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
WATERMARK: Final = "WATERMARK"
BOOTSTRAP: Final = "BOOTSTRAP"

#: A row: values of the encoding by column.
Image = dict[str, Any]


class Checksum(msgspec.Struct, gc=False):
    """Checksums of the new row and of the old one, 0 for none, and whether TiCDC has found one wrong."""

    version: int = 1
    corrupted: bool = False
    current: int = 0
    previous: int = 0


class SimpleMessage(msgspec.Struct, kw_only=True, gc=False):
    """The members of a message, in the order of rows; 0 for a missing number. `unknown`: those that the
    protocol does not define.
    """

    version: int
    type: str
    commit_ts: int = 0
    build_ts: int = 0
    database: str | None = None
    table: str | None = None
    table_id: int = 0
    schema_version: int = 0
    claim_check_location: str | None = None
    handle_key_only: bool = False
    checksum: Checksum | None = None
    data: Image | None = None
    old: Image | None = None
    sql: str | None = None
    table_schema: TableEntry | None = None
    pre_table_schema: TableEntry | None = None
    start_ts: int = 0
    unknown: Unknown | None = None


class TracedSimpleRow(Protocol):
    """A message of a row with traced values. `record`: its record, for `interpret`."""

    record: ConsumerRecord

    def images(self) -> tuple[TableSchema, TypedRows]:
        """Return the definition and the images."""
        ...

    def message(self, events: Sequence[Event]) -> TracedMessage:
        """Return the message with its events."""
        ...


class SimpleWire(Protocol):
    """One encoding."""

    name: str

    def is_plain(self, value: bytes) -> bool:
        """Return whether a message begins as an uncompressed one."""
        ...

    def read(self, value: bytes, limits: Limits = DEFAULT_LIMITS) -> SimpleMessage:
        """Read a message. Raises DecodeError."""
        ...

    def write(self, message: SimpleMessage) -> bytes:
        """Write a message. Raises NotRepresentable."""
        ...

    def traced(
        self, record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits
    ) -> tuple[TracedSimpleRow, SimpleMessage]:
        """Return a row with traced values, and its message with traced members. Raises NotTemplatable."""
        ...

    def read_of(self, column_type: ColumnType, zone: tzinfo) -> Read:
        """Return the function from a column's value to its canonical value; `zone`: of a TIMESTAMP without an
        existing one.
        """
        ...

    def write_of(
        self, column_type: ColumnType, zone: tzinfo, zone_name: str, unmoved: Callable[[], None]
    ) -> Write | None:
        """Return the writing function of a column's canonical value, None if it is written unchanged;
        `unmoved` is called for a TIMESTAMP that does not exist in the zone's calendar.
        """
        ...
