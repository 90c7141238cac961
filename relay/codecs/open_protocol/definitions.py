"""The definition to read rows of Open Protocol with: the catalogue's, or one made of a message's codes and
flags.

Flags tell more than most wires: nullable, unsigned, generated, and which columns belong to keys; but not
which columns of an index belong together, nor any parameter of a type (PingCAP "TiCDC Open Protocol", bit
flags of columns).
"""

from __future__ import annotations

import msgspec

from relay.codecs.open_protocol.columns import (
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
from relay.codecs.open_protocol.frames import NAME
from relay.errors import UnsupportedMessage
from relay.model import Column, Generated, Index, TableId, TableSchema, UniqueKey
from relay.mysql.types import BINARIES, CHARS

#: Code and flags of a column as a message has them. Before TiCDC v4.0.5 there are no flags (None), and `h`,
#: which stands third, marks the columns of any unique index; with flags it says nothing more than they do and
#: is left out (False).
Said = tuple[int, int | None, bool]


def resolved(table: TableId, said: dict[str, Said], known: TableSchema | None) -> TableSchema:
    """The definition to read a row with: the catalogue's if it does not contradict the message, else one made
    of the message.
    """
    columns = {column.name: column for column in known.columns} if known else {}
    if known and all(
        name in columns and _agrees(columns[name], code, flags) for name, (code, flags, _) in said.items()
    ):
        return known
    made = []
    for name, (code, flags, is_handle) in said.items():
        column = columns.get(name)
        is_known = column is not None and _agrees(column, code, flags)
        made.append(
            column
            if column is not None and is_known
            else _made_column(name, code, flags, is_handle=is_handle)
        )
    return _with_keys(TableSchema(table, tuple(made), complete=False), said)


def _agrees(column: Column, code: int, flags: int | None) -> bool:
    known = column.type
    if column_code(known) != same_code(code):
        return False
    if flags is None:
        return True
    if known.base in CHARS or known.base in BINARIES:
        return bool(flags & BINARY) == (known.base in BINARIES)
    return known.base in {"bit", "year"} or bool(flags & UNSIGNED) == known.unsigned


def _made_column(name: str, code: int, flags: int | None, *, is_handle: bool) -> Column:
    try:
        column_type = type_of(code, flags or 0)
    except ValueError as error:
        raise UnsupportedMessage(NAME, f"value.{name}.t", str(error)) from error
    if flags is None:
        return Column(name, column_type, nullable=False if is_handle else None)
    generated = Generated.STORED if flags & GENERATED else None
    return Column(name, column_type, nullable=bool(flags & NULLABLE), generated=generated)


def _with_keys(schema: TableSchema, said: dict[str, Said]) -> TableSchema:
    """The keys as far as flags tell: not which columns of an index belong together, nor their order."""

    if all(flags is None for _, flags, _ in said.values()):
        handle = tuple(name for name, (_, _, is_handle) in said.items() if is_handle)
        return msgspec.structs.replace(schema, unique_keys=(UniqueKey("", handle),) if handle else ())

    def having(bit: int) -> tuple[str, ...]:
        return tuple(name for name, (_, flags, _) in said.items() if (flags or 0) & bit)

    primary, handle = having(PRIMARY_KEY), having(HANDLE_KEY)
    if primary:
        keys = [UniqueKey(name, (name,)) for name in having(UNIQUE_KEY)]
    else:
        keys = _unique_keys(
            handle, {name: flags or 0 for name, (_, flags, _) in said.items() if (flags or 0) & UNIQUE_KEY}
        )
    single = primary if len(primary) > 1 else ()
    indexes = tuple(Index(name, (name,)) for name in having(MULTIPLE_KEY) if name not in single)
    return msgspec.structs.replace(schema, primary_key=primary, unique_keys=tuple(keys), indexes=indexes)


def _unique_keys(handle: tuple[str, ...], unique: dict[str, int]) -> list[UniqueKey]:
    """The unique keys of a table without a primary key, given the flags of their columns; the handle key
    stays the one that it is.

    A key that cannot be NULL and is shorter than the handle key would be the handle key itself. So the
    columns that would make such a key belong to one of several columns.
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
