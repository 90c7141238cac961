"""Names of the functions that read and write values, so that a template can say what becomes of a value
without calling them.

Contract: a codec gives each function that it chooses for a column the name of a conversion and its parameters
(`native`), which `conversion_of` finds again; `reference_engine.conversions` makes the function of the name.
What a name stands for never takes more values than the function that has it, and never makes others of them;
it may take fewer. A function without a name has no template.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

#: The name of a conversion, and its parameters.
Conversion = tuple[str | int | bytes | tuple[str, ...] | None, ...]
#: How a value of the wire is read and written in one: None where nothing is done.
Steps = tuple[Conversion | None, Conversion | None]

F = TypeVar("F", bound=Callable[..., Any])

#: BIT(1) as a boolean; any other number raises KeyError.
BOOLEANS: Final = {0: False, 1: True}.__getitem__

#: What a parser makes of a JSON number for a column that no function reads: an integer of 64 bits, a DOUBLE,
#: a FLOAT; an integer of 64 bits with a sign, and a DECIMAL without an exponent.
READ_INTEGER: Final[Conversion] = ("int64",)
READ_DOUBLE: Final[Conversion] = ("double-number",)
READ_FLOAT: Final[Conversion] = ("float-number",)
READ_SIGNED: Final[Conversion] = ("signed-int",)
READ_PLAIN_DECIMAL: Final[Conversion] = ("plain-decimal",)

#: Functions that cannot be marked.
_BUILTINS: Final[dict[object, Conversion]] = {
    str: ("digits",),
    int: ("whole",),
    str.encode: ("utf8",),
    bytes.hex: ("hex",),
    BOOLEANS: ("boolean",),
}


def native(*conversion: str | int | bytes | tuple[str, ...] | None) -> Callable[[F], F]:
    """Return what marks a function with the name of its conversion and its parameters."""

    def mark(function: F) -> F:
        function.native = conversion  # type: ignore[attr-defined]  # functions have attributes
        return function

    return mark


def taking_more(usual: object) -> Callable[[F], F]:
    """Return what marks a function that agrees with another wherever the other applies, and takes more."""

    def mark(function: F) -> F:
        function.usual = usual  # type: ignore[attr-defined]  # functions have attributes
        return function

    return mark


def usual_of(function: object) -> Any:  # noqa: ANN401 - any function
    """Return the function of which this one takes more; None if there is none."""
    return getattr(function, "usual", None)


def named_after(function: F, other: object, *parameters: int | None) -> F:
    """Mark a function with the name of another one and these parameters; not if that has no name."""
    conversion = conversion_of(other)
    return function if conversion is None else native(conversion[0], *parameters)(function)


class ConversionLoss(NamedTuple):
    """What a write loses of values that its own name does not take: how they are written, and the word that
    is counted for each.
    """

    write: Conversion
    word: str


def losing(word: str, *conversion: str | int | bytes) -> Callable[[F], F]:
    """Return what marks a write with what it does with values of which something is lost."""

    def mark(write: F) -> F:
        write.loss = ConversionLoss(conversion, word)  # type: ignore[attr-defined]  # functions have attributes
        return write

    return mark


def loss_of(write: object) -> ConversionLoss | None:
    """Return what a write loses; None if nothing, or if that has no name."""
    return getattr(write, "loss", None)


def conversion_of(function: object) -> Conversion | None:
    """Return the name and the parameters of the conversion that a function is; None if it has none."""
    found: Conversion | None = getattr(function, "native", None)
    return _builtin(function) if found is None else found


def _builtin(function: object) -> Conversion | None:
    try:
        return _BUILTINS.get(function)
    except TypeError:  # unhashable, so none of them
        return None


def in_two_steps(function: F, read: object, write: object) -> F:
    """Mark a function that does what `read` and then `write` does (None: that does nothing), if those that
    there are have names.
    """
    found = conversion_of(read), conversion_of(write)
    if (read is None or found[0] is not None) and (write is None or found[1] is not None):
        function.steps = found  # type: ignore[attr-defined]  # functions have attributes
    return function


def steps_of(convert: object) -> Steps | None:
    """Return how a function from one wire's text to another's reads and writes; None if that has no name."""
    found: Steps | None = getattr(convert, "steps", None)
    if found is None:
        read = conversion_of(convert)
        return None if read is None else (read, None)
    return found
