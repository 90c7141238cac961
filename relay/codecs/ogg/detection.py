"""Detection of GoldenGate's messages."""

from __future__ import annotations

from relay.codecs.detection import DetectionMessage, FormatMatch, Strength
from relay.codecs.ogg.messages import OPS, TRUNCATE


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Detect a message by its table and one of GoldenGate's operations."""
    op = message.string("op_type")
    if "table" not in message.members or not (op in OPS or op == TRUNCATE):
        return None
    return FormatMatch(Strength.CERTAIN, "Oracle GoldenGate", f"members table, op_type {op}")
