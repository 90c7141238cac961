"""Messages of Open Protocol, framed by the tests themselves, and short ways to read them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from support import OPEN

from relay import ConsumerRecord, ProducerRecord, RowChange, SchemaChange, Translator
from relay.model.events import Event

V1 = struct.pack(">q", 1)
ROW_KEY = {"ts": 5, "scm": "d", "tbl": "t", "t": 1}
DDL_KEY = ROW_KEY | {"t": 2}

Part = dict[str, Any] | str | bytes
#: A key and a value.
Message = tuple[Part, Part]
Options = dict[str, str]


def as_bytes(part: Part) -> bytes:
    if isinstance(part, bytes):
        return part
    return (
        part.encode()
        if isinstance(part, str)
        else json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()
    )


def segment(part: Part) -> bytes:
    """The part with its length in front."""
    data = as_bytes(part)
    return struct.pack(">q", len(data)) + data


def raw(
    key: bytes | None, value: bytes | None, offset: int = 0, partition: int = 0, topic: str = "topic"
) -> ConsumerRecord:
    """A record of these bytes."""
    return ConsumerRecord(topic, partition, offset, 1700000000456, key, value)


def framed(*messages: Message, offset: int = 0, partition: int = 0, topic: str = "topic") -> ConsumerRecord:
    """The events, as keys and values, in one record."""
    key = V1 + b"".join(segment(key) for key, _ in messages)
    return raw(key, b"".join(segment(value) for _, value in messages), offset, partition, topic)


def row(value: Part, **key: Any) -> Message:
    """A row of the table `d.t`."""
    return ROW_KEY | key, value


def ddl(sql: str, code: int = 3, **key: Any) -> Message:
    """A statement about the table `d.t`, before all rows."""
    return DDL_KEY | {"ts": 4} | key, {"q": sql, "t": code}


def resolved(commit_ts: int) -> Message:
    """A watermark."""
    return {"ts": commit_ts, "t": 3}, b""


def cell(code: int, value: Any, flags: int | None = 65, **more: Any) -> dict[str, Any]:
    """A column of a message."""
    return {"t": code} | more | ({} if flags is None else {"f": flags}) | {"v": value}


def records(*messages: Message) -> list[ConsumerRecord]:
    """Every event in a record of its own, in one partition."""
    return [framed(message, offset=at) for at, message in enumerate(messages)]


def read(*messages: Message, options: Options | None = None) -> list[Event]:
    """The events of the last message."""
    translator = Translator(OPEN, OPEN, options)
    return [translator.inspect(record) for record in records(*messages)][-1]


def change(*messages: Message, options: Options | None = None) -> RowChange:
    """The row of the last message."""
    (event,) = read(*messages, options=options)
    assert isinstance(event, RowChange)
    return event


def schema_change(*messages: Message) -> SchemaChange:
    """The statement of the last message."""
    (event,) = read(*messages)
    assert isinstance(event, SchemaChange)
    return event


def segments(data: bytes, at: int = 0) -> Iterator[bytes]:
    """What stands behind the lengths, from this byte on. It is as strict as TiCDC's example of a consumer in
    Java.
    """
    while at < len(data):
        (size,) = struct.unpack_from(">q", data, at)
        assert 0 <= size <= len(data) - at - 8
        yield data[at + 8 : at + 8 + size]
        at += 8 + size


def unframed(out: ProducerRecord | ConsumerRecord) -> list[tuple[bytes, bytes]]:
    """The keys and values of a record."""
    assert out.key is not None
    assert out.value is not None
    assert out.key[:8] == V1
    return list(zip(segments(out.key, 8), segments(out.value), strict=True))


def written(
    records: Sequence[ConsumerRecord],
    options: Options | None = None,
    source: str = OPEN,
    reading: Options | None = None,
) -> list[list[tuple[bytes, bytes]]]:
    """The keys and values of every record that is written."""
    translator = Translator(source, OPEN, reading, options)
    return [unframed(out) for record in records for out in translator.translate(record)]


def values(
    records: Sequence[ConsumerRecord], options: Options | None = None, source: str = OPEN
) -> list[Any]:
    """The values that are written, parsed, one event after the other."""
    return [
        json.loads(value or b"null") for message in written(records, options, source) for _, value in message
    ]


def counted(
    records: Sequence[ConsumerRecord], target: str = OPEN, options: Options | None = None
) -> dict[str, int]:
    """What is counted on the way of the records, but for what is always said of tables without DDL."""
    translator = Translator(OPEN, target, None, options)
    for record in records:
        translator.translate(record)
    return {
        what.value: count
        for what, count in translator.losses.items()
        if what.value not in {"schema-inferred", "type-parameters"}
    }
