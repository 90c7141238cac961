"""Format events of the log: as a JSON object for programs, as text for people."""

from __future__ import annotations

import enum
import json
import os
import shutil
import textwrap
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from relay.text.redaction import to_json

Field = str | int | float | bool | None | list[str] | dict[str, int]


class LogLevel(enum.StrEnum):
    """The minimum level of logged events."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def without(self) -> frozenset[str]:
        """Return the levels below this one."""
        levels = [level.value for level in LogLevel]
        return frozenset(levels[: levels.index(self.value)])


class LogFormat(enum.StrEnum):
    """AUTO: text on a terminal, JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class LogSettings(NamedTuple):
    """Level and format of the log."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.AUTO


DEFAULT_SETTINGS: Final = LogSettings()
#: Fields with a whole sentence, which precede the others.
_SENTENCES: Final = ("message", "reason")
#: A command to call next, on a separate line, to be copied.
_NEXT: Final = "next"
_COLORS: Final = {"info": "32", "warning": "33", "error": "31"}
_INDENT: Final = "    "
_NARROWEST: Final = 40


def as_json(now: datetime, level: str, event: str, fields: Mapping[str, Field]) -> str:
    """Return an event as one line of JSON."""
    time = now.isoformat(timespec="milliseconds")
    return to_json({"time": time, "level": level, "event": event, **fields}, str).decode() + "\n"


def as_text(now: datetime, level: str, event: str, fields: Mapping[str, Field]) -> str:
    """Return an event as one line for people; its fields are printable."""
    time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    parts = [time, f"{level:7}", event, *_sentences(fields), *_pairs(fields)]
    if fields.get(_NEXT):
        parts.append(f"{_NEXT}: {fields[_NEXT]}")
    return "  ".join(parts) + "\n"


def for_terminal(now: datetime, level: str, event: str, fields: Mapping[str, Field]) -> str:
    """Return an event as lines that fit the terminal, with colors. A command to call next is not broken."""
    columns = max(_NARROWEST, shutil.get_terminal_size().columns)
    head = f"{now:%H:%M:%S}Z {level:7} {event}"
    rest = [*_sentences(fields), "  ".join(_pairs(fields))]
    lines = [head]
    for text in filter(None, rest):
        if len(lines) == 1 and len(lines[0]) + 2 + len(text) <= columns:
            lines[0] += f"  {text}"
        else:
            lines += _broken(text, columns)
    if fields.get(_NEXT):
        lines.append(f"{_INDENT}{_NEXT}: {fields[_NEXT]}")
    if not os.environ.get("NO_COLOR"):
        marked = f"\x1b[{_COLORS[level]}m{level:7}\x1b[0m \x1b[1m{event}\x1b[0m"
        lines[0] = lines[0].replace(f"{level:7} {event}", marked, 1)
    return "".join(f"{line}\n" for line in lines)


def _broken(text: str, columns: int) -> list[str]:
    return textwrap.wrap(
        text,
        columns,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _sentences(fields: Mapping[str, Field]) -> list[str]:
    return [str(fields[name]) for name in _SENTENCES if fields.get(name)]


def _pairs(fields: Mapping[str, Field]) -> list[str]:
    """Return `name=value` of the other fields, without empty ones."""
    apart = {*_SENTENCES, _NEXT}
    return [
        f"{name}={_value(value)}"
        for name, value in fields.items()
        if name not in apart and value is not None and not (name == "repeated" and not value)
    ]


def _value(value: Field) -> str:
    if isinstance(value, dict):
        return _quoted(", ".join(f"{name} {count}" for name, count in value.items()))
    if isinstance(value, list):
        return _quoted(",".join(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    return text if text and " " not in text and '"' not in text else json.dumps(text, ensure_ascii=False)
