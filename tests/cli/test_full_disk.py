"""A full disk behind stdout: every command says so in a line, and ends with the status of the environment."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from config_support import MINIMAL
from support import DATA

from relay.cli import main

FULL = Path("/dev/full")
ROWS = str(DATA / "ticdc/canal-json.tidb-extension/09_dml.jsonl")
SOURCE = ("--from", "ticdc-canal-json")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@contextmanager
def full_stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    raw = FULL.open("wb", buffering=0)
    with io.TextIOWrapper(io.BufferedWriter(raw), "utf-8") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        yield


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--version",),
        ("--help",),
        ("translate", "--help"),
        ("schema-history",),
        ("dead-letters", "list", "--help"),
        ("formats",),
        ("formats", "--json"),
        ("detect", ROWS),
        ("detect", "--json", ROWS),
        ("inspect", *SOURCE, ROWS),
        ("inspect", *SOURCE, "--json", ROWS),
        ("diff", "--a", "ticdc-canal-json", ROWS, ROWS),
        ("diff", "--a", "ticdc-canal-json", "--json", ROWS, ROWS),
        ("check", "--config", "relay.toml"),
        ("translate", *SOURCE, "--to", "canal-json", "--quiet", ROWS),
    ],
    ids=" ".join,
)
def test_it_is_the_environment(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("relay.toml").write_text(MINIMAL)
    monkeypatch.setattr("sys.argv", ["relay", *arguments])
    with full_stdout(monkeypatch), pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot write ")
    assert "No space left on device" in line
    assert ended.value.code == 3


def closed(redirections: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run relay as a shell does that closes some of its streams."""
    command = [sys.executable, "-c", "from relay.cli import main; main()", *arguments]
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *command], stderr=subprocess.PIPE, check=False
    )


@pytest.mark.parametrize("arguments", [("--version",), ("detect", ROWS)], ids=" ".join)
def test_so_is_a_closed_stdout(arguments: tuple[str, ...]) -> None:
    done = closed(">&-", *arguments)
    assert done.stderr == b"error: cannot write the output: Bad file descriptor\n"
    assert done.returncode == 3


def test_a_closed_stdout_is_not_missed_by_what_writes_a_file(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    done = closed(">&- 2>&-", "translate", *SOURCE, "--to", "canal-json", ROWS, "--output", str(output))
    assert done.returncode == 0
    assert output.read_bytes()


def test_a_closed_stdin_cannot_be_read() -> None:
    done = closed("<&-", "translate", *SOURCE, "--to", "canal-json")
    assert b"error: INPUT: stdin is closed" in done.stderr
    assert done.returncode == 2
