"""Definitions of a live database: a real MariaDB, where one can be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cli.kafka_support import Route
from cli.test_schema_history import history, objects
from mariadb_support import PASSWORD, USER, Server, mariadb
from typer.testing import CliRunner, Result

from relay.catalog.definitions import BEFORE_ALL, schema_of
from relay.cli.commands import app
from relay.io.live_definitions import LiveDefinitions, read_definitions, server_at
from relay.model.errors import ConfigError, DatabaseUnavailable
from relay.model.events import TableId
from relay.model.limits import DEFAULT_LIMITS
from relay.mysql.types import format_type

SETUP = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    (
        "CREATE TABLE shop.orders (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, price decimal(9,2),"
        " state enum('a','it''s','b\\\\c'), at timestamp(3) NULL, total decimal(10,2) AS (price * 2) STORED)"
    ),
    "CREATE VIEW shop.recent AS SELECT id FROM shop.orders",
    "CREATE DATABASE `o``dd`",
    "CREATE TABLE `o``dd`.`a.b` (`key` int, UNIQUE KEY (`key`))",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with mariadb(tmp_path_factory.mktemp("mariadb")) as running:
        connection = pymysql.connect(host="127.0.0.1", port=running.port, user=USER, password=PASSWORD)
        with connection, connection.cursor() as cursor:
            for statement in SETUP:
                cursor.execute(statement)
        yield running


def read(url: str, password: str = PASSWORD, commit_ts: int | None = BEFORE_ALL) -> LiveDefinitions:
    return read_definitions(server_at(url, password, "", "--from-database"), commit_ts, lambda _: True)


def test_every_table_of_a_server_is_read(server: Server) -> None:
    live = read(server.url)
    assert live.problems == []
    orders, odd = {each.table: each for each in live.definitions}, TableId("o`dd", "a.b")
    assert list(orders) == [odd, TableId("shop", "orders")]
    schema = schema_of(orders[TableId("shop", "orders")], DEFAULT_LIMITS)
    assert schema is not None
    assert [format_type(column.type) for column in schema.columns] == [
        "bigint(20) unsigned", "decimal(9,2)", "enum('a','it''s','b\\c')", "timestamp(3)", "decimal(10,2)",
    ]  # fmt: skip
    assert schema.primary_key == ("id",)


def test_one_database_and_the_time_of_the_server(server: Server) -> None:
    (definition,) = read(f"{server.url}/shop", commit_ts=None).definitions
    assert definition.table.database == "shop"
    assert definition.commit_ts >> 18 > 1_700_000_000_000


def test_a_wrong_password_is_reported_without_it(server: Server) -> None:
    with pytest.raises(DatabaseUnavailable, match="Access denied") as error:
        read(server.url, "hush-hush")
    assert "hush-hush" not in str(error.value)


def test_a_server_that_is_away() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1: Can't connect"):
        read("mysql://u@127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:hush@h/shop", "contains a password"),
        ("postgres://u@h/shop", "is not of the form"),
        ("mysql://h/shop", "is not of the form"),
        ("mysql://u@h:port/shop", "is not a URL"),
        ("mysql://u@h/shop?ssl=1", "has parameters"),
    ],
)
def test_an_address_that_is_none_is_refused_unshown(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        server_at(url, "", "", "--from-database")
    assert "hush" not in str(error.value)


@pytest.mark.kafka
async def test_the_history_takes_them(
    server: Server, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay: Callable[..., Result] = lambda *args: CliRunner().invoke(app, [str(each) for each in args])  # noqa: E731 - used here alone
    route = await Route.made(kafka, relay, tmp_path)
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    arguments = ("--from-database", f"{server.url}/shop", "--as-of", "now")
    result = await history(route, "import", *arguments, "--password-file", password)
    assert result.exit_code == 0, result.stderr
    assert "tables defined: 1, imported: 1" in result.stderr
    (shown,) = objects(await history(route, "show", "--json"))
    assert (shown["table"], shown["primary_key"]) == ("orders", ["id"])
    listed = await history(route, "show", "--quiet")
    assert " as of 20" in listed.stdout
    monkeypatch.setenv("RELAY_DATABASE_PASSWORD", "wrong")
    result = await history(route, "import", *arguments)
    assert (result.exit_code, "Access denied" in result.stderr) == (3, True)
