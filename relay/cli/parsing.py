"""Parses values of options: `NAME=VALUE` pairs, limits, and times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from relay.model.errors import Problem
from relay.model.limits import Limits
from relay.text.durations import milliseconds_of, parse_duration, parse_timestamp
from relay.text.redaction import quoted, shown_name

#: Of a limit: no machine has more bytes.
_MOST_DIGITS: Final = 18


def key_values(
    texts: Iterable[str],
    path: str,
    problems: list[Problem],
    example: str = "enable-tidb-extension=true",
) -> dict[str, str]:
    """Parse the `name=value` texts of the option `path`; append errors to `problems`."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            message = f"{quoted(text)} is not of the form NAME=VALUE"
            problems.append(Problem(path, message, f"for example {example}"))
        elif name in found:
            problems.append(Problem(f"{path} {shown_name(name)}", "given twice", "keep one of the two"))
        else:
            found[name] = value
    return found


def limits_of(texts: Iterable[str], problems: list[Problem]) -> Limits:
    """Parse the `name=value` texts of `--limit`; append errors to `problems`."""
    given = key_values(texts, "--limit", problems, "rows=20000")
    names = Limits.__struct_fields__
    values: dict[str, int] = {}
    for name, text in given.items():
        if name not in names:
            shown, hint = shown_name(name), f"limits: {', '.join(names)}"
            problems.append(Problem(f"--limit {shown}", f"unknown limit {shown!r}", hint))
        elif not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or not int(text):
            problems.append(Problem(f"--limit {name}", f"{quoted(text)} is not a number greater than 0"))
        else:
            values[name] = int(text)
    return Limits(**values)


def parse_time(text: str, now_ms: int, option: str, problems: list[Problem]) -> int | None:
    """Parse a point in time, or an age; the result is in milliseconds since 1970."""
    try:
        return now_ms - parse_duration(text) // timedelta(milliseconds=1)
    except ValueError:
        pass
    try:
        return milliseconds_of(parse_timestamp(text))
    except ValueError:
        hint = "for example 2026-01-31T12:00, which is UTC, or 2h for two hours ago"
        problems.append(Problem(option, f"{quoted(text)} is neither a time nor a duration", hint))
        return None
