"""Labels of ENUM and SET, and their numbers: the index of a label, from 1; a bit map of labels, with the
first member in the lowest bit.

All functions depend on the type only. Digits that are not a label mean the number itself: relay writes them
if the members are unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from relay.model.events import ColumnType
from relay.mysql.conversion_names import kernel_name

F = TypeVar("F", bound=Callable[[Any], str])


def label_reader(column_type: ColumnType, *, has_escapes: bool = False) -> Callable[[str], int] | None:
    """Return the function that converts labels to their number; None for other types and unknown members.

    The function raises ValueError. `has_escapes`: commas in ENUM labels may have a backslash before them, and
    backslashes may be doubled, as in Debezium before 3.7, which takes labels from the statement's text.
    """
    members = column_type.members
    if members is None:
        return None
    # The first of several equal labels is used.
    indexes = {label: at for at, label in reversed(list(enumerate(members)))}
    if column_type.base == "enum":
        numbers = {label: at + 1 for label, at in indexes.items()}
        read_enum = functools.partial(_read_enum, numbers, has_escapes)
        return kernel_name("enum-label", members, int(has_escapes))(read_enum)
    bits = {label: 1 << at for label, at in indexes.items()}
    if has_escapes:
        bits |= {_escaped(label): bit for label, bit in bits.items() if _escaped(label) not in bits}
    return kernel_name("set-labels", members, int(has_escapes))(functools.partial(_read_set, bits))


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\")


def _read_enum(indexes: Mapping[str, int], has_escapes: bool, label: str) -> int:
    """Return the index of a label; 0 for an empty text that is not a member."""
    index = indexes.get(label)
    if index is None and has_escapes:
        label = label.replace("\\,", ",")
        index = indexes.get(label)
        index = indexes.get(label.replace("\\\\", "\\")) if index is None else index
    if index is None:
        return _number(label, max(indexes.values(), default=0)) if label else 0
    return index


def _read_set(bits: Mapping[str, int], labels: str) -> int:
    """Return the bit map of comma-separated labels."""
    found = 0
    for label in labels.split(",") if labels else ():
        bit = bits.get(label)
        if bit is None:
            return _number(labels, 2 * max(bits.values(), default=0) - 1)
        found |= bit
    return found


def _number(text: str, largest: int) -> int:
    # 20 digits suffice for every bit map of 64 members; int() refuses thousands of digits with another
    # message.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else -1
    if not 0 <= number <= largest:
        raise ValueError("neither a member of the type nor its number")
    return number


def set_text(members: tuple[str, ...], bits: int) -> str:
    """Return the labels of a bit map, separated by commas."""
    return ",".join(label for at, label in enumerate(members) if bits >> at & 1)


def label_text(column_type: ColumnType, number: int) -> str | None:
    """Return the label of an ENUM index, or the labels of a SET bit map; None for a number without a label,
    or if the members are unknown.
    """
    members = column_type.members
    if members is None:
        return None
    if column_type.base == "enum":
        return members[number - 1] if 0 < number <= len(members) else None
    return set_text(members, number) if 0 <= number < 1 << len(members) else None


def _uncounted() -> None:
    pass


def write_label(write: F, column_type: ColumnType) -> F:
    """Mark a function that writes labels with its conversion. If the members are unknown, labels from the
    source stay unchanged.
    """
    members = column_type.members
    if members is None:
        return kernel_name("label")(write)
    return kernel_name("enum-label" if column_type.base == "enum" else "set-labels", members)(write)


def label_writer(
    column_type: ColumnType, unlabeled: Callable[[], None] | None = None
) -> Callable[[int | str], str]:
    """Return the function that converts a number to its label or labels; a label stays unchanged.

    A number without a label becomes digits: it is out of range, or the members are unknown because the
    table's DDL has not been read. MySQL stores an invalid ENUM value as index 0, which is the empty text,
    like the empty SET. `unlabeled` is called for ambiguous results: digits, and index 0 if the empty text is
    a member.
    """
    is_ambiguous = column_type.base == "enum" and "" in (column_type.members or ())
    count = unlabeled or _uncounted

    def write(value: int | str) -> str:
        if isinstance(value, str):
            return value
        if not value:
            if is_ambiguous:
                count()
            return ""
        text = label_text(column_type, value)
        if text is None:
            count()
            return str(value)
        return text

    return write_label(write, column_type)
