"""Tells a deaf source from a quiet one: aiokafka's consumer may go deaf when brokers come and go."""

from __future__ import annotations

import time

#: After so long without records the brokers are asked whether there are some; twice in a row means that the
#: source is deaf.
SILENT_SECONDS = 10.0


class Silence:
    """After `seconds` without records the brokers should be asked whether there are some; twice in a row
    means deaf.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since = time.monotonic()
        self._times = 0

    def is_long(self, *, heard: bool) -> bool:
        """Whether it is time to ask. `heard`: there were records, or there is no reason to expect any."""
        now = time.monotonic()
        if heard:
            self._since, self._times = now, 0
        elif now - self._since >= self.seconds:
            self._since = now
            return True
        return False

    def is_deaf(self, *, records_wait: bool) -> bool:
        """What the brokers' answer means."""
        self._times = self._times + 1 if records_wait else 0
        if self._times < 2:
            return False
        self._times = 0
        return True
