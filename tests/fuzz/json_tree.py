"""Offsets in a JSON text: of members, elements and leaves.

A mutation is then a splice of bytes, which keeps what a parser would lose: the digits of numbers, equal
members, white space, escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_MAX_DEPTH: Final = 60
_BLANK: Final = re.compile(rb"[ \t\r\n]*").match
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL).match
_PLAIN: Final = re.compile(rb"[^\s,:\]}\[{\"]+").match


class NoTreeError(ValueError):
    """The bytes are no JSON document."""


@dataclass(slots=True, eq=False)
class Node:
    """A value: `start` to `end` are its own bytes, from `member_start` on with its name, if it has one."""

    kind: str
    start: int
    end: int
    member_start: int
    name: str = ""
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    def within(self) -> Iterator[Node]:
        """The node and all that it holds, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.within()

    def names(self) -> list[str]:
        """The names above it and its own, from the outside in."""
        found: list[str] = []
        node: Node | None = self
        while node is not None:
            found.append(node.name)
            node = node.parent
        return found[::-1]


def parse_tree(text: bytes) -> Node:
    """Give the root of a JSON document. Raises NoOutlineError."""
    root, end = _value(text, _skip(text, 0), 0)
    if _skip(text, end) != len(text):
        raise NoTreeError
    return root


def content(text: bytes, node: Node) -> str:
    """The text of a string, or the digits of a number; "" if there is none that can be read."""
    raw = text[node.start : node.end]
    if node.kind != "string":
        return raw.decode("latin-1")
    try:
        found: str = json.loads(raw.decode(errors="surrogateescape"), strict=False)
    except ValueError:
        return ""
    return found


def _skip(text: bytes, at: int) -> int:
    blank = _BLANK(text, at)
    return at if blank is None else blank.end()


def _value(text: bytes, at: int, depth: int) -> tuple[Node, int]:
    mark = text[at : at + 1]
    if mark in {b"{", b"["}:
        if depth > _MAX_DEPTH:
            raise NoTreeError
        return _container(text, at, depth, is_object=mark == b"{")
    found = _STRING(text, at) if mark == b'"' else _PLAIN(text, at)
    if found is None:
        raise NoTreeError
    kind = "string" if mark == b'"' else "literal" if mark in {b"n", b"t", b"f"} else "number"
    return Node(kind, at, found.end(), at), found.end()


def _container(text: bytes, at: int, depth: int, *, is_object: bool) -> tuple[Node, int]:
    node = Node("object" if is_object else "array", at, at, at)
    closing = b"}" if is_object else b"]"
    offset = _skip(text, at + 1)
    while text[offset : offset + 1] != closing:
        if node.children:
            if text[offset : offset + 1] != b",":
                raise NoTreeError
            offset = _skip(text, offset + 1)
        member_start, name = offset, ""
        if is_object:
            offset, name = _name(text, offset)
        child, offset = _value(text, offset, depth + 1)
        child.member_start, child.name, child.parent = member_start, name, node
        node.children.append(child)
        offset = _skip(text, offset)
    node.end = offset + 1
    return node, offset + 1


def _name(text: bytes, at: int) -> tuple[int, str]:
    found = _STRING(text, at)
    if found is None:
        raise NoTreeError
    colon = _skip(text, found.end())
    if text[colon : colon + 1] != b":":
        raise NoTreeError
    return _skip(text, colon + 1), text[at + 1 : found.end() - 1].decode("latin-1")


Edit = tuple[int, int, bytes]


def spliced(text: bytes, edits: list[Edit]) -> bytes:
    """The text with these ranges replaced; of edits that overlap, the first one counts."""
    taken: list[Edit] = []
    for edit in edits:
        if all(edit[1] <= other[0] or edit[0] >= other[1] for other in taken):
            taken.append(edit)
    for start, end, new in sorted(taken, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + new + text[end:]
    return text
