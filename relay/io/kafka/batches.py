"""Batches for a producer of aiokafka: its own, and those that the native kernel encodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from aiokafka.producer.message_accumulator import BatchBuilder

from relay.model.records import ProducerRecord
from relay.templates.batches import TargetBatch

_IS_TRANSACTIONAL: Final = 0x10
#: A codec's number in the attributes of a batch, and its function; None for no compression.
Compressor = tuple[int, Callable[[bytes], bytes]] | None


class KafkaBatch(Protocol):
    """Records of one output partition, encoded as they come."""

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full, or if the record needs another one."""
        ...

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    @property
    def size(self) -> int:
        """Return the bytes of the records before compression."""
        ...

    def closed(self) -> Any:
        """Return what `AIOKafkaProducer.send_batch` takes; the batch accepts no more records."""
        ...


class ClientBatch:
    """A batch that aiokafka encodes."""

    def __init__(self, builder: BatchBuilder) -> None:
        self._builder = builder
        # The encoder behind the builder: the builder's own `append` adds three calls to every record, for
        # serializers that are not used.
        self._encode = builder._builder.append
        self._count = 0
        self._is_untimed = False

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full."""
        count, time_ms = self._count, record.timestamp_ms
        # The client bases the whole batch on its first known time, which records without a time would get.
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
        """Return the bytes of the records before compression."""
        return int(self._builder._builder.size())

    def closed(self) -> BatchBuilder:
        """Return the builder, which accepts no more records."""
        self._builder._relative_offset = self._count
        self._builder.close()
        return self._builder


class KeyedClientBatch(ClientBatch):
    """Records of a compacted topic, which need keys. Only an empty batch takes one without."""

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full, or if the record has no key."""
        if record.key is None and self._count:
            return False
        return super().append(record)


class KernelBatch:
    """A batch that the native kernel encodes. Runs append to its `target`, too."""

    def __init__(self, target: TargetBatch, compressor: Compressor, *, is_transactional: bool) -> None:
        self.target = target
        self._compressor, self._is_transactional = compressor, is_transactional

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full, or if the record needs another one."""
        return self.target.append(record.timestamp_ms, record.key, record.value, record.headers)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def size(self) -> int:
        """Return the bytes of the records before compression."""
        return self.target.size

    def closed(self) -> KernelBuilder:
        """Return what the client sends."""
        return KernelBuilder(self.target, self._compressor, is_transactional=self._is_transactional)


class KernelBuilder:
    """A closed batch of the kernel, with the interface of aiokafka's `BatchBuilder` towards its sender."""

    def __init__(self, target: TargetBatch, compressor: Compressor, *, is_transactional: bool) -> None:
        self._target: TargetBatch | None = target
        self._compressor, self._attributes = compressor, _IS_TRANSACTIONAL if is_transactional else 0
        self._count, self._size = len(target), target.size
        self._producer = -1, -1, 0
        self._buffer = b""

    def record_count(self) -> int:
        """Return the number of records."""
        return self._count

    def size(self) -> int:
        """Return the bytes of the batch: before compression, until it is sent."""
        return self._size

    def close(self) -> None:
        """Do nothing: it is closed."""

    def closed(self) -> bool:
        """Return True."""
        return True

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._producer = producer_id, producer_epoch, base_sequence

    def _build(self) -> bytes:
        """Return the bytes to send; a retry sends the same ones."""
        if self._target is not None:
            self._buffer = self._built(self._target)
            self._size, self._target = len(self._buffer), None
        return self._buffer

    def _built(self, target: TargetBatch) -> bytes:
        attributes, packed = self._attributes, None
        if self._compressor is not None:
            number, compress = self._compressor
            records = target.records()
            packed = compress(records)
            # Without any benefit, like the client, send them as they are.
            attributes, packed = (
                (attributes | number, packed) if len(packed) < len(records) else (attributes, None)
            )
        return target.build(attributes, packed, *self._producer)
