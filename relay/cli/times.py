"""Times as people write them: `2h` for two hours ago, `2026-01-31T12:00`, with a zone or not."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from relay.errors import Problem

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d{1,9})([smhdw])")
_MILLISECOND: Final = timedelta(milliseconds=1)
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: For the help of options that take a time.
FORMS: Final = "ISO 8601, or `2h` ago (s, m, h, d, w); local time unless it names a zone"


def parse_time(text: str, now_ms: int, option: str, problems: list[Problem]) -> int | None:
    """Return a time in milliseconds since 1970. What is no time is appended to `problems`."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return now_ms - int(duration[1]) * _UNIT_SECONDS[duration[2]] * 1000
    try:
        # Without a zone it is this machine's, as in most commands.
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        hint = "for example 2026-01-31T12:00, 2026-01-31T12:00:00Z, or 2h for two hours ago"
        problems.append(Problem(option, f"{text!r} is neither a time nor a duration", hint))
        return None
    return (moment - _BEGIN) // _MILLISECOND
