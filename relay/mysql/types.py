"""MySQL column types: parsed from text (`decimal(10, 4) unsigned`) and formatted like in MySQL.

`parse_type` takes the type in a column definition or in Canal's `mysqlType`, in any letter case and spelling,
and returns a `ColumnType` whose `base` is one of the names below. An unknown name is kept in lower case, so
that types of newer servers pass through. `format_type` is the inverse, in the spelling of SHOW CREATE TABLE
(MySQL ≥ 8.0.19: integer widths only if they were given). Sources: MySQL Reference Manual 8.4 §11.1 (synonyms
§11.9), TiDB "Data Types".
"""

from __future__ import annotations

import functools
import re
from typing import Final

import msgspec

from relay.model.events import ColumnType, TableId

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
INTEGERS: Final = frozenset(INTEGER_BITS)
#: TiDB's default display widths of integers, signed and unsigned.
DISPLAY_WIDTHS: Final = {
    "tinyint": (4, 3),
    "smallint": (6, 5),
    "mediumint": (9, 8),
    "int": (11, 10),
    "bigint": (20, 20),
}
FLOATS: Final = frozenset({"float", "double"})
CHARS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BLOBS: Final = frozenset({"tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES: Final = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)
#: Types whose canonical value is `bytes`.
BINARIES: Final = BLOBS | GEOMETRIES | {"binary", "varbinary"}
FRACTIONAL: Final = frozenset({"datetime", "timestamp", "time"})

_ALIASES: Final = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint",
    "int4": "int", "int8": "bigint", "bool": "tinyint", "boolean": "tinyint", "dec": "decimal",
    "numeric": "decimal", "fixed": "decimal", "real": "double", "double precision": "double",
    "float4": "float", "float8": "double", "nchar": "char", "national char": "char",
    "char varying": "varchar", "nvarchar": "varchar", "national varchar": "varchar",
    "nchar varchar": "varchar", "nchar varying": "varchar", "national char varying": "varchar",
    "var_string": "varchar", "char byte": "binary", "long": "mediumtext", "long varchar": "mediumtext",
    "long char varying": "mediumtext", "long varbinary": "mediumblob", "long byte": "mediumblob",
    "serial": "bigint", "geomcollection": "geometrycollection",
    "varchar2": "varchar", "raw": "varbinary", "clob": "longtext", "number": "decimal",
}  # fmt: skip
#: Keywords that the servers' lexers treat as equal.
_SYNONYMS: Final = {"character": "char", "varcharacter": "varchar", "sql_tsi_year": "year"}
#: Type names of several words, and their beginnings of at least two words.
_NAMES: Final = frozenset(
    " ".join(words[:count])
    for words in (name.split() for name in _ALIASES)
    for count in range(2, len(words) + 1)
)


#: All known types of MySQL, TiDB and MariaDB, with their aliases.
_KNOWN: Final = (
    INTEGERS | FLOATS | BINARIES | CHARS | FRACTIONAL | _ALIASES.keys()
    | {"decimal", "bit", "date", "year", "enum", "set", "json", "vector", "inet4", "inet6", "uuid", "xmltype"}
)  # fmt: skip


def is_known_type(name: str) -> bool:
    """Return whether a name in a table's definition is a known type, in any letter case and spelling."""
    words = [_SYNONYMS.get(word, word) for word in name.lower().split()]
    return " ".join(words) in _KNOWN


def joined_name(name: str, word: str) -> str | None:
    """Return a type name extended by one more keyword, in lower case; None if no type name begins so."""
    words = [_SYNONYMS.get(each, each) for each in f"{name} {word}".lower().split()]
    joined = " ".join(words)
    return joined if word and joined in _NAMES else None


#: Character types with CHARACTER SET binary (MySQL Reference Manual §11.3.2).
_AS_BINARY: Final = {
    "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob",
    "mediumtext": "mediumblob", "longtext": "longblob",
}  # fmt: skip


def as_binary(base: str) -> str:
    """Return the type that a character type becomes with CHARACTER SET binary."""
    return _AS_BINARY.get(base, base)


#: Identifiers, as in `geometry`, `double precision` and `mariadb_schema.date`, without parameters. MySQL's
#: type names are ASCII: `İ` in lower case is two characters, the second of which is not a word character.
is_type_name: Final = re.compile(r"[\w.]+(?: [\w.]+)*", re.ASCII).fullmatch
_TOKEN: Final = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^\s(),']+)|([(),]))")


#: Tokens of the longest ENUM: a member and a comma 65535 times, and the tokens around them.
_MOST_TOKENS: Final = 2 * 65_535 + 100


class _TypeTokens:
    """The tokens of a type text, read from left to right: quoted strings, identifiers and punctuation."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, bool]] = []
        at = 0
        while match := _TOKEN.match(text, at):
            at = match.end()
            if len(self._tokens) > _MOST_TOKENS:
                raise ValueError("more members in a type than MySQL allows")
            quoted = match.group(1)
            if quoted is None:
                self._tokens.append((match.group(2) or match.group(3), False))
            else:
                self._tokens.append((quoted.replace("''", "'"), True))
        if text[at:].strip():
            raise ValueError("unbalanced quotes in a type")
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        """Return the next token in lower case, or a later one; "" at the end or before a quoted string."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at][1]:
            return ""
        return self._tokens[at][0].lower()

    def take(self) -> str:
        token = self._tokens[self._at][0]
        self._at += 1
        return token

    def done(self) -> bool:
        return self._at == len(self._tokens)

    def arguments(self) -> list[str]:
        """Return the comma-separated arguments in parentheses; [] if there are no parentheses."""
        if self.peek() != "(":
            return []
        self.take()
        found: list[str] = []
        while not self.done():
            if self.peek() == ")":
                self.take()
                if not found:
                    raise ValueError("empty parentheses in a type")
                return found
            if self.peek() == ",":
                self.take()
            else:
                found.append(self.take())
        raise ValueError("unbalanced parenthesis in a type")


#: Texts up to this length are cached; those of ENUM and SET may be long.
_LONGEST_REMEMBERED: Final = 128


def parse_type(text: str) -> ColumnType:
    """Parse a type such as `BIGINT(20) UNSIGNED`, `enum('a','it''s')`, `varchar(20) character set latin1`.

    Parameters that no server allows become unknown, so that no value is ever padded to them. Raises
    ValueError if the text does not begin with a name, its quotes or parentheses do not match, or its
    parentheses are empty.
    """
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _possible(_parsed(text))


def defined_type(text: str) -> ColumnType:
    """Parse the type of a column definition.

    Raises ValueError like `parse_type`, and like `checked_type`.
    """
    return checked_type(_parsed(text))


def _parsed(text: str) -> ColumnType:
    words = _TypeTokens(text)
    if words.done():
        raise ValueError("empty type")
    unsigned = words.peek() == "unsigned"  # the Go driver's spelling: `unsigned int`
    if unsigned:
        words.take()
    if not is_type_name(words.peek()) or words.peek() == "unsigned":
        raise ValueError("a type does not begin with a name")
    name = words.take().lower()
    name = _SYNONYMS.get(name, name)
    while words.peek(1) != "set" and (joined := joined_name(name, words.peek())) is not None:
        words.take()
        name = joined
    attributes = _Attributes(unsigned=unsigned)
    arguments = words.arguments()
    while not words.done():
        attributes.read(words)
    return _build(name, arguments, attributes)


@functools.lru_cache(maxsize=4096)
def _remembered(text: str) -> ColumnType:
    return _possible(_parsed(text))


def _possible(column_type: ColumnType) -> ColumnType:
    try:
        return checked_type(column_type)
    except ValueError:
        return msgspec.structs.replace(column_type, length=None, scale=None, members=None)


class _Attributes:
    """The attributes after the name and its arguments."""

    def __init__(self, *, unsigned: bool) -> None:
        self.unsigned, self.zerofill = unsigned, False
        self.charset: str | None = None
        self.collation: str | None = None

    def read(self, words: _TypeTokens) -> None:
        word = words.peek()
        words.take()
        if word == "unsigned":
            self.unsigned = True
        elif word == "zerofill":
            self.unsigned = self.zerofill = True
        elif word == "character" and words.peek() == "set":
            words.take()
            self.charset = _name_after(words)
        elif word in {"charset", "collate"}:
            name = _name_after(words)
            if word == "collate":
                self.collation = name
            else:
                self.charset = name


def _name_after(words: _TypeTokens) -> str | None:
    if words.peek() == "=":
        words.take()
    return None if words.done() else words.take().lower()


_MOST_DIGITS: Final = 12


def _build(name: str, arguments: list[str], attributes: _Attributes) -> ColumnType:
    base = _ALIASES.get(name, name)
    if attributes.charset == "binary":
        base = _AS_BINARY.get(base, base)
    if base in {"enum", "set"}:
        members = tuple(arguments) if arguments else None
        return ColumnType(base, charset=attributes.charset, collation=attributes.collation, members=members)
    base, length, scale = _sized(name, base, arguments)
    is_character = base in CHARS
    return ColumnType(
        base,
        # The servers accept UNSIGNED and ZEROFILL behind YEAR, and drop them.
        unsigned=(attributes.unsigned and base != "year") or name == "serial",
        zerofill=attributes.zerofill and base != "year",
        length=length,
        scale=scale,
        charset=attributes.charset if is_character else None,
        collation=attributes.collation if is_character else None,
    )


def _sized(name: str, base: str, arguments: list[str]) -> tuple[str, int | None, int | None]:
    """Return a type's base, length and scale. `name`: as written; `base`: of which it is an alias."""
    # A number with more digits is too large anyway.
    numbers = [int(one[:_MOST_DIGITS]) for one in arguments[:2] if one.isascii() and one.isdigit()]
    length = numbers[0] if numbers else None
    scale = numbers[1] if len(numbers) > 1 else None
    if name in {"bool", "boolean"}:
        return base, 1, scale
    if name == "number" and length is None:
        return "double", None, None  # MariaDB with sql_mode ORACLE; with digits it is DECIMAL
    if base == "float" and length is not None and scale is None:
        # FLOAT(p): p > 24 means DOUBLE, and p itself is not kept.
        return "double" if length > 24 else "float", None, None
    if base == "decimal":
        return base, *_precision(length, scale)
    return base, length, scale


#: Maximum parameters of types (MySQL Reference Manual 8.4 §13.1 to §13.3; MariaDB allows DECIMAL with up to
#: 38 fraction digits). VARCHAR and VARBINARY are limited by the size of a row; above that, a server without
#: strict mode converts them to TEXT and BLOB.
MAX_BITS: Final = 64
_MAX_FRACTION, _MAX_DIGITS, _MAX_SCALE = 6, 65, 38
MAX_MEMBERS: Final = {"enum": 65_535, "set": 64}
_MAX_LENGTH: Final = {
    **dict.fromkeys(INTEGERS, 255), **dict.fromkeys(FLOATS, 255),
    "char": 255, "binary": 255, "varchar": 65_535, "varbinary": 65_535,
}  # fmt: skip
#: For TEXT(n) and BLOB(n), where n selects the size of the type; VECTOR(n) has a lower limit.
_ANY_LENGTH: Final = 2**32 - 1
_YEAR_WIDTHS: Final = frozenset({None, 2, 4})


def checked_type(column_type: ColumnType) -> ColumnType:
    """Return the type unchanged. Raises ValueError for parameters that no server allows, with which values
    have no meaning.
    """
    base, length, scale = column_type.base, column_type.length, column_type.scale
    if (length or 0) < 0 or (scale or 0) < 0:
        raise ValueError("a length or a number of digits below 0")
    if base in FRACTIONAL and length is not None and length > _MAX_FRACTION:
        raise ValueError(f"more than {_MAX_FRACTION} digits of a second")
    if base == "bit" and length is not None and not 1 <= length <= MAX_BITS:
        raise ValueError(f"BIT has 1 to {MAX_BITS} bits")
    if base == "decimal" and length is not None and not (scale or 0) <= length <= _MAX_DIGITS:
        raise ValueError(
            f"DECIMAL has at most {_MAX_DIGITS} digits, and no fewer than after its decimal point"
        )
    if scale is not None and scale > _MAX_SCALE:
        raise ValueError(f"a number has at most {_MAX_SCALE} digits after its decimal point")
    if (length or 0) > _MAX_LENGTH.get(base, _ANY_LENGTH):
        raise ValueError(f"{base[:32].upper()} is at most {_MAX_LENGTH.get(base, _ANY_LENGTH)} long")
    if base == "year" and length not in _YEAR_WIDTHS:
        raise ValueError("YEAR has 4 digits")
    if column_type.members is not None and not 0 < len(column_type.members) <= MAX_MEMBERS[base]:
        raise ValueError(f"{base.upper()} has 1 to {MAX_MEMBERS[base]} members")
    return column_type


def _precision(length: int | None, scale: int | None) -> tuple[int | None, int | None]:
    """Complete the parameters of DECIMAL: DECIMAL(p) has scale 0, and DECIMAL(0) the default 10 digits.

    A bare `decimal` stays without parameters, because on the wire it may have any.
    """
    if length == 0:
        length = 10
    return (length, 0) if length is not None and scale is None else (length, scale)


#: MySQL's default parameters in column definitions.
_IMPLIED: Final = {"decimal": (10, 0), "bit": (1, None), "char": (1, None), "binary": (1, None)}


def with_implied_parameters(column_type: ColumnType) -> ColumnType:
    """Complete a type from a table definition: a bare DECIMAL is DECIMAL(10,0), BIT is BIT(1), CHAR is
    CHAR(1), DATETIME has fsp 0, and ZEROFILL has the display width of its type.

    Do not use it for types on the wire, where missing parameters are unknown.
    """
    if column_type.length is None and column_type.base in _IMPLIED:
        length, scale = _IMPLIED[column_type.base]
        return msgspec.structs.replace(column_type, length=length, scale=scale)
    if column_type.length is None and column_type.base in FRACTIONAL:
        return ColumnType(column_type.base, length=0)
    if column_type.length is None and column_type.zerofill and column_type.base in DISPLAY_WIDTHS:
        return msgspec.structs.replace(column_type, length=DISPLAY_WIDTHS[column_type.base][1])
    return column_type


def format_type(column_type: ColumnType) -> str:
    """Format a type in MySQL's spelling: `decimal(10,4) unsigned`, `enum('a','it''s')`, `datetime(3)`."""
    if column_type.members is not None:
        members = ",".join("'" + member.replace("'", "''") + "'" for member in column_type.members)
        return f"{column_type.base}({members})"
    return column_type.base + _parameters(column_type) + suffix(column_type)


def lacks_parameters(column_type: ColumnType) -> bool:
    """Return whether a type lacks the parameters that it always has, so that `format_type` is incomplete."""
    if column_type.base in {"enum", "set"}:
        return column_type.members is None
    return column_type.length is None and (
        column_type.base in _PARAMETERIZED or column_type.base in FRACTIONAL
    )


def has_parameters(column_type: ColumnType) -> bool:
    """Return whether the type has significant parameters: members, length, precision, fraction digits."""
    if column_type.members is not None or column_type.scale is not None:
        return True
    if column_type.base == "tinyint" and column_type.length == 1:
        return True  # how readers recognize a boolean
    return bool(column_type.length) and (column_type.base in _PARAMETERIZED or column_type.base in FRACTIONAL)


_PARAMETERIZED: Final = frozenset({"decimal", "bit", "char", "varchar", "binary", "varbinary"})


def suffix(column_type: ColumnType) -> str:
    """Return ` unsigned` and ` zerofill`, as they follow a numeric type."""
    return (" unsigned" if column_type.unsigned else "") + (" zerofill" if column_type.zerofill else "")


def _parameters(column_type: ColumnType) -> str:
    base, length = column_type.base, column_type.length
    if length is None or (length == 0 and base in FRACTIONAL):
        return ""
    if base in {"date", "year", "json"} or base in BLOBS or base.endswith("text"):
        return ""
    return f"({length})" if column_type.scale is None else f"({length},{column_type.scale})"


def quoted_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quoted_table(table: TableId) -> str:
    """Return the full name of a table, `` `database`.`table` ``; its name alone without a database."""
    name = quoted_name(table.table)
    return f"{quoted_name(table.database)}.{name}" if table.database else name


_HEX: Final = re.compile(r"0x(?:[0-9a-f]{2})+").fullmatch


def default_text(data: bytes) -> str:
    """Return the text that represents a default of these bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def is_hex(text: str) -> bool:
    """Return whether a default is hexadecimal digits of bytes; False if the bytes are text, which would be
    written instead.
    """
    return _HEX(text) is not None and default_text(bytes.fromhex(text[2:])) == text


def default_bytes(text: str) -> bytes:
    """Return the bytes of a default. Raises UnicodeEncodeError for unpaired surrogates."""
    return bytes.fromhex(text[2:]) if is_hex(text) else text.encode()
