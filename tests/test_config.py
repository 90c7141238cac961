"""The configuration: every problem at once, with key path and hint; the example shows the truth."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from config_support import EXAMPLE, MINIMAL, load, problems, without_variables
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from relay.cli.check import check
from relay.cli.requests.options import ConfigSource
from relay.cli.requests.route import CheckRequest
from relay.config import Config, load_config
from relay.config.secrets import secrets_in, without_secrets
from relay.config.wiring import translator_of
from relay.model.errors import ConfigError, Problem


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


COMMENTED_KEY = re.compile(r"^# (?=[a-z_]+ = )", re.MULTILINE)


def keys(model: type[BaseModel], table: str = "") -> Iterator[tuple[str, str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{table}.{name}".lstrip("."))
        else:
            yield table, field.alias or name, field.default


TABLES = {table for table, _, _ in keys(Config)}


def tables(found: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of a TOML document by their dotted names, without the tables inside them."""
    inner = {
        name: value
        for name, value in found.items()
        if isinstance(value, dict) and f"{path}.{name}".lstrip(".") in TABLES
    }
    yield path, {name: value for name, value in found.items() if name not in inner}
    for name, value in inner.items():
        yield from tables(value, f"{path}.{name}".lstrip("."))


def test_the_example_shows_every_key_with_its_true_default() -> None:
    text = EXAMPLE.read_text()
    required, shown = tomllib.loads(text), tomllib.loads(COMMENTED_KEY.sub("", text))
    required, shown = dict(tables(required)), dict(tables(shown))
    known = {(table, key): default for table, key, default in keys(Config)}
    assert {(table, key) for table in shown for key in shown[table]} == set(known)
    for (table, key), default in known.items():
        if default is PydanticUndefined or (table, key) == ("source", "topics"):  # or topics_pattern
            assert key in required[table], (
                f"{table}.{key} must be set, so the example must not comment it out"
            )
        else:
            assert key not in required.get(table, {}), (
                f"{table}.{key} has a default, so the example must comment it out"
            )
            assert shown[table][key] == (
                default.get_secret_value()
                if isinstance(default, SecretStr)
                else list(default)
                if isinstance(default, tuple)
                else default
            )


def test_every_key_of_the_example_is_explained() -> None:
    lines = EXAMPLE.read_text().splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"(# )?[a-z_]+ = ", line):
            assert before.startswith("## "), line
            assert before.endswith("."), before


def test_the_example_loads_with_and_without_its_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert load(tmp_path, text) == load(tmp_path, COMMENTED_KEY.sub("", text))


def test_defaults_follow_the_source(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert config.target_servers == "kafka:9092"
    assert config.target_topics == {"orders": "orders.canal"}
    assert config.target_partitions is None
    assert translator_of(config).route.source.name == "ticdc-canal-json"
    assert (
        load(tmp_path, MINIMAL + "partitions = 3\nbootstrap_servers = 'other:1'").target_servers == "other:1"
    )


def test_options_may_be_booleans_numbers_and_texts(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        "[source]", 'from_options = {enable-tidb-extension = true, timezone = "UTC"}\n[source]'
    )
    assert load(tmp_path, text).route.from_options == {"enable-tidb-extension": "true", "timezone": "UTC"}


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        [route]
        from = "ticdc-canal-jsn"
        to = "canal-json"
        to_options = {strct = true}
        [source]
        bootstrap_servers = ""
        topcs = ["orders"]
        group_id = "g"
        fetch_max_bytes = -1
        start = "newest"
        [targt]
        """,
    )
    assert found == [
        "source.bootstrap_servers: must not be empty",
        "source.start: input should be 'earliest', 'latest', 'offsets', 'timestamp' or 'commit-ts'",
        "source.fetch_max_bytes: input should be greater than 0, not -1",
        "source.topcs: unknown key (did you mean topics or topics_pattern?)",
        "target: is missing (config.example.toml shows it)",
        "targt: unknown key (did you mean target or tracing?)",
        "route.from: unknown protocol 'ticdc-canal-jsn' (did you mean ticdc-canal-json or canal-json or ticdc-simple-json?)",
        "route.to_options.strct: canal-json has no option 'strct' (did you mean strict?)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "{topic}.canal",
            "{tabel}.canal",
            "target.topic: '{tabel}.canal' has an unknown placeholder; known: {topic}, {database}, {table}",
        ),
        (
            "{topic}.canal",
            "{topic}",
            "target.topic: relay would read what it writes: orders is also a source topic",
        ),
        ("{topic}.canal", "ord ers", "target.topic: 'ord ers' does not make a topic name"),
        ('["orders"]', '["a/b"]', "source.topics: 'a/b' is not a topic name"),
        ('["orders"]', "[]", "source.topics: must not be empty"),
        ('to = "canal-json"', "to = 7", "route.to: must be text in quotes"),
    ],
)
def test_topics_and_texts(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in problems(tmp_path, MINIMAL.replace(old, new)))


def test_the_same_topic_on_other_brokers_is_no_loop(tmp_path: Path) -> None:
    text = MINIMAL.replace("{topic}.canal", "{topic}") + "bootstrap_servers = 'elsewhere:9092'"
    assert load(tmp_path, text).target_topics == {"orders": "orders"}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (missing,) = problems_of(tmp_path / "none.toml")
    assert "no such file" in missing
    (folder,) = problems_of(tmp_path)
    assert "cannot be read" in folder
    (syntax,) = problems(tmp_path, "[route]\nfrom = canal-json\n")
    assert "is not TOML" in syntax
    assert "line 2" in syntax
    assert "text values need quotes" in syntax
    (twice,) = problems(tmp_path, "[source]\n[source]\n")
    assert "is not TOML" in twice
    assert "quotes" not in twice
    (tmp_path / "latin.toml").write_bytes(b'[route]\nfrom = "\xe9"\n')
    (encoding,) = problems_of(tmp_path / "latin.toml")
    assert "cannot be read" in encoding


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    return [str(problem) for problem in raised.value.problems]


def test_the_configuration_cannot_be_changed(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        config.source.group_id = "other"


def test_check_prints_the_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    assert check(CheckRequest(config=ConfigSource(file=path))) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("configuration is valid\n")
    assert "orders → orders.canal" in printed


def test_storages_are_checked_and_their_secrets_redacted(tmp_path: Path) -> None:
    options = 'from_options = {claim-check-storage-uri = "s3://bucket/x?acess-key=hidden"}\n'
    (found,) = problems(tmp_path, MINIMAL.replace("[source]", options + "[source]"))
    assert found.startswith(
        "route.from_options.claim-check-storage-uri: unknown parameter 'acess-key' (known: access-key,"
    )
    assert "hidden" not in found


def test_check_prints_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "relay.config.checks.storage_problems", lambda _: []
    )  # the packages for s3 may not be installed
    path = tmp_path / "relay.toml"
    options = 'from_options = {claim-check-storage-uri = "s3://bucket/x?access-key=hidden"}\n'
    path.write_text(MINIMAL.replace("[source]", options + "[source]"))
    assert check(CheckRequest(config=ConfigSource(file=path))) == 0
    printed = capsys.readouterr().out
    assert "claim-check-storage-uri=s3://bucket/x)" in printed
    assert "hidden" not in printed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            '[delivery]\nshards = 2\nshard = 2\nmode = "exactly-once"',
            "delivery: shard 2 does not exist: shards are counted from 0 to 1",
        ),
        (
            "[delivery]\nshards = 2",
            'delivery.mode: shards and transactional_id are for exactly-once (set mode = "exactly-once")',
        ),
        (
            '[errors]\ndecode = "dead-letter"\ndead_letter_topic = ""',
            "errors: decode: dead-letter needs a dead_letter_topic",
        ),
        (
            '[errors]\ndead_letter_topic = "orders"',
            "errors.dead_letter_topic: orders is also in source.topics (name another topic)",
        ),
        (
            '[schema]\nhistory_topic = "orders.canal"',
            "schema.history_topic: orders.canal is also in target.topic (name another topic)",
        ),
        (
            '[schema]\nhistory_topic = "a b"',
            "schema.history_topic: 'a b' is not a topic name (Kafka allows up to 249 letters",
        ),
        (
            '[schema]\nhistory_topic = ""\nwait_for_ddl = true',
            "schema.wait_for_ddl: needs a schema history (set history_topic in [schema])",
        ),
        (
            '[source.security]\nca_file = "ca.pem"',
            "source.security: ca_file and certificate_file are for TLS",
        ),
        (
            '[source.security]\nprotocol = "SASL_SSL"\nusername = "u"',
            "source.security: mechanism PLAIN needs username and password or password_file",
        ),
        (
            '[source.security]\nprotocol = "SASL_SSL"\nmechanism = "OAUTHBEARER"',
            "source.security: mechanism OAUTHBEARER needs one of token_file and token_endpoint",
        ),
        (
            '[source.security]\nprotocol = "SASL_PLAINTEXT"\nmechanism = "AWS_MSK_IAM"',
            "source.security: mechanism AWS_MSK_IAM needs protocol SASL_SSL, not SASL_PLAINTEXT",
        ),
        *(
            (
                f'[source.security]\n{settings}\n{key} = "s3cret"',
                f"source.security: {key} needs mechanism {mechanism} and a protocol with SASL",
            )
            for mechanism, keys in {
                "AWS_MSK_IAM": ("aws_region", "aws_profile", "aws_role_arn"),
                "GSSAPI": ("keytab_file", "kerberos_principal", "kerberos_domain_name"),
            }.items()
            for key in keys
            for settings in ("", 'protocol = "SASL_SSL"\nmechanism = "PLAIN"')
        ),
        (
            '[source.security]\nprotocol = "SASL_SSL"\nusername = "u"\npassword = "s3cret"\npassword_file = "f"',
            "source.security: password and password_file are both given: keep one",
        ),
        *(
            (
                f'[source.security]\n{key} = "s3cret"',
                "source.security: credentials are for SASL: set protocol to SASL_SSL",
            )
            for key in (
                "username",
                "password",
                "password_file",
                "token_endpoint",
                "client_id",
                "client_secret_file",
            )
        ),
        (
            '[target.security]\nprotocol = "SSL"',
            "target.security: the target is the source's cluster, so [source.security] applies",
        ),
        ("[http]\nport = 70000", "http.port: input should be less than or equal to 65535, not 70000"),
        ("[http]\nprot = 1", "http.prot: unknown key (did you mean port"),
        (
            "[source.security]\npasword_file = 'x'",
            "source.security.pasword_file: unknown key (did you mean password_file",
        ),
    ],
)
def test_a_table_that_contradicts_itself(tmp_path: Path, text: str, wanted: str) -> None:
    found = problems(tmp_path, MINIMAL + text)
    assert len(found) == 1
    assert found[0].startswith(wanted)
    assert "s3cret" not in found[0]


def test_a_topic_that_is_named_twice(tmp_path: Path) -> None:
    text = MINIMAL.replace('["orders"]', '["orders", "items", "orders"]')
    assert problems(tmp_path, text) == ["source: topics: orders is named twice"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('start = "offsets"', 'source: start = "offsets" needs start_offsets'),
        ('start_offsets = { "orders/0" = 1 }', 'source: start_offsets needs start = "offsets"'),
        (
            'start = "offsets"\nstart_offsets = { "orders" = 1 }',
            'source: start_offsets: "orders" is not the partition of a source topic, written "topic/0"',
        ),
        (
            'start = "timestamp"\nstart_timestamp = "soon"',
            "source.start_timestamp: is not a time: write for example 2026-11-26T10:00",
        ),
    ],
)
def test_a_start_that_is_not_complete(tmp_path: Path, text: str, wanted: str) -> None:
    found = problems(tmp_path, MINIMAL.replace('group_id = "g"', f'group_id = "g"\n{text}'))
    assert len(found) == 1
    assert found[0].startswith(wanted)


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00+08:00", '"2026-01-31T04:00:00Z"', "2026-01-31T04:00:00"]
)
def test_a_start_in_time_is_utc_without_a_zone(tmp_path: Path, text: str) -> None:
    start = f'group_id = "g"\nstart = "timestamp"\nstart_timestamp = {text}'
    assert (
        load(tmp_path, MINIMAL.replace('group_id = "g"', start)).source.start_timestamp_ms
        == 1_769_832_000_000
    )


def test_own_topics_and_ids_follow_the_group(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL + '[delivery]\nmode = "exactly-once"\nshards = 3\nshard = 2')
    assert config.history_topic == "relay.schema-history.g"
    assert config.dead_letter_topic == "relay.dead-letters.g"
    assert config.transactional_id == "g-2"
    assert config.is_one_cluster


def test_a_group_may_have_a_name_that_no_topic_has(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL.replace('group_id = "g"', 'group_id = "blue: orders/ä"'))
    assert config.history_topic == "relay.schema-history.blue--orders---ced38a4a"


@pytest.mark.parametrize(
    "key", ["errors.dead_letter_topic", "schema.history_topic", "delivery.progress_topic"]
)
def test_an_address_in_place_of_a_topic_gives_no_secret_away(tmp_path: Path, key: str) -> None:
    """Two keys with the same wrong name were named with it."""
    table, name = key.split(".")
    for address in (
        "kafka://user:s3cr3tpw@host/x",
        "kafka://host/x?token=s3cr3tpw",
        "kafka://host?signature=s3cr3tpw",
    ):
        others = {"errors": 'dead_letter_topic = "{}"', "schema": 'history_topic = "{}"'}
        others["delivery"] = 'mode = "exactly-once"\nprogress_topic = "{}"'
        text = MINIMAL.replace("[target]", '[target]\nbootstrap_servers = "elsewhere:9092"')
        text += "".join(f"[{each}]\n{line.format(address)}\n" for each, line in others.items())
        found = problems(tmp_path, text)
        assert any(each.startswith(f"{table}.{name}: (not shown) is not a topic name") for each in found)
        assert "s3cr3tpw" not in "".join(found)


def test_addresses_in_texts_of_libraries_lose_their_passwords() -> None:
    address = "s3://user:s3cr3tpw@host/x?access-token=other-one&region=eu"
    secrets = secrets_in({"a": {"storage": address}}, {}, [])
    assert secrets == {"s3cr3tpw", "other-one"}
    (problem,) = without_secrets([Problem("a", f"no {address}", "")], secrets)
    assert str(problem) == "a: no s3://user:(not shown)@host/x?access-token=(not shown)&region=eu"


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    security = '[source.security]\nprotocol = "SASL_SSL"\nusername = "u"\npassword = "s3cret"'
    config = load(tmp_path, MINIMAL + security)
    assert config.source.security.password.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(config) + str(config.model_dump())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "[source.security]\npassword = 48151623",
            "source.security.password: must be text in quotes",
        ),
        (
            "[source.security]\nkey_password = 48151.623",
            "source.security.key_password: must be text in quotes",
        ),
        (
            "[target.security]\nclient_secret = true",
            "target.security.client_secret: must be text in quotes",
        ),
        (
            "security = 48151623",
            "target.security: must be a table",
        ),
        (
            "[errors]\ndead_letter_topic = 48151623",
            "errors.dead_letter_topic: must be text in quotes",
        ),
    ],
)
def test_numbers_in_place_of_texts_are_not_shown(tmp_path: Path, text: str, wanted: str) -> None:
    """A password of digits alone, without its quotes."""
    assert problems(tmp_path, MINIMAL + text) == [wanted]


@pytest.mark.parametrize(
    ("source", "delivery", "stall", "wait", "longest"),
    [
        (
            "",
            "stall_timeout_seconds = 90",
            "90",
            "delivery.delivery_timeout_seconds and 30 s for an answer",
            "90",
        ),
        (
            "",
            "stall_timeout_seconds = 0.5",
            "0.5",
            "delivery.delivery_timeout_seconds and 30 s for an answer",
            "90",
        ),
        (
            "",
            "delivery_timeout_seconds = 270",
            "300",
            "delivery.delivery_timeout_seconds and 30 s for an answer",
            "300",
        ),
        ("", "drain_timeout_seconds = 300", "300", "delivery.drain_timeout_seconds", "300"),
        (
            "rebalance_timeout_ms = 270_000",
            "",
            "300",
            "source.rebalance_timeout_ms and 30 s to connect",
            "300",
        ),
        (
            "rebalance_timeout_ms = 300_500",
            "",
            "300",
            "source.rebalance_timeout_ms and 30 s to connect",
            "330.5",
        ),
    ],
)
def test_a_stall_is_longer_than_every_wait(
    tmp_path: Path, source: str, delivery: str, stall: str, wait: str, longest: str
) -> None:
    """Or the watchdog would end a relay that waits as it should."""
    text = MINIMAL.replace("[source]", f"[source]\n{source}") + f"[delivery]\n{delivery}"
    message = f"is {stall} s, and relay may legitimately wait as long: {wait}, {longest} s (set it to more than {longest})"
    assert problems(tmp_path, text) == [f"delivery.stall_timeout_seconds: {message}"]


@pytest.mark.parametrize(
    ("source", "delivery"),
    [
        ("", ""),
        ("", "stall_timeout_seconds = 90.5"),
        ("", "delivery_timeout_seconds = 269"),
        ("", "drain_timeout_seconds = 299"),
        ("rebalance_timeout_ms = 269_000", ""),
        ("rebalance_timeout_ms = 300_000", 'mode = "exactly-once"'),  # shards join no group
        ("", "stall_timeout_seconds = 3600\ndelivery_timeout_seconds = 1800\ndrain_timeout_seconds = 1800"),
    ],
)
def test_a_stall_that_is_long_enough(tmp_path: Path, source: str, delivery: str) -> None:
    config = load(tmp_path, MINIMAL.replace("[source]", f"[source]\n{source}") + f"[delivery]\n{delivery}")
    assert config.delivery.stall_timeout_seconds > 90


@pytest.mark.parametrize(
    ("source", "schema", "waits"),
    [
        ("ticdc-canal-json", "", True),
        ("canal-json", "", True),
        ("ckafka-json", "", True),
        ("debezium-json", "", True),
        ("ticdc-open-protocol", "", False),
        ("ticdc-debezium", "", False),
        ("canal-json", "wait_for_ddl = false", False),
        ("canal-json", 'wait_for_ddl = "auto"', True),
        ("ticdc-open-protocol", "wait_for_ddl = true", True),
        # It would not be known what other instances have read.
        ("canal-json", 'history_topic = ""', False),
    ],
)
def test_rows_wait_where_ddl_travels_in_one_partition(
    tmp_path: Path, source: str, schema: str, waits: bool
) -> None:
    text = MINIMAL.replace("ticdc-canal-json", source).replace('"canal-json"', '"ticdc-canal-json"')
    assert load(tmp_path, f"{text}[schema]\n{schema}\n").waits_for_ddl is waits


@pytest.mark.parametrize(
    ("topics", "options", "found"),
    [
        # As a connector names its topics; those of others have the DDL of their rows themselves.
        (
            ["shop", "shop.db.t", "shop.transaction", "shops.db.t"],
            {},
            {"shop": ["shop.db.t", "shop.transaction"]},
        ),
        (["shop.db.t"], {}, {}),
        (
            ["shop.eu.db.t", "shop.eu", "shop", "shop.db.t"],
            {},
            {"shop.eu": ["shop.eu.db.t"], "shop": ["shop.db.t"]},
        ),
        # A table's name may have dots, and begin like another's.
        (
            ["shop", "shop.db.t", "shop.db.t.old", "shop.db.u"],
            {},
            {"shop": ["shop.db.t", "shop.db.t.old", "shop.db.u"]},
        ),
        # Topics that were renamed, or with another `topic.delimiter`.
        (["shop", "shop_db_t", "orders"], {"topic.prefix": "shop"}, {"shop": ["shop_db_t", "orders"]}),
        (["shop", "eu", "eu.t", "orders"], {"topic.prefix": "shop"}, {"shop": ["orders"], "eu": ["eu.t"]}),
        (["shop.db.t", "orders"], {"topic.prefix": "shop"}, {}),
        (["relay", "orders"], {}, {}),
    ],
)
def test_a_connector_has_a_topic_for_ddl(
    topics: list[str], options: dict[str, str], found: dict[str, list[str]]
) -> None:
    tables: dict[str, Any] = {
        "route": {"from": "debezium-json", "to": "canal-json", "from_options": options},
        "source": {"bootstrap_servers": "b:1", "topics": topics, "group_id": "g"},
        "target": {"topic": "out"},
    }
    others = {topic: first for first, rows in found.items() for topic in rows}
    assert Config(**tables).ddl_topics == {topic: others.get(topic, topic) for topic in topics}
    tables["route"] = {"from": "canal-json", "to": "debezium-json", "to_options": options}
    assert Config(**tables).ddl_topics == {topic: topic for topic in topics}
