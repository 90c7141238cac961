"""Report Spark's progress in lines: a step may take hours, and Spark's own progress bar is for terminals.

Completed steps are also lines of JSON in a file, for programs.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark import StatusTracker

from spark_backfill.counts import BackfillCounts, as_document

#: Shorter runs report nothing.
FIRST_SECONDS: Final = 5.0
EVERY_SECONDS: Final = 10.0
#: How long the end waits for a report in progress.
_END_SECONDS: Final = 2.0


@contextlib.contextmanager
def telling(
    tracker: StatusTracker,
    say: Callable[[str], None],
    *,
    first_seconds: float = FIRST_SECONDS,
    every_seconds: float = EVERY_SECONDS,
) -> Iterator[None]:
    """Report how many tasks are done, if that has changed, until the block ends.

    `first_seconds`, `every_seconds`: the time until the first look, and between two looks.
    """
    ended = threading.Event()
    times = first_seconds, every_seconds
    thread = threading.Thread(target=_tell, args=(tracker, say, ended, *times), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_SECONDS)


def _tell(
    tracker: StatusTracker,
    say: Callable[[str], None],
    ended: threading.Event,
    first_seconds: float,
    every_seconds: float,
) -> None:
    logged, seconds = "", first_seconds
    with contextlib.suppress(Exception):  # Spark may end during the run, which reports it
        while not ended.wait(seconds):
            now, seconds = _state(tracker), every_seconds
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


def add_step(path: Path, step: int, counts: BackfillCounts, seconds: float) -> None:
    """Add a completed step to a file, as a line of JSON. `seconds`: its duration. Raises OSError."""
    line = {"step": step, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
    text = json.dumps(line | as_document(counts, seconds), ensure_ascii=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
