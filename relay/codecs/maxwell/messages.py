"""Maxwell's messages, and functions that extract single facts from them.

`parse` yields the messages of a Kafka value, usually one: TiCDC's dialect puts several JSON objects one after
another. Rows, definitions and unknown members are still JSON. Whatever the bytes, the only errors are
Malformed, UnsupportedMessage and LimitExceeded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.losses import Loss
from relay.codecs.maxwell import detection
from relay.codecs.maxwell.options import NAME
from relay.codecs.shared import unknown_members
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.tables import NAMELESS
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import TSO_LOGICAL_BITS, Snapshot, Source, Transaction
from relay.model.limits import Limits, exceeded
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import decimal_digits

CONNECTOR: Final = "maxwell"
SECOND_NS: Final = 1_000_000_000
#: Above any log position.
POSITION_LIMIT: Final = 1 << 63
_NULL: Final = msgspec.Raw(b"null")

ROWS: Final = frozenset({"insert", "update", "delete", "bootstrap-insert"})
MARKERS: Final = frozenset({"bootstrap-start", "bootstrap-complete"})
#: A statement's action on its database or table.
DATABASES: Final = frozenset({"database-create", "database-alter", "database-drop"})


class MaxwellMessage(unknown_members.OpenMessage, kw_only=True, gc=False):
    """A message. Members are in the order in which Maxwell writes them.

    The methods belong to decoding: they convert text to numbers, whatever these mean.
    """

    database: str | None = None
    table: str | None = None
    query: str | None = None
    type: str
    ts: int | None = None
    xid: int | None = None
    xoffset: int | None = None
    commit: bool | None = None
    position: str | None = None
    gtid: str | None = None
    server_id: int | None = None
    thread_id: int | None = None
    schema_id: int | None = None
    push_ts: Decimal | None = None
    primary_key: msgspec.Raw = _NULL
    primary_key_columns: list[str] | None = None
    data: msgspec.Raw = _NULL
    old: msgspec.Raw | UnsetType = UNSET
    definition: msgspec.Raw = msgspec.field(name="def", default=_NULL)
    charset: str | None = None
    sql: str | None = None

    def pushed_ns(self) -> int | None:
        """Return `push_ts`, which is in seconds, as nanoseconds; None if it is no such number."""
        pushed = self.push_ts
        if pushed is None or not pushed.is_finite() or pushed < 0 or pushed.adjusted() > _MOST_DIGITS:
            return None
        return int(pushed * SECOND_NS)

    def file_and_offset(self) -> tuple[str, int] | None:
        """Return the parts of `position`, `file:offset`; None for any other text."""
        file, colon, digits = (self.position or "").rpartition(":")
        is_position = colon and file and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        return (file, int(digits)) if is_position else None


#: Numbers of more digits are neither times in seconds nor log positions.
_MOST_DIGITS: Final = 19
_PARSER: Final = unknown_members.MessageParser(MaxwellMessage)
_decode: Final = _PARSER.decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: The members that a message may have, by name.
FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(MaxwellMessage)}
_TICDC: Final = re.compile(rb"\}\s*\{").search
_ENCRYPTED: Final = "encrypted"


def parse(value: bytes, limits: Limits, losses: list[Loss]) -> Iterator[MaxwellMessage]:
    """Yield the messages of a value. Bytes that are no UTF-8 become U+FFFD, counted."""
    try:
        message = _decode(value)
    except UnicodeDecodeError:
        losses.append(Loss.INVALID_TEXT)
        value = value.decode("utf-8", "replace").encode()
    except REFUSED:
        pass
    else:
        yield message
        return
    for part in _parts(value, limits):
        yield _parsed(part)


def _parts(value: bytes, limits: Limits) -> Iterator[bytes]:
    """Yield the consecutive JSON objects."""
    if _TICDC(value) is None:
        yield value
        return
    if len(value) > limits.lenient_json_bytes:
        most = limits.lenient_json_bytes
        raise exceeded(NAME, "", "bytes that are not strict JSON", "lenient_json_bytes", most)
    text, at, decoder = value.decode(errors="replace"), 0, json.JSONDecoder(strict=False)
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        yield text[at:end].encode(errors="replace")
        at = end + len(text[end:]) - len(text[end:].lstrip())


def _parsed(value: bytes) -> MaxwellMessage:
    """Parse one message that may have other members than Maxwell's, and names in camel case."""
    try:
        return _decode(value)
    except REFUSED as error:
        found = error
    try:
        members = _decode_members(value)
    except REFUSED as error:
        raise _malformed(error) from None
    if _ENCRYPTED in members:
        raise UnsupportedMessage(NAME, _ENCRYPTED, "an encrypted payload; relay has no key for it")
    names = {name: _underscored(name) for name in members}
    named = {name if names[name] in members else names[name]: raw for name, raw in members.items()}
    if "type" not in named:
        raise _malformed(found) from found
    if not detection.is_type(bytes(named["type"])):
        raise UnsupportedMessage(NAME, "type", "not a type of Maxwell's")
    try:
        return _PARSER.parse_open(msgspec.json.encode(named))
    except REFUSED as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> Malformed:
    if isinstance(error, UnicodeDecodeError):
        return Malformed(NAME, "", "not UTF-8")
    return Malformed(NAME, *complaint(error))


_CAPITAL: Final = re.compile(r"[A-Z]")


def _underscored(name: str) -> str:
    """Undo `output_naming_strategy` in names of members."""
    if name in FIELDS:
        return name
    found = _CAPITAL.sub(lambda match: "_" + match[0].lower(), name)
    return found if found in FIELDS else name


def camel_case(name: str) -> str:
    """Return a name after `output_naming_strategy=underscore_to_camelcase`.

    A name without `_` stays unchanged (FieldNameStrategy.java).
    """
    parts = [part for part in name.split("_") if part]
    if "_" not in name or not parts:
        return name
    return parts[0].lower() + "".join([part[0].upper() + part[1:].lower() for part in parts[1:]])


# ---------------------------------------------------------------- facts

#: A time of DDL above this is a commit ts of TiDB, which TiCDC's dialect has there.
_MOST_MS: Final = 10**14
_PUSHED_END_NS: Final = TIME_END_MS // 1_000 * SECOND_NS


def check(message: MaxwellMessage) -> None:
    """Check a row's table and time. Raises Malformed."""
    if not message.table:
        raise Malformed(NAME, "table", NAMELESS)
    if message.ts is not None and not -TIME_END_MS <= message.ts * 1_000 < TIME_END_MS:
        raise Malformed(NAME, "ts", "not a time in seconds")


def pushed_at_ns(message: MaxwellMessage) -> int | None:
    """Return the time when Maxwell sent a message; None if it has none."""
    pushed = message.pushed_ns()
    return pushed if pushed is not None and 0 <= pushed < _PUSHED_END_NS else None


def row_time_ns(message: MaxwellMessage, record: ConsumerRecord, losses: list[Loss]) -> int:
    """Return a row's change time: `ts`, in seconds, or else (counted) the next best."""
    return event_time_ns((message.ts or 0) * SECOND_NS, pushed_at_ns(message), record, losses)


def ddl_time_ns(message: MaxwellMessage, record: ConsumerRecord, losses: list[Loss]) -> int:
    """Return the time when a statement was executed: `ts`, in milliseconds, or else (counted) the next best
    time. Raises Malformed.
    """
    ts = message.ts or 0
    if ts > _MOST_MS:
        ts >>= TSO_LOGICAL_BITS
    if not -TIME_END_MS <= ts < TIME_END_MS:
        raise Malformed(NAME, "ts", "not a time in milliseconds")
    return event_time_ns(ts * 1_000_000, pushed_at_ns(message), record, losses)


def source_of(message: MaxwellMessage, event_time_ns: int, *, is_read: bool = False) -> Source:
    """Return the canonical source."""
    file = position = None
    found = message.file_and_offset()
    if found is not None and found[1] < POSITION_LIMIT:
        file, position = found
    return Source(
        CONNECTOR,
        event_time_ns,
        gtid=message.gtid or None,
        binlog_file=file,
        binlog_position=position,
        server_id=message.server_id,
        thread_id=message.thread_id,
        snapshot=Snapshot.TRUE if is_read else None,
        query=message.query,
        unknown_fields=message.unknown,
        schema_id=message.schema_id,
    )


def emitted_at_ns(message: MaxwellMessage, record: ConsumerRecord, event_time_ns: int) -> int:
    """Return the time when Maxwell made the message: `push_ts`, else the record's timestamp."""
    pushed = pushed_at_ns(message)
    return pushed if pushed is not None else record.time_ms(event_time_ns // 1_000_000) * 1_000_000


def transaction_of(message: MaxwellMessage) -> Transaction | None:
    """Return a row's transaction and its order there, None if the message has none."""
    xid, order = message.xid, message.xoffset
    if xid is None:
        return None
    return Transaction(decimal_digits(xid), None if order is None or order < 0 else order + 1)


_decode_hash = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(tuple[str, str, list[dict[str, msgspec.Raw]]]).decode
_KEY_START: Final = "pk."


def key_columns(message: MaxwellMessage, key: bytes | None, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the columns of the primary key that the message names, else its Kafka key, which has them in
    lower case. None if neither does, or they are not among the row's (`names`).
    """
    named = message.primary_key_columns
    if named is None:
        named = _named_by(key or b"")
    if named is None:
        return None
    exact = {name: name for name in names}
    lower = {name.lower(): name for name in reversed(names)}
    found = [exact.get(name) or lower.get(name.lower()) for name in named]
    return None if None in found else tuple([name for name in found if name is not None])


def unknown_in_key(key: bytes) -> unknown_members.Unknown | None:
    """Return the members of a Kafka key that Maxwell does not write; None for a key of another format."""
    if not key.startswith(b"{") or _USUAL_KEY(key):
        return None
    try:
        columns = _decode_hash(key)
    except REFUSED:
        return None
    if not {"database", "table"} <= columns.keys():
        return None
    found = [name for name in columns if name not in _IN_KEYS and not name.startswith(_KEY_START)]
    return {f"key.{name}": bytes(columns[name]).decode(errors="replace") for name in found} or None


#: A key as Maxwell prints it, whose texts have no escapes.
_USUAL_KEY: Final = re.compile(
    rb'\{"database":"[^"\\]*","table":"[^"\\]*"(?:,"pk\.[^"\\]*":(?:"[^"\\]*"|[^",{}\[\]]+))*\}'
).fullmatch
_IN_KEYS: Final = frozenset({"database", "table", "_uuid"})


def _named_by(key: bytes) -> list[str] | None:
    """Return the columns that a Kafka key names; a table without a primary key has a random one."""
    try:
        if key[:1] == b"[":
            return [name for column in _decode_array(key)[2] for name in column]
        columns = _decode_hash(key)
    except REFUSED:
        return None
    if not {"database", "table"} <= columns.keys():
        return None
    return [name[len(_KEY_START) :] for name in columns if name.startswith(_KEY_START)]
