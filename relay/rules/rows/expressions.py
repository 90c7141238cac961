"""Conditions on rows in CEL, the Common Expression Language: compiled once, evaluated with a row's values.

The library is `common-expression-language`, an optional one. Its messages may quote values of rows, so that
none of them is passed on after an expression is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from relay.text.hints import hint_for
from relay.text.redaction import quoted

#: The name of the map of all columns in an expression.
ROW: Final = "row"
#: Maximum characters of an expression. The library's parser is recursive.
MOST_CHARACTERS: Final = 4_000
#: The functions that an expression may call; operators and macros have names that are not words.
_FUNCTIONS: Final = (
    *("size", "contains", "startsWith", "endsWith", "matches"),
    *("int", "uint", "double", "string", "bytes", "type", "dyn", "duration", "timestamp"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
#: Names of types, which expressions compare with `type(…)`.
_TYPES: Final = frozenset(
    {"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"}
)
#: The name that a macro binds.
_BOUND: Final = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s{0,100}([A-Za-z_][A-Za-z_0-9]*)")
#: The position and the text of a parser's error.
_PARSER_ERROR: Final = re.compile(r"ERROR: <input>:([0-9]{1,9}):([0-9]{1,9}): ([^\n]{1,300})")
_INSTALL: Final = "pip install '.[rows]' in relay's folder; the image has it"


class InvalidExpression(ValueError):
    """A text is no expression that relay can evaluate. `hint`: how to correct it, or ""."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class EvaluationFailed(Exception):
    """An expression has no result for a row. The message shows no value of it."""


class Expression:
    """A compiled expression.

    text: The expression.
    variables: The names that it uses as columns, including `ROW`.

    Raises InvalidExpression.
    """

    def __init__(self, text: str) -> None:
        if not text.strip():
            raise InvalidExpression("is empty")
        if len(text) > MOST_CHARACTERS:
            raise InvalidExpression(f"has more than {MOST_CHARACTERS} characters")
        self.text = text
        self._program = program = _compiled(text)
        self._check_functions(program.functions())
        self.variables: tuple[str, ...] = tuple(program.variables())
        #: The names that are columns if the table has such columns: those of CEL's types, and those that
        #: macros bind, which the library also counts as variables.
        self.possible_columns = (_TYPES | set(_BOUND.findall(text))).intersection(self.variables)
        #: The names of columns, without `ROW` and without the possible ones.
        self.columns = tuple(
            [name for name in self.variables if name != ROW and name not in self.possible_columns]
        )

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return type(self), (self.text,)

    @property
    def uses_row(self) -> bool:
        """Whether the expression refers to columns through the map of all columns."""
        return ROW in self.variables

    def evaluate(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition holds for values by name. Raises EvaluationFailed."""
        try:
            result = self._program.execute(values)
        except Exception as error:
            reason = next((text for kind, text in _REASONS if isinstance(error, kind)), _ANY_REASON)
            raise EvaluationFailed(reason) from None
        if result is True or result is False:
            return bool(result)
        raise EvaluationFailed("its result is not true or false")

    @staticmethod
    def _check_functions(names: list[str]) -> None:
        for name in names:
            if name.isidentifier() and not name.startswith("_") and name not in _FUNCTIONS:
                hint = hint_for(name, _FUNCTIONS, f"functions: {', '.join(_FUNCTIONS)}")
                raise InvalidExpression(f"calls an unknown function {quoted(name)}", hint)


_TYPES_REASON: Final = (
    "an operator or function does not apply to the types of its values; NULL has no order: "
    "test it first, as in `price != null && price > 100`"
)
#: Why an evaluation fails, by the library's exception.
_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        TypeError,
        _TYPES_REASON,
    ),
    (ZeroDivisionError, "it divides by zero"),
    (OverflowError, "a number is out of range"),
    (LookupError, "it refers to a member that does not exist: test it first with has()"),
)
_ANY_REASON: Final = "a column is absent, or a function does not accept a value"


def _compiled(text: str) -> Any:  # noqa: ANN401 - the library's program
    """Return the program of an expression. Raises InvalidExpression."""
    try:
        # The library also imports its command line, which takes a third of a second.
        cel = import_module("cel")
    except ImportError:
        message = "needs the library common-expression-language"
        raise InvalidExpression(message, _INSTALL) from None
    try:
        return cel.compile(text)
    except Exception as error:
        found = _PARSER_ERROR.search(str(error))
        if found is None:
            raise InvalidExpression("is not a CEL expression") from None
        line, character, reason = found.groups()
        at = f"line {line}, character {character}"
        raise InvalidExpression(f"is not a CEL expression: {at}: {_shown(reason)}") from None


def _shown(reason: str) -> str:
    """Return a parser's reason without its list of expected tokens."""
    return reason.partition(" expecting ")[0]
