"""The demo: a real Kafka, captured TiCDC records, the relay in this process, and a look at both topics.

At the end everything is stopped and removed, also after Ctrl-C, SIGTERM or a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from rich.console import Console
from rich.markup import escape

from relay.config import Config
from relay.config.wiring import translator_of
from relay.core.translator import Translator
from relay.demo.kafka import Cluster
from relay.demo.show import Pair, console, samples, show_limits, show_pair, show_summary
from relay.io.logs import Log
from relay.io.record_lines import parse_record
from relay.model.errors import DeliveryFailed
from relay.model.records import ConsumerRecord, source_mark
from relay.service.app import run_until

SOURCE_TOPIC, TARGET_TOPIC, GROUP = "ticdc", "ticdc.canal-json", "relay-demo"
PATIENCE_SECONDS = 60.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def play(*, keep: bool) -> int:
    """Run the demo; with `keep` stay up until Ctrl-C. Return the exit status."""
    out = console()
    with (
        _signals_interrupt(),
        tempfile.TemporaryDirectory(prefix="relay-demo-", ignore_cleanup_errors=True) as folder,
    ):
        started = time.monotonic()
        with Cluster(
            Path(folder, "kafka"), progress=lambda text: out.print(f"[dim]{escape(text)} …[/dim]")
        ) as cluster:
            out.print(
                f"Apache Kafka is ready at {cluster.bootstrap_servers} ({time.monotonic() - started:.1f} s)\n"
            )
            path = Path(folder, "relay.log")
            with path.open("w") as log:
                status = asyncio.run(_Demo(out, cluster.bootstrap_servers, Log(log)).run(keep=keep))
            if status:
                out.print(f"The demo's relay ended with status {status}: {escape(_last_error(path))}")
            return status


def _last_error(log: Path) -> str:
    """Return the relay's log of the error that ended it."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    error: dict[str, Any] = next((each for each in reversed(events) if each["level"] == "error"), {})
    return ": ".join(str(error[name]) for name in ("code", "message", "kind") if name in error)


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let signals that would kill Python end the demo as Ctrl-C does, so that nothing is left running."""
    before = {number: signal.signal(number, _interrupt) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    """Do as Ctrl-C does: asyncio handles that, while an exception of a handler could hang its loop."""
    signal.raise_signal(signal.SIGINT)


class _Demo:
    def __init__(self, out: Console, servers: str, log: Log) -> None:
        self._out, self._servers, self._log = out, servers, log
        self._config = Config.model_validate(
            {
                "route": {
                    "from": "ticdc-canal-json",
                    "to": "canal-json",
                    "from_options": {"enable-tidb-extension": True},
                },
                "source": {"bootstrap_servers": servers, "topics": [SOURCE_TOPIC], "group_id": GROUP},
                "target": {"topic": TARGET_TOPIC},
                "delivery": {"commit_interval_seconds": 0.2},
            }
        )
        self._translator: Translator = translator_of(self._config)
        self._written: dict[str, ConsumerRecord] = {}

    async def run(self, *, keep: bool) -> int:
        records = captured_records()
        await self._create_topics()
        stop = asyncio.Event()
        relay = asyncio.create_task(run_until(stop, self._config, self._log, self._translator))
        try:
            self._out.print(
                f"Playing {len(records)} records of TiCDC into {SOURCE_TOPIC}, relay writes {TARGET_TOPIC}:\n"
            )
            if not await self._while_running(relay, self._relay_records(records)):
                return relay.result()
            self._show(records)
            if keep:
                await self._stay(relay)
        finally:
            stop.set()
            status = await relay
        if status == 0:
            self._out.print(
                "\nDone: everything was delivered and committed. Stopping Kafka and removing its data."
            )
        return status

    async def _create_topics(self) -> None:
        # The records keep their timestamps, and these grow old: retention by time would delete them.
        settings = {"retention.ms": "-1"}
        topics = [
            NewTopic(name, PARTITIONS, 1, topic_configs=settings) for name in (SOURCE_TOPIC, TARGET_TOPIC)
        ]
        async with _admin(self._servers) as admin:
            await admin.create_topics(topics)
            async with asyncio.timeout(PATIENCE_SECONDS):
                # Brokers learn of new topics a little later than the controller that made them.
                while not all(  # noqa: ASYNC110 - brokers send no notification
                    _ready(topic) for topic in await admin.describe_topics([SOURCE_TOPIC, TARGET_TOPIC])
                ):
                    await asyncio.sleep(0.05)

    async def _while_running(self, relay: asyncio.Task[int], work: Coroutine[Any, Any, None]) -> bool:
        """Do some work while the relay runs; return False if the relay has ended first."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({relay, task}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            if relay.done():
                return False
            raise DeliveryFailed(f"the demo's relay did not finish within {PATIENCE_SECONDS:.0f} s")
        task.result()
        return True

    async def _relay_records(self, records: list[ConsumerRecord]) -> None:
        target = AIOKafkaConsumer(bootstrap_servers=self._servers, auto_offset_reset="earliest")
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True)
        async with target, producer, _admin(self._servers) as admin:
            target.assign([TopicPartition(TARGET_TOPIC, number) for number in range(PARTITIONS)])
            for record in records:
                await producer.send_and_wait(
                    SOURCE_TOPIC,
                    record.value,
                    record.key,
                    record.partition,
                    record.timestamp_ms,
                    list(record.headers),
                )
                if is_ddl(record):
                    # As in production, rows come some time after the statement that created their table.
                    await self._read_until(target, _mark(record))
            while sum((await self._committed(admin)).values()) < len(records):
                await self._read(target)
            await self._read(target)

    async def _read_until(self, target: AIOKafkaConsumer, mark: str) -> None:
        while mark not in self._written:
            await self._read(target)

    async def _read(self, target: AIOKafkaConsumer) -> None:
        for records in (await target.getmany(timeout_ms=50)).values():
            for record in records:
                found = ConsumerRecord(
                    record.topic, record.partition, record.offset, record.timestamp, record.key, record.value
                )
                mark = (source_mark(record.headers) or b"").decode()
                self._written |= dict.fromkeys(_marks_in(mark), found)

    async def _committed(self, admin: AIOKafkaAdminClient) -> dict[TopicPartition, int]:
        offsets = await admin.list_consumer_group_offsets(GROUP)
        return {partition: committed.offset for partition, committed in offsets.items()}

    def _show(self, records: list[ConsumerRecord]) -> None:
        pairs = [
            Pair(record, self._written[_mark(record)]) for record in records if _mark(record) in self._written
        ]
        for title, pair in samples(pairs):
            show_pair(self._out, title, pair)
        show_summary(self._out, self._translator, len(records), len(self._written))
        route = self._config.route
        show_limits(self._out, self._translator, route.from_options, route.to_options)

    async def _stay(self, relay: asyncio.Task[int]) -> None:
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, *_ENDING_SIGNALS):
            loop.add_signal_handler(number, asked.set)
        kcat = f"kcat -b {self._servers}"
        self._out.print(
            f"\nKafka stays up at [bold]{self._servers}[/bold], "
            f"and the relay runs from {SOURCE_TOPIC} to {TARGET_TOPIC}. Try:\n"
            f"  {kcat} -C -t {TARGET_TOPIC} -e\n"
            f"  {kcat} -C -t {SOURCE_TOPIC} -e -q -o -1 | {kcat} -P -t {SOURCE_TOPIC} -p 0\n"
            "Ctrl-C ends it.",
            highlight=False,
            soft_wrap=True,
        )
        waiting = asyncio.ensure_future(asked.wait())
        await asyncio.wait({relay, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


def _marks_in(mark: str) -> list[str]:
    """Return the marks of all records in a message's mark: `orders/3/4704-4711/0` is of eight."""
    partition, offsets, number = mark.rsplit("/", 2)
    first, _, last = offsets.partition("-")
    return [f"{partition}/{offset}/{number}" for offset in range(int(first), int(last or first) + 1)]


def _mark(record: ConsumerRecord) -> str:
    return f"{SOURCE_TOPIC}/{record.partition}/{record.offset}/0"


def _ready(topic: dict[str, Any]) -> bool:
    return topic["error_code"] == 0 and len(topic["partitions"]) == PARTITIONS


@contextlib.asynccontextmanager
async def _admin(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


PARTITIONS = 4


def captured_records() -> list[ConsumerRecord]:
    """Return the records in the order in which TiCDC sent them."""
    text = files("relay.demo").joinpath("data", "ticdc-canal-json.jsonl").read_bytes()
    return [parse_record(line) for line in text.splitlines()]


def is_ddl(record: ConsumerRecord) -> bool:
    """Return whether a captured record is a DDL statement."""
    return b'"isDdl":true' in (record.value or b"")
