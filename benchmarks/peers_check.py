"""Compares a peer's messages one by one with relay's messages for the same rows.

A row must be the right one, with every value in any form: otherwise the run is invalid. All other differences
are described once per kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import orjson

Json = dict[str, Any]
_OPS: Final = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
#: Canal's number of a message, which follows its position.
_OWN: Final = frozenset({"id"})
_IMAGES: Final = frozenset({"data", "old", "before", "after", "type", "op"})


class WrongOutput(Exception):
    """A peer wrote a row that is not in its source, or with other values."""


class Change(NamedTuple):
    """A row's change, of either family."""

    op: str
    before: Json | None
    after: Json | None

    @property
    def row(self) -> Json:
        """The newest image that there is."""
        return self.after or self.before or {}


def change(message: Json) -> Change | None:
    """The change that a message in Canal's or Debezium's JSON tells of; None for DDL. Raises WrongOutput."""
    body = _body(message)
    if "ddl" in body or body.get("isDdl"):
        return None
    if "op" in body:
        return Change(_OPS[body["op"]], body.get("before"), body.get("after"))
    if not body.get("data"):
        raise WrongOutput(f"no row in {message}")
    (row,) = body["data"]
    match body["type"]:
        case "INSERT":
            return Change("INSERT", None, row)
        case "DELETE":
            return Change("DELETE", row, None)
    old = body.get("old")
    return Change("UPDATE", row | old[0] if old else None, row)


def faults(found: Iterable[bytes | None], wanted: Sequence[Json], ddl: bool) -> list[str]:
    """Tell what is not as relay writes it; `ddl` if the peer's source had DDL. Raises WrongOutput."""
    by_id = {str(each.row["id"]): (message, each) for message in wanted if (each := change(message))}
    differences: set[str] = set()
    statements = 0
    for value in found:
        message = orjson.loads(value or b"null")
        if (is_change := change(message)) is None:
            statements += 1
        else:
            differences |= _compared(message, is_change, by_id)
    if ddl and not statements:
        differences.add("drops the DDL")
    return sorted(differences)


def _compared(message: Json, is_change: Change, by_id: Mapping[str, tuple[Json, Change]]) -> set[str]:
    number = str(is_change.row.get("id"))
    if number not in by_id:
        raise WrongOutput(f"no such row: {message}")
    original, right = by_id[number]
    expected = _expected(is_change.op, right)
    images = is_change.before, is_change.after
    if not all(map(_alike, images, expected)):
        raise WrongOutput(f"{message} where {expected} was expected")
    differences = _members(_body(message), _body(original))
    if images != expected:
        differences.add("values in another form")
    if is_change.op != right.op:
        differences.add("an UPDATE comes as DELETE and INSERT")
    if list(is_change.row) != list(right.row):
        differences.add("columns in another order")
    if is_change.op == "UPDATE" and (old := _body(message).get("old")) != _body(original).get("old"):
        differences.add("`old` has what did not change" if old else "no `old`")
    return differences


def _alike(image: Json | None, expected: Json | None) -> bool:
    """Whether two images have the same values, whether these are text or not."""
    if image is None or expected is None:
        return image is expected
    return image.keys() == expected.keys() and all(
        _plain(cell) == _plain(expected[name]) for name, cell in image.items()
    )


def _plain(cell: Any) -> Any:
    """A value without the zeros that end its fraction, and as a number if it is one."""
    text = str(cell)
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    try:
        return None if cell is None else Decimal(text)
    except InvalidOperation:
        return text


def _expected(op: str, right: Change) -> tuple[Json | None, Json | None]:
    """Return the images that a message of this kind has for a change; an UPDATE may be two messages."""
    if op == right.op:
        return right.before, right.after
    if right.op != "UPDATE" or op == "UPDATE":
        raise WrongOutput(f"{op} where {right} was expected")
    return (None, right.after) if op == "INSERT" else (right.before, None)


def _members(body: Json, wanted: Json) -> set[str]:
    differences = set()
    if absent := [name for name in wanted if name not in body and name not in _IMAGES]:
        differences.add("without " + ", ".join(absent))
    if more := [name for name in body if name not in wanted]:
        differences.add("with " + ", ".join(more))
    alike = [name for name in wanted if name in body and name not in _OWN | _IMAGES]
    if other := [name for name in alike if body[name] != wanted[name]]:
        differences.add("other " + ", ".join(other))
    return differences


def _body(message: Json) -> Json:
    """A Debezium message without the envelope around its payload."""
    payload: Json = message.get("payload", message)
    return payload
