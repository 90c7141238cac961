"""Detection of Maxwell messages."""

from __future__ import annotations

from typing import Final

from relay.codecs.detection import DetectionMessage, FormatMatch, Strength

_TYPES: Final = frozenset({
    "insert", "update", "delete", "bootstrap-start", "bootstrap-insert", "bootstrap-complete",
    "table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop",
})  # fmt: skip


def is_type(text: bytes) -> bool:
    """Return whether a member's JSON is one of Maxwell's types."""
    return text[1:-1].decode(errors="replace") in _TYPES


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Detect a message by its database and one of Maxwell's types."""
    type_ = message.string("type")
    if "database" not in message.members or type_ not in _TYPES:
        return None
    found = ["database", f"type {type_}", *(name for name in ("xid", "def") if name in message.members)]
    return FormatMatch(Strength.LIKELY, "Maxwell", f"members {', '.join(found)}")
