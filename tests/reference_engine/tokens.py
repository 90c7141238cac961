"""JSON tokens of a message, what integers may be, and the misfit of a message."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from relay.templates.ops import Kind

#: How relay prints a value and parses a token, here as elsewhere.
print_value = msgspec.json.Encoder().encode
parse_token = msgspec.json.Decoder().decode

INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)")
#: What an integer may be in a message, and what a calculation may come to on its way.
INTEGERS: Final = range(-(1 << 63), 1 << 64)
CALCULATED: Final = range(-(1 << 127), 1 << 127)


class NoMatch(Exception):
    """The message does not fit."""


class Token(NamedTuple):
    """A JSON token, and what it means."""

    kind: Kind
    text: bytes
    value: object


#: By slot; None where a member is missing.
Tokens = list[Token | None]


def is_integer(text: bytes) -> bool:
    """Whether a text is an integer as messages have it, within 64 bits."""
    return len(text) <= 20 and INTEGER.fullmatch(text) is not None and text != b"-0" and int(text) in INTEGERS
