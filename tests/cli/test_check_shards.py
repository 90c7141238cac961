"""`relay check` shows the tables that known shards are merged into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY{});"
CONFIG = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
[[route.tables]]
from = 'shop\\.orders_\\d+'
to = "shop.orders"
merge = true
ddl = "{ddl}"
add = {{ shard = "{{table}}" }}
[source]
bootstrap_servers = "kafka.invalid:9092"
topics = ["orders"]
group_id = "g"
[target]
topic = "out"
[schema]
schema_dumps = ["{dump}"]
"""


def checked(relay: Callable[..., Result], folder: Path, dump: str, ddl: str = "first") -> Result:
    (folder / "dump.sql").write_text(f"USE shop; {dump}", encoding="utf-8")
    path = folder / "relay.toml"
    path.write_text(CONFIG.format(dump=folder / "dump.sql", ddl=ddl), encoding="utf-8")
    return relay("check", "--config", path)


def test_shards_of_dumps(relay: Callable[..., Result], tmp_path: Path) -> None:
    equal = CREATE.format("orders_1", "") + CREATE.format("orders_2", "")
    found = checked(relay, tmp_path, equal)
    assert found.exit_code == 0, found.stderr
    assert found.stdout.endswith("tables\n  shop.orders: 2 shards, all with the same definition\n")
    other = checked(relay, tmp_path, equal + CREATE.format("orders_3", ", c int"))
    assert "shop.orders: 3 shards; the latest definition is not yet that of shop.orders_3" in other.stdout
    assert "warning: route.tables: the definition of shop.orders_3 is none" in " ".join(other.stderr.split())
    taken = checked(relay, tmp_path, equal + CREATE.format("orders", ""))
    assert "would have the same name in the target, shop.orders" in " ".join(taken.stderr.split())


def test_no_shard_is_known(relay: Callable[..., Result], tmp_path: Path) -> None:
    found = checked(relay, tmp_path, CREATE.format("lines", ""))
    assert found.stdout.endswith("tables\n  no known table is changed\n")
    assert "route.tables.0: matches no known table" in found.stderr


def test_wrong_settings_are_named(relay: Callable[..., Result], tmp_path: Path) -> None:
    found = checked(relay, tmp_path, "", ddl="last")
    assert found.exit_code == 2
    assert "route.tables.0.ddl" in found.stderr
