"""A million messages through one relay: its memory must stay, and it must keep up.

Records come at a steady rate that relay can follow. Its resident memory is examined every second; what
counts is that the highest value of the last quarter is not more than 1.05 times that of the second quarter,
and that everything is committed at the end.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from chaos.broker import Broker, RunFailed, broker_at, until
from chaos.experiment import config_text
from chaos.messages import PARTITIONS, partition_values, row_message, timestamp_of
from chaos.relay_processes import Life, RelayProcesses, resident_mb
from relay.demo.kafka import Cluster

MAX_GROWTH = 1.05
_IDS = 20_000
_CATCH_UP_SECONDS = 120.0
_TICK = 0.25


async def soak(mode: str, messages: int, rate: int) -> tuple[Mapping[str, Any], bool]:
    """Run it; gives the figures, and whether all is well."""
    with tempfile.TemporaryDirectory(prefix="relay-soak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        cluster = Cluster(folder / "kafka")
        try:
            await asyncio.to_thread(cluster.start)
            async with broker_at(cluster.bootstrap_servers) as broker:
                return await _Soak(broker, folder, mode, messages // PARTITIONS, rate // PARTITIONS).run()
        finally:
            await asyncio.to_thread(cluster.stop)


class _Soak:
    def __init__(self, broker: Broker, folder: Path, mode: str, count: int, rate: int) -> None:
        self._broker, self._folder, self._mode, self._count, self._rate = broker, folder, mode, count, rate
        self._samples: list[float] = []
        self._written = [0] * PARTITIONS

    async def run(self) -> tuple[Mapping[str, Any], bool]:
        source, target = (
            await self._broker.create("soak-source", 1),
            await self._broker.create("soak-target", 1),
        )
        servers = self._broker.servers
        relays = RelayProcesses(
            self._folder, config_text(servers=servers, source=source, target=target, mode=self._mode)
        )
        life = relays.start()
        try:
            if not await relays.opened(life):
                raise RunFailed("relay ended before it read anything")
            since = time.monotonic()
            sampling = asyncio.create_task(self._sample(life))
            await self._feed(source)
            fed_seconds = time.monotonic() - since
            lag_at_end = await self._lag(target, {})
            ends = dict.fromkeys(range(PARTITIONS), self._count)
            problems = await _problem(
                until(lambda: self._is_committed(target, ends), "everything committed", _CATCH_UP_SECONDS)
            )
            caught_up = time.monotonic() - since - fed_seconds
            sampling.cancel()
            await relays.stop()
        finally:
            relays.kill()
        problems += relays.complaints
        quarter = len(self._samples) // 4
        second, last = max(self._samples[quarter : 2 * quarter]), max(self._samples[3 * quarter :])
        if last > MAX_GROWTH * second:
            problems.append(f"memory grows: {second:.1f} MB in the second quarter, {last:.1f} MB in the last")
        figures = {
            "what": f"soak {self._mode}",
            "messages": self._count * PARTITIONS,
            "messages a second": round(self._count * PARTITIONS / fed_seconds),
            "most memory in the second quarter, MB": round(second, 1),
            "most memory in the last quarter, MB": round(last, 1),
            "growth (at most 1.05)": round(last / second, 3),
            "lag when the last record was written, messages": lag_at_end,
            "seconds until the lag was 0": round(caught_up, 1),
            "seconds to stop": round(life.stop_seconds, 1),
            "samples": [round(each, 1) for each in self._samples],
            "problems": problems,
            "verdict": "; ".join(problems) or "ok",
        }
        return figures, not problems

    async def _sample(self, life: Life) -> None:
        while True:
            self._samples.append(resident_mb(life.process.pid))
            await asyncio.sleep(1.0)

    async def _lag(self, group: str, _: object) -> int:
        return sum(self._written) - sum((await self._broker.committed(group)).values())

    async def _is_committed(self, group: str, ends: Mapping[int, int]) -> bool:
        return await self._broker.committed(group) == ends

    async def _feed(self, source: str) -> None:
        """Write everything at the rate; what could not be written in time is made up for."""
        sources = [_endless(partition) for partition in range(PARTITIONS)]
        producer = AIOKafkaProducer(
            bootstrap_servers=self._broker.servers,
            enable_idempotence=True,
            compression_type="zstd",
            max_batch_size=500_000,
        )
        async with producer:
            since = time.monotonic()
            while min(self._written) < self._count:
                goal = min(self._count, int((time.monotonic() - since + _TICK) * self._rate))
                for partition, values in enumerate(sources):
                    await self._send(producer, source, partition, values, goal)
                await asyncio.sleep(_TICK)

    async def _send(
        self, producer: Any, topic: str, partition: int, values: Iterator[bytes], goal: int
    ) -> None:
        held = None
        while self._written[partition] < goal:
            batch = producer.create_batch()
            while self._written[partition] < goal:
                value = held or next(values)
                held = value
                if (
                    batch.append(key=None, value=value, timestamp=timestamp_of(self._written[partition]))
                    is None
                ):
                    break
                held = None
                self._written[partition] += 1
            batch.close()
            await producer.send_batch(batch, topic, partition=partition)


def _endless(partition: int) -> Iterator[bytes]:
    """The DDL, then rows for ever."""
    rng = random.Random(partition)
    yield from partition_values(rng, partition, 1, _IDS)
    keys = range(partition, _IDS, PARTITIONS)
    numbers = dict.fromkeys(keys, 0)
    offset = 1
    while True:
        key = rng.choice(keys)
        yield row_message(key, numbers[key], offset)
        numbers[key] += 1
        offset += 1


async def _problem(work: Any) -> list[str]:
    try:
        await work
    except RunFailed as error:
        return [str(error)]
    return []
