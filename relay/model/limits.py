"""What one record may cost: limits that act before memory is taken or time is spent.

A translator hands its limits to decoders and encoders in `LookupCache.limits`, and to the catalog. Whoever
finds one exceeded raises `exceeded(…)`: a DecodeError, so the error policies apply. No limit is about a value
of a row; a message names the limit and its value, never what the record holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.model.errors import LimitExceeded, Malformed

_MIB: Final = 1 << 20
#: What MySQL and TiDB allow; no table has more columns (MySQL Reference Manual 8.4 §10.4.7).
MYSQL_COLUMNS: Final = 4096
#: Characters of the longest name of a database, table, column or index (MySQL Reference Manual 8.4 §11.2.1).
MYSQL_NAME: Final = 64

Positive = Annotated[int, Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one record, and of the caches that records fill.

    `decompressed_bytes`: what all compressed parts of a record may be together, in Kafka and in storage.
    `claim_check_bytes`: of one object in claim-check storage. `lenient_json_bytes`: of JSON that a strict
    parser refuses. `values`: members of objects and elements of arrays in one JSON text, and labels of ENUM
    and SET in a schema block. `rows`: row changes of a record. `columns`: of a row, and of a table.
    `ddl_bytes`: of a DDL text; `ddl_statements`: in it. `output_bytes`: of the records that one becomes, if
    they are several.
    `cache_bytes`: about, each of fetched objects, of what a decoder and an encoder have compiled, of
    templates, and of statements read ahead.
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
    """Return the error for a record in which `what` (`rows`, in words) is more than a limit allows.

    `limit` is the limit's name in `Limits`, `value` what it is set to.
    """
    return LimitExceeded(protocol, path, f"more {what} than the limit `{limit}` allows, {value}")


def check_rows(protocol: str, path: str, rows: int, limits: Limits) -> None:
    """Raise LimitExceeded for a record of so many rows."""
    if rows > limits.rows:
        raise exceeded(protocol, path, "rows", "rows", limits.rows)


def check_columns(protocol: str, path: str, columns: int, limits: Limits) -> None:
    """Raise LimitExceeded for a row of so many columns."""
    if columns > limits.columns:
        raise exceeded(protocol, path, "columns", "columns", limits.columns)


def check_values(protocol: str, path: str, text: bytes, limits: Limits) -> None:
    """Raise LimitExceeded for JSON with more values than allowed; commas inside of strings are none.

    A value is two bytes of JSON or more, and up to 300 in Python.
    """
    most = limits.values
    if len(text) <= uncounted_bytes(limits) or _values(text) <= most:
        return
    if any(found > most for found in accumulate(_values_by_part(text))):
        raise exceeded(protocol, path, "values", "values", most)


def values_in(text: bytes) -> int:
    """Return how many values a JSON text has, as `check_values` counts them."""
    return sum(_values_by_part(text))


def _values_by_part(text: bytes) -> Iterator[int]:
    """Count values part by part, since a text may be long and its first part already too much."""
    return (_values(_STRING.sub(b"", part[0])) for part in _PART(text))


def uncounted_bytes(limits: Limits) -> int:
    """Return how long a JSON text can be that needs no `check_values`: it has no room for too many."""
    return 2 * limits.values


def _values(text: bytes) -> int:
    """The members and elements in JSON without strings: one in each object or array, one after each comma."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


#: How many levels deep the arrays and objects of a message may be nested. Parsers take more, some only with
#: some releases of Python.
MOST_LEVELS: Final = 500
_TOO_DEEP: Final = b"[" * (MOST_LEVELS + 1)
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def check_levels(protocol: str, path: str, text: bytes) -> None:
    """Raise Malformed for JSON that is nested too deeply. A translator checks keys and values that are JSON;
    a decoder checks what it takes out of others: compressed, framed or stored texts.
    """
    if len(text) > FLAT_BYTES and is_too_deep(text):
        reason = f"arrays or objects nested more than {MOST_LEVELS} levels deep"
        raise Malformed(protocol, path, reason)


#: No shorter text is nested too deeply: each level has two brackets.
FLAT_BYTES: Final = 2 * MOST_LEVELS


def is_too_deep(text: bytes) -> bool:
    """Whether the arrays and objects of a JSON text are nested more than `MOST_LEVELS` deep."""
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


#: Strings, whose closing quote may be missing, so that no byte of a broken document is looked at twice,
#: and parts with so many of them that little memory is taken for each.
_TEXT: Final = rb'"(?:[^"\\]++|\\.)*+"?'
_STRING: Final = re.compile(_TEXT, re.DOTALL)
_PART: Final = re.compile(rb'(?:[^"]++|%b){1,20000}+' % _TEXT, re.DOTALL).finditer


class Budget:
    """What is left of a limit while one record is read: its parts share it."""

    __slots__ = ("left", "limit", "name")

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit, self.left = name, limit, limit

    def spend(self, protocol: str, path: str, what: str, amount: int) -> None:
        """Take from what is left. Raises LimitExceeded if there is not so much."""
        if amount > self.left:
            raise self.exceeded(protocol, path, what)
        self.left -= amount

    def exceeded(self, protocol: str, path: str, what: str) -> LimitExceeded:
        """Return the error for parts that are more than the limit together."""
        return exceeded(protocol, path, what, self.name, self.limit)


__all__ = [
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
