"""The captured TiCDC records that the demo plays; `data/README.md` says where they come from."""

from __future__ import annotations

from importlib.resources import files

from relay.record_lines import parse_record
from relay.records import ConsumerRecord

PARTITIONS = 4


def captured_records() -> list[ConsumerRecord]:
    """Return the records in the order in which TiCDC sent them."""
    text = files("relay.demo").joinpath("data", "ticdc-canal-json.jsonl").read_bytes()
    return [parse_record(line) for line in text.splitlines()]


def is_ddl(record: ConsumerRecord) -> bool:
    """Whether a captured record is a DDL statement."""
    return b'"isDdl":true' in (record.value or b"")
