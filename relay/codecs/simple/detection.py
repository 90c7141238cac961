"""Detection of TiCDC Simple messages."""

from __future__ import annotations

from typing import Final

from relay.codecs.detection import DetectionMessage, FormatMatch, Strength

_TITLE: Final = "TiCDC Simple"
_NAMES: Final = ("buildTs", "schemaVersion")
#: The first byte of every message in Avro, and the kinds that follow it twice.
_BEGIN: Final = 0x16
_KINDS: Final = frozenset({0, 2, 4, 6})


def json(message: DetectionMessage) -> FormatMatch | None:
    """Detect a commit ts next to the time the message was made, or next to the version of a definition."""
    other = next((name for name in _NAMES if name in message.members), "")
    if "commitTs" not in message.members or not other:
        return None
    settings = {}
    if message.compression:
        settings["large-message-handle-compression"] = message.compression
    if "checksum" in message.members:
        settings["integrity-check-level"] = "correctness"
    return FormatMatch(Strength.CERTAIN, f"{_TITLE} (JSON)", f"members commitTs and {other}", settings)


def avro(message: DetectionMessage) -> FormatMatch | None:
    """Detect a branch of a union of all types with a payload of the named kind."""
    text = message.text
    if len(text) < 3 or text[0] != _BEGIN or text[1] != text[2] or text[1] not in _KINDS:
        return None
    settings = {}
    if message.compression:
        settings["large-message-handle-compression"] = message.compression
    evidence = "Avro that begins as a message of Simple, with the byte 0x16"
    return FormatMatch(Strength.LIKELY, f"{_TITLE} (Avro)", evidence, settings)
