"""Two runs give the same bytes, whatever surrounds them; and no command prints a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import DATA

ROUTES = {
    "ticdc/canal-json.tidb-extension/09_dml": ("ticdc-canal-json", ("canal-json", "ticdc-open-protocol")),
    "ticdc/open-protocol/09_dml": ("ticdc-open-protocol", ("ticdc-debezium", "ckafka-json")),
    "ticdc/debezium/05_charsets": ("ticdc-debezium", ("ticdc-canal-json", "canal-json")),
}
#: What a run could depend on: the order of sets, the host's zone and language, the folder, the machine's name.
SURROUNDINGS = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "HOME": "/nowhere"},
    {"PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "USER": "somebody"},
)


def relay(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "relay", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("name", ROUTES)
def test_two_runs_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    source, targets = ROUTES[name]
    for target in targets:
        written = []
        for number, variables in enumerate(SURROUNDINGS):
            folder = tmp_path / f"{target}-{number}"
            folder.mkdir()
            words = (
                "--from",
                source,
                "--to",
                target,
                "--partitions",
                "3",
                "--quiet",
                str(DATA / f"{name}.jsonl"),
            )
            ran = relay("translate", *words, cwd=folder, **variables)
            assert ran.returncode == 0, ran.stderr
            written.append(ran.stdout)
        assert written[0]
        assert written[0] == written[1]


SECRETS = {
    "source.security.password": "canary-1-battery",
    "target.security.password": "canary-2-staple",
    "target.security.key_password": "canary-3-horse",
    "uri": "canary-4-correct",
}
CONFIG = """
[route]
from = "ticdc-open-protocol"
to = "ticdc-open-protocol"
from_options = {{ claim-check-storage-uri = "memory://user:{uri}@bucket/x" }}
[source]
bootstrap_servers = "127.0.0.1:1"
topics = ["orders"]
group_id = "g"
[source.security]
protocol = "SASL_PLAINTEXT"
username = "u"
password = "{source}"
[target]
topic = "{{topic}}.out"
bootstrap_servers = "127.0.0.1:2"
[target.security]
protocol = "SASL_SSL"
mechanism = "SCRAM-SHA-512"
username = "u"
{more}
[errors]
dead_letter_topic = "dead"
[delivery]
stall_timeout_seconds = 200
"""


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("check", "--connect"),
        ("run",),
        ("explain", "--partition", "0", "--offset", "0"),
        ("dead-letters", "list"),
        ("dead-letters", "show", "0/0"),
        ("schema-history", "show"),
        ("check", "--set", "route.to=nothing"),
        ("check", "--set", "source.nothing=1", "--set", "target.security.protocol=PLAINTEXT"),
    ],
    ids=" ".join,
)
def test_no_command_prints_a_secret(command: tuple[str, ...], tmp_path: Path) -> None:
    """Also those of the environment and of files, and with a traceback."""
    secret = tmp_path / "secret"
    secret.write_text(SECRETS["target.security.password"])
    more = f'password_file = "{secret}"'
    text = CONFIG.format(uri=SECRETS["uri"], source=SECRETS["source.security.password"], more=more)
    path = tmp_path / "relay.toml"
    path.write_text(text)
    variables = {"RELAY_TARGET__SECURITY__KEY_PASSWORD": SECRETS["target.security.key_password"]}
    ran = relay("--traceback", *command, "--config", str(path), cwd=tmp_path, **variables)
    assert ran.returncode in {0, 2, 3}, ran.stderr
    printed = (ran.stdout + ran.stderr).decode()
    assert printed
    assert not [where for where, secret in SECRETS.items() if secret in printed]
    assert "canary" not in json.dumps(printed)
