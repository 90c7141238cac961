"""Versions of a table: what a statement has left of it, and how."""

from __future__ import annotations

import msgspec

from relay.model import Position, TableId, TableSchema
from relay.mysql.ddl.statements import Change

#: What is equal for copies of one statement.
Identity = tuple[int | str | bytes, ...]


class Define(msgspec.Struct, frozen=True, gc=False):
    """CREATE TABLE; None if the columns are unknown."""

    schema: TableSchema | None
    if_absent: bool = False


class Alter(msgspec.Struct, frozen=True, gc=False):
    """ALTER TABLE: what it changes of a table's columns and keys."""

    changes: tuple[Change, ...]


class Copy(msgspec.Struct, frozen=True, gc=False):
    """The definition of another table: under its new name, or CREATE TABLE … LIKE."""

    source: TableId
    if_absent: bool = False


class CopiedTo(msgspec.Struct, frozen=True, gc=False):
    """The other end of a copy; `is_moved` if the table no longer has this name."""

    target: TableId
    is_moved: bool


class Drop(msgspec.Struct, frozen=True, gc=False):
    """The table no longer exists, by a statement, or as a message says."""


class DropView(msgspec.Struct, frozen=True, gc=False):
    """A base table of that name stays: MySQL and TiDB pass over it, with IF EXISTS."""


class Recover(msgspec.Struct, frozen=True, gc=False):
    """RECOVER TABLE and FLASHBACK TABLE: the table is what it was before its newest DROP; without one (after
    TRUNCATE), what it is.
    """

    source: TableId


Effect = Define | Alter | Copy | CopiedTo | Drop | DropView | Recover


class Version(msgspec.Struct, frozen=True):
    """A table as left by a statement. `is_gone`: known not to exist; else a `schema` of None: unknown."""

    at: Position
    schema: TableSchema | None
    is_gone: bool
    effect: Effect
    identity: Identity


History = tuple[Version, ...]


def recovered(history: History) -> TableSchema | None:
    """The definition before the newest DROP; the present one if there is none (after TRUNCATE)."""
    for place, version in enumerate(history):
        if isinstance(version.effect, Drop):
            return history[place + 1].schema if place + 1 < len(history) else None
    return history[0].schema if history else None
