"""Detection of Open Protocol, by its framing."""

from __future__ import annotations

from typing import Final

from relay.codecs.detection import DetectionMessage, FormatMatch, Strength
from relay.codecs.open_protocol.frames import LENGTH_BYTES, VERSION, segments_in

_TITLE: Final = "TiCDC Open Protocol"
_LZ4: Final = b"\x04\x22\x4d\x18"


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Detect a message: the key begins with the version and a segment length, the value with a length."""
    key, value = message.key or b"", message.value
    if key.startswith(VERSION) and len(key) > 2 * LENGTH_BYTES and _fits(key[LENGTH_BYTES:]):
        settings = {}
        if value[LENGTH_BYTES:].startswith(_LZ4):
            settings["large-message-handle-compression"] = "lz4"
        evidence = "a key with version 1 and lengths"
        events = segments_in(key)
        if events > 1:
            evidence += f", {events} events in a message"
        return FormatMatch(Strength.CERTAIN, _TITLE, evidence, settings)
    if len(value) < LENGTH_BYTES or not _fits(value):
        return None
    # Other formats begin with zero bytes, too.
    strength = Strength.CERTAIN if _has_event(value) else Strength.POSSIBLE
    return FormatMatch(strength, _TITLE, "a value that begins with a length of 8 bytes")


def _length(data: bytes) -> int:
    return int.from_bytes(data[:LENGTH_BYTES], "big")


def _fits(data: bytes) -> bool:
    """Return whether data begins with the length of a segment that it holds."""
    return _length(data) <= len(data) - LENGTH_BYTES


def _has_event(value: bytes) -> bool:
    """Return whether the first segment is a JSON object, or compressed."""
    segment = value[LENGTH_BYTES : LENGTH_BYTES + _length(value)]
    return segment.startswith(_LZ4) or (segment[:1] == b"{" and segment[-1:] == b"}")
