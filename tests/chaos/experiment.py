"""One run: topics, records, relays, a fault in the middle, an end in good order, the verdict."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from chaos.broker import Feeder, RunFailed, until
from chaos.clusters import Kind, Site, Worker
from chaos.faults import EXACTLY_ONCE, SCENARIOS, Stage
from chaos.messages import (
    DATABASE,
    PARTITIONS,
    Content,
    Plan,
    content_of,
    planned,
    table_name,
    written,
    written_twice,
)
from chaos.relay_processes import DRAIN_SECONDS, End, RelayProcesses
from chaos.segments import read_partition
from chaos.toxiproxy import ToxiproxyMissing
from chaos.verify import Fate, Findings, Topics, verify

RECORDS = 20_000
_PREFILLED = 0.3
_CATCH_UP_SECONDS = 90.0
_VISIBLE_SECONDS = 20.0
_CONFIG = """\
[route]
from = "ticdc-canal-json"
to = "canal-json"
[source]
bootstrap_servers = "{servers}"
topics = ["{source}"]
group_id = "{group}"
session_timeout_ms = 3000
rebalance_timeout_ms = 6000
max_partition_fetch_bytes = 65536
[target]
topic = "{target}"
[delivery]
mode = "{mode}"
commit_interval_seconds = 0.5
delivery_timeout_seconds = {delivery}
drain_timeout_seconds = {drain}
"""
#: The topics of tables, and what makes relay create them.
_BY_TABLE = "{topic}.{database}.{table}"
_CREATES = 'create_topics = true\ncreate_settings = { "retention.ms" = -1 }\n'
#: The shorter one makes relay give up on a producer, and rewind, where the client alone would have waited for
#: the brokers.
_DELIVERY_SECONDS = (2.0, 60.0)


def config_text(
    *,
    servers: str,
    source: str,
    target: str,
    mode: str,
    delivery_seconds: float = 60.0,
    by_table: bool = False,
) -> str:
    """A configuration; the group is called like the target topic, also where tables have topics of their own."""
    text = _CONFIG.replace('topic = "{target}"\n', 'topic = "{target}"\n{creates}')
    return text.format(
        servers=servers,
        source=source,
        target=_BY_TABLE if by_table else target,
        creates=_CREATES if by_table else "",
        group=target,
        mode=mode,
        delivery=delivery_seconds,
        drain=DRAIN_SECONDS,
    )


@dataclass(frozen=True)
class Job:
    """Which run: the seed decides the messages, and what happens when."""

    scenario: str
    mode: str
    seed: int

    @property
    def kind(self) -> Kind:
        """What it runs on."""
        return SCENARIOS[self.scenario].kind

    @property
    def name(self) -> str:
        """A name for topics and folders."""
        return f"{self.scenario}-{self.mode}-{self.seed}"


@dataclass
class Outcome:
    """What came of a run; `problems` is empty if all was well."""

    scenario: str
    mode: str
    seed: int
    problems: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    records: int = 0
    defects: dict[str, int] = field(default_factory=dict)
    repeats: int = 0
    aborted: int = 0
    lives: int = 0
    ended_themselves: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    peak_mb: float = 0.0
    stop_seconds: float = 0.0
    caught_up_seconds: float = 0.0
    seconds: float = 0.0


async def experiment(job: Job, worker: Worker, folder: Path, *, keep: bool = False) -> Outcome:
    """Run it. `folder` gets the relays' logs; if all was well it is removed, unless they are to be kept."""
    outcome = Outcome(job.scenario, job.mode, job.seed)
    since = time.monotonic()
    _make_empty(folder)
    try:
        site = await worker.site(job.kind)
        await _Run(job, site, folder, outcome).run()
    except (RunFailed, ToxiproxyMissing) as error:
        outcome.problems.append(str(error))
    except Exception as error:
        # One run that the harness itself cannot bring to its end must not end all others.
        outcome.problems.append(f"the harness failed: {type(error).__name__}: {error}")
        (folder / "harness.txt").write_text(traceback.format_exc())
    outcome.seconds = round(time.monotonic() - since, 1)
    if not outcome.problems and not keep:
        shutil.rmtree(folder)
    return outcome


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


class _Run:
    def __init__(self, job: Job, site: Site, folder: Path, outcome: Outcome) -> None:
        self._job, self._site, self._folder, self._outcome = job, site, folder, outcome
        self._scenario = SCENARIOS[job.scenario]
        self._rng = random.Random(job.name)
        self._tables = self._scenario.tables
        self._plan = planned(self._rng, RECORDS, tables=self._tables)
        outcome.records = self._plan.count

    async def run(self) -> None:
        broker, name = self._site.broker, self._job.name
        source = await broker.create(f"{name}-source", self._site.replicas)
        target = await broker.create(f"{name}-target", self._site.replicas)
        group = target
        patience = self._rng.choice(_DELIVERY_SECONDS)
        self._outcome.faults.append(f"delivery timeout {patience:g} s")
        config = config_text(
            servers=self._site.relay_servers,
            source=source,
            target=target,
            mode=self._job.mode,
            delivery_seconds=patience,
            by_table=self._tables > 1,
        )
        relays = RelayProcesses(self._folder, config, self._scenario.allowed(self._job.mode))
        watching = asyncio.create_task(relays.watch())
        try:
            await self._play(relays, source, target, group)
            await self._end(relays, source, target, group)
            findings = await self._judge(source, target, group)
        finally:
            watching.cancel()
            relays.kill()
            self._note(relays)
        self._outcome.defects = {str(defect): count for defect, count in findings.counts.items()}
        self._outcome.repeats = findings.repeats
        if findings.counts:
            self._outcome.problems.append(str(findings))
        else:
            written_topics = self._targets(source, target)
            await broker.delete([source, target, *written_topics, f"relay.schema-history.{group}"])

    async def _play(self, relays: RelayProcesses, source: str, target: str, group: str) -> None:
        """Let the fault happen while records come."""
        feeder = Feeder(self._site.broker, source, self._plan)
        await feeder.feed(_PREFILLED)
        if not await relays.opened(relays.start()):
            raise RunFailed("the first relay ended before it read anything")
        stage = Stage(
            self._rng,
            self._job.mode,
            self._site,
            relays,
            (source, target),
            feeder,
            _PREFILLED,
            self._outcome.faults,
        )
        await self._scenario.fault(stage)
        async with stage.records(1, 0.5):
            pass

    async def _end(self, relays: RelayProcesses, source: str, target: str, group: str) -> None:
        """Wait until everything is committed and visible, then stop the relays. What does not come is left to
        the verdict.
        """
        broker, since = self._site.broker, time.monotonic()
        ends = await broker.ends(source)

        async def is_committed() -> bool:
            if not relays.running:
                if relays.complaints:
                    raise RunFailed("no relay is alive")
                relays.start()
            return await broker.committed(group) == ends

        try:
            await until(is_committed, "everything committed", _CATCH_UP_SECONDS)
        except RunFailed as error:
            self._outcome.problems.append(str(error))
        self._outcome.caught_up_seconds = round(time.monotonic() - since, 2)
        await relays.stop()

    async def _judge(self, source: str, target: str, group: str) -> Findings:
        broker, exact = self._site.broker, self._job.mode == EXACTLY_ONCE
        source_ends = await broker.ends(source)
        held = await self._held(source, source_ends)
        template = _BY_TABLE if self._tables > 1 else target
        expected = await asyncio.to_thread(written, source, Plan(held), template)
        committed, found = await broker.committed(group), Findings()
        for topic in self._targets(source, target):
            visible, ends = await broker.ends(topic, committed=True), await broker.ends(topic)
            fates = await self._fates(topic, ends) if exact else {}
            self._outcome.aborted += sum(fate is Fate.ABORTED for fate in fates.values())
            topics = Topics(
                name=source,
                source=_contents(
                    held, {mark for mark, out in expected.items() if out.topic == topic}, source
                ),
                target=await broker.read(topic),
                committed=committed,
                ends=source_ends,
                fates=fates,
                expected={mark: out.value or b"" for mark, out in expected.items()},
                hidden={partition: ends[partition] - visible[partition] for partition in ends},
            )
            found.take(await asyncio.to_thread(verify, topics, exactly_once=exact))
        return found

    def _targets(self, source: str, target: str) -> list[str]:
        """The topics that relay writes."""
        if self._tables == 1:
            return [target]
        return [f"{source}.{DATABASE}.{table_name(at, self._tables)}" for at in range(self._tables)]

    async def _held(self, source: str, ends: dict[int, int]) -> list[list[bytes]]:
        """The values that the source really holds: relay must deliver these, also what brokers have written
        twice.
        """
        values = await self._site.broker.values(source)
        if dict(enumerate(map(len, values))) != ends:
            raise RunFailed("the harness itself has not read the source from its beginning to its end")
        try:
            count = written_twice(self._plan, values)
        except ValueError as error:
            raise RunFailed(f"the source itself is wrong: {error}") from error
        if count:
            self._outcome.faults.append(f"{count} records of the source written twice")
        return values

    async def _fates(self, target: str, ends: dict[int, int]) -> dict[tuple[int, int], Fate]:
        """What the broker's log says of every transaction; a follower's copy may be some moments behind."""
        found: dict[tuple[int, int], Fate] = {}

        async def is_read() -> bool:
            logs = {
                partition: max(
                    map(read_partition, self._site.partition_folders(target, partition)),
                    key=lambda log: log.end,
                )
                for partition in range(PARTITIONS)
            }
            found.update(
                {
                    (partition, offset): fate
                    for partition, log in logs.items()
                    for offset, fate in log.fates.items()
                }
            )
            return all(log.end >= ends[partition] for partition, log in logs.items())

        await until(is_read, "the broker's log can be read", _VISIBLE_SECONDS)
        return found

    def _note(self, relays: RelayProcesses) -> None:
        outcome = self._outcome
        outcome.problems += relays.complaints
        outcome.lives = len(relays.lives)
        outcome.peak_mb = round(relays.most(lambda life: life.peak_mb), 1)
        outcome.stop_seconds = round(relays.most(lambda life: life.stop_seconds), 1)
        outcome.ended_themselves = dict(
            Counter(life.code or str(life.status) for life in relays.lives if life.end is End.ITSELF)
        )
        warnings: Counter[str] = Counter()
        for each in (event for life in relays.lives for event in life.events if event["level"] != "info"):
            warnings[each["event"]] += 1 + int(each.get("repeated", 0))
        outcome.warnings = dict(warnings)


def _contents(held: list[list[bytes]], marks: set[str], source: str) -> list[list[Content | None]]:
    """What one target topic gets of every offset: the records that have these marks, and nothing else."""
    return [
        [
            content_of(value) if f"{source}/{partition}/{offset}/0" in marks else None
            for offset, value in enumerate(values)
        ]
        for partition, values in enumerate(held)
    ]
