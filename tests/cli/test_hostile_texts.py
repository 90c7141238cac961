"""Names and values that would steer a terminal, forge a line, or never end, at every command that reads files."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]

#: ESC, C1's CSI and OSC, bells, line ends of all kinds, characters that turn text around.
HOSTILE = "\x1b[2J\x07\r\nerror: forged\x7f\x85\x9b31m\x9d0;title\x9c\u2028\u2029\u202e\u2066\ufeffz"
#: The most that one error may print.
LONGEST = 2_100
READERS = {
    "canal-json": "from",
    "ticdc-canal-json": "from",
    "ckafka-json": "from",
    "ticdc-open-protocol": "from",
    "ticdc-debezium": "from",
    "ticdc-simple-json": "from",
}


def row(column: str, value: str, table: str = "t") -> bytes:
    """A Canal row with one column, whose value does not fit its type."""
    message: dict[str, Any] = {
        "id": 0,
        "database": "d",
        "table": table,
        "pkNames": None,
        "isDdl": False,
        "type": "INSERT",
        "es": 1,
        "ts": 1,
        "sql": "",
        "sqlType": {column: 4},
        "mysqlType": {column: "int"},
        "data": [{column: value}],
        "old": None,
    }
    return json.dumps(message).encode()


def record(value: bytes, topic: str = "t") -> bytes:
    fields = {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1,
        "key": None,
        "value": value.decode(),
    }
    return json.dumps(fields).encode() + b"\n"


def check(result: Result, *, errors: int = 1) -> None:
    """Every line is relay's own, printable, and has an end."""
    for text in (result.stdout, result.stderr):
        found = {unicodedata.category(char) for char in text.replace("\n", "")}
        assert not found & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert "\nerror: forged" not in text
    said = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == errors
    assert all(len(line) <= LONGEST for line in said)


@pytest.mark.parametrize("command", ["translate", "inspect", "inspect --json"])
@pytest.mark.parametrize("kind", ["column", "table", "topic"])
@pytest.mark.parametrize("name", [HOSTILE, HOSTILE + "x" * 3_000_000, "\ud800\udfff\udc80"])
def test_names_in_errors(relay: Run, command: str, kind: str, name: str) -> None:
    names = {"column": "c", "table": "t", "topic": "t"} | {kind: name}
    if kind == "topic":
        names["topic"] = name.encode(errors="replace").decode()
    data = record(row(names["column"], "no number", names["table"]), names["topic"])
    words = command.split()
    target = ["--to", "ticdc-open-protocol", "--quiet"] if words[0] == "translate" else []
    result = relay(words[0], "--from", "canal-json", *target, *words[1:], input=data)
    assert result.exit_code == 2
    check(result)


@pytest.mark.parametrize("name", [HOSTILE, "名\U000e0041"])
def test_names_in_json_keep_their_value_and_steer_nothing(relay: Run, name: str) -> None:
    data = record(row(name, "1"))
    result = relay("inspect", "--from", "canal-json", "--json", input=data)
    assert result.exit_code == 0, result.stderr
    check(result, errors=0)
    (column,) = json.loads(result.stdout)["columns"]
    assert column["name"] == name


def test_garbage_in_every_protocol_prints_harmless_errors(relay: Run) -> None:
    bodies = (
        HOSTILE.encode(),
        json.dumps({HOSTILE: HOSTILE}).encode(),
        b'{"type":"' + HOSTILE.encode("utf-8") + b'"}',
    )
    for protocol in READERS:
        data = b"".join(record(body) for body in bodies)
        check(relay("inspect", "--from", protocol, input=data), errors=len(bodies))


def test_a_traceback_forges_no_line(relay: Run) -> None:
    result = relay(
        "--traceback", "inspect", "--from", "canal-json", "-", input=b'{"partition":0,"value":5}\n'
    )
    assert result.exit_code == 2
    assert all(line.startswith(("| ", "error: ")) for line in result.stderr.splitlines())


def test_a_terminal_without_utf_8_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(record(row("名\x9b", "1")))
    command = [sys.executable, "-m", "relay", "inspect", "--from", "canal-json", str(path)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u540d\\x9b" in done.stdout


def test_records_on_a_terminal_steer_nothing(tmp_path: Path) -> None:
    """Written into a file they stay as they are: the same JSON either way."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(record(row("c\x9b1m\u2066", "\x9b2J\u202e")))
    command = [
        sys.executable,
        "-m",
        "relay",
        "translate",
        "--quiet",
        "--from",
        "canal-json",
        "--to",
        "canal-json",
        str(path),
    ]
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.PIPE):
        os.close(slave)
        printed = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            printed += part
    os.close(master)
    assert b"\\u009b2J\\u202e" in printed or b"\\\\u009b" in printed
    shown = printed.decode()
    assert not {char for char in shown if not char.isprintable()} - {"\r", "\n"}


@pytest.mark.parametrize("name", ["pipe", "device"])
@pytest.mark.parametrize(
    "command",
    [
        ("translate", "--from", "canal-json", "--to", "canal-json"),
        ("inspect", "--from", "canal-json"),
        ("check", "--config"),
        ("run", "--config"),
    ],
)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero")}[name]
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-m", "relay", *command, str(path)]
    done = subprocess.run(words, capture_output=True, check=False, timeout=20)
    assert done.returncode == 2
    assert b"error" in done.stderr + done.stdout


def test_a_pipe_that_the_shell_hands_over_is_read(tmp_path: Path) -> None:
    command = f"{sys.executable} -m relay inspect --from canal-json <(cat {tmp_path / 'in'})"
    (tmp_path / "in").write_bytes(record(row("c", "1")))
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=20)
    assert (done.returncode, b"d.t" in done.stdout) == (0, True)
