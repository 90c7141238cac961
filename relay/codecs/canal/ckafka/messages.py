"""Messages of CKafka's official format 1."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.codecs.canal.shared.messages import DELETE, CanalMessage, Cells, parse, text_cells
from relay.codecs.shared import lenient_json as _json
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.traced_messages import fixed_offset
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import Op
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.records import TIME_END_MS
from relay.templates.tracing import TracedNumber

NAME: Final = "ckafka-json"

CONNECTOR: Final = "ckafka"

MILLISECOND_NS: Final = 1_000_000

SECOND_NS: Final = 1_000_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CKafkaRowMessage(OpenMessage, kw_only=True, gc=False):
    """A row, as read and as written by relay."""

    BINLOG_NAME: str | None = None
    BINLOG_POS: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    DATABASE: str | None = None
    EVENT_SERVER_ID: Any = None
    GLOBAL_ID: str | None = None
    GROUP_ID: Any = None
    NEW_VALUES: Cells | None = None
    OLD_VALUES: Cells | None = None
    TABLE: str | None = None
    TIME: str | None = None
    TYPE: str


class DecodedRow(msgspec.Struct, gc=False):
    """A row message with the facts that are text in it: its operation, and its time in nanoseconds since
    1970.
    """

    message: CKafkaRowMessage
    op: Op
    time_ns: int | None


#: Undocumented members of a row that only this format has; rows of CKafka sources keep them.
MOSTLY_NULL: Final = frozenset({"EVENT_SERVER_ID", "GROUP_ID"})


class CKafkaDdlMessage(msgspec.Struct, kw_only=True):
    """A DDL statement as relay writes it."""

    data: None = None
    database: str
    es: int
    id: int = 0
    isDdl: bool = True
    mysqlType: None = None
    old: None = None
    pkNames: None = None
    sql: str
    sqlType: None = None
    table: str
    ts: int
    type: str


_PARSER: Final = MessageParser(CKafkaRowMessage)

_decode: Final = _PARSER.decode


def parse_message(value: bytes, limits: Limits = DEFAULT_LIMITS) -> CKafkaRowMessage | CanalMessage:
    """Parse a row message, or one of Canal's form: DDL, and rows of the "canal format".

    Raises Malformed, UnsupportedMessage, LimitExceeded.
    """
    try:
        return _decode(value)
    except _json.REFUSED:
        pass
    if b'"TYPE"' not in value:
        return parse(NAME, value, limits)
    try:
        return _json.parse_leniently(NAME, value, _PARSER.convert, _normalized, limits)
    except Malformed as error:
        try:
            return parse(NAME, value, limits)  # the match is inside a text value
        except Malformed:
            raise error from None


def _normalized(document: dict[str, Any]) -> dict[str, Any]:
    """Convert cells that are numbers, booleans or JSON to text."""
    images = {name: document.get(name) for name in ("NEW_VALUES", "OLD_VALUES")}
    cells = {name: text_cells(image) for name, image in images.items() if isinstance(image, dict)}
    return {**document, **cells}


#: The error for `es`, `ts` and `TIME` from `TIME_END_MS` on.
TOO_LATE: Final = "a time beyond the year 4199"
_TIME_END_NS: Final = TIME_END_MS * MILLISECOND_NS


def check(row: DecodedRow) -> None:
    """Check that a row message has a time, its row, and a table. Raises Malformed."""
    if row.time_ns is not None and not row.time_ns < _TIME_END_NS:
        raise Malformed(NAME, "TIME", TOO_LATE)
    path = "OLD_VALUES" if row.op is DELETE else "NEW_VALUES"
    if getattr(row.message, path) is None:
        raise Malformed(NAME, path, "a row message without its row")
    if not row.message.TABLE:
        raise Malformed(NAME, "TABLE", NAMELESS)


def time_text(seconds: int, zone: tzinfo) -> str:
    """Return seconds since 1970 as TIME. Raises NotRepresentable for a time before the year 1."""
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except OverflowError:
        raise NotRepresentable(NAME, "TIME", "a time beyond the calendar") from None
    except TypeError:
        return _traced_time(seconds, zone)
    return f"{moment.year:04}{moment:%m%d%H%M%S}"


def _traced_time(seconds: object, zone: tzinfo) -> str:
    """Return a traced number as TIME. Raises TypeError for any other value."""
    if not isinstance(seconds, TracedNumber):
        raise TypeError(f"{type(seconds).__name__} is not a number of seconds")
    ahead = fixed_offset(zone)
    text: Any = seconds.clock_text(ahead)
    if text is None:
        text = seconds.as_text(lambda divisor: ("event-time", divisor, ahead))
    return text  # type: ignore[no-any-return]  # it prints as one


def event_time_reader(divisor: int, offset_seconds: int) -> Callable[[int], str]:
    """Return the function that converts fractions of a second since 1970 to TIME, rounded down, in a zone."""
    zone = timezone(timedelta(seconds=offset_seconds))
    return lambda parts: time_text(parts // divisor, zone)
