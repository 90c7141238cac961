"""Versions of a table: its definition after a statement, and the effect that led to it."""

from __future__ import annotations

import enum

import msgspec

from relay.model.events import Position, TableId, TableSchema
from relay.mysql.ddl.statements import Change

#: The identity of a statement, equal for all copies of it.
Identity = tuple[int | str | bytes, ...]


class Unknown(enum.StrEnum):
    """Why a row has no definition, as text for users."""

    NO_DDL = "no DDL that defines the table was read before its rows"
    NOT_UNDERSTOOD = "a statement about the table was not understood"
    AMBIGUOUS = "a statement names the table in another letter case, or without its database"
    QUERY = "the columns of the table come from a query (CREATE TABLE ... AS SELECT)"
    DOES_NOT_FIT = "a statement contradicts the known definition of the table"
    COPIED = "the table was renamed, copied or recovered from an unknown table"
    DROPPED = "the table was dropped before its rows"
    TOO_MANY = "more statements about the table were read ahead of its rows than relay keeps"
    OTHER_NAME = "DDL was read of a table whose name differs in letter case only"
    CONTRADICTED = "the rows contradict the table's DDL"


class Define(msgspec.Struct, frozen=True, gc=False):
    """CREATE TABLE. If the columns are unknown, `schema` is None and `why` gives the reason."""

    schema: TableSchema | None
    if_absent: bool = False
    why: Unknown = Unknown.DOES_NOT_FIT


class Alter(msgspec.Struct, frozen=True, gc=False):
    """ALTER TABLE: changes to a table's columns and keys."""

    changes: tuple[Change, ...]


class Copy(msgspec.Struct, frozen=True, gc=False):
    """The definition of another table: under its new name, or CREATE TABLE … LIKE."""

    source: TableId
    if_absent: bool = False


class CopiedTo(msgspec.Struct, frozen=True, gc=False):
    """The source's side of a copy. `is_moved`: the table no longer has this name."""

    target: TableId
    is_moved: bool


class Drop(msgspec.Struct, frozen=True, gc=False):
    """The table no longer exists, because of a statement or a message's own declaration."""


class DropView(msgspec.Struct, frozen=True, gc=False):
    """DROP VIEW. A base table of that name stays: with IF EXISTS, MySQL and TiDB skip it."""


class Recover(msgspec.Struct, frozen=True, gc=False):
    """RECOVER TABLE and FLASHBACK TABLE: restores the definition before the newest DROP; without one (after
    TRUNCATE) the present definition stays.
    """

    source: TableId


Effect = Define | Alter | Copy | CopiedTo | Drop | DropView | Recover


class Version(msgspec.Struct, frozen=True):
    """A table's state after a statement.

    is_gone: The table is known not to exist. Otherwise a `schema` of None means that it is unknown.
    """

    at: Position
    schema: TableSchema | None
    is_gone: bool
    effect: Effect
    identity: Identity


History = tuple[Version, ...]


def why_unknown(history: History) -> Unknown:
    """Return why the newest of these versions has no definition."""
    why = Unknown.NO_DDL
    for at, version in enumerate(history):
        if version.schema is not None:
            return Unknown.DOES_NOT_FIT if at else Unknown.CONTRADICTED
        if version.is_gone:
            return why if at else Unknown.DROPPED
        match version.effect:
            case Define(None, _, reason):
                return reason
            case Copy() | Recover():
                return Unknown.COPIED
    return why


def is_cut(history: History) -> bool:
    """Return whether the oldest of these versions was derived from one that is no longer kept."""
    oldest = history[-1] if history else None
    return oldest is not None and oldest.schema is not None and isinstance(oldest.effect, Alter | CopiedTo)


def recovered(history: History) -> TableSchema | None:
    """Return the definition before the newest DROP; the present one if there is none (after TRUNCATE)."""
    for index, version in enumerate(history):
        if isinstance(version.effect, Drop):
            return history[index + 1].schema if index + 1 < len(history) else None
    return history[0].schema if history else None
