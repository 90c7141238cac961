"""Reads the items of ALTER TABLE and the options of a table.

Contract: `alter_items` gives the changes of the whole statement in their order. An item that is not known
becomes an OtherChange and is stepped over up to the next comma, so that one new option of a newer server does
not hide the columns that are added. Source: MySQL Reference Manual 8.4 §15.1.9 (ALTER TABLE), TiDB "ALTER
TABLE".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.errors import DdlNotUnderstood
from relay.model import DdlKind
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
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    TableCharset,
    TableComment,
    TableName,
)
from relay.mysql.ddl.tokens import Cursor

#: Characters of a table's comment; servers cut off what is longer, or refuse the statement.
_LONGEST_COMMENT: Final = 2048


def table_name(cursor: Cursor) -> TableName:
    """Read `table` or `database.table`."""
    return TableName(*table_name_parts(cursor))


def alter_items(cursor: Cursor) -> tuple[Change, ...]:
    """Read the items of ALTER TABLE, from behind the table's name to the end of the statement."""
    changes: list[Change] = []
    while not cursor.at_end():
        changes += _item(cursor)
        if cursor.look() == ")":
            raise DdlNotUnderstood("a parenthesis is closed that was not opened")
        cursor.accept(",")  # options follow one another without one
    return tuple(changes) or (OtherChange(DdlKind.ALTER_TABLE_OPTION),)


def _item(cursor: Cursor) -> list[Change]:
    reader = _ITEMS.get(cursor.look())
    if reader is None:
        return table_options(cursor)
    cursor.take()
    found = reader(cursor)
    if any(isinstance(change, OtherChange) for change in found):
        cursor.skip_item()
    elif cursor.look() in {"PARTITION", "REMOVE"}:
        # `ADD COLUMN … PARTITION BY …` needs no comma (MySQL's grammar).
        found += _item(cursor)
    return found


def _set(cursor: Cursor) -> list[Change]:
    """TiDB: SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'."""
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
    return [AddColumn(definition, _place(cursor), tolerant)]


def _several_columns(cursor: Cursor, *, tolerant: bool) -> list[Change]:
    changes: list[Change] = []
    while True:
        changes.append(key_or_constraint(cursor) or AddColumn(column_definition(cursor), None, tolerant))
        if cursor.accept(")"):
            return changes
        cursor.expect(",")


def _place(cursor: Cursor) -> str | None:
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
        cursor.accept("IF", "EXISTS")
        return [DropIndex(cursor.name(), is_constraint=True)]
    for words, kind in _DROPPED.items():
        if cursor.accept(*words):
            return [OtherChange(kind)]
    is_column = cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    if not is_column and not tolerant and not _ends_after_name(cursor):
        return [OtherChange(DdlKind.OTHER)]  # DROP STATS_EXTENDED s, DROP SYSTEM VERSIONING
    name = column_name(cursor)
    cursor.accept_any("RESTRICT", "CASCADE")
    return [DropColumn(name, tolerant)]


_DROPPED: Final = {
    ("FOREIGN", "KEY"): DdlKind.DROP_FOREIGN_KEY,
    ("CHECK",): DdlKind.DROP_CHECK,
}


def _ends_after_name(cursor: Cursor) -> bool:
    """Whether the item is the next name and no more than may stand behind a column to drop."""
    return cursor.peek(1).kind == "end" or cursor.look(1) in _AFTER_DROPPED


_AFTER_DROPPED: Final = frozenset({",", ")", ";", ".", "RESTRICT", "CASCADE", "PARTITION", "REMOVE"})


def drop_index(cursor: Cursor) -> Change:
    """Read the name of the index to drop; the one named PRIMARY is the primary key."""
    name = cursor.name()
    return DropPrimaryKey() if name.upper() == "PRIMARY" else DropIndex(name)


def _modify(cursor: Cursor) -> list[Change]:
    if cursor.accept("MASKING", "POLICY"):
        return [OtherChange(DdlKind.OTHER)]
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    definition = column_definition(cursor)
    return [ModifyColumn(definition.column.name, definition, _place(cursor), tolerant)]


def _change(cursor: Cursor) -> list[Change]:
    cursor.accept("COLUMN")
    tolerant = cursor.accept("IF", "EXISTS")
    name = column_name(cursor)
    return [ModifyColumn(name, column_definition(cursor), _place(cursor), tolerant)]


def _rename(cursor: Cursor) -> list[Change]:
    if cursor.look() in {"COLUMN", "INDEX", "KEY"}:
        word = cursor.take().text.upper()
        cursor.accept("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        new = cursor.name()
        return [RenameColumn(old, new) if word == "COLUMN" else RenameIndex(old, new)]
    cursor.accept_any("TO", "AS", "=")
    return [RenameTo(table_name(cursor))]


def _alter(cursor: Cursor) -> list[Change]:
    if cursor.accept_any("INDEX", "KEY"):
        return [OtherChange(DdlKind.ALTER_INDEX_VISIBILITY)]
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        return [OtherChange(DdlKind.ALTER_CHECK)]
    cursor.accept("COLUMN")
    cursor.accept("IF", "EXISTS")
    name = column_name(cursor)
    if cursor.accept("SET", "DEFAULT"):
        return [SetDefault(name, default_value(cursor))]
    if cursor.accept("DROP", "DEFAULT"):
        return [SetDefault(name, None)]
    return [OtherChange(DdlKind.MODIFY_COLUMN)]  # SET VISIBLE, SET INVISIBLE


def _convert(cursor: Cursor) -> list[Change]:
    if cursor.accept("PARTITION"):  # MariaDB: CONVERT PARTITION p TO TABLE t
        cursor.name()
        cursor.expect("TO", "TABLE")
        return [OtherChange(DdlKind.ALTER_PARTITIONING, table_name(cursor))]
    if cursor.accept("TABLE"):  # MariaDB: CONVERT TABLE t TO PARTITION p …
        return [OtherChange(DdlKind.ALTER_PARTITIONING, table_name(cursor))]
    cursor.expect("TO")
    if not (cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET")):
        return [OtherChange(DdlKind.OTHER)]
    charset = charset_name(cursor)
    return [TableCharset(None if charset == "default" else charset, _collation(cursor), convert=True)]


def _collation(cursor: Cursor) -> str | None:
    return charset_name(cursor) if cursor.accept("COLLATE") else None


def _exchange(cursor: Cursor) -> list[Change]:
    cursor.expect("PARTITION")
    cursor.name()
    cursor.expect("WITH", "TABLE")
    return [OtherChange(DdlKind.EXCHANGE_PARTITION, table_name(cursor))]


def _remove(cursor: Cursor) -> list[Change]:
    if cursor.accept("TTL"):
        return [OtherChange(DdlKind.REMOVE_TTL)]
    return [OtherChange(DdlKind.REMOVE_PARTITIONING if cursor.accept("PARTITIONING") else DdlKind.OTHER)]


def _partition(cursor: Cursor) -> list[Change]:
    """PARTITION BY …; or PARTITION p0 with a placement policy or attributes."""
    if not cursor.accept("BY"):
        return [OtherChange(DdlKind.ALTER_TABLE_OPTION)]
    # The clause goes to the end of the statement, and its commas separate no items.
    while not cursor.at_end():
        cursor.skip()
    return [OtherChange(DdlKind.ALTER_PARTITIONING)]


def _of_partition(kind: DdlKind) -> Callable[[Cursor], list[Change]]:
    """`<verb> PARTITION p0, p1 …` is of this kind; a verb without PARTITION is something else."""

    def read(cursor: Cursor) -> list[Change]:
        if cursor.look() != "PARTITION" and cursor.look(1) != "PARTITION":
            return [OtherChange(DdlKind.OTHER)]
        _skip_partition_names(cursor)
        return [OtherChange(kind)]

    return read


def _skip_partition_names(cursor: Cursor) -> None:
    """`p0, p1` is one item despite its comma; a comma, INTO, TABLESPACE or the end follows a name there."""
    while not cursor.at_end():
        if cursor.look() == ",":
            is_name = cursor.peek(1).kind in {"word", "name"}
            if not is_name or cursor.look(2) not in {"", ",", ";", "INTO", "TABLESPACE"}:
                return
        cursor.skip()


def _order(cursor: Cursor) -> list[Change]:
    """ORDER BY a, b DESC: commas separate columns, as long as columns follow them."""
    cursor.expect("BY")
    while not cursor.at_item_end() or (cursor.look() == "," and _orders_by(cursor)):
        cursor.skip()
    return [OtherChange(DdlKind.OTHER)]


def _orders_by(cursor: Cursor) -> bool:
    """Whether a column to order by follows the comma, and not another item."""
    is_last = cursor.peek(2).kind == "end"
    return cursor.peek(1).kind in {"word", "name"} and (is_last or cursor.look(2) in _AFTER_ORDERED)


_AFTER_ORDERED: Final = frozenset({",", ";", ".", "ASC", "DESC"})


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
    "SPLIT": _of_partition(DdlKind.REORGANIZE_PARTITION),
    "FIRST": _of_partition(DdlKind.DROP_PARTITION),
    "LAST": _of_partition(DdlKind.ADD_PARTITION),
    "ANALYZE": _of_partition(DdlKind.OTHER),
    "CHECK": _of_partition(DdlKind.OTHER),
    "OPTIMIZE": _of_partition(DdlKind.OTHER),
    "REBUILD": _of_partition(DdlKind.OTHER),
    "REPAIR": _of_partition(DdlKind.OTHER),
    "DISCARD": _of_partition(DdlKind.OTHER),
    "IMPORT": _of_partition(DdlKind.OTHER),
}
#: Options that say how the statement runs, not what it does.
_HOW: Final = frozenset({"ALGORITHM", "LOCK", "WITH", "WITHOUT", "VALIDATION", "NOWAIT", "WAIT"})
_OPTION_KINDS: Final = {
    "AUTO_INCREMENT": DdlKind.REBASE_AUTO_ID,
    "AUTO_RANDOM_BASE": DdlKind.REBASE_AUTO_ID,
    "TTL": DdlKind.ALTER_TTL,
    "TTL_ENABLE": DdlKind.ALTER_TTL,
    "TTL_JOB_INTERVAL": DdlKind.ALTER_TTL,
}
#: Table options that are known where no `=` shows that they are one.
_PLAIN_OPTIONS: Final = frozenset(
    {
        "ENABLE",
        "DISABLE",
        "CACHE",
        "NOCACHE",
        "PLACEMENT",
        "ATTRIBUTES",
        "ENGINE",
        "ROW_FORMAT",
        "KEY_BLOCK_SIZE",
        "TABLESPACE",
    }
)


def table_options(cursor: Cursor) -> list[Change]:
    """Read table options up to the next comma: one change of each kind, in order."""
    changes: dict[Change, None] = {}
    while not cursor.at_item_end() and cursor.look() not in _ITEMS:
        change = table_option(cursor)
        if change is not None:
            changes[change] = None
    return merged(list(changes))


def table_option(cursor: Cursor) -> Change | None:
    """Read one option; None for one that says how the statement runs."""
    cursor.accept("DEFAULT")
    word = cursor.look()
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
        return TableCharset(charset_name(cursor), _collation(cursor))
    if cursor.accept("COLLATE"):
        return TableCharset(None, charset_name(cursor))
    if cursor.accept("COMMENT"):
        cursor.accept("=")
        return TableComment(cursor.string()[:_LONGEST_COMMENT])
    if not word.isidentifier():
        raise DdlNotUnderstood("an option is missing")
    cursor.take()
    has_value = _skip_value(cursor)
    if word in _HOW:
        return None
    if has_value or word in _PLAIN_OPTIONS or word in _OPTION_KINDS:
        return OtherChange(_OPTION_KINDS.get(word, DdlKind.ALTER_TABLE_OPTION))
    cursor.skip_item()
    return OtherChange(DdlKind.OTHER)


def _skip_value(cursor: Cursor) -> bool:
    """Step over `= value`, or over a value that is not the next option; an expression such as `at + INTERVAL
    1 DAY` goes whole.
    """
    if cursor.accept("POLICY"):
        cursor.accept("SET")  # TiDB: PLACEMENT POLICY SET DEFAULT
    if not cursor.accept("="):
        if not cursor.at_item_end() and cursor.peek(1).text != "=":
            cursor.skip()
        return False
    cursor.skip()
    while cursor.accept_any("+", "-"):
        cursor.accept("INTERVAL")
        cursor.skip()
        if cursor.look(1) != "=":
            cursor.accept_any(*_TIME_UNITS)
    return True


#: Units of an INTERVAL (MySQL Reference Manual 8.4 §11.5).
_TIME_UNITS: Final = (
    *("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
    *("SECOND_MICROSECOND", "MINUTE_MICROSECOND", "MINUTE_SECOND", "HOUR_MICROSECOND", "HOUR_SECOND"),
    *("HOUR_MINUTE", "DAY_MICROSECOND", "DAY_SECOND", "DAY_MINUTE", "DAY_HOUR", "YEAR_MONTH"),
)


def merged(changes: list[Change]) -> list[Change]:
    """CHARSET and COLLATE one after the other are one change."""
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
