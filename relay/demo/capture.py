"""The captured TiCDC records that the demo plays; `data/README.md` tells where they come from."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from relay.records import ConsumerRecord

PARTITIONS = 4


class _Line(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: list[tuple[str, str]]
    key: str | None
    value: str


def captured_records() -> list[ConsumerRecord]:
    """Give the records in the order in which TiCDC sent them."""
    text = files("relay.demo").joinpath("data", "ticdc-canal-json.jsonl").read_bytes()
    return [_record(msgspec.json.decode(line, type=_Line)) for line in text.splitlines()]


def _record(line: _Line) -> ConsumerRecord:
    headers = tuple((name, value.encode()) for name, value in line.headers)
    key = None if line.key is None else line.key.encode()
    return ConsumerRecord(
        line.topic, line.partition, line.offset, line.timestamp, key, line.value.encode(), headers
    )


def is_ddl(record: ConsumerRecord) -> bool:
    """Tell whether a captured record is a DDL statement."""
    return b'"isDdl":true' in (record.value or b"")
