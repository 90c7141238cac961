"""Table rules on the command line and in a running relay, on a real Apache Kafka."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli.kafka_support import Route
from column_rules_support import customer_message, story
from table_rules_support import row, rule, statement, story_of_shards
from typer.testing import Result

from relay import ConfigError, ConsumerRecord, EncodeError, Translator
from relay.config import load_config
from relay.io.logs import Log
from relay.io.record_lines import format_record
from relay.service.app import run_until

Run = Callable[..., Result]
ROUTE = ("translate", "--from", "canal-json", "--to", "canal-json", "--quiet")


def lines(*records: ConsumerRecord) -> bytes:
    return b"".join(format_record(each, each.offset) for each in records)


def test_translate_renames_tables(relay: Run) -> None:
    data = lines(statement("CREATE TABLE orders (id int)"), row("orders", 1), row("lines", 2))
    rules = ("--table", r"shop\.orders -> archive.sales", "--table", r"shop\.(.*) -> archive.{1}")
    result = relay(*ROUTE, *rules, input=data)
    assert result.exit_code == 0, result.stderr
    found = [json.loads(json.loads(line)["value"]) for line in result.stdout.splitlines()]
    assert [(each["database"], each["table"], each["sql"]) for each in found] == [
        ("archive", "sales", "CREATE TABLE `sales` (id int)"),
        ("archive", "sales", ""),
        ("archive", "lines", ""),
    ]


def test_wrong_rules_are_named(relay: Run) -> None:
    result = relay(*ROUTE, "--table", "shop.orders", "--table", "orders -> a.b", input=b"")
    assert result.exit_code == 2
    assert "--table: 'shop.orders': is not a rule (write FROM -> TO" in result.stderr
    assert "--table, rule 1, from: 'orders' is not of the form" in result.stderr


def configured(tmp_path: Path, tables: str) -> Path:
    path = tmp_path / "relay.toml"
    path.write_text(
        f'[route]\nfrom = "canal-json"\nto = "canal-json"\n{tables}'
        '[source]\nbootstrap_servers = "b:1"\ntopics = ["t"]\ngroup_id = "g"\n[target]\ntopic = "u"\n',
        encoding="utf-8",
    )
    return path


def test_rules_of_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "[[route.tables]]\nfrom = 'shop\\.(.*)'\nto = 'archive.{1}'\n"
    config = load_config(configured(tmp_path, rules))
    assert config.route.table_rules == [rule(r"shop\.(.*)", "archive.{1}")]
    with pytest.raises(ConfigError) as caught:
        load_config(configured(tmp_path, "[[route.tables]]\nfrom = 'shop'\nto = 'archive'\n"))
    assert [problem.path for problem in caught.value.problems] == ["route.tables.0.from"]
    monkeypatch.setenv("RELAY_ROUTE__TABLES", "[{from = 'a.b', to = 'c.d'}]")
    assert load_config(configured(tmp_path, "")).route.table_rules == [rule("a.b", "c.d")]
    monkeypatch.setenv("RELAY_ROUTE__TABLES", "a.b")
    with pytest.raises(ConfigError, match="is not a TOML list"):
        load_config(configured(tmp_path, ""))


# ---------------------------------------------------------------- a running relay

RULES = "[[route.tables]]\nfrom = 'shop(_\\d+)?\\.(?P<name>.*)'\nto = 'crm.{name}_all'\n"
PARSED = rule(r"shop(_\d+)?\.(?P<name>.*)", "crm.{name}_all")


@pytest.fixture
async def route(kafka: Any, relay: Run, tmp_path: Path) -> Route:
    made = await Route.made(kafka, relay, tmp_path)
    text = made.config.read_text(encoding="utf-8")
    made.config.write_text(text.replace("[source]\n", f"{RULES}[source]\n"), encoding="utf-8")
    return made


def numbered(route: Route, records: list[ConsumerRecord], first: int = 0) -> list[ConsumerRecord]:
    return [
        msgspec.structs.replace(each, topic=route.source, offset=first + at)
        for at, each in enumerate(records)
    ]


async def run_over(route: Route, records: list[ConsumerRecord], written: int, dead: int = 0) -> str:
    """Run relay until so many records and dead letters are written, and return its log."""
    await route.kafka.produce(route.source, records)
    stop, logged = asyncio.Event(), io.StringIO()
    running = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))

    async def is_done() -> bool:
        lengths = [await route.kafka.length(topic) for topic in (route.target, route.dead)]
        return running.done() or (lengths[0] >= written and lengths[1] >= dead)

    await route.kafka.until(is_done)
    assert not running.done(), logged.getvalue()
    stop.set()
    assert await running == 0
    return logged.getvalue()


@pytest.mark.kafka
async def test_a_restarted_relay_renames_tables_like_the_translator(route: Route) -> None:
    records = numbered(route, story())
    await run_over(route, records[:5], written=5)
    await run_over(route, records[5:], written=10)
    translator = Translator("ticdc-canal-json", "canal-json", topic=route.target, tables=[PARSED])
    wanted = [out for each in records for out in translator.translate(each)]
    written = await route.kafka.read(route.target)
    assert [(each.key, each.value) for each in written] == [(each.key, each.value) for each in wanted]
    assert all(b'"table":"customers_all"' in (each.value or b"") for each in written)
    explained = await route.run("explain", f"{route.source}/0/1")
    assert "shop.customers -> crm.customers_all" in explained.stdout
    as_json = await route.run("explain", f"{route.source}/0/1", "--json")
    found = json.loads(as_json.stdout)
    assert found["renamed"] == [{"table": "shop.customers", "target": "crm.customers_all"}]
    assert b"".join((each.value or b"") for each in await route.kafka.read(route.history)).count(b"_all") == 0


@pytest.mark.kafka
async def test_a_second_table_with_a_name_is_a_dead_letter_and_then_refused_at_the_start(
    route: Route,
) -> None:
    create = json.loads(story()[0].value or b"null")["sql"]
    others = [
        customer_message("CREATE", 20, sql=create, database="shop_2"),
        customer_message("INSERT", 21, database="shop_2"),
    ]
    await run_over(route, numbered(route, [*story()[:2], *others]), written=2, dead=2)
    dead = await route.kafka.read(route.dead)
    assert [b'"shop_2"' in (each.value or b"") for each in dead] == [True, True]
    logged = io.StringIO()
    status = await asyncio.wait_for(
        run_until(asyncio.Event(), load_config(route.config), Log(logged)), timeout=60
    )
    assert status == 2, logged.getvalue()
    assert "shop.customers and shop_2.customers would have the same name" in logged.getvalue()


# ---------------------------------------------------------------- shards

SHARDS = """[[route.tables]]
from = 'shop_(\\d)\\.orders'
to = "shop.orders"
merge = true
ddl = "first"
add = { shop = "{1}" }
"""


@pytest.mark.kafka
async def test_a_restarted_relay_merges_shards_like_the_translator(
    kafka: Any, relay: Run, tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    text = route.config.read_text(encoding="utf-8")
    route.config.write_text(text.replace("[source]\n", f"{SHARDS}[source]\n"), encoding="utf-8")
    records = numbered(route, story_of_shards())
    config = load_config(route.config)
    translator = Translator(
        "ticdc-canal-json", "canal-json", topic=route.target, tables=config.route.table_rules
    )
    wanted, refused, counts = [], [], []
    for each in records:
        try:
            wanted += translator.translate(each)
        except EncodeError:
            refused.append(each.value)
            translator.learn(each)
        counts.append((len(wanted), len(refused)))
    assert len(refused) == 1
    for first, end in ((0, 5), (5, 12), (12, len(records))):
        written, dead = counts[end - 1]
        await run_over(route, records[first:end], written, dead)
    written_records = await kafka.read(route.target)
    assert [(each.key, each.value) for each in written_records] == [(each.key, each.value) for each in wanted]
    assert len(await kafka.read(route.dead)) == 1
    checked = await route.run("check", "--connect")
    assert "shop.orders: 1 shard" in checked.stdout
