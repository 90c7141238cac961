"""Names of target topics: legal for Kafka, and never one name for two tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay.model.errors import UnusableTopicName
from relay.model.events import TableId
from relay.routing.topic_names import TopicTemplate, is_topic_name

NAMES = st.lists(
    st.sampled_from(["a", "b", "_", "x", "0", "41", "0041", ".", "-", " ", "订", "😀", "$"]),
    min_size=1,
    max_size=6,
).map("".join)
DOTTED = [
    "{topic}.{database}.{table}",
    "{database}.{table}",
    "{database}.x.{topic}.{table}",
    "p-{table}.{database}",
]


@pytest.mark.parametrize(
    ("template", "table", "name"),
    [
        ("{topic}", TableId("shop", "orders"), "cdc.1"),
        ("{topic}.{database}.{table}", TableId("shop", "orders"), "cdc.1.shop.orders"),
        ("{database}_{table}", TableId("my_shop", "order_items"), "my_shop_order_items"),
        ("{table}", TableId("shop", "order items"), "order_x0020_items"),
        ("{table}", TableId("shop", "订单"), "_x8ba2__x5355_"),
        ("{table}", TableId("shop", "a.b"), "a_x002e_b"),
        ("{table}", TableId("shop", "dim_xref"), "dim_xref"),
        ("{table}", TableId("shop", "a_x0020_b"), "a_x005f_x0020_b"),
        ("{table}", TableId("shop", "."), "_x002e_"),
        ("{table}", TableId("shop", "😀"), "_x1f600_"),
    ],
)
def test_names_of_tables(template: str, table: TableId, name: str) -> None:
    assert TopicTemplate.parse(template).name("cdc.1", table) == name


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES), st.sampled_from(DOTTED))
@example(("s", "a_x0041"), ("s", "a_x0041é"), "{database}.{table}")
def test_two_tables_have_two_names(one: tuple[str, str], other: tuple[str, str], text: str) -> None:
    template = TopicTemplate.parse(text)
    assert not template.is_ambiguous
    names = [template.name("t.u", TableId(*each)) for each in (one, other)]
    assert all(is_topic_name(name) for name in names)
    assert (names[0] == names[1]) == (one == other)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES), st.sampled_from(["_", "-", "__", "x"]))
def test_where_two_tables_may_have_one_name_each_finds_the_other(
    one: tuple[str, str], other: tuple[str, str], between: str
) -> None:
    template = TopicTemplate.parse("p-{database}" + between + "{table}-s")
    assert template.is_ambiguous
    first, second = TableId(*one), TableId(*other)
    is_one = template.name("t", first) == template.name("t", second)
    assert (second in template.conflicting_tables("t", first)) == (is_one and first != second)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{schema}", "has an unknown placeholder; known: {topic}, {database}, {table}"),
        ("{topic", "has an unknown placeholder"),
        ("{{topic}}", "has an unknown placeholder"),
        ("a b", "does not make a topic name"),
        ("", "does not make a topic name"),
        ("..", "does not make a topic name"),
        ("x" * 250, "does not make a topic name"),
    ],
)
def test_templates_that_make_no_name(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        TopicTemplate.parse(text)


@pytest.mark.parametrize(
    ("text", "table", "why"),
    [
        ("{table}", TableId("shop", "订" * 40), "that of table shop." + "订" * 40 + " has 280 characters"),
        ("{table}", TableId("shop", "x" * 300), "that of table shop.(not shown) has 300 characters"),
        ("{table}", TableId("shop", ""), "would be '', which Kafka does not accept"),
    ],
)
def test_tables_that_have_no_name(text: str, table: TableId, why: str) -> None:
    with pytest.raises(UnusableTopicName, match=re.escape(why)):
        TopicTemplate.parse(text).name("t", table)
