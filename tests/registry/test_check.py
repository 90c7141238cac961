"""What `relay check --connect` says of schema registries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_registry import FakeRegistry, serving

from relay.config import Config
from relay.service.check import CheckState
from relay.service.check.registries import registry_findings

TEXT = '{"type":"record","name":"R","fields":[]}'


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry()) as found:
        yield found


def config(
    url: str,
    to: str = "debezium-avro",
    options: dict[str, str] | None = None,
    topic: str = "out",
    topics: list[dict[str, str]] | None = None,
    **more: Any,
) -> Config:
    registry = {"urls": [url], **more}
    return Config.model_validate(
        {
            "route": {"from": "debezium-avro", "to": to, "to_options": options or {}},
            "source": {
                "bootstrap_servers": "localhost:9092",
                "topics": ["t"],
                "group_id": "g",
                "schema_registry": {"urls": [url]},
            },
            "target": {"topic": topic, "topics": topics or [], "schema_registry": registry},
        }
    )


def said(given: Config) -> list[tuple[CheckState, str]]:
    return [(each.state, each.text) for each in registry_findings(given)]


def test_a_registry_in_which_schemas_may_be_registered(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.compatibility["out-value"] = "NONE"
    assert said(config(fake.url)) == [
        (CheckState.OK, "answers, 1 subject"),
        (CheckState.OK, "answers, 1 subject"),
        (CheckState.OK, "registering allowed"),
    ]
    assert fake.subjects == {"out-value": [1]}


RECORDS, IN_TOPIC = (
    {f"{part}.subject.name.strategy": strategy for part in ("key", "value")}
    for strategy in ("RecordNameStrategy", "TopicRecordNameStrategy")
)


@pytest.mark.parametrize(
    ("to", "options", "topic", "subject", "other"),
    [
        ("ticdc-avro", {}, "a.b", "a_b-key", "a.b-key"),
        ("ticdc-avro", {}, "{topic}.{table}", "t_orders-value", "u_orders-value"),
        ("ticdc-debezium-avro", {}, "a.b", "a.b-value", "a_b-value"),
        ("debezium-avro", {}, "{topic}.{database}.{table}", "t.shop.orders-value", "u.shop.orders-value"),
        ("debezium-avro", RECORDS, "out", "relay.shop.orders.Envelope", "out-value"),
        (
            "debezium-avro",
            RECORDS | {"topic.prefix": "x", "strict": "true"},
            "out",
            "x.shop.o.Key",
            "relay.s.o.Key",
        ),
        ("debezium-avro", IN_TOPIC, "out", "out-relay.shop.orders.Key", "out-key"),
    ],
)
def test_subjects_are_those_that_rows_would_have(
    fake: FakeRegistry, to: str, options: dict[str, str], topic: str, subject: str, other: str
) -> None:
    given = config(fake.url, to, options, topic)
    fake.add(other, TEXT)
    *_, last = said(given)
    assert (last[0], fake.registrations()) == (CheckState.UNTESTED, [])
    fake.add(subject, TEXT)
    *_, allowed, rule = said(given)
    assert allowed == (CheckState.OK, "registering allowed")
    assert rule[1].startswith(f"compatibility of {subject} is BACKWARD")


@pytest.mark.parametrize("topic", ["{table}", "{database}.{table}"])
def test_subjects_of_others_are_left_alone_where_all_look_like_those_of_tables(
    fake: FakeRegistry, topic: str
) -> None:
    fake.add("billing_x-value", TEXT)
    fake.add("billing.x-value", TEXT)
    *_, last = said(config(fake.url, "debezium-avro", {}, topic))
    assert (last[0], fake.registrations()) == (CheckState.UNTESTED, [])


def test_topics_of_rules_have_subjects_too(fake: FakeRegistry) -> None:
    given = config(fake.url, "ticdc-avro", topics=[{"match": "shop.*", "topic": "big.{table}"}])
    fake.add("big_orders-value", TEXT)
    *_, allowed, _ = said(given)
    assert allowed == (CheckState.OK, "registering allowed")


def test_rules_that_stop_relay_are_noted(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    (*_, note) = said(config(fake.url))
    assert note[0] is CheckState.NOTE
    assert note[1].startswith(
        "compatibility of out-value is BACKWARD: the registry would refuse some changes"
    )


def test_a_registry_without_subjects_of_the_route_leaves_it_open(fake: FakeRegistry) -> None:
    (*_, last) = said(config(fake.url))
    assert last[0] is CheckState.UNTESTED
    assert fake.registrations() == []


def test_what_may_not_be_registered_fails(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.faults = [
        *[(200, ["out-value"])] * 2,
        (200, {"schema": TEXT}),
        (403, {"error_code": 40301, "message": "no"}),
    ]
    found = said(config(fake.url))
    assert [state for state, _ in found[:3]] == [CheckState.OK, CheckState.OK, CheckState.FAILED]
    assert "registering is not allowed" in found[2][1]


def test_without_registering_nothing_is_tried(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.compatibility["out-value"] = "NONE"
    found = said(config(fake.url, register_schemas=False))
    assert found[-1][0] is CheckState.NOTE
    assert fake.registrations() == []


def test_a_registry_that_is_away_fails() -> None:
    found = said(config("http://127.0.0.1:9"))
    assert [state for state, _ in found] == [CheckState.FAILED, CheckState.FAILED]
    assert "Connection refused" in found[0][1]
