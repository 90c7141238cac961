"""`relay check`, as a program: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from secured_support import GROUP, PASSWORD, SECRETS, TOPIC, USER, Secured
from typer.testing import Result

from relay.demo.kafka import free_ports
from relay.io.kafka.requests import Operation

CONFIG = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
[source]
bootstrap_servers = "{servers}"
topics = ["{source}"]
group_id = "g-{source}"
[target]
topic = "{target}"
[schema]
history_topic = ""
"""
SECURITY = """
[source.security]
protocol = "SASL_SSL"
ca_file = "{ca}"
mechanism = "SCRAM-SHA-512"
username = "{user}"
password_file = "{password_file}"
"""


def check(folder: Path, text: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Exit status, standard output and errors."""
    path = folder / "relay.toml"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "relay", "check", "--config", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | variables,
    )
    assert not any(secret in done.stdout + done.stderr for secret in SECRETS)
    return done.returncode, done.stdout, done.stderr


def check_here(relay: Callable[..., Result], folder: Path, text: str) -> tuple[int, str, str]:
    """The same in this process, for what does not hang on a process of its own."""
    path = folder / "relay.toml"
    path.write_text(text)
    done = relay("check", "--config", path)
    return done.exit_code, done.stdout, done.stderr


def secured_config(secured: Secured, folder: Path, source: str, target: str, password: str = PASSWORD) -> str:
    (folder / "password").write_text(password + "\n")
    security = SECURITY.format(ca=secured.folder / "ca.pem", user=USER, password_file=folder / "password")
    return CONFIG.format(servers=secured.address("SASL_SSL"), source=source, target=target) + security


def test_without_connect_no_broker_is_asked(tmp_path: Path) -> None:
    text = CONFIG.format(servers="kafka.invalid:9092", source="orders", target="orders.canal")
    status, out, errors = check(
        tmp_path, text + SECURITY.format(ca="/ca.pem", user=USER, password_file="/pw")
    )
    assert status == 0
    assert out.splitlines()[0] == "configuration is valid"
    assert errors.splitlines() == [
        f"warning: source.security.{name} cannot be read: No such file or directory (`relay run` needs it in its "
        "own environment, and exits with status 2 without it)"
        for name in ("ca_file: /ca.pem", "password_file: /pw")
    ]
    assert "orders → orders.canal" in out


FILES = """
[target]
bootstrap_servers = "b.invalid:9092"
topic = "{topic}.x"
[target.security]
protocol = "SSL"
ca_file = "empty"
certificate_file = "nowhere.pem"
key_file = "folder"
[source.schema_registry]
urls = ["https://registry.invalid"]
ca_file = "nowhere.pem"
username = "u"
password_file = "nowhere"
[schema]
schema_dumps = "nowhere.sql"
"""


def test_missing_files_are_reported_with_all_other_problems(
    relay: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("folder").mkdir()
    text = CONFIG.format(servers="kafka.invalid:9092", source="orders", target="orders.canal")
    text = text[: text.index("[target]")] + SECURITY.format(ca="ca.pem", user="u", password_file="secret")
    text = text.replace("[source]", '[source]\nfetch_max_bytes = "lots"\nunknown = 1')
    Path("relay.toml").write_text(f'{text}{FILES}unknown = 1\n[http]\nport = "web"\n')
    result = relay("check", "--connect", "--config", "relay.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    nothing = "cannot be read: No such file or directory"
    said = result.stderr.splitlines()
    keys = [line.split(": ")[1] for line in said]
    assert keys[:4] == ["source.fetch_max_bytes", "source.unknown", "schema.unknown", "http.port"]
    assert said[4:] == [
        f"error: source.security.ca_file: ca.pem {nothing}",
        f"error: source.security.password_file: secret {nothing}",
        "error: target.security.ca_file: empty is empty",
        f"error: target.security.certificate_file: nowhere.pem {nothing}",
        "error: target.security.key_file: folder cannot be read: Is a directory",
        f"error: source.schema_registry.password_file: nowhere {nothing}",
        "error: source.schema_registry.ca_file: nowhere.pem: No such file or directory",
        "error: schema.schema_dumps: cannot read nowhere.sql: No such file or directory",
    ]


WAIT = "rows wait for it"
WAITS = "rows of other partitions wait for it"
DOES_NOT_WAIT = (
    "rows of other partitions do not wait for it ({why}): rows that overtake it are translated with inferred "
    "types, counted as schema-inferred, and their tables are logged as schema.inferred and "
    "listed as inferred_tables in /status"
)


@pytest.mark.parametrize(
    ("source", "schema", "said"),
    [
        ("ticdc-canal-json", "", f"in partition 0 alone; {WAITS}"),
        ("canal-json", "wait_for_ddl = true", f"in partition 0 alone; {WAITS}"),
        (
            "ckafka-json",
            "wait_for_ddl = false",
            f"in partition 0 alone; {DOES_NOT_WAIT}".format(why="wait_for_ddl = false"),
        ),
        (
            "canal-json",
            'history_topic = ""',
            f"in partition 0 alone; {DOES_NOT_WAIT}".format(
                why='wait_for_ddl = "auto" without a history_topic'
            ),
        ),
        ("ticdc-open-protocol", "", "in every partition of the source; rows do not wait"),
        ("ticdc-debezium", "wait_for_ddl = false", "in every partition of the source; rows do not wait"),
        (
            "ticdc-debezium",
            "wait_for_ddl = true",
            f"in every partition of the source; {WAITS.replace('for it', 'for that of partition 0')}",
        ),
    ],
)
def test_what_rows_do_before_their_ddl_is_said(
    relay: Callable[..., Result], tmp_path: Path, source: str, schema: str, said: str
) -> None:
    text = CONFIG.format(servers="kafka.invalid:9092", source="orders", target="orders.out")
    text = text.replace('from = "ticdc-canal-json"', f'from = "{source}"')
    text = text.replace('history_topic = ""', schema)
    status, out, errors = check_here(relay, tmp_path, text)
    assert (status, errors) == (0, "")
    assert f"ddl     {said}" in out.splitlines()


@pytest.mark.parametrize(
    ("topics", "schema", "said"),
    [
        (
            ["shop"],
            "",
            "in partition 0 of each topic, none of which has the DDL of another; " + WAITS,
        ),
        (["shop.db.a", "shop"], "", "in shop for 1 other topic; " + WAIT),
        (
            ["eu", "orders", "shop.db.a", "shop", "shop.db.b", "eu.db.c"],
            "wait_for_ddl = true",
            "in eu for 1 other topic, in shop for 2 other topics, in partition 0 alone for the rest; " + WAIT,
        ),
        (
            ["shop.db.a", "shop"],
            "wait_for_ddl = false",
            "in shop for 1 other topic; "
            + DOES_NOT_WAIT.replace(" of other partitions", "").format(why="wait_for_ddl = false"),
        ),
    ],
)
def test_the_topic_with_the_ddl_of_others_is_named(
    relay: Callable[..., Result], tmp_path: Path, topics: list[str], schema: str, said: str
) -> None:
    text = CONFIG.format(servers="kafka.invalid:9092", source="a", target="{topic}.out")
    text = text.replace('topics = ["a"]', f"topics = {json.dumps(topics)}")
    text = text.replace('from = "ticdc-canal-json"', 'from = "debezium-json"')
    status, out, errors = check_here(relay, tmp_path, text.replace('history_topic = ""', schema))
    assert (status, errors) == (0, "")
    assert f"ddl     {said}" in out.splitlines()


def test_files_that_cannot_be_read_are_the_configurations_fault(tmp_path: Path) -> None:
    text = CONFIG.format(servers="kafka.invalid:9092", source="orders", target="orders.canal")
    security = SECURITY.format(ca="/nowhere.pem", user=USER, password_file="/nowhere")
    status, out, errors = check(tmp_path, text + security, "--connect")
    assert (status, out) == (2, "")
    assert "source.security.ca_file: /nowhere.pem cannot be read: No such file or directory" in errors
    assert "source.security.password_file: /nowhere cannot be read: No such file or directory" in errors


def test_no_broker_is_status_3(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    text = CONFIG.format(servers=f"127.0.0.1:{port}", source="orders", target="orders.canal")
    status, out, errors = check(tmp_path, text, "--connect")
    assert (status, errors) == (3, "")
    assert (
        f"FAILED    source and target 127.0.0.1:{port}: nothing listens there (connection refused); check the port"
        in out
    )
    assert "0 ok, 0 note, 1 FAILED, 0 untested; nothing was written" in out


@pytest.mark.kafka
async def test_a_route_that_can_run_is_status_0(secured: Secured, tmp_path: Path) -> None:
    source, target = await secured.topic(), await secured.topic()
    await secured.grant(TOPIC, source, Operation.READ)
    await secured.grant(TOPIC, target, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    await secured.grant(GROUP, f"g-{source}", Operation.READ)
    status, out, errors = check(tmp_path, secured_config(secured, tmp_path, source, target), "--connect")
    assert (status, errors) == (0, ""), out
    assert f"ok        source topic {source}: 1 partition, READ allowed\n" in out
    assert "6 ok, 0 note, 0 FAILED, 1 untested; nothing was written" in out


@pytest.mark.kafka
@pytest.mark.parametrize("way", ["file", "variable"])
def test_a_wrong_password_is_said_and_not_shown(secured: Secured, tmp_path: Path, way: str) -> None:
    text = secured_config(secured, tmp_path, "a", "b", "wrong-battery")
    variables: dict[str, Any] = {}
    if way == "variable":
        text = "".join(line for line in text.splitlines(keepends=True) if "password_file" not in line)
        variables = {"RELAY_SOURCE__SECURITY__PASSWORD": "wrong-battery", "RELAY_TRACEBACK": "1"}
    status, out, errors = check(tmp_path, text, "--connect", **variables)
    assert (status, errors) == (3, "")
    assert f"the broker refuses user {USER} with SCRAM-SHA-512" in out
    assert "check username and password in [source.security]" in out
