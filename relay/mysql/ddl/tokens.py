"""Tokens of a MySQL statement, and a cursor over them.

`tokenize` splits any text into tokens, or raises DdlNotUnderstood for an unterminated quote or comment. It
takes time linear in the text. Comments and charset introducers are dropped; the contents of executable
comments (`/*! … */`, `/*!50100 … */`, `/*T! … */`, `/*T![feature] … */`) are part of the statement, as in the
server. `Cursor` reads tokens from left to right without recursion, so that no depth of parentheses can
exhaust the stack. Source of the lexical rules: MySQL Reference Manual 8.4 §11.1 (literals), §11.2 (names),
§11.7 (comments); TiDB "Comment Syntax".
"""

from __future__ import annotations

import bisect
import operator
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from relay.model.errors import DdlNotUnderstood
from relay.model.limits import MYSQL_NAME
from relay.mysql.ddl.statements import Change, Item, LocatedName, TableName

_Read = TypeVar("_Read")
_WORD: Final = r"0-9A-Za-z_$\u0080-\U0010FFFF"
_TOKEN: Final = re.compile(
    rf"""
      (?P<blank> [\s\x00]++ | --(?=[\x00-\x20]|\Z)[^\n]*+ | \#[^\n]*+ )
    | (?P<open> /\* (?: M?!(?:\d{{5,6}})? | T!(?:\[[^\]*]*+\])? ) )
    | (?P<comment> /\*.*?\*/ )
    | (?P<close> \*/ )
    | (?P<introducer> (?: _[A-Za-z][A-Za-z0-9]*+\s*+ | [nN] ) (?=['"]|[xXbB]'|0[xXbB][0-9A-Fa-f]) )
    | (?P<bits> [xX]'[0-9A-Fa-f]*+' | [bB]'[01]*+' | 0x[0-9A-Fa-f]++(?![{_WORD}]) | 0b[01]++(?![{_WORD}]) )
    | (?P<number> [0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]++)?(?![{_WORD}]) )
    | (?P<word> [{_WORD}]++ )
    | (?P<name> `(?:[^`]++|``)*+` )
    | (?P<quote> ['"] )
    | (?P<endless> /\*|` )
    | (?P<mark> . )
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
#: Strings by their quoting: first with backslash escapes, then with doubled quotes only.
_STRINGS: Final = {
    ("'", True): re.compile(r"'((?:[^'\\]++|\\.|'')*+)'", re.DOTALL).match,
    ('"', True): re.compile(r'"((?:[^"\\]++|\\.|"")*+)"', re.DOTALL).match,
    ("'", False): re.compile(r"'((?:[^']++|'')*+)'").match,
    ('"', False): re.compile(r'"((?:[^"]++|"")*+)"').match,
}
_ESCAPED: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
#: `\%` and `\_` keep their backslash outside of patterns (MySQL Reference Manual §11.1.1).
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Token(NamedTuple):
    """A token. `kind`: word, name, string, number, bits, mark, end. `start`, `end`: its offsets."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(sql: str, *, backslash_escapes: bool) -> list[Token]:
    """Split a statement. Raises DdlNotUnderstood if a string, a name or a comment is unterminated."""
    tokens: list[Token] = []
    at = depth = 0
    while match := _TOKEN.match(sql, at):
        kind, start, at = match.lastgroup or "", at, match.end()
        if kind == "endless":
            raise DdlNotUnderstood("an unterminated comment or quoted name")
        if kind == "open":
            depth += 1
        elif kind == "close" and depth:
            depth -= 1
        elif kind == "quote":
            text, at = _string(sql, start, backslash_escapes=backslash_escapes)
            # "…" is a name with sql_mode ANSI_QUOTES; `Cursor.name` accepts it.
            tokens.append(Token("string", text, start, at))
        elif kind == "close":
            tokens += (Token("mark", "*", start, start + 1), Token("mark", "/", start + 1, at))
        elif kind == "name":
            tokens.append(Token("name", match.group()[1:-1].replace("``", "`"), start, at))
        elif kind not in {"blank", "comment", "introducer"}:
            tokens.append(Token(kind, match.group(), start, at))
    if depth:
        raise DdlNotUnderstood("an unterminated executable comment")
    return tokens


def _string(sql: str, start: int, *, backslash_escapes: bool) -> tuple[str, int]:
    quote = sql[start]
    match = _STRINGS[quote, backslash_escapes](sql, start)
    if match is None:
        raise DdlNotUnderstood("an unterminated string")
    text = match.group(1)
    if not backslash_escapes:
        return text.replace(quote * 2, quote), match.end()
    return _ESCAPED.sub(lambda found: _unescape(found, quote), text), match.end()


def unquoted(literal: str) -> str:
    """Return the text of a literal in single quotes; any other text stays unchanged."""
    if not literal.startswith("'"):
        return literal
    try:
        text, end = _string(literal, 0, backslash_escapes=True)
    except DdlNotUnderstood:
        end = -1
    return text if end == len(literal) else literal.strip("'")


def _unescape(found: re.Match[str], quote: str) -> str:
    escaped: str | None = found.group(1)
    if escaped is not None:
        return _ESCAPES.get(escaped, escaped)
    return quote if found.group() == quote * 2 else found.group()


_START: Final = operator.attrgetter("start")


class Cursor:
    """Reads tokens from left to right. Raises DdlNotUnderstood if a required token is missing.

    `items`: the items of the statement that were read so far. `tables`: names of tables.
    """

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self._sql, self._tokens, self._at = sql, tokens, 0
        self.items: list[Item] = []
        self.tables: list[LocatedName] = []
        self._end = Token("end", "", len(sql), len(sql))

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or the one `ahead` tokens later."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else self._end

    def text_from(self, start: int) -> str:
        """Return the text from `start` to the next token; comments and the like become a blank."""
        first = bisect.bisect_left(self._tokens, start, 0, self._at, key=_START)
        tokens = self._tokens[first : self._at]
        gaps = ["" if before.end == after.start else " " for before, after in pairwise(tokens)]
        return "".join(
            [self._sql[token.start : token.end] + gap for token, gap in zip(tokens, [*gaps, ""], strict=True)]
        )

    def look(self, ahead: int = 0) -> str:
        """Return the next unquoted word in upper case, or the next mark; "" for any other token."""
        token = self.peek(ahead)
        return token.text.upper() if token.kind in {"word", "mark"} else ""

    def take(self) -> Token:
        """Consume and return the next token."""
        token = self.peek()
        self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Consume these words and marks if all of them come next; return whether they did."""
        for ahead, word in enumerate(words):
            if self.look(ahead) != word:
                return False
        self._at += len(words)
        return True

    def accept_any(self, *words: str) -> bool:
        """Consume one of these words if it comes next; return whether it did."""
        return self.look() in words and self.accept(self.look())

    def expect(self, *words: str) -> None:
        """Consume these words and marks. Raises DdlNotUnderstood if they do not come next."""
        if not self.accept(*words):
            raise DdlNotUnderstood(f"{' '.join(words)} is missing")

    def name(self) -> str:
        """Consume and return a name: quoted or not, even one of digits only, which is valid after a dot."""
        token = self.take()
        is_quoted = token.kind == "name" or (token.kind == "string" and self._sql[token.start] == '"')
        is_digits = token.kind == "number" and token.text.isdigit()
        if not token.text or not (is_quoted or is_digits or token.kind == "word"):
            raise DdlNotUnderstood("a name is missing")
        if len(token.text) > MYSQL_NAME:
            raise DdlNotUnderstood("a name of more than 64 characters")
        return token.text

    def string(self) -> str:
        """Consume and return a string."""
        token = self.take()
        if token.kind != "string":
            raise DdlNotUnderstood("a string is missing")
        return token.text

    def at_end(self) -> bool:
        """Return whether the statement ends here."""
        return self.peek().kind == "end" or self.look() == ";"

    def at_item_end(self) -> bool:
        """Return whether the item of a list ends here."""
        return self.look() in {",", ")"} or self.at_end()

    def skip_parentheses(self) -> str:
        """Skip `( … )` and return the original text between the parentheses."""
        self.expect("(")
        start, depth = self.peek().start, 1
        while depth:
            token = self.take()
            if token.kind == "end":
                raise DdlNotUnderstood("an unclosed parenthesis")
            if token.kind == "mark":
                depth += {"(": 1, ")": -1}.get(token.text, 0)
        return self._sql[start : token.start].strip()

    def skip(self) -> None:
        """Skip one token, or a whole pair of parentheses."""
        if self.look() == "(":
            self.skip_parentheses()
        else:
            self.take()

    def skip_item(self) -> None:
        """Skip the rest of the item of a list."""
        while not self.at_item_end():
            self.skip()

    def attempt(self, read: Callable[[Cursor], _Read]) -> _Read | None:
        """Call a parser; if it raises DdlNotUnderstood, return None without consuming anything."""
        at, tables = self._at, len(self.tables)
        try:
            return read(self)
        except DdlNotUnderstood:
            self._at = at
            del self.tables[tables:]
            return None

    def text_since(self, token: Token) -> str:
        """Return the original text from this token to the cursor."""
        return self._sql[token.start : self.end]

    @property
    def position(self) -> int:
        """The number of consumed tokens."""
        return self._at

    @property
    def end(self) -> int:
        """The offset after the last consumed token."""
        return self._tokens[min(self._at, len(self._tokens)) - 1].end

    @property
    def end_of_text(self) -> int:
        """The offset before the next token and the blanks before it: after the end of executable comments."""
        return len(self._sql[: self.peek().start].rstrip())

    def note_table(self, name: TableName, start: int) -> None:
        """Keep the name of a table from `start` to the cursor in `tables`."""
        self.tables.append(LocatedName(name, start, self.end))

    def note_item(self, start: int, changes: Iterable[Change]) -> None:
        """Keep the item from `start` to the cursor in `items`."""
        self.items.append(Item(tuple(changes), start, self.end_of_text))
