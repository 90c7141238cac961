"""Column rules in a running relay, on a real Apache Kafka."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli.kafka_support import Route
from column_rules_support import CANARIES, KEY, bytes_of, canaries_in, rules, story
from typer.testing import Result

from relay import ConsumerRecord, Translator
from relay.config import load_config
from relay.io.logs import Log
from relay.service.app import run_until

pytestmark = pytest.mark.kafka

HASHED = (
    '[[route.columns]]\ntables = ["shop.*"]\ncolumns = ["email", "phone", "note", "born", "photo"]\n'
    'action = "hash"\nlength = 40\n'
)
MASKED = '[[route.columns]]\ntables = ["shop.*"]\ncolumns = ["photo"]\naction = "mask"\n'


@pytest.fixture
async def route(kafka: Any, relay: Callable[..., Result], tmp_path: Path) -> Route:
    return await Route.made(kafka, relay, tmp_path)


def configure(route: Route, columns: str) -> None:
    """Write the configuration with rules and the secret key."""
    route.configure()
    key = route.config.with_name("hash-key")
    key.write_bytes(KEY + b"\n")
    text = route.config.read_text(encoding="utf-8")
    rules = f'hash_key_file = "{key}"\n{columns}[source]\n'
    route.config.write_text(text.replace("[source]\n", rules), encoding="utf-8")


def source_story(route: Route) -> list[ConsumerRecord]:
    """The story, and a record that cannot be read; each with a header that another program has added."""
    garbage = ConsumerRecord("topic", 0, 0, 1_700_000_001_000, CANARIES[0].encode(), CANARIES[2].encode())
    return [
        msgspec.structs.replace(
            each, topic=route.source, offset=at, headers=(("note", CANARIES[2].encode()),)
        )
        for at, each in enumerate([*story(), garbage])
    ]


async def run_over(route: Route, records: list[ConsumerRecord], dead: int) -> str:
    """Run relay until it has written some dead letters and everything else, and return its log."""
    await route.kafka.produce(route.source, records)
    stop, logged = asyncio.Event(), io.StringIO()
    running = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))

    async def is_done() -> bool:
        return running.done() or await route.kafka.length(route.dead) >= dead

    await route.kafka.until(is_done)
    assert not running.done(), logged.getvalue()
    stop.set()
    assert await running == 0
    return logged.getvalue()


async def test_hidden_values_leave_a_running_relay_nowhere(route: Route) -> None:
    configure(route, HASHED)
    records = source_story(route)
    log = await run_over(route, records, dead=1)
    written, dead = await route.kafka.read(route.target), await route.kafka.read(route.dead)
    translator = Translator(
        "ticdc-canal-json", "canal-json", topic=route.target, columns=rules("hash"), hash_key=KEY
    )
    wanted = [out for each in records[:-1] for out in translator.translate(each)]
    assert [(each.key, each.value, each.headers) for each in written] == [
        (each.key, each.value, each.headers) for each in wanted
    ]
    history = await route.kafka.read(route.history)
    assert (len(dead), len(history)) == (1, 2)
    for data in (log.encode(), *map(bytes_of, (*written, *dead, *history))):
        assert canaries_in(data) == []
    explained = await route.run("explain", f"{route.source}/0/1")
    assert (explained.exit_code, canaries_in(explained.stdout.encode())) == (0, [])
    assert "--unmasked" in explained.stdout
    as_json = await route.run("explain", f"{route.source}/0/1", "--json")
    assert canaries_in(as_json.stdout.encode()) == []
    unmasked = await route.run("explain", f"{route.source}/0/1", "--unmasked")
    assert CANARIES[0] in unmasked.stdout


async def test_a_restarted_relay_writes_the_same(route: Route) -> None:
    configure(route, HASHED)
    records = source_story(route)
    garbage = records[-1]
    first = [*records[:5], msgspec.structs.replace(garbage, offset=5)]
    rest = [msgspec.structs.replace(each, offset=6 + at) for at, each in enumerate(records[5:])]
    await run_over(route, first, dead=1)
    checked = await route.run("check", "--connect")
    assert "shop.customers: email hash → varchar(40), phone hash" in " ".join(checked.stdout.split())
    shown = await route.run("schema-history", "show", "--table", "shop.customers")
    assert "varchar(200)" in shown.stdout
    await run_over(route, rest, dead=2)
    translator = Translator(
        "ticdc-canal-json", "canal-json", topic=route.target, columns=rules("hash"), hash_key=KEY
    )
    wanted = [out.value for each in (*first[:-1], *rest[:-1]) for out in translator.translate(each)]
    assert [each.value for each in await route.kafka.read(route.target)] == wanted
    await check_imports(route)


async def check_imports(route: Route) -> None:
    """Check that imported records and definitions have no hidden values in the history."""
    exported = await route.run("schema-history", "export")
    assert exported.stdout.count("statements of") == 2
    again = route.config.with_name("export.jsonl")
    again.write_text(exported.stdout, encoding="utf-8")
    imported = await route.run("schema-history", "import", str(again))
    assert "known already or not about tables: 2" in imported.stderr
    dump = route.config.with_name("dump.sql")
    dump.write_text(f"CREATE TABLE `customers` (`id` int, `email` text DEFAULT '{CANARIES[0]}');", "utf-8")
    imported = await route.run("schema-history", "import", "--sql", str(dump), "--database", "shop")
    assert imported.exit_code == 0, imported.stderr
    history = await route.kafka.read(route.history)
    assert len(history) == 3
    assert not any(canaries_in(bytes_of(each)) for each in history)


async def test_dead_letters_without_a_payload_are_replayed_from_the_source(route: Route) -> None:
    configure(route, MASKED)  # of bytes, which is refused
    records = source_story(route)[:-1]
    rows = [each for each in records if b'"isDdl":false' in (each.value or b"")]
    await run_over(route, records, dead=len(rows))
    dead = await route.kafka.read(route.dead)
    assert {(each.key, each.value) for each in dead} == {(None, None)}
    shown = await route.run("dead-letters", "show", "0/0")
    assert "without key, value and headers" in shown.stdout

    configure(route, HASHED)
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 0, result.stdout + result.stderr
    translator = Translator(
        "ticdc-canal-json", "canal-json", topic=route.target, columns=rules("hash"), hash_key=KEY
    )
    wanted = [out for each in records for out in translator.translate(each)]
    found = await route.kafka.read(route.target)
    assert {each.value for each in found} >= {
        each.value for each in wanted if b'"isDdl":false' in (each.value or b"")
    }


async def test_originals_that_are_gone_are_named(route: Route) -> None:
    configure(route, MASKED)
    records = source_story(route)[:2]
    await run_over(route, records, dead=1)
    await route.kafka.delete_before(route.source, 2)
    configure(route, HASHED)
    result = await route.run("dead-letters", "replay")
    assert result.exit_code == 2
    assert f"the original at {route.source}/0/1 is gone" in result.stderr
    exported = await route.run("dead-letters", "list", "--export", route.config.with_name("out.jsonl"))
    assert exported.exit_code == 2
    assert f"the original at {route.source}/0/1 is gone" in exported.stderr
    assert (await route.run("dead-letters", "list")).exit_code == 0
