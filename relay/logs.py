"""Logs: one JSON object a line. `event` is a short stable name, everything else are fields; never a row's
values, never secrets.

Start-up, assignment, errors, shutdown; nothing per record. The clients' own warnings come as `kafka.client`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TextIO

import orjson

REPEAT_SECONDS = 10.0

Field = str | int | float | bool | None | list[str] | dict[str, int]


class Log:
    """Writes events to a text stream, standard output by default."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._written: dict[tuple[str, str], float] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()

    def info(self, event: str, **fields: Field) -> None:
        """Something that belongs to normal work."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Something that relay copes with, but that somebody may want to know."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Something that needs somebody."""
        self._write("error", event, fields)

    def seldom(self, event: str, kind: str, **fields: Field) -> None:
        """A warning that may come for every record: one of a kind every ten seconds, `repeated` counts those
        left out since.
        """
        now, key = time.monotonic(), (event, kind)
        if now - self._written.get(key, -REPEAT_SECONDS) < REPEAT_SECONDS:
            self._left_out[key] += 1
            return
        self._written[key] = now
        self.warning(event, **fields, repeated=self._left_out.pop(key, 0))

    def _write(self, level: str, event: str, fields: dict[str, Field]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
        # A full disk, or a reader that has gone, must not stop the records.
        with contextlib.suppress(OSError):
            self._stream.write(line.decode() + "\n")
            self._stream.flush()


class ClientLogs(logging.Handler):
    """Passes on the Kafka client's warnings, and what asyncio says of its tasks.

    The client's debug texts hold keys and values of records, so the level stays at warning. While a broker is
    away the client says so dozens of times a second: a message of one kind is written every ten seconds at
    most, `repeated` counts those left out since.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._written: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one of the client's records as an event."""
        kind = f"{record.name} {record.msg}"
        now = time.monotonic()
        if now - self._written.get(kind, -REPEAT_SECONDS) < REPEAT_SECONDS:
            self._left_out[kind] += 1
            return
        self._written[kind] = now
        write = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        write(
            "kafka.client", logger=record.name, message=_message(record), repeated=self._left_out.pop(kind, 0)
        )

    def attach(self, name: str = "aiokafka") -> None:
        """Take over a logger's output."""
        logger = logging.getLogger(name)
        logger.addHandler(self)
        logger.setLevel(logging.WARNING)
        logger.propagate = False

    def detach(self, name: str = "aiokafka") -> None:
        """Give it back."""
        logger = logging.getLogger(name)
        logger.removeHandler(self)
        logger.propagate = True


def _message(record: logging.LogRecord) -> str:
    """What the client says. asyncio shows whole exceptions, and one of ours may hold a row's values: its kind
    must do.
    """
    if record.name != "asyncio":
        return record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    what = record.getMessage().partition("\n")[0]
    return what if error is None else f"{what}: {type(error).__name__}"
