"""Parses column definitions, keys and defaults, which CREATE TABLE and ALTER TABLE share.

Every function consumes what it parses and raises DdlNotUnderstood if it cannot be a definition. Attributes
may come in any order; those that do not affect names, types, nullability, defaults, keys or comments are
skipped. Source: MySQL Reference Manual 8.4 §15.1.20 (CREATE TABLE), TiDB "CREATE TABLE".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from relay.model.errors import DdlNotUnderstood
from relay.model.events import ABSENT, Absent, Column, ColumnType, DdlKind, Default, Generated
from relay.mysql.ddl.statements import (
    AddForeignKey,
    AddIndex,
    AddPeriod,
    AddPrimaryKey,
    Bits,
    Change,
    ColumnDefinition,
    OtherChange,
    TableName,
)
from relay.mysql.ddl.tokens import Cursor, Token
from relay.mysql.types import default_text, defined_type, is_known_type, joined_name, with_implied_parameters

#: Keywords that end a column's attributes before the item ends, in ALTER TABLE.
_STOPS: Final = frozenset({"FIRST", "AFTER", "PARTITION", "REMOVE", "SPLIT"})
#: Maximum characters of a column's comment; servers truncate longer ones, or refuse the statement.
_LONGEST_COMMENT: Final = 1024
#: Maximum characters of a default: the bytes of the longest value that can have one.
_LONGEST_DEFAULT: Final = 65_535
#: Maximum columns of an index: 16 in MySQL and TiDB, 32 in MariaDB.
_KEY_PARTS: Final = 32
_NOW: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})


class _ColumnDefinition:
    """The parsed attributes of one column."""

    def __init__(self, cursor: Cursor, name: str) -> None:
        self.cursor, self.name = cursor, name
        self.type_text = ""
        #: Attributes that belong to the type: `unsigned`, `character set latin1`.
        self.type_attributes: list[str] = []
        self.nullable: bool | None = None
        self.default: Default | Absent = ABSENT
        self.bits: Bits | None = None
        self.comment: str | None = None
        self.generated: Generated | None = None
        self.auto_increment = self.is_primary = self.is_unique = self.is_nonclustered = False
        self.on_update: str | None = None

    def read(self) -> ColumnDefinition:
        self._read_type()
        while not self.cursor.at_item_end() and self.cursor.look() not in _STOPS:
            word = self.cursor.look()
            if word == "(":
                raise DdlNotUnderstood("unexpected parentheses after an attribute of a column")
            self.cursor.take()
            if word in _ATTRIBUTES:
                _ATTRIBUTES[word](self)
            elif word in _WITH_PARENTHESES and self.cursor.look() == "(":
                self.cursor.skip_parentheses()
            elif self.cursor.accept("="):  # MariaDB's engine options: any word can be a value
                self.cursor.skip()
        column = Column(
            name=self.name,
            type=self._type(),
            nullable=(self.nullable is not False) and not self.is_primary,
            default=self.default,
            comment=self.comment,
            generated=self.generated,
            auto_increment=self.auto_increment,
            on_update=self.on_update,
        )
        return ColumnDefinition(column, self.bits, self.is_primary, self.is_unique, self.is_nonclustered)

    def _read_type(self) -> None:
        cursor = self.cursor
        if cursor.peek().kind != "word":
            raise DdlNotUnderstood("a column has no type")
        if cursor.look() in _NO_TYPES:
            raise DdlNotUnderstood(f"{cursor.look()} in place of a column's type")
        name = cursor.take().text
        if cursor.accept("."):
            name = _qualified_type(name, cursor.name())
        self.type_text = name
        while cursor.look(1) != "SET" and joined_name(name, cursor.look()) is not None:
            self.type_text = name = f"{name} {cursor.take().text}"
        if cursor.look() == "(":
            self.type_text += _type_arguments(cursor)
        elif name.upper() in {"ENUM", "SET"}:
            raise DdlNotUnderstood(f"{name.upper()} without members")
        self._check_known(name)
        first = name.upper().partition(" ")[0]
        if first == "SERIAL":
            self.serial()
        elif first in {"NATIONAL", "NCHAR", "NVARCHAR"}:
            self.type_attributes.append("character set utf8mb3")

    def _check_known(self, name: str) -> None:
        """Refuse an unknown type unless an attribute or the item's end follows it."""
        if is_known_type(name) or self.cursor.at_item_end():
            return
        following = self.cursor.look()
        if following not in _ATTRIBUTES and following not in _STOPS and following not in _OTHER_ATTRIBUTES:
            raise DdlNotUnderstood(f"a column of the unknown type {name[:32]}")

    def _type(self) -> ColumnType:
        try:
            return with_implied_parameters(defined_type(" ".join([self.type_text, *self.type_attributes])))
        except ValueError as error:
            raise DdlNotUnderstood(f"the type of a column: {error}") from error

    def serial(self) -> None:
        self.nullable, self.auto_increment, self.is_unique = False, True, True

    def null(self) -> None:
        self.nullable = True

    def not_null(self) -> None:
        if self.cursor.accept("NULL"):
            self.nullable = False

    def read_default(self) -> None:
        default = default_value(self.cursor)
        self.bits = default if isinstance(default, Bits) else None
        self.default = ABSENT if isinstance(default, Bits) else default

    def on(self) -> None:
        if self.cursor.take().text.upper() == "UPDATE" and self.cursor.look() in _NOW:
            self.on_update = _now(self.cursor)
        else:
            _skip_action(self.cursor)

    def references(self) -> None:
        table_name_parts(self.cursor)
        if self.cursor.look() == "(":
            self.cursor.skip_parentheses()
        if self.cursor.accept("MATCH"):
            self.cursor.take()

    def increment(self) -> None:
        self.nullable, self.auto_increment = False, True  # a NULL after it makes the column nullable again

    def unique(self) -> None:
        self.cursor.accept("KEY")
        self.is_unique = True

    def primary(self) -> None:
        self.cursor.accept("KEY")
        self.is_primary = True
        self.is_nonclustered = self.cursor.accept("NONCLUSTERED")

    def read_comment(self) -> None:
        self.comment = self.cursor.string()[:_LONGEST_COMMENT]

    def generated_as(self) -> None:
        if self.cursor.look() == "(":
            self.cursor.skip_parentheses()
            self.generated = Generated.VIRTUAL
        elif self.cursor.accept("ROW", "START") or self.cursor.accept("ROW", "END"):
            self.nullable, self.generated = False, Generated.STORED

    def stored(self) -> None:
        if self.generated is not None:
            self.generated = Generated.STORED

    def skip_one(self) -> None:
        self.cursor.skip()

    def serial_default(self) -> None:
        if self.cursor.accept("DEFAULT", "VALUE"):
            self.serial()

    def number_attribute(self, word: str) -> None:
        self.type_attributes.append(word)

    def charset(self) -> None:
        if self.cursor.accept("SET"):
            self.charset_name()

    def charset_name(self) -> None:
        self.type_attributes.append(f"character set {charset_name(self.cursor)}")

    def collate(self) -> None:
        name = charset_name(self.cursor)
        if name != "default":
            self.type_attributes.append(f"collate {name}")

    def masking(self) -> None:
        if self.cursor.accept("POLICY"):
            self.cursor.name()


_ATTRIBUTES: Final[dict[str, Callable[[_ColumnDefinition], None]]] = {
    "NULL": _ColumnDefinition.null,
    "NOT": _ColumnDefinition.not_null,
    "DEFAULT": _ColumnDefinition.read_default,
    "ON": _ColumnDefinition.on,
    "REFERENCES": _ColumnDefinition.references,
    "AUTO_INCREMENT": _ColumnDefinition.increment,
    "UNIQUE": _ColumnDefinition.unique,
    "PRIMARY": _ColumnDefinition.primary,
    "KEY": _ColumnDefinition.primary,
    "COMMENT": _ColumnDefinition.read_comment,
    "AS": _ColumnDefinition.generated_as,
    "STORED": _ColumnDefinition.stored,
    "PERSISTENT": _ColumnDefinition.stored,
    "STORAGE": _ColumnDefinition.skip_one,
    "COLUMN_FORMAT": _ColumnDefinition.skip_one,
    "CONSTRAINT": lambda definition: None if definition.cursor.look() == "CHECK" else definition.skip_one(),
    "SERIAL": _ColumnDefinition.serial_default,
    "UNSIGNED": lambda definition: definition.number_attribute("unsigned"),
    "ZEROFILL": lambda definition: definition.number_attribute("zerofill"),
    "ASCII": lambda definition: definition.number_attribute("character set latin1"),
    "UNICODE": lambda definition: definition.number_attribute("character set ucs2"),
    "BYTE": lambda definition: definition.number_attribute("character set binary"),
    "CHARACTER": _ColumnDefinition.charset,
    "CHAR": _ColumnDefinition.charset,
    "CHARSET": _ColumnDefinition.charset_name,
    "COLLATE": _ColumnDefinition.collate,
    "MASKING": _ColumnDefinition.masking,
}


#: Tokens that are skipped with the parentheses after them: `AUTO_RANDOM(5)`, `CHECK (a > 0)`,
#: `VECTOR<FLOAT>(3)`.
_WITH_PARENTHESES: Final = frozenset({"AUTO_RANDOM", "CHECK", ">"})
#: Attributes that do not affect a column's definition.
_OTHER_ATTRIBUTES: Final = frozenset(
    {
        *("SIGNED", "INVISIBLE", "VISIBLE", "GENERATED", "VIRTUAL", "CHECK", "COMPRESSED", "SRID"),
        *("REF_SYSTEM_ID", "BINARY"),
    }
)
#: Keywords that are not types, but begin or continue something that is not a column.
_NO_TYPES: Final = frozenset(
    {
        *("INDEX", "KEY", "KEYS", "COLUMN", "PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN"),
        *("CONSTRAINT", "CHECK", "REFERENCES", "PARTITION", "TABLE", "DEFAULT", "NOT", "NULL", "COMMENT"),
        *("COLLATE", "AUTO_INCREMENT", "GENERATED", "AS", "ON", "FIRST", "AFTER", "TO", "ADD", "DROP"),
        *("MODIFY", "CHANGE", "UNSIGNED", "ZEROFILL", "IF", "EXISTS", "USING", "SELECT", "WITH", "LIKE"),
        *("FOR", "VALUES"),
    }
)


def _qualified_type(schema: str, name: str) -> str:
    """Return the type that MariaDB's `mariadb_schema.date` or the like stands for.

    Raises DdlNotUnderstood for another schema.
    """
    words = schema.lower(), name.lower()
    if words[0] not in _TYPE_SCHEMAS:
        raise DdlNotUnderstood(f"a type of {schema[:32]}")
    return "datetime" if words in _DATETIMES else name


_TYPE_SCHEMAS: Final = frozenset({"mariadb_schema", "oracle_schema", "maxdb_schema"})
_DATETIMES: Final = frozenset({("oracle_schema", "date"), ("maxdb_schema", "timestamp")})


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """Parse `name type attributes…`, up to the end of the item or to FIRST or AFTER."""
    return _ColumnDefinition(cursor, column_name(cursor)).read()


def column_name(cursor: Cursor) -> str:
    """Parse `column`, `table.column` or `database.table.column`; return the column."""
    name = cursor.name()
    while cursor.accept("."):
        name = cursor.name()
    return name


def _type_arguments(cursor: Cursor) -> str:
    """Parse `('a','it''s')` or `(10,2)` into the form that `parse_type` reads."""
    arguments: list[str] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        token = cursor.take()
        if token.kind in {"string", "bits"}:
            # The server strips trailing blanks of ENUM and SET members (MySQL Reference Manual §13.3.6).
            member = token.text if token.kind == "string" else bits_text(read_bits(token))
            arguments.append("'" + member.rstrip(" ").replace("'", "''") + "'")
        elif token.kind == "number":
            arguments.append(token.text)
        else:
            raise DdlNotUnderstood("an argument of a type that is neither text nor a number")
    return "(" + ",".join(arguments) + ")"


def charset_name(cursor: Cursor) -> str:
    """Parse `[=] name`, quoted or not, and return the name in lower case."""
    cursor.accept("=")
    token = cursor.take()
    if token.kind not in {"word", "name", "string"} or not token.text or set(token.text) & set("'(), \t\r\n"):
        raise DdlNotUnderstood("a charset is missing")
    return token.text.lower()


def default_value(cursor: Cursor) -> Default | Bits:
    """Parse the value of DEFAULT: a literal, NULL, CURRENT_TIMESTAMP, `(expression)` or a function."""
    default = _default(cursor)
    size = default.size if isinstance(default, Bits) else len(default.text or "")
    if size > _LONGEST_DEFAULT:
        raise DdlNotUnderstood("a default that is too long")
    return default


def _default(cursor: Cursor) -> Default | Bits:
    token = cursor.peek()
    if token.kind == "string":
        parts = []
        # Adjacent strings are one string (MySQL Reference Manual §11.1.1).
        while cursor.peek().kind == "string":
            parts.append(cursor.take().text)
        return Default("".join(parts))
    if token.kind == "bits":
        return read_bits(cursor.take())
    if token.kind == "number" or token.text in {"+", "-", "."}:
        return Default(_number(cursor))
    if cursor.look() == "(":
        return _signed_number(cursor) or Default(cursor.skip_parentheses(), is_expression=True)
    if cursor.look() in _CONSTANTS:
        return Default(_CONSTANTS[cursor.take().text.upper()])
    if cursor.look() in _NOW:
        return Default(_now(cursor), is_expression=True)
    return _function(cursor)


def _signed_number(cursor: Cursor) -> Default | None:
    """Parse `(-5)`, TiDB's spelling of `SET DEFAULT -5`; return None, reading nothing, for anything else."""
    if cursor.look(1) not in {"+", "-"} or cursor.peek(2).kind != "number" or cursor.look(3) != ")":
        return None
    cursor.take()
    default = Default(_number(cursor))
    cursor.take()
    return default


_CONSTANTS: Final = {"NULL": None, "TRUE": "1", "FALSE": "0"}


def _number(cursor: Cursor) -> str:
    parts = []
    while cursor.look() in {"+", "-"}:
        parts.append(cursor.take().text.replace("+", ""))
    if cursor.accept("."):
        parts.append("0.")
    token = cursor.take()
    if token.kind != "number":
        raise DdlNotUnderstood("a number is missing")
    return "".join([*parts, token.text])


def _function(cursor: Cursor) -> Default:
    """Parse a function (`uuid()`, `NEXT VALUE FOR seq`) or a typed literal (`DATE '2020-01-01'`)."""
    start = cursor.peek()
    if cursor.look() in {"DATE", "TIME", "TIMESTAMP"} and cursor.peek(1).kind == "string":
        cursor.take()
        return Default(cursor.string())
    if cursor.accept("CASE"):
        _skip_case(cursor)
        return Default(cursor.text_since(start), is_expression=True)
    cursor.accept("NEXT", "VALUE", "FOR")
    column_name(cursor)
    if cursor.look() == "(":
        cursor.skip_parentheses()
    return Default(cursor.text_since(start), is_expression=True)


def _skip_case(cursor: Cursor) -> None:
    """Skip the rest of CASE … END, including nested ones."""
    depth = 1
    while depth:
        if cursor.at_end():
            raise DdlNotUnderstood("a CASE does not end")
        depth += {"CASE": 1, "END": -1}.get(cursor.look(), 0)
        cursor.skip()


def _now(cursor: Cursor) -> str:
    """Parse CURRENT_TIMESTAMP or a synonym; return it in the spelling of SHOW CREATE TABLE."""
    cursor.take()
    digits = cursor.skip_parentheses() if cursor.look() == "(" else ""
    return f"CURRENT_TIMESTAMP({digits})" if digits not in {"", "0"} else "CURRENT_TIMESTAMP"


def _skip_action(cursor: Cursor) -> None:
    """Skip CASCADE, RESTRICT, SET NULL, SET DEFAULT, NO ACTION."""
    if cursor.accept_any("SET", "NO"):
        cursor.take()
    else:
        cursor.accept_any("CASCADE", "RESTRICT")


def read_bits(token: Token) -> Bits:
    """Return the value of `b'…'`, `0b…`, `x'…'` or `0x…`."""
    base = 2 if token.text[:2].lower() in {"b'", "0b"} else 16
    digits = token.text[2:].rstrip("'")
    bits_of_digit = 1 if base == 2 else 4
    return Bits(int(digits or "0", base), (len(digits) * bits_of_digit + 7) // 8)


def bits_text(bits: Bits) -> str:
    """Return the text in the bytes of a bit or hexadecimal literal; `0x…` if they are not UTF-8."""
    return default_text(bits.number.to_bytes(bits.size, "big"))


def table_name_parts(cursor: Cursor) -> tuple[str, str | None]:
    """Parse `table`, `.table` or `database.table`, and note its place; return the table first."""
    start, database = cursor.peek().start, None
    if cursor.accept("."):
        table = cursor.name()
    else:
        table = cursor.name()
        if cursor.accept("."):
            table, database = cursor.name(), table
    cursor.note_table(TableName(table, database), start)
    return table, database


#: Indexes that do not index ordinary column values.
NOT_OF_VALUES: Final = frozenset({"FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID"})
#: PolarDB-X's keywords before INDEX.
_INDEX_SCOPES: Final = ("GLOBAL", "LOCAL", "CLUSTERED")
INDEX_KINDS: Final = frozenset({*NOT_OF_VALUES, *_INDEX_SCOPES, "UNIQUE"})
#: Keywords of TiDB, MariaDB and PolarDB-X that may also be column names, and the tokens that follow them as
#: keywords.
_FOLLOWERS: Final = {
    **dict.fromkeys(("VECTOR", "COLUMNAR", "HYBRID"), ("INDEX", "KEY", "(")),
    **dict.fromkeys(_INDEX_SCOPES, ("INDEX", "KEY", "UNIQUE", "COLUMNAR")),
    "PERIOD": ("FOR", "IF"),
    "SYSTEM": ("VERSIONING",),
    "MASKING": ("POLICY",),
}
#: The kinds of TiDB's extended statistics: `STATS_EXTENDED name CARDINALITY (a, b)`.
_STATISTICS: Final = frozenset({"CARDINALITY", "DEPENDENCY", "CORRELATION"})


def names_no_column(cursor: Cursor) -> bool:
    """Return whether a key, constraint or the like comes next, rather than a column's name and type."""
    word = cursor.look()
    if word == "STATS_EXTENDED":
        return cursor.look(1) == "IF" or cursor.look(2) in _STATISTICS
    return word in _KEYS and (word not in _FOLLOWERS or cursor.look(1) in _FOLLOWERS[word])


def key_or_constraint(cursor: Cursor) -> Change | None:
    """Parse a key, index or constraint up to the item's end. For a column, consume nothing and return None.

    Other elements of MySQL, TiDB and MariaDB that are not columns are an OtherChange.
    """
    if not names_no_column(cursor):
        return None
    name = ""
    if cursor.accept("CONSTRAINT"):
        cursor.accept("IF", "NOT", "EXISTS")
        if cursor.look() not in _CONSTRAINTS:
            name = cursor.name()
    change = _KEYS.get(cursor.look(), _unknown_key)(cursor, name)
    cursor.skip_item()
    return change


def _primary_key(cursor: Cursor, _: str) -> Change:
    cursor.expect("PRIMARY", "KEY")
    tolerant = cursor.accept("IF", "NOT", "EXISTS")
    index_name(cursor)
    parts, is_nonclustered = _key_parts(cursor), False
    while not cursor.at_item_end():
        is_nonclustered = is_nonclustered or cursor.look() == "NONCLUSTERED"
        cursor.skip()
    return AddPrimaryKey(parts.key(), is_nonclustered, tolerant, parts.columns)


def _index(cursor: Cursor, constraint: str) -> Change:
    """Parse `[UNIQUE] [kind] [INDEX | KEY] [name] (…)`.

    The location of an index (GLOBAL, LOCAL, CLUSTERED in PolarDB-X) is ignored.
    """
    is_unique = False
    while _is_index_kind(cursor):
        word = cursor.take().text.upper()
        if word in NOT_OF_VALUES:
            return OtherChange(DdlKind.ADD_INDEX)
        is_unique = is_unique or word == "UNIQUE"
    cursor.accept_any("INDEX", "KEY")
    tolerant = cursor.accept("IF", "NOT", "EXISTS")
    name = index_name(cursor) or (constraint if is_unique else "")
    return AddIndex(name, indexed_columns(cursor, is_unique=is_unique), is_unique, tolerant)


def indexed_columns(cursor: Cursor, *, is_unique: bool) -> tuple[str, ...] | None:
    """Parse the columns and options of an index; return None as `key_columns` does, and for TiDB's partial
    unique index (`UNIQUE KEY (a) WHERE b > 0`).
    """
    columns = key_columns(cursor)
    is_partial = False
    while not cursor.at_item_end():
        is_partial = is_partial or cursor.look() == "WHERE"
        cursor.skip()
    return None if is_unique and is_partial else columns


def _is_index_kind(cursor: Cursor) -> bool:
    """Return whether a kind of index comes next, rather than an index's name: `UNIQUE local (a)`."""
    word = cursor.look()
    return word in INDEX_KINDS and (word not in _FOLLOWERS or cursor.look(1) in _FOLLOWERS[word])


def _foreign_key(cursor: Cursor, constraint: str) -> Change:
    """Parse a foreign key, of which only the index matters; skip it if it is not understood."""
    found = cursor.attempt(_foreign_key_columns)
    if found is None:
        return OtherChange(DdlKind.ADD_FOREIGN_KEY)
    name, columns = found
    return AddForeignKey(constraint or name, columns)


def _foreign_key_columns(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    cursor.expect("FOREIGN", "KEY")
    cursor.accept("IF", "NOT", "EXISTS")
    name, columns = index_name(cursor), key_columns(cursor)
    if not columns or len(set(columns)) < len(columns):
        raise DdlNotUnderstood("a foreign key without columns, or with a duplicate one")
    return name, columns


def _no_key(_: Cursor, __: str) -> Change:
    return OtherChange(DdlKind.OTHER)


def _period(cursor: Cursor, _: str) -> Change:
    """Parse MariaDB's `PERIOD [IF NOT EXISTS] FOR name (start, end)`, which makes both columns NOT NULL."""
    cursor.expect("PERIOD")
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.expect("FOR")
    is_of_system = cursor.name().upper() == "SYSTEM_TIME"
    return AddPeriod(key_columns(cursor) or (), is_of_system)


def _unknown_key(_: Cursor, __: str) -> Change:
    raise DdlNotUnderstood("a constraint of an unknown kind")


#: Keywords after CONSTRAINT and its optional name.
_CONSTRAINTS: Final = frozenset({"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"})
_KEYS: Final[dict[str, Callable[[Cursor, str], Change]]] = {
    "CONSTRAINT": _unknown_key,
    "PRIMARY": _primary_key,
    **dict.fromkeys(("INDEX", "KEY", *INDEX_KINDS), _index),
    "FOREIGN": _foreign_key,
    "CHECK": lambda _, __: OtherChange(DdlKind.ADD_CHECK),
    "STATS_EXTENDED": _no_key,
    "PERIOD": _period,
    "SYSTEM": _no_key,
    "MASKING": _no_key,
}


def index_name(cursor: Cursor) -> str:
    """Parse `[name] [USING type]` or `name TYPE type`; return "" if there is no name."""
    name = "" if cursor.look() in {"(", "USING"} else cursor.name()
    if cursor.look() == "USING" or (name and cursor.look() == "TYPE"):
        cursor.take()
        cursor.take()
    return name


class _KeyParts(NamedTuple):
    """The columns of a key, and whether it has no other parts."""

    columns: tuple[str, ...]
    are_all: bool

    def key(self) -> tuple[str, ...] | None:
        """Return the columns; None if the key has other parts."""
        return self.columns if self.are_all else None


def key_columns(cursor: Cursor) -> tuple[str, ...] | None:
    """Parse `(a, b(10) DESC, …)`; return None if a part is an expression or (in MariaDB) a period."""
    return _key_parts(cursor).key()


def _key_parts(cursor: Cursor) -> _KeyParts:
    columns: list[str] = []
    are_all = True
    cursor.expect("(")
    while not cursor.accept(")"):
        name = None if cursor.look() == "(" else column_name(cursor)
        if name is None or cursor.look() == "WITHOUT":  # p WITHOUT OVERLAPS
            are_all = False
        else:
            columns.append(name)
            if len(columns) > _KEY_PARTS:
                raise DdlNotUnderstood("a key with too many columns")
        cursor.skip_item()
        if cursor.look() != ")":
            cursor.expect(",")
    if are_all and not columns:
        raise DdlNotUnderstood("a key has no columns")
    if len({name.lower() for name in columns}) < len(columns):
        raise DdlNotUnderstood("a key has a duplicate column")
    return _KeyParts(tuple(columns), are_all)
