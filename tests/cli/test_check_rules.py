"""`relay check` shows the effect of row rules and table rules on known tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

CREATE = (
    "USE shop; CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(9), seen datetime); "
    "CREATE TABLE orders_2 (id bigint PRIMARY KEY, status varchar(9)); CREATE TABLE lines (id bigint);"
)
CONFIG = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
exclude_tables = ["shop.lines"]
{rules}
[source]
bootstrap_servers = "kafka.invalid:9092"
topics = ["orders"]
group_id = "g"
[target]
topic = "out"
[schema]
schema_dumps = {dumps}
"""


@pytest.fixture
def checked(relay: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Check a configuration with these rules; the tables are known from a dump, or not."""
    dump, path = tmp_path / "dump.sql", tmp_path / "relay.toml"
    dump.write_text(CREATE, encoding="utf-8")

    def check(rules: str, *, known: bool = True) -> Result:
        dumps = f'["{dump}"]' if known else "[]"
        path.write_text(CONFIG.format(rules=rules, dumps=dumps), encoding="utf-8")
        return relay("check", "--config", path)

    return check


def rows(*tables: str, more: str) -> str:
    return f"[[route.rows]]\ntables = {[*tables]}\n{more}\n"


def renamed(source: str, target: str) -> str:
    return f"[[route.tables]]\nfrom = '{source}'\nto = '{target}'\n"


def test_the_effect_of_row_rules(checked: Callable[..., Result]) -> None:
    found = checked(
        rows("shop.orders", more='where = "Status == \'paid\'"\nignore_updates_of = ["SEEN", "sen"]')
        + rows("shop.order", more='where = "id > 7"')
        + rows("shop.lines", more='where = "id > 7"')
        + rows("shop.orders_*", more='where = "seen == null || has(row.id)"')
    )
    assert found.exit_code == 0, found.stderr
    assert found.stdout.endswith(
        "rows\n  shop.orders: where on Status; updates of seen ignored\n"
        "  shop.orders_2: where on seen, all columns\n"
    )
    warnings = [line for line in found.stderr.splitlines() if "route.rows" in line]
    assert warnings == [
        (
            "warning: route.rows: rows of shop.orders_2 are refused: canal-json: seen: `where` of rule 4 for rows "
            "of shop.orders_2: the table has no such column"
        ),
        "warning: route.rows.0: ignore_updates_of: sen is no column of the known tables: did you mean seen?",
        "warning: route.rows.1: matches no known table: did you mean shop.orders or shop.orders_2?",
        "warning: route.rows.2: matches no known table",
    ]


def test_the_effect_of_table_rules(checked: Callable[..., Result]) -> None:
    found = checked(
        renamed(r"shop\.orders", "sales.paid")
        + renamed(r"shop\.(orders_\d)", "sales.{1}")
        + renamed(r"shop\.order", "sales.x")
        + renamed(r"shop\..*", "archive.{table}")
    )
    assert found.exit_code == 0, found.stderr
    assert found.stdout.endswith("tables\n  shop.orders → sales.paid\n  shop.orders_2 → sales.orders_2\n")
    warnings = [line for line in found.stderr.splitlines() if "route.tables" in line]
    assert warnings == [
        "warning: route.tables.2: matches no known table: did you mean shop.orders or shop.orders_2?",
        "warning: route.tables.3: has no effect: earlier rules apply to all known tables that it matches",
    ]
    refused = checked(renamed(r"shop\.orders", "sales.{table}" + "x" * 60))
    assert refused.exit_code == 0
    assert "warning: route.tables: rows of shop.orders are refused: " in refused.stderr


def test_names_that_several_tables_would_have(checked: Callable[..., Result]) -> None:
    """`relay run` refuses them, too."""
    found = checked(renamed(r"shop\.orders.*", "sales.orders"))
    assert found.exit_code == 2
    assert "tables shop.orders and shop.orders_2 would have the same name in the target" in found.stderr


def test_rules_without_a_known_table(checked: Callable[..., Result]) -> None:
    rules = renamed(r"shop\.orders", "sales.paid") + rows("shop.orders", more='where = "id > 7"')
    found = " ".join(checked(rules, known=False).stdout.split())
    assert "rows 1 rule, and no table is known here: `--connect` shows" in found
    assert "tables 1 rule, and no table is known here" in found


def test_only_the_first_unused_rules_have_hints(checked: Callable[..., Result]) -> None:
    """Comparing names takes long for hundreds of rules and tables."""
    found = checked("".join(renamed(rf"shop\.order{at}", f"sales.t{at}") for at in range(30)))
    assert found.exit_code == 0, found.stderr
    warnings = [line for line in found.stderr.splitlines() if "matches no known table" in line]
    assert [line.endswith("?") for line in warnings] == [True] * 20 + [False] * 10
