"""Templates of rows of TiCDC Avro: cells of the images, commit ts and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from relay.catalog import Catalog
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion
from relay.codecs.shared.traced_avro import FieldPath, TracedAvroPart
from relay.codecs.shared.traced_messages import TracedEvent
from relay.codecs.ticdc_avro.control import COMMIT_TS_TYPE, DELETE, commit_ts_in
from relay.codecs.ticdc_avro.rows import BEFORE, COMMIT_TS, TIME, Layout
from relay.model.events import Op, Position
from relay.model.records import TIME_END_MS
from relay.mysql.conversion_names import READ_INTEGER, Conversion
from relay.templates.ops import AvroValue, Constant
from relay.templates.tracing import NotTemplatable, TracedCell, TracedNumber

#: The conversions of tokens that are read without a function, by Avro's type; None: text.
_READS: Final[Mapping[str, Conversion | None]] = {
    "int": READ_INTEGER,
    "long": READ_INTEGER,
    "bytes": ("base64",),
    "string": None,
}


class TracedDelete(TracedAvroPart):
    """The value of a deleted row's message: its commit ts."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None, None, None)
        self.commit_ts = commit_ts_in(data)

    def split(self, first_slot: int) -> int:
        """Make the ops and the slot, numbered `first_slot`; return the next slot."""
        self.ops, self.slots = (Constant(DELETE), AvroValue(COMMIT_TS_TYPE)), {(COMMIT_TS,): first_slot}
        return first_slot + 1


class TicdcAvroRow(TracedEvent[TracedAvroPart]):
    """A message of one row. All methods raise NotTemplatable."""

    @property
    def commit_ts(self) -> Any:  # noqa: ANN401 - a traced number
        """The traced commit ts of a deleted row; None if its message has none."""
        value = self.value
        if not isinstance(value, TracedDelete):
            return None
        return TracedNumber(self.trace, value.slots[COMMIT_TS,], value.commit_ts)

    def times(self, commit_ts: int | None, time_ms: int | None) -> tuple[Any, Any]:
        """Return the traced commit ts and time; None if messages have none."""
        return self._number(COMMIT_TS, commit_ts, 1 << 63), self._number(TIME, time_ms, TIME_END_MS)

    def _number(self, name: str, value: int | None, end: int) -> TracedNumber | None:
        """Return a positive number of a field; None, whatever messages have it, if it is no number."""
        slot = self.value.slots.get((name,))
        if slot is None or value is None:
            self.value.pin(self.trace, name)
            return None
        number = TracedNumber(self.trace, slot, value)
        if not (number > 0 and number < end):
            raise NotTemplatable
        return number

    def images(self, layout: Layout, rows: TracedAvroPart, at: Position, catalog: Catalog) -> TracedRows:
        """Return the images with traced cells, and note that other rows must follow the same DDL. `rows`: the
        part with the row. `at`: its traced position.
        """
        images = self.change.images
        if type(images) is not TypedRows:
            raise NotTemplatable
        reader, is_update = images.reader, self.change.op is Op.UPDATE
        self.follow_ddl(reader.known, at, catalog)
        reads = [
            conversion(read) if read is not None and name not in layout.unsigned else _default_read(kind)
            for name, read, kind in zip(layout.names, reader.reads, layout.kinds, strict=True)
        ]
        old = None if images.old is None else self._cells(layout, rows, (BEFORE,) if is_update else ())
        new = None if images.new is None else self._cells(layout, rows, ())
        return TracedRows(TracedReader.of(reader, reads), old, new, images.keys_unchanged_on_wire())

    def _cells(self, layout: Layout, rows: TracedAvroPart, under: FieldPath) -> list[TracedCell]:
        return [TracedCell(self.trace, (rows.slots[*under, name],)) for name in layout.names]


def _default_read(kind: str) -> Conversion | None:
    if kind not in _READS:
        raise NotTemplatable
    return _READS[kind]
