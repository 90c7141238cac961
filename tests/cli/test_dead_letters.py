"""`relay dead-letters` on a real Apache Kafka, with captured records and garbage."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli.kafka_support import Route, is_ddl, is_row
from typer.testing import Result

from relay import Translator
from relay.config import load_config
from relay.core.dead_letters import dead_letter, read_marker, replay_claim
from relay.io.logs import Log
from relay.model.errors import ClaimCheckMissing, Malformed, NotRepresentable, RelayError
from relay.model.events import TableId
from relay.model.records import SOURCE_HEADER, ConsumerRecord
from relay.service.app import run_until
from relay.service.commands.replay_claim import ClaimTimes, only_replay

pytestmark = pytest.mark.kafka

STRICT = NotRepresentable("canal-json", "", "the route would lose: commit-ts")
GARBAGE = Malformed("ticdc-canal-json", "", "not valid JSON")
ORDERS = (TableId("dml_db", "accounts"),)
SECRET = b"\xff a row's value \x9b"


@pytest.fixture
async def route(kafka: Any, relay: Callable[..., Result], tmp_path: Path) -> Route:
    return await Route.made(kafka, relay, tmp_path)


async def bury(
    route: Route,
    records: Iterable[ConsumerRecord],
    error: RelayError = STRICT,
    tables: Sequence[TableId] = (),
    partitions: int = 1,
    *,
    names_route: bool = True,
) -> None:
    """Write records to the dead-letter topic, as dead letters of this route or of a relay that did not name
    its route.
    """
    name = own_name(route) if names_route else ""
    letters = [dead_letter(record, error, route.dead, tables, partitions, route=name) for record in records]
    await route.kafka.produce(
        route.dead,
        [ConsumerRecord(e.topic, e.partition, 0, e.timestamp_ms, e.key, e.value, e.headers) for e in letters],
    )


def own_name(route: Route) -> str:
    return load_config(route.config).route_name


def garbage(route: Route, *offsets: int, timestamp_ms: int = 1_700_000_000_000) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(
            route.source, 0, offset, timestamp_ms + offset, b"k", SECRET, (("h", b"\xfe"), ("h", None))
        )
        for offset in offsets
    ]


def rows_of(route: Route, count: int) -> list[ConsumerRecord]:
    return [each for each in route.records() if is_row(each)][:count]


def listed(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


async def offsets(route: Route, *arguments: str) -> list[int]:
    """Source offsets of the dead letters that `list` gives."""
    return [
        each["source"]["offset"]
        for each in listed(await route.run("dead-letters", "list", "--json", *arguments))
    ]


async def test_list_shows_where_and_why_and_no_values(route: Route) -> None:
    await bury(route, garbage(route, 8, 3), GARBAGE)
    await bury(route, garbage(route, 5), STRICT, ORDERS)
    result = await route.run("dead-letters", "list")
    assert result.exit_code == 0
    assert "row's value" not in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if route.source in line]
    assert [(row[0], row[1]) for row in rows] == [
        ("0/1", f"{route.source}/0/3"),
        ("0/2", f"{route.source}/0/5"),
        ("0/0", f"{route.source}/0/8"),
    ], "newest last"
    assert "decode.malformed" in rows[0]
    assert {"dml_db.accounts", "commit-ts"} <= set(rows[1])
    assert f"dead letters in {route.dead}: 3, shown: 3" in result.stderr

    (first, *_) = listed(await route.run("dead-letters", "list", "--json"))
    assert first == {
        "position": {"topic": route.dead, "partition": 0, "offset": 1},
        "source": {"topic": route.source, "partition": 0, "offset": 3},
        "route": own_name(route),
        "timestamp": 1_700_000_000_003,
        "code": "decode.malformed",
        "protocol": "ticdc-canal-json",
        "path": "",
        "detail": "not valid JSON",
        "tables": [],
        "replayed": None,
        "has_payload": True,
    }


async def test_list_can_be_narrowed(route: Route) -> None:
    await bury(route, garbage(route, 1, 2, 3), GARBAGE)
    await bury(route, garbage(route, 4, 5), STRICT, ORDERS)
    await bury(
        route,
        garbage(route, 6, timestamp_ms=int(time.time() * 1000) - 60_000),
        ClaimCheckMissing("there is no object x"),
    )
    assert await offsets(route, "--code", "decode") == [1, 2, 3]
    assert await offsets(route, "--code", "encode.not-representable", "--code", "service") == [4, 5, 6]
    assert await offsets(route, "--include-table", "dml_db.*", "--include-table", "x.y") == [4, 5]
    assert await offsets(route, "--offset", "2") == [2]
    assert await offsets(route, "--partition", "1") == []
    assert await offsets(route, "--topic", "other") == []
    assert await offsets(route, "--limit", "2") == [5, 6]
    assert await offsets(route, "--since", "2h") == [6]
    assert await offsets(route, "--until", "2h", "--limit", "1") == [5]
    assert await offsets(
        route, "--since", "2023-11-14T23:13:20.002+01:00", "--until", "2023-11-14T22:13:20.004Z"
    ) == [2, 3]


@pytest.mark.parametrize("partitions", [1, 3])
async def test_records_that_are_no_dead_letters_are_passed_over(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path, partitions: int
) -> None:
    route = await Route.made(kafka, relay, tmp_path, partitions)
    result = await route.run("dead-letters", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"dead letters in {route.dead}: 0" in result.stderr
    await kafka.produce(route.dead, [ConsumerRecord("", partitions - 1, 0, 5, None, b"something else")])
    result = await route.run("dead-letters", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "records that are not dead letters: 1" in result.stderr


async def test_show_gives_one_dead_letter_with_its_record(route: Route) -> None:
    await bury(route, garbage(route, 3), GARBAGE, ORDERS)
    result = await route.run("dead-letters", "show", "0/0")
    assert result.exit_code == 0, result.stderr
    where = f"{route.source}/0/3"
    for text in (
        where,
        own_name(route),
        "decode.malformed",
        "not valid JSON",
        "dml_db.accounts",
        "h  X'FE'",
        "h  NULL",
    ):
        assert text in result.stdout
    record = json.loads(result.stdout.splitlines()[-1])
    assert (record["topic"], record["offset"], record["key"]) == (route.source, 3, "k")
    assert record["value"] == {"base64": "/yBhIHJvdydzIHZhbHVlIJs="}
    assert record["headers"] == [["h", {"base64": "/g=="}], ["h", None]]
    (as_json,) = listed(await route.run("dead-letters", "show", f"{route.dead}/0/0", "--json"))
    assert as_json["record"] == record
    assert as_json["tables"] == [{"database": "dml_db", "table": "accounts"}]


async def test_show_escapes_what_steers_a_terminal(route: Route) -> None:
    await bury(route, [ConsumerRecord(route.source, 0, 0, 0, None, "a\x9b31mb\x7f\x1b".encode())], GARBAGE)
    result = await route.run("dead-letters", "show", "0/0")
    assert not set(result.stdout) & set("\x9b\x7f\x1b")
    assert json.loads(result.stdout.splitlines()[-1])["value"] == "a\x9b31mb\x7f\x1b"


@pytest.mark.parametrize("position", ["0/1", "7/0", "0", "x/y", "other/0/0", ""])
async def test_show_says_that_there_is_no_such_dead_letter(route: Route, position: str) -> None:
    await bury(route, garbage(route, 3), GARBAGE)
    result = await route.run("dead-letters", "show", position)
    assert result.exit_code == 2
    assert "POSITION: " in result.stderr


async def test_an_export_is_read_by_the_other_commands(
    route: Route, relay: Callable[..., Result], tmp_path: Path
) -> None:
    rows = route.records()[:20]
    await bury(route, reversed(rows))
    await bury(route, rows[-1:])
    exported = tmp_path / "out.jsonl"
    result = await route.run("dead-letters", "list", "--export", exported)
    assert (result.exit_code, result.stdout) == (0, "")
    found = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [each["offset"] for each in found] == list(range(20)), "each once, in the order of the source"
    translated = relay("translate", "--from", "ticdc-canal-json", "--to", "canal-json", exported)
    expected = [out.value for out in outputs(Translator("ticdc-canal-json", "canal-json"), rows)]
    assert [json.loads(line)["value"].encode() for line in translated.stdout.splitlines()] == expected


def outputs(translator: Translator, records: Iterable[ConsumerRecord]) -> list[Any]:
    return [out for record in records for out in translator.translate(record)]


def contents(records: Iterable[Any]) -> list[Any]:
    return [(each.partition, each.timestamp_ms, each.key, each.value, each.headers) for each in records]


async def test_a_replay_writes_what_the_relay_would_have_written(route: Route) -> None:
    """With the definitions that the history knows: only then the types of the rows are whole."""
    ddl: list[ConsumerRecord] = []
    rows: list[ConsumerRecord] = []
    for each in route.records():
        (ddl if is_ddl(each) else rows).append(
            msgspec.structs.replace(each, headers=(("h", None), ("h", b"1")))
        )
    await route.remember(ddl)
    await bury(route, rows)
    translator = Translator("ticdc-canal-json", "canal-json", topic=route.target)
    for each in ddl:
        translator.learn(each)
    expected = outputs(translator, rows)
    assert b"varchar(30)" in (expected[0].value or b"") or any(
        b"varchar(30)" in (out.value or b"") for out in expected
    )

    dry = await route.run("dead-letters", "replay", "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert f"dead letters that can be replayed: {len(rows)}, records to write: {len(expected)}" in dry.stderr
    assert await route.kafka.length(route.target) == 0

    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0, result.stderr
    assert f"dead letters replayed: {len(rows)}, records written: {len(expected)}" in result.stderr
    assert "after newer ones of the same key" in result.stderr
    assert contents(await route.kafka.read(route.target)) == contents(expected)


async def test_replayed_dead_letters_are_marked_and_do_not_come_again(route: Route) -> None:
    rows = route.records()[:10]
    await bury(route, rows)
    assert (await route.run("dead-letters", "replay", "--limit", "4")).exit_code == 0
    assert await offsets(route) == [4, 5, 6, 7, 8, 9]
    shown = listed(await route.run("dead-letters", "list", "--json", "--all"))
    assert [each["replayed"] is not None for each in shown] == [True] * 4 + [False] * 6
    result = await route.run("dead-letters", "replay", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    written = await route.kafka.length(route.target)
    result = await route.run("dead-letters", "replay")
    assert (result.exit_code, "No dead letters to replay" in result.stderr) == (0, True)
    assert await route.kafka.length(route.target) == written
    assert "replayed: 10 (--all shows them)" in (await route.run("dead-letters", "list")).stderr

    assert (await route.run("dead-letters", "replay", "--all")).exit_code == 0
    assert await route.kafka.length(route.target) == 2 * written
    marks = [read_marker(each) for each in await route.kafka.read(route.dead)]
    assert [mark.offset for mark in marks if mark] == list(range(10)), "one marker per dead letter"


@pytest.mark.parametrize(("key", "limit"), [("max_records_per_second", 4), ("max_bytes_per_second", 1_500)])
async def test_a_replay_keeps_within_the_rate_limits(route: Route, key: str, limit: int) -> None:
    await bury(route, route.records()[:10])
    result = await route.run("dead-letters", "replay", "--set", f"source.{key}={limit}")
    assert result.exit_code == 0, result.stderr
    assert "dead letters replayed: 10" in result.stderr
    # Markers have the time of their chunk; without a limit there is one.
    marks = [each.timestamp_ms for each in await route.kafka.read(route.dead) if read_marker(each)]
    assert len(marks) == 10
    assert len(set(marks)) > 2


async def test_two_replays_at_once_write_nothing_twice(route: Route) -> None:
    await bury(route, route.records()[:10])
    command = [sys.executable, "-m", "relay", "dead-letters", "replay", "--config", str(route.config)]
    replays = [
        await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE) for _ in range(2)
    ]
    said = [(await replay.communicate())[1].decode() for replay in replays]
    assert sorted(replay.returncode or 0 for replay in replays) in ([0, 0], [0, 3]), said
    refused = [text for text, replay in zip(said, replays, strict=True) if replay.returncode]
    assert all("another replay of" in text for text in refused)
    written = await route.kafka.length(route.target)
    once = outputs(Translator("ticdc-canal-json", "canal-json", topic=route.target), route.records()[:10])
    assert written == len(once)
    result = await route.run("dead-letters", "replay")
    assert (result.exit_code, "No dead letters to replay" in result.stderr) == (0, True)


async def test_a_replay_takes_the_place_of_one_that_was_killed(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = functools.partial(only_replay, times=ClaimTimes(watch_seconds=2.0))
    monkeypatch.setattr("relay.cli.dead_letters.only_replay", hasty)
    rows = route.records()[:3]
    await bury(route, rows)
    claim = replay_claim(route.dead, "killed", 0, ends=False)
    now_ms = int(1000 * time.time())
    await route.kafka.produce(route.dead, [ConsumerRecord("", 0, 0, now_ms, None, None, claim.headers)])
    dry = await route.run("dead-letters", "replay", "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0, result.stderr
    assert f"another replay of {route.dead} has not ended: waiting up to 2 s" in result.stderr
    again = await route.run("dead-letters", "replay")
    assert (again.exit_code, "has not ended" in again.stderr) == (0, False)


async def test_what_fails_again_stays_and_is_listed(route: Route) -> None:
    rows = rows_of(route, 5)
    await bury(route, [*rows[:3], *garbage(route, 100), *rows[3:], *garbage(route, 200, 300)])
    for arguments in (["--dry-run"], []):
        result = await route.run("dead-letters", "replay", *arguments)
        assert result.exit_code == 2
        lines = result.stdout.splitlines()
        assert [line.split()[0] for line in lines] == [
            f"{route.source}/0/{offset}" for offset in (100, 200, 300)
        ]
        assert all("decode.malformed" in line and "row's value" not in line for line in lines)
    assert "failed again and kept: 3" in result.stderr
    assert await offsets(route) == [100, 200, 300]
    sources = [dict(each.headers)[SOURCE_HEADER] for each in await route.kafka.read(route.target)]
    assert sources == [f"{route.source}/0/{row.offset}/0".encode() for row in rows]


async def test_a_dead_letter_that_became_too_large_fails_alone(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    limit = 550
    route = await Route.made(kafka, relay, tmp_path, max_message_bytes=str(limit))
    rows = rows_of(route, 100)
    await bury(route, rows)
    made = outputs(Translator("ticdc-canal-json", "canal-json", topic=route.target), rows)
    # What is not the value of a record that stands in a batch alone takes about 110 bytes.
    small = [out.value for out in made if len(out.value) < limit - 200]
    large = [out.value for out in made if len(out.value) > limit - 80]
    assert small
    assert large
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 2
    assert "service.record-too-large" in result.stdout
    assert f"topic {route.target} accepts {limit}" in result.stdout
    found = [each.value for each in await kafka.read(route.target)]
    assert set(found) >= set(small)
    assert not set(found) & set(large)


async def test_a_record_that_became_a_dead_letter_twice_is_replayed_once(route: Route) -> None:
    """A relay that was killed before it had committed writes its dead letters again."""
    rows = rows_of(route, 2)
    await bury(route, [*rows, *rows])
    assert (await route.run("dead-letters", "replay")).exit_code == 0
    assert await route.kafka.length(route.target) == 2
    assert await offsets(route) == []


async def test_dead_letters_of_other_topics_are_left_alone(route: Route) -> None:
    mine, other = rows_of(route, 2)
    await bury(route, [mine, msgspec.structs.replace(other, topic="another")])
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0
    assert "dead letters of other topics (another), not replayed: 1" in result.stderr
    assert await route.kafka.length(route.target) == 1
    assert await offsets(route) == [other.offset]


async def test_routes_that_share_a_topic_replay_their_own_dead_letters(route: Route, tmp_path: Path) -> None:
    """Both read the same records: what one route replays says nothing about the other's target."""
    other = await route.beside(tmp_path)
    rows = rows_of(route, 3)
    await bury(other, rows[:2])
    await bury(route, rows)
    result = await route.run("dead-letters", "list")
    assert [own_name(each) in result.stdout for each in (route, other)] == [True, True]
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0, result.stderr
    assert (
        f"dead letters of other routes ({own_name(other)}), not replayed: 2; --route NAME takes"
        in result.stderr
    )
    assert [await route.kafka.length(each.target) for each in (route, other)] == [3, 0]
    assert await offsets(route, "--route", own_name(other)) == [row.offset for row in rows[:2]], "not marked"
    assert (await other.run("dead-letters", "replay")).exit_code == 0
    assert await route.kafka.length(other.target) == 2
    assert await offsets(route) == []


async def test_dead_letters_of_a_route_that_was_renamed_are_replayed_by_its_name(
    route: Route, tmp_path: Path
) -> None:
    before = await route.beside(tmp_path)
    rows = rows_of(route, 2)
    await bury(before, rows)
    await bury(route, rows)
    assert (await route.run("dead-letters", "replay", "--route", own_name(before))).exit_code == 0
    assert await route.kafka.length(route.target) == 2
    assert {each["route"] for each in listed(await route.run("dead-letters", "list", "--json"))} == {
        own_name(route)
    }


async def test_a_topic_of_another_format_stops_relay_and_is_replayed_when_from_is_corrected(
    route: Route,
) -> None:
    records = rows_of(route, 8)
    await route.kafka.produce(route.source, records)
    route.configure(source="ticdc-debezium", max_initial_failures=5)
    wrong, logged = own_name(route), io.StringIO()
    running = run_until(asyncio.Event(), load_config(route.config), Log(logged))
    assert await asyncio.wait_for(running, 60) == 2
    events = [json.loads(line) for line in logged.getvalue().splitlines()]
    (refused,) = [each for each in events if each["event"] == "record.refused"]
    assert (refused["offset"], refused["code"]) == (5, "too-many-failures")
    assert "Is `from`, ticdc-debezium, the protocol of these topics?" in refused["message"]
    (left_out,) = [each for each in events if each["event"] == "log.left-out"]
    assert (left_out["of"], left_out["lines"]) == ("record.dead-lettered", 4)
    assert await route.kafka.length(route.target) == 0
    route.configure()
    assert await offsets(route) == list(range(5))
    result = await route.run("dead-letters", "replay")
    assert (result.exit_code, await route.kafka.length(route.target)) == (0, 5), result.stderr
    assert (
        f"dead letters of this route before `from` was changed ({wrong}), replayed with ticdc-canal-json: 5"
        in result.stderr
    )
    assert await offsets(route) == []


async def test_dead_letters_of_relays_that_named_no_route_are_replayed_by_any(route: Route) -> None:
    rows = rows_of(route, 2)
    await bury(route, rows[:1], names_route=False)
    await bury(route, rows[1:])
    assert (await route.run("dead-letters", "replay")).exit_code == 0
    assert await route.kafka.length(route.target) == 2
    assert await offsets(route) == []


async def test_dead_letters_of_a_topic_that_was_made_anew_are_dead_letters_of_their_own(
    route: Route, tmp_path: Path
) -> None:
    """The new topic counts from 0 again: the same position, another record."""
    rows = [msgspec.structs.replace(row, offset=0) for row in rows_of(route, 2)]
    await bury(route, [rows[0], rows[1], rows[0]])
    exported = tmp_path / "out.jsonl"
    assert (await route.run("dead-letters", "list", "--export", exported)).exit_code == 0
    values = [json.loads(line)["value"].encode() for line in exported.read_text().splitlines()]
    assert values == [row.value for row in rows]
    result = await route.run("dead-letters", "replay")
    assert (result.exit_code, await offsets(route)) == (0, [])
    expected = outputs(Translator("ticdc-canal-json", "canal-json", topic=route.target), rows)
    assert contents(await route.kafka.read(route.target)) == contents(expected)


async def test_an_export_holds_a_record_once_however_many_routes_buried_it(
    route: Route, tmp_path: Path
) -> None:
    other = await route.beside(tmp_path)
    for each in (route, other):
        await bury(each, rows_of(route, 2))
    exported = tmp_path / "out.jsonl"
    assert (await route.run("dead-letters", "list", "--export", exported)).exit_code == 0
    assert len(exported.read_text().splitlines()) == 2


async def test_many_dead_letters_keep_the_order_of_their_partitions(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    """More than are written in one go, and in several partitions."""
    route = await Route.made(kafka, relay, tmp_path, partitions=3)
    row = rows_of(route, 1)[0]
    given = [msgspec.structs.replace(row, partition=number % 3, offset=number) for number in range(1_700)]
    await bury(route, given, partitions=3)
    result = await route.run("dead-letters", "replay", "--partition", "1")
    assert result.exit_code == 0, result.stderr
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0, result.stderr
    found = [dict(each.headers)[SOURCE_HEADER].decode() for each in await kafka.read(route.target)]
    assert found == [
        f"{route.source}/{partition}/{number}/0"
        for partition in range(3)
        for number in range(partition, 1_700, 3)
    ]
    assert await offsets(route) == []


async def test_what_is_wrong_is_said(route: Route) -> None:
    result = await route.run("dead-letters", "list", "--since", "yesterday", "--until", "31.1.2026")
    assert result.exit_code == 2
    assert "--since: 'yesterday' is neither a time nor a duration" in result.stderr
    assert "--until: '31.1.2026' is neither a time nor a duration" in result.stderr
    route.configure(dead="", policy="stop")
    result = await route.run("dead-letters", "list")
    assert (result.exit_code, "errors.dead_letter_topic: is not set" in result.stderr) == (2, True)
    route.configure(dead="is-not-there")
    for command in ("list", "replay"):
        result = await route.run("dead-letters", command)
        assert result.exit_code == 3
        assert "topic is-not-there " in result.stderr
        assert "does not exist" in result.stderr


async def test_replay_needs_the_target(route: Route) -> None:
    (row,) = rows_of(route, 1)
    route.target = "is-not-there"
    route.configure()
    await bury(route, [row])
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 3
    assert "topic is-not-there at" in result.stderr
    assert await offsets(route) == [row.offset]


async def ended_or(running: asyncio.Task[int], length: Awaitable[int], wanted: int) -> bool:
    return await length >= wanted or running.done()


async def test_what_the_relay_buried_can_be_replayed(route: Route) -> None:
    """From the source through the policy and the dead-letter topic to the target, in the relay's own hands."""
    records = route.records()[:40]
    bad = garbage(route, 40, timestamp_ms=records[-1].timestamp_ms)
    await route.kafka.produce(route.source, [*records, *bad])
    route.configure(to_options="{ strict = true }", max_initial_failures=0)
    stop = asyncio.Event()
    logged = io.StringIO()
    running = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))
    await route.kafka.until(lambda: ended_or(running, route.kafka.length(route.dead), len(records) + 1))
    assert not running.done(), logged.getvalue()
    stop.set()
    assert await running == 0

    everything = listed(await route.run("dead-letters", "list", "--json"))
    assert [each["source"]["offset"] for each in everything] == list(range(41))
    assert {each["route"] for each in everything} == {own_name(route)}
    assert {each["code"] for each in everything} == {"encode.not-representable", "decode.malformed"}
    assert {"database": "dml_db", "table": "accounts"} in everything[10]["tables"]
    route.configure()
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 2
    translator = Translator("ticdc-canal-json", "canal-json", topic=route.target)
    assert contents(await route.kafka.read(route.target)) == contents(outputs(translator, records))
    assert await offsets(route) == [40]
