"""Defaults of binary columns as text: what their bytes spell in UTF-8, or `0x…` where they spell nothing."""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = re.compile(r"0x(?:[0-9a-f]{2})+").fullmatch


def default_text(data: bytes) -> str:
    """Return the text that stands for a default of these bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def is_hex(text: str) -> bool:
    """Whether a default is the bytes of its digits; not if these spell a text, which would stand there."""
    return _HEX(text) is not None and default_text(bytes.fromhex(text[2:])) == text


def default_bytes(text: str) -> bytes:
    """Return the bytes of a default. Raises UnicodeEncodeError for text that is none."""
    return bytes.fromhex(text[2:]) if is_hex(text) else text.encode()
