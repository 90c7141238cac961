"""Values that no broker, no socket and no file system takes: each is a problem of the configuration, with its
key.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems, without_variables

from relay.config import load_config
from relay.config.addresses import parse_server, same_brokers
from relay.model.errors import ConfigError

INT32 = 2**31 - 1
SECURED = '[source.security]\nprotocol = "SASL_SSL"\n'
PASSWORD = 'username = "u"\npassword = "p"\n'


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def with_source(text: str) -> str:
    return MINIMAL.replace("[source]", f"[source]\n{text}")


def with_servers(servers: str) -> str:
    return MINIMAL.replace('"kafka:9092"', f"'{servers}'")


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("table", "key", "most"),
    [
        ("source", "fetch_max_bytes", INT32),
        ("source", "max_partition_fetch_bytes", INT32),
        ("source", "fetch_max_wait_ms", 10_000),
        ("source", "session_timeout_ms", INT32),
        ("source", "rebalance_timeout_ms", INT32),
        ("target", "partitions", INT32),
        ("target", "max_batch_bytes", INT32),
        ("target", "create_replication_factor", 32_767),
        ("delivery", "commit_interval_seconds", 86_400),
        ("delivery", "transaction_interval_seconds", 86_400),
        ("delivery", "delivery_timeout_seconds", 86_400),
        ("delivery", "drain_timeout_seconds", 86_400),
        ("delivery", "stall_timeout_seconds", 86_400),
    ],
)
def test_numbers_have_a_largest_value(tmp_path: Path, table: str, key: str, most: int) -> None:
    """Beyond 32 bits a request cannot be written, and the client waits for ever."""
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    (found,) = problems_with(path, f"{table}.{key}={most + 1}")
    assert found.startswith(f"{table}.{key}: input should be less than or equal to {most}, not {most + 1}")
    others = ["target.create_topics=true"]
    if key in {"rebalance_timeout_ms", "delivery_timeout_seconds", "drain_timeout_seconds"}:
        return  # its largest value asks for a stall that is longer still
    config = load_config(path, [f"{table}.{key}={most}", *others])
    assert getattr(getattr(config, table), key) == most


def problems_with(path: Path, *flags: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_config(path, flags)
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize(
    "key", ["commit_interval", "transaction_interval", "delivery_timeout", "drain_timeout", "stall_timeout"]
)
@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_seconds_are_numbers(tmp_path: Path, key: str, value: str) -> None:
    (found,) = problems(tmp_path, MINIMAL + f"[delivery]\n{key}_seconds = {value}")
    assert found.startswith(f"delivery.{key}_seconds: input should be ")


def test_a_commit_ts_has_64_bits(tmp_path: Path) -> None:
    start = 'start = "commit-ts"\nstart_commit_ts = '
    assert load(tmp_path, with_source(f"{start}{2**63 - 1}")).source.start_commit_ts == 2**63 - 1
    (found,) = problems(tmp_path, with_source(f"{start}{2**63}"))
    assert found.startswith("source.start_commit_ts: input should be less than or equal to")


# ---------------------------------------------------------------- keys of start_offsets


@pytest.mark.parametrize(
    "key",
    [
        "orders/00",
        "orders/٣",
        "orders/+0",
        "orders/-1",
        "orders/0 ",
        "orders/",
        "other/0",
        f"orders/{10**10}",
    ],
)
def test_a_start_offset_is_for_a_partition_as_it_is_written(tmp_path: Path, key: str) -> None:
    """Or it would be for none, and all would be read again."""
    (found,) = problems(tmp_path, with_source(f'start = "offsets"\nstart_offsets = {{ "{key}" = 1 }}'))
    assert (
        found == f'source: start_offsets: "{key}" is not the partition of a source topic, written "topic/0"'
    )


def test_start_offsets_name_partitions(tmp_path: Path) -> None:
    text = with_source('start = "offsets"\nstart_offsets = { "orders/0" = 0, "orders/10" = 7 }')
    assert load(tmp_path, text).source.start_offsets == {"orders/0": 0, "orders/10": 7}


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("servers", "named", "why"),
    [
        ("127.0.0.1:abc", "127.0.0.1:…", "has no port from 1 to 65535"),
        ("127.0.0.1:", "127.0.0.1:", "has no port from 1 to 65535"),
        ("127.0.0.1:99999", "127.0.0.1:99999", "has no port from 1 to 65535"),
        ("127.0.0.1:-1", "127.0.0.1:-1", "has no port from 1 to 65535"),
        ("127.0.0.1:0", "127.0.0.1:0", "has no port from 1 to 65535"),
        ("kafka:٣", "kafka:٣", "has no port from 1 to 65535"),
        ("kafka:1" + "0" * 5000, "kafka:1" + "0" * 5000, "has no port from 1 to 65535"),
        ("[::1]9092", "[::1]9092", "has no port from 1 to 65535"),
        ("[::1]:", "[::1]:", "has no port from 1 to 65535"),
        ("a:1, b:x", "b:…", "has no port from 1 to 65535"),
        ("xn--ü:1", "xn--ü:1", "has no host name"),
        ("é" * 300 + ":1", "é" * 300 + ":1", "has no host name"),
        ("a..b:1", "a..b:1", "has no host name"),
        (":9092", ":9092", "has no host name"),
        ("a b:1", "a b:1", "has no host name"),
        ("a:b:1", "a:b:1", "has no host name"),
        ("fe80::1%eth0", "fe80::1%eth0", "has no host name"),
        ("http://kafka:9092", "http://kafka:9092", "has no host name"),
        ("[::1:9092", "[::1:9092", "has no host name"),
        ("a:1,", "", "has no host name"),
        ("a:1,,b:1", "", "has no host name"),
    ],
)
def test_servers_that_are_no_addresses(tmp_path: Path, servers: str, named: str, why: str) -> None:
    shown = f"{named!r}" if len(named) <= 80 else f"{named[:80] + '…'!r}"
    wanted = f"bootstrap_servers: {shown} {why} (write host:port, several with commas between them)"
    assert problems(tmp_path, with_servers(servers)) == [f"source.{wanted}"]
    assert problems(tmp_path, MINIMAL + f"bootstrap_servers = '{servers}'") == [f"target.{wanted}"]


def test_a_password_in_a_server_is_not_shown(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, with_servers("a:1,user:s3cret@kafka:9092"))
    assert found.startswith("source.bootstrap_servers: server 2 has no host name")
    assert "s3cret" not in found


def test_a_nul_in_a_server(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, MINIMAL.replace("kafka:9092", "ka\\u0000fka:9092"))
    assert found.startswith("source.bootstrap_servers: 'ka\\x00fka:9092' has no host name")


@pytest.mark.parametrize(
    "servers",
    [
        "kafka",
        "kafka:9092",
        "kafka.example.com.:9092",
        "kafka_1:9092, kafka-2:9092",
        " kafka:9092 ",
        "10.0.0.1:65535,10.0.0.2:1",
        "::1",
        "[::1]",
        "[::1]:9092",
        "[fe80::1%eth0]:9092",
        "bücher.example:9092",
        "xn--bcher-kva.example:9092",
    ],
)
def test_servers_as_the_client_takes_them(tmp_path: Path, servers: str) -> None:
    assert load(tmp_path, with_servers(servers)).source.bootstrap_servers == servers


@pytest.mark.parametrize(
    ("server", "address", "shown"),
    [
        ("kafka", ("kafka", 9092), "kafka:9092"),
        ("kafka:9093", ("kafka", 9093), "kafka:9093"),
        ("::1", ("::1", 9092), "[::1]:9092"),
        ("[::1]", ("::1", 9092), "[::1]:9092"),
        ("[fe80::1%eth0]:9094", ("fe80::1%eth0", 9094), "[fe80::1%eth0]:9094"),
    ],
)
def test_a_server_is_a_host_and_a_port(server: str, address: tuple[str, int], shown: str) -> None:
    assert parse_server(server) == address
    assert str(parse_server(server)) == shown


@pytest.mark.parametrize("other", ["::1", "[::1]:9092", "KAFKA:9092,[::1]"])
def test_one_broker_by_several_spellings(other: str) -> None:
    assert same_brokers("[::1]", other)
    assert not same_brokers("[::2]", other)


@pytest.mark.parametrize(
    "host", ["a b", "\\u0000", "a" * 300, "..ü", "[::1]", "127.0.0.1/x", "http://x", "a:80"]
)
def test_a_host_that_cannot_be_served_at(tmp_path: Path, host: str) -> None:
    (found,) = problems(tmp_path, MINIMAL + f'[http]\nport = 8080\nhost = "{host}"')
    assert found.startswith("http.host: ")
    assert "is not a host address (such as 127.0.0.1, 0.0.0.0 or ::)" in found


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost", "fe80::1%eth0", "relay.example.com"])  # noqa: S104 - nothing is bound
def test_hosts_to_serve_at(tmp_path: Path, host: str) -> None:
    assert load(tmp_path, MINIMAL + f'[http]\nhost = "{host}"').http.host == host


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("ca_file", PASSWORD),
        ("certificate_file", PASSWORD + 'key_file = "k"\n'),
        ("key_file", PASSWORD),
        ("key_password_file", PASSWORD),
        ("password_file", 'username = "u"\n'),
        ("token_file", 'mechanism = "OAUTHBEARER"\n'),
        (
            "client_secret_file",
            'mechanism = "OAUTHBEARER"\ntoken_endpoint = "https://x/t"\nclient_id = "c"\n',
        ),
    ],
)
def test_no_path_holds_nul(tmp_path: Path, key: str, more: str) -> None:
    (found,) = problems(tmp_path, f'{MINIMAL}{SECURED}{more}{key} = "a\\u0000b"')
    assert found == f"source.security.{key}: contains a NUL character, which paths cannot have"


@pytest.mark.parametrize("side", ["from", "to"])
def test_no_storage_holds_nul(tmp_path: Path, side: str) -> None:
    option = f'{side}_options = {{ claim-check-storage-uri = "file:///a\\u0000b" }}\n[source]'
    text = MINIMAL.replace('to = "canal-json"', 'to = "ticdc-canal-json"').replace("[source]", option)
    found = problems(tmp_path, text)
    assert found == [
        f"route.{side}_options.claim-check-storage-uri: contains a NUL character, which paths cannot have"
    ]


def test_the_files_own_path_holds_no_nul(tmp_path: Path) -> None:
    (found,) = problems_with(tmp_path / "a\0b.toml")
    assert "cannot be read" in found


# ---------------------------------------------------------------- keys that belong to no table


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("_env_prefix", '"FOO_"'),
        ("_secrets_dir", '"/x"'),
        ("_cli_parse_args", "true"),
        ("_build_sources", "3"),
        ("__pydantic_self__", "1"),
        ("self", "3"),
    ],
)
def test_what_is_no_table_is_no_key(tmp_path: Path, key: str, value: str) -> None:
    """Also where pydantic's constructor has an argument of that name."""
    (found,) = problems(tmp_path, f"{key} = {value}\n{MINIMAL}")
    assert found.startswith(f"{key}: unknown key (")


# ---------------------------------------------------------------- files that are no configuration


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "{a = " * 5000 + "1" + "}" * 5000]
)
def test_a_file_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    (found,) = problems(tmp_path, text)
    assert found.endswith("is not readable TOML: lists or tables are nested too deeply")


def test_a_file_with_a_number_that_is_too_long(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"{MINIMAL}partitions = {'1' * 5000}")
    assert "cannot be read: Exceeds the limit" in found


def test_a_flag_that_is_nested_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    (found,) = problems_with(path, "source.start_offsets=" + "[" * 5000 + "]" * 5000)
    assert found == "source.start_offsets: must be a table, as {a = 1}"


# ---------------------------------------------------------------- the schema history's own name


def test_groups_that_differ_have_histories_that_differ(tmp_path: Path) -> None:
    groups = ["x/eu", "x eu", "x-eu", "x:eu", "x·eu"]
    found = {
        load(tmp_path, MINIMAL.replace('group_id = "g"', f'group_id = "{group}"')).history_topic
        for group in groups
    }
    assert len(found) == len(groups)
    assert "relay.schema-history.x-eu" in found
    assert "relay.schema-history.x-eu-d2105d6d" in found


def test_a_history_with_a_name_of_its_own_keeps_it(tmp_path: Path) -> None:
    text = (
        MINIMAL.replace('group_id = "g"', 'group_id = "x/eu"') + '[schema]\nhistory_topic = "orders.history"'
    )
    assert load(tmp_path, text).history_topic == "orders.history"


def test_a_transaction_must_end_before_the_brokers_end_it(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    flags = ["delivery.mode=exactly-once", "delivery.delivery_timeout_seconds=60"]
    (found,) = problems_with(path, *flags, "delivery.transaction_interval_seconds=140")
    assert found.startswith(
        "delivery.transaction_interval_seconds: is 140 s, and the brokers abort a transaction of that length"
    )
    assert (
        load_config(
            path, [*flags, "delivery.transaction_interval_seconds=139"]
        ).delivery.transaction_timeout_seconds
        == 150
    )


# ---------------------------------------------------------------- secrets after a typing mistake

SECRETS = ("HIDDEN", "HID", "DEN", "hidden")
BEARER_HIDDEN = SECURED + "mechanism = 'OAUTHBEARER'\n"


@pytest.mark.parametrize(
    "servers",
    [
        "u:HIDDEN,x@kafka:9092",
        "u:HID,DEN@kafka:9092",
        "HIDDEN,u@kafka:9092",
        "kafka:9092,u:HIDDEN@kafka",
        "u:HIDDEN",
        "kafka:HIDDEN",
        "u:HIDDEN:9092",
        "SASL_SSL://u:HIDDEN@kafka:9092",
        "SASL_SSL://u:HIDDEN",
        "SASL_SSL://u:HID/DEN@kafka",
    ],
)
def test_a_password_among_the_servers_is_redacted(tmp_path: Path, servers: str) -> None:
    found = problems(tmp_path, with_servers(servers))
    assert found
    assert not any(secret in text for text in found for secret in SECRETS)


@pytest.mark.parametrize(
    "text",
    [
        "[source.security]\nprotocol = 'HIDDEN'",
        "[source.security]\nmechanism = 'HIDDEN'",
        "[errors]\ndecode = 'HIDDEN'",
        "[http]\nhost = 'https://u:HIDDEN@x'",
        "[http]\nport = 'HIDDEN'",
        "[schema]\nhistory_topic = 'SASL_SSL://u:HIDDEN@x'",
        BEARER_HIDDEN + "token_endpoint = 'https://u:HIDDEN@x'\nclient_id = 'u'\nclient_secret = 'HIDDEN'",
        BEARER_HIDDEN + "token_endpoint = 'https://[HIDDEN'\nclient_id = 'u'\nclient_secret = 'HIDDEN'",
        # The net beneath: the name of a topic that is the password.
        SECURED + "username = 'u'\npassword = 'HIDDEN!'\n[schema]\nhistory_topic = 'HIDDEN!'",
    ],
)
def test_a_password_in_another_key_is_redacted(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, MINIMAL + text)
    assert found
    assert not any(secret in line for line in found for secret in SECRETS)


@pytest.mark.parametrize(
    "flag",
    [
        "source.security.password:HIDDEN=",
        "HIDDEN@x",
        "source.security.password HIDDEN=x",
        "source.security.protocol=HIDDEN",
        "route.to_options.claim-check-storage-uri=s3://K:HID/DEN@b",
    ],
)
def test_a_password_in_a_flag_is_redacted(tmp_path: Path, flag: str) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    found = problems_with(path, flag)
    assert found
    assert not any(secret in line for line in found for secret in SECRETS)


BEARER = (
    "[source.security]\nprotocol = 'SASL_SSL'\nmechanism = 'OAUTHBEARER'\nclient_id = 'u'\n"
    "client_secret = 'x'\ntoken_endpoint = "
)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://idp.example/token",
        "http://localhost:8080/token",
        "http://127.0.0.1/token",
        "http://127.9.9.9/token",
        "http://[::1]:8080/token",
    ],
)
def test_a_token_endpoint_that_is_fine(tmp_path: Path, endpoint: str) -> None:
    load(tmp_path, f"{MINIMAL}{BEARER}'{endpoint}'")


@pytest.mark.parametrize(
    ("endpoint", "wrong"),
    [
        ("http://idp.example/token", "sends client_secret over http://"),
        ("HTTP://10.0.0.1/token", "sends client_secret over http://"),
        ("http://localhost.example/token", "sends client_secret over http://"),
        ("http://[fe80::1]/token", "sends client_secret over http://"),
        ("ftp://idp.example/token", "is not an address"),
        ("idp.example/token", "is not an address"),
        ("https://[x/token", "is not an address"),
        ("https://idp.example:x/token", "is not an address"),
        ("https://u@idp.example/token", "contains a user or a password"),
    ],
)
def test_a_token_endpoint_that_is_not(tmp_path: Path, endpoint: str, wrong: str) -> None:
    (found,) = problems(tmp_path, f"{MINIMAL}{BEARER}'{endpoint}'")
    assert f"source.security: token_endpoint {wrong}" in found


def test_a_token_endpoint_over_http_may_be_allowed(tmp_path: Path) -> None:
    load(tmp_path, f"{MINIMAL}{BEARER}'http://idp.example/token'\ntoken_endpoint_allow_http = true")
