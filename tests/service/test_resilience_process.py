"""The relay as a process: what it does when its log, its time or the brokers' answers are taken away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from servers_support import talking
from service.resilience_support import MODES, Echo, check_complete, numbered
from service.test_process import all_committed, inserts

pytestmark = pytest.mark.kafka

COMMAND = (sys.executable, "-m", "relay", "run", "--config")
#: A relay whose translator does not come back.
STUCK = """\
import sys, time
from pathlib import Path
from relay.config.wiring import translator_of
from relay.config import load_config
from relay.service.app import run_service

config = load_config(Path(sys.argv[1]))
delivery = config.delivery.model_copy(update={"stall_timeout_seconds": 2.0})
config = config.model_copy(update={"delivery": delivery})
translator = translator_of(config)
translator.translate = lambda record: time.sleep(60)
sys.exit(run_service(config, translator=translator))
"""


class Ended(NamedTuple):
    """How a process has ended, and how long after the last signal, in seconds."""

    status: int | None
    events: list[dict[str, Any]]
    errors: str
    took: float


@pytest.fixture
def write_config(make_config: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Write a configuration; gives it and the path of its file."""

    def write(name: str, *topics: str, **settings: Any) -> tuple[Any, Path]:
        config = make_config(*topics, **settings)
        tables = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        path = tmp_path / f"{name}.toml"
        lines = []
        for table, keys in tables.items():
            lines += [
                f"[{table}]",
                *(f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None),
            ]
        path.write_text("\n".join(lines))
        return config, path

    return write


async def start(*command: str | Path, stdout: Any = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *map(str, command), stdout=stdout, stderr=asyncio.subprocess.PIPE
    )


async def ended(
    process: asyncio.subprocess.Process, began: float, events: list[dict[str, Any]] | None = None
) -> Ended:
    async with asyncio.timeout(60):
        out, errors = await process.communicate()
    found = [*(events or []), *map(json.loads, (out or b"").splitlines())]
    return Ended(process.returncode, found, errors.decode(), time.monotonic() - began)


async def until_event(process: asyncio.subprocess.Process, name: str) -> list[dict[str, Any]]:
    """Read the log up to an event."""
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while not found or found[-1]["event"] != name:
            found.append(json.loads(await process.stdout.readline()))
    return found


@pytest.mark.parametrize("days", [1, -1])
async def test_a_wall_clock_that_jumps_changes_nothing(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """In both modes; the third keeps its progress as records of its own, which have the time of their
    writing.
    """
    real, jump = time.time, 0.0
    monkeypatch.setattr("time.time", lambda: real() + jump)
    other_address = kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    between_two = {
        **MODES["exactly-once"],
        "target_bootstrap_servers": other_address,
        "delivery_progress_topic": f"p-{days}",
    }
    relays = []
    for settings in (*MODES.values(), between_two):
        source, target = await kafka.topic(2), await kafka.topic(2)
        relays.append(run_relay(make_config(source, target, **settings), Echo(target)))
    for done in (0, 100, 200):
        for relay in relays:
            await kafka.produce(relay.config.source.topics[0], numbered(100, start=done))
        for relay in relays:
            await kafka.until(
                lambda relay=relay, done=done: holds(kafka, relay.config.target.topic, done + 100)
            )
        jump = days * 86_400.0
    for relay in relays:
        assert await relay.stop() == 0
        check_complete(await kafka.read(relay.config.target.topic, committed=True), 300, once=True)
        assert {each["level"] for each in relay.log.events if each["event"] != "kafka.client"} == {"info"}


async def holds(kafka: Any, topic: str, count: int) -> bool:
    return len(await kafka.read(topic, committed=True)) >= count


async def test_a_log_that_nobody_takes_stops_nothing(kafka: Any, write_config: Any) -> None:
    """A full disk; a reader that has gone. The exit status is as it should be, too."""

    async def relayed(name: str) -> None:
        source, target = await kafka.topic(4), await kafka.topic(4)
        config, path = write_config(name, source, target)
        await kafka.produce(source, inserts(1_000))
        stdout = os.open("/dev/full", os.O_WRONLY) if name == "full" else asyncio.subprocess.PIPE
        process = await start(*COMMAND, path, stdout=stdout)
        if name == "full":
            os.close(stdout)
        if name == "gone":
            await until_event(process, "relay.starting")
            process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # no public name
        await kafka.until(lambda: all_committed(kafka, config.source.group_id, 1_000))
        process.terminate()
        assert process.stderr is not None
        assert (await process.stderr.read(), await process.wait()) == (b"", 0)
        assert len(await kafka.read(target)) == 1_000

    await asyncio.gather(relayed("full"), relayed("gone"))


async def test_a_stop_is_heard_while_nobody_answers(write_config: Any) -> None:
    """The broker takes connections and says nothing. A second signal changes nothing."""

    async def stopped(address: str, name: str, signals: list[int]) -> Ended:
        _, path = write_config(name, "a", "b", source_bootstrap_servers=address)
        process = await start(*COMMAND, path)
        events = await until_event(process, "relay.starting")
        await asyncio.sleep(0.5)
        began = time.monotonic()
        for number in signals:
            process.send_signal(number)
            await asyncio.sleep(0.1)
        return await ended(process, began, events)

    async with talking(None) as address:
        both = await asyncio.gather(
            stopped(address, "once", [signal.SIGTERM]),
            stopped(address, "thrice", [signal.SIGINT, signal.SIGTERM, signal.SIGTERM]),
        )
    for found in both:
        assert (found.status, found.errors) == (0, "")
        assert [each["event"] for each in found.events] == ["relay.starting", "relay.stopped"]
        assert found.took < 5.0


async def test_signals_again_and_again_end_a_busy_relay_once(kafka: Any, write_config: Any) -> None:
    source, target = await kafka.topic(4), await kafka.topic(4)
    config, path = write_config(
        "busy", source, target, delivery_mode="exactly-once", source_max_partition_fetch_bytes=20_000
    )
    await kafka.produce(source, inserts(20_000))
    process = await start(*COMMAND, path)
    events = await until_event(process, "partitions.opened")
    began = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        for _ in range(20):
            # Not by the process object, which would take the exit status away from asyncio.
            os.kill(process.pid, signal.SIGTERM)
            await asyncio.sleep(0.005)
    found = await ended(process, began, events)
    assert (found.status, found.errors) == (0, "")
    assert [each["event"] for each in found.events][-2:] == ["relay.stopping", "relay.stopped"]
    assert found.took < config.delivery.drain_timeout_seconds
    written = len(await kafka.read(target, committed=True))
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, written))


async def test_a_loop_that_is_stuck_ends_the_process(kafka: Any, write_config: Any, tmp_path: Path) -> None:
    source, target = await kafka.topic(4), await kafka.topic(4)
    _, path = write_config("stuck", source, target)
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    process = await start(sys.executable, script, path)
    events = await until_event(process, "partitions.opened")
    await kafka.produce(source, inserts(4))
    found = await ended(process, time.monotonic(), events)
    assert found.status == 3
    (stalled,) = [each for each in found.events if each["event"] == "relay.stalled"]
    assert (stalled["level"], stalled["code"]) == ("error", "service.stalled")
    assert found.took < 5.0
    # Where it was stuck, and no row's value.
    assert "stuck.py" in found.errors
    assert "orders" not in found.errors
