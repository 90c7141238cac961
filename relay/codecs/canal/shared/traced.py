"""Templates of Canal messages: one row, text cells, and numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final, NoReturn

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.shared.messages import DELETE, INSERT, UPDATE, Cells
from relay.codecs.canal.shared.rows import TextReader, TextRows
from relay.codecs.codec import TracedMessage
from relay.codecs.shared.local_times import is_local_time
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import (
    TracedCells,
    TracedKey,
    TracedReader,
    TracedRows,
    follows_ddl,
    integer_at,
    keep_same,
)
from relay.model.events import Images, RowChange
from relay.model.limits import Limits, values_in
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import steps_of
from relay.mysql.types import BINARIES
from relay.templates.ops import Members, Take, Unordered
from relay.templates.scanning import (
    INTEGER,
    TEXT_OR_NULL,
    JsonToken,
    Path,
    members_of,
    optional_members,
    parsed,
    source_ops,
)
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber, TracedText

_ES: Final[Path] = ("es",)
_TS: Final[Path] = ("ts",)
_GTID: Final[Path] = ("gtid",)
_NEW: Final[Path] = ("data", 0)
_OLD: Final[Path] = ("old", 0)
_MILLISECOND_NS: Final = 1_000_000
#: Types whose equal values may have two texts.
_EQUAL_IN_TWO_FORMS: Final = frozenset({"decimal", "float", "double"})


def traced_row(  # noqa: PLR0913 - the differences between the family's protocols
    record: ConsumerRecord,
    change: RowChange,
    catalog: Catalog,
    trace: Trace,
    *,
    ignored: tuple[Path, ...] = (),
    commit_ts: Path | None = None,
    start_ts: Path | None = None,
    may_have_more: bool = False,
) -> TracedMessage:
    """Return a message of one row with traced values. `ignored`: numbers without meaning to the decoder;
    `commit_ts`, `start_ts`: their paths, if present. `may_have_more`: whether messages of several rows should
    match as well. Raises NotTemplatable.
    """
    images, value = change.images, record.value or b""
    if not isinstance(images, TextRows) or record.key is not None:
        raise NotTemplatable
    root = parsed(value)
    given: dict[Path, Take | Members | Unordered] = {_ES: INTEGER, _TS: INTEGER}
    given |= dict.fromkeys(ignored, INTEGER)
    given |= {path: INTEGER for path in (commit_ts, start_ts) if path is not None}
    gtid = change.source.gtid
    if gtid is not None:
        given[_GTID] = Take(("string",))
    given |= _cells(value, root, catalog.limits) | _types(value, root, images.reader)
    rows = [path for path in (_NEW, _OLD) if may_have_more and root.at(path) is not None]
    ops, slots = source_ops(value, root, given, 0, rows=rows)

    def number(path: Path) -> TracedNumber:
        return integer_at(path, value, root, slots, trace)

    emitted_ms, event_time_ms = number(_TS), number(_ES)
    if not (emitted_ms > 0 and emitted_ms < TIME_END_MS):
        raise NotTemplatable
    if not event_time_ms or not (event_time_ms >= -TIME_END_MS and event_time_ms < TIME_END_MS):
        raise NotTemplatable
    event_time_ns = event_time_ms * _MILLISECOND_NS
    traced_ts = None if commit_ts is None else number(commit_ts)
    if traced_ts is not None and not traced_ts > 0:
        raise NotTemplatable
    traced_start = None if start_ts is None else number(start_ts)
    if traced_start is not None and not traced_start > 0:
        raise NotTemplatable
    effective = catalog.effective_schema(change.table, change.source.at(record))
    after = follows_ddl(images.reader.known, effective, traced_ts, event_time_ns, record)
    source = msgspec.structs.replace(
        change.source,
        event_time_ns=event_time_ns,
        commit_ts=traced_ts,
        start_ts=traced_start,
        gtid=gtid and TracedText(trace, slots[_GTID]),
    )
    traced = msgspec.structs.replace(
        change,
        images=_images(images, trace, slots),
        source=source,
        emitted_at_ns=emitted_ms * _MILLISECOND_NS,
    )
    return TracedMessage(None, ops, traced, after)


def _cells(value: bytes, root: JsonToken, limits: Limits) -> dict[Path, Take | Members | Unordered]:
    """Return the cells of the only row: all of the new row, any of the old one. Raises NotTemplatable if a
    message with all of that may have too many values.
    """
    rows, new, old = root.at(("data",)), root.at(_NEW), root.at(_OLD)
    if rows is None or len(rows.items or ()) != 1 or new is None or not new.members:
        raise NotTemplatable
    given: dict[Path, Take | Members | Unordered] = {(*_NEW, name): TEXT_OR_NULL for name in new.members}
    if old is not None and old.members is not None:
        if values_in(value) + len(new.members.keys() - old.members.keys()) > limits.values:
            raise NotTemplatable
        given[_OLD] = optional_members(value, new, TEXT_OR_NULL.kinds)
    return given


def _types(value: bytes, root: JsonToken, reader: TextReader) -> dict[Path, Take | Members | Unordered]:
    """Return the slots of `mysqlType`, whose members TiCDC shuffles, and of the numbers of `sqlType` that
    depend on values: those of unsigned types.

    Numbers on which the reader depends, or may depend, stay fixed.
    """
    given: dict[Path, Take | Members | Unordered] = {}
    types, numbers = root.at(("mysqlType",)), root.at(("sqlType",))
    if types is not None and types.members:
        given["mysqlType",] = Unordered(members_of(value, types))
    has_bytes = any(reader.schema.columns[at].type.base in BINARIES for at in reader.indexes)
    if numbers is not None and not has_bytes and not reader.sql_types:
        given |= {
            ("sqlType", name): INTEGER
            for name in numbers.members or ()
            if _may_be_unsigned(value, types and types.at((name,)))
        }
    return given


def _may_be_unsigned(value: bytes, mysql_type: JsonToken | None) -> bool:
    """Return whether a column is unsigned by its `mysqlType`, or has none."""
    return mysql_type is None or b"unsigned" in value[mysql_type.start : mysql_type.end].lower()


def _images(images: TextRows, trace: Trace, slots: Mapping[Path, int]) -> _TracedText:
    reader = _TracedTextReader.of(images.reader)
    cells = _traced_cells(reader, trace, slots, _NEW)
    old = None
    if images.op is UPDATE and images.old is not None:
        old = _traced_cells(reader, trace, slots, _OLD)
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
        made.plans = {}
        return made

    def row(self, *_: object) -> NoReturn:
        """Refuse: canonical values are not traced."""
        raise NotTemplatable

    def cells_at(self, indexes: Sequence[int], cells: Cells, part: str) -> TracedKey:
        """Return the traced cells of a key."""
        typed = TracedReader.of(self.in_table_order())
        return typed.cells_at(indexes, [cells[name] for name in self.names_in_table_order()], part)

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
