"""Times that options take: a moment, or how long ago it was."""

from __future__ import annotations

from datetime import timedelta

from relay.errors import Problem
from relay.shown import quoted
from relay.times import milliseconds_of, parse_duration, parse_moment


def parse_time(text: str, now_ms: int, option: str, problems: list[Problem]) -> int | None:
    """Read a moment, or how long ago it was; the result is in milliseconds since 1970."""
    try:
        return now_ms - parse_duration(text) // timedelta(milliseconds=1)
    except ValueError:
        pass
    try:
        return milliseconds_of(parse_moment(text))
    except ValueError:
        hint = "for example 2026-01-31T12:00, which is UTC, or 2h for two hours ago"
        problems.append(Problem(option, f"{quoted(text)} is neither a time nor a duration", hint))
        return None
