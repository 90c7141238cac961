"""Parse pasted text as records or statements.

A text is record lines (`relay.io.record_lines`), message values, one a line, or one document of JSON, over
any number of lines. A binary value is given in base64, which no textual message can be mistaken for.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.cli.files import LineFormat
from relay.cli.record_files import DEFAULT_TOPIC, detect
from relay.io.record_lines import DECODE_ERRORS, parse_record
from relay.model.errors import ConfigError, DdlNotUnderstood, Problem
from relay.model.records import ConsumerRecord
from relay.mysql.ddl.tokens import Token, tokenize

#: The output of `base64`, in several lines or as one.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{2,}={0,2}").fullmatch
#: Length of wrapped lines of base64; the last one is shorter.
_BROKEN_AT: Final = frozenset({60, 64, 76})
#: First keywords of a dump's statements that define nothing.
_NO_DDL: Final = frozenset({"SET", "LOCK", "UNLOCK", "INSERT", "REPLACE", "START", "BEGIN", "COMMIT"})
_DOCUMENT: Final = msgspec.json.Decoder(msgspec.Raw)


class Pasted(NamedTuple):
    """A record, and the number of its line, from 1."""

    record: ConsumerRecord
    line: int


def records_in(text: str, path: str, key: str = "") -> list[Pasted]:
    """Return the records of a pasted text; `key`: that of message values, "" for none.

    Raises ConfigError with the invalid lines, below `path`.
    """
    parts = list(_parts(text.removeprefix("\ufeff")))
    if not parts:
        return []
    if detect(parts[0].text.encode()) is LineFormat.RECORDS:
        return _records(parts, path)
    data = _bytes(key.strip()) if key.strip() else None
    return [
        Pasted(ConsumerRecord(DEFAULT_TOPIC, 0, at, 0, data, _bytes(part.text)), part.line)
        for at, part in enumerate(parts)
    ]


class _Part(NamedTuple):
    text: str
    line: int


def _parts(text: str) -> Iterator[_Part]:
    """Return the lines, or the whole if it is one value over several lines."""
    lines = [_Part(line.strip(), number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2:
        return iter(lines)
    first = lines[0].line
    if _is_broken_base64(lines):
        return iter([_Part("".join(line.text for line in lines), first)])
    begins_a_document = not _BASE64(lines[0].text) and not _is_document(lines[0].text)
    if begins_a_document:
        return iter([_Part(text.strip(), first)])
    return iter(lines)


def _is_broken_base64(lines: Sequence[_Part]) -> bool:
    width = len(lines[0].text)
    if width not in _BROKEN_AT or not all(_BASE64(line.text) for line in lines):
        return False
    return all(len(line.text) == width for line in lines[:-1]) and len(lines[-1].text) <= width


def _is_document(text: str) -> bool:
    try:
        _DOCUMENT.decode(text)
    except DECODE_ERRORS:
        return False
    return True


def _bytes(text: str) -> bytes:
    if _BASE64(text) and not text.isdigit() and len(text) % 4 == 0:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            return text.encode()
    return text.encode()


def _records(parts: Sequence[_Part], path: str) -> list[Pasted]:
    counted: Counter[tuple[str, int]] = Counter()

    def next_offset(topic: str, partition: int) -> int:
        counted[topic, partition] += 1
        return counted[topic, partition] - 1

    found: list[Pasted] = []
    problems: list[Problem] = []
    for part in parts:
        try:
            record = parse_record(part.text.encode(), DEFAULT_TOPIC, next_offset)
        except ValueError as error:
            problems.append(Problem(f"{path}, line {part.line}", f"is not a record: {error}"))
        else:
            found.append(Pasted(record, part.line))
    if problems:
        raise ConfigError(problems)
    return found


class PastedStatement(NamedTuple):
    """A statement, the database that `USE` has named before it ("" if none has), and its line, from 1."""

    text: str
    database: str
    line: int


def is_sql(text: str) -> bool:
    """Return whether a text is statements, and not records."""
    begin = text.lstrip("\ufeff \t\r\n")
    return not begin.startswith(("{", "[")) and not _BASE64(begin.split("\n")[0].strip())


def statements_in(text: str, path: str) -> list[PastedStatement]:
    """Return the statements of a text separated by `;`, without `USE` and a dump's statements other than DDL.

    Raises ConfigError.
    """
    try:
        tokens = tokenize(text, backslash_escapes=True)
    except DdlNotUnderstood as error:
        raise ConfigError([Problem(path, str(error))]) from error
    database = ""
    found: list[PastedStatement] = []
    line = offset = 0
    for group in _groups(tokens):
        start = group[0].start
        line, offset = line + text.count("\n", offset, start), start
        if group[0].text.upper() == "USE" and len(group) == 2:
            database = group[1].text
            continue
        if group[0].text.upper() in _NO_DDL:
            continue
        found.append(PastedStatement(text[start : group[-1].end], database, line + 1))
    return found


def _groups(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    group: list[Token] = []
    for token in tokens:
        if token.kind != "mark" or token.text != ";":
            group.append(token)
        elif group:
            yield group
            group = []
    if group:
        yield group
