"""Batches of finished records, in place of encoded ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relay.io.kafka.sizes import BATCH_HEADER_BYTES, exact_bytes
from relay.model.records import ConsumerRecord, Header, ProducerRecord

#: A varint has at most so many bytes; those of time and number are not counted exactly.
_VARINT_BYTES = 10


class SourceRows:
    """The records of a source batch (`relay.templates.batches.SourceBatch`)."""

    def __init__(self, rows: Sequence[ConsumerRecord]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def records(
        self, make: Callable[..., Any], topic: str, partition: int, first: int, end: int
    ) -> list[Any]:
        """Make the records of rows."""
        return [
            make(topic, partition, row.offset, row.timestamp_ms, row.key, row.value, row.headers)
            for row in self._rows[first:end]
        ]

    def offset_of(self, row: int) -> int:
        """Return the offset of a row."""
        return self._rows[row].offset


class TargetRows:
    """The records of a target batch (`relay.templates.batches.TargetBatch`)."""

    def __init__(self, most_bytes: int, needs_key: bool) -> None:
        self._most_bytes, self._needs_key = most_bytes, needs_key
        self.rows: list[ProducerRecord] = []
        self.size = BATCH_HEADER_BYTES

    def append(self, time_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bool:
        """Add a record; False if it does not fit."""
        return self.append_all([ProducerRecord("", 0, time_ms, key, value, tuple(headers))])

    def append_all(self, records: Sequence[ProducerRecord]) -> bool:
        """Add records, all or none."""
        more = sum(exact_bytes(record) - BATCH_HEADER_BYTES + _VARINT_BYTES for record in records)
        for record in records:
            is_untimed = self.rows and self.rows[0].timestamp_ms == -1 != record.timestamp_ms
            if self.rows and (is_untimed or (self._needs_key and record.key is None)):
                return False
        if self.rows and self.size + more > self._most_bytes:
            return False
        self.rows += records
        self.size += more
        return True

    def __len__(self) -> int:
        return len(self.rows)
