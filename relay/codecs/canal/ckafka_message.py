"""CKafka's messages as they travel, and their times.

Contract: `parse` gives a row message or one of Canal's form (DDL, and rows of the "canal format"), whatever
spelling of JSON it is in, or raises Malformed. Times come out in units that do not depend on the message.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.codecs.canal import message as _canal
from relay.codecs.canal.message import Cells, Message
from relay.codecs.canal.reading import Types
from relay.codecs.wire import lenient_json as _json
from relay.errors import Malformed, NotRepresentable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: `es` and `ts` below this are seconds: the document has both units. It is 1973 in milliseconds and 5138 in
#: seconds.
_LEAST_MILLISECONDS: Final = 100_000_000_000
#: As in `relay.codecs.canal.message.Milliseconds`: later times leave no room for a commit ts.
_END_OF_TIME: Final = 1 << 46
_TOO_LATE: Final = "a time beyond the year 4199"


class RowMessage(msgspec.Struct, kw_only=True, gc=False):
    """A row, as it is read and as relay writes it."""

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


class DdlMessage(msgspec.Struct, kw_only=True):
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


_decode_types = msgspec.json.Decoder(Types).decode
_decode = msgspec.json.Decoder(RowMessage).decode


def parse(protocol: str, value: bytes) -> RowMessage | Message:
    """A row message, or one of Canal's form. Raises Malformed."""
    try:
        return _decode(value)
    except _json.REFUSED:
        pass
    try:
        message = _canal.parse(protocol, value)
    except Malformed:
        if b'"TYPE"' not in value:
            raise
        return _json.parse_leniently(protocol, value, RowMessage, _tidy)
    message.es, message.ts = (
        _milliseconds(protocol, "es", message.es),
        _milliseconds(protocol, "ts", message.ts),
    )
    return message


def _tidy(document: dict[str, Any]) -> dict[str, Any]:
    """Cells that are numbers, booleans or JSON as text."""
    images = {name: document.get(name) for name in ("NEW_VALUES", "OLD_VALUES")}
    return document | {
        name: _canal.text_cells(image) for name, image in images.items() if isinstance(image, dict)
    }


def _milliseconds(protocol: str, path: str, time: int | None) -> int | None:
    """`es` or `ts` in milliseconds. Raises Malformed."""
    if time is None or not 0 < time < _LEAST_MILLISECONDS:
        return time
    if time * 1000 >= _END_OF_TIME:
        raise Malformed(protocol, path, _TOO_LATE)
    return time * 1000


def read_time(protocol: str, text: str, zone: tzinfo) -> int:
    """TIME (`yyyyMMddHHmmss`, the wall clock of the zone) as seconds since 1970. Raises Malformed."""
    if len(text) != 14 or not (text.isascii() and text.isdigit()):
        raise Malformed(protocol, "TIME", "not a time as yyyyMMddHHmmss")
    try:
        moment = datetime.fromisoformat(f"{text[:8]}T{text[8:]}").replace(tzinfo=zone)
    except ValueError:
        raise Malformed(protocol, "TIME", "not a time of the calendar") from None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    if seconds * 1000 >= _END_OF_TIME:
        raise Malformed(protocol, "TIME", _TOO_LATE)
    return seconds


def time_text(protocol: str, seconds: int, zone: tzinfo) -> str:
    """Seconds since 1970 as TIME. Raises NotRepresentable for a time before the year 1."""
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except OverflowError as error:
        raise NotRepresentable(protocol, "TIME", "a time beyond the calendar") from error
    return f"{moment.year:04}{moment:%m%d%H%M%S}"


def mysql_types(protocol: str, message: Message) -> Types:
    """`mysqlType`, which the connector leaves null. Raises Malformed."""
    try:
        types: Types = _decode_types(message.mysql_type)
    except _json.REFUSED as error:
        raise Malformed(protocol, "mysqlType", "not an object of type names") from error
    return types
