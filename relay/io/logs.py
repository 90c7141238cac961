"""Logs: one JSON object a line, or text for people.

`event` is a short stable name, all else are fields; never a row's values, never secrets. Texts are printable,
and of bounded length. Logged are start-up, assignment, errors and shutdown; nothing for each record. Clients'
own warnings are `kafka.client`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from relay.io.log_text import DEFAULT_SETTINGS, Field, LogFormat, LogSettings, as_json, as_text, for_terminal
from relay.text.redaction import printable

REPEAT_SECONDS = 10.0
#: relay itself logs the effects of an outage, so that lines of the client are details.
CLIENT_REPEAT_SECONDS = 60.0
#: Maximum number of texts of a list that are logged, and of characters of each.
_MOST_ITEMS = 100
_LONGEST_ITEM = 300


class Log:
    """Write events to a text stream, standard output by default; `always`: fields of every event."""

    def __init__(
        self, stream: TextIO | None = None, settings: LogSettings = DEFAULT_SETTINGS, **always: Field
    ) -> None:
        self._stream, self._always = stream or sys.stdout, always
        self._left_out_levels = settings.level.without
        self._line = _line_of(self._stream, settings.format)
        self._next_at: dict[tuple[str, str], float] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()
        self._levels: dict[tuple[str, str], str] = {}

    def info(self, event: str, **fields: Field) -> None:
        """Log an event of normal work."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Log a problem that relay handles by itself but that operators may want to know."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Log a problem that requires an operator."""
        self._write("error", event, fields)

    def rate_limited(
        self,
        event: str,
        kind: str,
        *,
        level: str = "warning",
        every_seconds: float | None = None,
        **fields: Field,
    ) -> None:
        """Log an event that may occur for every record: one of a kind every 10 s, or `every_seconds`.

        `repeated`: the number left out since.
        """
        now, key = time.monotonic(), (event, kind)
        if now < self._next_at.get(key, 0.0):
            self._left_out[key] += 1
            self._levels[key] = level
            return
        self._next_at[key] = now + (REPEAT_SECONDS if every_seconds is None else every_seconds)
        self._write(level, event, {**fields, "repeated": self._left_out.pop(key, 0)})

    def log_suppressed(self, *, at_once: bool = False) -> None:
        """Log the number of lines that `rate_limited` left out and no later line reports; call it regularly.

        `at_once`: include those whose interval is not over; for the end of the run.
        """
        now = time.monotonic()
        for key, lines in list(self._left_out.items()):
            if at_once or now >= self._next_at[key]:
                del self._left_out[key]
                event, kind = key
                message = f"{lines} more line{'s'[: lines != 1]} like this suppressed"
                write = self.error if self._levels[key] == "error" else self.warning
                write("log.left-out", of=event, kind=kind, lines=lines, message=message)

    def _write(self, level: str, event: str, fields: dict[str, Field]) -> None:
        if level in self._left_out_levels:
            return
        shown = {name: _shown(value) for name, value in (self._always | fields).items()}
        line = self._line(datetime.now(UTC), level, event, shown)
        # A full disk, or a reader that has gone, must not stop the records.
        with contextlib.suppress(OSError):
            self._stream.write(line)
            self._stream.flush()


def _line_of(stream: TextIO, form: LogFormat) -> Callable[[datetime, str, str, Mapping[str, Field]], str]:
    """Return the function that formats events for a stream."""
    if form is LogFormat.JSON or (form is LogFormat.AUTO and not stream.isatty()):
        return as_json
    return for_terminal if stream.isatty() else as_text


def _shown(value: Field) -> Field:
    """Return a field with printable texts, shortened to fit a line."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable(text, longest=_LONGEST_ITEM) for text in _few(value)]
    if isinstance(value, dict):
        return {
            printable(name, longest=_LONGEST_ITEM): value.get(name, len(value)) for name in _few([*value])
        }
    return value


def _few(texts: list[str]) -> list[str]:
    """Return the first and the last of many texts, with their number between them."""
    if len(texts) <= _MOST_ITEMS:
        return texts
    half = _MOST_ITEMS // 2
    return [*texts[:half], f"… ({len(texts)} in all) …", *texts[-half:]]


#: The logger of `relay.io.answer_cache`.
_CACHE: Final = "relay.cache"


class ClientLogs(logging.Handler):
    """Pass on the Kafka client's warnings, those of the answer cache, and asyncio's about its tasks.

    The client's debug texts hold keys and values of records, so the level stays at warning. During a broker's
    outage the client logs dozens of messages a second, so messages of one kind are rate-limited.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one of the client's records as an event."""
        kind = f"{record.name} {record.msg}"
        level = "error" if record.levelno >= logging.ERROR else "warning"
        if record.name == _CACHE:
            self._log.warning("cache.unwritable", message=record.getMessage())
            return
        self._log.rate_limited(
            "kafka.client",
            kind,
            level=level,
            every_seconds=CLIENT_REPEAT_SECONDS,
            logger=record.name,
            message=_message(record),
        )


@contextlib.contextmanager
def client_logs(log: Log) -> Iterator[None]:
    """Take over the output of the Kafka client and of asyncio during a `with` block."""
    handler = ClientLogs(log)
    # asyncio logs the client's own futures whose exceptions were never retrieved.
    loggers = [logging.getLogger(name) for name in ("aiokafka", "asyncio", _CACHE)]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True


def _message(record: logging.LogRecord) -> str:
    """Return the client's message.

    asyncio shows exceptions whole, maybe with row values: only the class is kept.
    """
    if record.name != "asyncio":
        return record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    what = record.getMessage().partition("\n")[0]
    return what if error is None else f"{what}: {type(error).__name__}"


def frames_of(error: Exception) -> list[str]:
    """Return where an error was raised. Its text is left out: it may hold a row's values."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
