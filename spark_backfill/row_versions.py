"""Versions of a table's columns: the definitions whose rows fit into one set of typed columns.

An added column joins the current version, and a dropped one stays in it. Two changes begin a new version:
another Spark type, and another name of a column, even if only its letter case differs. Versions are numbered
from 1, in the order of the statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql.types import DataType, StructField, StructType

from relay.catalog import Catalog
from relay.catalog.catalog import history_of
from relay.catalog.versions import Alter, Effect
from relay.model.events import Position, TableId, TableSchema
from relay.mysql.ddl.statements import ModifyColumn, RenameColumn
from spark_backfill.row_types import spark_type

#: The Spark type of each column, in the order in which the columns were first defined.
ColumnTypes = dict[str, DataType]


class TableVersions(NamedTuple):
    """The versions of a table: the columns of each, and the first position after each statement.

    `starts`: positions of the statements, newest first, each with the index of its version.
    """

    columns: tuple[ColumnTypes, ...]
    starts: tuple[tuple[Position, int], ...]

    def at(self, position: Position) -> int:
        """Return the index of the version for a row; 0 for a row before the first definition."""
        return next((index for at, index in self.starts if at.precedes(position)), 0)


def versions_of(catalog: Catalog, table: TableId) -> TableVersions:
    """Return the versions of a table; without any columns if none of its definitions is known."""
    found: list[ColumnTypes] = []
    starts: list[tuple[Position, int]] = []
    for version in reversed(history_of(catalog, table)):
        schema = version.schema
        if schema is None or schema.is_view:
            starts.append((version.at, max(0, len(found) - 1)))
            continue
        if not found or _renames(version.effect) or not _fits(schema, found[-1]):
            found.append({})
        for column in schema.columns:
            found[-1].setdefault(column.name, spark_type(column.type))
        starts.append((version.at, len(found) - 1))
    return TableVersions(tuple(found), tuple(reversed(starts)))


def tables_in(catalog: Catalog) -> Iterator[TableId]:
    """Yield the tables with a known definition, sorted by name."""
    names = [
        TableId(name, table) for name, tables in catalog.histories.items() for table, _ in tables.items()
    ]
    for table in sorted(names):
        if versions_of(catalog, table).columns:
            yield table


def _renames(effect: Effect) -> bool:
    if not isinstance(effect, Alter):
        return False
    return any(
        isinstance(change, RenameColumn)
        or (isinstance(change, ModifyColumn) and change.name.lower() != change.definition.column.name.lower())
        for change in effect.changes
    )


def _fits(schema: TableSchema, columns: ColumnTypes) -> bool:
    """Return whether the columns of a definition are, or can join, those of a version."""
    known = {name.lower(): name for name in columns}  # as Spark compares names
    for column in schema.columns:
        name = known.get(column.name.lower(), column.name)
        if name != column.name or columns.get(name, spark_type(column.type)) != spark_type(column.type):
            return False
    return True


def struct_of(columns: ColumnTypes) -> StructType:
    """Return columns as Spark's type of a row."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])
