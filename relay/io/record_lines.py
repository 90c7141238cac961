"""Kafka records as lines of JSON, exact to the byte: the form of record files and of the schema history.

`topic, partition, offset, timestamp` (ms since 1970), `headers` (`[[name, value], …]`), `key`, `value`. Key,
value and header values are null, a string where the bytes are valid UTF-8, else `{"base64": "…"}`. Unknown
members are ignored and never written.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Annotated

import msgspec
import orjson

from relay.model.records import ConsumerRecord, ProducerRecord

_BASE64_HINT = 'bytes that are not UTF-8 are written as {"base64": "…"}'


class _Base64(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    base64: bytes


_Bytes = str | _Base64 | None
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Timestamp = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class _Line(msgspec.Struct, gc=False):
    partition: _Partition
    value: _Bytes
    key: _Bytes = None
    topic: str | None = None
    offset: _Offset | None = None
    timestamp: _Timestamp = 0
    headers: list[tuple[str, _Bytes]] | None = None


_LINE_DECODER = msgspec.json.Decoder(_Line)
#: msgspec also raises UnicodeDecodeError and RecursionError, which do not derive from its own errors.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_record(
    line: bytes, topic: str | None = None, next_offset: Callable[[str, int], int] | None = None
) -> ConsumerRecord:
    """Parse a line. `topic` and `next_offset` supply missing members.

    Raises ValueError with the problem, without the record's values.
    """
    try:
        read = _LINE_DECODER.decode(line)
    except DECODE_ERRORS as error:
        raise ValueError(_reason(error, line)) from error
    name = topic if read.topic is None else read.topic
    if name is None:
        raise ValueError("Object missing required field `topic`")
    offset = read.offset
    if offset is None:
        if next_offset is None:
            raise ValueError("Object missing required field `offset`")
        offset = next_offset(name, read.partition)
    headers = tuple([(header, _to_bytes(value)) for header, value in read.headers]) if read.headers else ()
    return ConsumerRecord(
        name, read.partition, offset, read.timestamp, _to_bytes(read.key), _to_bytes(read.value), headers
    )


def _to_bytes(part: _Bytes) -> bytes | None:
    if isinstance(part, str):
        return part.encode()
    return None if part is None else part.base64


def _reason(error: Exception, line: bytes) -> str:
    """Return the problem with a line, without its values."""
    if isinstance(error, msgspec.ValidationError):
        text = str(error)
        return f"{text} ({_BASE64_HINT})" if "base64" in text else text
    if isinstance(error, RecursionError):
        return "nested too deeply"
    try:
        # msgspec calls a lone surrogate "truncated"; orjson names it, and its position.
        orjson.loads(line)
    except orjson.JSONDecodeError as exact:
        reason = f"not valid JSON: {exact.msg} at byte {exact.pos + 1}"
        return f"{reason} ({_BASE64_HINT})" if "surrogate" in exact.msg or "UTF-8" in exact.msg else reason
    return f"not valid JSON: {error}"


def _from_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": binascii.b2a_base64(data, newline=False).decode("ascii")}


def format_record(record: ConsumerRecord | ProducerRecord, offset: int) -> bytes:
    """Return the record's line, with its line feed."""
    return orjson.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": offset,
            "timestamp": record.timestamp_ms,
            "headers": [[name, _from_bytes(value)] for name, value in record.headers],
            "key": _from_bytes(record.key),
            "value": _from_bytes(record.value),
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )
