"""`relay check` shows the effect of column rules on known tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

CREATE = (
    "USE shop; CREATE TABLE customers (id bigint PRIMARY KEY, email varchar(100)); "
    "CREATE TABLE orders (id bigint PRIMARY KEY, note text);"
)
CONFIG = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
exclude_tables = ["shop.orders"]
{rules}
[source]
bootstrap_servers = "kafka.invalid:9092"
topics = ["orders"]
group_id = "g"
[target]
topic = "out"
[schema]
{dumps}
"""
RULES = """
[[route.columns]]
tables = ["shop.*"]
columns = ["{column}"]
action = "drop"
[[route.columns]]
tables = ["shop.*"]
columns = ["note"]
action = "null"
"""


def checked(relay: Callable[..., Result], folder: Path, rules: str, dumps: str = "") -> Result:
    path = folder / "relay.toml"
    path.write_text(CONFIG.format(rules=rules, dumps=dumps), encoding="utf-8")
    return relay("check", "--config", path)


def test_the_effect_on_the_tables_of_dumps(relay: Callable[..., Result], tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text(CREATE, encoding="utf-8")
    found = checked(relay, tmp_path, RULES.format(column="email"), f'schema_dumps = ["{dump}"]')
    assert found.exit_code == 0, found.stderr
    assert found.stdout.endswith("columns\n  shop.customers: email drop\n")
    assert "warning: route.columns.1: matches no column of the known tables\n" in found.stderr
    refused = checked(relay, tmp_path, RULES.format(column="id"), f'schema_dumps = ["{dump}"]')
    assert refused.exit_code == 0
    assert "warning: route.columns: rows of shop.customers are refused: " in refused.stderr


def test_rules_without_a_known_table(relay: Callable[..., Result], tmp_path: Path) -> None:
    found = checked(relay, tmp_path, RULES.format(column="email"))
    assert found.exit_code == 0
    assert "columns 2 rules, and no table is known here: `--connect` shows" in " ".join(found.stdout.split())
    assert "columns" not in checked(relay, tmp_path, "").stdout
