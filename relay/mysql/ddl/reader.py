"""Parses DDL statements of MySQL and TiDB, as far as table definitions depend on them.

`read_ddl` returns a `Ddl` or raises DdlNotUnderstood for any text; `locate_statements` also returns the
places of statements and their items. Unknown options are skipped. The result
describes the statement as written; `define_table` and `alter_table` build definitions from it, which
`relay.catalog` keeps. Text has one of two spellings. Statements that users type and MySQL logs have backslash
escapes (`'back\\\\slash'`). Statements that TiDB restores from its syntax tree, and TiCDC therefore sends,
have doubled quotes but literal backslashes (`'back\\slash'`), and literals with an introducer
(`_UTF8MB4'x'`).

Sources: MySQL Reference Manual 8.4 §15.1, TiDB "SQL Statements"; statements from real TiCDC, Canal, Debezium
and Maxwell streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from relay.model.errors import DdlNotUnderstood
from relay.model.events import DdlKind
from relay.model.limits import DEFAULT_LIMITS, exceeded
from relay.mysql.charsets import full_collation
from relay.mysql.ddl.alter import (
    accept_charset,
    alter_items,
    charset_and_collation,
    drop_index,
    merged,
    skip_lock_wait,
    skip_option,
    table_name,
    table_option,
)
from relay.mysql.ddl.columns import (
    INDEX_KINDS,
    NOT_OF_VALUES,
    charset_name,
    column_definition,
    index_name,
    indexed_columns,
    key_columns,
    key_or_constraint,
)
from relay.mysql.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    AddPeriod,
    AddPrimaryKey,
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    Ddl,
    DropColumn,
    DropDatabase,
    DropIndex,
    DropPrimaryKey,
    DropTables,
    Item,
    LocatedName,
    ModifyColumn,
    OtherChange,
    OtherStatement,
    PartitionToTable,
    RecoverTable,
    RenameColumn,
    RenameIndex,
    RenameTables,
    RenameTo,
    SetDefault,
    Statement,
    TableCharset,
    TableComment,
    TableName,
    TableToPartition,
    TruncateTable,
)
from relay.mysql.ddl.tokens import Cursor, Token, tokenize
from relay.mysql.ddl.views import view_columns


def read_ddl(
    sql: str, *, backslash_escapes: bool = True, most_statements: int = DEFAULT_LIMITS.ddl_statements
) -> Ddl:
    """Parse one statement (or several, separated by `;`, up to `most_statements`).

    `backslash_escapes=False` parses text restored by TiDB. If the text cannot be parsed in one way, the other
    is tried. Raises DdlNotUnderstood for a statement other than DDL of tables, databases, views or sequences,
    and for malformed text; LimitExceeded for too many statements.
    """
    located = locate_statements(sql, backslash_escapes=backslash_escapes, most_statements=most_statements)
    statements = tuple([each.statement for each in located])
    return Ddl(tuple(kind for statement in statements for kind in kinds_of(statement)), statements)


class Located(NamedTuple):
    """A statement in a text: its offsets, its tokens, and the items of ALTER TABLE and CREATE TABLE.

    `tables`: the names of tables that the parser has read: not those in queries, nor all of foreign keys.
    """

    statement: Statement
    start: int
    end: int
    tokens: list[Token]
    items: list[Item]
    tables: list[LocatedName]


def locate_statements(
    sql: str, *, backslash_escapes: bool = True, most_statements: int = DEFAULT_LIMITS.ddl_statements
) -> list[Located]:
    """Parse the statements of a text like `read_ddl`, and find their places. Raises the same."""
    try:
        return _located(sql, most_statements, backslash_escapes=backslash_escapes)
    except DdlNotUnderstood:
        if "\\" not in sql:
            raise
    return _located(sql, most_statements, backslash_escapes=not backslash_escapes)


def _located(sql: str, most_statements: int, *, backslash_escapes: bool) -> list[Located]:
    tokens = tokenize(sql, backslash_escapes=backslash_escapes)
    cursor = Cursor(sql, tokens)
    found: list[Located] = []
    while cursor.peek().kind != "end":
        if cursor.accept(";"):
            continue
        if len(found) == most_statements:
            raise exceeded("ddl", "statement", "statements", "ddl_statements", most_statements)
        first, cursor.items, cursor.tables = cursor.position, [], []
        start, statement = cursor.peek().start, _statement(cursor)
        its_tokens = tokens[first : cursor.position]
        found.append(Located(statement, start, cursor.end_of_text, its_tokens, cursor.items, cursor.tables))
        if not cursor.at_end():
            raise DdlNotUnderstood("unexpected text after the statement")
    if not found:
        raise DdlNotUnderstood("no statement")
    return found


def kinds_of(statement: Statement) -> tuple[DdlKind, ...]:
    """Return the effects of a statement, in order."""
    if isinstance(statement, AlterTable):
        return tuple(map(_change_kind, statement.changes))
    if isinstance(statement, OtherStatement):
        return (statement.kind,)
    return (_STATEMENT_KINDS[type(statement)],)


def _change_kind(change: Change) -> DdlKind:
    return change.kind if isinstance(change, OtherChange) else _CHANGE_KINDS[type(change)]


_CHANGE_KINDS: Final[dict[type, DdlKind]] = {
    AddColumn: DdlKind.ADD_COLUMN,
    DropColumn: DdlKind.DROP_COLUMN,
    ModifyColumn: DdlKind.MODIFY_COLUMN,
    RenameColumn: DdlKind.RENAME_COLUMN,
    SetDefault: DdlKind.SET_DEFAULT,
    AddPrimaryKey: DdlKind.ADD_PRIMARY_KEY,
    DropPrimaryKey: DdlKind.DROP_PRIMARY_KEY,
    AddIndex: DdlKind.ADD_INDEX,
    AddForeignKey: DdlKind.ADD_FOREIGN_KEY,
    DropIndex: DdlKind.DROP_INDEX,
    RenameIndex: DdlKind.RENAME_INDEX,
    TableCharset: DdlKind.TABLE_CHARSET,
    TableComment: DdlKind.TABLE_COMMENT,
    RenameTo: DdlKind.RENAME_TABLE,
    AddPeriod: DdlKind.OTHER,
    PartitionToTable: DdlKind.ALTER_PARTITIONING,
    TableToPartition: DdlKind.ALTER_PARTITIONING,
}
_STATEMENT_KINDS: Final[dict[type, DdlKind]] = {
    CreateTable: DdlKind.CREATE_TABLE,
    CreateTableLike: DdlKind.CREATE_TABLE,
    CreateTableAs: DdlKind.CREATE_TABLE,
    DropTables: DdlKind.DROP_TABLE,
    RenameTables: DdlKind.RENAME_TABLE,
    TruncateTable: DdlKind.TRUNCATE_TABLE,
    RecoverTable: DdlKind.RECOVER_TABLE,
    CreateDatabase: DdlKind.CREATE_DATABASE,
    DropDatabase: DdlKind.DROP_DATABASE,
    AlterDatabase: DdlKind.ALTER_DATABASE,
}


def _skip_rest(cursor: Cursor) -> None:
    while not cursor.at_end():
        cursor.take()


def _names(cursor: Cursor) -> tuple[TableName, ...]:
    """Parse `a, b.c, …` and the rest of the statement."""
    names = [table_name(cursor)]
    while cursor.accept(","):
        names.append(table_name(cursor))
    _skip_rest(cursor)
    return tuple(names)


def _create(cursor: Cursor) -> Statement:
    replaces = cursor.accept("OR", "REPLACE")
    if cursor.look() == "TEMPORARY" or (cursor.look(), cursor.look(1)) == ("GLOBAL", "TEMPORARY"):
        # Rows of temporary tables are not logged, and their names may hide those of real tables.
        cursor.accept("GLOBAL")
        cursor.expect("TEMPORARY")
        if not cursor.accept_any("TABLE", "SEQUENCE"):
            raise DdlNotUnderstood("TABLE is missing after TEMPORARY")
        _skip_rest(cursor)
        return OtherStatement(DdlKind.OTHER)
    if cursor.accept("TABLE") or cursor.accept("EXTERNAL", "TABLE"):
        return _create_table(cursor)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return CreateDatabase(cursor.name(), *_database_options(cursor), if_not_exists, replaces)
    if cursor.accept("SEQUENCE"):
        return _other_object(cursor, DdlKind.SEQUENCE)
    if _is_index(cursor):
        return _create_index(cursor, replaces=replaces)
    return _view_or_other(cursor)


def _database_options(cursor: Cursor) -> tuple[str | None, str | None]:
    """Parse the default charset and collation among the options of a database, up to the end."""
    charset = collation = None
    while not cursor.at_end():
        if accept_charset(cursor):
            charset, collation = charset_and_collation(cursor)
        elif cursor.accept("COLLATE"):
            collation = charset_name(cursor)
        elif cursor.accept("COMMENT"):
            cursor.accept("=")
            cursor.string()
        else:
            cursor.skip()
    return charset, None if collation == "default" else full_collation(collation, charset)


def _other_object(cursor: Cursor, kind: DdlKind) -> OtherStatement:
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept("IF", "EXISTS")
    name = table_name(cursor)
    _skip_rest(cursor)
    return OtherStatement(kind, (name,))


def _view_or_other(cursor: Cursor) -> Statement:
    """Parse the rest of a CREATE, ALTER or DROP other than of a table: `[ALGORITHM = …] [DEFINER = user@host]
    [SQL SECURITY …] [MATERIALIZED] [JSON [RELATIONAL] DUALITY] VIEW name …`, a trigger, a routine, a user and
    so on.
    """
    while cursor.look() in {"ALGORITHM", "DEFINER", "SQL", "MATERIALIZED", "JSON"}:
        word = cursor.take().text.upper()
        if word == "SQL":
            cursor.take()
            cursor.take()
            continue
        if word == "MATERIALIZED":
            continue
        if word == "JSON":
            cursor.accept("RELATIONAL")
            cursor.expect("DUALITY")
            continue
        cursor.expect("=")
        cursor.take()
        if cursor.accept("@"):
            cursor.take()
        if cursor.look() == "(":
            cursor.skip_parentheses()
    if cursor.look() == "VIEW":
        begin = cursor.take().start
        made = _other_object(cursor, DdlKind.CREATE_VIEW)
        return OtherStatement(made.kind, made.tables, view_columns(cursor.text_from(begin)))
    return _no_table(cursor)


def _no_table(cursor: Cursor) -> Statement:
    """Parse the rest of a statement about a trigger or a routine, or about an administrative object."""
    cursor.accept_any("GLOBAL", "SESSION")  # TiDB's bindings
    word = cursor.look()
    if word in _PROGRAMS or (word == "AGGREGATE" and cursor.look(1) == "FUNCTION"):
        while cursor.peek().kind != "end":  # the body may contain statements, with `;` after each
            cursor.take()
        return OtherStatement(DdlKind.OTHER)
    if word not in _MANAGED:
        raise DdlNotUnderstood(f"CREATE, ALTER or DROP of {word[:32] or cursor.peek().kind}")
    _skip_rest(cursor)
    return OtherStatement(DdlKind.ADMINISTRATION)


#: Programs stored in a server.
_PROGRAMS: Final = frozenset({"TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE", "LIBRARY"})
#: Objects other than tables, views and programs that can be created, altered and dropped.
_MANAGED: Final = frozenset(
    {
        *("USER", "ROLE", "SERVER", "INSTANCE", "TABLESPACE", "UNDO", "LOGFILE", "RESOURCE", "SPATIAL"),
        *("PLACEMENT", "BINDING", "STATISTICS", "STATS", "RANGE", "PREPARE", "CATALOG", "MASKING"),
    }
)


def _is_index(cursor: Cursor) -> bool:
    """Return whether INDEX comes next, optionally after keywords for its kind."""
    cursor.accept_any("ONLINE", "OFFLINE")
    ahead = 0
    while cursor.look(ahead) in INDEX_KINDS:
        ahead += 1
    return cursor.look(ahead) == "INDEX"


def _create_index(cursor: Cursor, *, replaces: bool) -> Statement:
    words = {cursor.take().text.upper()}
    while "INDEX" not in words:
        words.add(cursor.take().text.upper())
    tolerant = cursor.accept("IF", "NOT", "EXISTS")
    name = index_name(cursor)
    cursor.expect("ON")
    table = table_name(cursor)
    if not words.isdisjoint(NOT_OF_VALUES):
        key_columns(cursor)
        _skip_rest(cursor)
        return AlterTable(table, (OtherChange(DdlKind.ADD_INDEX),))
    is_unique = "UNIQUE" in words
    columns = indexed_columns(cursor, is_unique=is_unique)
    _skip_rest(cursor)
    return AlterTable(table, (AddIndex(name, columns, is_unique, tolerant, replaces),))


def _create_table(cursor: Cursor) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = table_name(cursor)
    if cursor.accept("LIKE") or cursor.accept("(", "LIKE"):
        like = table_name(cursor)
        _skip_rest(cursor)
        return CreateTableLike(table, like, if_not_exists)
    changes: list[Change] = []
    is_query = cursor.look() == "(" and cursor.look(1) in _QUERY
    if cursor.look() == "(" and not is_query:
        changes += _elements(cursor)
    is_query = is_query or _table_options(cursor, changes)
    _skip_rest(cursor)
    if is_query:
        return CreateTableAs(table, if_not_exists)
    if not any(isinstance(change, AddColumn) for change in changes):
        raise DdlNotUnderstood("a table without columns")
    return CreateTable(table, tuple(changes), if_not_exists)


_SELECT: Final = frozenset({"SELECT", "WITH"})
_QUERY: Final = _SELECT | {"VALUES", "TABLE", "("}


def _elements(cursor: Cursor) -> list[Change]:
    """Parse `(column, …, key, …)`."""
    changes: list[Change] = []
    cursor.expect("(")
    while True:
        start = cursor.peek().start
        change = key_or_constraint(cursor) or AddColumn(column_definition(cursor))
        cursor.note_item(start, [change])
        changes.append(change)
        if cursor.accept(")"):
            return changes
        cursor.expect(",")


#: First keywords of options that belong to a table's definition.
_DEFINING_OPTIONS: Final = frozenset({"DEFAULT", "CHARACTER", "CHAR", "CHARSET", "COLLATE", "COMMENT"})


def _table_options(cursor: Cursor, changes: list[Change]) -> bool:
    """Parse the options after the columns into `changes`; return whether a query with columns follows."""
    options: list[Change] = []
    in_partitions = is_query = False
    while not cursor.at_end() and not is_query:
        in_partitions = in_partitions or cursor.look() == "PARTITION"
        is_query = cursor.look() in {"AS", "SELECT", "TABLE", "VALUES"} or (
            cursor.look() == "(" and cursor.look(1) in (_SELECT if in_partitions else _QUERY)
        )
        if in_partitions:
            cursor.skip()
            continue
        if cursor.look() not in _DEFINING_OPTIONS:
            skip_option(cursor)
            continue
        change = table_option(cursor)
        if isinstance(change, (TableCharset, TableComment)):
            options.append(change)
    changes += merged(options)
    return is_query


def _drop(cursor: Cursor) -> Statement:
    if cursor.look() == "TEMPORARY" or (cursor.look(), cursor.look(1)) == ("GLOBAL", "TEMPORARY"):
        _skip_rest(cursor)
        return OtherStatement(DdlKind.OTHER)
    cursor.accept_any("ONLINE", "OFFLINE")
    word = cursor.look()
    if word not in _DROPPED:
        return _no_table(cursor)
    cursor.take()
    cursor.accept("IF", "EXISTS")
    if word in {"TABLE", "TABLES"}:
        return DropTables(_names(cursor))
    if word in {"DATABASE", "SCHEMA"}:
        return DropDatabase(cursor.name())
    if word == "INDEX":
        change = drop_index(cursor)
        cursor.expect("ON")
        table = table_name(cursor)
        _skip_rest(cursor)
        return AlterTable(table, (change,))
    return OtherStatement(_DROPPED[word], _names(cursor))


_DROPPED: Final = {
    "TABLE": DdlKind.DROP_TABLE,
    "TABLES": DdlKind.DROP_TABLE,
    "DATABASE": DdlKind.DROP_DATABASE,
    "SCHEMA": DdlKind.DROP_DATABASE,
    "INDEX": DdlKind.DROP_INDEX,
    "VIEW": DdlKind.DROP_VIEW,
    "SEQUENCE": DdlKind.SEQUENCE,
}


#: First keywords of the options of ALTER DATABASE, which may lack a database name.
_DATABASE_OPTIONS: Final = frozenset(
    {"CHARACTER", "CHAR", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ", "COMMENT", "SET"}
)


def _alter(cursor: Cursor) -> Statement:
    while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
        pass
    if cursor.accept("TABLE"):
        if_exists = cursor.accept("IF", "EXISTS")
        return AlterTable(table_name(cursor), alter_items(cursor), if_exists)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        is_option = cursor.look() in _DATABASE_OPTIONS or cursor.look(1) == "POLICY"
        database = None if is_option else cursor.name()
        return AlterDatabase(database, *_database_options(cursor))
    if cursor.accept("SEQUENCE"):
        return _other_object(cursor, DdlKind.SEQUENCE)
    return _view_or_other(cursor)


_RENAMES: Final = 4096


def _rename(cursor: Cursor) -> Statement:
    if cursor.accept("USER"):
        _skip_rest(cursor)
        return OtherStatement(DdlKind.ADMINISTRATION)
    if not cursor.accept_any("TABLE", "TABLES"):
        raise DdlNotUnderstood("RENAME of something other than a table")
    cursor.accept("IF", "EXISTS")
    pairs = []
    while True:
        old = table_name(cursor)
        skip_lock_wait(cursor)
        cursor.expect("TO")
        pairs.append((old, table_name(cursor)))
        if len(pairs) > _RENAMES:
            raise DdlNotUnderstood("too many tables are renamed at once")
        if not cursor.accept(","):
            return RenameTables(tuple(pairs))


def _truncate(cursor: Cursor) -> Statement:
    cursor.accept("TABLE")
    table = table_name(cursor)
    _skip_rest(cursor)
    return TruncateTable(table)


def _recover(cursor: Cursor) -> Statement:
    """Parse `RECOVER TABLE t`, `RECOVER TABLE BY JOB n`, `FLASHBACK TABLE t TO u`."""
    cursor.expect("TABLE")
    if cursor.accept("BY", "JOB"):
        _skip_rest(cursor)
        return RecoverTable(None)
    table = table_name(cursor)
    is_to_tso = cursor.look(1) == "TSO" and cursor.peek(2).kind == "number"
    if cursor.look(1) == "TIMESTAMP" or is_to_tso or cursor.accept(","):
        raise DdlNotUnderstood("FLASHBACK TABLE to a point of time")
    new = table_name(cursor) if cursor.accept("TO") else None
    _skip_rest(cursor)
    return RecoverTable(table, new)


def _maintain(cursor: Cursor) -> Statement:
    """Parse `OPTIMIZE TABLE t` and similar statements."""
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if not cursor.accept_any("TABLE", "TABLES"):
        raise DdlNotUnderstood("maintenance of something other than a table")
    return OtherStatement(DdlKind.OTHER, _names(cursor))


def _administer(cursor: Cursor) -> Statement:
    """Parse GRANT and similar statements, which change no table."""
    _skip_rest(cursor)
    return OtherStatement(DdlKind.ADMINISTRATION)


def _set(cursor: Cursor) -> Statement:
    """Parse SET; and MariaDB's `SET STATEMENT variable = value, … FOR statement`."""
    if not cursor.accept("STATEMENT") or cursor.look() == "=":
        return _administer(cursor)
    while not cursor.accept("FOR"):
        if cursor.at_end():
            raise DdlNotUnderstood("FOR is missing after SET STATEMENT")
        cursor.skip()
    return _statement(cursor)


def _statement(cursor: Cursor) -> Statement:
    reader = _STATEMENTS.get(cursor.look())
    if reader is None:
        raise DdlNotUnderstood(f"a statement that begins with {cursor.look()[:32] or cursor.peek().kind}")
    cursor.take()
    return reader(cursor)


_STATEMENTS: Final[dict[str, Callable[[Cursor], Statement]]] = {
    **dict.fromkeys(
        (
            *("GRANT", "REVOKE", "FLUSH", "RESET", "PURGE", "KILL", "INSTALL", "UNINSTALL", "LOCK", "UNLOCK"),
            *("SHOW", "SHUTDOWN", "RESTART", "START", "STOP", "CHECK", "CHECKSUM", "CACHE", "ADMIN"),
            *("XA", "SAVEPOINT", "RELEASE", "COMMIT", "ROLLBACK"),
        ),
        _administer,
    ),
    "SET": _set,
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    "RECOVER": _recover,
    "FLASHBACK": _recover,
    "OPTIMIZE": _maintain,
    "ANALYZE": _maintain,
    "REPAIR": _maintain,
}
