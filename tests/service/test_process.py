"""`relay run` as a process of its own, with the real codecs: signals, crashes, exit statuses."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.model.records import SOURCE_HEADER, ConsumerRecord

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000
PARTITIONS = 4


def inserts(count: int, start: int = 0) -> list[ConsumerRecord]:
    """Rows of a table as TiCDC sends them, spread over the partitions."""
    found = []
    for i in range(start, start + count):
        message = {
            "id": 0,
            "database": "shop",
            "table": "orders",
            "pkNames": ["id"],
            "isDdl": False,
            "type": "INSERT",
            "es": NOW + i,
            "ts": NOW + i,
            "sql": "",
            "sqlType": {"id": 4, "note": 12},
            "mysqlType": {"id": "int", "note": "varchar"},
            "old": None,
            "data": [{"id": str(i), "note": "x" * 100}],
        }
        found.append(ConsumerRecord("", i % PARTITIONS, 0, NOW + i, None, json.dumps(message).encode()))
    return found


def id_of(record: ConsumerRecord) -> int:
    assert record.value is not None
    return int(json.loads(record.value)["data"][0]["id"])


def mark_of(record: ConsumerRecord) -> bytes | None:
    return dict(record.headers)[SOURCE_HEADER]


async def relay_process(folder: Path, config: Any, *flags: str) -> asyncio.subprocess.Process:
    path = folder / "relay.toml"
    options = "".join(f'"{name}" = "{value}"\n' for name, value in config.route.to_options.items())
    path.write_text(
        f"""
        [route]
        from = "{config.route.from_}"
        to = "{config.route.to}"
        [route.to_options]
        {options}
        [source]
        bootstrap_servers = "{config.source.bootstrap_servers}"
        topics = ["{config.source.topics[0]}"]
        group_id = "{config.source.group_id}"
        # A killed member is missed after this time.
        session_timeout_ms = 2000
        [target]
        topic = "{config.target.topic}"
        partitions = {config.target.partitions}
        [delivery]
        mode = "{config.delivery.mode}"
        commit_interval_seconds = 0.05
        """
    )
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "relay",
        "run",
        "--config",
        str(path),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def has_logged(process: asyncio.subprocess.Process, event: str) -> None:
    """Read its log up to an event. Before `relay.starting`, a signal kills the process."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while event.encode() not in (line := await process.stdout.readline()):
            assert line, "it has ended"


async def finished(process: asyncio.subprocess.Process) -> tuple[int, list[dict[str, Any]]]:
    """Wait for its end; gives the exit status and the events it logged."""
    async with asyncio.timeout(60):
        out, errors = await process.communicate()
    assert process.returncode is not None
    assert not errors.decode()
    return process.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
)
async def test_a_signal_drains_commits_and_ends(
    kafka: Any, make_config: Any, tmp_path: Path, number: signal.Signals
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(source, target)
    await kafka.produce(source, inserts(20_000))
    process = await relay_process(tmp_path, config)
    await kafka.until(lambda: holds(kafka, target, 1))
    process.send_signal(number)
    status, events = await finished(process)
    assert status == 0
    assert [each["event"] for each in events][-2:] == ["relay.stopping", "relay.stopped"]

    # What is committed is exactly what was written: nothing lost, nothing that a restart would repeat.
    found = await kafka.read(target)
    assert 0 < len(found) <= 20_000
    assert len({mark_of(record) for record in found}) == len(found)
    assert sum((await kafka.committed(config.source.group_id)).values()) == len(found)


async def holds(kafka: Any, topic: str, count: int) -> bool:
    return bool(await kafka.length(topic) >= count)


async def test_nothing_is_lost_when_it_is_killed(kafka: Any, make_config: Any, tmp_path: Path) -> None:
    count = 60_000
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    # Small answers, so that it is not through before somebody has looked.
    config = make_config(source, target, source_max_partition_fetch_bytes=20_000)
    await kafka.produce(source, inserts(count))
    seen = 0
    for _ in range(3):
        process = await relay_process(tmp_path, config)
        await kafka.until(lambda seen=seen: holds(kafka, target, seen + 2_000))
        process.kill()
        await process.communicate()
        seen = await kafka.length(target)
    assert not await all_committed(kafka, config.source.group_id, count), "killed too late to prove anything"

    process = await relay_process(tmp_path, config)
    await has_logged(process, "relay.starting")
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, count))
    process.terminate()
    assert (await finished(process))[0] == 0

    found = await kafka.read(target)
    first_seen: dict[bytes | None, ConsumerRecord] = {}
    for record in found:
        # A repeat has the mark and the bytes of the first.
        assert first_seen.setdefault(mark_of(record), record).value == record.value
    for partition in range(PARTITIONS):
        ids = [id_of(record) for record in first_seen.values() if record.partition == partition]
        assert ids == list(range(partition, count, PARTITIONS))
    assert len(found) > len(first_seen), "no repeats: the kills came at quiet moments"


async def all_committed(kafka: Any, group: str, count: int) -> bool:
    return bool(sum((await kafka.committed(group)).values()) == count)


async def test_a_wrong_configuration_ends_with_2(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text("[route]\nfrom = 'ticdc-canal'\n")
    for command in ("run", "check"):
        status, output, errors = await ended(command, "--config", str(path))
        assert status == 2
        assert "route.to: is missing" in output + errors


async def ended(*words: str) -> tuple[int | None, str, str]:
    """Run a command; give its exit status, its output and its errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "relay", *words, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("log", ["", "[log]\nformat = 'json'\n", "[log]\nformat = 'text'\n"])
async def test_a_log_of_json_holds_what_is_wrong_with_the_configuration(tmp_path: Path, log: str) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(f"[route]\nfrom = 'ticdc-canal'\n{log}")
    _, output, errors = await ended("run", "--config", str(path))
    if "text" in log:
        assert output == ""
        assert errors.startswith("error: ")
        return
    (line,) = output.splitlines()
    event = json.loads(line)
    assert (event["level"], event["event"], event["code"]) == ("error", "config.invalid", "config")
    assert any(each.startswith("route.to: is missing") for each in event["problems"])
    assert errors == ""
