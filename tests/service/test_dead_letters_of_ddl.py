"""DDL that was refused and is replayed: it comes to each partition that should have it, once, whatever the
conventions of both sides; on a real Apache Kafka, by the command line.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import ALL_ROUTES, CANAL, OPEN, TICDC, captured
from typer.testing import CliRunner, Result

from relay import ConsumerRecord, Translator
from relay.cli.commands import app
from relay.config import load_config
from relay.core.dead_letters import dead_letter, read_dead_letter
from relay.model.errors import Malformed
from relay.model.events import SchemaChange
from relay.model.records import SOURCE_HEADER

pytestmark = pytest.mark.kafka

DEBEZIUM = "ticdc-debezium"
PARTITIONS = 3
EVERY = range(PARTITIONS)
MODES = ["at-least-once", "exactly-once"]
CONFIG = """
[route]
from = "{source}"
to = "{target}"
[source]
bootstrap_servers = "{servers}"
topics = ["{topic}"]
group_id = "g-{topic}"
[target]
topic = "{written}"
partitions = {spread}
[errors]
decode = "dead-letter"
dead_letter_topic = "dead-{topic}"
max_initial_failures = 0
[delivery]
mode = "{mode}"
commit_interval_seconds = 0.2
"""
#: A source and a target, over how many partitions the target is spread, how many dead letters a statement makes,
#: and the partitions that get it.
ROUTES: list[tuple[str, str, int, int, Sequence[int]]] = [
    (TICDC, OPEN, 0, 1, EVERY),
    (TICDC, OPEN, 2, 1, range(2)),
    (TICDC, CANAL, 0, 1, range(1)),
    (OPEN, CANAL, 0, PARTITIONS, range(1)),
    (OPEN, TICDC, 5, PARTITIONS, range(1)),
    (OPEN, DEBEZIUM, 0, PARTITIONS, EVERY),
    (OPEN, DEBEZIUM, 2, PARTITIONS, range(2)),
]
#: Every statement is longer, so each is refused.
REFUSING = "[limits]\nddl_bytes = 1\n"


class Route:
    """A route whose limit for DDL may be raised, its topics, and the replay of its dead letters."""

    def __init__(self, kafka: Any, folder: Path, names: dict[str, Any]) -> None:
        self.kafka, self._names = kafka, names
        self.topic, self.written, self.dead = names["topic"], names["written"], f"dead-{names['topic']}"
        self.path = folder / "relay.toml"
        self.refuse_ddl(refuse=True)

    def refuse_ddl(self, *, refuse: bool) -> None:
        self.path.write_text(CONFIG.format(**self._names) + (REFUSING if refuse else ""))

    async def replay(self, *more: str) -> Result:
        arguments = ["dead-letters", "replay", "--config", str(self.path), *more]
        return await asyncio.to_thread(CliRunner().invoke, app, arguments)

    async def statements(self) -> dict[int, int]:
        """How many statements each partition of the target holds, repeats among them."""
        target = self._names["target"]
        found = await self.kafka.read(self.written, committed=True)
        return dict(sorted(Counter(one.partition for one in found if is_ddl(target, one)).items()))

    async def marks(self) -> list[bytes | None]:
        target = self._names["target"]
        found = await self.kafka.read(self.written, committed=True)
        return [dict(one.headers)[SOURCE_HEADER] for one in found if is_ddl(target, one)]


async def made(
    kafka: Any, folder: Path, source: str, target: str, spread: int = 0, mode: str = MODES[0]
) -> Route:
    names = {
        "source": source,
        "target": target,
        "servers": kafka.bootstrap_servers,
        "topic": await kafka.topic(PARTITIONS),
        "written": await kafka.topic(max(PARTITIONS, spread)),
        "spread": spread,
        "mode": mode,
    }
    return Route(kafka, folder, names)


def capture(protocol: str) -> list[ConsumerRecord]:
    records = captured(f"ticdc/{protocol.removeprefix('ticdc-')}.3-partitions/10_ddl")
    return [msgspec.structs.replace(record, timestamp_ms=record.timestamp_ms or 1) for record in records]


def is_ddl(protocol: str, one: ConsumerRecord) -> bool:
    return any(isinstance(event, SchemaChange) for event in Translator(protocol, protocol).inspect(one))


async def _all_committed(kafka: Any, group: str, count: int) -> bool:
    return bool(sum((await kafka.committed(group)).values()) >= count)


async def relayed(route: Route, run_relay: Any, records: Sequence[ConsumerRecord]) -> None:
    await route.kafka.produce(route.topic, records)
    relay = run_relay(load_config(route.path), None)
    await route.kafka.until(lambda: _all_committed(route.kafka, f"g-{route.topic}", len(records)))
    assert await relay.stop() == 0


@pytest.mark.parametrize(
    ("source", "target", "spread", "letters", "at", "mode"),
    [
        (*route, mode)
        for number, route in enumerate(ROUTES)
        for mode in (MODES if ALL_ROUTES else [MODES[number % 2]])
    ],
)
async def test_each_partition_gets_what_was_refused_once(  # noqa: PLR0913, PLR0917 - a route and what comes of it
    kafka: Any,
    run_relay: Any,
    tmp_path: Path,
    source: str,
    target: str,
    spread: int,
    letters: int,
    at: Sequence[int],
    mode: str,
) -> None:
    """The modes take turns: which partitions get a statement has nothing to do with how it is delivered.
    `make routes` has each route in both.
    """
    records = capture(source)
    count = sum(one.partition == 0 and is_ddl(source, one) for one in records)
    route = await made(kafka, tmp_path, source, target, spread, mode)
    await relayed(route, run_relay, records)
    assert await route.statements() == {}
    found = [read_dead_letter(one) for one in await kafka.read(route.dead, committed=True)]
    assert len(found) == count * letters
    assert {one.code for one in found if one} == {"decode.limit-exceeded"}

    again = await route.replay()
    assert again.exit_code == 2
    assert f"failed again and kept: {count * letters}" in again.stderr
    assert await route.statements() == {}

    route.refuse_ddl(refuse=False)
    dry = await route.replay("--dry-run")
    assert f"records to write: {count * len(at)}," in dry.stderr
    for _ in range(2):
        assert (await route.replay()).exit_code == 0
        assert await route.statements() == dict.fromkeys(at, count)
    marks = await route.marks()
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize("target", [TICDC, DEBEZIUM])
async def test_copies_that_the_target_has_are_not_written_again(
    kafka: Any, run_relay: Any, tmp_path: Path, target: str
) -> None:
    """One copy of a statement was damaged: it alone is replayed, into its own partition, or not at all."""
    route = await made(kafka, tmp_path, OPEN, target)
    route.refuse_ddl(refuse=False)
    records = capture(OPEN)
    lost = next(one for one in records if one.partition == 2 and is_ddl(OPEN, one))
    await relayed(route, run_relay, [one for one in records if one is not lost])
    before = await route.statements()
    letter = dead_letter(msgspec.structs.replace(lost, topic=route.topic), Malformed(OPEN, "", "x"), "", ())
    at = ConsumerRecord(route.dead, 0, 0, letter.timestamp_ms, letter.key, letter.value, letter.headers)
    await kafka.produce(route.dead, [at])

    assert (await route.replay()).exit_code == 0
    added = {2: 1} if target == DEBEZIUM else {}
    assert Counter(await route.statements()) - Counter(before) == added


async def test_what_is_replayed_in_parts_is_written_once(kafka: Any, run_relay: Any, tmp_path: Path) -> None:
    """The copies of partitions 1 and 2 stand for nothing where the target has a statement once."""
    route = await made(kafka, tmp_path, OPEN, CANAL)
    records = capture(OPEN)
    count = sum(one.partition == 0 and is_ddl(OPEN, one) for one in records)
    await relayed(route, run_relay, records)
    route.refuse_ddl(refuse=False)
    for partition in (2, 1, 0):
        result = await route.replay("--partition", str(partition))
        written = count if partition == 0 else 0
        assert f"dead letters replayed: {count}, records written: {written}," in result.stderr
    assert await route.statements() == {0: count}


@pytest.mark.parametrize("spread", [0, 2])
async def test_a_source_topic_that_is_gone_ends_the_replay(
    kafka: Any, run_relay: Any, tmp_path: Path, spread: int
) -> None:
    """Its partitions say where the copies go."""
    route = await made(kafka, tmp_path, TICDC, OPEN, spread)
    records = [one for one in capture(TICDC) if is_ddl(TICDC, one)]
    await relayed(route, run_relay, records)
    route.refuse_ddl(refuse=False)
    await kafka.admin.delete_topics([route.topic])
    result = await route.replay()
    assert result.exit_code == 3
    assert f"topic {route.topic} at {kafka.bootstrap_servers} does not exist" in result.stderr
    assert "determines where watermarks and copies of DDL go" in result.stderr
    assert await route.statements() == {}
