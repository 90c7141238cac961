"""Batches of the Kafka client, encoded as records come."""

from __future__ import annotations

from aiokafka.producer.message_accumulator import BatchBuilder

from relay.records import ProducerRecord


class KafkaBatch:
    """Records of one output partition, encoded as they come."""

    def __init__(self, builder: BatchBuilder) -> None:
        self._builder = builder
        # The encoder behind the builder: its own `append` adds three calls of Python to every record, for
        # serializers we have not.
        self._encode = builder._builder.append
        self._count = 0
        self._is_untimed = False

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full."""
        count, time_ms = self._count, record.timestamp_ms
        # The client takes the first time that is known for the base of the whole batch, so that those without
        # one would get it.
        if not count:
            self._is_untimed = time_ms == -1
        elif self._is_untimed and time_ms != -1:
            return False
        if self._encode(count, time_ms, record.key, record.value, list(record.headers)) is None:
            return False
        self._count = count + 1
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
