"""Source topics whose dialect changes while they are read: told once; the codec goes on as far as it can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from relay.core.detection import Dialect, detect
from relay.io.logs import Log
from relay.model.records import ConsumerRecord

#: How often a record of a topic is looked at.
LOOK_SECONDS: Final = 10.0
#: Among how many records, at most, to look for one with a value.
_FEW: Final = 16
#: A topic with more dialects is no topic of one producer, and has been reported often enough.
_MOST_DIALECTS: Final = 8


class DialectWatch:
    """Looks at a record of each topic now and then."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, list[Dialect]] = {}
        self._next: dict[str, float] = {}

    def look(self, records: Sequence[ConsumerRecord]) -> None:
        """Look at records of a partition, if it is time. `source.dialect` is logged if they are of another
        dialect than all that were seen in their topic before.
        """
        topic, now = records[0].topic, time.monotonic()
        if now < self._next.get(topic, 0.0):
            return
        self._next[topic] = now + LOOK_SECONDS
        record = next((each for each in records[:_FEW] if each.value is not None), None)
        found = () if record is None else detect([record]).dialects
        known = self._known.setdefault(topic, [])
        if not found or any(each.may_be(found[0]) for each in known) or len(known) >= _MOST_DIALECTS:
            return
        known.append(found[0])
        if len(known) > 1:
            self._tell(found[0], known[-2])

    def _tell(self, now: Dialect, before: Dialect) -> None:
        self._log.warning(
            "source.dialect",
            topic=now.first.topic,
            partition=now.first.partition,
            offset=now.first.offset,
            dialect=_words(now),
            before=_words(before),
        )


def _words(dialect: Dialect) -> str:
    """Name a dialect with its settings."""
    settings = "".join(f" {name}={value}" for name, value in sorted(dialect.options.items()))
    return f"{' or '.join(dialect.protocols) or dialect.titles[0]}{settings}"
