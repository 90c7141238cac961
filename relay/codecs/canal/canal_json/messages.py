"""Messages of Canal's JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

NAME: Final = "canal-json"


class FlatMessage(msgspec.Struct, gc=False):
    """A message as relay writes it."""

    data: list[dict[str, Any]] | None
    database: str
    es: int
    gtid: str
    id: int
    isDdl: bool
    mysqlType: msgspec.Raw
    old: list[dict[str, Any]] | None
    pkNames: list[str] | None
    sql: str
    sqlType: msgspec.Raw
    table: str
    ts: int
    type: str
