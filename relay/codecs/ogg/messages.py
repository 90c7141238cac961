"""Messages of GoldenGate's JSON formatter, and the facts in them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relay.codecs.losses import Loss
from relay.codecs.ogg.options import NAME
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.local_times import LocalTimes
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, Unknown, merged
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import Op, TableId
from relay.model.records import TIME_END_MS
from relay.text.durations import local_datetime_micros

#: The cells of a row, still as JSON.
Image = dict[str, msgspec.Raw]


class OggMessage(OpenMessage, kw_only=True, gc=False):
    """A message. Members are in the order in which GoldenGate writes them.

    op_ts, current_ts: Local time as text; `parse` converts it to nanoseconds since 1970.
    """

    table: str
    op_type: str
    op_ts: Any = None
    current_ts: Any = None
    pos: str | None = None
    primary_keys: list[str] | None = None
    tokens: Any = None
    before: Image | None = None
    after: Image | None = None

    def table_id(self) -> TableId:
        """Return the table: the part after the last dot, in the catalog and schema before it."""
        schema, _, table = self.table.rpartition(".")
        return TableId(schema, table)

    def without_counterpart(self) -> Unknown | None:
        """Return the members that relay's events have no field for: user tokens, and unknown ones."""
        return merged(None if self.tokens is None else {"tokens": self.tokens}, self.unknown)


#: The operation of a row; the other one is T, the truncation of a table.
OPS: Final = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
TRUNCATE: Final = "T"
#: The rows that messages of an operation may have, and those that they must have.
_IMAGES: Final = {"I": {"after"}, "U": {"before", "after"}, "D": {"before"}, TRUNCATE: set[str]()}
_REQUIRED: Final = _IMAGES | {"U": {"after"}}
_ROW_MODELED: Final = "neither before nor after, as in row-modeled messages; use GoldenGate's format `json`"
#: Members that are times.
TIMES: Final = ("op_ts", "current_ts")

_PARSER: Final = MessageParser(OggMessage)
_TIME_END_NS: Final = TIME_END_MS * 1_000_000


def parse(value: bytes, times: LocalTimes, losses: list[Loss]) -> OggMessage:
    """Parse a message; `times` counts ambiguous ones. Raises Malformed."""
    try:
        message = _PARSER.parse(value)
    except UnicodeDecodeError:
        raise Malformed(NAME, "", "not UTF-8") from None
    except REFUSED as error:
        raise Malformed(NAME, *complaint(error)) from None
    times.count([message.op_ts], losses)
    for path in TIMES:
        text = getattr(message, path)
        if text is not None:
            try:
                setattr(message, path, local_datetime_micros(str(text), times.zone) * 1_000)
            except ValueError as error:
                raise Malformed(NAME, path, str(error)) from None
    return message


def check(message: OggMessage) -> None:
    """Check that a message has a table, a known operation, and its rows. Raises DecodeError."""
    for path in TIMES:
        time_ns = getattr(message, path)
        if time_ns is not None and not time_ns < _TIME_END_NS:
            raise Malformed(NAME, path, "a time beyond the year 4199")
    if not message.table_id().table:
        raise Malformed(NAME, "table", "no name of a table")
    op = message.op_type
    if op not in _IMAGES:
        raise UnsupportedMessage(NAME, "op_type", "not I, U, D or T")
    if op in OPS and not message.before and not message.after:
        raise UnsupportedMessage(NAME, "after", _ROW_MODELED)
    for part in ("before", "after"):
        if getattr(message, part) and part not in _IMAGES[op]:
            raise Malformed(NAME, part, "no row of this operation")
        if not getattr(message, part) and part in _REQUIRED[op]:
            raise Malformed(NAME, part, "the row of this operation is missing")
