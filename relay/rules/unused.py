"""Rules without effect on any known table, for `relay check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from relay.model.events import TableSchema
from relay.text.hints import hint_for

#: The least similarity of a suggested name: others than the wanted one are misleading.
_SIMILAR: Final = 0.7


class UnusedRule(NamedTuple):
    """A rule without effect on any known table: its number, from 0, and why."""

    number: int
    why: str


def matches_no_table(patterns: Iterable[str], known: Iterable[TableSchema]) -> str:
    """Return why a rule whose patterns match no known table has no effect."""
    names = [f"{schema.id.database}.{schema.id.table}" for schema in known]
    return with_hints("matches no known table", patterns, names)


def with_hints(text: str, patterns: Iterable[str], names: Sequence[str]) -> str:
    """Return a text with similar names for patterns that may be misspelled."""
    hints = [hint for pattern in patterns if (hint := hint_for(pattern, names, "", cutoff=_SIMILAR))]
    return f"{text}: {'; '.join(hints)}" if hints else text
