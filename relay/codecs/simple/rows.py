"""Reading rows of Simple with the definition that their message names by its version.

`SimpleRowDecoder` finds the definition in the catalog, whatever its position: only a version and the id of
its table together identify a definition. It caches readers by definition; the cache may be emptied at any
time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.local_times import LocalTimes
from relay.codecs.shared.rows import PartialRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.tables import NAMELESS, Table, Tables
from relay.codecs.simple.definitions import table_id_of, version_of
from relay.codecs.simple.messages import Image, SimpleMessage, SimpleWire
from relay.codecs.simple.values import location_in, named_zone
from relay.model.errors import DefinitionMissing, Malformed
from relay.model.events import ABSENT, Images, Op, TableId, TableSchema
from relay.model.limits import Limits, check_columns

#: Reads the images of a row, like `SimpleRowDecoder.read`.
ReadImages = Callable[[SimpleMessage, Op, Catalog, list[Loss]], tuple[TableSchema, Images]]

_PARTS: Final = PartNames(deleted="old", old="old", new="data")
#: Maximum readers kept per table, one for each version of its definition.
_CACHED_READERS: Final = 32
#: Memory of a reader, with the functions of an encoder that write its rows.
_READER_BYTES: Final = 8_000
_COLUMN_BYTES: Final = 1_500


class _Layout:
    """Rows of one definition: its reader, the columns in order, and the indexes of times with a zone."""

    def __init__(self, wire: SimpleWire, schema: TableSchema, zone: tzinfo) -> None:
        hidden = schema.hidden_indexes
        indexes = [at for at in range(len(schema.columns)) if at not in hidden]
        columns = [schema.columns[at] for at in indexes]
        reads = [wire.read_of(column.type, zone) for column in columns]
        self.schema = schema
        self.reader = TypedReader(
            wire.name, schema, indexes, reads, _PARTS, known=schema, declares_types=False, hidden=hidden
        )
        self.names = self.reader.names
        self.hidden_names = frozenset(schema.columns[at].name for at in hidden)
        self.times = [at for at, column in enumerate(columns) if column.type.base == "timestamp"]


class SimpleRowDecoder:
    """Reads the rows of messages. `zone`: of times without one."""

    def __init__(self, wire: SimpleWire, zone: tzinfo, limits: Limits) -> None:
        self._wire, self._zone, self._limits = wire, zone, limits
        self._tables: Tables[Table[_Layout]] = Tables(Table, limits.cache_bytes)
        self._local_times: dict[str, LocalTimes] = {}
        # The last row's catalog, its table's facts, and its layout; usually the next one's, too.
        self._last: tuple[Catalog, tuple[str | None, str | None, int, int], _Layout] | None = None

    def read(
        self, message: SimpleMessage, op: Op, catalog: Catalog, losses: list[Loss]
    ) -> tuple[TableSchema, Images]:
        """Return the definition and the images of a row. Raises DecodeError."""
        layout = self._layout(message, catalog)
        new = None if message.data is None else self._cells(layout, message.data, "data")
        old = None if message.old is None else self._cells(layout, message.old, "old")
        if op is _INSERT:
            old = None
        elif op is _DELETE:
            new = None
        is_partial = (new is not None and ABSENT in new) or (old is not None and ABSENT in old)
        if layout.times:
            self._count_times(layout, new, losses)
            self._count_times(layout, old, losses)
        if is_partial or message.handle_key_only:
            losses.append(Loss.COLUMNS_ABSENT)
        rows = PartialRows if is_partial else TypedRows
        return layout.schema, rows(layout.reader, old, new)

    def _layout(self, message: SimpleMessage, catalog: Catalog) -> _Layout:
        name, database, version = message.table, message.database, message.schema_version
        last, wanted = self._last, (database, name, version, message.table_id)
        if last is not None and last[0] is catalog and last[1] == wanted:
            return last[2]
        if not name or not database:
            raise Malformed(self._wire.name, "table", NAMELESS)
        table = self._tables[database, name]
        schema = definition_of_version(catalog, table.id, version, message.table_id)
        if schema is None:
            reason = "no BOOTSTRAP or DDL message with the definition that this row refers to has been read"
            raise DefinitionMissing(self._wire.name, "schemaVersion", reason)
        found = next((layout for layout in table.kept if layout.schema is schema), None)
        if found is None:
            found = _Layout(self._wire, schema, self._zone)
            size = _READER_BYTES + columns_bytes(schema.columns, _COLUMN_BYTES)
            self._tables.keep(table, found, size, _CACHED_READERS)
        self._last = catalog, wanted, found
        return found

    def _cells(self, layout: _Layout, image: Image, part: str) -> tuple[Any, ...]:
        """Return the values in the order of the definition, ABSENT for a missing one."""
        cells = tuple([image.get(name, ABSENT) for name in layout.names])
        present = len(cells) - cells.count(ABSENT)
        if present < len(image):
            check_columns(self._wire.name, part, len(image), self._limits)
            for name in image:
                if name not in layout.reader.names and name not in layout.hidden_names:
                    raise Malformed(self._wire.name, f"{part}.{name}", "a column that its definition lacks")
        if not present:
            raise Malformed(self._wire.name, part, "a row without columns")
        return cells

    def _count_times(self, layout: _Layout, cells: tuple[Any, ...] | None, losses: list[Loss]) -> None:
        """Count nonexistent and ambiguous local times, and times without a named zone."""
        if cells is None:
            return
        for at in layout.times:
            location = location_in(cells[at])
            if location is None or location == "UTC":
                continue
            try:
                zone = named_zone(location)
            except ValueError:
                continue  # the reader refuses it
            if zone is None:
                losses.append(Loss.ZONE_INFERRED)
                zone = self._zone
            if zone is not UTC:
                times = self._local_times.get(location)
                if times is None:
                    times = self._local_times[location] = LocalTimes(zone)
                times.count([cells[at].value], losses)


_INSERT: Final = Op.INSERT
_DELETE: Final = Op.DELETE


def definition_of_version(
    catalog: Catalog, table: TableId, version: int, table_id: int
) -> TableSchema | None:
    """Return the definition with this version; None if none is known.

    TRUNCATE changes the id of a table and keeps its version: of several definitions, the one with the id
    counts, else the newest, as for the rows of partitions, which have separate ids.
    """
    newest = None
    for each in catalog.definitions(table):
        if version_of(each) == version:
            if table_id_of(each) == table_id:
                return each
            newest = newest or each
    return newest
