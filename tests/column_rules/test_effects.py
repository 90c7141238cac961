"""What `relay check` says about rules and known tables."""

from __future__ import annotations

import pytest
from column_rules_support import rule

from relay import ColumnRule, TableId
from relay.catalog import Catalog
from relay.catalog.definitions import Definition, apply_definition
from relay.rules.columns import parse_rules
from relay.rules.columns.effects import effects_on, lines_of

CUSTOMERS = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, email varchar(100), age int, photo blob, city text, "
    "kind enum('a','b'))"
)
ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, note text)"


def known() -> Catalog:
    catalog = Catalog()
    for name, create in (("customers", CUSTOMERS), ("orders", ORDERS)):
        catalog = apply_definition(catalog, Definition(TableId("shop", name), (("shop", create),)))
    return catalog


def lines(*rules: ColumnRule, most: int = 20) -> list[str]:
    found = effects_on(parse_rules(rules, has_hash_key=True), "canal-json", known().present_tables())
    return list(lines_of(found, most))


def test_each_table_has_its_columns_with_their_types() -> None:
    rules = (
        rule("hash", "email", "age", tables="shop.*", length=40),
        rule("mask", "kind", tables="shop.customers"),
        rule("rename", "city", tables="shop.customers", name="town"),
        rule("drop", "photo", "note", tables="*.*"),
    )
    customers = (
        "email hash → varchar(40)",
        "age hash → varchar(40)",
        "photo drop",
        "city rename → town text",
        "kind mask → varchar(255)",
    )
    assert lines(*rules) == [
        f"shop.customers: {', '.join(customers)}",
        "shop.orders: note drop",
    ]
    assert lines(*rules, most=1)[0] == "shop.customers: email hash → varchar(40), and 4 more"
    gone = ", ".join(f"{name} drop, since no rule keeps it" for name in ("age", "photo", "city", "kind"))
    assert lines(rule("keep", "id", "email", tables="shop.customers")) == [f"shop.customers: {gone}"]


UNUSED = [
    (rule("drop", "email", tables="shop.customer"), "matches no known table: did you mean shop.customers?"),
    (rule("drop", "email", tables="sales.*"), "matches no known table"),
    (rule("drop", "mail", tables="shop.*"), "matches no column of the known tables: did you mean email?"),
    (rule("drop", "zzz", tables="shop.*"), "matches no column of the known tables"),
    (
        rule("null", "note", tables="shop.*"),
        "has no effect: other rules come first for all columns that it matches",
    ),
]


@pytest.mark.parametrize(("unused", "why"), UNUSED)
def test_rules_without_effect_have_a_reason(unused: ColumnRule, why: str) -> None:
    rules = (rule("drop", "note", tables="shop.*"), unused)
    found = effects_on(parse_rules(rules, has_hash_key=True), "canal-json", known().present_tables())
    assert [(each.number, each.with_hints()) for each in found.unused] == [(1, why)]


def test_refused_tables_have_a_reason() -> None:
    rules = (rule("drop", "id", tables="shop.orders"), rule("mask", "photo", tables="shop.customers"))
    found = effects_on(parse_rules(rules, has_hash_key=True), "canal-json", known().present_tables())
    customers, orders = found.tables
    assert [each.text for each in customers.columns] == ["mask is refused"]
    assert "mask is for text, numbers and times" in customers.problem
    assert "is part of the key of shop.orders" in orders.problem
    assert found.unused == []
