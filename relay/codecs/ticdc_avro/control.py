"""Messages of TiCDC Avro without a schema: a byte for the kind, and the content.

    01 {"query", "type", "schema", "table", "commitTs"}    a statement; no key
    02, commit ts in 8 bytes                               a watermark; no key
    03, commit ts in 8 bytes                               a deleted row, whose key is the message's

TiCDC sends them with avro-enable-watermark. No row begins so: frames begin with 00, or with 01 and a GUID,
which is a hash and not the beginning of such a statement. Source: pingcap/ticdc pkg/sink/codec/avro
(2026-08).
"""

from __future__ import annotations

import struct
from typing import Any, Final

from relay.codecs.detection import DetectionMessage
from relay.codecs.shared.avro import has_id_header
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.ticdc import TSO_END, printed
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage
from relay.codecs.ticdc_avro.values import NAME
from relay.model.errors import Malformed
from relay.model.records import ConsumerRecord
from relay.templates.avro_ops import Plain
from relay.templates.tracing import Traced

DDL, WATERMARK, DELETE = b"\x01", b"\x02", b"\x03"
_DDL_START: Final = DDL + b"{"
#: The commit ts in a message.
COMMIT_TS_TYPE: Final = Plain("uint64")
_TSO: Final = struct.Struct(">Q")
_TSO_BYTES: Final = 1 + _TSO.size


class TicdcAvroDdl(OpenMessage, rename={"commit_ts": "commitTs"}):
    """A statement in its message."""

    query: str
    type: int
    schema: str = ""
    table: str = ""
    commit_ts: int = 0


_parse: Final = MessageParser(TicdcAvroDdl).parse


def kind_of(record: ConsumerRecord | DetectionMessage) -> bytes:
    """Return the kind of a control message; b"" if the record is a row with a schema."""
    value = record.value or b""
    if value.startswith(_DDL_START) and record.key is None:
        return DDL
    if len(value) != _TSO_BYTES or (value[:1] == WATERMARK and record.key is not None):
        return b""
    if record.headers and has_id_header(record.headers, "value"):
        return b""  # a row may have as many bytes
    return value[:1] if value[:1] in {WATERMARK, DELETE} else b""


def commit_ts_in(value: bytes) -> int:
    """Return the commit ts of a watermark, or of a deleted row."""
    (commit_ts,) = _TSO.unpack_from(value, 1)
    return int(commit_ts)


def with_commit_ts(kind: bytes, commit_ts: Any) -> bytes:  # noqa: ANN401 - an integer, which may be traced
    """Return the value of a watermark, or of a deleted row."""
    if isinstance(commit_ts, Traced):
        return kind + commit_ts.trace.avro_mark(COMMIT_TS_TYPE, commit_ts)
    return kind + _TSO.pack(commit_ts)


def statement_in(value: bytes) -> TicdcAvroDdl:
    """Return the statement of a message. Raises Malformed."""
    try:
        found = _parse(value[1:])
    except REFUSED:
        raise Malformed(NAME, "value", "not a statement of TiCDC Avro") from None
    if not 0 <= found.commit_ts < TSO_END:
        raise Malformed(NAME, "value.commitTs", "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    return found


def statement_value(statement: TicdcAvroDdl) -> bytes:
    """Return the value of a statement's message. Raises the errors of printing."""
    text = printed(statement)
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return DDL + text


#: Characters that Go's encoding/json escapes and `printed` does not; they occur in texts only.
_ESCAPES: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
