"""Report Spark's progress in lines: a step may take hours, and Spark's own progress bar is for terminals."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from pyspark import StatusTracker

#: Shorter runs report nothing.
_FIRST_SECONDS = 5.0
_EVERY_SECONDS = 10.0
#: How long the end waits for a report in progress.
_END_SECONDS: Final = 2.0


@contextlib.contextmanager
def telling(tracker: StatusTracker, say: Callable[[str], None]) -> Iterator[None]:
    """Report every few seconds how many tasks are done, if that has changed, until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=(tracker, say, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_SECONDS)


def _tell(tracker: StatusTracker, say: Callable[[str], None], ended: threading.Event) -> None:
    logged, seconds = "", _FIRST_SECONDS
    with contextlib.suppress(Exception):  # Spark may end during the run, which reports it
        while not ended.wait(seconds):
            now, seconds = _state(tracker), _EVERY_SECONDS
            if now not in ("", logged) and not ended.is_set():
                say(now)
                logged = now


def _state(tracker: StatusTracker) -> str:
    stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
    return "; ".join(
        f"{each.numCompletedTasks} of {each.numTasks} tasks done (stage {each.stageId}), "
        f"{each.numActiveTasks} at work"
        for each in stages
    )
