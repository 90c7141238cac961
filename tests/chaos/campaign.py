"""Many runs, by several workers with a cluster each."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos.clusters import Kind, Worker
from chaos.experiment import Job, Outcome, experiment
from chaos.report import Report


async def campaign(
    waiting: list[Job], workers: int, evidence: Path, report: Report, *, keep: bool = False
) -> int:
    """Run all jobs, `workers` at a time; gives the exit status. `evidence`: where the logs of failed runs stay,
    or all if `keep`.
    """
    total, outcomes = len(waiting), list[Outcome]()
    working: list[Worker] = []

    def is_interrupted() -> bool:
        """Whether the task was cancelled, even if something within a run has let that pass."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def work() -> None:
        with tempfile.TemporaryDirectory(prefix="relay-chaos-", ignore_cleanup_errors=True) as folder:
            async with Worker(Path(folder)) as worker:
                working.append(worker)
                while not is_interrupted() and (
                    job := _next(waiting, worker, [other for other in working if other is not worker])
                ):
                    outcome = await experiment(job, worker, evidence / job.name, keep=keep)
                    outcomes.append(outcome)
                    report.run(outcome, len(outcomes), total)
                working.remove(worker)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(workers, total)):
            group.create_task(work())
    return report.runs(outcomes)


def _next(waiting: list[Job], worker: Worker, others: Sequence[Worker]) -> Job | None:
    """A run on the worker's kind of cluster, or else on one that no other worker has; only one worker has three
    brokers.
    """
    taken = {other.kind for other in others}
    choices = [job for job in waiting if job.kind is not Kind.TRIO or Kind.TRIO not in taken]
    # What takes longest comes first.
    order = list(Kind)
    job = min(
        choices,
        key=lambda job: (job.kind is not worker.kind, job.kind in taken, order.index(job.kind)),
        default=None,
    )
    if job is not None:
        waiting.remove(job)
        worker.kind = job.kind
    return job
