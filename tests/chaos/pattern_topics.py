"""A route of a thousand topics by a pattern, of which some are created while it runs: none of their records may be
missing, and relay's resident memory stays below 200 MB.

The topics exist with some rows, except the last ones: these are created one after the other, with rows at
once, while older topics get more rows. Each topic has a target of its own, which relay creates, and which the
pattern matches, too: relay must not read it.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from chaos.broker import RunFailed, until
from chaos.experiment import config_text
from chaos.messages import row_message, timestamp_of
from chaos.relay_processes import Life, RelayProcesses
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions
from relay.model.records import SOURCE_HEADER

MAX_MB: Final = 200
_PREFIX, _SUFFIX = "connector.", ".canal-json"
_ROWS = 20
_PAUSE_SECONDS = 1.0
_REFRESH_MS = 5_000
_TOGETHER = 100
_CATCH_UP_SECONDS = 300.0


async def pattern_topics(mode: str, topics: int, added: int) -> tuple[Mapping[str, Any], bool]:
    """Run it; gives the figures, and whether all is well."""
    with tempfile.TemporaryDirectory(prefix="relay-pattern-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        cluster = Cluster(folder / "kafka", options=NodeOptions(java=BENCHMARK_JAVA_OPTIONS))
        try:
            await asyncio.to_thread(cluster.start)
            admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
            await admin.start()
            try:
                return await _Run(cluster.bootstrap_servers, admin, folder, mode, topics, added).run()
            finally:
                await admin.close()
        finally:
            await asyncio.to_thread(cluster.stop)


class _Run:
    def __init__(self, servers: str, admin: Any, folder: Path, mode: str, topics: int, added: int) -> None:
        self._servers, self._admin, self._mode = servers, admin, mode
        names = [f"{_PREFIX}t{number:04d}" for number in range(topics)]
        self._old, self._new = names[: topics - added], names[topics - added :]
        #: Records of each source topic.
        self._written: Counter[str] = Counter()
        text = config_text(servers=servers, source="SOURCE", target=f"{{topic}}{_SUFFIX}", mode=mode)
        text = text.replace('topics = ["SOURCE"]', _PATTERN).replace(
            "[target]\n", "[target]\ncreate_topics = true\n"
        )
        text = text.replace(f'group_id = "{{topic}}{_SUFFIX}"', 'group_id = "connector"')
        self._relays = RelayProcesses(folder, text)

    async def run(self) -> tuple[Mapping[str, Any], bool]:
        await self._create(self._old)
        await self._fill(self._old)
        life = self._relays.start()
        problems: list[str] = []
        first_seconds = first_mb = last_seconds = 0.0
        try:
            began = time.monotonic()
            await self._until_committed(life)
            first_seconds, first_mb = time.monotonic() - began, life.peak_mb
            for number, topic in enumerate(self._new):
                await self._create([topic])
                await self._fill([topic, self._old[number % len(self._old)]])
                await asyncio.sleep(_PAUSE_SECONDS)
            began = time.monotonic()
            await self._until_committed(life)
            last_seconds = time.monotonic() - began
            await self._relays.stop()
        except RunFailed as error:
            problems.append(str(error))
        finally:
            self._relays.kill()
        problems += [*self._relays.complaints, *await self._compared()]
        if life.peak_mb >= MAX_MB:
            problems.append(f"{life.peak_mb:.1f} MB of memory, not less than {MAX_MB}")
        figures = {
            "what": f"topics by pattern {self._mode}",
            "topics": len(self._old) + len(self._new),
            "of these created while running": len(self._new),
            "records": self._written.total(),
            "seconds until the first topics were relayed": round(first_seconds, 1),
            "seconds from the last new topic until all was relayed": round(last_seconds, 1),
            "most memory before new topics, MB": round(first_mb, 1),
            f"most memory, MB (less than {MAX_MB})": round(life.peak_mb, 1),
            "rebalances": sum(each["event"] == "partitions.assigned" for each in life.events),
            "problems": problems,
            "verdict": "; ".join(problems) or "ok",
        }
        return figures, not problems

    async def _create(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), _TOGETHER):
            part = names[at : at + _TOGETHER]
            await self._admin.create_topics(
                [NewTopic(name, 1, 1, topic_configs={"retention.ms": "-1"}) for name in part]
            )
            await until(functools.partial(self._are_led, part), f"topics such as {part[0]} have leaders")

    async def _are_led(self, names: Sequence[str]) -> bool:
        found = await self._admin.describe_topics(list(names))
        return all(each["partitions"] and each["partitions"][0]["leader"] >= 0 for each in found)

    async def _fill(self, names: Sequence[str]) -> None:
        """Write rows to each topic."""
        async with AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True) as producer:
            sent = []
            for name in names:
                batch = producer.create_batch()
                for offset in range(self._written[name], self._written[name] + _ROWS):
                    value = row_message(offset, 0, offset, name.removeprefix(_PREFIX))
                    assert batch.append(key=None, value=value, timestamp=timestamp_of(offset)) is not None
                batch.close()
                sent.append(await producer.send_batch(batch, name, partition=0))
                self._written[name] += _ROWS
            await asyncio.gather(*sent)

    async def _until_committed(self, life: Life) -> None:
        """Wait until the group has committed every record. Raises RunFailed."""

        async def is_so() -> bool:
            life.look()
            if not life.is_running:
                raise RunFailed("relay ended by itself")
            found = await self._admin.list_consumer_group_offsets("connector")
            return {pair.topic: at.offset for pair, at in found.items()} == dict(self._written)

        await until(is_so, "every record is committed", _CATCH_UP_SECONDS)

    async def _compared(self) -> list[str]:
        """Compare the records of the targets with those of the sources, by the marks of relay."""
        wanted = {f"{name}/0/{offset}" for name, count in self._written.items() for offset in range(count)}
        found: Counter[str] = Counter()
        pairs = [TopicPartition(f"{name}{_SUFFIX}", 0) for name in self._written]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            consumer.assign(pairs)
            ends = await consumer.end_offsets(pairs)
            while any([await consumer.position(pair) < end for pair, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    marks = [dict(record.headers)[SOURCE_HEADER].decode() for record in records]
                    found.update(mark.rpartition("/")[0] for mark in marks)
        problems = []
        if missing := wanted - found.keys():
            problems.append(f"{len(missing)} records are missing, such as {min(missing)}")
        if others := found.keys() - wanted:
            problems.append(f"{len(others)} records come from elsewhere, such as {min(others)}")
        repeated = sum(found.values()) - len(found)
        if repeated and self._mode == "exactly-once":
            problems.append(f"{repeated} records are there more than once")
        return problems


_PATTERN: Final = f"""topics_pattern = '{_PREFIX.replace(".", chr(92) + ".")}.*'
metadata_max_age_ms = {_REFRESH_MS}"""
