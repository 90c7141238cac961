"""Runs of the Spark job that are disturbed: the target must be as if nothing had happened.

Each seed is one run of each fault (`chaos.spark_faults.Fault`):

* run-killed: the whole run is killed and started again, on one machine
* executors-killed: executors are killed, and Spark starts new ones
* tasks-killed: the Python workers of tasks are killed, and Spark repeats the tasks
* speculation: Python workers are frozen for some seconds, and Spark starts copies of their tasks

The last three have a standalone cluster with two executors. Odd seeds write files, which must be the same
exactly; even ones a topic, where repeats are known by `relay.source`, have the same bytes, and leave the order
of first occurrences as it was. The summary of a run that was not restarted must have the right totals.

A seed takes about five minutes of processor time, without the broker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from rich.console import Console
from spark.backfills import lines_in
from spark.conftest import SETTINGS
from spark.java import SHORT_RUNS, connector_jars, environment
from spark.killing import ROOT, Command, written_config
from spark.standalone import SPECULATION, Standalone

from benchmarks.spark_load import ROUTE, create, fill, messages
from chaos.spark_faults import Fault, FolderTarget, ProcessorTime, Target, TopicTarget, disturb
from chaos.spark_verify import (
    CHANGED,
    FOREIGN,
    LOST,
    MISCOUNTED,
    REPEATED,
    STATUS,
    UNORDERED,
    Record,
    repeats_in,
    task_faults,
    violations,
)
from relay.core.translator import Translator
from relay.demo.kafka import Cluster
from relay.io.record_lines import format_record, parse_record
from relay.model.records import ProducerRecord, source_mark

RECORDS = 40_000
_PARTITIONS = 4
#: Records of a step. Killed runs are repeated from a step, so they have many; long ones keep tasks writing.
_SHORT_STEP, _LONG_STEP = RECORDS // 8, RECORDS // 2
_SMALL_BATCHES = 8_000
#: Spark's own defaults on a cluster, and a soon repetition of what failed.
_CLUSTER = {"spark.task.maxFailures": "4", "spark.excludeOnFailure.enabled": "false"}
_VIOLATIONS = (LOST, REPEATED, CHANGED, UNORDERED, FOREIGN, MISCOUNTED, STATUS)


@dataclass
class Run:
    """A run, and its result. `injected`: processes that were killed or frozen; `repeats`: records that appear
    again, where they may.
    """

    seed: int
    fault: Fault | None
    target: str
    injected: int = 0
    speculative: int = 0
    retried: int = 0
    repeats: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    violations: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        found = ", ".join(f"{count} {name}" for name, count in self.violations.items())
        return (
            f"--seed {self.seed} {self.fault or 'undisturbed'} to {self.target}: {_counted([self])}; "
            f"{self.seconds:.0f} s, {self.processor_seconds:.0f} s of processor time: {found or 'ok'}"
        )


def _counted(runs: Sequence[Run]) -> str:
    """The faults of runs with the same fault, and their consequences that are allowed."""
    injected = [f"{sum(run.injected for run in runs)} {runs[0].fault.injected}"] if runs[0].fault else []
    speculative, retried = sum(run.speculative for run in runs), sum(run.retried for run in runs)
    repeats = sum(run.repeats for run in runs)
    seen = [f"{speculative} speculative copies", f"{retried} tasks retried", f"{repeats} allowed repeats"]
    return ", ".join([*injected, *seen])


class Campaign:
    """A source topic, and what must come of it."""

    def __init__(self, servers: str, folder: Path, cluster: Standalone) -> None:
        self._servers, self._folder, self._cluster = servers, folder, cluster
        self._settings = SETTINGS | {"spark.jars": ",".join(map(str, connector_jars()))}
        self._source = f"source-{uuid.uuid4().hex[:8]}"
        asyncio.run(fill(servers, self._source, RECORDS, _PARTITIONS))
        translator = Translator(ROUTE.source, ROUTE.target, topic="{topic}.canal")
        translator.expect_partitions({(self._source, number) for number in range(_PARTITIONS)})
        self._expected: dict[int, list[ProducerRecord]] = {}
        self._read = 0
        for number in range(_PARTITIONS):  # the first has the DDL
            for record in messages(RECORDS, number, _PARTITIONS):
                self._read += 1
                for out in translator.translate(msgspec.structs.replace(record, topic=self._source)):
                    self._expected.setdefault(out.partition, []).append(out)
        #: How long an undisturbed run takes from its first step on, by whether it has the cluster.
        self._usual_seconds: dict[bool, float] = {}

    def run(self, seed: int, fault: Fault | None, *, to_files: bool, on_cluster: bool) -> Run:
        """Run once, and compare; without a fault, measure how long it takes."""
        done = Run(seed, fault, "files" if to_files else "topic")
        target = f"target-{uuid.uuid4().hex[:8]}"
        folder = self._folder / f"{fault or 'undisturbed'}-{seed}-{uuid.uuid4().hex[:4]}"
        (folder / "events").mkdir(parents=True)
        asyncio.run(create(self._servers, [target], _PARTITIONS))
        step = _LONG_STEP if on_cluster else _SHORT_STEP
        config = written_config(folder, self._servers, self._source, target, to_files=to_files, step=step)
        settings = dict(self._settings)
        if on_cluster:
            settings |= _CLUSTER | self._cluster.settings(folder / "events")
        if fault is Fault.SPECULATION:
            settings |= SPECULATION
        used = ProcessorTime(*(self._cluster.sessions if on_cluster else ()))
        status = self._disturbed(done, folder, config, settings, target, used)
        done.processor_seconds = used.close()
        faults = task_faults(folder / "events")
        done.speculative, done.retried = faults.speculative, faults.retried
        found = Counter({STATUS: int(status != 0)}) + self._compared(done, folder, target)
        done.violations = dict(found)
        if found:
            evidence = ROOT / ".cache/chaos" / folder.name
            shutil.copytree(folder, evidence)
        return done

    def _disturbed(
        self,
        done: Run,
        folder: Path,
        config: Path,
        settings: dict[str, str],
        target: str,
        used: ProcessorTime,
    ) -> int:
        """Run the command, inject the fault, and give the exit status."""
        on_cluster = settings["spark.master"] == self._cluster.master
        options = ["--set", f"backfill.summary={folder}/summary.json"]
        if on_cluster:  # with many requests, tasks write for seconds
            options += ["--set", f"target.max_batch_bytes={_SMALL_BATCHES}"]

        def start() -> Command:
            command = Command(config, settings, folder / "log", *options)
            used.add(command.session)
            return command

        command, chance = start(), random.Random(f"{done.seed} {done.fault}")
        try:
            _until_there(folder / "checkpoint/spark/offsets/0", command)
            began, usual = time.monotonic(), self._usual_seconds.get(on_cluster, 0.0)
            if done.fault is Fault.RUN_KILLED:
                time.sleep(chance.uniform(0, usual))
                command.kill()
                done.injected = 1
                command = start()
            elif done.fault is not None:
                written = None if done.target == "topic" else folder / "out"
                done.injected = asyncio.run(
                    self._injected(done.fault, command, target, written, chance, usual)
                )
            status = command.wait(600)
            done.seconds = time.monotonic() - began
            if done.fault is None:
                self._usual_seconds[on_cluster] = done.seconds
        finally:
            command.kill()
        return status

    async def _injected(
        self,
        fault: Fault,
        run: Command,
        target: str,
        folder: Path | None,
        chance: random.Random,
        seconds: float,
    ) -> int:
        async with AIOKafkaConsumer(bootstrap_servers=self._servers) as consumer:
            port = int(self._servers.rpartition(":")[2])
            watched: Target = TopicTarget(consumer, target, _PARTITIONS, port)
            if folder is not None:
                watched = FolderTarget(folder)
            return await disturb(fault, run, self._cluster, watched, chance, seconds)

    def _compared(self, done: Run, folder: Path, target: str) -> Counter[str]:
        """Compare the target and the summary with what they must be."""
        expected: dict[int, list[Record]] = {}
        for number, records in self._expected.items():
            renamed = [msgspec.structs.replace(record, topic=target) for record in records]
            if done.target == "topic":
                expected[number] = [_record(each) for each in renamed]
            else:
                lines = [format_record(each, offset).rstrip(b"\n") for offset, each in enumerate(renamed)]
                expected[number] = list(map(_line, lines))
        if done.target == "topic":
            found = asyncio.run(_read(self._servers, target))
            done.repeats = repeats_in(found)
        else:
            found = {
                int(name.rpartition("/")[2]): list(map(_line, lines))
                for name, lines in lines_in(folder / "out").items()
            }
        counts = violations(expected, found, may_repeat=done.target == "topic")
        if done.fault is not Fault.RUN_KILLED and (folder / "summary.json").exists():
            summary = json.loads((folder / "summary.json").read_text())
            written = {f"{target}/{number}": len(each) for number, each in expected.items()}
            counts[MISCOUNTED] += summary["records_read"] != self._read
            counts[MISCOUNTED] += summary["written"] != written
        return +counts


def _record(record: Any) -> Record:
    content = (record.timestamp_ms, record.key, record.value, tuple(record.headers))
    return source_mark(content[-1]) or b"", content


def _line(line: bytes) -> Record:
    return source_mark(parse_record(line).headers) or b"", line


def _until_there(path: Path, command: Command, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline or command.has_ended:
            raise TimeoutError(f"{path} is not there: {command.log.read_text()[-2000:]}")
        time.sleep(0.05)


async def _read(servers: str, topic: str) -> dict[int, list[Record]]:
    partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    found: dict[int, list[Record]] = {number: [] for number in range(_PARTITIONS)}
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for each in (await consumer.getmany(partition, timeout_ms=500)).get(partition, ()):
                    content = (each.timestamp, each.key, each.value, tuple(each.headers))
                    found[partition.partition].append((source_mark(each.headers) or b"", content))
    return found


def spark_kills(seeds: Sequence[int]) -> tuple[dict[str, Any], bool]:
    """All runs; figures, and whether every one was well."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="relay-chaos-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        variables = environment(folder / "environment", *SHORT_RUNS)
        os.environ.update(variables)
        with Cluster(folder / "kafka") as kafka, Standalone(folder / "spark", variables) as cluster:
            campaign = Campaign(kafka.bootstrap_servers, folder, cluster)

            def run(seed: int, fault: Fault | None, *, to_files: bool, on_cluster: bool) -> None:
                runs.append(campaign.run(seed, fault, to_files=to_files, on_cluster=on_cluster))
                console.print(str(runs[-1]))

            for on_cluster in (False, True):
                run(0, None, to_files=on_cluster, on_cluster=on_cluster)
            for seed in seeds:
                for fault in Fault:
                    run(seed, fault, to_files=seed % 2 == 1, on_cluster=fault is not Fault.RUN_KILLED)
    return _summary(runs, seeds, console)


def _happened(run: Run) -> bool:
    """Whether the fault had the effect on Spark that it is for."""
    effects = {Fault.SPECULATION: run.speculative, Fault.TASKS_KILLED: run.retried}
    return bool(run.injected if run.fault is None else effects.get(run.fault, run.injected))


def _summary(runs: Sequence[Run], seeds: Sequence[int], console: Console) -> tuple[dict[str, Any], bool]:
    absent = []
    for fault in (None, *Fault):
        own = [run for run in runs if run.fault is fault]
        found = Counter[str]()
        for run in own:
            found.update(run.violations)
        violated = ", ".join(f"{found[name]} {name}" for name in _VIOLATIONS)
        console.print(f"{fault or 'undisturbed'}: {len(own)} runs, {_counted(own)}; {violated}")
        if fault is not None and not any(_happened(run) for run in own):
            absent.append(f"{fault} did not happen in any run")
    for each in absent:
        console.print(each)
    disturbed = [run for run in runs if run.fault is not None]
    failed = sum(bool(run.violations) for run in runs)
    return {
        "what": "spark",
        "records": RECORDS,
        "tries": len(disturbed),
        "failed": failed,
        "processor_seconds_per_seed": round(
            sum(run.processor_seconds for run in disturbed) / max(1, len(seeds)), 1
        ),
        "runs": [asdict(run) for run in runs],
    }, not failed and not absent
