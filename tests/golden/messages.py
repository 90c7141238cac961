"""The lines of golden files: record files in which keys and values may be JSON objects and defaults are left out.

The events of a message of Open Protocol are `"frames": [[key, value], …]` in place of `key` and `value`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import orjson

from relay import ConsumerRecord, ProducerRecord, RowChange, SchemaChange, Translator
from relay.cli.inspect import event_object, exact
from relay.io.record_lines import format_record, parse_record
from relay.model.records import SOURCE_HEADER
from relay.text.redaction import to_json

DEFAULTS = {"topic": "topic", "partition": 0, "timestamp": 1_700_000_000_456, "headers": [], "key": None}
_MEMBERS = {*DEFAULTS, "offset", "value", "frames"}
#: The version at the beginning of keys of Open Protocol.
_V1 = (1).to_bytes(8, "big")


class Line(NamedTuple):
    """A record of the source, the number of its line, and whether it is the first one of a run."""

    number: int
    record: ConsumerRecord
    is_first: bool


def parse_lines(text: str) -> Iterator[Line]:
    """Parse `source.jsonl`. The default of an offset is the number of the record in its run."""
    offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line:
            yield Line(number, _record(line, offset), offset == 0)
        offset = offset + 1 if line else 0


def _record(line: str, offset: int) -> ConsumerRecord:
    members = msgspec.json.decode(line, type=dict[str, msgspec.Raw]) if line.startswith("{") else {}
    if not members.keys() & {"value", "frames"} or not members.keys() <= _MEMBERS:
        members = {"value": msgspec.Raw(orjson.dumps(line))}
    if "frames" in members:
        frames = msgspec.json.decode(members.pop("frames"), type=list[tuple[msgspec.Raw, msgspec.Raw]])
        key, value = (b"".join(map(_segment, each)) for each in zip(*frames, strict=True))
        parts = {"key": {"base64": _V1 + key}, "value": {"base64": value}}
        return parse_record(msgspec.json.encode({**DEFAULTS, "offset": offset, **members, **parts}))
    for name in ("key", "value"):
        part = bytes(members.get(name, b""))
        if part.startswith((b"{", b"[")) and not part.startswith(b'{"base64"'):
            members[name] = msgspec.Raw(orjson.dumps(part.decode()))
    return parse_record(msgspec.json.encode({**DEFAULTS, "offset": offset, **members}))


def _segment(part: msgspec.Raw) -> bytes:
    """Return a key or value with its length in front."""
    data = msgspec.json.decode(part, type=str).encode() if bytes(part).startswith(b'"') else bytes(part)
    return len(data).to_bytes(8, "big") + data


def _frames_of(record: ProducerRecord) -> str | None:
    """Return the events of a message of Open Protocol; None for another message."""
    try:
        keys, values = (
            list(_segments((record.key or b"").removeprefix(_V1))),
            list(_segments(record.value or b"")),
        )
        pairs = [f"[{key},{value}]" for key, value in zip(keys, values, strict=True)]
    except ValueError:
        return None
    return f"[{','.join(pairs)}]" if (record.key or b"").startswith(_V1) and pairs else None


def _segments(data: bytes) -> Iterator[str]:
    while data:
        size = int.from_bytes(data[:8], "big")
        if len(data) < 8 + size:
            raise ValueError
        yield _text_of(data[8 : 8 + size].decode())
        data = data[8 + size :]


def format_line(produced: ProducerRecord, source: ConsumerRecord) -> str:
    """Return the line of an output record."""
    members = orjson.loads(format_record(produced, 0))
    members["headers"] = [header for header in members["headers"] if header[0] != SOURCE_HEADER]
    usual = {"topic": source.topic, "partition": source.partition, "timestamp": source.timestamp_ms}
    differing = [name for name, each in ({**DEFAULTS, **usual}).items() if members[name] != each]
    frames = _frames_of(produced)
    parts = [f'"{name}":{_text_of(members[name])}' for name in differing if name != "key" or frames is None]
    if frames is not None:
        return "{" + ",".join([*parts, f'"frames":{frames}']) + "}"
    text = _text_of(members["value"])
    return text if text[0] in "{[" and not parts else "{" + ",".join([*parts, f'"value":{text}']) + "}"


def _text_of(part: object) -> str:
    """Return the JSON form of a member; JSON in a text is shown as such."""
    if isinstance(part, str) and part.startswith(("{", "[")) and "\n" not in part:
        return part
    return orjson.dumps(part).decode()


def event_lines(translator: Translator, record: ConsumerRecord, *, rows: bool = False) -> Iterator[str]:
    """Return a line for each event: its object in `relay inspect --json` without position and empty members.

    `rows` leaves out statements.
    """
    for event in translator.inspect(record):
        if rows and isinstance(event, SchemaChange):
            continue
        found = event_object(event, record)
        del found["position"]
        if isinstance(event, RowChange) and event.transaction is not None:
            found["transaction"] = msgspec.structs.asdict(event.transaction)
        yield to_json({key: each for key, each in found.items() if each not in (None, [])}, exact).decode()


@functools.cache
def rows_of(protocol: str) -> tuple[ConsumerRecord, ...]:
    """Return the messages of a protocol's cases `rows`: the examples of one that relay does not write."""
    found: list[ConsumerRecord] = []
    for file in sorted(Path(__file__).parent.glob("*/rows/options.toml")):
        if tomllib.loads(file.read_text(encoding="utf-8"))["from"] == protocol:
            text = (file.parent / "source.jsonl").read_text(encoding="utf-8")
            found += [line.record for line in parse_lines(text)]
    return tuple(found)
