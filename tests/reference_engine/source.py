"""The source: takes a message apart, as a template says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

import msgspec

from reference_engine.avro import tokens as tokens_of
from reference_engine.fields import varint
from reference_engine.tokens import (
    INTEGER,
    NoMatch,
    Token,
    Tokens,
    is_integer,
    parse_token,
    print_value,
)
from relay.templates.avro_ops import AvroOp
from relay.templates.ops import (
    MOST_REWRITTEN,
    AvroValue,
    Constant,
    Enter,
    Kind,
    Kinds,
    Leave,
    Length,
    Members,
    OneOf,
    Repeated,
    SourceOp,
    Take,
    Text,
    Unordered,
    Varint,
)

# A number's fraction and exponent are not possessive, which CPython before 3.11.5 gets wrong (gh-106052).
# They need not be: what must follow a number leaves nothing to backtrack into.
_TOKEN: Final = re.compile(
    rb"""(?P<string>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
    |(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)(?![-+.0-9eE])
    |(?P<null>null)
    |(?P<boolean>true|false)""",
    re.VERBOSE | re.DOTALL,
)


class Scanned:
    """The tokens of a message, and those of the rounds behind the first one."""

    def __init__(self) -> None:
        self.tokens: Tokens = []
        #: Of each `Repeated`: its first slot, and the tokens of its later rounds.
        self.later: list[tuple[int, list[Tokens]]] = []

    def rows(self) -> list[Tokens]:
        """Return the tokens of each row. Raises Misfit if there are not as many of all rounds."""
        if len({len(rounds) for _, rounds in self.later}) > 1:
            raise NoMatch
        rows = [self.tokens]
        for its in zip(*(rounds for _, rounds in self.later), strict=True):
            row = list(self.tokens)
            for (first, _), tokens in zip(self.later, its, strict=True):
                row[first : first + len(tokens)] = tokens
            rows.append(row)
        return rows


class Scan:
    """Takes one part of a message apart."""

    def __init__(self, part: bytes, scanned: Scanned) -> None:
        self._part = part
        self._at = 0
        self._scanned = scanned
        self._tokens = scanned.tokens
        #: Where the bytes end that were entered and not left.
        self._ends: list[int] = []

    def take(self, ops: Iterable[SourceOp]) -> None:
        """Append a token for each slot. The whole part is taken."""
        self._ops(ops)
        self._require(self._at == len(self._part) and not self._ends)

    def _repeated(self, ops: Iterable[SourceOp], between: bytes) -> None:
        first, later = len(self._tokens), list[Tokens]()
        self._ops(ops)
        while self._has(between):
            self._tokens = []
            self._ops(ops)
            later.append(self._tokens)
        self._tokens = self._scanned.tokens
        self._scanned.later.append((first, later))

    def _ops(self, ops: Iterable[SourceOp]) -> None:  # noqa: C901 - a case for each op
        for op in ops:
            match op:
                case Constant(text):
                    self._require(self._has(text))
                case Take(kinds):
                    self._tokens.append(self._token(kinds))
                case OneOf(texts):
                    self._require(any(self._has(text) for text in texts))
                case Members(members, end):
                    self._members(members, end)
                case Unordered(members):
                    self._unordered(set(members))
                case Length(width):
                    self._length(width)
                case Repeated(inner, between):
                    self._repeated(inner, between)
                case AvroValue(avro):
                    self._avro(avro)
                case Enter() | Leave() | Varint() | Text():
                    self._fields(op)

    def _fields(self, op: Enter | Leave | Varint | Text) -> None:
        match op:
            case Enter():
                size = self._varint()
                self._ends.append(self._at + size)
            case Leave():
                self._require(bool(self._ends) and self._ends.pop() == self._at)
            case Varint():
                number = self._varint()
                signed = number - (number >> 63 << 64)
                self._tokens.append(Token("integer", b"%d" % signed, signed))
            case Text(head, null, empty):
                self._text(head, null, empty)

    def _require(self, fits: bool) -> None:
        if not fits:
            raise NoMatch

    def _has(self, text: bytes) -> bool:
        if not self._part.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _token(self, kinds: Kinds) -> Token:
        match = _TOKEN.match(self._part, self._at)
        if match is None:
            raise NoMatch
        self._at = match.end()
        kind = cast("Kind", match.lastgroup)
        if kind == "number" and INTEGER.fullmatch(match[0]):
            self._require(is_integer(match[0]))
            kind = "integer"
        self._require(kind in kinds)
        try:
            token = Token(kind, match[0], parse_token(match[0]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoMatch from error
        if kind == "string" and len(self._part) - match.start() > MOST_REWRITTEN:
            self._require(print_value(token.value) == token.text)
        return token

    def _varint(self) -> int:
        found = varint(self._part, self._at)
        if found is None:
            raise NoMatch
        number, self._at = found
        return number

    def _text(self, head: bytes, null: bytes | None, empty: bytes | None) -> None:
        if self._has(head):
            end = self._varint() + self._at
            self._require(end <= len(self._part))
            try:
                text = self._part[self._at : end].decode()
            except UnicodeDecodeError as error:
                raise NoMatch from error
            self._at = end
        elif empty is not None and self._has(empty):
            text = ""
        else:
            self._require(null is not None and self._has(null))
            self._tokens.append(Token("null", b"null", None))
            return
        self._tokens.append(Token("string", print_value(text), text))

    def _avro(self, avro: AvroOp) -> None:
        found = tokens_of(avro, self._part, self._at)
        if found is None:
            raise NoMatch
        texts, self._at = found
        for text in texts:
            match = _TOKEN.fullmatch(text)
            kind = cast("Kind", match and match.lastgroup)
            if kind == "number" and INTEGER.fullmatch(text):
                kind = "integer"
            self._tokens.append(Token(kind, text, parse_token(text)))

    def _members(self, members: Iterable[tuple[bytes, Kinds]], end: bytes) -> None:
        comma = b""
        for name, kinds in members:
            if self._has(comma + name):
                self._tokens.append(self._token(kinds))
                self._require(self._has(end))
                comma = b","
            else:
                self._tokens.append(None)

    def _unordered(self, left: set[bytes]) -> None:
        while left:
            member = next(filter(self._has, left), None)
            if member is None:
                raise NoMatch
            left.remove(member)
            self._require(not left or self._has(b","))

    def _length(self, width: int) -> None:
        behind = self._at + width
        self._require(behind <= len(self._part))
        length = int.from_bytes(self._part[self._at : behind], "big")
        self._require(length == len(self._part) - behind)
        self._at = behind
