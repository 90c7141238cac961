"""Reading rows: the images `before` and `after`, whose cells are JSON values without types.

The cells of an image become texts, and the same functions read them as in other text formats. A column's type
is that of the table's definition; if the catalog has none, it is inferred from the values.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.codecs.ogg.messages import Image, OggMessage
from relay.codecs.ogg.options import NAME
from relay.codecs.shared.base64_text import read_base64
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.json_cells import cell_text, inferred_type
from relay.codecs.shared.rows import PartialRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.tables import Table, Tables
from relay.model.errors import Malformed
from relay.model.events import ABSENT, Column, ColumnType, Images, Op, Position, TableSchema
from relay.model.limits import Limits, check_columns
from relay.mysql.values import TextStyle, reader

_PARTS: Final = PartNames(deleted="before", old="before", new="after")
#: Maximum readers kept per table, and the approximate memory of one, base and per column.
_MOST_READERS, _READER_BYTES, _COLUMN_BYTES = 16, 4_000, 1_000


#: The columns and the key that messages name and the inferred types, with the reader of such messages.
_Kept = tuple[tuple[tuple[str, ...], list[str] | None, tuple[ColumnType, ...]], TypedReader]


class OggRowDecoder:
    """Reads rows with readers cached by table; the cache may be emptied at any time."""

    def __init__(self, limits: Limits, zone: tzinfo) -> None:
        self._limits = limits
        self._style = TextStyle(
            float_text=repr, zero_year="0", pads_binary=False, zone=zone, read_binary=read_base64
        )
        self._tables: Tables[Table[_Kept]] = Tables(Table, limits.cache_bytes)
        self.forget = self._tables.forget

    def read(
        self, op: Op, message: OggMessage, at: Position, catalog: Catalog, losses: list[Loss]
    ) -> tuple[TableSchema, Images]:
        """Return a row's definition and images. Raises Malformed."""
        old, new = _present(message.before, "before"), _present(message.after, "after")
        if op is Op.UPDATE and old is None:
            losses.append(Loss.BEFORE_MISSING)
        names = tuple((new or {}) | (old or {}))
        check_columns(NAME, "before" if new is None else "after", len(names), self._limits)
        name = message.table_id()
        table = self._tables[name.database, name.table]
        known = catalog.table(table.id, at) or catalog.created_at_same_instant(table.id, at)
        made = self._reader(table, known, names, message.primary_keys, [old or {}, new or {}])
        before, after = _cells(made, old, "before"), _cells(made, new, "after")
        if made.is_inferred:
            losses += [Loss.SCHEMA_INFERRED, Loss.VALUE_INFERRED]
        is_partial = ABSENT in (before or ()) or ABSENT in (after or ())
        if made.is_partial or is_partial:
            losses.append(Loss.COLUMNS_ABSENT)
        rows = PartialRows if is_partial else TypedRows
        return made.schema, rows(made, before, after)

    def _reader(
        self,
        table: Table[_Kept],
        known: TableSchema | None,
        names: tuple[str, ...],
        keys: list[str] | None,
        images: list[Image],
    ) -> TypedReader:
        """Return the reader of rows with these columns, made once."""
        types: tuple[ColumnType, ...] = ()
        covering = known
        if known is not None and not table.columns_of(known).index_of.keys() >= set(names):
            covering = None  # a definition that lacks columns of the row is outdated
        if covering is None:
            types = tuple([inferred_type(cells[name] for cells in images if name in cells) for name in names])
        shape = names, keys, types
        for its_shape, made in table.kept:
            if made.known is known and its_shape == shape:
                return made
        # A key of which the row lacks part is not the table's key.
        key = tuple(keys) if keys is not None and set(keys) <= set(names) else None
        if covering is None:
            schema = TableSchema(table.id, tuple(map(Column, names, types)), primary_key=key, complete=False)
        elif covering.primary_key is None:
            schema = msgspec.structs.replace(covering, primary_key=key)
        else:
            schema = covering
        indexes = [at for at, column in enumerate(schema.columns) if column.name in names]
        columns = [schema.columns[at] for at in indexes]
        reads = [reader(column.type, self._style) for column in columns]
        made = TypedReader(NAME, schema, indexes, reads, _PARTS, known=known, declares_types=False)
        size = _READER_BYTES + columns_bytes(columns, _COLUMN_BYTES)
        self._tables.keep(table, (shape, made), size, _MOST_READERS)
        return made


# ---------------------------------------------------------------- cells

_MISSING, _FLAGS = "_isMissing", {b"true", b"false"}


def _present(image: Image | None, part: str) -> Image | None:
    """Return the columns that an image has: without the flags `NAME_isMissing`, and without the columns that
    they mark; None for an image without any.
    """
    if not image:
        return None
    flags = {name for name, cell in image.items() if name.endswith(_MISSING) and bytes(cell) in _FLAGS}
    missing = {name.removesuffix(_MISSING) for name in flags if bytes(image[name]) == b"true"}
    found = {name: cell for name, cell in image.items() if name not in flags and name not in missing}
    if not found:
        raise Malformed(NAME, part, "every column is marked as missing")
    return found


def _cells(made: TypedReader, image: Image | None, part: str) -> list[Any] | None:
    """Return the texts of an image's cells: None for NULL, ABSENT for a missing column. Raises Malformed."""
    if image is None:
        return None
    found: list[Any] = []
    for name in made.names:
        try:
            found.append(cell_text(image[name]) if name in image else ABSENT)
        except ValueError as error:
            raise Malformed(NAME, f"{part}.{name}", str(error)) from None
    return found
