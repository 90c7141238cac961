"""Definitions of dumps on the command line: `relay translate --schema-dump`, `schema-history import --sql`, and
`schema_dumps` in a configuration.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.kafka_support import Route
from cli.test_schema_history import history, objects
from config_support import MINIMAL, load, problems
from support import DATA
from typer.testing import Result

from relay.cli.schema_history import FAILED
from relay.config import load_config
from relay.config.wiring import load_schema_dumps, translator_with_schema_dumps
from relay.io.logs import Log
from relay.model.events import TableId
from relay.model.records import ConsumerRecord
from relay.service.app import run_until

DUMP = DATA / "dumps/mariadb-10.11/dump.sql"
ROW = {
    "id": 0, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1,
    "ts": 1, "sql": "", "sqlType": {"id": -5, "price": 3, "state": 4, "at": 93, "total": 3},
    "mysqlType": {"id": "bigint unsigned", "price": "decimal", "state": "enum", "at": "timestamp", "total": "decimal"},
    "old": None, "data": [{"id": "1", "price": "1.50", "state": "3", "at": None, "total": "3.00"}],
}  # fmt: skip
LINE = (json.dumps({"topic": "t", "partition": 0, "offset": 5, "value": json.dumps(ROW)}) + "\n").encode()
TRANSLATE = ("translate", "--from", "ticdc-canal-json", "--to", "canal-json", "--to-option", "enum=label")


def label(result: Result) -> str:
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found: str = json.loads(json.loads(line)["value"])["data"][0]["state"]
    return found


def test_translate_takes_definitions_of_a_dump(relay: Callable[..., Result]) -> None:
    known = relay(*TRANSLATE, "--schema-dump", DUMP, input=LINE)
    assert label(known) == "b\\c"
    assert "types inferred" not in known.stderr
    unknown = relay(*TRANSLATE, input=LINE)
    assert label(unknown) == "3"
    assert "types inferred" in unknown.stderr


def test_a_bootstrap_holds_from_its_moment_on(relay: Callable[..., Result]) -> None:
    after = relay(*TRANSLATE, "--schema-dump", DUMP, "--dump-as-of", "2026-08-01T00:00:00Z", input=LINE)
    assert label(after) == "3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--schema-dump", "gone.sql"), "--schema-dump: cannot read gone.sql: No such file or directory"),
        (("--dump-database", "x"), "--schema-dump: is missing"),
        (("--schema-dump", str(DUMP), "--dump-as-of", "17"), "--dump-as-of: is not a commit ts"),
    ],
)
def test_a_bootstrap_that_is_none_is_refused(
    relay: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    result = relay(*TRANSLATE, *arguments, input=LINE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_configuration_names_dumps(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL + f'[schema]\nschema_dumps = "{DUMP}"\n')
    found = load_schema_dumps(config, translator_with_schema_dumps(config).catalog)
    assert (found.tables, found.files, found.problems) == (2, 1, [])
    assert found.catalog.newest(TableId("shop", "orders"))[1] is not None


def test_check_says_what_a_bootstrap_defines(relay: Callable[..., Result], tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text("CREATE TABLE d.t (id int);\nCREATE TABLE d.u (;\n")
    load(tmp_path, MINIMAL + f'[schema]\nschema_dumps = ["{dump}"]\n')
    result = relay("check", "--config", tmp_path / "relay.toml")
    assert result.exit_code == 0, result.stderr
    assert f"tables  1 defined by {dump}" in result.stdout
    assert f"warning: schema.schema_dumps: {dump} line 2: not understood" in result.stderr
    dump.unlink()
    assert relay("check", "--config", tmp_path / "relay.toml").exit_code == 2


@pytest.mark.parametrize(
    ("key", "said"),
    [('schema_dumps_as_of = "now"', "neither"), ('schema_dumps = [""]', "schema.schema_dumps")],
)
def test_a_bootstrap_that_is_none_is_refused_in_a_configuration(tmp_path: Path, key: str, said: str) -> None:
    (problem,) = problems(tmp_path, MINIMAL + f"[schema]\n{key}\n")
    assert said in problem


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--database", "shop"), "--database: is for definitions"),
        (("in.jsonl", "--sql", str(DUMP)), "INPUT: records are imported without --sql"),
        (("--sql", str(DUMP), "--from-database", "mysql://u@h"), "--from-database: --sql is also given"),
        (("--sql", str(DUMP), "--as-of", "now"), "--as-of: is neither"),
        (("--sql", str(DUMP), "--ca-file", "x"), "--ca-file: is for --from-database"),
        (("--sql", "EMPTY"), "--sql: defines no table that relay understands; nothing was imported"),
        (("--sql", "EMPTY"), "no statement defines a table in "),
        (
            ("--sql", str(DUMP), "--set", "route.include_tables=x.y"),
            ", none of which the route includes (see include_tables",
        ),
    ],
)
def test_options_that_do_not_go_together(
    relay: Callable[..., Result], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    load(tmp_path, MINIMAL)
    empty = tmp_path / "empty.sql"
    empty.write_text("SELECT 1;")
    given = [str(empty) if each == "EMPTY" else each for each in arguments]
    result = relay("schema-history", "import", *given, "--config", tmp_path / "relay.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.kafka
async def test_a_dump_in_the_history_is_known_to_a_relay(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    tables = 'include_tables = ["shop.orders", "shop.items"]\n[source]'
    route.config.write_text(route.config.read_text().replace("[source]", tables))
    result = await history(route, "import", "--sql", DUMP)
    assert result.exit_code == 0, result.stderr
    assert (
        "tables defined: 1, imported: 1, 0 of them changed, already known: 0, not included by the route: 1"
        in (result.stderr)
    )
    assert "warning: no definition is known for any table of include_tables shop.items" in result.stderr
    (shown,) = objects(await history(route, "show", "--json"))
    assert (shown["table"], shown["columns"], shown["state"]) == ("orders", 5, "known")
    listed = await history(route, "show", "--quiet")
    assert listed.stdout.splitlines()[1].split() == [
        "shop.orders",
        "1",
        "5",
        "imported",
        "before",
        "everything",
    ]
    again = await history(route, "import", "--sql", DUMP)
    assert "imported: 0, 0 of them changed, already known: 1" in again.stderr
    # An export holds it, too, and goes into another history.
    exported = tmp_path / "export.jsonl"
    assert (await history(route, "export", "--output", exported)).exit_code == 0
    other = await Route.made(kafka, relay, tmp_path)
    result = await history(other, "import", exported)
    assert "records read: 1, imported: 1" in result.stderr
    # A younger dump replaces it.
    changed = tmp_path / "changed.sql"
    changed.write_text("CREATE TABLE shop.orders (id bigint PRIMARY KEY);\nCREATE TABLE shop.items (;\n")
    result = await history(other, "import", "--sql", changed)
    assert result.exit_code == FAILED
    assert "imported: 1, 1 of them changed" in result.stderr
    assert "line 2: not understood" in result.stderr
    (shown,) = objects(await history(other, "show", "--json"))
    assert shown["columns"] == 1
    again = await history(other, "import", exported)
    assert "records read: 1, imported: 1" in again.stderr
    await history(other, "import", "--sql", changed)
    # A statement of the stream that the dump holds already.
    added = ROW | {"isDdl": True, "type": "ALTER", "sql": "ALTER TABLE orders ADD COLUMN id bigint", "es": 9}
    await other.remember([ConsumerRecord(other.source, 0, 1, 9, None, json.dumps(added).encode())])
    result = await history(other, "import", "--sql", changed)
    assert "shop.orders: a statement in the stream does not fit this definition" in result.stderr
    assert f"({other.source}/0/1)" in result.stderr


@pytest.mark.kafka
async def test_a_relay_says_what_it_knows_at_the_start(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    text = route.config.read_text().replace("[source]", 'include_tables = ["shop.*", "crm.*"]\n[source]')
    route.config.write_text(text + f'schema_dumps = "{DUMP}"\n')
    await kafka.produce(route.source, [])
    stop, logged = asyncio.Event(), io.StringIO()
    task = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))
    try:

        async def opened() -> bool:
            assert not task.done(), logged.getvalue()
            return "partitions.opened" in logged.getvalue()

        await kafka.until(opened)
    finally:
        stop.set()
        assert await task == 0, logged.getvalue()
    events = {each["event"]: each for each in map(json.loads, logged.getvalue().splitlines())}
    assert (events["schema-dumps.loaded"]["tables"], events["schema-dumps.loaded"]["files"]) == (2, 1)
    assert events["schemas.unknown"]["tables"] == ["crm.*"]
