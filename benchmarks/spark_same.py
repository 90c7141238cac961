"""Byte identity: the relay itself and the Spark job write the same topic, and both outputs are read and
compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from benchmarks.routes import relay_config
from benchmarks.spark_load import ROUTE

_BLOCK = 1000
_POLL_SECONDS = 1.0
_RUN_SECONDS = 1200
_STOP_SECONDS = 60


class RelayFailed(Exception):
    """The relay ended early, or did not get to the end of its source."""


def relay_all(servers: str, source: str, target: str, folder: Path) -> float:
    """Run the relay until it has committed the end of its source; gives the seconds. Raises RelayFailed."""
    config, log = folder / f"{target}.toml", folder / f"{target}.log"
    config.write_text(relay_config(ROUTE, servers, source, target))
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "relay", "run", "--config", str(config)], stdout=output, stderr=output
        )
    try:
        asyncio.run(_stopped_at_end(process, servers, source, target))
    except RelayFailed as error:
        raise RelayFailed(f"{error}: {log.read_text(errors='replace')[-2000:]}") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return time.monotonic() - began


async def _stopped_at_end(process: subprocess.Popen[bytes], servers: str, source: str, group: str) -> None:
    await _committed(process, servers, source, group)
    process.send_signal(signal.SIGTERM)
    if process.wait(_STOP_SECONDS):
        raise RelayFailed(f"ended with status {process.returncode}")


async def _committed(process: subprocess.Popen[bytes], servers: str, source: str, group: str) -> None:
    partition = TopicPartition(source, 0)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
            end = (await consumer.end_offsets([partition]))[partition]
        deadline = time.monotonic() + _RUN_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RelayFailed(f"ended with status {process.returncode}")
            # The first group of a new broker has no coordinator yet.
            with contextlib.suppress(KafkaError):
                found = await admin.list_consumer_group_offsets(group)
                if partition in found and found[partition].offset >= end:
                    return
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        await admin.close()
    raise RelayFailed(f"was not through after {_RUN_SECONDS} s")


class Contents(NamedTuple):
    """A partition, read from beginning to end: how many records, and a digest of every thousand of them, all
    but offsets.
    """

    records: int
    digests: tuple[str, ...]

    def difference(self, other: Contents) -> str:
        """What is not the same, in words; empty if nothing is."""
        if self == other:
            return ""
        for number, (own, given) in enumerate(zip(self.digests, other.digests, strict=False)):
            if own != given:
                first, last = number * _BLOCK, (number + 1) * _BLOCK - 1
                return f"records {first} to {last} differ ({self.records} and {other.records} in all)"
        return f"{self.records} and {other.records} records"


async def contents(servers: str, topic: str) -> Contents:
    """Read partition 0 of a topic: timestamps, keys, values and headers, in order."""
    partition, digests, count = TopicPartition(topic, 0), [], 0
    digest = hashlib.sha256()
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for record in (await consumer.getmany(partition, timeout_ms=500)).get(partition, ()):
                _add(digest, record)
                count += 1
                if count % _BLOCK == 0:
                    digests.append(digest.hexdigest())
    return Contents(count, (*digests, digest.hexdigest()))


def _add(digest: Any, record: Any) -> None:
    parts = [
        record.key,
        record.value,
        *(part for name, value in record.headers for part in (name.encode(), value)),
    ]
    digest.update(b"%d %d" % (record.timestamp, len(parts)))
    for part in parts:
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
