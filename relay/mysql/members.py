"""Labels of ENUM and SET, and their numbers: the index of a label, from 1; a bit map of labels, the first
member's bit the lowest.

Contract: pure functions of a type's members. Digits that are no label are the number itself: relay writes so
where the members are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping


def enum_numbers(members: tuple[str, ...]) -> dict[str, int]:
    """The index of each label; of equal ones the first."""
    return {label: at for at, label in reversed(list(enumerate(members, 1)))}


def set_numbers(members: tuple[str, ...]) -> dict[str, int]:
    """The bit of each label; of equal ones the first."""
    return {label: 1 << at for at, label in reversed(list(enumerate(members)))}


def read_enum(numbers: Mapping[str, int], label: str) -> int:
    """The index of a label; of the empty text that is no member 0. Raises ValueError."""
    found = numbers.get(label)
    if found is None:
        return _number(label, max(numbers.values(), default=0)) if label else 0
    return found


def read_set(numbers: Mapping[str, int], labels: str) -> int:
    """The bit map of labels that are joined by commas. Raises ValueError."""
    bits = 0
    for label in labels.split(",") if labels else ():
        bit = numbers.get(label)
        if bit is None:
            return _number(labels, 2 * max(numbers.values(), default=0) - 1)
        bits |= bit
    return bits


def _number(text: str, largest: int) -> int:
    # 20 digits hold every bit map of 64 members; int() refuses thousands of them with a message of its own.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else -1
    if not 0 <= number <= largest:
        raise ValueError("neither a member of the type nor its number")
    return number


def set_text(members: tuple[str, ...], bits: int) -> str:
    """The labels of a bit map, joined by commas."""
    return ",".join(label for at, label in enumerate(members) if bits >> at & 1)
