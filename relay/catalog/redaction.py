"""Statements in the form in which the catalog learns them on a route that hides values of columns.

The catalog is derived from redacted statements, and so is everything that is stored of it: a relay that
starts again with stored statements has the same definitions as before.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol

from relay.catalog.unreadable import names_only
from relay.model.events import TableSchema


class Redaction(Protocol):
    """Removes values of hidden columns from statements and definitions. Immutable; may be pickled."""

    def __hash__(self) -> int: ...

    def schema(self, schema: TableSchema, /) -> TableSchema:
        """Return a definition without defaults and comments of hidden columns."""
        ...

    def statement(self, ddl: str, database: str, *, is_restored: bool, most_statements: int) -> str | None:
        """Return a statement without values of hidden columns, but with the same effect on definitions.

        `database`: that of names without one. None for a text that cannot be rewritten. A redacted statement
        stays the same.
        """
        ...

    def outline(self, ddl: str, *, is_restored: bool, most_statements: int) -> str | None:
        """Return a statement without values of any column; None for a text that cannot be rewritten.

        It is equal for a statement and its redacted text, even one that other rules have redacted.
        """
        ...


class RedactedText(NamedTuple):
    """A statement without hidden values, and the text that copies of the statement have in common."""

    ddl: str
    outline: str


@functools.lru_cache(maxsize=2)
def redacted_text(
    redaction: Redaction, ddl: str, database: str, *, is_restored: bool, most_statements: int
) -> RedactedText:
    """Redact a statement. The last ones are remembered, because a message may ask for its own often."""
    found = (
        redaction.statement(ddl, database, is_restored=is_restored, most_statements=most_statements),
        redaction.outline(ddl, is_restored=is_restored, most_statements=most_statements),
    )
    return RedactedText(*[names_only(ddl) if text is None else text for text in found])
