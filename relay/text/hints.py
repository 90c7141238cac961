"""Hints in errors about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

#: Maximum number of similar names in a hint.
_MOST_SIMILAR: Final = 3


def hint_for(
    name: str, known: Sequence[str], otherwise: str, *, new_name: str | None = None, cutoff: float = 0.5
) -> str:
    """Return a hint for an unknown name: its new name if it was renamed, the known names that resemble it, or
    `otherwise`.

    `cutoff`: the least similarity, from 0 to 1.
    """
    if new_name in known:
        return f"it was renamed to {new_name}"
    similar = difflib.get_close_matches(name, known, n=_MOST_SIMILAR, cutoff=cutoff)
    return f"did you mean {' or '.join(similar)}?" if similar else otherwise
