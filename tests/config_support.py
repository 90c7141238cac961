"""A smallest configuration, and what relay says about others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relay.config import Config, load_config
from relay.model.errors import ConfigError

EXAMPLE = Path(__file__).parent.parent / "config.example.toml"

MINIMAL = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
[source]
bootstrap_servers = "kafka:9092"
topics = ["orders"]
group_id = "g"
[target]
topic = "{topic}.canal"
"""


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "relay.toml"
    path.write_text(text)
    return load_config(path)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert raised.value.exit_status == 2
    return [str(problem) for problem in raised.value.problems]


def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what this machine's environment says to relay."""
    for name in [name for name in os.environ if name.startswith("RELAY_")]:
        monkeypatch.delenv(name)
