"""Batches of the Kafka client: records encoded as they come, and compressed before they are handed over.

Compression is a fifth of the work on a record, and the library does it without Python's lock: in a thread of its own it runs beside
the translation of the next records.
"""

from __future__ import annotations

import struct
from typing import Final

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.util import calc_crc32c

from relay.records import ProducerRecord

# Kafka's record batch, version 2: crc, and where what it covers begins; producer id, its epoch and the first sequence number.
_CRC: Final = struct.Struct(">I")
_CRC_AT, _COVERED_FROM = 17, 21
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43


class KafkaBatch:
    """Records of one output partition, encoded as they come."""

    def __init__(self, builder: BatchBuilder) -> None:
        self._builder = builder
        # The encoder behind the builder: its own `append` adds three calls of Python to every record, for serializers we have not.
        self._encode = builder._builder.append
        self._count = 0
        self._is_untimed = False

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full."""
        # The client takes the first time that is known for the base of the whole batch, so that those without one would get it.
        if self._count == 0:
            self._is_untimed = record.timestamp_ms == -1
        elif self._is_untimed and record.timestamp_ms != -1:
            return False
        headers = list(record.headers)
        if self._encode(self._count, record.timestamp_ms, key=record.key, value=record.value, headers=headers) is None:
            return False
        self._count += 1
        return True

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Its bytes before compression."""
        return int(self._builder._builder.size())

    def closed(self) -> BatchBuilder:
        """The builder, which takes no more records."""
        self._builder._relative_offset = self._count
        self._builder.close()
        return self._builder


class Compressed:
    """A closed batch in its final form but for the producer's numbers, which the client knows only when it sends it.

    It stands for the client's own builder, which would compress at that moment, in the way of everything else.
    """

    def __init__(self, builder: BatchBuilder) -> None:
        self._count: int = builder.record_count()
        self._buffer: bytearray = builder._build()

    def record_count(self) -> int:
        """How many records it holds."""
        return self._count

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return True

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        _PRODUCER.pack_into(self._buffer, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
        _CRC.pack_into(self._buffer, _CRC_AT, calc_crc32c(self._buffer[_COVERED_FROM:]))

    def _build(self) -> bytearray:
        return self._buffer
