"""Ops and traced values for rows of Simple as Avro; `relay.codecs.simple.traced` has those for JSON.

The columns of an image may have any order, as TiCDC shuffles them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion
from relay.codecs.shared.traced_avro import TracedAvroPart
from relay.codecs.shared.traced_messages import TracedEvent
from relay.codecs.simple.avro_bytes import avro_flag, avro_long
from relay.codecs.simple.avro_rows import row_facts, row_identity
from relay.codecs.simple.avro_values import BIT_NUMBER, avro_type
from relay.codecs.simple.messages import Checksum, Image, SimpleMessage
from relay.codecs.simple.values import read_text
from relay.model.events import ColumnType, RowChange, TableSchema
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_INTEGER, Conversion
from relay.templates.avro_ops import AvroOp, Map, Plain, Record
from relay.templates.ops import AvroValue, Constant, SourceOp
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber

_LONG: Final = Plain("long")
_TIMES: Final = ("commit_ts", "build_ts")
_CHECKSUMS: Final = ("current", "previous")
_ABSENT, _PRESENT = b"\0", b"\x02"
_DATETIME: Final[Conversion] = ("datetime",)


class _TracedValue(TracedAvroPart):
    """The value of a message of a row.

    types: The Avro of each column's values.
    """

    def __init__(self, message: SimpleMessage, types: Mapping[str, AvroOp]) -> None:
        super().__init__(None, None, None)
        self._message, self._types = message, types

    def split(self, first_slot: int) -> int:
        """Make the ops and the slots, numbered from `first_slot`; return the next slot."""
        message = self._message
        ops: list[SourceOp] = [
            Constant(row_identity(message)),
            self._numbers(_TIMES, first_slot),
            Constant(row_facts(message)),
            *self._checksum(message.checksum, first_slot),
            *self._image("data", message.data, first_slot),
            *self._image("old", message.old, first_slot),
        ]
        self.ops = tuple(ops)
        return first_slot + len(self.slots)

    def _numbers(self, names: tuple[str, ...], first_slot: int) -> AvroValue:
        for name in names:
            self.slots[name,] = first_slot + len(self.slots)
        return AvroValue(Record(tuple([(b'"%b":' % name.encode(), _LONG) for name in names])))

    def _checksum(self, checksum: Checksum | None, first_slot: int) -> Iterator[SourceOp]:
        if checksum is None:
            yield Constant(_ABSENT)
        else:
            yield Constant(_PRESENT + avro_long(checksum.version) + avro_flag(checksum.corrupted))
            yield self._numbers(_CHECKSUMS, first_slot)

    def _image(self, part: str, image: Image | None, first_slot: int) -> Iterator[SourceOp]:
        if image is None:
            yield Constant(_ABSENT)
            return
        for name in image:
            self.slots[part, name] = first_slot + len(self.slots)
        yield Constant(_PRESENT)
        yield AvroValue(Map(tuple([(name.encode(), self._types[name]) for name in image])))


class TracedAvroRow(TracedEvent[TracedAvroPart]):
    """A message of one row. All methods raise NotTemplatable.

    reads: The conversion of each column's token.
    """

    def __init__(
        self,
        record: ConsumerRecord,
        change: RowChange,
        trace: Trace,
        value: _TracedValue,
        reads: list[Conversion | None],
    ) -> None:
        super().__init__(record, change, trace, TracedAvroPart(record.key, None, None), value)
        self._reads = reads
        self.split()

    def images(self) -> tuple[TableSchema, TypedRows]:
        """Return the definition and the images, with traced cells."""
        images = self.change.images
        if type(images) is not TypedRows:
            raise NotTemplatable
        old = None if images.old is None else self._cells("old", images)
        new = None if images.new is None else self._cells("data", images)
        reader = TracedReader.of(images.reader, self._reads)
        return self.change.schema, TracedRows(reader, old, new, images.keys_unchanged_on_wire())

    def _cells(self, part: str, images: TypedRows) -> list[TracedCell]:
        return [TracedCell(self.trace, (self.value.slots[part, name],)) for name in images.reader.names]

    def numbers(self, of: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the traced fields of a struct, by name."""
        return {name: TracedNumber(self.trace, self.value.slots[name,], getattr(of, name)) for name in names}


def traced_row(
    message: SimpleMessage, record: ConsumerRecord, change: RowChange, trace: Trace
) -> tuple[TracedAvroRow, SimpleMessage]:
    """Return a row with traced values, and its decoded message with traced members. Raises NotTemplatable."""
    images = change.images
    if record.key is not None or message.claim_check_location is not None or type(images) is not TypedRows:
        raise NotTemplatable
    names = images.reader.names
    for image, cells in ((message.data, images.new), (message.old, images.old)):
        if (image is None) != (cells is None) or (image is not None and image.keys() != set(names)):
            raise NotTemplatable
    forms = [_form_of(images, at) for at in range(len(names))]
    types = {name: avro for name, (avro, _) in zip(names, forms, strict=True)}
    row = TracedAvroRow(record, change, trace, _TracedValue(message, types), [read for _, read in forms])
    image_of_any: Any = trace.refused()
    traced = msgspec.structs.replace(
        message,
        data=None if message.data is None else image_of_any,
        old=None if message.old is None else image_of_any,
        **row.numbers(message, _TIMES),
    )
    if message.checksum is not None:
        numbers = row.numbers(message.checksum, _CHECKSUMS)
        traced.checksum = msgspec.structs.replace(message.checksum, **numbers)
    return row, traced


def _form_of(images: TypedRows, at: int) -> tuple[AvroOp, Conversion | None]:
    """Return the Avro of a column's values, and the conversion of their tokens. Raises NotTemplatable."""
    reader = images.reader
    column_type, read = reader.schema.columns[reader.indexes[at]].type, reader.reads[at]
    if column_type.base == "timestamp":
        return avro_type(column_type), _DATETIME
    if _is_number_of_bits(column_type, images, at):
        return BIT_NUMBER, READ_INTEGER
    return avro_type(column_type), None if read is read_text else conversion(read)


def _is_number_of_bits(column_type: ColumnType, images: TypedRows, at: int) -> bool:
    """Return whether BIT is a number, as in the classic architecture, and not text."""
    rows = [row for row in (images.old, images.new) if row is not None]
    return column_type.base == "bit" and any(type(row[at]) is int for row in rows)
