"""Splits the JSON text of one message into source ops: the constant parts of its shape, and values.

A decoder parses a text (`parsed`), declares the kinds of each value that may differ (`source_ops`), and gets
the slots by path. White space and the order of members are those of the text. Paths are tuples of member
names and list indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final, Literal, cast

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

_BLANKS: Final = rb"[ \t\n\r]*+"
_STRING: Final = rb'("(?:[^"\\]++|\\.)*+")'
#: The next value of an object or list, with the comma before it and, in an object, its name. The group that
#: matches determines the value's kind (`_KINDS`).
_NEXT: Final = re.compile(
    _BLANKS + rb",?" + _BLANKS + rb"(?:" + _STRING + _BLANKS + rb":" + _BLANKS + rb")?(?:" + _STRING +
    rb"|(-?[0-9]++(?![.eE+-]))|(-?[0-9][0-9.eE+-]*)|(true|false)|(null)|([{\[]))",
    re.DOTALL,
).match  # fmt: skip
#: The kind of a value by the number of its group; None for objects, lists and names.
_KINDS: Final[tuple[Kind | None, ...]] = (None, None, "string", "integer", "number", "boolean", "null", None)
_CLOSED: Final = re.compile(_BLANKS + rb"([}\]])").match
_NAME: Final = re.compile(_STRING, re.DOTALL).match
_name_in: Final = msgspec.json.Decoder(str).decode


class JsonToken(msgspec.Struct, eq=False, gc=False):
    """A value of a text. `name_start`: the start of the name of the member with this value.

    `members`: those of an object by name, in order. `items`: those of a list. `children`: either of them, by
    name or index.
    """

    start: int = 0
    end: int = 0
    name_start: int = 0
    kind: Kind | None = None
    members: dict[str, JsonToken] | None = None
    items: list[JsonToken] | None = None
    children: Mapping[str | int, JsonToken] | None = None

    def at(self, path: Path) -> JsonToken | None:
        """Return the value at a path below this one; None if there is none."""
        found: JsonToken | None = self
        for step in path:
            if found is None or found.children is None:
                return None
            found = found.children.get(step)
        return found


#: More than in a row of 4096 columns with its old row: Open Protocol has nine tokens per column in each.
MAX_TOKENS: Final = 100_000


def parsed(text: bytes, start: int = 0, max_tokens: int = MAX_TOKENS) -> JsonToken:
    """Return the value in a text from `start` to its end.

    Raises NotTemplatable for a duplicate name in an object, for excessive nesting, for more than `max_tokens`
    names and values, and for most invalid JSON: a decoder has already parsed the text.
    """
    try:
        token = _Parser(text, max_tokens).value(start)
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError):
        raise NotTemplatable from None
    if token.end != len(text):
        raise NotTemplatable
    return token


class _Parser:
    """Parses a text without validating commas. Raises NotTemplatable for text that is no value."""

    def __init__(self, text: bytes, max_tokens: int) -> None:
        self._text, self._remaining = text, max_tokens

    def value(self, at: int) -> JsonToken:
        """Return the value that begins at an offset, after blanks."""
        found = _NEXT(self._text, at)
        if found is None:
            raise NotTemplatable
        return self._value(found)

    def _value(self, found: re.Match[bytes]) -> JsonToken:
        group = found.lastindex or 0
        start, end = found.span(group)
        name_start = found.start(1)
        token = JsonToken(start, end, start if name_start < 0 else name_start, _KINDS[group])
        self._remaining -= 1 if name_start < 0 else 2
        if self._remaining < 0:
            raise NotTemplatable
        if token.kind is None:
            if found[group] == b"{":
                token.members, token.end = self._members(end)
                token.children = cast("dict[str | int, JsonToken]", token.members)
            else:
                token.items, token.end = self._items(end)
                token.children = dict(enumerate(token.items))
        return token

    def _members(self, at: int) -> tuple[dict[str, JsonToken], int]:
        """Return the members of an object from an offset on, and its end."""
        members: dict[str, JsonToken] = {}
        text = self._text
        while (found := _NEXT(text, at)) is not None:
            name = _name_in(found[1] or b"")
            if name in members:
                raise NotTemplatable
            members[name] = member = self._value(found)
            at = member.end
        return members, self._end(at)

    def _items(self, at: int) -> tuple[list[JsonToken], int]:
        """Return the items of a list from an offset on, and its end."""
        items: list[JsonToken] = []
        text = self._text
        while (found := _NEXT(text, at)) is not None:
            items.append(item := self._value(found))
            at = item.end
        return items, self._end(at)

    def _end(self, at: int) -> int:
        found = _CLOSED(self._text, at)
        if found is None:
            raise NotTemplatable
        return found.end()


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
        if isinstance(op, Take):
            found.append((token.start, token.end, path, op))
        elif isinstance(op, str):
            before = token.start if op == DIGITS else text.rfind(b":", token.start, token.end)
            if token.kind != "string" or before < 0:
                raise NotTemplatable
            found.append((before + 1, token.end - 1, path, INTEGER))
        else:
            found.append((token.start + 1, token.end - 1, path, op))
    found.sort(key=itemgetter(0))
    slots: dict[Path, int] = {}
    for _, _, path, op in found:
        for each in (path,) if isinstance(op, Take) else _slot_paths(path, op):
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


def _slot_paths(path: Path, op: Members | Unordered) -> list[Path]:
    return [(*path, _name(member)) for member, _ in op.members] if isinstance(op, Members) else []


def _name(member: bytes) -> str:
    """Return the name of a member from the text before its token."""
    found = _NAME(member)
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
