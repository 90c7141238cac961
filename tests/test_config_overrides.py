"""What variables and flags set, and which of them are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_support import EXAMPLE, MINIMAL, load, problems, without_variables

from relay.config import load_config
from relay.config.overrides import OTHERS
from relay.model.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SOURCE__TOPICS", "a, b")
    monkeypatch.setenv("RELAY_SOURCE__FETCH_MAX_BYTES", "1000")
    monkeypatch.setenv("RELAY_ROUTE__FROM", "canal-json")
    monkeypatch.setenv("RELAY_ROUTE__TO_OPTIONS__STRICT", "true")
    monkeypatch.setenv("RELAY_DELIVERY__COMMIT_INTERVAL_SECONDS", "0.5")
    monkeypatch.setenv("RELAY_CACHE_DIR", "/somewhere")  # not a key of the configuration
    config = load(tmp_path, MINIMAL)
    assert config.source.topics == ("a", "b")
    assert config.source.fetch_max_bytes == 1000
    assert config.source.group_id == "g"
    assert config.route.from_ == "canal-json"
    assert config.route.to_options == {"strict": "true"}
    assert config.delivery.commit_interval_seconds == 0.5


def test_the_environment_alone_may_hold_what_the_file_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_SOURCE__GROUP_ID", "from-env")
    assert load(tmp_path, MINIMAL.replace('group_id = "g"', "")).source.group_id == "from-env"


def test_variables_that_name_nothing_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SOURC__GROUP_ID", "x")
    monkeypatch.setenv("RELAY_SOURCE__GROUPID", "x")
    assert problems(tmp_path, MINIMAL) == [
        "RELAY_SOURC__GROUP_ID: unknown table 'sourc' (did you mean source?)",
        "RELAY_SOURCE__GROUPID: unknown key (did you mean group_id or group_instance_id?)",
    ]


TWO = "there are two underscores between table and key"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("RELAY_SOURCE_GROUP_ID", f"{TWO} (did you mean RELAY_SOURCE__GROUP_ID?)"),
        ("RELAY_SOURCE_SECURITY_PASSWORD", f"{TWO} (did you mean RELAY_SOURCE__SECURITY__PASSWORD?)"),
        ("RELAY_ROUTE_TO_OPTIONS_STRICT", f"{TWO} (did you mean RELAY_ROUTE__TO_OPTIONS__STRICT?)"),
        ("RELAY_HTTP_PORT", f"{TWO} (did you mean RELAY_HTTP__PORT?)"),
        ("RELAY_SOURCE_GROUPID", f"{TWO} (did you mean RELAY_SOURCE__GROUP_ID?)"),
        ("RELAY_SOURCE_WORDS", f"{TWO} (a table's variables are written RELAY_<TABLE>__<KEY>)"),
        (
            "RELAY_GROUP_ID",
            "is not a variable of relay (a table's variables are written RELAY_<TABLE>__<KEY>)",
        ),
        ("RELAY_TRACEBAK", "is not a variable of relay (did you mean RELAY_TRACEBACK?)"),
    ],
)
def test_one_underscore_is_one_too_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.setenv(name, "48151623")
    assert problems(tmp_path, MINIMAL) == [f"{name}: {problem}"]


def test_a_variable_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SOURCE", "48151623")
    assert problems(tmp_path, MINIMAL) == [
        f"RELAY_SOURCE: {TWO} (a table's variables are written RELAY_<TABLE>__<KEY>)"
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RELAY_TRACEBACK", "1"),
        ("RELAY_KERNEL", "off"),
        ("RELAY_CACHE_DIR", "/somewhere"),
        # What Kubernetes tells pods about services called relay, relay-http and relay-orders.
        ("RELAY_SERVICE_HOST", "10.0.0.7"),
        ("RELAY_SERVICE_PORT", "8080"),
        ("RELAY_SERVICE_PORT_HTTP", "8080"),
        ("RELAY_PORT", "tcp://10.0.0.7:8080"),
        ("RELAY_HTTP_PORT", "tcp://10.0.0.7:8080"),
        ("RELAY_ORDERS_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
        ("RELAY_ORDERS_PORT_8080_TCP_PROTO", "tcp"),
        ("RELAY_ORDERS_PORT_8080_TCP_PORT", "8080"),
        ("RELAY_ORDERS_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("RELAYED", "x"),
    ],
)
def test_variables_that_are_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert load(tmp_path, MINIMAL).source.group_id == "g"


def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    monkeypatch.setenv("RELAY_SOURCE__GROUP_ID", "from the environment")
    monkeypatch.setenv("RELAY_TARGET__PARTITIONS", "3")
    flags = [
        "source.group_id=blue",
        "source.security.protocol=SSL",
        "delivery.drain_timeout_seconds=2.5",
        'source.topics=["a", "b"]',
    ]
    config = load_config(path, flags)
    assert (config.source.group_id, config.target.partitions, config.route.from_) == (
        "blue",
        3,
        "ticdc-canal-json",
    )
    assert (config.source.security.protocol, config.delivery.drain_timeout_seconds) == ("SSL", 2.5)
    assert config.source.topics == ("a", "b")
    assert load_config(path).source.group_id == "from the environment"


@pytest.mark.parametrize("flag", ["source.group_id", "group_id=x", "=x", ".=x", "source.=x"])
def test_a_flag_that_names_nothing(tmp_path: Path, flag: str) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"is not of the form TABLE\.KEY=VALUE"):
        load_config(path, [flag])


def test_a_flag_of_no_key_has_near_ones(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"source\.group: unknown key"):
        load_config(path, ["source.group=x"])


SECURED = ["source.security.protocol=SASL_SSL", "source.security.username=48151623"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("48151623", "48151623"),
        ("007", "007"),
        ("1e3", "1e3"),
        ("1_000", "1_000"),
        ("true", "true"),
        ("2026-01-31", "2026-01-31"),
        ('"48151623"', "48151623"),
        ("'4815\"1623'", '4815"1623'),
        ("[1]", "[1]"),
        ("a=b", "a=b"),
        ("1\nusername = 2", "1\nusername = 2"),
    ],
)
def test_a_flag_keeps_the_text_where_the_key_is_text(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    flags = [
        *SECURED,
        f"source.security.password={text}",
        f"source.group_id={text}",
        f"route.to_options.strict={text}",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relay.config.loading.route_problems", lambda _: [])  # options have rules of their own
        config = load_config(path, [*flags, "target.create_topics=true", f"target.create_settings.x={text}"])
    assert config.source.security.password.get_secret_value() == wanted
    assert (config.source.group_id, config.source.security.username) == (wanted, "48151623")
    assert (config.route.to_options, config.target.create_settings) == ({"strict": wanted}, {"x": wanted})


def test_a_flag_of_a_list_may_be_one_name_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    assert load_config(path, ["source.topics=20260131"]).source.topics == ("20260131",)
    assert load_config(path, ["source.topics=20260131,2"]).source.topics == ("20260131", "2")
    assert load_config(path, ['source.topics=["1"]']).source.topics == ("1",)


def test_a_flag_may_be_a_table_or_a_time(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    flags = ["target.create_topics=true", 'target.create_settings={ "retention.ms" = 1 }']
    config = load_config(
        path, [*flags, "source.start=timestamp", "source.start_timestamp=2026-01-31T04:00:00Z"]
    )
    assert (config.target.create_settings, config.source.start_timestamp_ms) == (
        {"retention.ms": "1"},
        1_769_832_000_000,
    )


@pytest.mark.parametrize(
    "flags",
    [
        ["source.topics=a", "source.topics.x=b"],
        ["source.topics.x=b", "source.topics=a"],
        ["source.security=a", "source.security.password.x=b"],
        ["source.security.username=a", "source.security=b"],
    ],
)
def test_a_flag_is_no_table_and_a_value_at_once(tmp_path: Path, flags: list[str]) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"--set: '[a-z.]+' is given as a value and as a table") as raised:
        load_config(path, flags)
    assert raised.value.exit_status == 2


def test_a_number_that_no_key_can_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"source\.fetch_max_bytes: "):
        load_config(path, [f"source.fetch_max_bytes={'1' * 5000}"])


def test_every_variable_that_the_code_reads_is_known() -> None:
    """Otherwise setting it would be reported as a mistake."""
    found = {
        name
        for path in (EXAMPLE.parent / "relay").rglob("*.py")
        for name in re.findall(r'"(RELAY_[A-Z]+(?:_[A-Z]+)*)"', path.read_text())
    }
    assert found == set(OTHERS)


@pytest.mark.parametrize(
    ("before", "after", "path", "variable"),
    [
        ('"kafka:9092"', '"${KAFKA}"', "source.bootstrap_servers", "RELAY_SOURCE__BOOTSTRAP_SERVERS"),
        ('"kafka:9092"', '"$(KAFKA):9092"', "source.bootstrap_servers", "RELAY_SOURCE__BOOTSTRAP_SERVERS"),
        ('"g"', '"{{ group }}"', "source.group_id", "RELAY_SOURCE__GROUP_ID"),
        ('["orders"]', '["${TOPIC:-orders}"]', "source.topics", "RELAY_SOURCE__TOPICS"),
        (
            '"{topic}.canal"',
            '"x"\n[target.schema_registry]\nurls = ["http://${REGISTRY}:8081"]',
            "target.schema_registry.urls",
            "RELAY_TARGET__SCHEMA_REGISTRY__URLS",
        ),
    ],
)
def test_placeholders_that_nobody_has_replaced(
    tmp_path: Path, before: str, after: str, path: str, variable: str
) -> None:
    found = problems(tmp_path, MINIMAL.replace(before, after))
    said = f"{path}: contains a placeholder, and relay does not expand variables in its file (put the value there, or"
    assert [
        each for each in found if each.startswith(said) and each.endswith(f"{variable} in the environment)")
    ]


def test_a_password_may_look_like_a_placeholder(tmp_path: Path) -> None:
    security = 'protocol = "SASL_SSL"\nusername = "u"\npassword = "${a}"'
    assert load(tmp_path, f"{MINIMAL}[source.security]\n{security}\n").source.security.username == "u"


def test_a_wrong_value_is_reported_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_SOURCE__FETCH_MAX_BYTES", "lots")
    monkeypatch.setenv("RELAY_SOURCE__TOPICS", "a,b*")
    monkeypatch.setenv("RELAY_ROUTE__TO_OPTIONS__ZERO_DATE", "null")
    monkeypatch.setenv("RELAY_HTTP__PORT", "http")
    found = problems(tmp_path, MINIMAL)
    assert [each.partition(":")[0] for each in found] == [
        "RELAY_SOURCE__FETCH_MAX_BYTES", "RELAY_HTTP__PORT", "RELAY_ROUTE__TO_OPTIONS__ZERO_DATE",
    ]  # fmt: skip
    monkeypatch.delenv("RELAY_SOURCE__FETCH_MAX_BYTES")
    assert problems(tmp_path, MINIMAL)[-1].startswith("RELAY_SOURCE__TOPICS: 'b*' is a pattern")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "relay.toml", ["http.port=x"])
    assert "http.port: " in str(raised.value)


def test_mistakes_of_every_stage_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of reading, of types, of codecs, of several keys together."""
    monkeypatch.setenv("RELAY_DELIVERY__COMMIT_INTERVAL_SECONDS", "-1")
    monkeypatch.setenv("RELAY_SOURC__X", "1")
    text = (
        MINIMAL.replace('"canal-json"', '"canal-jsn"')
        .replace('group_id = "g"', "session_timeout_ms = 0")
        .replace('"{topic}.canal"', '"{topic"\ncompresion = "none"')
    )
    more = '[errors]\ndecode = "dead-letter"\ndead_letter_topic = ""\n[http]\nhost = "a b"\n[schema]\nwait_for_ddl = true\nhistory_topic = ""\n'
    assert [each.partition(":")[0] for each in problems(tmp_path, text + more)] == [
        "RELAY_SOURC__X",
        "source.group_id",
        "source.session_timeout_ms",
        "target.compresion",
        "RELAY_DELIVERY__COMMIT_INTERVAL_SECONDS",
        "errors",
        "route.to",
        "http.host",
        "target.topic",
        "schema.wait_for_ddl",
    ]


def test_consequences_of_a_mistake_are_not_reported(tmp_path: Path) -> None:
    """Without what is wrong, other keys would contradict each other, or lack something."""
    (found,) = problems(tmp_path, f'{MINIMAL}[delivery]\nmode = "exactly"\nshards = 3\n')
    assert found.startswith("delivery.mode: ")
    (found,) = problems(tmp_path, MINIMAL.replace('["orders"]', '[3]\nstart = "offsets"\nstart_offsets = {"a/0" = 1}'))  # fmt: skip
    assert found.startswith("source.topics.0: ")
    security = '[source.security]\nprotocol = "SSL"\ncertificate_file = "a"\nkey_file = 3\n'
    (found,) = problems(tmp_path, MINIMAL + security)
    assert found.startswith("source.security.key_file: ")


def test_variables_are_checked_beside_a_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_SOURC__X", "1")
    first, second = problems(tmp_path, "[route")
    assert "is not TOML" in first
    assert second.startswith("RELAY_SOURC__X: ")
