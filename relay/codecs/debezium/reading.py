"""Rows of TiCDC's Debezium JSON, read: `before` and `after` as JSON objects, and the definition that
understands them.

Contract: `RowReaders` is a decoder's cache of layouts by table. A row whose columns and types are those of a
message before is parsed in one step (`relay.codecs.debezium.layouts`). Everything else takes the general way:
it takes the catalogue's definition as far as the message does not contradict it, else what the schema block
says, else what the JSON values look like, and compiles a layout for the next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.envelope import key_names, key_of
from relay.codecs.debezium.layouts import Layout, fitting, kind_of, parsed_object, read_of
from relay.codecs.debezium.schema import DeclaredColumn, agrees, guessed_type, read_block, read_key_block
from relay.codecs.losses import Lossy
from relay.codecs.wire.rows import PartNames, RowReader, Table, Tables, TypedRows
from relay.errors import Malformed
from relay.model import ABSENT, Column, ColumnType, Generated, Images, Position, Rows, TableSchema

_PARTS: Final = PartNames(deleted="payload.before", old="payload.before", new="payload.after")
#: Layouts of one table's rows that are kept ready: versions of the definition, selections of columns,
#: guesses.
_CACHED_LAYOUTS: Final = 32
#: What a column is whose only evidence is a JSON value (`bool` is Python's subclass of `int`).
_LIKE: Final[dict[type, ColumnType]] = {
    bool: ColumnType("bit", length=1), int: ColumnType("bigint"), Decimal: ColumnType("double"), str: ColumnType("varchar"),
}  # fmt: skip


class RowMessage(msgspec.Struct, gc=False):
    """What a row message says, parts still as JSON: None for an image that it does not have."""

    table: tuple[str, str]
    before: bytes | None
    after: bytes | None
    schema: bytes
    key: bytes | None


class _Table(Table[Layout]):
    _dropped: TableSchema | None = None
    _recovered: TableSchema | None = None

    def definition(self, catalog: Catalog, at: Position) -> TableSchema | None:
        """The catalogue's definition at this position.

        TiCDC has no message for RECOVER TABLE: rows of a dropped table may have the definition that it had,
        here not `complete`.
        """
        known = (
            self.newest
            if self.is_newest(catalog, at.commit_ts, at.event_time_ns, at)
            else catalog.table(self.id, at)
        )
        if known is not None:
            return known
        dropped = catalog.dropped(self.id, at)
        if dropped is not self._dropped:
            self._dropped = dropped
            self._recovered = None if dropped is None else msgspec.structs.replace(dropped, complete=False)
        return self._recovered


class RowReaders:
    """A decoder's layouts, by table. It is a cache and could be emptied at any time."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._tables = Tables(_Table)
        self._blocks: dict[bytes, dict[str, DeclaredColumn]] = {}

    def read(
        self, message: RowMessage, at: Position, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        """The row's definition and images. Raises Malformed, and what msgspec raises for images that are no
        JSON.
        """
        table = self._tables[message.table]
        known = table.definition(catalog, at)
        before, after, block = message.before, message.after, message.schema
        for layout in table.kept:
            if layout.reader.known is not known or layout.block != block:
                continue
            if layout.key is not None and layout.key != key_names(message.key):
                continue
            old = None if before is None else layout.cells(before)
            new = None if after is None else layout.cells(after)
            if (old is None) is (before is None) and (new is None) is (after is None):
                layout.count(old, new, lossy)
                if layout.zero_nulls:
                    old, new = layout.with_nulls(old), layout.with_nulls(new)
                return layout.reader.schema, TypedRows(layout.reader, old, new)
        return self._generally(message, table, known, lossy)

    def _generally(
        self, message: RowMessage, table: _Table, known: TableSchema | None, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        old = None if message.before is None else self._object(message.before, _PARTS.old)
        new = None if message.after is None else self._object(message.after, _PARTS.new)
        _complete((old, new), message.key)
        layout = _reused(message, table, known, old, new)
        if layout is None:
            layout = self._layout(message, table, known, old, new)
            # What one row's values look like says nothing of the next one, and must not decide how it is
            # read.
            if not layout.is_value_guessed:
                table.keep(layout, _CACHED_LAYOUTS)
        cells = [None if row is None else layout.fitted(row) for row in (old, new)]
        for row, found, part in zip((old, new), cells, (_PARTS.old, _PARTS.new), strict=True):
            if row is not None and found is None:
                raise Malformed(
                    self._protocol, part, "a column has values of different kinds in the two images"
                )
        layout.count(cells[0], cells[1], lossy)
        reader, images = layout.reader, [layout.with_nulls(found) for found in cells]
        if any(ABSENT in found for found in images if found is not None):
            if not reader.is_partial:
                lossy.append(Lossy.COLUMNS_ABSENT)
            parts = (_PARTS.old, _PARTS.new)
            rows = [
                None if found is None else reader.row(found, part)
                for found, part in zip(images, parts, strict=True)
            ]
            return reader.schema, Rows(rows[0], rows[1])
        return reader.schema, TypedRows(reader, images[0], images[1])

    def _object(self, image: bytes, part: str) -> dict[str, Any]:
        try:
            row = parsed_object(image)
        except msgspec.ValidationError as error:
            raise Malformed(self._protocol, part, str(error).partition(" - at ")[0]) from error
        if not row:
            raise Malformed(self._protocol, part, "a row without columns")
        return row

    def _layout(
        self,
        message: RowMessage,
        table: _Table,
        known: TableSchema | None,
        old: dict[str, Any] | None,
        new: dict[str, Any] | None,
    ) -> Layout:
        """The layout for rows like this one."""
        said = self._said(message.schema)
        said = {**read_key_block(key_of(message.key).schema), **said} if said else said
        values = {**(old or {}), **(new or {})} if old is None or new is None else _merged(old, new)
        usable = _usable(known, said, values)
        if known is None or len(usable) < len(values):
            columns, is_value_guessed = [], False
            for name, value in values.items():
                column = usable.get(name) or _as_said(name, said.get(name), value)
                is_value_guessed = is_value_guessed or column is None
                columns.append(column or self._as_it_looks(name, value))
            key = key_names(message.key)
            schema = TableSchema(table.id, tuple(columns), primary_key=key, complete=False)
        else:
            schema, key, is_value_guessed = known, None, False
        places = [at for at, column in enumerate(schema.columns) if column.name in values]
        shown = [schema.columns[at] for at in places]
        reads = [read_of(column.type, is_known=column.name in usable) for column in shown]
        reader = RowReader(self._protocol, schema, places, reads, _PARTS, known=known)
        return Layout(reader, message.schema, key, is_value_guessed=is_value_guessed)

    def _as_it_looks(self, name: str, value: object) -> Column:
        """The column as its JSON value looks. Raises Malformed for an object or an array."""
        if value is not None and type(value) not in _LIKE:
            raise Malformed(self._protocol, f"payload.{name}", "neither text, number, boolean nor null")
        return Column(name, _LIKE.get(type(value), _LIKE[str]))

    def _said(self, block: bytes) -> dict[str, DeclaredColumn]:
        """The columns of a schema block, which is parsed once."""
        found = self._blocks.get(block)
        if found is None:
            if len(self._blocks) >= _CACHED_LAYOUTS:
                self._blocks.clear()
            found = self._blocks[block] = read_block(block)
        return found


def _complete(images: Sequence[dict[str, Any] | None], key: bytes | None) -> None:
    """Add the key's columns: TiCDC's `column-selectors` may leave them out of rows, but not of the key.

    Old rows have the same key: TiCDC splits an UPDATE that changes it, unless `output-raw-change-event` is
    set as well.
    """
    columns = key_of(key).payload or {}
    for image in images:
        if image is not None:
            for name, value in columns.items():
                image.setdefault(name, value)


def _reused(
    message: RowMessage,
    table: _Table,
    known: TableSchema | None,
    old: dict[str, Any] | None,
    new: dict[str, Any] | None,
) -> Layout | None:
    """The layout that was made for such a row before."""
    names = (old or {}).keys() | (new or {}).keys()
    for layout in table.kept:
        if layout.reader.known is known and layout.block == message.schema and names == set(layout.names):
            is_of_key = layout.key is None or layout.key == key_names(message.key)
            if is_of_key and all(row is None or layout.fitted(row) is not None for row in (old, new)):
                return layout
    return None


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The columns of both images, each with a value that is not NULL if it has one."""
    return {name: old.get(name) if new.get(name) is None else new[name] for name in {**new, **old}}


def _usable(
    known: TableSchema | None, said: dict[str, DeclaredColumn], values: dict[str, Any]
) -> dict[str, Column]:
    """The columns of the catalogue's definition that the message does not contradict. Of a dropped table it
    is all or none.
    """
    columns = (
        {column.name: column for column in known.columns if column.generated is not Generated.VIRTUAL}
        if known
        else {}
    )
    found = {
        name: column
        for name, value in values.items()
        if (column := columns.get(name)) is not None and _fits(column, said.get(name), value)
    }
    if known is not None and not known.complete and not len(found) == len(values) == len(columns):
        return {}
    return found


def _as_said(name: str, said: DeclaredColumn | None, value: object) -> Column | None:
    """The column as the block has it, None if that does not go with the value."""
    if said is None:
        return None
    column_type = guessed_type(said)
    return (
        None
        if fitting(kind_of(column_type), value) is ABSENT
        else Column(name, column_type, nullable=said.optional)
    )


def _fits(column: Column, said: DeclaredColumn | None, value: object) -> bool:
    """Whether neither the block nor the value contradicts the catalogue's column."""
    return (said is None or agrees(column, said)) and fitting(kind_of(column.type), value) is not ABSENT
