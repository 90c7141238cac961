"""Many runs: shared out over lanes, each with clusters of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos.experiment import Job, Outcome, experiment
from chaos.lanes import Kind, Lane
from chaos.report import Report


async def campaign(
    waiting: list[Job], lanes: int, evidence: Path, report: Report, *, keep: bool = False
) -> int:
    """Run all jobs, `lanes` at a time; gives the exit status. `evidence`: where the logs of failed runs stay,
    or all if `keep`.
    """
    total, outcomes = len(waiting), list[Outcome]()
    working: list[Lane] = []

    def is_interrupted() -> bool:
        """Whether the task was cancelled, even if something within a run has let that pass."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def work() -> None:
        with tempfile.TemporaryDirectory(prefix="relay-chaos-", ignore_cleanup_errors=True) as folder:
            async with Lane(Path(folder)) as lane:
                working.append(lane)
                while not is_interrupted() and (
                    job := _next(waiting, lane, [other for other in working if other is not lane])
                ):
                    outcome = await experiment(job, lane, evidence / job.name, keep=keep)
                    outcomes.append(outcome)
                    report.run(outcome, len(outcomes), total)
                working.remove(lane)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(lanes, total)):
            group.create_task(work())
    return report.runs(outcomes)


def _next(waiting: list[Job], lane: Lane, others: Sequence[Lane]) -> Job | None:
    """A run of the kind that the lane has, or else of one that no other has; three brokers are enough at a
    time.
    """
    taken = {other.kind for other in others}
    choices = [job for job in waiting if job.kind is not Kind.TRIO or Kind.TRIO not in taken]
    # What takes longest comes first.
    order = list(Kind)
    job = min(
        choices,
        key=lambda job: (job.kind is not lane.kind, job.kind in taken, order.index(job.kind)),
        default=None,
    )
    if job is not None:
        waiting.remove(job)
        lane.kind = job.kind
    return job
