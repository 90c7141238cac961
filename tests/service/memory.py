"""Sources, sinks and translators in memory, for failures that a real broker cannot be made to show."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.config import Config
from relay.core.counts import UnwrittenStatement
from relay.core.error_policies import ErrorPolicies
from relay.core.pipeline import State
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.ports import Owner, Partition, StartPosition, Undelivered
from relay.io.kafka.sizes import NoKey, NoMatch, Oversize
from relay.model.errors import TopicUnusable
from relay.model.events import Event, TableId
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.history import Schemas
from relay.service.loop.relay_loop import Relay
from relay.service.loop.settings import LoopSettings
from relay.service.loop.translation_stage import TranslationStage
from relay.service.loop.windows import Joins
from relay.service.observe.about import About
from relay.service.observe.status import Status

_TABLES: dict[str, Any] = {
    "route": {"from": "ticdc-canal-json", "to": "canal-json"},
    "source": {"bootstrap_servers": "b:1", "topics": ["in"], "group_id": "g"},
    "target": {"topic": "out"},
    "schema": {"history_topic": ""},
}
#: A route without a schema history.
PLAIN = Config(**_TABLES)
A, B = Partition("in", 0), Partition("in", 1)


class MemorySource:
    """Hands out `take` records of each partition a poll. `failures`: what coming polls raise after having
    moved on.
    """

    def __init__(self, length: int, *partitions: Partition, take: int = 3) -> None:
        self.length, self.take, self.every = length, take, partitions
        self.position: dict[Partition, int] = {}
        self.committed: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self.failures: list[Exception | None] = []
        self.commit_failures: list[Exception] = []
        self.stopped = False
        self.hang = False
        self.owner: Owner | None = None
        self.health = ClientHealth()

    async def start(self, owner: Owner) -> None:
        self.owner = owner
        owner.assigned(self.every)

    async def open(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        for partition, offset in at_least.items():
            assert self.committed[partition] >= offset
        for partition in partitions:
            self.position[partition] = self.committed.get(partition, 0)
        return await self.look(partitions, at_least)

    async def look(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        return {
            partition: StartPosition(self.committed.get(partition, 0), partition in self.committed)
            for partition in partitions
        }

    async def poll(self, without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        if self.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(0.001)
        polled = {}
        for partition in self.position.keys() - set(without):
            start = self.position[partition]
            end = self.position[partition] = min(self.length, start + self.take)
            if end > start:
                polled[partition] = [
                    ConsumerRecord(*partition, offset, 0, None, b"%d" % offset)
                    for offset in range(start, end)
                ]
        failure = self.failures.pop(0) if self.failures else None
        if failure:
            raise failure
        return polled

    async def poll_some(
        self, most: int, without: Collection[Partition] = ()
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        usual, self.take = self.take, min(self.take, max(1, most // len(self.every)))
        try:
            return await self.poll(without)
        finally:
            self.take = usual

    def end(self, partition: Partition) -> int | None:
        return self.length

    def end_age(self, partition: Partition) -> float | None:
        return 0.0

    async def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, self.length)

    async def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, self.length)

    def position_of(self, partition: Partition) -> int | None:
        return self.position.get(partition)

    def partitions(self) -> Sequence[Partition]:
        return self.every

    async def waiting(self) -> bool:
        return any(position < self.length for position in self.position.values())

    def pause(self, partitions: Collection[Partition]) -> None:
        self.paused = set(partitions)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        self.position |= offsets

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        await asyncio.sleep(0)
        if self.commit_failures:
            raise self.commit_failures.pop(0)
        for partition, offset in offsets.items():
            assert offset >= self.committed.get(partition, 0), "offsets only grow"
        self.committed |= offsets

    async def stop(self) -> None:
        self.stopped = True


class MemoryBatch(list[ProducerRecord]):
    most = 2
    is_sent = False

    def append(self, record: ProducerRecord, /) -> bool:  # type: ignore[override]  # a list's gives nothing
        assert not self.is_sent, "a record that nobody sends"
        if len(self) == self.most or (self and record.value == b"too large"):
            return False
        super().append(record)
        return True

    @property
    def size(self) -> int:
        return sum(len(record.value or b"") for record in self)


class Target:
    """What all sinks of a test write to. `refuse` decides the fate of a batch; `gate` holds acknowledgements
    back.
    """

    def __init__(self, transactional: bool = False) -> None:
        self.records: list[ProducerRecord] = []
        self.transactional = transactional
        self.refuse_commit: Callable[[Mapping[Partition, int]], Exception | None] = lambda _: None
        self.source: Any = None
        self.checks = 0
        self.problem: TopicUnusable | None = None
        self.refuse: Callable[[MemoryBatch], Undelivered | None] = lambda _: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.sinks: list[MemorySink] = []
        self.down = 0
        self.compacted: set[str] = set()

    def sink(self) -> MemorySink:
        self.sinks.append(MemorySink(self))
        return self.sinks[-1]

    async def check(self) -> None:
        """Look at the topics."""
        self.checks += 1
        if self.problem:
            raise self.problem

    async def find_earlier_output(self) -> str:
        """Find none."""
        return ""

    async def find_reason(self, side: str) -> str:
        """Know no reason."""
        return ""

    def values(self, partition: Partition) -> list[int]:
        """Source offsets in order of first appearance."""
        return list(
            dict.fromkeys(int(r.value or b"") for r in self.records if r.partition == partition.partition)
        )


class MemorySink:
    """As aiokafka's idempotent producer: after one refused batch, all later ones are refused."""

    needs_rotation = has_aborted_hanging_transaction = False

    def __init__(self, target: Target) -> None:
        self.target, self.state = target, "new"
        self.broken: Undelivered | None = None
        self.gone = asyncio.Event()
        self.open: list[ProducerRecord] = []
        self.health = ClientHealth()

    @property
    def is_transactional(self) -> bool:
        return self.target.transactional

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        await asyncio.sleep(0)
        assert self.state == "started"
        if error := self.target.refuse_commit(offsets):
            raise error
        self.target.records += self.open
        self.open = []
        self.target.source.committed |= offsets

    async def start(self) -> None:
        if self.target.down:
            self.target.down -= 1
            raise Undelivered("down", retriable=True)
        self.state = "started"

    def batch(self, topic: str) -> MemoryBatch:
        return MemoryBatch()

    async def send(self, partition: Partition, batch: Any) -> asyncio.Future[object]:
        assert {(record.topic, record.partition) for record in batch} == {partition}
        batch.is_sent = True
        return asyncio.ensure_future(self._write(batch))

    async def _write(self, batch: MemoryBatch) -> object:
        self.broken = self.broken or self.target.refuse(batch)
        if self.broken is None:
            (self.open if self.is_transactional else self.target.records).extend(batch)
        opened, gone = asyncio.ensure_future(self.target.gate.wait()), asyncio.ensure_future(self.gone.wait())
        await asyncio.wait({opened, gone}, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        gone.cancel()
        return self.broken

    async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
        done, _ = await asyncio.wait(pending) if pending else (set(), set())
        for future in done:
            if isinstance(outcome := future.result(), Undelivered):
                raise outcome

    async def expect(self, topics: Collection[str]) -> None:
        """Topics are where they are written."""

    def misfit(self, records: Sequence[ProducerRecord]) -> NoMatch | None:
        if any(record.key is None and record.topic in self.target.compacted for record in records):
            return NoKey("out")
        return next((Oversize("out", 99, 9) for record in records if record.value == b"too large"), None)

    async def stop(self) -> None:
        self.state = "stopped"

    async def abandon(self) -> None:
        self.state = "abandoned"
        self.broken = self.broken or Undelivered("abandoned", retriable=True)
        self.gone.set()


class PlainTranslator:
    """What every translator double has in common: it knows no tables, counts nothing, and leaves nothing
    behind.
    """

    needs_all_partitions = False
    copies_ddl = False

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.events: Counter[str] = Counter()
        self.losses: Counter[Loss] = Counter()
        self.inferred_tables: dict[TableId, int] = {}
        self.unwritten: list[UnwrittenStatement] = []
        self.paths: Counter[str] = Counter()
        self.counts_by_table: dict[TableId, Counter[str]] = {}
        self.remembered_rows: int | None = None
        self.forgotten = 0
        self.watermarks_ms: dict[tuple[str, int], int] = {}
        self.restored = 0

    def provide(self, need: Need[Any], data: bytes, /) -> None:
        raise NotImplementedError

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        raise NotImplementedError

    @property
    def name_conflicts(self) -> list[tuple[TableId, list[TableId]]]:
        return []

    def storable(self, record: ConsumerRecord, /) -> ConsumerRecord | None:
        return record

    def inspect(self, record: ConsumerRecord, /) -> list[Event]:
        return []

    def row_time_ms(self, record: ConsumerRecord, /) -> int | None:
        return None

    def count_tables(self, most: int, /) -> None:
        """It counts nothing."""

    def inferred_after(self, number: int, /) -> list[TableId]:
        return list(self.inferred_tables)[number:]

    def why_unknown(self, table: TableId, /) -> str:
        return "no DDL"

    def unwritten_after(self, number: int, /) -> list[UnwrittenStatement]:
        return self.unwritten[number:]

    @property
    def state(self) -> State:
        return State(Catalog(), None)

    def restore(self, state: State, /) -> None:
        self.restored += 1

    def partitions_of(self, topic: str, /) -> int | None:
        raise NotImplementedError

    def forget_rows(self) -> None:
        self.forgotten += 1

    def expect_partitions(self, partitions: Iterable[tuple[str, int]], /) -> None:
        raise NotImplementedError


class Copy(PlainTranslator):
    """Translates by copying; `refuse` names offsets that raise."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse: dict[int, Exception] = {}
        self.become: dict[int, bytes] = {}

    def learn(self, _record: ConsumerRecord, /) -> tuple[TableId, ...]:
        return ()

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.offset in self.refuse:
            raise self.refuse[record.offset]
        return [
            ProducerRecord("out", record.partition, 0, None, self.become.get(record.offset, record.value))
        ]


class Bench:
    """A relay between memory and memory. `settings`: of the loop, which is quick otherwise. `topic`: the schema
    history's.
    """

    def __init__(  # noqa: PLR0913 - what a relay may be made with
        self,
        log: Any,
        *partitions: Partition,
        length: int = 20,
        transactional: bool = False,
        copy: Any = None,
        objects: AsyncResolver | None = None,
        joins: Joins | None = None,
        source: MemorySource | None = None,
        config: Config = PLAIN,
        errors: ErrorPolicies | None = None,
        topic: Any = None,
        tracer: Any = None,
        **settings: Any,
    ) -> None:
        self.source, self.target, self.log = (
            source or MemorySource(length, *partitions),
            Target(transactional),
            log,
        )
        self.target.source = self.source
        self.copy = copy or Copy()
        self.status = Status(About.of(config))
        objects = objects or AsyncResolver(log, writes=False)
        stage = TranslationStage(self.copy, objects, log, self.status, joins=joins, errors=errors)
        quick: dict[str, Any] = {
            "commit_interval_seconds": 0.0,
            "transaction_interval_seconds": 0.0,
            "drain_seconds": 0.5,
            "revoke_seconds": 0.2,
            "backoff_seconds": (0.001,),
        }
        self.schemas = Schemas(config, self.copy, log, self.status, topic=topic)
        self.relay = Relay(
            lambda: self.source,
            self.target.sink,
            stage,
            log,
            self.status,
            self.schemas,
            check_topics=self.target.check,
            find_reason=self.target.find_reason,
            find_earlier_output=self.target.find_earlier_output,
            settings=LoopSettings(**quick | settings),
            tracer=tracer,
        )

    async def run_to_the_end(self) -> None:
        """Run until everything is committed, then stop."""
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            running = group.create_task(self.relay.run())
            everything = dict.fromkeys(self.source.every, self.source.length)
            await until(lambda: self.source.committed == everything or running.done())
            self.relay.request_stop()

    def check(self) -> None:
        for partition in self.source.every:
            values = self.target.values(partition)
            assert values == list(range(len(values)))
            assert self.source.committed.get(partition, 0) <= len(values)

    def check_complete(self) -> None:
        self.check()
        assert all(
            len(self.target.values(partition)) == self.source.length for partition in self.source.every
        )
        assert self.source.committed == dict.fromkeys(self.source.every, self.source.length)
        assert self.source.stopped
        assert self.target.sinks[-1].state == "stopped"
        assert [sink.state for sink in self.target.sinks[:-1]] == ["abandoned"] * (len(self.target.sinks) - 1)


def plain_status() -> Status:
    """A status that nobody reads."""
    return Status(About.of(PLAIN))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)
