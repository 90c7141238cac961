"""Splits SQL dumps of any size into statements, and keeps only those that may be DDL.

`statements` takes the chunks of a dump and yields its DDL and `USE` statements, each as text with the number
of its first line. Everything else, mainly rows, is skipped without being kept, so memory is bounded. The
scanner handles strings with backslash escapes and doubled quotes, quoted names, comments, executable comments
(which belong to the statement), and the `DELIMITER` of MySQL's client. It raises `DdlNotUnderstood`, with the
line, if the dump ends within a string, a name or a comment, or if a statement is too long.

Sources: output of mysqldump 5.7 to 9, mariadb-dump, mydumper, Dumpling and phpMyAdmin.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from relay.model.errors import DdlNotUnderstood

#: Keywords at the beginning of statements that are kept.
_KEPT: Final = frozenset({"CREATE", "DROP", "ALTER", "RENAME", "USE"})
#: Maximum bytes of a string, comment or quoted name.
_LONGEST_PART: Final = 64 << 20
#: Bytes needed to find the first keyword of a statement.
_ENOUGH: Final = 4096

#: Pieces skipped per match, which takes about 115 bytes of memory for each.
_PIECES_AT_ONCE: Final = 1000
#: The rest of a comment. Faster patterns would take memory for each asterisk.
_TO_END_OF_COMMENT: Final = rb".*?\*/"
_LINE_COMMENTS: Final = (rb"--(?=[\x00-\x20])[^\n]*+\n", rb"#[^\n]*+\n")


def _stepping_over(*kinds: bytes) -> re.Pattern[bytes]:
    """Return a pattern that skips pieces of these kinds and never backtracks.

    It is an atomic group: in CPython before 3.11.5, a possessive one continues from a wrong position if its
    body fails after a repetition or a lookahead (gh-106052). Those of strings, which fail at single
    characters, are correct in all versions.
    """
    return re.compile(rb"(?>(?:%b){1,%d})" % (rb"|".join(kinds), _PIECES_AT_ONCE), re.DOTALL)


#: Text between statements: blanks, plain comments, and MariaDB's marker of a sandboxed dump.
_BETWEEN: Final = _stepping_over(
    rb"[\s;]++",
    *_LINE_COMMENTS,
    rb"/\*(?![!MT])" + _TO_END_OF_COMMENT,
    rb"/\*(?![!]|M!|T!)[MT]" + _TO_END_OF_COMMENT,
    rb"/\*M!999999\\-[^*]*+\*/",
)
_BEFORE_FIRST_WORD: Final = _stepping_over(
    rb"\s++",
    rb"/\*(?:M?!\d*+|T!(?:\[[^\]*]*+\])?)",
    rb"/\*(?![!MT])" + _TO_END_OF_COMMENT,
)
_WORD: Final = re.compile(rb"[A-Za-z]++")
_DELIMITER: Final = re.compile(rb"DELIMITER[ \t]+(\S+)[^\n]*\n?", re.IGNORECASE)
#: mysqldump names the dumped database in its heading if the dump has no USE.
_HEADER: Final = re.compile(rb"^-- Host: .*?    Database: ([^\r\n]+)", re.MULTILINE)
_PLAIN_COMMENT: Final = re.compile(rb"/\*(?![!]|M!|T!)")
_LINE_COMMENT: Final = re.compile(rb"--(?=[\x00-\x20]|\Z)|#")
#: Bytes needed to recognize a comment.
_COMMENT_BYTES: Final = 3


class DumpStatement(NamedTuple):
    """A statement in a dump, and the number of its first line."""

    text: str
    line: int


def dumped_database(start: bytes) -> str | None:
    """Return the database in a dump's heading; None if there is none. `start`: the dump's first bytes."""
    found = _HEADER.search(start)
    return (found[1].decode(errors="replace").rstrip(" \t") or None) if found else None


def statements(chunks: Iterable[bytes], longest: int) -> Iterator[DumpStatement]:
    """Yield the statements of a dump that may be DDL, and USE. `longest`: maximum bytes of a statement.

    Raises DdlNotUnderstood, and any exception of `chunks`.
    """
    scanner = _Scanner(iter(chunks), longest)
    while (found := scanner.next()) is not None:
        if found.text:
            yield found


@functools.cache
def within_statement(delimiter: bytes) -> re.Pattern[bytes]:
    """Return the pattern that skips everything that cannot end a statement."""
    end = re.escape(delimiter[:1])
    # A character that begins neither a comment nor the delimiter; so many bytes after it prove that.
    of_delimiter = len(delimiter) - 1
    dash = rb"-(?!-[\x00-\x20])(?=.{%d})" % max(of_delimiter, 2)
    slash = rb"/(?!\*)(?=.{%d})" % max(of_delimiter, 1)
    return _stepping_over(
        rb"[^'\"`#/\-" + end + rb"]++",
        rb"'(?:[^'\\]++|\\.)*+'",
        rb'"(?:[^"\\]++|\\.)*+"',
        rb"`[^`]*+`",
        rb"/\*" + _TO_END_OF_COMMENT,
        *_LINE_COMMENTS,
        rb"(?!" + re.escape(delimiter) + rb")(?:" + dash + rb"|" + slash + rb")",
    )


class _Scanner:
    """Scans a dump statement by statement. `_data` from `_at` on is still unread."""

    def __init__(self, chunks: Iterator[bytes], longest: int) -> None:
        self._chunks, self._longest = chunks, longest
        self._data, self._at, self._line = b"", 0, 1
        self._delimiter = b";"
        self._is_ended = False

    def next(self) -> DumpStatement | None:
        """Return the next statement, with an empty text if it is irrelevant; None at the end."""
        self._skip_between()
        if self._at == len(self._data):
            return None
        if found := _DELIMITER.match(self._data, self._at):
            self._delimiter = found[1]
            self._step(found.end())
            return DumpStatement("", self._line)
        line, kept = self._line, self._is_kept()
        parts: list[bytes] = []
        size = 0
        while part := self._part():
            size += len(part)
            if kept:
                parts.append(part)
            if kept and size > self._longest:
                raise _at_line(line, f"a statement of more than {self._longest} bytes")
        try:
            return DumpStatement(b"".join(parts).decode().strip(), line)
        except UnicodeDecodeError as error:
            raise _at_line(line, "the statement is not UTF-8") from error

    def _skip_between(self) -> None:
        """Skip the text between statements: blanks, delimiters, comments."""
        self._skip_known()
        while True:
            if _PLAIN_COMMENT.match(self._data, self._at):
                self._skip_comment()
            elif _LINE_COMMENT.match(self._data, self._at):
                self._skip_line()
            else:
                return
            self._skip_known()

    def _skip_comment(self) -> None:
        """Skip a comment that may span many chunks."""
        while (end := self._data.find(b"*/", self._at + len(b"/*"))) < 0:
            if not self._grow("a comment"):
                raise _at_line(self._line, "an unterminated comment")
        self._step(end + len(b"*/"))

    def _skip_line(self) -> None:
        """Skip the rest of a line of any length without keeping it."""
        while (end := self._data.find(b"\n", self._at)) < 0:
            self._step(len(self._data))
            if not self._fill():
                return
        self._step(end)

    def _skip_known(self) -> None:
        """Skip everything between statements that is entirely in the buffer."""
        while True:
            while found := _BETWEEN.match(self._data, self._at):
                self._step(found.end())
            if self._data.startswith(self._delimiter, self._at):
                self._step(self._at + len(self._delimiter))
            elif len(self._data) - self._at >= _ENOUGH or not self._fill():
                return

    def _is_kept(self) -> bool:
        at = self._at
        while found := _BEFORE_FIRST_WORD.match(self._data, at):
            at = found.end()
        word = _WORD.match(self._data, at)
        return word is not None and word[0].decode().upper() in _KEPT

    def _part(self) -> bytes:
        """Return the next part of a statement; at the delimiter, skip it and return nothing."""
        if self._at == len(self._data) and not self._fill():
            return b""
        begin = self._at
        found = within_statement(self._delimiter).match(self._data, begin)
        if found is not None:
            self._step(found.end())
            return found.group()
        if self._data.startswith(self._delimiter, begin):
            self._step(begin + len(self._delimiter))
            return b""
        char = self._data[begin : begin + 1]
        if char == self._delimiter[:1] and len(self._data) - begin >= len(self._delimiter):
            self._step(begin + 1)
            return char
        is_short = len(self._data) - begin < max(_COMMENT_BYTES, len(self._delimiter))
        if is_short and self._fill():
            return self._part()
        return self._long_part(char)

    def _long_part(self, char: bytes) -> bytes:
        """Read more, doubling the amount each time, until a string, name or comment ends."""
        while True:
            found = within_statement(self._delimiter).match(self._data, self._at)
            if found is not None:
                self._step(found.end())
                return found.group()
            if not self._grow("a string, a quoted name or a comment"):
                return self._last_part(char)

    def _last_part(self, char: bytes) -> bytes:
        """Return the next part after the end of the dump has been read."""
        rest = self._data[self._at :]
        if char in b"'\"`" or rest.startswith(b"/*"):
            raise _at_line(self._line, "a string, a quoted name or an unterminated comment")
        size = len(rest) if rest.startswith((b"--", b"#")) else 1
        self._step(self._at + size)
        return rest[:size]

    def _grow(self, what: str) -> bool:
        """Double the unread data; return False at the end of the dump."""
        most = min(max(len(self._data) - self._at, 1), _LONGEST_PART)
        if most == _LONGEST_PART:
            raise _at_line(self._line, f"{what} of more than {_LONGEST_PART} bytes")
        return self._fill(most)

    def _fill(self, least: int = 1) -> bool:
        """Read more data; return False at the end of the dump."""
        parts, size = [self._data[self._at :]], 0
        while size < least and not self._is_ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._is_ended = True
            else:
                parts.append(chunk)
                size += len(chunk)
        if size:
            self._data, self._at = b"".join(parts), 0
        return size > 0

    def _step(self, end: int) -> None:
        self._line += self._data.count(b"\n", self._at, end)
        self._at = end


def _at_line(line: int, why: str) -> DdlNotUnderstood:
    return DdlNotUnderstood(f"line {line}: {why}")
