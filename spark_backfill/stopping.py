"""Run work that a signal may end.

Python runs signal handlers in its main thread, and a call into the JVM blocks a thread until it returns. So
the work runs in a separate thread, and the main thread waits for it or for a signal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

#: Exit status of each signal that ends a run.
STATUS: Final = {signal.SIGINT: 130, signal.SIGTERM: 143}
_LOOK_SECONDS = 0.2
#: The work is stopped again and again: it may have been between two jobs of Spark.
STOP_AGAIN_SECONDS: Final = 0.5
#: Kubernetes kills 30 s after its signal.
END_SECONDS: Final = 20.0


def until_signal(
    work: Callable[[], None],
    stop: Callable[[], None],
    tell: Callable[[str], None],
    *,
    stop_again_seconds: float = STOP_AGAIN_SECONDS,
    end_seconds: float = END_SECONDS,
) -> int:
    """Do the work; return 0, or the status of the signal that ended it.

    Raises the errors of the work, unless it was stopped. `stop`: ends the work's current operation; called
    from another thread, every `stop_again_seconds` until the work has ended. `tell`: receives the signal's
    name. `end_seconds`: how long the work may take to end after a signal.
    """
    failure: list[BaseException] = []
    worker = threading.Thread(target=_caught, args=(work, failure), daemon=True)
    with _received_signals() as received:
        worker.start()
        while worker.is_alive() and not received:
            worker.join(_LOOK_SECONDS)
        if received:
            tell(received[0].name)
            # `stop` may itself wait for the work.
            times = stop_again_seconds, end_seconds
            threading.Thread(target=_stop, args=(worker, stop, *times), daemon=True).start()
            worker.join(end_seconds)
            return STATUS[received[0]]
    if failure:
        raise failure[0]
    return 0


def _caught(work: Callable[[], None], failure: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:  # the main thread raises it
        failure.append(error)


def _stop(
    worker: threading.Thread, stop: Callable[[], None], again_seconds: float, end_seconds: float
) -> None:
    end = time.monotonic() + end_seconds
    while worker.is_alive() and time.monotonic() < end:
        with contextlib.suppress(Exception):  # the same signal may have ended the JVM
            stop()
        worker.join(again_seconds)


@contextlib.contextmanager
def _received_signals() -> Iterator[list[signal.Signals]]:
    """Collect the signals that come; only the first one counts."""
    received: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, _: Any) -> None:
        received.append(signal.Signals(number))

    before = {number: signal.signal(number, receive) for number in STATUS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            # One more while the interpreter ends must not change the exit status.
            signal.signal(number, signal.SIG_IGN if received else handler)
