"""Extracts statements from the output of SHOW CREATE TABLE in database clients.

`shown_statements` returns the statements in output of MySQL's client: tab-separated (`mysql --batch`, with
and without `--raw`), in a box (`+---+`), or vertical (`\\G`). It returns None for other text, which is then
SQL. `separate` splits statements that follow one another without `;`, like concatenated outputs of SHOW
CREATE TABLE.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from relay.model.errors import DdlNotUnderstood
from relay.mysql.ddl.tokens import Token, tokenize
from relay.mysql.dumps import DumpStatement

_CREATE: Final = r"CREATE (?:[A-Z]+=\S+ |SQL SECURITY [A-Z]+ |OR REPLACE )*(?:TABLE|VIEW) "
#: Tab-separated: the name, the statement, and more columns for a view; with `--raw` on several lines.
_BATCH: Final = re.compile(
    rf"^[^\t\n]+\t({_CREATE}.*?)(?:\t\w+\t\w+)?(?=\n[^\t\n]+\t(?:CREATE|Create) |\Z)",
    re.MULTILINE | re.DOTALL,
)
#: A row of a box ends before the next one begins, so that a row without an end is scanned only once.
_BOX: Final = re.compile(
    rf"^\| [^|\n]+ \| ({_CREATE}(?:(?!^\| [^|\n]+ \| CREATE ).)*?)(?<! ) ++\|(?: \w+ +\| \w+ +\|)?$",
    re.MULTILINE | re.DOTALL,
)
_VERTICAL: Final = re.compile(
    rf"^ *Create (?:Table|View): ({_CREATE}.*?)"
    r"(?=^\*{10,} |^ *character_set_client: |^\d+ rows? in set|\Z)",
    re.MULTILINE | re.DOTALL,
)
_is_batch: Final = re.compile(rf"(?:(?:Table|View)\tCreate (?:Table|View)|[^\t\n]+\t{_CREATE})").match
_is_box: Final = re.compile(r"\+-+\+-+\+|\| (?:Table|View) +\| Create ").match
_is_vertical: Final = re.compile(r"\*{10,} 1\. row \*{10,}|(?:Table|View): ").match
#: Escapes of `mysql --batch` inside values.
_ESCAPED: Final = re.compile(r"\\([ntr0\\])")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def shown_statements(text: str) -> list[DumpStatement] | None:
    """Return the statements in a client's output, with their lines; None if the text is not such output."""
    start, text = text.lstrip(), text.rstrip()
    for is_such, pattern in ((_is_batch, _BATCH), (_is_box, _BOX), (_is_vertical, _VERTICAL)):
        if is_such(start):
            return [
                DumpStatement(_unescaped(found[1], pattern), text.count("\n", 0, found.start()) + 1)
                for found in pattern.finditer(text)
            ]
    return None


def _unescaped(statement: str, form: re.Pattern[str]) -> str:
    """Return a statement as the server sent it. With `--raw`, it has several lines and nothing is escaped."""
    if form is not _BATCH or "\n" in statement:
        return statement.strip()
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], statement)


def separate(statement: DumpStatement) -> list[DumpStatement]:
    """Split a text before each CREATE TABLE or CREATE VIEW at the beginning of a line."""
    text = statement.text
    if text.upper().count("CREATE") < 2:
        return [statement]
    try:
        tokens = tokenize(text, backslash_escapes=True)
    except DdlNotUnderstood:
        return [statement]
    starts = [0, *_starts(text, tokens), len(text)]
    return [
        DumpStatement(text[start:end].strip(), statement.line + text.count("\n", 0, start))
        for start, end in pairwise(starts)
    ]


def _starts(text: str, tokens: list[Token]) -> list[int]:
    """Return the offsets of the statements after the first: at a CREATE that is not a table option."""
    found, depth = [], 0
    for at, token in enumerate(tokens):
        if token.kind == "mark" and token.text in "()":
            depth += 1 if token.text == "(" else -1
        is_create = token.kind == "word" and token.text.upper() == "CREATE" and not depth and at
        following = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
        line = text[text.rfind("\n", 0, token.start) + 1 : token.start]
        if is_create and following in {"TABLE", "VIEW", "ALGORITHM", "DEFINER"} and not line.strip():
            found.append(token.start)
    return found
