"""Simple as JSON: every value is text or null, and a TIMESTAMP is an object with its zone.

Source: pingcap/ticdc pkg/sink/codec/simple/message.go (2026-08), and its records. Members of a row are in the
order of their names, as Go prints maps; it escapes `<`, `>`, `&`, U+2028 and U+2029.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.shared import unknown_members
from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.traced_messages import TracedRow
from relay.codecs.simple.definitions import TableEntry
from relay.codecs.simple.messages import BOOTSTRAP, OPS, WATERMARK, Checksum, SimpleMessage
from relay.codecs.simple.traced import traced_message, traced_row
from relay.codecs.simple.values import (
    ZonedText,
    checked_number,
    max_member_number,
    member_number,
    read_text,
    timestamp_reader,
    timestamp_writer,
)
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import ColumnType, RowChange
from relay.model.limits import DEFAULT_LIMITS, Limits, check_values, uncounted_bytes
from relay.model.records import ConsumerRecord
from relay.mysql import numbers, values
from relay.mysql.conversion_names import kernel_name
from relay.mysql.values import TextStyle
from relay.templates.ops import Put
from relay.templates.tracing import Trace, Traced, mark_of

# ---------------------------------------------------------------- messages


_Image = dict[str, str | ZonedText | None]


class _Read(unknown_members.OpenMessage, gc=False):
    """Any message, before conversion."""

    version: int
    type: str
    commitTs: int = 0
    startTs: int = 0
    buildTs: int = 0
    database: str | None = None
    table: str | None = None
    tableID: int = 0
    schemaVersion: int = 0
    claimCheckLocation: str | None = None
    handleKeyOnly: bool | None = None
    checksum: Checksum | None = None
    data: _Image | None = None
    old: _Image | None = None
    sql: str | None = None
    tableSchema: TableEntry | None = None
    preTableSchema: TableEntry | None = None


class _Row(msgspec.Struct, gc=False):
    version: int
    database: str | None
    table: str | None
    tableID: int
    type: str
    commitTs: int
    startTs: int | UnsetType
    buildTs: int
    schemaVersion: int
    claimCheckLocation: str | UnsetType
    handleKeyOnly: bool | UnsetType
    checksum: Checksum | UnsetType
    data: Any
    old: Any


class _Other(msgspec.Struct, gc=False):
    """A statement, a definition, a watermark."""

    version: int
    type: str
    sql: str | UnsetType
    commitTs: int
    buildTs: int
    tableSchema: TableEntry | UnsetType
    preTableSchema: TableEntry | UnsetType


_parse: Final = unknown_members.MessageParser(_Read).parse


def _mark(value: object) -> msgspec.Raw:
    """Print a traced value, text as Go does."""
    op = value.op() if isinstance(value, Traced) else None
    if isinstance(value, Traced) and isinstance(op, Put) and op.write is None:
        return value.trace.mark(op._replace(write=("html-text",)))
    return mark_of(value)


_print = msgspec.json.Encoder(order="deterministic", enc_hook=_mark).encode
#: Characters that Go escapes and msgspec does not; they occur in texts only.
_ESCAPED: Final = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_has_escaped: Final = _ESCAPED.search


class JsonWire:
    """The encoding as JSON."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def is_plain(value: bytes) -> bool:
        """Return whether a value is uncompressed JSON."""
        return value[:2] == b'{"'

    def read(self, value: bytes, limits: Limits = DEFAULT_LIMITS) -> SimpleMessage:
        """Read a message. Raises Malformed and LimitExceeded."""
        if len(value) > uncounted_bytes(limits):
            check_values(self.name, "value", value, limits)
        try:
            found = _parse(value)
        except UnicodeDecodeError:
            raise Malformed(self.name, "", "not UTF-8") from None
        except REFUSED as error:
            raise Malformed(self.name, *complaint(error)) from None
        return SimpleMessage(
            version=found.version,
            type=found.type,
            commit_ts=found.commitTs,
            build_ts=found.buildTs,
            database=found.database,
            table=found.table,
            table_id=found.tableID,
            schema_version=found.schemaVersion,
            claim_check_location=found.claimCheckLocation or None,
            handle_key_only=bool(found.handleKeyOnly),
            checksum=found.checksum,
            data=found.data,
            old=found.old,
            sql=found.sql,
            table_schema=found.tableSchema,
            pre_table_schema=found.preTableSchema,
            start_ts=found.startTs,
            unknown=found.unknown,
        )

    def write(self, message: SimpleMessage) -> bytes:
        """Write a message. Raises NotRepresentable for lone surrogates and for numbers beyond 64 bits."""
        try:
            text = _print(_row(message) if message.type in OPS else _other(message))
        except (OverflowError, UnicodeError):
            reason = "text that is not Unicode, or a number beyond 64 bits"
            raise NotRepresentable(self.name, "", reason) from None
        if _has_escaped(text):
            text = _ESCAPED.sub(_escape, text)
        return text

    def traced(
        self, record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits
    ) -> tuple[TracedRow, SimpleMessage]:
        """Return a row with traced values, and its message with traced members. Raises NotTemplatable."""
        row = traced_row(record, change, trace, limits)
        return row, traced_message(self.read(row.value.text, limits), row, trace)

    def read_of(self, column_type: ColumnType, zone: tzinfo) -> Read:
        """Return the function from a column's value to the canonical one; `zone`: for a TIMESTAMP without."""
        base = column_type.base
        if base == "timestamp":
            return timestamp_reader(zone)
        if base in {"enum", "set"}:
            most = max_member_number(column_type)
            return kernel_name("member-number", _parameter(most))(functools.partial(read_member, most))
        return values.reader(column_type, _STYLE) or read_text

    def write_of(
        self, column_type: ColumnType, zone: tzinfo, zone_name: str, unmoved: Callable[[], None]
    ) -> Write | None:
        """Return the writing function of a column's canonical value."""
        base = column_type.base
        if base == "timestamp":
            return timestamp_writer(zone, zone_name, unmoved)
        if base in {"enum", "set"}:
            most = max_member_number(column_type)
            return kernel_name("member-digits", _parameter(most))(functools.partial(write_member, most))
        return values.writer(column_type, _STYLE)


@kernel_name("html-text")
def html_text(text: str) -> msgspec.Raw:
    """Return the JSON of a text as Go prints it."""
    return msgspec.Raw(_ESCAPED.sub(_escape, _print(text)))


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def _row(message: SimpleMessage) -> _Row:
    return _Row(
        message.version,
        message.database,
        message.table,
        message.table_id,
        message.type,
        message.commit_ts,
        message.start_ts or UNSET,
        message.build_ts,
        message.schema_version,
        message.claim_check_location or UNSET,
        True if message.handle_key_only else UNSET,
        message.checksum or UNSET,
        UNSET if message.data is None else message.data,
        UNSET if message.old is None else message.old,
    )


def _other(message: SimpleMessage) -> _Other:
    has_sql = message.type not in {WATERMARK, BOOTSTRAP}
    return _Other(
        message.version,
        message.type,
        message.sql or "" if has_sql else UNSET,
        message.commit_ts,
        message.build_ts,
        message.table_schema or UNSET,
        message.pre_table_schema or UNSET,
    )


# ---------------------------------------------------------------- values

_STYLE: Final = TextStyle(
    float_text=numbers.go_text,
    zero_year="0",
    pads_binary=True,
    zone=UTC,
    read_binary=read_base64,
    write_binary=base64_text,
)


def _parameter(most: int) -> int | None:
    """Return the greatest number of a member as a parameter of a conversion; None for that of 64 bits."""
    return most if most < 1 << 63 else None


def read_member(most: int, text: str) -> int:
    """Return a number of ENUM or SET. Raises ValueError."""
    return checked_number(most, numbers.read_int(text))


def write_member(most: int, value: int | str) -> str:
    """Return the digits of a number of ENUM or SET. Raises TypeError, ValueError."""
    return str(member_number(most, value))
