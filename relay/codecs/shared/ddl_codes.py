"""TiDB's DDL actions: the number of a statement in Open Protocol and in TiCDC Avro, and its meaning.

A statement whose change has one number for all its forms has it in `_CODES`; others are distinguished by
their words (`_number_by_words`). Some numbers belong to no statement: 31 (TiFlash reports a replica), 60
(several CREATE TABLEs of a restore at once; TiCDC sends each with 3), and 75 to 77 (TiDB's own tools).

Source: pingcap/tidb pkg/meta/model/job.go (ActionType, 2026); pingcap/ticdc pkg/filter/ddl.go (230 and 231,
which are TiCDC's own); PingCAP "TiCDC Open Protocol", DDL type code, which ends at 36.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from relay.catalog import Catalog, DdlMessage, apply_ddl
from relay.codecs.losses import Loss, is_administration
from relay.codecs.shared.ticdc import is_restored
from relay.model.errors import DdlNotUnderstood
from relay.model.events import DdlKind, Event, SchemaChange
from relay.mysql.ddl.tokens import tokenize

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
    DdlKind.ADMINISTRATION: 0,
    DdlKind.OTHER: 0,
}
#: Kinds by number, for numbers that share a kind with another and have no line above.
_KINDS: Final = {
    **{
        code: kind
        for kind, code in _CODES.items()
        if kind not in {DdlKind.RENAME_COLUMN, DdlKind.ALTER_TABLE_OPTION, DdlKind.ADMINISTRATION}
    },
    16: DdlKind.ALTER_TABLE_OPTION,  # shard row id
    34: DdlKind.SEQUENCE,
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
#: Numbers by the first words of a statement.
_STATEMENTS: Final = {
    ("CREATE", "TEMPORARY"): 3,
    ("CREATE", "GLOBAL", "TEMPORARY"): 3,
    ("DROP", "TEMPORARY"): 4,
    ("DROP", "GLOBAL", "TEMPORARY"): 4,
    ("LOCK", "TABLE"): 27,
    ("LOCK", "TABLES"): 27,
    ("UNLOCK", "TABLE"): 28,
    ("UNLOCK", "TABLES"): 28,
    ("ADMIN", "CLEANUP", "TABLE", "LOCK"): 28,
    ("ADMIN", "REPAIR", "TABLE"): 29,
    ("REPAIR",): 29,
    ("CREATE", "SEQUENCE"): 34,
    ("ALTER", "SEQUENCE"): 35,
    ("DROP", "SEQUENCE"): 36,
    ("CREATE", "PLACEMENT", "POLICY"): 51,
    ("CREATE", "OR", "REPLACE", "PLACEMENT", "POLICY"): 51,
    ("ALTER", "PLACEMENT", "POLICY"): 52,
    ("DROP", "PLACEMENT", "POLICY"): 53,
    ("FLASHBACK", "CLUSTER"): 62,
    ("FLASHBACK", "DATABASE"): 63,
    ("FLASHBACK", "SCHEMA"): 63,
    ("CREATE", "RESOURCE", "GROUP"): 68,
    ("ALTER", "RESOURCE", "GROUP"): 69,
    ("DROP", "RESOURCE", "GROUP"): 70,
    ("CREATE", "VECTOR"): 73,
    ("CREATE", "COLUMNAR"): 73,
    ("CREATE", "FULLTEXT"): 230,
    ("CREATE", "HYBRID"): 231,
}
_LONGEST: Final = max(map(len, _STATEMENTS))
#: Numbers of ALTER TABLE by a word after the table's name, and those of a statement about one partition.
_OPTIONS: Final = {
    "AUTO_INCREMENT": 13,
    "SHARD_ROW_ID_BITS": 16,
    "TIFLASH": 30,
    "AUTO_ID_CACHE": 39,
    "AUTO_RANDOM_BASE": 40,
    "ATTRIBUTES": 49,
    "PLACEMENT": 56,
    "CACHE": 57,
    "STATS_OPTIONS": 58,
    "NOCACHE": 59,
    "ENGINE_ATTRIBUTE": 74,
}
#: Numbers of ALTER TABLE … ADD by its next word.
_INDEXES: Final = {"VECTOR": 73, "COLUMNAR": 73, "FULLTEXT": 230, "HYBRID": 231}
_OF_PARTITION: Final = {"ATTRIBUTES": 50, "PLACEMENT": 54}
_OF_DATABASE: Final = {"TIFLASH": 30, "PLACEMENT": 55}
#: Words before a name or a value, which is not an option itself.
_BEFORE_VALUES: Final = frozenset({"=", "POLICY", "PARTITION"})
#: Kinds with several numbers.
_COARSE: Final = frozenset(
    {
        DdlKind.ALTER_TABLE_OPTION,
        DdlKind.ALTER_DATABASE,
        DdlKind.ADD_INDEX,
        DdlKind.REBASE_AUTO_ID,
        DdlKind.SEQUENCE,
        DdlKind.ADMINISTRATION,
        DdlKind.OTHER,
    }
)
#: Numbers by other protocols' types, for statements that were not understood.
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
#: ALTER TABLE without a change: the rest of a change of TTL_ENABLE, which TiCDC does not send.
_NAME: Final = r"(?:`(?:[^`]|``)*`|[^\s`.;]+)"
_BARE: Final = re.compile(rf"\s*ALTER\s+TABLE\s+{_NAME}(?:\.{_NAME})?[\s;]*", re.IGNORECASE).fullmatch


def kinds_of(code: int) -> tuple[DdlKind, ...]:
    """Return the possible kinds for the number of a statement that was not understood; () if none."""
    kind = _KINDS.get(code)
    return () if kind is None or kind is DdlKind.OTHER else (kind,)


def code_of(change: SchemaChange) -> int:
    """Return a statement's number: the source's if any, else by its change; several changes are 61."""
    if change.wire_kind.isdecimal() and len(change.wire_kind) < 4:
        return int(change.wire_kind)
    if len(change.kinds) > 1:
        return _SEVERAL
    if _BARE(change.ddl):
        return _CODES[DdlKind.ALTER_TTL]
    kind = change.kinds[0] if change.kinds else None
    if kind is None or kind in _COARSE:
        number = _number_by_words(change.ddl)
        if number is not None:
            return number
    return _WORDS.get(change.wire_kind, 0) if kind is None else _CODES.get(kind, 0)


def _number_by_words(sql: str) -> int | None:
    """Return the number of a statement that is identified by its words; None for all others."""
    words = _words(sql)
    if words[:1] == ["FLASHBACK"] and "TIMESTAMP" in words[2:]:
        return _STATEMENTS["FLASHBACK", "CLUSTER"]
    for length in range(_LONGEST, 0, -1):
        number = _STATEMENTS.get(tuple(words[:length]))
        if number is not None:
            return number
    if words[:1] != ["ALTER"]:
        return None
    if words[1:2] == ["TABLE"]:
        return _number_of_options(words)
    return next((_OF_DATABASE[word] for word in words[2:] if word in _OF_DATABASE), None)


def _number_of_options(words: list[str]) -> int | None:
    """Return the number of an ALTER TABLE with these words: one change, or several options."""
    at = 4 if words[2:4] == ["IF", "EXISTS"] else 2
    at += 3 if words[at + 1 : at + 2] == ["."] else 1
    if words[at : at + 1] == ["ADD"]:
        return next((_INDEXES[word] for word in words[at + 1 : at + 2] if word in _INDEXES), None)
    if words[at : at + 1] == ["COMPACT"]:
        return None
    numbers = _OPTIONS | _OF_PARTITION if words[at : at + 1] == ["PARTITION"] else _OPTIONS
    named = [
        word for before, word in pairwise(words[at - 1 :]) if word in numbers and before not in _BEFORE_VALUES
    ]
    if not named:
        return None
    return numbers[named[0]] if len(named) == 1 and words.count("=") < 2 else _SEVERAL


def _words(sql: str) -> list[str]:
    """Return a statement's plain words in upper case and its punctuation, without parenthesized text; "" for
    names in quotes, literals and numbers.
    """
    try:
        tokens = tokenize(sql, backslash_escapes=not is_restored(sql))
    except DdlNotUnderstood:
        return []
    words, depth = [], 0
    for token in tokens:
        word = token.text.upper() if token.kind in {"word", "mark"} else ""
        depth -= word == ")"
        if not depth:
            words.append(word)
        depth += word == "("
    return words


def ddl_events(
    message: DdlMessage, catalog: Catalog, losses: list[Loss], *, is_certain: bool = True
) -> tuple[list[Event], Catalog]:
    """Return the event of a DDL message and the catalog after it; statements that are not understood are
    counted.

    `is_certain`: the message itself is marked as DDL. Otherwise a statement that changes no table, or a text
    that cannot be such a statement, has no event.
    """
    learned, change = apply_ddl(catalog, message)
    if not is_certain and is_administration(change):
        losses.append(Loss.ADMIN_STATEMENT)
        return [], catalog
    if change.kinds:
        return [change], learned
    if not is_certain and learned is catalog:
        losses.append(Loss.STATEMENT)
        return [], catalog
    losses.append(Loss.DDL_NOT_UNDERSTOOD)
    return [change], learned
