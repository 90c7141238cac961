"""Numbers of Protocol Buffers, and messages that are fields of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from relay.templates.ops import MessageFields

#: The most bytes of a number, and the end of numbers.
_MOST_BYTES: Final = 10
_END: Final = 1 << 64


def varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a number and the offset behind it; None if it is not written in the shortest form."""
    number = 0
    for count, byte in enumerate(data[at : at + _MOST_BYTES]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            is_shortest = byte > 0 or count == 0
            return (number, at + count + 1) if is_shortest and number < _END else None
    return None


def shortest(number: int) -> bytes:
    """Return a number in the shortest form."""
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + shortest(number >> 7)


class Group(NamedTuple):
    """Messages of a record that belong together. `values`: that of a record for each message, and for the begin
    and the end.
    """

    values: list[bytes]
    messages: list[bytes]


class Groups(NamedTuple):
    """The groups of a record's messages. `head`, `numbers`: what is before the size of the messages, and before the
    first of them.
    """

    head: bytes
    numbers: bytes
    found: list[Group]

    def alone(self, *messages: bytes) -> bytes:
        """Return the value of a record with some of the messages."""
        made = self.numbers + b"".join(messages)
        return self.head + shortest(len(made)) + made


def groups_of(framing: MessageFields, value: bytes) -> Groups:
    """Return the groups of a record; none if the framing is broken, or a message has no kind."""
    outer = _behind_numbers(value, framing.outer)
    size = None if outer is None else varint(value, outer)
    if outer is None or size is None or size[0] != len(value) - size[1]:
        return Groups(b"", b"", [])
    body = value[size[1] :]
    first = _behind_numbers(body, framing.inner)
    if first is None:
        return Groups(b"", b"", [])
    found = Groups(value[:outer], body[: first - 1], [])
    messages = _messages(body, first - 1, framing.inner)
    roles = [_role(framing, message) for message in messages]
    if None in roles:
        return Groups(b"", b"", [])
    marks = {framing.begin, framing.end}
    at = 0
    while at < len(messages):
        begin = messages[at : at + 1] if roles[at] == framing.begin else []
        at += len(begin)
        others = at
        while at < len(messages) and roles[at] not in marks:
            at += 1
        end = messages[at : at + 1] if at < len(messages) and roles[at] == framing.end else []
        if begin or end:
            values = [found.alone(*begin, *end)]
            values += [found.alone(*begin, message, *end) for message in messages[others:at]]
            found.found.append(Group(values, [*begin, *messages[others:at], *end]))
        else:
            found.found.extend(Group([found.alone(message)], [message]) for message in messages[others:at])
        at += len(end)
    return found


def fields_of(framing: MessageFields, value: bytes) -> Iterator[bytes]:
    """Give the value of a record for each message, and for each begin and end; none if the framing is broken."""
    for group in groups_of(framing, value).found:
        yield from group.values


def has_one(framing: MessageFields, value: bytes) -> bool:
    """Return whether a value has one message, which is neither a begin nor an end."""
    found = list(fields_of(framing, value))
    return found == [value] and _role(framing, _only(framing, value)) not in {framing.begin, framing.end}


def _only(framing: MessageFields, value: bytes) -> bytes:
    """Return the only message of a value, as a field."""
    outer = _behind_numbers(value, framing.outer) or 0
    size = varint(value, outer)
    body = value[size[1] if size else 0 :]
    return body[(_behind_numbers(body, framing.inner) or 1) - 1 :]


def _behind_numbers(data: bytes, tag: int) -> int | None:
    """Return the offset behind the tag of a field that has nothing but numbers before it."""
    at = 0
    while at < len(data):
        if data[at] == tag:
            return at + 1
        found = varint(data, at + 1) if data[at] & 0x87 == 0 else None
        if found is None:
            return None
        _, at = found
    return None


def _messages(data: bytes, at: int, tag: int) -> list[bytes]:
    """Return the fields from an offset on, with their tags; none if others are among them."""
    found: list[bytes] = []
    while at < len(data):
        size = varint(data, at + 1) if data[at] == tag else None
        if size is None or size[0] > len(data) - size[1]:
            return []
        found.append(data[at : size[1] + size[0]])
        at = size[1] + size[0]
    return found


def _role(framing: MessageFields, message: bytes) -> int | None:
    """Return the kind of a message, as a field; None if it has none that can be read."""
    size = varint(message, 1)
    at = len(message) if size is None else size[1]
    while at < len(message):
        found = varint(message, at + 1)
        if found is None:
            return None
        number, after = found
        if message[at] == framing.kind:
            return number
        form = message[at] & 0x87
        if form not in {0, 2}:
            return None
        at = after + (number if form == 2 else 0)
    return None
