"""The page about settings of Kafka clients has each one that relay's clients are made with, with its value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.config import Config
from relay.config.kafka import consumer_settings, transactional_settings
from relay.io.kafka import sink, source
from relay.io.kafka.sink import TransactionalSink
from relay.io.kafka.source import KafkaSource

PAGE = Path(__file__).parents[2] / "docs/operations/client-settings.md"
CONFIG = Config.model_validate(
    {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "b:1", "topics": ["t"], "group_id": "g"},
        "target": {"topic": "u"},
        "delivery": {"mode": "exactly-once"},
    }
)


class Made(Exception):
    """A client would be made."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments


def making(**arguments: Any) -> Any:
    raise Made(**arguments)


def rows(section: str) -> dict[str, str]:
    """The settings of a section, and their keys or values."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return {cell[1].strip("`"): cell[2] for cell in cells}


def check(section: str, arguments: dict[str, Any], values: dict[str, str]) -> None:
    """Each argument has a row, and rows with a fixed value have that of the client."""
    documented = rows(section)
    assert {name.replace("_", ".") for name in arguments} - {"security.protocol"} <= set(documented)
    for name, value in values.items():
        assert documented[name].startswith(f"`{value}`"), name
        given = arguments[name.replace(".", "_")]
        assert str(given).lower() == value


def test_the_consumers_settings_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "AIOKafkaConsumer", making)
    with pytest.raises(Made) as made:
        KafkaSource(consumer_settings(CONFIG))
    fixed = {
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "client.id": "relay",
    }
    check("Consumer", made.value.arguments, fixed)
    assert made.value.arguments["metadata_max_age_ms"] == 30_000
    assert rows("Consumer")["metadata.max.age.ms"] == "`metadata_max_age_ms`"


def test_the_producers_settings_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "AIOKafkaProducer", making)
    with pytest.raises(Made) as made:
        TransactionalSink(transactional_settings(CONFIG), {"u": 1_048_588})
    check("Producer", made.value.arguments, {"enable.idempotence": "true", "client.id": "relay"})
