"""Limits on the cost of one record, enforced before memory is allocated or time spent.

A translator passes its limits to decoders and encoders in `LookupCache.limits`, and to the catalog. Code that
finds a limit exceeded raises `exceeded(…)`: a DecodeError, so the error policies apply. No limit depends on a
value of a row; messages contain the limit's name and value, never data of the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.model.errors import LimitExceeded, Malformed

#: Default of the number of rows that a translator remembers for `deduplicate`.
DEDUPLICATE_ROWS: Final = 200_000
_MIB: Final = 1 << 20
#: Maximum columns of a table in MySQL and TiDB (MySQL Reference Manual 8.4 §10.4.7).
MYSQL_COLUMNS: Final = 4096
#: Maximum characters in the name of a database, table, column or index (MySQL Reference Manual 8.4 §11.2.1).
MYSQL_NAME: Final = 64

Positive = Annotated[int, Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one record, and of the caches that records fill.

    decompressed_bytes: Size of all decompressed parts of a record together, in Kafka and in storage.
    claim_check_bytes: Size of one object in claim-check storage.
    lenient_json_bytes: Size of JSON that a strict parser refuses.
    values: Members and elements in one JSON text; labels of ENUM and SET in a schema block.
    rows: Row changes in a record.
    columns: Columns in a row, and in a table.
    ddl_bytes, ddl_statements: Size of a DDL text, and statements in it.
    output_bytes: Total size of the records that result from one record, if they are several.
    cache_bytes: Approximate size of each cache: fetched objects, compiled decoders and encoders, templates,
        statements read ahead.
    """

    decompressed_bytes: Positive = 16 * _MIB
    claim_check_bytes: Positive = 64 * _MIB
    lenient_json_bytes: Positive = 2 * _MIB
    values: Positive = 500_000
    rows: Positive = 10_000
    columns: Positive = MYSQL_COLUMNS
    ddl_bytes: Positive = _MIB // 4
    ddl_statements: Positive = 100
    output_bytes: Positive = 128 * _MIB
    cache_bytes: Positive = 64 * _MIB


DEFAULT_LIMITS: Final = Limits()


def exceeded(protocol: str, path: str, what: str, limit: str, value: int) -> LimitExceeded:
    """Return the error for a record in which `what` (such as `rows`) exceeds a limit.

    `limit`: the limit's name in `Limits`; `value`: its configured value.
    """
    return LimitExceeded(protocol, path, f"more {what} than the limit `{limit}` allows, {value}")


def check_rows(protocol: str, path: str, rows: int, limits: Limits) -> None:
    """Raise LimitExceeded if a record has too many rows."""
    if rows > limits.rows:
        raise exceeded(protocol, path, "rows", "rows", limits.rows)


def check_columns(protocol: str, path: str, columns: int, limits: Limits) -> None:
    """Raise LimitExceeded if a row has too many columns."""
    if columns > limits.columns:
        raise exceeded(protocol, path, "columns", "columns", limits.columns)


def check_values(protocol: str, path: str, text: bytes, limits: Limits) -> None:
    """Raise LimitExceeded if JSON has more values than allowed; commas inside strings do not count.

    A value takes at least two bytes of JSON, and up to 300 in Python.
    """
    most = limits.values
    if len(text) <= uncounted_bytes(limits) or _values(text) <= most:
        return
    if any(found > most for found in accumulate(_values_by_part(text))):
        raise exceeded(protocol, path, "values", "values", most)


def values_in(text: bytes) -> int:
    """Return the number of values in a JSON text, counted like in `check_values`."""
    return sum(_values_by_part(text))


def _values_by_part(text: bytes) -> Iterator[int]:
    """Count values part by part: a text may be long, and its first part may already exceed the limit."""
    return (_values(_STRING.sub(b"", part[0])) for part in _PART(text))


def uncounted_bytes(limits: Limits) -> int:
    """Return the maximum length of a JSON text that cannot exceed the limit of values, so that `check_values`
    need not count them.
    """
    return 2 * limits.values


def _values(text: bytes) -> int:
    """Count members and elements in JSON without strings: one per object or array, one per comma."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


#: Maximum nesting depth of arrays and objects in a message. Parsers allow more, some only with some releases
#: of Python.
MOST_LEVELS: Final = 500
_TOO_DEEP: Final = b"[" * (MOST_LEVELS + 1)
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def check_levels(protocol: str, path: str, text: bytes) -> None:
    """Raise Malformed for JSON that is nested too deeply.

    A translator checks keys and values that are JSON; a decoder checks texts that it extracts from others:
    compressed, framed or stored ones.
    """
    if len(text) > FLAT_BYTES and is_too_deep(text):
        reason = f"arrays or objects nested more than {MOST_LEVELS} levels deep"
        raise Malformed(protocol, path, reason)


#: Texts up to this length cannot be nested too deeply: each level takes two brackets.
FLAT_BYTES: Final = 2 * MOST_LEVELS


def is_too_deep(text: bytes) -> bool:
    """Return whether the arrays and objects of a JSON text are nested more than `MOST_LEVELS` deep."""
    # `replace` finds rare bytes three times as fast as `count`.
    size = len(text)
    if 2 * size - len(text.replace(b"[", b"")) - len(text.replace(b"{", b"")) <= MOST_LEVELS:
        return False
    parts = (_STRING.sub(b"", part[0]) for part in _PART(text))
    brackets = b"".join([part.translate(_AS_ARRAYS, _NO_BRACKETS) for part in parts])
    for _ in range(MOST_LEVELS):
        if _TOO_DEEP in brackets:
            return True
        inner = len(brackets)
        brackets = brackets.replace(b"[]", b"")
        if len(brackets) == inner:
            return False
    return bool(brackets)


#: Strings, whose closing quote is optional so that a broken document is scanned only once, and parts with
#: enough of them to limit the memory overhead of each part.
_TEXT: Final = rb'"(?:[^"\\]++|\\.)*+"?'
_STRING: Final = re.compile(_TEXT, re.DOTALL)
_PART: Final = re.compile(rb'(?:[^"]++|%b){1,20000}+' % _TEXT, re.DOTALL).finditer


class Budget:
    """The remainder of a limit that all parts of one record share."""

    __slots__ = ("left", "limit", "name")

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit, self.left = name, limit, limit

    def spend(self, protocol: str, path: str, what: str, amount: int) -> None:
        """Take an amount from the budget. Raises LimitExceeded if too little is left."""
        if amount > self.left:
            raise self.exceeded(protocol, path, what)
        self.left -= amount

    def exceeded(self, protocol: str, path: str, what: str) -> LimitExceeded:
        """Return the error for parts that together exceed the limit."""
        return exceeded(protocol, path, what, self.name, self.limit)


__all__ = [
    "DEDUPLICATE_ROWS",
    "DEFAULT_LIMITS",
    "FLAT_BYTES",
    "MYSQL_COLUMNS",
    "MYSQL_NAME",
    "Budget",
    "Limits",
    "check_columns",
    "check_levels",
    "check_rows",
    "check_values",
    "exceeded",
    "uncounted_bytes",
]
