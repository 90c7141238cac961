"""Column defaults in TiDB's stored form, including those that TiDB adds to a definition.

Pure functions of a column. Source: pingcap/tidb pkg/ddl/add_column.go (implied defaults).
"""

from __future__ import annotations

import re
from typing import Final

from relay.model.events import ABSENT, Column, Default
from relay.mysql.types import FRACTIONAL, default_bytes, default_text

#: The default that means the time of the insertion.
NOW: Final = "CURRENT_TIMESTAMP"
_ZERO: Final = "0000-00-00 00:00:00"


def stored_default(column: Column) -> str | None:
    """Return the text of the default in TiDB's stored form, `NOW` for every CURRENT_TIMESTAMP; None if there
    is none, or it is another expression.

    A column that cannot be NULL gets a default from its type if the definition has none: YEAR `0000`,
    TIMESTAMP the time of the insertion.
    """
    default = column.default
    if isinstance(default, Default) and default.text is not None:
        return _stored(column, default)
    if default is ABSENT and column.nullable is False:
        if column.type.base == "year":
            return "0000"
        if column.type.base == "timestamp":
            return _ZERO if column.on_update else NOW
    return None


def _stored(column: Column, default: Default) -> str | None:
    text, base = default.text or "", column.type.base
    if default.is_expression:
        return NOW if text.upper().startswith(NOW) and base in FRACTIONAL else None
    if base == "binary":
        return default_text(default_bytes(text).ljust(column.type.length or 0, b"\0"))
    if base in FRACTIONAL and column.type.length and ":" in text:
        whole, _, digits = text.partition(".")
        return f"{whole}.{digits.ljust(column.type.length, '0')}"
    return text


def sequence_default(column: Column, database: str) -> str | None:
    """Return a default that is the next value of a sequence, in TiDB's stored form:
    ``nextval(`database`.`sequence`)``; None for any other.
    """
    default = column.default
    if not isinstance(default, Default) or not default.is_expression:
        return None
    found = next_value(default.text or "")
    if found is None:
        return None
    return f"nextval(`{found[1] or found[2] or database}`.`{found[3] or found[4]}`)"


_NAME: Final = r"(?:`([^`.()]++)`|([^`.()\s]++))"
#: Matches an expression that is the next value of a sequence.
next_value: Final = re.compile(
    rf"(?:NEXTVAL\s*+\(|NEXT\s++VALUE\s++FOR(?=[\s`]))\s*+(?:{_NAME}\s*+\.\s*+)?{_NAME}\s*+\)?", re.IGNORECASE
).fullmatch
