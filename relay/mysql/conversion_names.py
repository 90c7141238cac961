"""Names of the functions that read and write values, so that a template can describe a conversion as data.

A codec marks each function that it selects for a column with the conversion's name and parameters
(`kernel_name`); `conversion_of` returns them. The kernel and `reference_engine.conversions` implement the
conversions by name. An implementation returns the same results as the marked function. It may refuse more
values, but never accepts more. A function without a name prevents templates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

#: A conversion: its name and parameters.
Conversion = tuple[str | int | bytes | tuple[str, ...] | None, ...]
#: The read and the write conversion of a value; None if that step changes nothing.
Steps = tuple[Conversion | None, Conversion | None]

F = TypeVar("F", bound=Callable[..., Any])

#: BIT(1) as a boolean; other numbers raise KeyError.
BOOLEANS: Final = {0: False, 1: True}.__getitem__

#: A JSON number, parsed without a reading function: an integer of 64 bits, a DOUBLE, a FLOAT; a signed
#: integer of 64 bits, and a DECIMAL without an exponent.
READ_INTEGER: Final[Conversion] = ("int64",)
READ_DOUBLE: Final[Conversion] = ("double-number",)
READ_FLOAT: Final[Conversion] = ("float-number",)
READ_SIGNED: Final[Conversion] = ("signed-int",)
READ_PLAIN_DECIMAL: Final[Conversion] = ("plain-decimal",)

#: Conversions of functions that have no attributes.
_BUILTINS: Final[dict[object, Conversion]] = {
    str: ("digits",),
    int: ("whole",),
    str.encode: ("utf8",),
    bytes.hex: ("hex",),
    BOOLEANS: ("boolean",),
}


def kernel_name(*conversion: str | int | bytes | tuple[str, ...] | None) -> Callable[[F], F]:
    """Return a decorator that marks a function with the name and parameters of its conversion."""

    def mark(function: F) -> F:
        function.kernel_name = conversion  # type: ignore[attr-defined]  # functions have attributes
        return function

    return mark


def taking_more(extended: object) -> Callable[[F], F]:
    """Return a decorator for a function that agrees with another one on all its values, and accepts more."""

    def mark(function: F) -> F:
        function.extended = extended  # type: ignore[attr-defined]  # functions have attributes
        return function

    return mark


def extended_function(function: object) -> Any:  # noqa: ANN401 - any function
    """Return the function that this one extends (`taking_more`); None if there is none."""
    return getattr(function, "extended", None)


def named_after(function: F, other: object, *parameters: int | None) -> F:
    """Mark a function with the name of another one and these parameters, if the other has a name."""
    conversion = conversion_of(other)
    return function if conversion is None else kernel_name(conversion[0], *parameters)(function)


class ConversionLoss(NamedTuple):
    """The lossy part of a write conversion, for values that its own name refuses: the conversion to use for
    them, and the loss kind to count for each.
    """

    write: Conversion
    kind: str


def lossy_conversion(kind: str, *conversion: str | int | bytes) -> Callable[[F], F]:
    """Return a decorator that marks a write with its conversion of values that lose something."""

    def mark(write: F) -> F:
        write.loss = ConversionLoss(conversion, kind)  # type: ignore[attr-defined]  # functions have attributes
        return write

    return mark


def loss_of(write: object) -> ConversionLoss | None:
    """Return the lossy conversion of a write; None if nothing is lost, or if it has no name."""
    return getattr(write, "loss", None)


def conversion_of(function: object) -> Conversion | None:
    """Return the name and parameters of a function's conversion; None if it has no name."""
    found: Conversion | None = getattr(function, "kernel_name", None)
    return _builtin(function) if found is None else found


def _builtin(function: object) -> Conversion | None:
    try:
        return _BUILTINS.get(function)
    except TypeError:  # unhashable, so none of them
        return None


def in_two_steps(function: F, read: object, write: object) -> F:
    """Mark a function as equivalent to `read` followed by `write`, if both have names. None skips a step."""
    found = conversion_of(read), conversion_of(write)
    if (read is None or found[0] is not None) and (write is None or found[1] is not None):
        function.steps = found  # type: ignore[attr-defined]  # functions have attributes
    return function


def steps_of(convert: object) -> Steps | None:
    """Return the read and write conversions of a function between two wires' texts; None without names."""
    found: Steps | None = getattr(convert, "steps", None)
    if found is None:
        read = conversion_of(convert)
        return None if read is None else (read, None)
    return found
