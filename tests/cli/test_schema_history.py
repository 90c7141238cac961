"""`relay schema-history` on a real Apache Kafka, with captured records."""

from __future__ import annotations

import asyncio
import io
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from cli.kafka_support import Route, is_ddl
from secured_support import GROUP, PASSWORD, SECRETS, TOPIC, USER, Secured
from typer.testing import Result

from relay import Translator
from relay.config import load_config
from relay.io.kafka.requests import Operation
from relay.io.logs import Log
from relay.io.record_lines import format_record, parse_record
from relay.model.records import ConsumerRecord
from relay.service.app import run_until
from relay.service.loop.history import history_record, read_history

pytestmark = pytest.mark.kafka

DDL = "ticdc/canal-json.tidb-extension/10_ddl"
ACCOUNTS = {
    "id": "int",
    "name": "varchar(30)",
    "balance": "decimal(12,2)",
    "note": "text",
    "email": "varchar(50)",
}


@pytest.fixture
async def route(kafka: Any, relay: Callable[..., Result], tmp_path: Path) -> Route:
    return await Route.made(kafka, relay, tmp_path)


async def history(route: Route, command: str, *arguments: str | Path) -> Result:
    return await route.run("schema-history", command, *arguments)


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def changing(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Those that change the catalog."""
    translator, found = Translator("ticdc-canal-json", "canal-json"), list[ConsumerRecord]()
    for record in records:
        before = translator.catalog
        translator.learn(record)
        if translator.catalog is not before:
            found.append(record)
    return found


def file_of(folder: Path, records: list[ConsumerRecord], name: str = "in.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(format_record(record, record.offset) for record in records))
    return path


async def held(route: Route) -> list[ConsumerRecord]:
    """The source records that a relay would find in the history."""
    return await read_history(load_config(route.config))


@asynccontextmanager
async def running(route: Route) -> AsyncIterator[io.StringIO]:
    """A relay at work; gives its log."""
    stop, logged = asyncio.Event(), io.StringIO()
    task = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))

    async def opened() -> bool:
        assert not task.done(), logged.getvalue()
        return "partitions.opened" in logged.getvalue()

    try:
        await route.kafka.until(opened)
        yield logged
    finally:
        stop.set()
        assert await task == 0, logged.getvalue()


# ---------------------------------------------------------------- show


async def test_show_lists_tables_with_versions_columns_and_the_newest_statement(route: Route) -> None:
    records = route.records()
    await route.remember(changing(records))
    result = await history(route, "show")
    assert result.exit_code == 0
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["table", "versions", "columns", "newest", "statement", "changed"]
    assert [row.split()[:4] for row in rows] == [
        ["dml_db.accounts", "1", "5", f"{route.source}/0/1"],
        ["dml_db.ledger", "1", "4", f"{route.source}/0/3"],
        ["dml_db.log_nokey", "1", "2", f"{route.source}/0/4"],
    ]
    assert (
        f"schema history {route.history}: records: 3, tables: 3, records that this route cannot read: 0"
        in result.stderr
    )
    first, *_ = objects(await history(route, "show", "--json"))
    assert first == {
        "database": "dml_db",
        "table": "accounts",
        "state": "known",
        "versions": 1,
        "columns": 5,
        "primary_key": ["id"],
        "newest": {
            "commit_ts": 470615238942654465,
            "event_time_ns": 1795254665156000000,
            "topic": route.source,
            "partition": 0,
            "offset": 1,
        },
    }


async def test_show_gives_the_present_definition_of_a_table(route: Route) -> None:
    await route.remember(changing(route.records()))
    result = await history(route, "show", "--table", "dml_db.accounts", "--quiet")
    heading, *rows = result.stdout.splitlines()
    assert heading == (
        f"dml_db.accounts  since {route.source}/0/1 (commit ts 470615238942654465, 2026-11-21 09:51:05.156 UTC)"
    )
    types = dict(row.split()[:2] for row in rows if "key" not in row)
    assert types == ACCOUNTS
    assert "    primary key (id)" in rows
    assert result.stderr == ""
    (found,) = objects(await history(route, "show", "--table", "dml_db.accounts", "--json"))
    assert {column["name"]: column["type"] for column in found["definition"]["columns"]} == ACCOUNTS
    assert found["definition"]["primary_key"] == ["id"]


async def test_show_knows_what_is_gone(route: Route) -> None:
    await route.remember(changing(route.records(DDL)))
    found = objects(await history(route, "show", "--json"))
    gone = [each for each in found if each["state"] == "gone"]
    assert {each["state"] for each in found} == {"known", "gone"}
    assert max(each["versions"] for each in found) > 10
    assert all(each["columns"] is None for each in gone)
    name = f"{gone[0]['database']}.{gone[0]['table']}"
    result = await history(route, "show", "--table", name)
    assert "is gone: dropped or renamed" in result.stdout
    (one,) = objects(await history(route, "show", "--table", name, "--json"))
    assert one["definition"] is None


async def test_a_table_that_is_not_known_has_near_ones(route: Route) -> None:
    await route.remember(changing(route.records()))
    result = await history(route, "show", "--table", "dml_db.acounts")
    assert result.exit_code == 2
    assert "the history has no table 'dml_db.acounts'" in result.stderr
    assert "did you mean dml_db.accounts" in result.stderr


async def test_records_of_another_route_are_counted(route: Route) -> None:
    """As after a change of `from`; they stay, and can be exported."""
    await route.remember(changing(route.records()))
    route.config.write_text(route.config.read_text().replace("ticdc-canal-json", "ticdc-open-protocol"))
    result = await history(route, "show")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "records: 3, tables: 0, records that this route cannot read: 3" in result.stderr
    assert len((await history(route, "export")).stdout.splitlines()) == 3


@pytest.mark.parametrize("command", ["show", "export", "reset"])
async def test_an_empty_history(route: Route, command: str) -> None:
    result = await history(route, command)
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("command", ["show", "export", "reset"])
async def test_a_history_that_does_not_exist(route: Route, command: str) -> None:
    route.history = f"missing-{uuid.uuid4().hex}"
    route.configure()
    result = await history(route, command)
    assert result.exit_code == 3
    assert f"topic {route.history} does not exist" in result.stderr


@pytest.mark.parametrize("command", ["show", "export", "reset", "import"])
async def test_a_route_without_a_history(route: Route, command: str) -> None:
    route.history = ""
    route.configure()
    result = await history(route, command)
    assert result.exit_code == 2
    assert "schema.history_topic: is empty" in result.stderr


# ---------------------------------------------------------------- export


async def test_export_is_exact_and_can_be_read(
    route: Route, relay: Callable[..., Result], tmp_path: Path
) -> None:
    ddl = changing(route.records())
    given = [
        msgspec.structs.replace(each, key=b"\xff", headers=(("h", b"\xfe"), ("h", None))) for each in ddl
    ]
    await route.remember([*given, given[0]])  # a repeat, as after a crash
    printed = await history(route, "export")
    assert printed.exit_code == 0
    assert [parse_record(line.encode()) for line in printed.stdout.splitlines()] == given
    kept = await route.kafka.read(route.history)
    assert printed.stdout.encode() == b"".join(each.value for each in kept[:-1])
    path = tmp_path / "out.jsonl"
    result = await history(route, "export", "--output", path)
    assert path.read_text() == printed.stdout
    assert f"records of {route.history} written: 3" in result.stderr
    inspected = await asyncio.to_thread(relay, "inspect", "--from", "ticdc-canal-json", path)
    assert inspected.exit_code == 0
    assert "CREATE TABLE `accounts`" in inspected.stdout
    translated = await asyncio.to_thread(
        relay, "translate", "--from", "ticdc-canal-json", "--to", "canal-json", path
    )
    assert len(translated.stdout.splitlines()) == 3


# ---------------------------------------------------------------- repair


async def spoil(route: Route) -> None:
    """Write what is no entry: something of another program, and an entry of relay's that is damaged."""
    await route.kafka.produce(
        route.history,
        [
            ConsumerRecord("", 0, 0, 0, b"user-7", b"not an entry"),
            ConsumerRecord("", 0, 0, 0, f"{route.source}/0/99".encode(), b"damaged"),
        ],
    )


async def test_what_is_no_entry_is_named_and_taken_out(route: Route) -> None:
    records = changing(route.records())
    await route.remember(records)
    await spoil(route)
    shown = await history(route, "show")
    assert shown.exit_code == 0
    assert "dml_db.accounts" in shown.stdout
    assert f"{route.history}/0 at 3 is not a record of a schema history" in shown.stderr
    assert "relay did not write it" in shown.stderr
    assert f"{route.history}/0 at 4 is not a record of a schema history" in shown.stderr
    exported = await history(route, "export")
    assert exported.exit_code == 2
    assert len(exported.stdout.splitlines()) == len(records)

    asked = await history(route, "repair")
    assert asked.exit_code == 2
    assert "nothing was changed; add --yes to do it" in asked.stderr
    assert "import the definition of its table again" in asked.stderr
    repaired = await history(route, "repair", "--yes")
    assert repaired.exit_code == 0
    assert f"records removed from {route.history}: 2" in repaired.stderr
    assert (await history(route, "export")).exit_code == 0
    assert await held(route) == records
    again = await history(route, "repair")
    assert again.exit_code == 0
    assert "nothing to repair" in again.stderr


async def test_what_others_have_written_stops_no_relay(route: Route) -> None:
    await route.remember(changing(route.records()))
    await route.kafka.produce(route.history, [ConsumerRecord("", 0, 0, 0, b"user-7", b"not an entry")])
    async with running(route) as logged:
        pass
    assert "schemas.foreign-record" in logged.getvalue()


# ---------------------------------------------------------------- reset


async def test_reset_tells_what_follows_and_needs_yes(route: Route) -> None:
    await route.remember(changing(route.records()))
    before = await route.kafka.length(route.history)
    result = await history(route, "reset")
    assert result.exit_code == 2
    for text in (
        "has 3 records",
        "schema-inferred",
        "schema-history export",
        "Stop all instances",
        "no running instance was found",
        "--yes",
    ):
        assert text in result.stderr
    assert await route.kafka.length(route.history) == before


async def test_reset_takes_everything_out_and_import_puts_it_back(route: Route, tmp_path: Path) -> None:
    records = changing(route.records(DDL))
    await route.remember(records)
    path = tmp_path / "copy.jsonl"
    await history(route, "export", "--output", path)
    result = await history(route, "reset", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"records removed from {route.history}: {len(records)}" in result.stderr
    # At once, and not only when the broker has compacted the topic.
    assert await held(route) == []
    assert "records: 0, tables: 0" in (await history(route, "show")).stderr
    assert [(each.key, each.value) for each in await route.kafka.read(route.history)][len(records) :] == [
        (f"{each.topic}/{each.partition}/{each.offset}".encode(), None) for each in records
    ]
    assert "is empty" in (await history(route, "reset", "--yes")).stderr

    result = await history(route, "import", path)
    assert result.exit_code == 0, result.stderr
    assert (
        f"records read: {len(records)}, imported: {len(records)}, known already or not about tables: 0"
        in result.stderr
    )
    assert await held(route) == records


async def test_reset_waits_for_nobody_and_refuses_while_instances_run(route: Route) -> None:
    await route.remember(changing(route.records()))
    group = load_config(route.config).source.group_id
    servers = route.kafka.bootstrap_servers
    async with AIOKafkaConsumer(route.source, bootstrap_servers=servers, group_id=group):
        result_of_reset = await history(route, "reset")
        refused = await history(route, "reset", "--yes")
    assert f"group {group} has 1 active member" in result_of_reset.stderr
    assert refused.exit_code == 3
    assert "stop all instances first; nothing was changed" in refused.stderr
    assert len(await held(route)) == 3
    assert (await history(route, "reset", "--yes")).exit_code == 0
    assert await held(route) == []


async def test_reset_refuses_while_a_shard_has_an_open_transaction(route: Route) -> None:
    await route.remember(changing(route.records()))
    route.config.write_text(route.config.read_text() + '[delivery]\nmode = "exactly-once"\n')
    assert (
        "no running shard was found, but an idle one may go unnoticed"
        in (await history(route, "reset")).stderr
    )
    name, servers = load_config(route.config).transactional_id, route.kafka.bootstrap_servers
    shard = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
    async with shard, shard.transaction():
        await shard.send_and_wait(route.target, b"row")
        refused = await history(route, "reset", "--yes")
    assert refused.exit_code == 3
    assert f"{name} has an open transaction" in refused.stderr
    assert len(await held(route)) == 3


async def test_a_damaged_history_is_reported_and_can_be_reset(route: Route) -> None:
    await route.remember(changing(route.records()))
    await route.kafka.produce(route.history, [ConsumerRecord("", 0, 0, 5, b"orders/0/9", b"something else")])
    for command, status in (("show", 0), ("export", 2)):
        result = await history(route, command)
        assert result.exit_code == status
        assert f"{route.history}/0 at 3 is not a record of a schema history: not valid JSON" in result.stderr
        assert "something else" not in result.stderr
    assert (await history(route, "reset", "--yes")).exit_code == 0
    assert await held(route) == []


# ---------------------------------------------------------------- import


async def test_import_takes_what_is_about_tables(route: Route, tmp_path: Path) -> None:
    records = route.records()
    result = await history(route, "import", file_of(tmp_path, records))
    assert result.exit_code == 0, result.stderr
    assert (
        f"records read: {len(records)}, imported: 3, known already or not about tables: 65, unreadable: 0"
        in result.stderr
    )
    assert await held(route) == changing(records)
    kept = await route.kafka.read(route.history)
    assert [(each.key, each.value) for each in kept] == [
        (out.key, out.value) for out in (history_record(each, route.history) for each in changing(records))
    ]
    again = await history(route, "import", file_of(tmp_path, records))
    assert "imported: 0, known already or not about tables: 68" in again.stderr
    assert await route.kafka.length(route.history) == 3


async def test_import_creates_the_topic_of_a_relay_that_has_never_run(route: Route, tmp_path: Path) -> None:
    """Seeded with what was captured before, a relay that starts at the end knows the tables."""
    records = route.records()
    last = max(number for number, each in enumerate(records) if is_ddl(each))
    await route.kafka.produce(route.source, records[: last + 1])
    route.history = f"h-{uuid.uuid4().hex[:8]}"
    route.configure()
    route.config.write_text(route.config.read_text().replace('topics = ["', 'start = "latest"\ntopics = ["'))
    result = await history(route, "import", file_of(tmp_path, records[: last + 1]))
    assert result.exit_code == 0, result.stderr
    assert f"topic {route.history} was created" in result.stderr
    async with running(route):
        await route.kafka.produce(route.source, records[last + 1 :])
        written = await route.kafka.read(route.target, at_least=10)
    types = [
        json.loads(each.value)["mysqlType"]
        for each in written
        if json.loads(each.value)["table"] == "accounts"
    ]
    assert types
    assert all(each == ACCOUNTS for each in types)


async def test_a_relay_at_work_learns_what_is_imported(route: Route, tmp_path: Path) -> None:
    records = route.records()
    rows = [each for each in records if not is_ddl(each)]
    async with running(route):
        result = await history(route, "import", file_of(tmp_path, records))
        assert result.exit_code == 0, result.stderr

        async def knows() -> bool:
            """A row every now and then: the relay reads its history beside its source."""
            await route.kafka.produce(route.source, rows[-20:])
            written = await route.kafka.read(route.target, at_least=1)
            return any(json.loads(each.value)["mysqlType"] == ACCOUNTS for each in written)

        await route.kafka.until(knows)


async def test_unreadable_records_are_reported_and_the_rest_is_imported(route: Route, tmp_path: Path) -> None:
    records = route.records()
    garbage = msgspec.structs.replace(records[0], offset=900, value=b"a row's value")
    result = await history(route, "import", file_of(tmp_path, [garbage, *records]))
    assert result.exit_code == 2
    assert "in.jsonl line 1" in result.stderr
    assert f"{route.source}/0/900" in result.stderr
    assert "a row's value" not in result.stderr
    assert "imported: 3" in result.stderr
    assert "unreadable: 1" in result.stderr
    assert await held(route) == changing(records)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("no record", "not valid JSON"),
        ('{"id":0,"isDdl":true}', "missing required field"),
        ('{"topic":"t","partition":0,"value":"{}"}', "missing required field `offset`"),
        ('{"partition":0,"offset":3,"value":"{}"}', "missing required field `topic`"),
    ],
)
async def test_what_is_no_record_file_is_not_imported(
    route: Route, tmp_path: Path, line: str, text: str
) -> None:
    path = file_of(tmp_path, route.records())
    path.write_text(path.read_text() + line + "\n")
    result = await history(route, "import", path)
    assert result.exit_code == 2
    assert "in.jsonl line 69" in result.stderr
    assert text in result.stderr
    assert await held(route) == []


async def test_records_of_another_topic_of_the_same_name(route: Route, tmp_path: Path) -> None:
    """Its positions mean others: one would replace the other in the compacted topic."""
    first, second = changing(route.records())[:2]
    await route.remember([first])
    other = file_of(tmp_path, [msgspec.structs.replace(second, offset=first.offset)])
    result = await history(route, "import", other)
    assert result.exit_code == 2
    assert (
        f"in.jsonl line 1: the history has another record of {route.source}/0/{first.offset}" in result.stderr
    )
    assert "--topic" in result.stderr
    assert await held(route) == [first]
    result = await history(route, "import", other, "--topic", "elsewhere")
    assert result.exit_code == 0, result.stderr
    assert await held(route) == [
        first,
        msgspec.structs.replace(second, topic="elsewhere", offset=first.offset),
    ]
    assert "records: 2, tables: 2" in (await history(route, "show")).stderr


async def test_import_reads_a_pipe(route: Route, relay: Callable[..., Result]) -> None:
    lines = b"".join(format_record(each, each.offset) for each in route.records())
    result = await asyncio.to_thread(
        relay, "schema-history", "import", "-", "--config", route.config, input=lines
    )
    assert result.exit_code == 0, result.stderr
    assert len(await held(route)) == 3


async def test_many_records_are_written_in_order(route: Route, tmp_path: Path) -> None:
    create = route.records()[1]
    assert create.value is not None
    many = [
        msgspec.structs.replace(
            create, offset=number, value=create.value.replace(b"accounts", b"accounts%d" % number)
        )
        for number in range(1_200)
    ]
    result = await history(route, "import", file_of(tmp_path, many))
    assert "imported: 1200" in result.stderr
    assert await held(route) == many
    assert (await history(route, "reset", "--yes")).exit_code == 0
    assert await held(route) == []


async def test_a_record_that_the_topic_does_not_take(route: Route, tmp_path: Path) -> None:
    route.history = await route.kafka.topic(cleanup_policy="compact", max_message_bytes="500")
    route.configure()
    result = await history(route, "import", file_of(tmp_path, route.records()))
    assert result.exit_code == 3
    assert f"topic {route.history} accepts 500: raise its max.message.bytes" in result.stderr
    assert await held(route) == []


async def test_a_topic_that_loses_records_is_refused(route: Route, tmp_path: Path) -> None:
    route.history = await route.kafka.topic(cleanup_policy="delete")
    route.configure()
    result = await history(route, "import", file_of(tmp_path, route.records()))
    assert result.exit_code == 3
    assert "set cleanup.policy=compact on it" in result.stderr


async def test_a_definition_that_was_written_by_hand(route: Route, tmp_path: Path) -> None:
    """The message of docs/operations/schema-history.md, in a record that says no more than it must."""
    message = {
        "id": 0,
        "database": "shop",
        "table": "orders",
        "isDdl": True,
        "type": "CREATE",
        "es": 0,
        "ts": 0,
    }
    message["sql"] = "CREATE TABLE orders (id BIGINT PRIMARY KEY, price DECIMAL(9,2))"
    record = {"topic": "by-hand", "partition": 0, "offset": 0, "timestamp": 0, "value": json.dumps(message)}
    path = tmp_path / "hand.jsonl"
    path.write_text(json.dumps(record))
    result = await history(route, "import", path)
    assert result.exit_code == 0, result.stderr
    (found,) = objects(await history(route, "show", "--table", "shop.orders", "--json"))
    assert [column["type"] for column in found["definition"]["columns"]] == ["bigint", "decimal(9,2)"]
    # A row of any time and partition has it.
    translator = Translator("ticdc-canal-json", "canal-json")
    for each in await held(route):
        translator.learn(each)
    row = {
        "id": 0,
        "database": "shop",
        "table": "orders",
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": 1,
        "ts": 1,
    }
    row |= {
        "sql": "",
        "sqlType": {"id": -5, "price": 3},
        "mysqlType": {"id": "bigint", "price": "decimal"},
        "old": None,
    }
    row |= {"data": [{"id": "1", "price": "1.20"}]}
    (out,) = translator.translate(ConsumerRecord("orders", 3, 0, 0, None, json.dumps(row).encode()))
    assert json.loads(out.value or b"")["mysqlType"] == {"id": "bigint", "price": "decimal(9,2)"}


# ---------------------------------------------------------------- a secured cluster


@pytest.fixture
async def secured_route(secured: Secured, relay: Callable[..., Result], tmp_path: Path) -> Route:
    """A route over TLS and SASL whose user may do what the route needs."""
    topics = [await secured.topic(), await secured.topic(), "", await secured.topic(cleanup_policy="compact")]
    route = Route(None, relay, tmp_path / "relay.toml", topics)
    (tmp_path / "password").write_text(PASSWORD)
    route.config.write_text(
        f'[route]\nfrom = "ticdc-canal-json"\nto = "canal-json"\n'
        f'[source]\nbootstrap_servers = "{secured.address("SASL_SSL")}"\ntopics = ["{route.source}"]\n'
        f'group_id = "g-{route.source}"\n[target]\ntopic = "{route.target}"\n[schema]\nhistory_topic = "{route.history}"\n'
        f'[source.security]\nprotocol = "SASL_SSL"\nca_file = "{secured.folder / "ca.pem"}"\nmechanism = "SCRAM-SHA-512"\n'
        f'username = "{USER}"\npassword_file = "{tmp_path / "password"}"\n'
    )
    await secured.grant(TOPIC, route.history, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    return route


async def test_a_secured_cluster(secured: Secured, secured_route: Route, tmp_path: Path) -> None:
    route = secured_route
    records = route.records()
    result = await history(route, "import", file_of(tmp_path, records))
    assert result.exit_code == 0, result.stderr
    exported = await history(route, "export")
    assert [parse_record(line.encode()) for line in exported.stdout.splitlines()] == changing(records)
    # Without permission on the group, it cannot be described; this is reported, and the command continues.
    result_of_reset = await history(route, "reset")
    assert (
        f"whether group g-{route.source} has members is unknown: DESCRIBE on group g-{route.source} is not allowed"
        in result_of_reset.stderr
    )
    await secured.grant(GROUP, f"g-{route.source}", Operation.READ)
    assert "no running instance was found" in (await history(route, "reset")).stderr
    assert (await history(route, "reset", "--yes")).exit_code == 0
    assert await held(route) == []
    assert not any(secret in result_of_reset.stderr + result.stderr for secret in SECRETS)


async def test_without_a_right_to_write(secured: Secured, secured_route: Route, tmp_path: Path) -> None:
    secured_route.config.write_text(secured_route.config.read_text().replace(f'"{USER}"', '"stranger"'))
    result = await history(secured_route, "import", file_of(tmp_path, secured_route.records()))
    assert result.exit_code == 3
    assert "cannot be used" in result.stderr
