"""The table definition for reading rows of the Canal family: the catalog's, if a message does not contradict
it, else one inferred from the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from relay.codecs.canal.shared.wire_table import SqlTypes, WireTable, key_columns
from relay.model.events import Column, ColumnType, TableSchema
from relay.mysql.types import FRACTIONAL, INTEGER_BITS


class Resolved(NamedTuple):
    """The definition that rows are read with: the catalog's, or one inferred from a message.

    `index_of`: column indexes by column name in messages. `hidden`: virtual generated columns. `texts`:
    binary columns that messages have as text, by name in messages.
    """

    schema: TableSchema
    is_inferred: bool
    index_of: Mapping[str, int]
    hidden: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


class KeyedDefinition:
    """The catalog's definition of a table with the key that a message names: made once for all its rows.

    `is_druid`: the messages have names and types as Canal's parser of DDL, Druid, leaves them: back-ticks
    inside names doubled, and text types for columns that CHARACTER SET binary makes binary.
    """

    def __init__(
        self, known: TableSchema | None, pk_names: list[str] | None, *, is_druid: bool = False
    ) -> None:
        self.known, self.pk_names, self._is_druid = known, pk_names, is_druid
        self._columns: dict[str, Column] = {}
        self._resolved: Resolved | None = None
        if known is not None:
            index_of = {column.name: at for at, column in enumerate(known.columns)}
            self._columns = {column.name: column for column in known.columns}
            if is_druid and any("`" in name for name in index_of):
                index_of = {name.replace("`", "``"): at for name, at in index_of.items()} | index_of
                self._columns = {name: known.columns[at] for name, at in index_of.items()}
            hidden = frozenset(known.columns[at].name for at in known.hidden_indexes)
            schema = _with_named_key(known, self._named_key(self._columns))
            self._resolved = Resolved(schema, False, index_of, hidden)

    def ordered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a row in table order if they are, else in reverse table order.

        Thus all orders give the same result. For an unknown table, each order makes a different definition.
        """
        in_order = self.in_order(names)
        return names if in_order == names else in_order[::-1]

    def in_order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a row in the table's order; unchanged if some of them are unknown."""
        if self._resolved is None or not self._columns.keys() >= set(names):
            return names
        return tuple(sorted(names, key=self._resolved.index_of.__getitem__))

    def resolved(self, wire: WireTable, sql_types: SqlTypes) -> Resolved:
        """Return the definition to read a message's rows with.

        It is the catalog's, if that does not contradict the message; else one inferred from the message's
        types, with the parameters of those catalog columns that still fit.
        """
        columns = self._columns
        types = wire.column_types
        texts: frozenset[str] = frozenset()
        if self._is_druid:
            texts = frozenset(name for name in types if _is_text_for_bytes(columns.get(name), types[name]))
        if self._resolved is not None and all(
            name in texts or (name in columns and _agrees(columns[name], types[name])) for name in wire.names
        ):
            return self._resolved._replace(texts=texts) if texts else self._resolved
        made = [
            columns[name] if name in texts else _build_column(name, columns.get(name), types[name], sql_types)
            for name in wire.names
        ]
        if self._is_druid:
            made = _with_own_names(made)
        key = self._named_key(columns | dict(zip(wire.names, made, strict=True)))
        schema = TableSchema(wire.id, tuple(made), primary_key=key, complete=False)
        return Resolved(schema, True, {name: at for at, name in enumerate(wire.names)}, texts=texts)

    def _named_key(self, columns: Mapping[str, Column]) -> tuple[str, ...] | None:
        """Return `pk_names` by the table's own names of these columns."""
        if self.pk_names is None:
            return None
        if all(name in columns and columns[name].name == name for name in self.pk_names):
            return tuple(dict.fromkeys(self.pk_names))
        own_names = {name: column.name for name, column in columns.items()}
        if self._is_druid:
            own_names = {name: _undoubled(name) for name in self.pk_names if "``" in name} | own_names
        return key_columns(self.pk_names, own_names, str)


def _undoubled(name: str) -> str:
    return name.replace("``", "`")


def _with_own_names(columns: list[Column]) -> list[Column]:
    """Undo the doubling of back-ticks in an unknown table's column names, unless two would become equal."""
    named = [msgspec.structs.replace(column, name=_undoubled(column.name)) for column in columns]
    return named if len({column.name for column in named}) == len(columns) else columns


def _is_text_for_bytes(known: Column | None, declared: ColumnType | None) -> bool:
    """Return whether a message has a binary column as text: VARCHAR(9) CHARACTER SET binary is
    VARBINARY(9).
    """
    if known is None or declared is None or _BINARY_TWINS.get(declared.base) != known.type.base:
        return False
    return declared.length == known.type.length or declared.base not in {"char", "varchar"}


_BINARY_TWINS: Final = {
    "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob",
    "mediumtext": "mediumblob", "longtext": "longblob",
}  # fmt: skip


def _with_named_key(known: TableSchema, pk_names: tuple[str, ...] | None) -> TableSchema:
    """Return the definition with the key that a message names. A key that differs from the definition's is
    inferred: no DDL has declared it.
    """
    if pk_names is None or (known.primary_key is not None and set(pk_names) == set(known.primary_key)):
        return known
    return msgspec.structs.replace(known, primary_key=pk_names, complete=False)


def _agrees(column: Column, declared: ColumnType | None) -> bool:
    """Return whether the message's type can mean the catalog's column. Types without parameters match any."""
    known = column.type
    if declared is None:
        return True
    if declared.base != known.base or declared.unsigned != known.unsigned:
        return False
    if declared.members is not None and known.members is not None:
        return declared.members == known.members
    if declared.length is None or known.length is None or known.base in INTEGER_BITS or known.base == "year":
        return True
    if not declared.length and known.base in FRACTIONAL:
        return True  # look-alikes write types without parameters
    return declared.length == known.length and declared.scale == known.scale


def _build_column(
    name: str, known: Column | None, declared: ColumnType | None, sql_types: SqlTypes
) -> Column:
    if known is not None and _agrees(known, declared):
        return known
    return Column(name, declared or ColumnType(_BASES.get(sql_types.get(name) or 0, "varchar")))


#: Types by `sqlType` number, for messages without `mysqlType` (Canal without a table's definition); several
#: types share a number.
_BASES: Final = {
    -7: "bit", -6: "tinyint", -5: "bigint", 1: "char", 3: "decimal", 4: "int", 5: "smallint", 7: "float",
    8: "double", 91: "date", 92: "time", 93: "datetime", 2004: "blob", 2005: "text",
}  # fmt: skip
