"""End a process whose loop hangs: a restart by its supervisor is better than a hanging process."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from relay.io.logs import Log
from relay.service.observe.status import Status

STALLED = 3
HURRY_SECONDS = 5.0
_CHECKS_A_LIMIT = 10


class Watchdog:
    """A thread that checks the status's heartbeat while its `with` block runs.

    Every wait of the loop has a deadline, and heartbeats go on during a broker's outage. So a heartbeat older
    than `limit_seconds` means a bug, in relay or in a client. `exit_process` is for tests. `hurry_seconds`:
    how long a stalled process may take to log that it ends.
    """

    def __init__(
        self,
        status: Status,
        limit_seconds: float,
        log: Log,
        exit_process: Callable[[int], object] = os._exit,
        *,
        hurry_seconds: float = HURRY_SECONDS,
    ) -> None:
        self._status, self._limit, self._log, self._exit = status, limit_seconds, log, exit_process
        self._hurry_seconds = hurry_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._limit / _CHECKS_A_LIMIT):
            age = self._status.heartbeat_age
            if age is not None and age > self._limit:
                # The reader of the log may be the cause of the hang.
                hurry = threading.Timer(self._hurry_seconds, self._exit, [STALLED])
                hurry.daemon = True
                hurry.start()
                self._log.error("relay.stalled", code="service.stalled", seconds=round(age, 1))
                # The stacks of all threads, for later analysis; a stack holds no row's values.
                if sys.__stderr__ is not None:
                    faulthandler.dump_traceback(file=sys.__stderr__)
                hurry.cancel()
                self._exit(STALLED)
                return
