"""Tables, events, topics and partitions in the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from config_support import MINIMAL, load, problems, without_variables
from support import record, row_message

from relay.cli.check import summary
from relay.config import Config
from relay.config.wiring import translator_of


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


RULES = """
[[target.topics]]
match = "shop.orders"
topic = "hot"
partitions = 6
partition_by = "table"

[[target.topics]]
match = "shop.*"
topic = "shop.{table}"
"""


def topics(config: Config, *tables: tuple[str, str]) -> list[list[str]]:
    """The target topics of rows of these tables."""
    translator, found = translator_of(config), []
    for at, (database, table) in enumerate(tables):
        message = row_message({"id": "int"}, {"id": "1"}) | {"database": database, "table": table}
        made = translator.translate(record(message, offset=at))
        found.append([f"{out.topic}/{out.partition}" for out in made])
    return found


def test_rules_give_tables_topics_and_partitions(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL + RULES)
    (hot,), *others = topics(config, ("shop", "orders"), ("shop", "items"), ("crm", "people"))
    assert hot.startswith("hot/")
    assert others == [["shop.items/0"], ["topic.canal/0"]]
    assert config.has_table_topics
    assert config.fixed_topics == {"orders.canal": (("orders",), 0), "hot": (("orders",), 6)}


def test_rules_may_come_as_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_TARGET__TOPICS", '[{match = "shop.*", topic = "{table}"}]')
    monkeypatch.setenv("RELAY_ROUTE__EXCLUDE_TABLES", "crm.*, *.tmp_?")
    config = load(tmp_path, MINIMAL)
    assert topics(config, ("shop", "a"), ("crm", "a"), ("x", "tmp_1"), ("x", "a")) == [
        ["a/0"], [], [], ["topic.canal/0"],
    ]  # fmt: skip


def test_events_are_chosen_by_kind(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        "[source]", 'include_events = ["insert", "delete"]\nexclude_events = ["delete"]\n[source]'
    )
    translator = translator_of(load(tmp_path, text))
    made = [
        json.loads(out.value or b"")["type"]
        for at, kind in enumerate(["INSERT", "DELETE"])
        for out in translator.translate(
            record(row_message({"id": "int"}, {"id": "1"}, op=kind, pkNames=["id"]), offset=at)
        )
    ]
    assert made == ["INSERT"]


def test_no_table_has_a_topic_that_relay_reads_or_keeps(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL.replace("{topic}.canal", "{table}"))
    assert config.reserved_topics == {"orders", "relay.schema-history.g", "relay.dead-letters.g"}
    other = MINIMAL.replace("{topic}.canal", "{table}") + 'bootstrap_servers = "elsewhere:9092"'
    assert load(tmp_path, other).reserved_topics == {"relay.schema-history.g", "relay.dead-letters.g"}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            "[[target.topics]]\nmatch = 'orders'",
            "target.topics.0.match: 'orders' is not of the form database.table",
        ),
        ("[[target.topics]]\nmatch = 'a.*'\ntopic = '{x}'", "target.topics.0.topic: '{x}' has an unknown"),
        ("[[target.topics]]\nmatch = 'a.*'\ntopics = 'x'", "target.topics.0.topics: unknown key"),
        ("[[target.topics]]\ntopic = 'x'", "target.topics.0.match: is missing"),
        (
            "[[target.topics]]\nmatch = 'a.*'\ntopic = 'orders'",
            "target.topics: relay would read what it writes: orders",
        ),
        ("partition_by = 'key'", "target.partition_by: key needs a number of partitions"),
        (
            "partition_by = 'source'\npartitions = 3",
            "target.partition_by: source keeps the source's partitions",
        ),
        (
            "partition_by = 'key'\npartitions = 3",
            "target.partition_by: key: the keys of canal-json do not identify rows",
        ),
        (
            "[errors]\ndead_letter_topic = 'hot'\n" + RULES,
            "errors.dead_letter_topic: hot is also in target.topic",
        ),
    ],
)
def test_what_is_wrong_with_topics(tmp_path: Path, more: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in problems(tmp_path, MINIMAL + more))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("include_tables", "orders", "route.include_tables: 'orders' is not of the form database.table"),
        ("exclude_tables", ".t", "route.exclude_tables: '.t' is not of the form database.table"),
        ("exclude_events", "ddl", "route.exclude_events: unknown kind of event 'ddl'"),
    ],
)
def test_what_is_wrong_with_a_choice(tmp_path: Path, key: str, value: str, problem: str) -> None:
    text = MINIMAL.replace("[source]", f"{key} = ['{value}']\n[source]")
    assert any(found.startswith(problem) for found in problems(tmp_path, text))


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("orders", "target.topics: relay would read what it writes: orders is also a source topic"),
        ("relay.schema-history.g", "schema.history_topic: relay.schema-history.g is also in target.topics"),
    ],
)
def test_a_topic_that_a_rule_must_not_name_is_reported_with_the_rules(
    tmp_path: Path, topic: str, problem: str
) -> None:
    found = problems(tmp_path, f"{MINIMAL}[[target.topics]]\nmatch = 'a.*'\ntopic = '{topic}'\n")
    assert [each.startswith(problem) for each in found] == [True]


def test_an_unknown_key_of_a_rule_is_reported_with_close_names(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{MINIMAL}[[target.topics]]\nmatch = 'a.*'\npartition = 3\n")
    assert problem.startswith("target.topics.0.partition: unknown key (did you mean partition")


def test_check_describes_rules_and_choices(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        "[source]", 'include_tables = ["shop.*"]\nexclude_events = ["watermark"]\n[source]'
    )
    about = summary(load(tmp_path, text.replace("{topic}.canal", "{topic}.{table}") + RULES))
    for line in (
        "tables  shop.*",
        "events  all, without watermark",
        "  orders → orders.{table}",
        "  shop.orders → hot, spread over 6 partitions by table",
        "  shop.* → shop.{table}",
    ):
        assert line in about.splitlines()


def test_check_tells_how_a_rule_spreads_rows(tmp_path: Path) -> None:
    rules = """
    partitions = 8
    partition_by = "table"
    [[target.topics]]
    match = "shop.a"
    partitions = 12
    [[target.topics]]
    match = "shop.b"
    topic = "b"
    partition_by = "index-value"
    [[target.topics]]
    match = "shop.c"
    topic = "c"
    partition_by = "source"
    [[target.topics]]
    match = "shop.d"
    topic = "d"
    """
    assert summary(load(tmp_path, MINIMAL + rules)).splitlines()[-4:] == [
        "  shop.a → as above, spread over 12 partitions by table",
        "  shop.b → b, spread over 8 partitions by primary key",
        "  shop.c → c, in the partition of their source",
        "  shop.d → d",
    ]


@pytest.mark.parametrize(
    "target",
    [
        {"topic": "{database}.{table}", "topics": [{"match": "shop.big", "partitions": 16}]},
        {"topic": "{database}.{table}", "partitions": 8, "topics": [{"match": "*.small", "partitions": 1}]},
        {
            "topic": "{topic}.{table}",
            "topics": [{"match": "shop.*", "topic": "{database}.{table}", "partitions": 2}],
        },
        {"topic": "{database}-{table}", "partitions": 8, "topics": [{"match": "shop.big", "partitions": 16}]},
        {"topic": "all", "topics": [{"match": "shop.*", "topic": "x.{table}.{table}", "partitions": 3}]},
    ],
)
def test_partitions_of_a_topic_are_known_by_its_name(target: dict[str, Any]) -> None:
    """A task of Spark has the name alone. Where it does not tell, the topic is not too small."""
    tables = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "kafka:9092", "topics": ["orders"], "group_id": "g"},
        "target": target,
    }
    config = Config.model_validate(tables)
    translator = translator_of(config)
    for at, (database, table) in enumerate(
        [("shop", "big"), ("shop", "a b"), ("crm", "small"), ("crm", "订单")]
    ):
        message = row_message({"id": "int"}, {"id": "1"}) | {"database": database, "table": table}
        (out,) = translator.translate(record(message, offset=at))
        if out.topic not in config.fixed_topics:
            is_known = target["topic"] != "{database}-{table}"
            wanted = translator.partitions_of(out.topic) if is_known else 16
            assert config.partitions_of(out.topic) == wanted


def test_check_tells_the_key_of_a_rule(tmp_path: Path) -> None:
    rules = "[[target.topics]]\nmatch = 'shop.a'\npartitions = 12\ntopic = 'a'\nkey = ['region', 'id']\n"
    config = load(tmp_path, MINIMAL + rules)
    assert config.topic_rules[0].key == ("region", "id")
    described = (
        "shop.a → a, spread over 12 partitions by the record's key, as Kafka's clients do, key region, id"
    )
    assert summary(config).splitlines()[-1] == f"  {described}"


def test_a_key_that_the_target_cannot_have_is_reported_with_its_rule(tmp_path: Path) -> None:
    rules = "[[target.topics]]\nmatch = 'shop.a'\nkey = ['id', 'id']\n"
    (problem,) = problems(tmp_path, MINIMAL + rules)
    assert problem == "target.topics.0.key: a column is named twice (name each once)"
    text = MINIMAL.replace('to = "canal-json"', 'to = "ticdc-open-protocol"') + rules.replace("'id', ", "")
    assert [each for each in problems(tmp_path, text) if each.startswith("target.topics.0.key: the keys of")]


@pytest.mark.parametrize("name", ["orders.*", "^orders-.+$", "orders-[0-9]", "(a|b)"])
def test_a_pattern_is_no_source_topic(tmp_path: Path, name: str) -> None:
    found = problems(tmp_path, MINIMAL.replace('["orders"]', f"['{name}']"))
    hint = "name each topic, or give a topics_pattern instead"
    said = f"source.topics: '{name}' is a pattern, and topics are names ({hint})"
    assert found[0] == said
