"""Messages of TiCDC Canal-JSON, their members in the order in which TiCDC writes them (since v6.5.0)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.canal.shared.messages import (
    ddl_type,
)
from relay.model.events import (
    DdlKind,
    SchemaChange,
)

NAME: Final = "ticdc-canal-json"


class TidbMembers(msgspec.Struct, omit_defaults=True, gc=False):
    """`_tidb`."""

    commitTs: int | UnsetType = UNSET
    watermarkTs: int | UnsetType = UNSET
    onlyHandleKey: bool | UnsetType = UNSET
    claimCheckLocation: str | UnsetType = UNSET
    rowkey: str | UnsetType = UNSET


class TicdcRowMessage(msgspec.Struct, gc=False):
    """A row: `old` comes before `data`."""

    id: int
    database: str
    table: str
    pkNames: list[str]
    isDdl: bool
    type: str
    es: int
    ts: int
    sql: str
    sqlType: msgspec.Raw
    mysqlType: msgspec.Raw
    old: list[dict[str, Any]] | None
    data: list[dict[str, Any]]
    tidb: TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


class ControlMessage(msgspec.Struct, gc=False):
    """A DDL statement or watermark: `data` comes before `old`."""

    id: int
    database: str
    table: str
    pkNames: None
    isDdl: bool
    type: str
    es: int
    ts: int
    sql: str
    sqlType: None
    mysqlType: None
    data: None
    old: None
    tidb: TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


#: DDL that TiCDC calls QUERY although it alters a table (TTL, exchange partition, and every action without a
#: separate type).
_QUERY_KINDS: Final = frozenset(
    {
        DdlKind.ALTER_TTL,
        DdlKind.REMOVE_TTL,
        DdlKind.EXCHANGE_PARTITION,
        DdlKind.ADD_CHECK,
        DdlKind.DROP_CHECK,
        DdlKind.ALTER_CHECK,
        DdlKind.ALTER_TABLE_OPTION,
    }
)


def ticdc_ddl_type(change: SchemaChange) -> str:
    """Return the `type` of a DDL message."""
    if len(change.kinds) > 1:
        return "ALTER"
    if change.kinds and change.kinds[0] in _QUERY_KINDS:
        return "QUERY"
    return ddl_type(change)
