"""Open Protocol's framing: the layout of events in a Kafka record's key and value.

    key   = version(8) ( length(8) JSON )*        version is 1
    value =            ( length(8) bytes )*       one for each segment of the key

All integers are big-endian signed 64-bit numbers. Every length is checked against the remaining bytes before
it is used. A framing error makes the whole record malformed. Source: PingCAP "TiCDC Open Protocol", message
format; pingcap/ticdc pkg/sink/codec/open (2026-08).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.limits import DEFAULT_LIMITS, Limits, check_rows

NAME: Final = "ticdc-open-protocol"
#: The kinds of events: `t` of a key.
ROW, DDL, RESOLVED = 1, 2, 3
#: The only version since TiCDC v4.0.0, in the form that begins every key.
VERSION: Final = (1).to_bytes(8, "big")
#: The value of a resolved event: one segment of no bytes. In the manual it is "None"; every release writes
#: these eight bytes.
NO_VALUE: Final = bytes(8)
#: The version and the length of the first segment: the start of a key.
_head: Final = struct.Struct(">qq").unpack_from
_length: Final = struct.Struct(">q").unpack_from
_HEAD_BYTES: Final = 16
#: Overhead of a segment in bytes.
LENGTH_BYTES: Final = 8


def unframe(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> list[tuple[bytes, bytes]]:
    """Return the record's events, as pairs of key and value segment.

    A single key without any value has an empty value, which only a resolved event may have. Raises Malformed,
    UnsupportedMessage (a version other than 1) and LimitExceeded (more events than `rows`).
    """
    key, value = key or b"", value or b""
    end, size = len(key), len(value)
    # Most producers are configured for one event a message.
    is_large_enough = end > _HEAD_BYTES and size > LENGTH_BYTES
    if is_large_enough and _head(key) == (1, end - 16) and _length(value) == (size - 8,):
        return [(key[16:], value[8:])]
    if end < LENGTH_BYTES:
        raise _no_key(value)
    version = int.from_bytes(key[:8], "big", signed=True)
    if version != 1:
        raise UnsupportedMessage(
            NAME, "key[0]", f"version {version} of the protocol, which is 1 in every release of TiCDC"
        )
    keys, values = _segments(key, 8, "key"), _segments(value, 0, "value")
    if len(keys) == 1 and not values:
        return [(keys[0], b"")]
    if len(keys) != len(values):
        raise Malformed(NAME, "value", f"{len(keys)} keys and {len(values)} values in one message")
    check_rows(NAME, "", len(keys), limits)
    return list(zip(keys, values, strict=True))


def _no_key(value: bytes) -> Malformed:
    reason = "shorter than the 8 bytes of the version"
    if value.startswith(VERSION):
        reason = "empty, and the value begins with the version: a file of TiCDC's storage sink, not a record"
    elif value.lstrip()[:1] == b"{":
        reason = "shorter than 8 bytes, and the value is JSON, not the frames of this protocol"
    return Malformed(NAME, "key", reason)


def _segments(data: bytes, at: int, part: str) -> list[bytes]:
    found: list[bytes] = []
    end = len(data)
    while at < end:
        if end - at < LENGTH_BYTES:
            raise Malformed(NAME, f"{part}[{at}]", f"{end - at} bytes where a length of 8 bytes is expected")
        size = int.from_bytes(data[at : at + 8], "big", signed=True)
        left = end - at - LENGTH_BYTES
        if not 0 <= size <= left:
            raise Malformed(NAME, f"{part}[{at}]", f"a length of {size} where {left} bytes are left")
        at += LENGTH_BYTES
        found.append(data[at : at + size])
        at += size
    return found


def segments_in(key: bytes) -> int:
    """Return the number of events in a framed key."""
    at, count = LENGTH_BYTES, 0
    while at < len(key):
        at += LENGTH_BYTES + int.from_bytes(key[at : at + LENGTH_BYTES], "big")
        count += 1
    return count


def separated(key: bytes, value: bytes) -> list[tuple[bytes | None, bytes]]:
    """Split a message of several events into messages of one each, in order; else return none."""
    end, size = len(key), len(value)
    if end < _HEAD_BYTES or not key.startswith(VERSION) or _head(key)[1] == end - _HEAD_BYTES:
        return []
    found: list[tuple[bytes | None, bytes]] = []
    at, start = LENGTH_BYTES, 0
    while at <= end - LENGTH_BYTES and start <= size - LENGTH_BYTES:
        (key_length,), (length,) = _length(key, at), _length(value, start)
        if key_length < 0 or length < 0:
            return []
        after, behind = at + LENGTH_BYTES + key_length, start + LENGTH_BYTES + length
        found.append((VERSION + key[at:after], value[start:behind]))
        at, start = after, behind
    return found if at == end and start == size else []


def joined(messages: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Return the key and the value with the events of these messages, in order."""
    keys = b"".join([key[LENGTH_BYTES:] for key, _ in messages])
    return VERSION + keys, b"".join([value for _, value in messages])


def framed_key(segments: Iterable[bytes]) -> bytes:
    """Return the record key with these key segments."""
    return VERSION + framed_value(segments)


def framed_value(segments: Iterable[bytes]) -> bytes:
    """Return the record value with these value segments."""
    return b"".join(part for segment in segments for part in (len(segment).to_bytes(8, "big"), segment))
