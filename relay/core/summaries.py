"""Lines of a summary that `relay translate` and the Spark job share.

A function returns no lines if there is nothing to report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from relay.codecs.losses import INFERRED, INFORMATIONAL, Loss
from relay.text.redaction import printable

#: Maximum number of names listed per section.
MOST_NAMES: Final = 20


def counted(title: str, counts: Mapping[str, int]) -> list[str]:
    """Return one line with names and counts, most frequent first."""
    return [f"  {title:7}  {listed(counts)}"] if counts else []


def listed(counts: Mapping[str, int]) -> str:
    """Return names with their counts, most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in _ordered(counts))


def lost(counts: Mapping[str, int] | Mapping[Loss, int]) -> list[str]:
    """Return lines for losses, assumptions, and counts of other kinds."""
    losses: dict[str, int] = {name: count for name, count in counts.items() if name not in INFORMATIONAL}
    assumed: dict[str, int] = {name: count for name, count in counts.items() if name in INFERRED}
    noted = INFORMATIONAL - INFERRED
    notes: dict[str, int] = {name: count for name, count in counts.items() if name in noted}
    return counted("lost", losses) + counted("assumed", assumed) + counted("notes", notes)


def unwritten_ddl(topics: Collection[str]) -> list[str]:
    """Return lines for topics whose DDL was not written, because their partition 0 was not read."""
    shown = [f"    {printable(topic)}" for topic in sorted(topics)[:MOST_NAMES]]
    if len(topics) > len(shown):
        shown.append("    and more topics")
    why = "the copy of a statement in partition 0 is written, but no record of partition 0 was read from:"
    return [f"  Warning: DDL was left out; {why}", *shown] if shown else []


def inferred(
    tables: Mapping[str, int], reasons: Mapping[str, str], *, has_row_keys: bool = False
) -> list[str]:
    """Return lines for tables without a known definition.

    Each has `database.table`, the number of rows and the reason; tables with most rows come first.
    `has_row_keys`: the target's records have keys of rows.
    """
    shown = [
        f"    {printable(table)} {rows}: {reasons.get(table, 'its definition was not known')}"
        for table, rows in _ordered(tables)[:MOST_NAMES]
    ]
    if len(tables) > len(shown):
        shown.append("    and more tables")
    keys = "; keys of their rows may change once the definition is known" if has_row_keys else ""
    return [f"  types inferred from the messages{keys}:", *shown] if shown else []


def unwritten_statements(statements: Collection[str]) -> list[str]:
    """Return lines for statements that removed rows and were not written."""
    shown = [f"    {printable(statement)}" for statement in [*statements][:MOST_NAMES]]
    if len(statements) > len(shown):
        shown.append("    and more statements")
    why = "TRUNCATE and DROP were not written; readers of the target keep the rows of:"
    return [f"  Warning: {why}", *shown] if shown else []


def _ordered(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
