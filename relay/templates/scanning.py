"""Splits the JSON text of one message into source ops: the constant parts of its shape, and values.

A decoder parses a text (`parsed`), declares the kinds of each value that may differ (`source_ops`), and gets
the slots by path. White space and the order of members are those of the text. Paths are tuples of member
names and list indices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Literal

import msgspec

from relay.templates.ops import Constant, Kind, Kinds, Members, Repeated, SourceOp, Take, Unordered
from relay.templates.tracing import NotTemplatable

Path = tuple[str | int, ...]

#: Kinds of values.
INTEGER: Final = Take(("integer",))
STRING: Final = Take(("string",))
TEXT_OR_NULL: Final = Take(("string", "null"))
SCALAR: Final = Take(("integer", "number", "string", "null", "boolean"))
#: A string of digits that is captured as an integer without its quotes.
DIGITS: Final = "digits"
#: A string that ends in a colon and digits: the digits are captured as an integer, the rest is constant.
LAST_DIGITS: Final = "last-digits"
#: The declaration of a value, or of the contents of an object's braces.
Given = Take | Members | Unordered | Literal["digits", "last-digits"]

#: A token with a colon or a comma after it; a character that begins no token is an invalid token. The pattern
#: is used for searching, so it must not begin with a repetition: each blank would begin a new attempt.
_TOKEN: Final = re.compile(
    rb'("(?:[^"\\]++|\\.)*+"?|-?[0-9][0-9.eE+-]*|true|false|null|[^ \t\n\r])(?:[ \t\n\r]*+([:,]))?',
    re.DOTALL,
)
_DIGITS: Final = frozenset(b"-0123456789")
_name_in: Final = msgspec.json.Decoder(str).decode
_INTEGER: Final = re.compile(rb"-?[0-9]+").fullmatch
_KINDS: Final[dict[int, Kind]] = {
    ord('"'): "string",
    ord("n"): "null",
    ord("t"): "boolean",
    ord("f"): "boolean",
}


class JsonToken:
    """A value of a text. `name_start`: the start of the name of the member with this value.

    `members` are those of an object by name, in order; `items` are the values of a list.
    """

    __slots__ = ("end", "items", "kind", "members", "name_start", "start")

    def __init__(self, start: int, name_start: int) -> None:
        self.start, self.end, self.name_start = start, start, name_start
        self.kind: Kind | None = None
        self.members: dict[str, JsonToken] | None = None
        self.items: list[JsonToken] | None = None

    def at(self, path: Path) -> JsonToken | None:
        """Return the value at a path below this one; None if there is none."""
        found: JsonToken | None = self
        for step in path:
            if found is None:
                return None
            if isinstance(step, str):
                found = (found.members or {}).get(step)
            else:
                items = found.items or []
                found = items[step] if step < len(items) else None
        return found


#: More than in a row of 4096 columns with its old row: Open Protocol has nine tokens per column in each.
MAX_TOKENS: Final = 100_000


def parsed(text: bytes, start: int = 0, max_tokens: int = MAX_TOKENS) -> JsonToken:
    """Return the value in a text from `start` to its end.

    Raises NotTemplatable for a duplicate name in an object, for excessive nesting, for more than `max_tokens`
    tokens, and for most invalid JSON: a decoder has already parsed the text.
    """
    try:
        token = _Parser(text, start, max_tokens).value()
    except (StopIteration, RecursionError, msgspec.DecodeError, UnicodeDecodeError):
        raise NotTemplatable from None
    if token.end != len(text):
        raise NotTemplatable
    return token


#: The start and end of a token, the token, and a colon or a comma after it.
_Placed = tuple[int, int, bytes, bytes | None]


class _Parser:
    """Parses a text from `start` on without validating commas. `_end`: end of the latest object or list."""

    def __init__(self, text: bytes, start: int, max_tokens: int) -> None:
        all_tokens = _TOKEN.finditer(text, start)
        tokens = [
            (found.start(1), found.end(1), found[1], found[2]) for found in islice(all_tokens, max_tokens)
        ]
        if next(all_tokens, None) is not None:
            raise NotTemplatable
        self._next: Callable[[], _Placed] = iter(tokens).__next__
        self._end = start

    def value(self) -> JsonToken:
        placed = self._next()
        return self._value(placed, placed[0])

    def _value(self, placed: _Placed, name_start: int) -> JsonToken:
        start, end, text, _ = placed
        token = JsonToken(start, name_start)
        if text == b"{":
            token.members = self._members()
            end = self._end
        elif text == b"[":
            token.items = self._items()
            end = self._end
        else:
            token.kind = _KINDS.get(text[0]) or _kind_of_number(text)
        token.end = end
        return token

    def _members(self) -> dict[str, JsonToken]:
        members: dict[str, JsonToken] = {}
        take, value = self._next, self._value
        start, end, text, behind = take()
        while text != b"}":
            name = _name_in(text)
            if name in members or behind != b":":
                raise NotTemplatable
            members[name] = value(take(), start)
            start, end, text, behind = take()
        self._end = end
        return members

    def _items(self) -> list[JsonToken]:
        items: list[JsonToken] = []
        take, value = self._next, self._value
        placed = take()
        while placed[2] != b"]":
            items.append(value(placed, placed[0]))
            placed = take()
        self._end = placed[1]
        return items


def _kind_of_number(text: bytes) -> Kind:
    """Return the kind of a number. Raises NotTemplatable for any other token."""
    if _INTEGER(text):
        return "integer"
    if text[0] in _DIGITS and text != b"-":
        return "number"
    raise NotTemplatable


def source_ops(
    text: bytes,
    root: JsonToken,
    given: Mapping[Path, Given],
    first_slot: int,
    start: int = 0,
    *,
    rows: Iterable[Path] = (),
) -> tuple[tuple[SourceOp, ...], dict[Path, int]]:
    """Return the ops of a text from `start` on, and the slots of the values at the paths in `given`.

    `Members` and `Unordered` describe the contents of an object's braces; the slot of a member of `Members`
    has the object's path followed by the member's name. `rows`: paths of single values in lists that have one
    value per row in messages of several rows. Raises NotTemplatable if the text lacks such a value.
    """
    found: list[_Found] = []
    for path, op in given.items():
        token = root.at(path)
        if token is None:
            raise NotTemplatable
        if isinstance(op, str):
            before = token.start if op == DIGITS else text.rfind(b":", token.start, token.end)
            if token.kind != "string" or before < 0:
                raise NotTemplatable
            found.append((before + 1, token.end - 1, path, INTEGER))
        elif isinstance(op, Take):
            found.append((token.start, token.end, path, op))
        else:
            found.append((token.start + 1, token.end - 1, path, op))
    found.sort(key=_start)
    slots: dict[Path, int] = {}
    for _, _, path, op in found:
        for each in _slot_paths(path, op):
            slots[each] = first_slot + len(slots)
    ops: list[SourceOp] = []
    at = start
    for begins, ends in sorted(_range(root, path) for path in rows):
        ops += _ops_between(text, at, begins, found)
        ops.append(Repeated(tuple(_ops_between(text, begins, ends, found)), _BETWEEN))
        at = ends
    ops += _ops_between(text, at, len(text), found)
    return tuple(ops), slots


#: The start and end of a value, its path, and its op.
_Found = tuple[int, int, Path, Take | Members | Unordered]
#: Separator between the values of a list.
_BETWEEN: Final = b","


def _ops_between(
    text: bytes, start: int, end: int, found: Iterable[_Found]
) -> list[Constant | Take | Members | Unordered]:
    """Return the ops of a part of a text, including those in `found` within it, in order."""
    ops: list[Constant | Take | Members | Unordered] = []
    at = start
    for begins, ends, _, op in found:
        if not start <= begins < end:
            continue
        if begins < at or ends > end:
            raise NotTemplatable
        if begins > at:
            ops.append(Constant(text[at:begins]))
        ops.append(op)
        at = ends
    if at < end:
        ops.append(Constant(text[at:end]))
    return ops


def _range(root: JsonToken, path: Path) -> tuple[int, int]:
    token = root.at(path)
    if token is None:
        raise NotTemplatable
    return token.start, token.end


def _start(found: _Found) -> int:
    return found[0]


def _slot_paths(path: Path, op: Take | Members | Unordered) -> list[Path]:
    if isinstance(op, Take):
        return [path]
    if isinstance(op, Members):
        return [(*path, _name(member)) for member, _ in op.members]
    return []


def _name(member: bytes) -> str:
    """Return the name of a member from the text before its token."""
    found = _TOKEN.search(member)
    return _name_in(found[1] if found else b"")


def scalar_paths(token: JsonToken, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values that are neither objects nor lists, at and below this one."""
    if token.members is None and token.items is None:
        yield path
    for name, member in (token.members or {}).items():
        yield from scalar_paths(member, (*path, name))
    for at, item in enumerate(token.items or ()):
        yield from scalar_paths(item, (*path, at))


def names_of(text: bytes, token: JsonToken) -> list[bytes]:
    """Return the names of an object's members as written, each with the text up to its value."""
    members = (token.members or {}).values()
    return [text[member.name_start : member.start] for member in members]


def members_of(text: bytes, token: JsonToken) -> tuple[bytes, ...]:
    """Return the members of an object as written."""
    return tuple([text[member.name_start : member.end] for member in (token.members or {}).values()])


def optional_members(text: bytes, token: JsonToken, kinds: Kinds) -> Members:
    """Return an op for any subset of an object's members, each with a value of these kinds."""
    return Members(tuple([(name, kinds) for name in names_of(text, token)]))
