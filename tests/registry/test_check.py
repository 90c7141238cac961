"""What `relay check --connect` says of schema registries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_registry import FakeRegistry, serving

from relay.config import Config
from relay.service.check.findings import State
from relay.service.check.registries import registry_findings

TEXT = '{"type":"record","name":"R","fields":[]}'


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry()) as found:
        yield found


def config(url: str, **more: Any) -> Config:
    registry = {"urls": [url], **more}
    return Config.model_validate(
        {
            "route": {"from": "debezium-avro", "to": "debezium-avro"},
            "source": {
                "bootstrap_servers": "localhost:9092",
                "topics": ["t"],
                "group_id": "g",
                "schema_registry": {"urls": [url]},
            },
            "target": {"topic": "out", "schema_registry": registry},
        }
    )


def said(given: Config) -> list[tuple[State, str]]:
    return [(each.state, each.said) for each in registry_findings(given)]


def test_a_registry_in_which_schemas_may_be_registered(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.compatibility["out-value"] = "NONE"
    assert said(config(fake.url)) == [
        (State.OK, "answers, 1 subject"),
        (State.OK, "answers, 1 subject"),
        (State.OK, "registering allowed"),
    ]
    assert fake.subjects == {"out-value": [1]}


def test_rules_that_stop_relay_are_noted(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    (*_, note) = said(config(fake.url))
    assert note[0] is State.NOTE
    assert note[1].startswith("compatibility of out-value is BACKWARD: some changes of tables")


def test_a_registry_without_subjects_of_the_route_leaves_it_open(fake: FakeRegistry) -> None:
    (*_, last) = said(config(fake.url))
    assert last[0] is State.UNTESTED
    assert fake.registrations() == []


def test_what_may_not_be_registered_fails(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.faults = [
        *[(200, ["out-value"])] * 2,
        (200, {"schema": TEXT}),
        (403, {"error_code": 40301, "message": "no"}),
    ]
    found = said(config(fake.url))
    assert [state for state, _ in found[:3]] == [State.OK, State.OK, State.FAILED]
    assert "registering is not allowed" in found[2][1]


def test_without_registering_nothing_is_tried(fake: FakeRegistry) -> None:
    fake.add("out-value", TEXT)
    fake.compatibility["out-value"] = "NONE"
    found = said(config(fake.url, register_schemas=False))
    assert found[-1][0] is State.NOTE
    assert fake.registrations() == []


def test_a_registry_that_is_away_fails() -> None:
    found = said(config("http://127.0.0.1:9"))
    assert [state for state, _ in found] == [State.FAILED, State.FAILED]
    assert "Connection refused" in found[0][1]
