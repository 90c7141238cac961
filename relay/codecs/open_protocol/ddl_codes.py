"""TiDB's DDL actions: the number that Open Protocol has for a statement, and what it stands for.

Source: pingcap/tidb pkg/meta/model/job.go (ActionType); PingCAP "TiCDC Open Protocol", DDL type code, which
ends at 36.
"""

from __future__ import annotations

import re
from typing import Final

from relay.model import DdlKind, SchemaChange

_SEVERAL: Final = 61
_CODES: Final = {
    DdlKind.CREATE_DATABASE: 1,
    DdlKind.DROP_DATABASE: 2,
    DdlKind.CREATE_TABLE: 3,
    DdlKind.DROP_TABLE: 4,
    DdlKind.ADD_COLUMN: 5,
    DdlKind.DROP_COLUMN: 6,
    DdlKind.ADD_INDEX: 7,
    DdlKind.DROP_INDEX: 8,
    DdlKind.ADD_FOREIGN_KEY: 9,
    DdlKind.DROP_FOREIGN_KEY: 10,
    DdlKind.TRUNCATE_TABLE: 11,
    DdlKind.MODIFY_COLUMN: 12,
    DdlKind.RENAME_COLUMN: 12,
    DdlKind.REBASE_AUTO_ID: 13,
    DdlKind.RENAME_TABLE: 14,
    DdlKind.SET_DEFAULT: 15,
    DdlKind.TABLE_COMMENT: 17,
    DdlKind.RENAME_INDEX: 18,
    DdlKind.ADD_PARTITION: 19,
    DdlKind.DROP_PARTITION: 20,
    DdlKind.CREATE_VIEW: 21,
    DdlKind.TABLE_CHARSET: 22,
    DdlKind.TRUNCATE_PARTITION: 23,
    DdlKind.DROP_VIEW: 24,
    DdlKind.RECOVER_TABLE: 25,
    DdlKind.ALTER_DATABASE: 26,
    DdlKind.ADD_PRIMARY_KEY: 32,
    DdlKind.DROP_PRIMARY_KEY: 33,
    DdlKind.SEQUENCE: 34,
    DdlKind.ALTER_INDEX_VISIBILITY: 41,
    DdlKind.EXCHANGE_PARTITION: 42,
    DdlKind.ADD_CHECK: 43,
    DdlKind.DROP_CHECK: 44,
    DdlKind.ALTER_CHECK: 45,
    DdlKind.REORGANIZE_PARTITION: 64,
    DdlKind.ALTER_TTL: 65,
    DdlKind.REMOVE_TTL: 67,
    DdlKind.ALTER_PARTITIONING: 71,
    DdlKind.REMOVE_PARTITIONING: 72,
    DdlKind.ALTER_TABLE_OPTION: _SEVERAL,
    DdlKind.OTHER: 0,
}
#: What a number stands for; numbers that share a kind with another have no line above.
_KINDS: Final = {
    **{
        code: kind
        for kind, code in _CODES.items()
        if kind not in {DdlKind.RENAME_COLUMN, DdlKind.ALTER_TABLE_OPTION}
    },
    16: DdlKind.ALTER_TABLE_OPTION,  # shard row id
    29: DdlKind.OTHER,
    35: DdlKind.SEQUENCE,
    36: DdlKind.SEQUENCE,
    37: DdlKind.ADD_COLUMN,
    38: DdlKind.DROP_COLUMN,
    39: DdlKind.ALTER_TABLE_OPTION,  # auto id cache
    40: DdlKind.REBASE_AUTO_ID,  # auto random
    47: DdlKind.RENAME_TABLE,
    48: DdlKind.DROP_INDEX,
    60: DdlKind.CREATE_TABLE,
    73: DdlKind.ADD_INDEX,  # columnar
    230: DdlKind.ADD_INDEX,  # full text
    231: DdlKind.ADD_INDEX,  # hybrid
}
#: Codes of sequences by the statement's verb.
_SEQUENCES: Final = {"CREATE": 34, "ALTER": 35, "DROP": 36}
#: The words of other protocols for statements that nobody understood.
_WORDS: Final = {
    "CREATE": 3,
    "ALTER": _SEVERAL,
    "DROP": 4,
    "ERASE": 4,
    "RENAME": 14,
    "TRUNCATE": 11,
    "CINDEX": 7,
    "DINDEX": 8,
}
#: ALTER TABLE without a change: what is left of a change of TTL_ENABLE, which TiCDC does not send.
_NAME: Final = r"(?:`(?:[^`]|``)*`|[^\s`.;]+)"
_BARE: Final = re.compile(rf"\s*ALTER\s+TABLE\s+{_NAME}(?:\.{_NAME})?[\s;]*", re.IGNORECASE).fullmatch
_VERB: Final = re.compile(r"\s*([A-Za-z]+)").match


def kinds_of(code: int) -> tuple[DdlKind, ...]:
    """Return what a number tells of a statement whose text is not understood; () if it tells nothing."""
    kind = _KINDS.get(code)
    return () if kind is None or kind is DdlKind.OTHER else (kind,)


def code_of(change: SchemaChange) -> int:
    """Return a statement's number: the source's if any, else by what it does; several changes are 61."""
    if change.wire_kind.isdecimal() and len(change.wire_kind) < 4:
        return int(change.wire_kind)
    if not change.kinds:
        return _WORDS.get(change.wire_kind, 0)
    if len(change.kinds) > 1:
        return _SEVERAL
    if _BARE(change.ddl):
        return _CODES[DdlKind.ALTER_TTL]
    if change.kinds[0] is DdlKind.SEQUENCE:
        verb = _VERB(change.ddl)
        return _SEQUENCES.get(verb.group(1).upper() if verb else "", 0)
    return _CODES[change.kinds[0]]
