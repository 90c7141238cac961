"""`relay run --processes N` on a real Kafka: assignment, common status, and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from secured_support import clusters_of
from service.conftest import ListLog
from service.resilience_support import ask
from service.test_process import (
    PARTITIONS,
    all_committed,
    finished,
    has_logged,
    holds,
    id_of,
    inserts,
    relay_process,
)

from relay.demo.kafka import free_ports
from relay.model.records import ConsumerRecord
from relay.service.check.route import preflight
from relay.service.processes import supervisor
from relay.service.processes.supervisor import supervise_until

pytestmark = pytest.mark.kafka

COUNT = 4_000


class Running:
    """A supervisor and its two processes."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process, self._port = process, port

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await ask(self._port, "/status"))[1])
        return found

    async def is_ready(self) -> bool:
        if self.process.returncode is not None:
            raise AssertionError((await self.process.communicate())[0].decode()[-3000:])
        return await is_ready(self._port)

    async def shares(self) -> list[int]:
        """How many partitions each process has."""
        found = (await self.status())["processes"].values()
        return [each.get("partitions", 0) for each in found]

    async def has_equal_shares(self) -> bool:
        return await self.is_ready() and await self.shares() == [2, 2]

    async def metrics(self) -> dict[tuple[str, str], float]:
        """The samples by name and by what stands in their last label; each must be there once."""
        text = (await ask(self._port, "/metrics"))[1]
        lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(lines) == len(set(lines))
        return {
            (sample.name, " ".join(sample.labels.values())): sample.value
            for family in parse_text(text)
            for sample in family.samples
        }

    async def pids(self) -> list[int]:
        return [each["pid"] for each in (await self.status())["processes"].values()]


async def is_ready(port: int) -> bool:
    with contextlib.suppress(OSError):
        return (await ask(port, "/readyz"))[0] == 200
    return False


Start = Callable[[Any], Any]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a relay in two processes; what still runs is killed after the test."""
    running: list[Running] = []

    async def started(config: Any) -> Running:
        (port,) = free_ports(1)
        flags = ("--processes", "2", "--set", f"http.port={port}")
        running.append(Running(await relay_process(tmp_path, config, *flags), port))
        return running[-1]

    yield started
    for each in running:
        if each.process.returncode is None:
            each.process.kill()
            await each.process.communicate()


def ids(records: list[ConsumerRecord]) -> list[int]:
    return sorted(id_of(record) for record in records)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def are_gone(pids: list[int]) -> bool:
    return not any(map(is_there, pids))


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_they_share_the_partitions_and_are_seen_as_one(
    kafka: Any, make_config: Any, start: Start, mode: str
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(source, target, delivery_mode=mode)
    await kafka.produce(source, inserts(COUNT))
    relay = await start(config)
    await kafka.until(relay.has_equal_shares)
    await kafka.produce(source, inserts(COUNT, COUNT))
    await kafka.until(lambda: has_read(relay, source, 2 * COUNT))
    await kafka.until(lambda: has_committed(relay, 2 * COUNT))

    metrics = await relay.metrics()
    assert metrics["relay_records_produced_total", target] == 2 * COUNT
    assert metrics["relay_events_total", "row-change insert"] == 2 * COUNT
    assert metrics["relay_assigned_partitions", source] == PARTITIONS
    assert metrics["relay_consumer_lag_records", source] == 0
    assert [metrics["relay_process_running", number] for number in "01"] == [1, 1]
    status = await relay.status()
    readers = {each["partition"]: each["process"] for each in status["partitions"]}
    if mode == "exactly-once":
        assert readers == {0: 0, 1: 1, 2: 0, 3: 1}
    assert sorted(readers.values()) == [0, 0, 1, 1]
    assert sum(each["records"]["written"] for each in status["processes"].values()) == 2 * COUNT

    relay.process.send_signal(signal.SIGTERM)
    exit_status, events = await finished(relay.process)
    assert exit_status == 0
    assert events[-1]["event"] == "relay.stopped"
    assert (events[-1]["records_read"], events[-1]["records_written"]) == (2 * COUNT, 2 * COUNT)
    opened = {each["process"] for each in events if each["event"] == "partitions.opened"}
    assert opened == {0, 1}
    assert {each.get("process") for each in events if each["event"] == "relay.stopped"} == {None, 0, 1}
    # A rebalance at the start repeats nothing: what was read before it was committed.
    assert ids(await kafka.read(target, committed=mode == "exactly-once")) == list(range(2 * COUNT))


async def has_read(relay: Running, source: str, count: int) -> bool:
    return (await relay.metrics())["relay_records_consumed_total", source] == count


async def has_committed(relay: Running, count: int) -> bool:
    return sum(each["committed"] or 0 for each in (await relay.status())["partitions"]) >= count


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_if_one_is_killed_all_end_and_nothing_is_lost(
    kafka: Any, make_config: Any, start: Start, mode: str
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(source, target, delivery_mode=mode)
    relay = await start(config)
    await kafka.until(relay.has_equal_shares)
    pids = await relay.pids()
    await kafka.produce(source, inserts(COUNT))
    await kafka.until(lambda: holds(kafka, target, 1))
    os.kill(pids[1], signal.SIGKILL)
    exit_status, events = await finished(relay.process)
    assert exit_status == 128 + signal.SIGKILL
    ended = {each["process"]: each["status"] for each in events if each["event"] == "process.ended"}
    assert ended == {0: 0, 1: 128 + signal.SIGKILL}
    assert await are_gone(pids)

    again = await start(config)
    # The first one may have committed everything before it ended.
    await has_logged(again.process, "relay.starting")
    await kafka.until(lambda: all_committed_in(kafka, config, COUNT))
    again.process.terminate()
    assert (await finished(again.process))[0] == 0
    found = ids(await kafka.read(target, committed=mode == "exactly-once"))
    assert sorted(set(found)) == list(range(COUNT))
    if mode == "exactly-once":
        assert len(found) == COUNT


async def all_committed_in(kafka: Any, config: Any, count: int) -> bool:
    if config.delivery.mode == "at-least-once":
        return await all_committed(kafka, config.source.group_id, count)
    return bool(sum((await kafka.committed(config.source.group_id)).values()) >= count)


async def test_the_error_of_one_ends_all_with_its_status(kafka: Any, make_config: Any, start: Start) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    relay = await start(make_config(source, target))
    await kafka.until(relay.has_equal_shares)
    pids = await relay.pids()
    await kafka.produce(source, [ConsumerRecord("", 3, 0, 0, None, b"poison")])
    exit_status, events = await finished(relay.process)
    assert exit_status == 2
    refused, *others = [each for each in events if each["event"] == "record.refused"]
    ended = {each["process"]: each["status"] for each in events if each["event"] == "process.ended"}
    # On a busy machine the other one may be given the partition before it is asked to stop.
    assert ended == {refused["process"]: 2, 1 - refused["process"]: 2 * len(others)}
    assert await are_gone(pids)


async def test_they_stop_by_themselves_if_their_supervisor_is_killed(
    kafka: Any, make_config: Any, start: Start
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(source, target)
    relay = await start(config)
    await kafka.until(relay.has_equal_shares)
    pids = await relay.pids()
    await kafka.produce(source, inserts(COUNT))
    await kafka.until(lambda: holds(kafka, target, 1))
    relay.process.kill()
    out, _ = await relay.process.communicate()
    await kafka.until(lambda: are_gone(pids))
    events = [json.loads(line) for line in out.splitlines()]
    assert {each["process"] for each in events if each["event"] == "supervisor.lost"} == {0, 1}
    # They have ended as if they were asked to.
    written = len(await kafka.read(target))
    assert sum((await kafka.committed(config.source.group_id)).values()) == written


async def test_a_signal_while_they_start_ends_them_well(kafka: Any, make_config: Any, start: Start) -> None:
    config = make_config(await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS))
    relay = await start(config)
    await has_logged(relay.process, "process.started")
    relay.process.send_signal(signal.SIGINT)
    exit_status, events = await finished(relay.process)
    assert exit_status == 0
    assert events[-1]["event"] == "relay.stopped"


class Supervised:
    """A supervisor in this process, with processes of its own."""

    def __init__(self, config: Any, **times: float) -> None:
        self.log, self._stop = ListLog(), asyncio.Event()
        self._task = asyncio.create_task(supervise_until(self._stop, config, self.log, **times))

    async def ended(self) -> int:
        async with asyncio.timeout(60):
            return await self._task

    async def stop(self) -> int:
        self._stop.set()
        return await self.ended()

    async def has_logged(self, event: str) -> bool:
        assert not self._task.done()
        return bool(self.log.named(event))


async def test_processes_without_partitions_are_reported(kafka: Any, make_config: Any) -> None:
    config = make_config(await kafka.topic(1), await kafka.topic(1), delivery_processes=2)
    relay = Supervised(config, idle_seconds=0.5)
    await kafka.until(lambda: relay.has_logged("processes.idle"))
    assert await relay.stop() == 0
    (idle,) = relay.log.named("processes.idle")
    assert idle["processes"] in (["0"], ["1"])


async def test_a_process_that_does_not_stop_in_time_is_killed(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = supervisor.Process.stop
    monkeypatch.setattr(supervisor.Process, "stop", lambda self: stop(self) if self.number else None)
    (port,) = free_ports(1)
    config = make_config(
        await kafka.topic(2),
        await kafka.topic(2),
        delivery_processes=2,
        delivery_drain_timeout_seconds=3,
        http_port=port,
    )
    relay = Supervised(config, disconnect_seconds=2)
    await kafka.until(lambda: is_ready(port))
    assert await relay.stop() == 128 + signal.SIGKILL
    pids = {each["process"]: str(each["pid"]) for each in relay.log.named("process.started")}
    assert [each["pids"] for each in relay.log.named("processes.killed")] == [[pids[0]]]


async def test_a_start_that_fails_ends_all(make_config: Any) -> None:
    (port,) = free_ports(1)
    config = make_config("a", "b", delivery_processes=2)
    nobody = config.source.model_copy(update={"bootstrap_servers": f"127.0.0.1:{port}"})
    relay = Supervised(config.model_copy(update={"source": nobody}))
    assert await relay.ended() == 3
    # Whether the other one has failed by itself by then is a matter of moments.
    assert 3 in [each["status"] for each in relay.log.named("process.ended")]
    assert len(relay.log.named("process.ended")) == 2


async def test_an_address_that_is_taken_starts_nothing(make_config: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        relay = Supervised(make_config("a", "b", delivery_processes=2, http_port=taken.getsockname()[1]))
        assert await relay.ended() == 3
    assert [each["event"] for each in relay.log.events] == ["relay.starting", "relay.failed"]
    assert relay.log.events[-1]["code"] == "service.address-unavailable"


async def test_a_process_that_cannot_be_started_is_an_error_of_the_environment(
    make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    relay = Supervised(make_config("a", "b", delivery_processes=2))
    assert await relay.ended() == 3
    assert relay.log.events[-1]["message"] == "process 0 cannot be started: No such file or directory"


async def test_a_check_of_the_brokers_counts_partitions_and_tries_every_transactional_id(
    kafka: Any, make_config: Any
) -> None:
    config = make_config(await kafka.topic(1), await kafka.topic(1), delivery_processes=2)
    notes = {each.subject: each.text for each in await preflight(config, clusters_of(config))}
    assert notes["processes"].startswith("1 of 2 will be idle, as the source topics have 1 partition")
    once = make_config(
        await kafka.topic(3),
        await kafka.topic(3),
        delivery_processes=2,
        delivery_mode="exactly-once",
        delivery_shards=2,
        delivery_shard=1,
    )
    notes = {each.subject: each.text for each in await preflight(once, clusters_of(once))}
    # Shards 1 and 3 of 4, of which the second would read partition 3.
    assert notes["processes"].startswith("1 of 2 will be idle")
    group = once.source.group_id
    assert {f"target transactional id {group}-1", f"target transactional id {group}-3"} <= notes.keys()
