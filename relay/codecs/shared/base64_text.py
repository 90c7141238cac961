"""Bytes as standard base64 with padding, the form of JSON members."""

from __future__ import annotations

import binascii

import msgspec

from relay.mysql.conversion_names import kernel_name


@kernel_name("base64")
def read_base64(text: str) -> bytes:
    """Return the bytes. Raises ValueError."""
    try:
        # Each decoder is the faster one for its input.
        return (
            binascii.a2b_base64(text, strict_mode=True) if len(text) < 128 else msgspec.convert(text, bytes)
        )
    except (ValueError, msgspec.ValidationError):
        raise ValueError("not base64") from None


def try_base64(text: str) -> bytes | None:
    """Return the bytes, None if the text is no base64."""
    try:
        return read_base64(text)
    except ValueError:
        return None


@kernel_name("base64")
def base64_text(data: bytes) -> str:
    """Return the text that `read_base64` reads."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")
