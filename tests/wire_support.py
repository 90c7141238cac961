"""Record batches in bytes: as producers write them, as relay parses them, and as it writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from relay import ConsumerRecord, ProducerRecord
from relay.io import kernel
from relay.templates.batches import BatchTypes, SourceBatch, TargetBatch

HEADER_BYTES = 61


def batch_types() -> BatchTypes:
    """The kernel's classes."""
    found = kernel.installed().batches
    assert found is not None
    return found


def encoded(records: Sequence[ConsumerRecord | ProducerRecord], base_offset: int = 0) -> bytes:
    """A batch as aiokafka writes it, without compression. Target records get offsets from 0 on."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 30)
    for at, each in enumerate(records):
        offset = each.offset - base_offset if isinstance(each, ConsumerRecord) else at
        assert builder.append(offset, each.timestamp_ms, each.key, each.value, list(each.headers)) is not None
    return base_offset.to_bytes(8, "big") + bytes(builder.build())[8:]


def parsed(batch: bytes, begin: int = 0) -> SourceBatch:
    """The rows of a batch without compression."""
    header: Any = DefaultRecordBatch(batch)
    count = int.from_bytes(batch[57:61], "big", signed=True)
    is_append_time = bool(header.timestamp_type)
    time_ms = header.max_timestamp if is_append_time else header.first_timestamp
    return batch_types().source(
        batch, HEADER_BYTES, len(batch), count, header.base_offset, time_ms, is_append_time, begin
    )


def records_of(batch: SourceBatch, topic: str = "", partition: int = 0) -> list[ConsumerRecord]:
    """All records of a batch."""
    return batch.records(ConsumerRecord, topic, partition, 0, len(batch))


def written(batch: TargetBatch) -> list[ProducerRecord]:
    """The records of a target batch, as aiokafka reads them."""
    return [*_read(batch.build(0, None, -1, -1, 0))]


def _read(data: bytes) -> Iterable[ProducerRecord]:
    batch: Any = DefaultRecordBatch(data)
    assert batch.validate_crc()
    for each in batch:
        yield ProducerRecord("", 0, each.timestamp, each.key, each.value, tuple(each.headers))
