"""Detect and report source topics whose dialect changes while they are read.

Each change is reported once; the codec goes on as far as it can.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from relay.core.detection import DetectedDialect, detect
from relay.io.logs import Log
from relay.model.records import ConsumerRecord

LOOK_SECONDS: Final = 10.0
#: Seconds from a topic's first record to its first inspection, which tries all codecs: an earlier one would
#: delay the first output after a start.
_FIRST_LOOK_SECONDS: Final = 1.0
#: Maximum number of records to search for one with a value.
_FEW: Final = 16
#: Maximum number of dialects reported per topic: more cannot come from one producer.
_MOST_DIALECTS: Final = 8


class DialectWatch:
    """Inspect a record of each topic now and then.

    `look_seconds`: the time between two inspections of a topic.
    """

    def __init__(self, log: Log, look_seconds: float = LOOK_SECONDS) -> None:
        self._log, self._look_seconds = log, look_seconds
        self._known: dict[str, list[DetectedDialect]] = {}
        self._first: dict[str, ConsumerRecord] = {}
        self._next: dict[str, float] = {}

    def look(self, records: Sequence[ConsumerRecord]) -> None:
        """Inspect a partition's records if it is time.

        Logs `source.dialect` if their dialect was not seen in their topic before.
        """
        topic, now = records[0].topic, time.monotonic()
        if now < self._next.get(topic, 0.0):
            return
        record = next((each for each in records[:_FEW] if each.value is not None), None)
        if topic not in self._next and record is not None:
            self._first[topic], self._next[topic] = record, now + min(self._look_seconds, _FIRST_LOOK_SECONDS)
            return
        self._next[topic] = now + self._look_seconds
        for each in (self._first.pop(topic, None), record):
            if each is not None:
                self._inspect(each)

    def _inspect(self, record: ConsumerRecord) -> None:
        found = detect([record]).dialects
        known = self._known.setdefault(record.topic, [])
        if not found or any(each.may_be(found[0]) for each in known) or len(known) >= _MOST_DIALECTS:
            return
        known.append(found[0])
        if len(known) > 1:
            self._report(found[0], known[-2])

    def _report(self, now: DetectedDialect, before: DetectedDialect) -> None:
        self._log.warning(
            "source.dialect",
            topic=now.first.topic,
            partition=now.first.partition,
            offset=now.first.offset,
            dialect=_words(now),
            before=_words(before),
        )


def _words(dialect: DetectedDialect) -> str:
    """Return the name and settings of a dialect as text."""
    settings = "".join(f" {name}={value}" for name, value in sorted(dialect.options.items()))
    return f"{' or '.join(dialect.protocols) or dialect.titles[0]}{settings}"
