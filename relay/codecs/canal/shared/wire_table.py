"""The table facts in a message of the Canal family: `mysqlType`, `sqlType`, `pkNames`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar

import msgspec

from relay.codecs.shared.compiled import UNNAMEABLE
from relay.codecs.shared.lenient_json import REFUSED
from relay.model.errors import Malformed
from relay.model.events import ColumnType, TableId
from relay.mysql.types import FRACTIONAL, lacks_parameters, parse_type, with_implied_parameters

T = TypeVar("T")

#: Maximum members for which a struct, in any order, is faster than a dictionary.
_MOST_CHECKED_MEMBERS: Final = 48

#: A message's `mysqlType`.
MysqlTypes = dict[str, str] | None

_decode_mysql_types = msgspec.json.Decoder(MysqlTypes).decode
_decode_sql_types = msgspec.json.Decoder(dict[str, int] | None, strict=False).decode


def parse_mysql_types(protocol: str, text: bytes | msgspec.Raw) -> MysqlTypes:
    """Parse a message's `mysqlType`. Raises Malformed."""
    try:
        types: MysqlTypes = _decode_mysql_types(text)
    except REFUSED:
        raise Malformed(protocol, "mysqlType", "not an object of type names") from None
    return types


def types_checker(types: Mapping[str, str]) -> Callable[[bytes], object] | None:
    """Return a parser that accepts an object of exactly these types, in any order, and raises one of
    `REFUSED` for other texts. None if there are no types, too many for it to pay, or a name that a struct
    cannot have.

    It takes half the time of parsing and comparing the types.
    """
    if not 0 < len(types) <= _MOST_CHECKED_MEMBERS or any(map(UNNAMEABLE, types)):
        return None
    names = {f"f{at}": name for at, name in enumerate(types)}
    fields = [(field, Literal[types[name]]) for field, name in names.items()]
    struct = msgspec.defstruct("MysqlTypes", fields, rename=names, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(struct).decode


def are_full(types: MysqlTypes) -> bool:
    """Return whether no type lacks parameters that it always has; `varchar`, for example, is never bare."""
    return not any(map(_is_bare, (types or {}).values()))


def have_parameters(types: MysqlTypes) -> bool:
    """Return whether any type has parameters."""
    return any("(" in text for text in (types or {}).values())


def _is_bare(text: str) -> bool:
    try:
        found = parse_type(text)
    except ValueError:
        return True
    return found.base not in FRACTIONAL and found.base != "bit" and lacks_parameters(found)


def key_columns(
    pk_names: Iterable[str], columns: Mapping[str, T], own_name: Callable[[T], str]
) -> tuple[str, ...]:
    """Return the columns of `pkNames` by the table's own names, each once; `columns`: by their names in
    messages. Like MySQL, ignores the case of column names.
    """
    names = {name: columns.get(name) for name in pk_names}
    if None in names.values():  # a table may have very many columns
        folded = {name.lower(): column for name, column in columns.items()}
        names = {name: folded.get(name.lower()) if found is None else found for name, found in names.items()}
    return tuple(dict.fromkeys([name if found is None else own_name(found) for name, found in names.items()]))


class SqlTypes:
    """A message's `sqlType`, parsed on first use: usually never, because `mysqlType` suffices.

    `asked`: the columns asked for, and the results.
    """

    def __init__(self, text: bytes | msgspec.Raw = b"null") -> None:
        self._text = text
        self._all: dict[str, int] | None = None
        self.asked: dict[str, int | None] = {}

    def get(self, name: str) -> int | None:
        """Return the number of a column; None if it has none, or `sqlType` is invalid."""
        sql_type = self.asked[name] = self.all().get(name)
        return sql_type

    def all(self) -> dict[str, int]:
        """Return all numbers, without adding them to `asked`."""
        if self._all is None:
            self._all = self._parse()
        return self._all

    def _parse(self) -> dict[str, int]:
        try:
            return _decode_sql_types(self._text) or {}
        except REFUSED:
            return {}


class WireTable(msgspec.Struct, frozen=True, dict=True):
    """A message's table: the columns in their order, `mysqlType` and `pkNames`.

    `is_full`: its types have all their parameters, so that a bare `datetime` has no fraction.
    """

    id: TableId
    names: tuple[str, ...]
    mysql_types: MysqlTypes
    pk_names: list[str] | None
    is_full: bool = False

    @functools.cached_property
    def column_types(self) -> Mapping[str, ColumnType | None]:
        """Each column's type as the message declares it; None if it is missing or not a type of MySQL."""
        types, is_full = self.mysql_types or {}, self.is_full
        return {name: _declared_type(types.get(name), is_full) for name in self.names}

    def known_types(self) -> list[ColumnType]:
        """Return the types that the message declares."""
        return [each for each in self.column_types.values() if each is not None]


def _declared_type(text: str | None, is_full: bool) -> ColumnType | None:
    try:
        found = parse_type(text) if text else None
    except ValueError:
        return None
    return with_implied_parameters(found) if found is not None and is_full else found
