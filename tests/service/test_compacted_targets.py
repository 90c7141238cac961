"""Whether a compacted topic can hold a target whose keys are what the user asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load, without_variables

from relay.config import Config
from relay.kafka.admin import TopicInfo
from relay.topics.plan import RequiredTopic, Role, problems, warnings

TOPIC = RequiredTopic(name="orders.canal", role=Role.TARGET, partitions=1)
FOUND = TopicInfo(1, {"cleanup.policy": "compact"})


def config_of(folder: Path, monkeypatch: pytest.MonkeyPatch, to: str, options: str) -> Config:
    without_variables(monkeypatch)
    text = MINIMAL.replace('to = "canal-json"', f'to = "{to}"\nto_options = {{ {options} }}')
    return load(folder, text)


@pytest.mark.parametrize(
    ("to", "options", "refusal"),
    [
        ("canal-json", "", "canal-json has no keys"),
        ("canal-json", 'key = "primary-key"', "only rows of canal-json have keys"),
        ("canal-json", 'key = "primary-key", ddl = "drop"', ""),
        ("canal-json", 'key = "primary-key", profile = "flink"', ""),
        (
            "ticdc-canal-json",
            'key = "primary-key", ddl = "drop", enable-tidb-extension = true',
            "only rows of ticdc-canal-json have keys",
        ),
        ("ticdc-debezium", 'key = "primary-key"', ""),
    ],
)
def test_rows_may_have_keys_where_the_producer_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, options: str, refusal: str
) -> None:
    found = list(problems(TOPIC, FOUND, config_of(tmp_path, monkeypatch, to, options)))
    assert len(found) == bool(refusal)
    assert all(refusal in problem for problem in found)


def test_rows_of_tables_without_a_key_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, monkeypatch, "canal-json", 'key = "primary-key", ddl = "drop"')
    first, *_ = warnings(TOPIC, FOUND, {}, config)
    assert "rows of tables without a key have none, which brokers refuse there" in first
