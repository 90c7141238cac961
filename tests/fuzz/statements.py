"""Mutations of DDL text that know its grammar: definitions, actions, statements, types, quotes, parentheses."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

from fuzz.words import DATES, NUMBERS, TEXTS, type_word

is_statement: Final = re.compile(
    r"\s*+(?>/\*.*?\*/\s*)?(?:CREATE|ALTER|DROP|RENAME|TRUNCATE|FLASHBACK|RECOVER)\b",
    re.IGNORECASE | re.DOTALL,
).match
_TOKENS: Final = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|\w+|\s+|.", re.DOTALL
).findall
_TYPES: Final = re.compile(
    r"\b(?:(?:TINY|SMALL|MEDIUM|BIG)?INT|INTEGER|FLOAT|DOUBLE|DECIMAL|BIT|YEAR|DATE|DATETIME|TIMESTAMP|TIME|"
    r"(?:VAR)?CHAR|(?:VAR)?BINARY|(?:TINY|MEDIUM|LONG)?(?:TEXT|BLOB)|ENUM|SET|JSON)\b(?:\s*\([^()]*\))?",
    re.IGNORECASE,
)
_TABLE: Final = re.compile(
    r"\bTABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))?)", re.IGNORECASE
)
_PARENTHESES: Final = re.compile(r"\(.*\)", re.DOTALL)
_CONSTRAINTS: Final = (
    *(
        "PRIMARY KEY (`id`)",
        "PRIMARY KEY (`a`, `b`)",
        "PRIMARY KEY ()",
        "UNIQUE (`a`)",
        "UNIQUE KEY (`id`)",
        "KEY (a)",
    ),
    *("UNIQUE INDEX `u` (`a`(10) DESC)", "UNIQUE ((lower(a)))", "INDEX i USING HASH (a)", "FULLTEXT KEY (a)"),
    *(
        "CONSTRAINT c CHECK (a > 0)",
        "CHECK ((((a))))",
        "FOREIGN KEY (a) REFERENCES t (id)",
        "CONSTRAINT UNIQUE (a)",
    ),
    *(
        "UNIQUE KEY `u` (`missing`)",
        "PRIMARY KEY (`missing`)",
        "PRIMARY KEY (`id`, `id`)",
        "SPATIAL INDEX (a)",
    ),
)
_COLUMN_OPTIONS: Final = (
    *(
        "",
        "",
        " NOT NULL",
        " NULL",
        " PRIMARY KEY",
        " UNIQUE",
        " AUTO_INCREMENT",
        " COMMENT 'it''s'",
        " DEFAULT NULL",
    ),
    *(
        " DEFAULT 'x'",
        " DEFAULT 1e400",
        " DEFAULT -0",
        " DEFAULT b'101'",
        " DEFAULT x'FF'",
        " DEFAULT _UTF8MB4'ä'",
    ),
    *(
        " DEFAULT CURRENT_TIMESTAMP(7) ON UPDATE NOW()",
        " DEFAULT (uuid())",
        " DEFAULT ((((1))))",
        " INVISIBLE",
    ),
    *(
        " GENERATED ALWAYS AS (a + 1) VIRTUAL",
        " AS (concat('(', a)) STORED",
        " CHARACTER SET gbk",
        " COLLATE x",
    ),
    *(
        " CHARSET latin1 NOT NULL",
        " FIRST",
        " AFTER id",
        " AFTER `missing`",
        " DEFAULT",
        " REFERENCES t (id)",
    ),
)
_NUMBERS: Final = (
    *(number.decode() for number in NUMBERS),
    "0x" + "f" * 5000,
    "b'" + "1" * 100 + "'",
    "true",
)
_TABLE_ACTIONS: Final = (
    *(
        "CONVERT TO CHARACTER SET utf8mb4",
        "DEFAULT CHARSET = latin1",
        "COMMENT = 'x'",
        "RENAME TO `other`",
        "RENAME x.y",
    ),
    *(
        "DROP PRIMARY KEY",
        "ADD PRIMARY KEY (id)",
        "ADD UNIQUE (a)",
        "DROP INDEX `PRIMARY`",
        "RENAME INDEX a TO b",
        "FORCE",
    ),
    *(
        "ALTER COLUMN a SET DEFAULT 'x'",
        "ALTER a DROP DEFAULT",
        "ORDER BY a",
        "ENGINE = InnoDB",
        "AUTO_INCREMENT 5",
    ),
    *(
        "ADD PARTITION (PARTITION p VALUES LESS THAN (5))",
        "TRUNCATE PARTITION p",
        "SHARD_ROW_ID_BITS = 4",
        "LOCK=NONE",
    ),
    *(
        "EXCHANGE PARTITION p WITH TABLE q",
        "REMOVE PARTITIONING",
        "ADD CHECK (a)",
        "TTL = a + INTERVAL 1 DAY",
    ),
)
_STATEMENTS: Final = (
    *(
        "DROP TABLE {t}",
        "DROP TABLE IF EXISTS {t}, x",
        "TRUNCATE TABLE {t}",
        "TRUNCATE {t}",
        "RENAME TABLE {t} TO {t}",
    ),
    *(
        "RENAME TABLE {t} TO a, a TO {t}",
        "RENAME TABLE {t} TO x.y, x.y TO z, z TO {t}",
        "CREATE TABLE {t} LIKE {t}",
    ),
    *(
        "CREATE TABLE {t} (a INT)",
        "CREATE TABLE {t} ()",
        "CREATE TABLE {t} AS SELECT 1",
        "CREATE TABLE x LIKE {t}",
    ),
    *(
        "CREATE VIEW {t} AS SELECT * FROM x",
        "CREATE VIEW v (a, b) AS SELECT 1, 2",
        "DROP VIEW {t}",
        "CREATE DATABASE x",
    ),
    *(
        "DROP DATABASE d",
        "CREATE INDEX i ON {t} (a)",
        "CREATE UNIQUE INDEX u ON {t} (id)",
        "DROP INDEX `PRIMARY` ON {t}",
    ),
    *(
        "CREATE SEQUENCE s",
        "ALTER DATABASE CHARACTER SET gbk",
        "FLASHBACK TABLE {t} TO x",
        "RECOVER TABLE {t}",
    ),
    *(
        "LOCK TABLES {t} READ",
        "UNLOCK TABLES",
        "INSERT INTO {t} VALUES (1)",
        "SELECT 1",
        "",
        "ALTER TABLE {t}",
    ),
    *(
        "ALTER TABLE {t} ADD COLUMN (",
        "CREATE TEMPORARY TABLE {t} (a INT)",
        "CREATE TABLE {t} (LIKE x)",
        "USE x",
    ),
)
_PIECES: Final = (
    *(
        "(",
        ")",
        "((",
        "))",
        ",",
        ";",
        "'",
        '"',
        "`",
        "``",
        "''",
        "\\",
        "/*",
        "*/",
        "/*!50100",
        "/*T![x]",
        "--",
        "-- \n",
    ),
    *(
        "#",
        "\n",
        " " * 300,
        "\x00",
        "COLUMN",
        "DEFAULT",
        "AS",
        "LIKE",
        "KEY",
        "PRIMARY",
        "NOT",
        "NULL",
        "TABLE",
        "=",
        ".",
    ),
    *(
        "FIRST",
        "AFTER",
        "TO",
        "CHANGE",
        "MODIFY",
        "ADD",
        "DROP",
        "ENUM",
        "@x",
        "0x",
        "_utf8",
        "N'a'",
        "$$",
        "😀",
    ),
)


def mutated_statement(text: str, chance: random.Random) -> str:
    """The statement with one or several changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = chance.choice(_MUTATIONS)(text, chance)
    return text


def column(chance: random.Random) -> str:
    """A column's definition."""
    name = chance.choice(
        ("a", "b", "`c d`", "`id`", "id", "ID", "`é`", "`a``b`", '"q"', "``", "c" * 70, "`x.y`")
    )
    return f"{name} {type_word(chance)}{chance.choice(_COLUMN_OPTIONS)}{chance.choice(_COLUMN_OPTIONS)}"


def _definition(chance: random.Random) -> str:
    return column(chance) if chance.random() < 0.7 else chance.choice(_CONSTRAINTS)


def _action(chance: random.Random) -> str:
    roll = chance.random()
    if roll < 0.4:
        return f"ADD COLUMN {column(chance)}"
    if roll < 0.55:
        return (
            f"{chance.choice(('MODIFY', 'MODIFY COLUMN', 'CHANGE COLUMN a', 'CHANGE id'))} {column(chance)}"
        )
    if roll < 0.7:
        return chance.choice(
            (
                "DROP COLUMN a",
                "DROP id",
                "RENAME COLUMN a TO b",
                "RENAME COLUMN id TO a",
                "DROP COLUMN IF EXISTS a",
            )
        )
    if roll < 0.8:
        return f"ADD {chance.choice(_CONSTRAINTS)}"
    if roll < 0.85:
        return f"ADD COLUMN ({column(chance)}, {column(chance)})"
    return chance.choice(_TABLE_ACTIONS)


def _table(text: str) -> str:
    found = _TABLE.search(text)
    return found[1] if found else "t"


def _definitions(text: str, chance: random.Random) -> str:
    """Change the list in the outermost parentheses."""
    found = _PARENTHESES.search(text)
    if found is None:
        return _altered(text, chance)
    parts = _split(found[0][1:-1])
    at = chance.randrange(len(parts))
    match chance.randrange(5):
        case 0:
            parts[at:at] = [_definition(chance)]
        case 1:
            del parts[at]
        case 2:
            parts.append(parts[at])
        case 3:
            chance.shuffle(parts)
        case _:
            parts += [_definition(chance) for _ in range(chance.choice((1, 1, 2, 3, 20)))]
    return f"{text[: found.start()]}({','.join(parts)}){text[found.end() :]}"


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no parentheses."""
    parts, depth = [""], 0
    for token in _TOKENS(text):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _altered(text: str, chance: random.Random) -> str:
    """More actions of an ALTER, or an ALTER instead."""
    head = (
        f"{text.rstrip('; ')}, " if text.lstrip()[:5].upper() == "ALTER" else f"ALTER TABLE {_table(text)} "
    )
    return head + ", ".join(_action(chance) for _ in range(chance.choice((1, 1, 2, 5))))


def _retyped(text: str, chance: random.Random) -> str:
    found = list(_TYPES.finditer(text))
    if not found:
        return _altered(text, chance)
    one = chance.choice(found)
    return text[: one.start()] + type_word(chance) + text[one.end() :]


def _other_statement(text: str, chance: random.Random) -> str:
    return chance.choice(_STATEMENTS).format(t=_table(text))


def _several(text: str, chance: random.Random) -> str:
    more = [
        _other_statement(text, chance) if chance.random() < 0.7 else text
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 20)))
    ]
    return chance.choice((";", "; ", ";;\n")).join([text, *more])


#: Parts of which a hostile statement may have thousands.
_REPEATED: Final = (
    " ",
    "\n",
    "/**/",
    "(",
    ")",
    "'",
    "''",
    "\\'",
    "`",
    ",",
    ";",
    "1",
    "a",
    ".",
    "-- \n",
    "/*!",
    "*/",
    "é",
)


def _tokens(text: str, chance: random.Random) -> str:
    tokens: list[str] = _TOKENS(text[:5_000]) or [""]
    at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    match chance.randrange(6):
        case 0:
            del tokens[at]
        case 5:
            tokens[at:at] = [chance.choice((tokens[other], *_REPEATED)) * chance.choice((1000, 20_000))]
        case 1:
            tokens[at:at] = [tokens[other]]
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens[at] = chance.choice(_PIECES)
        case _:
            tokens[at] = chance.choice(
                (f"`{tokens[at]}`", f"'{tokens[at]}'", f'"{tokens[at]}"', tokens[at].swapcase())
            )
    return "".join(tokens)


def _nested(text: str, chance: random.Random) -> str:
    depth = chance.choice((3, 3, 30, 30, 30, 300, 300, 3000))
    expression = "(" * depth + "1" + ")" * chance.choice((depth, depth, depth - 1))
    return chance.choice(
        (
            f"ALTER TABLE {_table(text)} ADD COLUMN n INT DEFAULT {expression}",
            f"ALTER TABLE {_table(text)} ADD CHECK {expression}",
            f"CREATE TABLE {_table(text)} (id INT, g INT AS {expression})",
            f"CREATE VIEW v AS SELECT {expression}",
        )
    )


def _defaulted(text: str, chance: random.Random) -> str:
    value = chance.choice((*DATES, *TEXTS, *_NUMBERS)).replace("'", "''")
    default = value if value in _NUMBERS and chance.random() < 0.5 else f"'{value}'"
    null = chance.choice((" NOT NULL", ""))
    return f"ALTER TABLE {_table(text)} ADD COLUMN n {type_word(chance)}{null} DEFAULT {default}"


def _commented(text: str, chance: random.Random) -> str:
    return chance.choice(
        (f"/* x */ {text}", f"{text} -- x", f"/*!40101 {text} */", f"# x\n{text}", f" \n\t{text};;")
    )


_MUTATIONS: Final[tuple[Callable[[str, random.Random], str], ...]] = (
    *(
        _definitions,
        _definitions,
        _altered,
        _altered,
        _retyped,
        _retyped,
        _retyped,
        _other_statement,
        _several,
    ),
    *(_tokens, _tokens, _nested, _defaulted, _commented),
)
