"""From a topic to a file and back, on a real Kafka; and topics in place of files."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from cli.kafka_support import DML, Route
from service.topics_support import settings_of
from support import captured
from typer.testing import Result

from relay.cli.topics import TopicAddress, none_found
from relay.io.kafka.clients import Brokers
from relay.io.kafka.reading import Part, read_part
from relay.io.kafka.settings import ClusterSettings, Security
from relay.io.record_lines import parse_record
from relay.model.errors import BrokerUnavailable
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka
Relay = Callable[..., Result]
TIME = 1_795_000_000_000


async def call(relay: Relay, *arguments: str | Path) -> Result:
    """Call the command line beside the tests' event loop."""
    return await asyncio.to_thread(relay, *arguments)


def records_of(text: str) -> list[ConsumerRecord]:
    return [parse_record(line.encode()) for line in text.splitlines()]


def made(count: int, partitions: int) -> list[ConsumerRecord]:
    """Records with all that a record may have, a second apart, spread over partitions."""
    bodies: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b"v"),
        (None, b"\xff\x00"),
        (b"k", None),
        (b"", b""),
    ]
    return [
        ConsumerRecord(
            "t", number % partitions, number // partitions, TIME + 1_000 * number, *bodies[number % 4],
            (("h", b"\xff"), ("h", None)) if number % 3 else (),
        )
        for number in range(count)
    ]  # fmt: skip


async def test_a_topic_becomes_a_file_and_the_file_the_same_topic(
    kafka: Any, relay: Relay, tmp_path: Path
) -> None:
    source, copy, records = await kafka.topic(3), await kafka.topic(3), made(60, 3)
    await kafka.produce(source, records)
    path, where = tmp_path / "in.jsonl", ("--brokers", kafka.bootstrap_servers)
    result = await call(relay, "capture", *where, "--from-topic", source, "--all", "-o", path)
    assert result.exit_code == 0, result.stderr
    assert f"60 records of {source} captured in {path}" in result.stderr
    found = records_of(path.read_text())
    expected = [msgspec.structs.replace(each, topic=source) for each in records]
    assert sorted(found, key=lambda each: each.position) == sorted(expected, key=lambda each: each.position)
    result = await call(relay, "produce", path, *where, "--topic", copy)
    assert result.exit_code == 0, result.stderr
    assert f"60 records written to {copy}" in result.stderr
    again = [msgspec.structs.replace(each, topic=source) for each in await kafka.read(copy)]
    assert again == sorted(expected, key=lambda each: each.position)


async def test_parts_of_a_topic(kafka: Any, relay: Relay) -> None:
    topic = await kafka.topic(3)
    await kafka.produce(topic, made(60, 3))

    async def offsets(*arguments: str) -> list[int]:
        where = ("--brokers", kafka.bootstrap_servers, "--topic", topic)
        result = await call(relay, "capture", *where, *arguments)
        assert result.exit_code == 0, result.stderr
        return [(each.timestamp_ms - TIME) // 1_000 for each in records_of(result.stdout)]

    assert await offsets("--last", "7") == list(range(53, 60))
    assert await offsets() == list(range(60))
    assert sorted(await offsets("--since", "2026-11-18T11:07:30Z")) == list(range(50, 60))
    assert sorted(await offsets("--since", "2026-11-18T11:07:30Z", "--until", "2026-11-18T11:07:32Z")) == [
        50,
        51,
    ]
    assert await offsets("--partition", "1", "--offsets", "3..5") == [10, 13]
    assert sorted(await offsets("--offsets", "19..")) == [57, 58, 59]
    assert await offsets("--since", "2036-01-01") == []
    where = ("--brokers", kafka.bootstrap_servers, "--topic", topic)
    newest = f"topic {topic} has no such record; its newest is {topic}/2/19, of 2026-11-18 11:07:39.000 UTC"
    for command in (("capture",), ("inspect", "--from", "auto")):
        result = await call(relay, *command, *where[:2], "--from-topic", topic, "--since", "2036-01-01")
        assert newest in result.stderr
    result = await call(relay, "capture", *where, "--partition", "3")
    assert (result.exit_code, "has no partition 3; it has the partitions 0 to 2" in result.stderr) == (
        2,
        True,
    )
    result = await call(relay, "capture", *where[:2], "--topic", "is-not-there")
    assert (result.exit_code, "topic is-not-there does not exist" in result.stderr) == (3, True)


async def test_a_topic_without_such_a_record_says_what_it_has(
    kafka: Any, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await kafka.topic(2)

    async def said(*arguments: str) -> str:
        where = ("--brokers", kafka.bootstrap_servers, "--topic", topic)
        result = await call(relay, "capture", *where, *arguments)
        assert result.exit_code == 0, result.stderr
        return result.stderr

    for arguments in ((), ("--since", "2h"), ("--offsets", "3..")):
        assert f"topic {topic} has no record\n" in await said(*arguments)
    await kafka.produce(topic, [ConsumerRecord("t", 1, 0, TIME, None, b"x")])
    assert f"topic {topic} has no record in its partitions 0\n" in await said("--partition", "0")
    assert f"its newest is {topic}/1/0, of " in await said("--offsets", "3..")

    def fails(*_: Any, **__: Any) -> None:
        raise BrokerUnavailable("gone by now")

    located = TopicAddress(topic, *[cast("Any", None)] * 2)
    monkeypatch.setattr("relay.cli.topics.read", fails)
    assert none_found(located, Part(since_ms=1)) == f"topic {topic} has no such record"
    assert none_found(located, Part(last=9)) == f"topic {topic} has no record"
    assert none_found(located, Part(last=0, follow=True)) == f"no record of topic {topic} has come"

    def without_time(
        _: TopicAddress, __: Part, each: Callable[[ConsumerRecord], None], *, quiet: bool
    ) -> None:
        each(ConsumerRecord(topic, 1, 7, -1, None, b"x"))

    monkeypatch.setattr("relay.cli.topics.read", without_time)
    assert none_found(located, Part(since_ms=1)).endswith(f"its newest is {topic}/1/7")


async def test_a_time_that_goes_back_keeps_the_order_of_its_partition(kafka: Any, relay: Relay) -> None:
    topic = await kafka.topic(2)
    times = [(0, 5), (0, 1), (1, 3), (0, 6)]
    await kafka.produce(
        topic, [ConsumerRecord("t", partition, 0, TIME + at, None, b"x") for partition, at in times]
    )
    result = await call(relay, "capture", "-b", kafka.bootstrap_servers, "--topic", topic, "--last", "9")
    found = [(each.partition, each.timestamp_ms - TIME) for each in records_of(result.stdout)]
    assert found == [(1, 3), (0, 5), (0, 1), (0, 6)]


async def test_following_gives_what_comes(kafka: Any) -> None:
    topic, found = await kafka.topic(), list[bytes | None]()
    await kafka.produce(topic, [ConsumerRecord("t", 0, 0, TIME, None, b"before")])
    brokers = Brokers.from_settings(ClusterSettings(kafka.bootstrap_servers, Security(table="t")))
    part = Part(last=0, follow=True)
    reading = asyncio.create_task(read_part(brokers, topic, part, lambda each: found.append(each.value)))
    for number in range(200):
        await kafka.produce(topic, [ConsumerRecord("t", 0, 0, TIME, None, str(number).encode())])
        if found:
            break
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert found[0] != b"before"


async def test_produce_refuses_what_does_not_fit_and_writes_nothing(
    kafka: Any, relay: Relay, tmp_path: Path
) -> None:
    topic, path = await kafka.topic(max_message_bytes="1000"), tmp_path / "in.jsonl"
    lines: list[dict[str, Any]] = [
        {"partition": 0, "value": "ok"},
        {"partition": 4, "value": "x"},
        {"partition": 0, "value": "x" * 2_000},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    where = ("--brokers", kafka.bootstrap_servers)
    result = await call(relay, "produce", path, *where, "--topic", topic)
    assert result.exit_code == 2
    assert f"line 2 (stdin/4/0): is of a partition that {topic} does not have: it has 1" in result.stderr
    assert f"and {topic} accepts 1000" in result.stderr
    assert await kafka.read(topic) == []
    path.write_text(json.dumps(lines[0]) + "\n")
    result = await call(relay, "produce", path, *where, "--topic", topic, "--dry-run")
    assert (result.exit_code, f"1 record would be written to {topic}" in result.stderr) == (0, True)
    assert await kafka.read(topic) == []
    result = await call(relay, "produce", path, *where, "--topic", "is-not-there")
    assert (result.exit_code, "does not exist; create it first" in result.stderr) == (3, True)


async def test_produce_creates_a_topic_on_request(kafka: Any, relay: Relay, tmp_path: Path) -> None:
    topic, path = f"created-{uuid.uuid4().hex}", tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"partition": at, "value": "x"}) + "\n" for at in (0, 2)))
    produce = ("produce", path, "--brokers", kafka.bootstrap_servers, "--topic", topic, "--create")
    assert (await call(relay, *produce, "--dry-run")).exit_code == 0
    assert (await call(relay, *produce[:-1])).exit_code == 3
    for written in (2, 4):
        result = await call(relay, *produce)
        assert (result.exit_code, f"2 records written to {topic}" in result.stderr) == (0, True)
        assert len(await kafka.read(topic)) == written
    path.write_text(json.dumps({"partition": 2**31 - 1, "value": "x"}) + "\n")
    result = await call(relay, *produce[:-2], f"{topic}-2", "--create")
    assert (result.exit_code, "--create: there are records of partition 2147483647" in result.stderr) == (
        2,
        True,
    )


async def test_produce_warns_of_records_that_the_topic_deletes_soon(
    kafka: Any, relay: Relay, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    now_ms = int(time.time() * 1000)
    lines = [{"partition": 0, "value": "x", "timestamp": each} for each in (1_700_000_000_000, 0, now_ms)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    short = await kafka.topic(retention_ms="604800000")
    produce = ("produce", path, "--brokers", kafka.bootstrap_servers, "--topic")
    for more in (("--dry-run",), ()):
        result = await call(relay, *produce, short, *more)
        assert result.exit_code == 0
        assert f"{short} deletes records after 7 days, and 2 of them are older: " in result.stderr
    refusing = await kafka.topic(message_timestamp_before_max_ms="86400000")
    result = await call(relay, *produce, refusing, "--dry-run")
    assert f"{refusing} refuses records older than 1 day, and 2 of them are" in result.stderr
    for topic in (await kafka.topic(), await kafka.topic(cleanup_policy="compact")):
        assert "older" not in (await call(relay, *produce, topic, "--dry-run")).stderr
    created = f"created-{uuid.uuid4().hex}"
    result = await call(relay, *produce, created, "--create")
    assert (result.exit_code, "older" in result.stderr) == (0, False)
    assert (await settings_of(kafka, created))["retention.ms"] == "-1"


async def test_a_topic_in_place_of_a_file(kafka: Any, relay: Relay, tmp_path: Path) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    await kafka.produce(route.source, captured(DML))
    where = ("--from-topic", route.source, "--brokers", kafka.bootstrap_servers)
    result = await call(relay, "translate", "--from", "auto", "--to", "maxwell-json", *where)
    assert result.exit_code == 0, result.stderr
    assert "--from ticdc-canal-json: TiCDC Canal-JSON (member _tidb)" in result.stderr
    assert records_of(result.stdout)[0].topic == route.source
    result = await call(relay, "inspect", "--from", "auto", *where, "--last", "3", "--json")
    assert len(result.stdout.splitlines()) == 3
    result = await route.run("detect")
    assert (result.exit_code, f"topic {route.source}: 68 records examined" in result.stdout) == (0, True)
    result = await route.run("capture", "--last", "2")
    assert len(records_of(result.stdout)) == 2


async def test_check_reads_the_newest_messages(kafka: Any, relay: Relay, tmp_path: Path) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    subject = f"source messages of {route.source}"

    async def finding() -> str:
        result = await route.run("check", "--connect")
        return next(line for line in result.stdout.splitlines() if subject in line)

    assert await finding() == f"untested  {subject}: there is none yet, so the format is unknown"
    await kafka.produce(route.source, captured(DML))
    found = await finding()
    assert found == f"ok        {subject}: the newest 20 look like TiCDC Canal-JSON (member _tidb)"
    await kafka.produce(route.source, captured("ticdc/debezium.no-schema/09_dml")[:1])
    found = await finding()
    assert found.startswith(f"note      {subject}: 1 of the newest 20 cannot be read as ticdc-canal-json: ")
    assert found.endswith("is the source protocol ticdc-debezium?")
    await kafka.produce(route.source, captured("ticdc/debezium.no-schema/09_dml")[:20])
    assert (await finding()).startswith(f"FAILED    {subject}: 20 of the newest 20 cannot be read")
    await kafka.produce(route.source, captured("mysql/canal-json/09_dml")[:20])
    found = await finding()
    assert found.startswith(
        f"note      {subject}: the newest 20 can be read as ticdc-canal-json, and look like Canal-JSON"
    )
