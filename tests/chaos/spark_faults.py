"""Faults of the Spark job: parts of a run are killed or frozen, at random moments or while records are written."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from spark.killing import Command
from spark.standalone import Standalone, connected_to, processes_of, send

#: Spark gives a task four attempts, so that three faults never end a run.
_FAULTS_OF_A_RUN = 3
#: How long a Python worker is frozen, as a share of an undisturbed run: the copy ends before it goes on, or not.
_FROZEN = (0.1, 0.5)
_LOOK_SECONDS = 0.005


class Fault(StrEnum):
    """What happens to a run. The first one is tried on one machine, the others on a cluster."""

    RUN_KILLED = "run-killed"
    EXECUTORS_KILLED = "executors-killed"
    TASKS_KILLED = "tasks-killed"
    SPECULATION = "speculation"

    @property
    def injected(self) -> str:
        """The name under which its injections are counted."""
        return {
            Fault.RUN_KILLED: "runs killed",
            Fault.EXECUTORS_KILLED: "executors killed",
            Fault.TASKS_KILLED: "Python workers killed",
            Fault.SPECULATION: "Python workers frozen",
        }[self]


class Target(Protocol):
    """The target of a run, while it is written. `port`: that of the broker; 0 for files."""

    port: int

    async def size(self) -> int:
        """Return a number that grows while tasks write."""
        ...


class TopicTarget:
    """A topic: the sum of its end offsets."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, partitions: int, port: int) -> None:
        self._consumer, self.port = consumer, port
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    async def size(self) -> int:
        """Return the number of records."""
        return sum((await self._consumer.end_offsets(self._partitions)).values())


class FolderTarget:
    """A folder: the bytes in the files of tasks that have not been accepted."""

    port = 0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def size(self) -> int:
        """Return the number of bytes."""
        found = 0
        for path in self._folder.glob("**/_temporary/**/part-*"):
            try:
                found += path.stat().st_size
            except OSError:  # it was renamed
                continue
        return found


async def disturb(
    fault: Fault, run: Command, cluster: Standalone, target: Target, chance: random.Random, seconds: float
) -> int:
    """Inject a fault several times into a run; give how many processes it met.

    `seconds`: the time that an undisturbed run takes.
    """
    done = 0
    for number in range(_FAULTS_OF_A_RUN):
        await asyncio.sleep(chance.uniform(0, seconds / _FAULTS_OF_A_RUN))
        is_writing = number % 2 == 0
        if is_writing:
            await _writing(run, target)
        if run.has_ended:
            break
        frozen_seconds = chance.uniform(*_FROZEN) * seconds
        done += await _inject(fault, cluster, target.port if is_writing else 0, chance, frozen_seconds)
    return done


async def _writing(run: Command, target: Target) -> None:
    """Wait until the target grows, or the run has ended."""
    before = await target.size()
    while not run.has_ended and (now := await target.size()) <= before:
        before = now
        await asyncio.sleep(_LOOK_SECONDS)


async def _inject(
    fault: Fault, cluster: Standalone, port: int, chance: random.Random, frozen_seconds: float
) -> int:
    """Inject a fault once; give how many processes it met.

    `port`: freeze a worker that is connected to it, if there is one.
    """
    if fault is Fault.EXECUTORS_KILLED:
        some = cluster.executors()
        chosen = [chance.choice(some)] if some else []
        send(signal.SIGKILL, *chosen)
        return len(chosen)
    workers = cluster.python_workers()
    if fault is Fault.TASKS_KILLED:
        send(signal.SIGKILL, *workers)
        return len(workers)
    # Those of one executor: the other one has a worker for the copies.
    found = processes_of(*cluster.sessions)
    writing = connected_to(port, workers) or workers
    executors = sorted({found[each].parent for each in writing if each in found})
    chosen_executor = chance.choice(executors) if executors else 0
    frozen = [each for each in workers if each in found and found[each].parent == chosen_executor]
    send(signal.SIGSTOP, *frozen)
    try:
        await asyncio.sleep(frozen_seconds)
    finally:
        send(signal.SIGCONT, *frozen)
    return len(frozen)


class ProcessorTime:
    """The processor time of all processes of some sessions, those that have ended included.

    Python workers are in no parent's account, so a thread looks at all processes again and again.
    """

    def __init__(self, *sessions: int) -> None:
        self._sessions = sessions
        self._used: dict[tuple[int, int], float] = {}
        self._begun = self._look()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def add(self, session: int) -> None:
        """Watch another session, too."""
        self._sessions = (*self._sessions, session)

    def _look(self) -> dict[tuple[int, int], float]:
        found = processes_of(*self._sessions).values()
        return {(each.pid, each.started): each.seconds for each in found}

    def _watch(self) -> None:
        while not self._ended.wait(0.3):
            self._used |= self._look()

    def close(self) -> float:
        """End; give the seconds since the beginning."""
        self._ended.set()
        self._thread.join()
        self._used |= self._look()
        return sum(used - self._begun.get(key, 0) for key, used in self._used.items())
