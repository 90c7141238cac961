"""The definition to read rows of Open Protocol with: the catalog's, or one inferred from a message's codes
and flags.

Flags have more facts than most formats: nullable, unsigned, generated, and the columns that belong to keys;
but not which columns of an index belong together, nor any parameter of a type (PingCAP "TiCDC Open Protocol",
bit flags of columns).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from relay.codecs.open_protocol.frames import NAME
from relay.codecs.open_protocol.values import (
    BINARY,
    GENERATED,
    HANDLE_KEY,
    MULTIPLE_KEY,
    NULLABLE,
    PRIMARY_KEY,
    UNIQUE_KEY,
    UNSIGNED,
    column_code,
    same_code,
    type_of,
)
from relay.codecs.shared.tables import Table
from relay.model.errors import UnsupportedMessage
from relay.model.events import Column, Generated, Index, TableSchema, UniqueKey
from relay.mysql.types import BINARIES, CHARS


class ColumnFlags(NamedTuple):
    """Code and flags of a column in a message.

    Before TiCDC v4.0.5 there are no flags (None), and `h` (`is_handle`) marks the columns of any unique
    index; with flags it is redundant and omitted (False).
    """

    code: int
    flags: int | None
    is_handle: bool


def resolved(table: Table[Any], declared: dict[str, ColumnFlags], known: TableSchema | None) -> TableSchema:
    """Return a row's definition: the catalog's if the message agrees with it, else the message's own."""
    fitting: dict[str, Column] = {}
    if known is not None:
        index_of = table.columns_of(known).index_of
        fitting = {name: known.columns[index_of[name]] for name in declared if name in index_of}
    fitting = {name: column for name, column in fitting.items() if _agrees(column, declared[name])}
    if known and len(fitting) == len(declared):
        return known
    made = [fitting.get(name) or _build_column(name, one) for name, one in declared.items()]
    return _with_keys(TableSchema(table.id, tuple(made), complete=False), declared)


def _agrees(column: Column, declared: ColumnFlags) -> bool:
    known, flags = column.type, declared.flags
    if column_code(known) != same_code(declared.code):
        return False
    if flags is None:
        return True
    if known.base in CHARS or known.base in BINARIES:
        return bool(flags & BINARY) == (known.base in BINARIES)
    return known.base in {"bit", "year"} or bool(flags & UNSIGNED) == known.unsigned


def _build_column(name: str, declared: ColumnFlags) -> Column:
    code, flags, is_handle = declared
    try:
        column_type = type_of(code, flags or 0)
    except ValueError as error:
        raise UnsupportedMessage(NAME, f"value.{name}.t", str(error)) from None
    if flags is None:
        return Column(name, column_type, nullable=False if is_handle else None)
    generated = Generated.STORED if flags & GENERATED else None
    return Column(name, column_type, nullable=bool(flags & NULLABLE), generated=generated)


def _with_keys(schema: TableSchema, declared: dict[str, ColumnFlags]) -> TableSchema:
    """Return the schema with the keys as far as flags show them: not which columns of an index belong
    together, nor their order.
    """
    if all(one.flags is None for one in declared.values()):
        handle = tuple(name for name, one in declared.items() if one.is_handle)
        return msgspec.structs.replace(schema, unique_keys=(UniqueKey("", handle),) if handle else ())
    flags = {name: one.flags or 0 for name, one in declared.items()}

    def having(bit: int) -> tuple[str, ...]:
        return tuple(name for name in flags if flags[name] & bit)

    primary, handle = having(PRIMARY_KEY), having(HANDLE_KEY)
    # The primary key is the handle key of its table: without the mark, the row lacks part of it.
    is_partial = bool(primary) and not handle
    if primary:
        keys = [UniqueKey(name, (name,)) for name in having(UNIQUE_KEY)]
    else:
        keys = _unique_keys(handle, {name: flags[name] for name in having(UNIQUE_KEY)})
    single = primary if len(primary) > 1 else ()
    indexes = tuple(Index(name, (name,)) for name in having(MULTIPLE_KEY) if name not in single)
    key = None if is_partial else primary
    return msgspec.structs.replace(schema, primary_key=key, unique_keys=tuple(keys), indexes=indexes)


def _unique_keys(handle: tuple[str, ...], unique: dict[str, int]) -> list[UniqueKey]:
    """Return the unique keys of a table without a primary key, given the flags of their columns; the handle
    key stays unchanged.

    A key that cannot be NULL and is shorter than the handle key would be the handle key itself. So the
    columns that would make such a key are taken together as one key.
    """
    keys = [UniqueKey("", handle)] if handle else []
    rest = {name: flags for name, flags in unique.items() if name not in handle}
    alone = [
        name
        for name, flags in rest.items()
        if len(handle) == 1 or (flags & NULLABLE and not flags & MULTIPLE_KEY)
    ]
    keys += [UniqueKey(name, (name,)) for name in alone]
    together = tuple(name for name in rest if name not in alone)
    if any(rest[name] & NULLABLE for name in together) or 0 < len(handle) <= len(together):
        keys.append(UniqueKey(together[0], together))
    return keys
