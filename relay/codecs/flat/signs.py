"""By what flat rows are known, which relay writes and does not read."""

from __future__ import annotations

from typing import Final

from relay.codecs.signs import Message, Sign, Strength

_NAMES: Final = ("__op", "__deleted")


def signs(message: Message) -> Sign | None:
    """Columns that say what happened to a row, as Debezium's ExtractNewRecordState adds them."""
    row = message.inside("payload") if "schema" in message.members else message.members
    name = next((name for name in _NAMES if name in row), "")
    if not name:
        return None
    title = "rows that Debezium's ExtractNewRecordState has flattened"
    return Sign(Strength.CERTAIN, title, f"member {name}")
