"""Parses the items of ALTER TABLE and the options of a table.

`alter_items` returns the changes of the whole statement in order. An item that is known to leave columns and
keys alone becomes an OtherChange. Unknown items raise DdlNotUnderstood: they may change a column, and a
definition without that change would be wrong. `name = value` is always an option, even if its name is
unknown. Sources: the grammars of MySQL 9, MariaDB 11 and TiDB 8.5 (`alter_list_item`, `alter_commands`,
`AlterTableSpec`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.model.errors import DdlNotUnderstood
from relay.model.events import DdlKind
from relay.mysql.ddl.columns import (
    charset_name,
    column_definition,
    column_name,
    default_value,
    key_or_constraint,
    table_name_parts,
)
from relay.mysql.ddl.statements import (
    AddColumn,
    Change,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    ModifyColumn,
    OtherChange,
    PartitionToTable,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    TableCharset,
    TableComment,
    TableName,
    TableToPartition,
)
from relay.mysql.ddl.tokens import Cursor

#: Maximum characters of a table's comment; servers truncate longer ones, or refuse the statement.
_LONGEST_COMMENT: Final = 2048


def table_name(cursor: Cursor) -> TableName:
    """Parse `table` or `database.table`."""
    return TableName(*table_name_parts(cursor))


def alter_items(cursor: Cursor) -> tuple[Change, ...]:
    """Parse the items of ALTER TABLE, from after the table's name to the end of the statement."""
    skip_lock_wait(cursor)
    changes: list[Change] = []
    while not cursor.at_end():
        start = cursor.peek().start
        found = _item(cursor)
        cursor.note_item(start, found)
        changes += found
        if cursor.look() == ")":
            raise DdlNotUnderstood("a closing parenthesis without an opening one")
        cursor.accept(",")  # options need no comma between them
    return tuple(_last_rename(changes)) or (OtherChange(DdlKind.ALTER_TABLE_OPTION),)


def skip_lock_wait(cursor: Cursor) -> None:
    """Skip MariaDB's `NOWAIT` and `WAIT n`."""
    if cursor.look() == "WAIT" and cursor.peek(1).kind == "number":
        cursor.take()
        cursor.take()
    else:
        cursor.accept("NOWAIT")


def _last_rename(changes: list[Change]) -> list[Change]:
    """Keep only the last of several RENAME TO, as the servers do."""
    renames = [change for change in changes if isinstance(change, RenameTo)]
    return [change for change in changes if not isinstance(change, RenameTo) or change is renames[-1]]


def _item(cursor: Cursor) -> list[Change]:
    reader = _ITEMS.get(cursor.look())
    if reader is None:
        return table_options(cursor)
    cursor.take()
    found = reader(cursor)
    if any(isinstance(change, OtherChange) for change in found):
        cursor.skip_item()
    elif cursor.look() in {"PARTITION", "REMOVE", "SPLIT"}:
        # `ADD COLUMN … PARTITION BY …` needs no comma (MySQL's grammar).
        found += _item(cursor)
    elif not cursor.at_item_end():
        raise _unknown(cursor)
    return found


def _unknown(cursor: Cursor) -> DdlNotUnderstood:
    return DdlNotUnderstood(f"{cursor.look()[:32] or cursor.peek().kind} in ALTER TABLE")


def _set(cursor: Cursor) -> list[Change]:
    """Parse TiDB's SET [HYPO] TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'."""
    cursor.accept("HYPO")
    cursor.expect("TIFLASH", "REPLICA")
    while not cursor.at_item_end() or (cursor.look() == "," and cursor.peek(1).kind == "string"):
        cursor.skip()
    return [OtherChange(DdlKind.ALTER_TABLE_OPTION)]


def _add(cursor: Cursor) -> list[Change]:
    if cursor.accept("PARTITION"):
        return [OtherChange(DdlKind.ADD_PARTITION)]
    change = key_or_constraint(cursor)
    if change is not None:
        return [change]
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.accept("("):
        return _several_columns(cursor, tolerant=tolerant)
    definition = column_definition(cursor)
    return [AddColumn(definition, _column_position(cursor), tolerant)]


def _several_columns(cursor: Cursor, *, tolerant: bool) -> list[Change]:
    changes: list[Change] = []
    while True:
        changes.append(key_or_constraint(cursor) or AddColumn(column_definition(cursor), None, tolerant))
        if cursor.accept(")"):
            return changes
        cursor.expect(",")


def _column_position(cursor: Cursor) -> str | None:
    if cursor.accept("FIRST"):
        return ""
    return column_name(cursor) if cursor.accept("AFTER") else None


def _drop(cursor: Cursor) -> list[Change]:
    if cursor.accept("PRIMARY", "KEY"):
        return [DropPrimaryKey()]
    if cursor.accept_any("INDEX", "KEY"):
        cursor.accept("IF", "EXISTS")
        return [drop_index(cursor)]
    if cursor.look() == "PARTITION":
        return _of_partition(DdlKind.DROP_PARTITION)(cursor)
    if cursor.accept("CONSTRAINT"):
        if cursor.accept("PRIMARY", "KEY"):
            return [DropPrimaryKey()]
        cursor.accept("IF", "EXISTS")
        dropped = drop_index(cursor)
        return [DropIndex(dropped.name, is_constraint=True) if isinstance(dropped, DropIndex) else dropped]
    for words, kind in _DROPPED.items():
        if cursor.accept(*words):
            return [OtherChange(kind)]
    is_column = cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    if not is_column and not tolerant and not _ends_after_name(cursor) and cursor.accept_any(*_NO_COLUMNS):
        return [OtherChange(DdlKind.OTHER)]
    name = column_name(cursor)
    cursor.accept_any("RESTRICT", "CASCADE")
    return [DropColumn(name, tolerant)]


#: `DROP STATS_EXTENDED s`, `DROP SYSTEM VERSIONING` and the like.
_NO_COLUMNS: Final = ("STATS_EXTENDED", "SYSTEM", "PERIOD", "MASKING")
_DROPPED: Final = {
    ("FOREIGN", "KEY"): DdlKind.DROP_FOREIGN_KEY,
    ("CHECK",): DdlKind.DROP_CHECK,
}


def _ends_after_name(cursor: Cursor) -> bool:
    """Return whether the item consists of the next name and nothing that cannot follow a column to drop."""
    return cursor.peek(1).kind == "end" or cursor.look(1) in _AFTER_DROPPED


_AFTER_DROPPED: Final = frozenset({",", ")", ";", ".", "RESTRICT", "CASCADE", "PARTITION", "REMOVE", "SPLIT"})


def drop_index(cursor: Cursor) -> Change:
    """Parse the name of the index to drop; the one named PRIMARY is the primary key."""
    name = cursor.name()
    return DropPrimaryKey() if name.upper() == "PRIMARY" else DropIndex(name)


def _modify(cursor: Cursor) -> list[Change]:
    if cursor.accept("MASKING", "POLICY"):
        return [OtherChange(DdlKind.OTHER)]
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    definition = column_definition(cursor)
    return [ModifyColumn(definition.column.name, definition, _column_position(cursor), tolerant)]


def _change(cursor: Cursor) -> list[Change]:
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    name = column_name(cursor)
    return [ModifyColumn(name, column_definition(cursor), _column_position(cursor), tolerant)]


def _rename(cursor: Cursor) -> list[Change]:
    if cursor.look() in {"COLUMN", "INDEX", "KEY"}:
        word = cursor.take().text.upper()
        tolerant = cursor.accept("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        new = cursor.name()
        return [RenameColumn(old, new, tolerant) if word == "COLUMN" else RenameIndex(old, new)]
    cursor.accept_any("TO", "AS", "=")
    return [RenameTo(table_name(cursor))]


def _alter(cursor: Cursor) -> list[Change]:
    if cursor.accept_any("INDEX", "KEY"):
        return _altered_with(cursor, DdlKind.ALTER_INDEX_VISIBILITY, "VISIBLE", "INVISIBLE", "IGNORED")
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        return _altered_with(cursor, DdlKind.ALTER_CHECK, "ENFORCED")
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    name = column_name(cursor)
    if cursor.accept("SET", "DEFAULT"):
        return [SetDefault(name, default_value(cursor), tolerant)]
    if cursor.accept("DROP", "DEFAULT"):
        return [SetDefault(name, None, tolerant)]
    if cursor.accept("SET", "VISIBLE") or cursor.accept("SET", "INVISIBLE"):
        return [OtherChange(DdlKind.MODIFY_COLUMN)]
    if cursor.accept("SET", "MASKING", "POLICY") or cursor.accept("DROP", "MASKING", "POLICY"):
        return [OtherChange(DdlKind.OTHER)]
    raise _unknown(cursor)


def _altered_with(cursor: Cursor, kind: DdlKind, *words: str) -> list[Change]:
    """Parse `[IF EXISTS] name [NOT] word`, where `word` is one of `words`."""
    cursor.accept("IF", "EXISTS")
    cursor.name()
    cursor.accept("NOT")
    if not cursor.accept_any(*words):
        raise _unknown(cursor)
    return [OtherChange(kind)]


def _convert(cursor: Cursor) -> list[Change]:
    if cursor.accept("PARTITION"):  # MariaDB: CONVERT PARTITION p TO TABLE t [WITH[OUT] VALIDATION]
        cursor.name()
        cursor.expect("TO", "TABLE")
        found: Change = PartitionToTable(table_name(cursor))
        cursor.skip_item()
        return [found]
    if cursor.accept("TABLE"):  # MariaDB: CONVERT TABLE t TO PARTITION p …
        found = TableToPartition(table_name(cursor))
        cursor.expect("TO", "PARTITION")
        cursor.skip_item()
        return [found]
    cursor.expect("TO")
    if not accept_charset(cursor):
        raise _unknown(cursor)
    return [TableCharset(*charset_and_collation(cursor), convert=True)]


def accept_charset(cursor: Cursor) -> bool:
    """Skip `CHARACTER SET` in one of its spellings if it comes next; return whether it did."""
    return cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET")


def charset_and_collation(cursor: Cursor) -> tuple[str | None, str | None]:
    """Parse the value of `CHARACTER SET`, and a COLLATE after it. DEFAULT (the database's) becomes None."""
    charset, collation = charset_name(cursor), charset_name(cursor) if cursor.accept("COLLATE") else None
    return None if charset == "default" else charset, None if collation == "default" else collation


def _exchange(cursor: Cursor) -> list[Change]:
    cursor.expect("PARTITION")
    cursor.name()
    cursor.expect("WITH", "TABLE")
    return [OtherChange(DdlKind.EXCHANGE_PARTITION, table_name(cursor))]


def _remove(cursor: Cursor) -> list[Change]:
    if cursor.accept("TTL"):
        return [OtherChange(DdlKind.REMOVE_TTL)]
    cursor.expect("PARTITIONING")
    return [OtherChange(DdlKind.REMOVE_PARTITIONING)]


def _partition(cursor: Cursor) -> list[Change]:
    """Parse PARTITION BY …; or PARTITION p0 with a placement policy or attributes."""
    if not cursor.accept("BY"):
        return [OtherChange(DdlKind.ALTER_TABLE_OPTION)]
    # The clause extends to the end of the statement, and its commas do not separate items.
    while not cursor.at_end():
        cursor.skip()
    return [OtherChange(DdlKind.ALTER_PARTITIONING)]


def _to_the_end(cursor: Cursor) -> list[Change]:
    """Parse TiDB's ANALYZE PARTITION p0 INDEX a, b; COMPACT PARTITION p0, p1 TIFLASH REPLICA."""
    if not cursor.at_item_end() and cursor.look() not in {"PARTITION", "TIFLASH"}:
        raise _unknown(cursor)
    is_alone = not cursor.accept("PARTITION")
    while not (cursor.at_item_end() if is_alone else cursor.at_end()):
        cursor.skip()
    return [OtherChange(DdlKind.OTHER)]


def _of_partition(kind: DdlKind) -> Callable[[Cursor], list[Change]]:
    """Return the parser of `<verb> PARTITION p0, p1 …`, of this kind, and of `DISCARD TABLESPACE`."""

    def read(cursor: Cursor) -> list[Change]:
        if cursor.accept("TABLESPACE"):
            return [OtherChange(DdlKind.OTHER)]
        if cursor.look() != "PARTITION" and cursor.look(1) != "PARTITION":
            raise _unknown(cursor)
        _skip_partition_names(cursor)
        return [OtherChange(kind)]

    return read


def _skip_partition_names(cursor: Cursor) -> None:
    """Skip `p0, p1`, which is one item despite its comma; the token after a name shows that."""
    while not cursor.at_end():
        if cursor.look() == ",":
            is_name = cursor.peek(1).kind in {"word", "name"}
            if not is_name or cursor.look(2) not in _AFTER_PARTITIONS:
                return
        cursor.skip()


#: Tokens after the name of a partition: another name, or an operation on it.
_AFTER_PARTITIONS: Final = frozenset(
    {
        *("", ",", ";", "INTO", "TABLESPACE"),
        *("FOR", "QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM"),
    }
)


def _order(cursor: Cursor) -> list[Change]:
    """Parse ORDER BY a, b DESC: commas separate columns, as long as columns follow them."""
    cursor.expect("BY")
    while not cursor.at_item_end() or (cursor.look() == "," and _orders_by(cursor)):
        cursor.skip()
    return [OtherChange(DdlKind.OTHER)]


def _orders_by(cursor: Cursor) -> bool:
    """Return whether the comma is followed by a column to order by, rather than by another item."""
    is_last = cursor.peek(2).kind == "end"
    return cursor.peek(1).kind in {"word", "name"} and (is_last or cursor.look(2) in _AFTER_ORDERED)


_AFTER_ORDERED: Final = frozenset({",", ";", ".", "ASC", "DESC"})


def _split(cursor: Cursor) -> list[Change]:
    """Parse SPLIT MAXVALUE PARTITION …; or TiDB's SPLIT of a table's or an index's regions."""
    if cursor.look() in {"BETWEEN", "INDEX", "PRIMARY"}:
        return [OtherChange(DdlKind.OTHER)]
    return _of_partition(DdlKind.REORGANIZE_PARTITION)(cursor)


def _force(cursor: Cursor) -> list[Change]:
    if cursor.at_item_end():
        return [OtherChange(DdlKind.ALTER_TABLE_OPTION)]
    return table_options(cursor)  # TiDB: FORCE AUTO_INCREMENT = 5


_ITEMS: Final[dict[str, Callable[[Cursor], list[Change]]]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
    "EXCHANGE": _exchange,
    "REMOVE": _remove,
    "FORCE": _force,
    "ORDER": _order,
    "SET": _set,
    "PARTITION": _partition,
    "TRUNCATE": _of_partition(DdlKind.TRUNCATE_PARTITION),
    "REORGANIZE": _of_partition(DdlKind.REORGANIZE_PARTITION),
    "COALESCE": _of_partition(DdlKind.REORGANIZE_PARTITION),
    "MERGE": _of_partition(DdlKind.REORGANIZE_PARTITION),
    "SPLIT": _split,
    "FIRST": _of_partition(DdlKind.DROP_PARTITION),
    "LAST": _of_partition(DdlKind.ADD_PARTITION),
    "ANALYZE": _to_the_end,
    "COMPACT": _to_the_end,
    "CHECK": _of_partition(DdlKind.OTHER),
    "OPTIMIZE": _of_partition(DdlKind.OTHER),
    "REBUILD": _of_partition(DdlKind.OTHER),
    "REPAIR": _of_partition(DdlKind.OTHER),
    "DISCARD": _of_partition(DdlKind.OTHER),
    "IMPORT": _of_partition(DdlKind.OTHER),
}
#: Options that control the execution of the statement, not its effect.
_HOW: Final = frozenset({"ALGORITHM", "LOCK"})
_OPTION_KINDS: Final = {
    "AUTO_INCREMENT": DdlKind.REBASE_AUTO_ID,
    "AUTO_RANDOM_BASE": DdlKind.REBASE_AUTO_ID,
    "TTL": DdlKind.ALTER_TTL,
    "TTL_ENABLE": DdlKind.ALTER_TTL,
    "TTL_JOB_INTERVAL": DdlKind.ALTER_TTL,
}
#: Table options whose value needs no `=`.
_VALUED_OPTIONS: Final = frozenset(
    {
        *("AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "DELAY_KEY_WRITE"),
        *("ENCRYPTION", "ENGINE", "ENGINE_ATTRIBUTE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS"),
        *("MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "STATS_AUTO_RECALC"),
        *("SECONDARY_ENGINE_ATTRIBUTE", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE", "UNION"),
        *("STORAGE", "TYPE", "TABLE_CHECKSUM", "PAGE_CHECKSUM", "TRANSACTIONAL", "SEQUENCE", "IETF_QUOTES"),
        *("NODEGROUP", "AFFINITY", "ATTRIBUTES", "PLACEMENT", "AUTO_ID_CACHE", "SHARD_ROW_ID_BITS"),
        *("PRE_SPLIT_REGIONS", "STATS_BUCKETS", "STATS_TOPN", "STATS_COL_CHOICE", "STATS_COL_LIST"),
        *("FILE_FORMAT", "FILES", "ALLOW_MISSING_FILES", "VERIFY_KEY_CONSTRAINTS", "STRICT_LOAD"),
        *("AUTO_REFRESH", "AUTO_REFRESH_SOURCE"),
        *("STATS_SAMPLE_RATE", "STATS_OPTIONS", "STORAGE_CLASS", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL"),
    }
)
#: Clauses of one or two keywords, with the rest of the item, by the first keyword; `""` means no second one.
_CLAUSES: Final = {
    "ENABLE": {"KEYS", "MASKING"},
    "DISABLE": {"KEYS", "MASKING"},
    "READ": {"ONLY", "WRITE"},
    "START": {"TRANSACTION"},
    "SECONDARY_LOAD": {"", "PARTITION", "WITH", "VALIDATE", "GUIDED"},
    "SECONDARY_UNLOAD": {"", "PARTITION", "WITH"},
    "CACHE": {""},
    "NOCACHE": {""},
    "WITH": {"SYSTEM"},
}
_CLAUSE_KINDS: Final = dict.fromkeys(("ENABLE", "DISABLE", "CACHE", "NOCACHE"), DdlKind.ALTER_TABLE_OPTION)


def table_options(cursor: Cursor) -> list[Change]:
    """Parse table options up to the next comma: one change of each kind, in order."""
    changes: dict[Change, None] = {}
    while not cursor.at_item_end() and cursor.look() not in _ITEMS:
        change = table_option(cursor)
        if change is not None:
            changes[change] = None
    return merged(list(changes))


def table_option(cursor: Cursor) -> Change | None:
    """Parse one option; return None for one that only controls the execution of the statement."""
    cursor.accept("DEFAULT")
    if accept_charset(cursor):
        return TableCharset(*charset_and_collation(cursor))
    if cursor.accept("COLLATE"):
        collation = charset_name(cursor)
        return TableCharset(None, None if collation == "default" else collation)
    if cursor.accept("COMMENT"):
        cursor.accept("=")
        return TableComment(cursor.string()[:_LONGEST_COMMENT])
    return _other_option(cursor)


def _other_option(cursor: Cursor) -> Change | None:
    """Parse an option that does not affect the definition; return None as `table_option` does."""
    word = cursor.look()
    if cursor.peek().kind == "name" and cursor.look(1) == "=":  # MariaDB's engine options: `encrypted`=yes
        return _option_of_engine(cursor)
    if not word.isidentifier():
        raise DdlNotUnderstood("an option is missing")
    if word in _CLAUSES and (cursor.look(1) if cursor.peek(1).kind == "word" else "") in _CLAUSES[word]:
        cursor.skip_item()
        return OtherChange(_CLAUSE_KINDS.get(word, DdlKind.OTHER))
    cursor.take()
    if word in {"WITH", "WITHOUT"} and cursor.accept("VALIDATION"):
        return None
    if word == "STORAGE":
        cursor.accept("ENGINE")
    if cursor.look(1) == "=":
        cursor.accept_any("DIRECTORY", "RETENTION")  # DATA DIRECTORY, TiDB: SOFTDELETE RETENTION
    has_sign = cursor.look() in {"=", "POLICY"}
    if not (has_sign or word in _VALUED_OPTIONS or word in _OPTION_KINDS or word in _HOW):
        if cursor.accept_any("DIRECTORY"):  # without `=`
            cursor.string()
            return OtherChange(DdlKind.ALTER_TABLE_OPTION)
        raise DdlNotUnderstood(f"{word[:32]} in ALTER TABLE")
    _skip_value(cursor)
    return None if word in _HOW else OtherChange(_OPTION_KINDS.get(word, DdlKind.ALTER_TABLE_OPTION))


def _option_of_engine(cursor: Cursor) -> Change:
    """Parse MariaDB's `` `name` = value ``."""
    cursor.take()
    _skip_value(cursor)
    return OtherChange(DdlKind.ALTER_TABLE_OPTION)


def _skip_value(cursor: Cursor) -> None:
    """Skip `[=] value`, including an entire expression such as `at + INTERVAL 1 DAY`."""
    if cursor.accept("POLICY"):
        cursor.accept("SET")  # TiDB: PLACEMENT POLICY SET DEFAULT
    if not cursor.accept("="):
        is_missing = cursor.at_item_end() or cursor.peek(1).text == "="
        if is_missing or (cursor.look() in _ITEMS and cursor.look() not in _INSERT_METHODS):
            raise DdlNotUnderstood("the value of an option is missing")
        cursor.skip()
        return
    cursor.skip()
    while cursor.accept_any("+", "-"):
        cursor.accept("INTERVAL")
        cursor.skip()
        if cursor.look(1) != "=":
            cursor.accept_any(*_TIME_UNITS)


#: Values of INSERT_METHOD that are also the first keywords of items.
_INSERT_METHODS: Final = frozenset({"FIRST", "LAST"})
#: Units of an INTERVAL (MySQL Reference Manual 8.4 §11.5).
_TIME_UNITS: Final = (
    *("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
    *("SECOND_MICROSECOND", "MINUTE_MICROSECOND", "MINUTE_SECOND", "HOUR_MICROSECOND", "HOUR_SECOND"),
    *("HOUR_MINUTE", "DAY_MICROSECOND", "DAY_SECOND", "DAY_MINUTE", "DAY_HOUR", "YEAR_MONTH"),
)


def skip_option(cursor: Cursor) -> None:
    """Skip a keyword or option of CREATE TABLE that does not affect the definition.

    Of an option whose value is an expression, the rest of the expression may remain.
    """
    if cursor.look() == "(":
        cursor.skip_parentheses()
        return
    word = cursor.take().text.upper()
    if word == "PLACEMENT" and cursor.accept("POLICY"):
        cursor.accept("SET")
    elif word == "STORAGE":
        cursor.accept("ENGINE")
    has_value = cursor.accept("=") or word in _VALUED_OPTIONS
    if has_value and not cursor.at_end():
        cursor.skip()


def merged(changes: list[Change]) -> list[Change]:
    """Merge successive CHARSET and COLLATE options into one change."""
    charsets = [change for change in changes if isinstance(change, TableCharset)]
    if len(charsets) < 2:
        return changes
    charset = next((change.charset for change in charsets if change.charset), None)
    collation = next((change.collation for change in reversed(charsets) if change.collation), None)
    at = changes.index(charsets[0])
    return [
        *changes[:at],
        TableCharset(charset, collation),
        *(c for c in changes[at:] if not isinstance(c, TableCharset)),
    ]
