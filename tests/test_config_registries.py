"""[source.schema_registry] and [target.schema_registry]: what is checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.config import Config, load_config
from relay.config.checks import config_problems
from relay.config.registries import registry_settings, resolver_of
from relay.io import resolver
from relay.model.errors import ConfigError, NeedUnanswered
from relay.model.lookups import SchemaById

URLS = {"urls": ["https://one:8081", "https://two:8081"]}


def config(source: Any = None, target: Any = None, **route: str) -> Config:
    return Config.model_validate(
        {
            "route": {"from": "debezium-avro", "to": "debezium-avro", **route},
            "source": {
                "bootstrap_servers": "localhost:9092",
                "topics": ["t"],
                "group_id": "g",
                "schema_registry": source or {},
            },
            "target": {"topic": "out", "schema_registry": target or {}},
        }
    )


def problems(found: Config) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in config_problems(found)]


def test_a_side_in_avro_needs_a_registry() -> None:
    missing = "is missing: debezium-avro has its schemas in a schema registry"
    assert problems(config()) == [
        f"source.schema_registry.urls: {missing}",
        f"target.schema_registry.urls: {missing}",
    ]
    assert problems(config(URLS, URLS)) == []
    assert problems(config(URLS, to="canal-json")) == []
    assert problems(config(target=URLS, **{"from": "canal-json"})) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"urls": ["registry:8081"]}, "target.schema_registry.urls: is not an address"),
        ({"urls": ["http://u:pw@h"]}, "target.schema_registry.urls: contains a user or a password"),
        (
            {"urls": ["http://h"], "bearer_token": "t"},
            "target.schema_registry.urls: sends credentials over http:// in clear text",
        ),
    ],
)
def test_addresses_are_checked(given: dict[str, Any], said: str) -> None:
    assert problems(config(URLS, given)) == [said]


def test_credentials_may_go_over_http_where_that_is_allowed() -> None:
    given = {"urls": ["http://h"], "bearer_token": "t", "allow_http": True}
    assert problems(config(URLS, given)) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"username": "u"}, "username and password, or password_file, are given together"),
        ({"password": "hunter22"}, "username and password, or password_file, are given together"),
        (
            {"username": "u", "password": "hunter22", "password_file": "f"},
            "password and password_file are both given",
        ),
        (
            {"username": "u", "password": "hunter22", "bearer_token": "t"},
            "username and bearer_token are both given",
        ),
        (
            {"bearer_token": "hunter22", "bearer_token_file": "f"},
            "bearer_token and bearer_token_file are both given",
        ),
        ({"key_file": "f"}, "certificate_file and key_file are given together"),
    ],
)
def test_keys_that_contradict_each_other_are_refused_without_their_values(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        config(URLS, {**URLS, **given})
    assert "hunter22" not in str(raised.value)


def test_a_source_registers_nothing() -> None:
    with pytest.raises(ValueError, match="register_schemas"):
        config({**URLS, "register_schemas": False})
    assert not config(URLS, {**URLS, "register_schemas": False}).target.schema_registry.register_schemas


def test_everything_reaches_the_client(tmp_path: Path) -> None:
    given = {
        **URLS,
        "username": "u",
        "password": "p",
        "ca_file": "ca",
        "certificate_file": "c",
        "key_file": "k",
        "timeout_seconds": 3,
        "cache_dir": str(tmp_path),
        "register_schemas": False,
    }
    settings = registry_settings(config(URLS, given).target.schema_registry, "target")
    assert vars(settings) == {
        "table": "target.schema_registry",
        "bearer_token": "",
        "bearer_token_file": "",
        "password_file": "",
        **given,
        "urls": ("https://one:8081", "https://two:8081"),
    }


def test_files_that_cannot_be_used_are_problems_of_the_start() -> None:
    with pytest.raises(ConfigError, match=r"target.schema_registry.ca_file: /nowhere: No such file"):
        resolver_of(config(URLS, {**URLS, "ca_file": "/nowhere"}))


def test_without_a_registry_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.io.resolver.plugin_fetches", lambda: resolver.PluginFetches({}, []))
    with pytest.raises(NeedUnanswered, match=r"name a schema registry in \[source.schema_registry\]"):
        resolver_of(config()).fetch(SchemaById("source", 1))


def test_the_environment_names_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(
        '[route]\nfrom = "canal-json"\nto = "debezium-avro"\n'
        '[source]\nbootstrap_servers = "localhost:9092"\ntopics = ["t"]\ngroup_id = "g"\n'
        '[target]\ntopic = "out"\n'
    )
    monkeypatch.setenv("RELAY_TARGET__SCHEMA_REGISTRY__URLS", "https://one, https://two")
    monkeypatch.setenv("RELAY_TARGET__SCHEMA_REGISTRY__BEARER_TOKEN", "abcdefgh")
    found = load_config(path, ()).target.schema_registry
    assert found.urls == ("https://one", "https://two")
    assert found.bearer_token.get_secret_value() == "abcdefgh"
    assert "abcdefgh" not in repr(found)
