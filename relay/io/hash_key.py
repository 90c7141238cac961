"""The secret key of column rules that hash values."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relay.model.errors import ConfigError, Problem

#: The minimum length of a key in bytes: shorter ones could be found by trying.
MIN_KEY_BYTES: Final = 16


def read_hash_key(name: str, option: str) -> bytes:
    """Read a key from a file, without the end of its last line.

    Raises ConfigError, with `option`, for a file that cannot be read, and for a key that is too short.
    """
    try:
        key = Path(name).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError([Problem(option, f"cannot be read: {error.strerror}")]) from None
    return checked_key(key, option)


def checked_key(key: bytes, option: str) -> bytes:
    """Return the key. Raises ConfigError if it is too short."""
    if len(key) < MIN_KEY_BYTES:
        hint = "create one with `openssl rand -hex 32`"
        raise ConfigError([Problem(option, f"the key has fewer than {MIN_KEY_BYTES} bytes", hint)])
    return key
