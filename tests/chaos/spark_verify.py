"""The judge of runs of the Spark job: compares the target with the result of an undisturbed run, and counts
the faults in Spark's event log.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: A record: its `relay.source`, and all that must be the same in every run.
Record = tuple[bytes, object]
#: Records by target partition, in order.
Records = Mapping[int, Sequence[Record]]
#: The violations.
LOST, REPEATED, CHANGED, UNORDERED, FOREIGN = "lost", "repeated", "changed", "out of order", "foreign"
MISCOUNTED, STATUS = "miscounted", "exit status"


def violations(expected: Records, found: Records, *, may_repeat: bool) -> Counter[str]:
    """Count the violations. `may_repeat`: records may be repeated, and only their first copies have an order."""
    counts: Counter[str] = Counter()
    for partition in expected.keys() | found.keys():
        wanted, seen = dict(expected.get(partition, ())), found.get(partition, ())
        firsts = list(dict.fromkeys(mark for mark, _ in seen))
        counts[LOST] += len(wanted.keys() - set(firsts))
        counts[FOREIGN] += len(set(firsts) - wanted.keys())
        counts[CHANGED] += sum(mark in wanted and wanted[mark] != content for mark, content in seen)
        if not may_repeat:
            counts[REPEATED] += len(seen) - len(firsts)
        places = {mark: place for place, mark in enumerate(wanted)}
        order = [places[mark] for mark in firsts if mark in places]
        counts[UNORDERED] += sum(later < earlier for earlier, later in itertools.pairwise(order))
    return +counts


def repeats_in(found: Records) -> int:
    """Count the records that are copies of earlier ones."""
    return sum(len(each) - len(dict(each)) for each in found.values())


class TaskFaults(NamedTuple):
    """Faults in an event log. `retried`: attempts at a task after one that failed."""

    speculative: int = 0
    retried: int = 0


def task_faults(folder: Path) -> TaskFaults:
    """Count the faults in the event logs of a folder; the last line of a killed run may be cut off."""
    speculative, failed = 0, Counter[tuple[str, int, int, int]]()
    retried = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith('{"Event":"SparkListenerTask') or not line.endswith("}"):
                continue
            event = json.loads(line)
            task = event.get("Task Info", {})
            number = (path.name, event.get("Stage ID"), event.get("Stage Attempt ID"), task.get("Index"))
            if event["Event"] == "SparkListenerTaskStart":
                speculative += task["Speculative"]
                retried += not task["Speculative"] and failed[number] > 0
            elif event["Event"] == "SparkListenerTaskEnd":
                failed[number] += event["Task End Reason"]["Reason"] not in {"Success", "TaskKilled"}
    return TaskFaults(speculative, retried)
