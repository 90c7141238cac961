"""The `type` of a DDL message, by its statement's action (pingcap/ticdc pkg/sink/codec/simple, 2026-08)."""

from __future__ import annotations

from typing import Final

from relay.model.events import DdlKind, SchemaChange

_ALTER, _QUERY = "ALTER", "QUERY"
_TYPES: Final = {
    DdlKind.CREATE_TABLE: "CREATE",
    DdlKind.DROP_TABLE: "ERASE",
    DdlKind.TRUNCATE_TABLE: "TRUNCATE",
    DdlKind.RENAME_TABLE: "RENAME",
    **dict.fromkeys((DdlKind.ADD_INDEX, DdlKind.ADD_PRIMARY_KEY, DdlKind.ADD_FOREIGN_KEY), "CINDEX"),
    **dict.fromkeys((DdlKind.DROP_INDEX, DdlKind.DROP_PRIMARY_KEY, DdlKind.DROP_FOREIGN_KEY), "DINDEX"),
    **dict.fromkeys(
        (
            DdlKind.CREATE_DATABASE,
            DdlKind.DROP_DATABASE,
            DdlKind.ALTER_DATABASE,
            DdlKind.CREATE_VIEW,
            DdlKind.DROP_VIEW,
            DdlKind.RECOVER_TABLE,
            DdlKind.ALTER_TTL,
            DdlKind.REMOVE_TTL,
            DdlKind.ADD_CHECK,
            DdlKind.DROP_CHECK,
            DdlKind.ALTER_CHECK,
            DdlKind.ALTER_TABLE_OPTION,
            DdlKind.SEQUENCE,
            DdlKind.ADMINISTRATION,
            DdlKind.OTHER,
        ),
        _QUERY,
    ),
}
DDL_TYPES: Final = frozenset({*_TYPES.values(), _ALTER})


def ddl_type(change: SchemaChange) -> str:
    """Return the type of a statement; one that was not understood keeps its source's, if Simple has that."""
    if len(change.kinds) > 1:
        return _ALTER
    if change.kinds:
        return _TYPES.get(change.kinds[0], _ALTER)
    return change.wire_kind if change.wire_kind in DDL_TYPES else _QUERY
