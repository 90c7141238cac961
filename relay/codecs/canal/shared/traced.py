"""Templates of Canal messages: one row, text cells, and numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC
from typing import Any, Final, NoReturn, Protocol, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.shared.messages import DELETE, INSERT, UPDATE, CanalMessage, Cells
from relay.codecs.canal.shared.rows import TextReader, TextRows
from relay.codecs.losses import Loss
from relay.codecs.shared.local_times import is_local_time
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedCells, TracedKey, TracedReader, TracedRows, keep_same
from relay.codecs.shared.traced_messages import (
    TEXT,
    Declaration,
    SplitPart,
    TracedEvent,
    TracedPart,
    VariableMember,
    bounded,
)
from relay.model.events import Event, Images, Op, RowChange, Source
from relay.model.limits import Limits, uncounted_bytes, values_in
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import steps_of
from relay.mysql.types import BINARIES
from relay.templates.ops import Unordered
from relay.templates.scanning import (
    INTEGER,
    TEXT_OR_NULL,
    Given,
    JsonToken,
    Path,
    members_of,
    optional_members,
)
from relay.templates.tracing import NotTemplatable, Trace, TracedCell

#: The paths of the only row.
NEW_ROW: Final[Path] = ("data", 0)
OLD_ROW: Final[Path] = ("old", 0)
#: A time that the parser accepts (`Milliseconds`).
_TIME: Final = bounded(-TIME_END_MS, TIME_END_MS)
#: The variable members of a message.
_MEMBERS: Final[Declaration] = {
    "es": VariableMember(("es",), _TIME),
    "ts": VariableMember(("ts",), _TIME),
    "gtid": VariableMember(("gtid",), TEXT),
}
#: Types whose equal values may have two texts.
_EQUAL_IN_TWO_FORMS: Final = frozenset({"decimal", "float", "double"})


class TextCells(SplitPart, Protocol):
    """The part with text cells. `slots`: those of its values by path; of a cell, `NEW_ROW` or `OLD_ROW` with
    the column's name.
    """

    slots: dict[Path, int]


CellPart = TypeVar("CellPart", bound=TextCells)


class TracedTextEvent(TracedEvent[CellPart]):
    """A message of one row of text cells in its value."""

    def __init__(
        self,
        record: ConsumerRecord,
        change: RowChange,
        trace: Trace,
        key: CellPart,
        value: CellPart,
    ) -> None:
        super().__init__(record, change, trace, key, value)
        images = change.images
        if not isinstance(images, TextRows) or record.key is not None:
            raise NotTemplatable
        self._images, self._schema = images, change.schema
        self._trace_of_cells = trace

    def traced_rows(self, message: CanalMessage) -> CanalMessage:
        """Return a decoded message whose rows are traced."""
        rows: Any = self._trace_of_cells.refused()
        return msgspec.structs.replace(message, data=rows, old=rows)

    def read(
        self,
        _message: CanalMessage,
        op: Op,
        source: Source,
        emitted_at_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        _losses: list[Loss],
    ) -> list[Event]:
        """Return the row with traced cells, like `TextReaders.changes`."""
        self.follow_ddl(self._images.reader.known, source.at(record), catalog)
        images = _images(self._images, self._trace_of_cells, self.value.slots)
        return [RowChange(op, self._schema, images, source, emitted_at_ns)]


class TracedTextRow(TracedTextEvent[TracedPart]):
    """A message in JSON of one row of text cells.

    ignored: Numbers without meaning to the decoder.
    may_have_more: Whether messages of several rows should match as well.
    """

    def __init__(
        self,
        record: ConsumerRecord,
        change: RowChange,
        trace: Trace,
        catalog: Catalog,
        *,
        ignored: tuple[Path, ...] = (),
        may_have_more: bool = False,
    ) -> None:
        value = TracedPart(record.value)
        super().__init__(record, change, trace, TracedPart(None), value)
        value.vary(_MEMBERS)
        value.given |= dict.fromkeys(ignored, INTEGER)
        value.given |= _cells(value.text, value.root, catalog.limits)
        value.given |= _types(value.text, value.root, self._images.reader)
        if may_have_more:
            value.rows += [path for path in (NEW_ROW, OLD_ROW) if value.root.at(path) is not None]

    def traced_message(self, message: CanalMessage) -> CanalMessage:
        """Return a decoded message with traced members."""
        return self.traced_rows(self.value.traced(message, _MEMBERS, self._trace_of_cells))


def _cells(value: bytes, root: JsonToken, limits: Limits) -> dict[Path, Given]:
    """Return the cells of the only row: all of the new row, any of the old one. Raises NotTemplatable if a
    message with all of that may have too many values.
    """
    rows, new, old = root.at(("data",)), root.at(NEW_ROW), root.at(OLD_ROW)
    if rows is None or len(rows.items or ()) != 1 or new is None or not new.members:
        raise NotTemplatable
    given: dict[Path, Given] = {(*NEW_ROW, name): TEXT_OR_NULL for name in new.members}
    if old is not None and old.members is not None:
        missing = len(new.members.keys() - old.members.keys())
        # A value takes at least two bytes, so a short message needs no count (`uncounted_bytes`).
        if len(value) > uncounted_bytes(limits) - 2 * missing and values_in(value) + missing > limits.values:
            raise NotTemplatable
        given[OLD_ROW] = optional_members(value, new, TEXT_OR_NULL.kinds)
    return given


def _types(value: bytes, root: JsonToken, reader: TextReader) -> dict[Path, Given]:
    """Return the slots of `mysqlType`, whose members TiCDC shuffles, and of the numbers of `sqlType` that
    depend on values: those of unsigned types.

    Numbers on which the reader depends, or may depend, stay fixed.
    """
    given: dict[Path, Given] = {}
    types, numbers = root.at(("mysqlType",)), root.at(("sqlType",))
    if types is not None and types.members:
        given["mysqlType",] = Unordered(members_of(value, types))
    has_bytes = any(reader.schema.columns[at].type.base in BINARIES for at in reader.indexes)
    if numbers is not None and not has_bytes and not reader.sql_types:
        signed = _signed(value, types)
        given |= {("sqlType", name): INTEGER for name in numbers.members or () if name not in signed}
    return given


def _signed(value: bytes, types: JsonToken | None) -> Container[str]:
    """Return the columns whose `mysqlType` is not unsigned."""
    if types is None or types.members is None:
        return ()
    if b"unsigned" not in value[types.start : types.end].lower():
        return types.members
    return {
        name
        for name, each in types.members.items()
        if b"unsigned" not in value[each.start : each.end].lower()
    }


def _images(images: TextRows, trace: Trace, slots: Mapping[Path, int]) -> _TracedText:
    reader = _TracedTextReader.of(images.reader)
    cells = _traced_cells(reader, trace, slots, NEW_ROW)
    old = None
    if images.op is UPDATE and images.old is not None:
        old = _traced_cells(reader, trace, slots, OLD_ROW)
    return _TracedText(reader, images.op, cells, old, 0, images.keys_unchanged_on_wire(), images)


def _traced_cells(reader: TextReader, trace: Trace, slots: Mapping[Path, int], row: Path) -> TracedCells:
    names = [str(path[-1]) for path in slots if path[:-1] == row]
    if frozenset(names) != frozenset(reader.wire.names):
        raise NotTemplatable
    return TracedCells({name: TracedCell(trace, (slots[*row, name],)) for name in names})


class _TracedTextReader(TextReader):
    """The reader of traced text: it names conversions for encoders, and reads nothing."""

    @classmethod
    def of(cls, reader: TextReader) -> _TracedTextReader:
        """Return the traced twin of a reader. Raises NotTemplatable for local times, which are counted."""
        columns = [reader.schema.columns[at] for at in reader.indexes]
        if reader.style.zone is not UTC and any(map(is_local_time, columns)):
            raise NotTemplatable
        made = cls.__new__(cls)
        made.__dict__.update(reader.__dict__)
        made.plans, made.renamed = {}, {}
        return made

    def row(self, cells: Cells, part: str) -> tuple[Any, ...]:
        """Return a row of placeholders; see `TracedReader.row`."""
        typed = TracedReader.of(self.in_table_order())
        return typed.row(self._in_table_order(cells), part)

    def cells_at(self, indexes: Sequence[int], cells: Cells, part: str) -> TracedKey:
        """Return the traced cells of a key."""
        typed = TracedReader.of(self.in_table_order())
        return typed.cells_at(indexes, self._in_table_order(cells), part)

    def _in_table_order(self, cells: Cells) -> list[Any]:
        return [cells[name] for name in self.names_in_table_order()]

    def step(self, convert: Callable[[str], Any]) -> Callable[[Any], Any]:
        """Return the traced form of a text conversion."""
        steps = steps_of(convert)
        if steps is None:
            raise NotTemplatable
        return lambda cell: cell.written(*steps)


class _TracedText(TextRows, frozen=True, eq=False, gc=False):
    """A change's images as traced text. `keeps_keys`: as `TracedRows`; `actual`: the actual message's images,
    None for one half of them.
    """

    keeps_keys: bool
    actual: TextRows | None = None

    @property
    def possible_indexes(self) -> NoReturn:
        """Refuse: callers want canonical values."""
        raise NotTemplatable

    def keys_unchanged_on_wire(self) -> bool:
        """Note that `old` lacks the key columns or has the text of the new row, if it does in the actual
        message. Else the columns that an encoder asks for decide.
        """
        old, cells = self.old, self.cells
        if self.keeps_keys and old is not None:
            keep_same((old[name], cells[name]) for name in self.reader.key_columns if name in old)
        return self.keeps_keys

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> TracedKey | None:
        """Return the traced cells, which know those of the actual message."""
        found = super().cells_at(indexes, is_old=is_old)
        if isinstance(found, TracedKey) and self.actual is not None:
            bases = {self.reader.schema.columns[at].type.base for at in indexes}
            found.actual = (
                None if bases & _EQUAL_IN_TWO_FORMS else self.actual.cells_at(indexes, is_old=is_old)
            )
            return found
        return found if isinstance(found, TracedKey) else None

    def split_images(self) -> tuple[Images, Images]:
        """Return the old row and the new row as separate images."""
        if self.old is None:
            raise NotTemplatable
        old = _TracedText(self.reader, DELETE, self.cells | self.old, None, self.index, keeps_keys=True)
        return old, _TracedText(self.reader, INSERT, self.cells, None, self.index, keeps_keys=True)

    def typed(self, *, has_before: bool) -> TypedRows:
        """Return the same cells with a typed reader."""
        reader, cells, old = self.reader, self.cells, self.old
        typed = TracedReader.of(reader.in_table_order())
        names = reader.names_in_table_order()

        def ordered(row: Cells) -> list[Any]:
            return [row[name] for name in names]

        if self.op is DELETE:
            return TracedRows(typed, ordered(cells), None, keeps_keys=True)
        before = ordered(cells | old) if has_before and old is not None else None
        return TracedRows(typed, before, ordered(cells), self.keeps_keys)
