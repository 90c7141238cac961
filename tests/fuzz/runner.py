"""Sessions in several processes until the time is over; findings are reported once, and kept on disk."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import multiprocessing.sharedctypes
import os
import queue
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from fuzz.corpus import schemas_of
from fuzz.entry_points import tried
from fuzz.findings import Finding, Setting, write
from fuzz.oracle import resident_bytes
from fuzz.scaling import scaled
from fuzz.session import OvertimeError, Run, Session, patience, reduced, watch

#: Address space of a worker: what takes more raises MemoryError instead of ending the machine.
_ADDRESS_SPACE: Final = 4 << 30
#: Growth of a worker's memory that is no leak: caches of good records and of their parsed values.
_MAX_DRIFT: Final = 200 << 20
_MIN_SESSIONS_FOR_DRIFT: Final = 60
_PATIENCE_SECONDS: Final = 60.0
_SCALING_SECONDS: Final = 40.0


@dataclass(frozen=True)
class Plan:
    """What to do: for how long, from which seed, on which routes; one session alone if `session` is given."""

    seconds: float
    seed: int
    jobs: int
    routes: tuple[tuple[str, str], ...]
    folder: Path
    session: int | None = None


@dataclass
class Summary:
    """What was done."""

    records: int = 0
    cases: int = 0
    sessions: int = 0
    busy_seconds: float = 0.0
    routes: set[tuple[str, str]] = field(default_factory=set)
    findings: Counter[tuple[str, str, str]] = field(default_factory=Counter)


@dataclass(frozen=True)
class Done:
    """What a worker tells of a session, or of its end (`number` None)."""

    worker: int
    number: int | None
    records: int = 0
    cases: int = 0
    seconds: float = 0.0
    route: tuple[str, str] = ("", "")


def run(plan: Plan, tell: Callable[[str], None]) -> Summary:
    """Work until the time is over. `tell` gets each new finding's text."""
    return _Runner(plan, tell).run()


class _Runner:
    def __init__(self, plan: Plan, tell: Callable[[str], None]) -> None:
        self._plan, self._tell = plan, tell
        self._context = multiprocessing.get_context("fork")
        self._queue: Any = self._context.Queue()
        self._deadline = time.monotonic() + plan.seconds
        self._summary = Summary()
        self._at: list[Any] = []
        self._workers: list[BaseProcess] = []

    def run(self) -> Summary:
        jobs = 1 if self._plan.session is not None else self._plan.jobs
        for worker in range(jobs):
            self._at.append(self._context.Array("q", [-1, -1], lock=False))
            self._workers.append(
                self._start(worker, worker if self._plan.session is None else self._plan.session)
            )
        alive = set(range(jobs))
        while alive:
            try:
                self._take(self._queue.get(timeout=0.5), alive)
            except queue.Empty:
                self._look_after(alive)
        for process in self._workers:
            process.join()
        return self._summary

    def _start(self, worker: int, first: int) -> BaseProcess:
        process = self._context.Process(
            target=_work, args=(self._plan, worker, first, self._deadline, self._queue, self._at[worker])
        )
        process.start()
        return process

    def _take(self, message: Done | Finding, alive: set[int]) -> None:
        if isinstance(message, Finding):
            is_new = message.identity not in self._summary.findings
            self._summary.findings[message.identity] += 1
            if is_new:
                self._tell(message.text(write(message, self._plan.folder)))
            return
        self._summary.records += message.records
        self._summary.cases += message.cases
        self._summary.busy_seconds += message.seconds
        if message.number is None:
            alive.discard(message.worker)
        else:
            self._summary.sessions += 1
            self._summary.routes.add(message.route)

    def _look_after(self, alive: set[int]) -> None:
        """Tell of workers that died, and of one that does nothing for long; go on behind what they did."""
        for worker in list(alive):
            process = self._workers[worker]
            is_stuck = time.monotonic() > self._deadline + _PATIENCE_SECONDS
            if is_stuck and process.is_alive():
                process.kill()
                process.join()
            if process.is_alive() or not self._queue.empty():
                continue
            session, case = self._at[worker]
            what = f"signal {-process.exitcode}" if process.exitcode and process.exitcode < 0 else "exit"
            self._take(_crash(self._plan, session, case, what), alive)
            if time.monotonic() > self._deadline or self._plan.session is not None:
                alive.discard(worker)
            else:
                self._workers[worker] = self._start(worker, session + self._plan.jobs)


def _crash(plan: Plan, number: int, case: int, what: str) -> Finding:
    """The finding for a process that ended at a case, or whose clock did not stop it."""
    session = Session(plan.seed, max(number, 0), plan.routes)
    records, objects = session.case(max(case, 0))
    route = f"{session.setting.source} -> {session.setting.target}"
    setting: Setting = session.setting._replace(objects={**session.setting.objects, **objects})
    origin = f"seed {plan.seed} session {number} case {case}, {session.sample.name}"
    return Finding("crash", what, route, "the process ended", setting, (records,), (), origin)


def _work(plan: Plan, worker: int, first: int, deadline: float, results: Any, at: Any) -> None:
    try:
        _Worker(plan, worker, deadline, results, at).work(first)
    except BaseException:
        traceback.print_exc()
        results.close()
        results.join_thread()
        os._exit(1)


class _Worker:
    def __init__(self, plan: Plan, worker: int, deadline: float, results: Any, at: Any) -> None:
        self._plan, self._worker, self._deadline = plan, worker, deadline
        self._results, self._at = results, at
        self._known: set[tuple[str, str, str]] = set()
        self._resident: list[int] = []

    def work(self, first: int) -> None:
        """Work through every session that is this worker's."""
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
        watch()
        number = first
        while time.monotonic() < self._deadline:
            self._session(number)
            if self._plan.session is not None:
                break
            number += self._plan.jobs
        if (drift := drifted(self._resident)) is not None:
            setting = Session(self._plan.seed, first, self._plan.routes).setting
            self._tell(
                Finding("memory", "drift", "worker", drift, setting, (), (), f"seed {self._plan.seed}")
            )
        self._results.put(Done(self._worker, None))

    def _session(self, number: int) -> None:
        began = time.process_time()
        self._at[:] = [number, -1]
        session = Session(self._plan.seed, number, self._plan.routes)
        records = cases = 0
        reset_peak()
        if session.is_scaling:
            self._scaling(session)
        elif session.is_of_entry_points:
            for finding in tried(session):
                self._tell(finding)
        else:
            run = Run(session, self._tell, lambda case: self._at.__setitem__(1, case))
            run.work(self._deadline)
            records, cases = run.records, run.cases
        gc.collect()
        self._resident.append(resident_bytes())
        spent = time.process_time() - began
        route = session.setting.source, session.setting.target
        self._results.put(Done(self._worker, number, records, cases, spent, route))

    def _scaling(self, session: Session) -> None:
        patience(_SCALING_SECONDS)
        try:
            for finding in scaled(session, self._deadline):
                self._tell(finding)
        except OvertimeError:
            origin = f"seed {session.seed} session {session.number}, {session.sample.name}"
            self._tell(
                Finding("time", "does not end", session.setting.route, "", session.setting, (), (), origin)
            )
        finally:
            patience(0)

    def _reduced(self, finding: Finding) -> Finding:
        """The finding with less; as it is if even that goes wrong."""
        try:
            return reduced(finding)
        except Exception:
            return finding

    def _tell(self, finding: Finding) -> bool:
        is_new = finding.identity not in self._known
        self._known.add(finding.identity)
        self._results.put(
            _with_schemas(self._reduced(finding))
            if is_new
            else finding._replace(cases=(), good=(), detail="")
        )
        return is_new


def _with_schemas(finding: Finding) -> Finding:
    """The finding with the schemas of its records, which only this process knows."""
    cases = itertools.chain.from_iterable(finding.cases)
    schemas = schemas_of([*finding.setting.prefix, *cases, *finding.good])
    return finding._replace(setting=finding.setting._replace(schemas=schemas))


def drifted(resident: Sequence[int]) -> str | None:
    """What to say if memory has grown from the first third of a run to its end."""
    if len(resident) < _MIN_SESSIONS_FOR_DRIFT:
        return None
    third = len(resident) // 3
    before, after = max(resident[:third]), sorted(resident[-third:])[third // 2]
    if after - before <= _MAX_DRIFT:
        return None
    return f"{before >> 20} MB after {third} sessions, {after >> 20} MB at the end of {len(resident)}"


def reset_peak() -> None:
    """Let the highest memory be measured from now on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def default_jobs() -> int:
    """One process a core, two at least."""
    return max(2, len(os.sched_getaffinity(0)))


__all__ = ["Plan", "Summary", "default_jobs", "drifted", "reset_peak", "run"]
