"""One run of one peer: started, followed until all is written, looked at, ended."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from benchmarks.kafka import RunFailed, cpu_seconds, peak_mb
from benchmarks.peers_check import WrongOutput, faults
from benchmarks.peers_load import PARTITIONS, prepare
from benchmarks.peers_programs import Contest, Environment, Program

_POLL_SECONDS: Final = 0.05
_SETTLE_SECONDS: Final = 1.0
_RUN_SECONDS: Final = 600
_LOOKED_AT: Final = 500


class PeerRun(msgspec.Struct, frozen=True):
    """What one process did after the warm-up: rows of the source a second, CPU seconds for 100 000 of them;
    the most memory of all its time; seconds from its start to its first message; bytes written for a row, not
    compressed; and what is not as it should be.
    """

    program: str
    messages_per_second: float
    cpu_seconds: float
    peak_mb: float
    start_seconds: float
    bytes_written: float
    faults: list[str]


class _Moment(NamedTuple):
    written: int
    seconds: float
    cpu: float


def run(contest: Contest, program: Program, env: Environment) -> PeerRun:
    """Let a program copy its source, once; the target topic is made and removed. Raises RunFailed."""
    asyncio.run(prepare(env.servers, env.target))
    command = program.command(env)
    log = env.folder / f"{env.target}.log"
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        return asyncio.run(_followed(contest, program, env, process, began))
    except (RunFailed, WrongOutput) as error:
        error.add_note(log.read_text(errors="replace")[-2000:])
        raise
    finally:
        process.kill()
        process.wait()
        asyncio.run(_delete(env))


async def _followed(
    contest: Contest,
    program: Program,
    env: Environment,
    process: subprocess.Popen[bytes],
    began: float,
) -> PeerRun:
    expected, source = program.outputs, program.source
    warm_at = expected * source.warm_up // source.messages
    partitions = [TopicPartition(env.target, number) for number in range(PARTITIONS)]
    async with AIOKafkaConsumer(bootstrap_servers=env.servers, enable_auto_commit=False) as consumer:
        first, warm, last = await _watched(consumer, partitions, process, warm_at, expected)
        peak = peak_mb(process.pid)
        await asyncio.sleep(_SETTLE_SECONDS)
        if (written := sum((await consumer.end_offsets(partitions)).values())) != expected:
            raise RunFailed(f"wrote {written} messages instead of {expected}")
        seen = await _records(consumer, partitions)
    counted = (last.written - warm.written) / expected * source.messages
    return PeerRun(
        program.name,
        counted / (last.seconds - warm.seconds),
        (last.cpu - warm.cpu) * 100_000 / counted,
        peak,
        first.seconds - began,
        _size(seen) / len(seen) * expected / source.messages,
        faults((record.value for record in seen), contest.wanted, ddl=bool(program.source.control)),
    )


async def _watched(
    consumer: AIOKafkaConsumer,
    partitions: Sequence[TopicPartition],
    process: subprocess.Popen[bytes],
    warm_at: int,
    expected: int,
) -> tuple[_Moment, _Moment, _Moment]:
    """Follow the target topic to its end: when it began, when the warm-up was over, when all was written."""
    first: _Moment | None = None
    warm: _Moment | None = None
    deadline = time.monotonic() + _RUN_SECONDS
    while True:
        written = sum((await consumer.end_offsets(partitions)).values())
        now = _Moment(written, time.perf_counter(), cpu_seconds(process.pid))
        if written and not first:
            first = now
        if written >= expected:
            break
        if written >= warm_at and not warm:
            warm = now
        if process.poll() is not None:
            of_all = f"{written} of {expected} messages"
            raise RunFailed(f"ended with status {process.returncode} after {of_all}")
        if time.monotonic() > deadline:
            raise RunFailed(f"wrote {written} of {expected} messages in {_RUN_SECONDS} s")
        await asyncio.sleep(_POLL_SECONDS)
    if not first or not warm:
        raise RunFailed("was through before the end of its warm-up was seen; ask for more messages")
    return first, warm, now


def _size(records: Sequence[ConsumerRecord[Any, Any]]) -> int:
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


async def _records(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> list[ConsumerRecord[Any, Any]]:
    """The first messages of each partition."""
    found: list[ConsumerRecord[Any, Any]] = []
    for partition in partitions:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found += (await consumer.getmany(timeout_ms=5_000, max_records=_LOOKED_AT)).get(partition, [])
    return found


async def _delete(env: Environment) -> None:
    """Remove the target topic, so that later runs have the disk as earlier ones had it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=env.servers)
    await admin.start()
    try:
        await admin.delete_topics([env.target])
    finally:
        await admin.close()
