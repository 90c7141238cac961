"""Two runs with one checkpoint: the second is refused, and a run that was killed is replaced."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relay.model.errors import ServiceError
from spark_backfill.lease import Holder, Lease, pid_space


def lease(spark: Any, folder: Path) -> Lease:
    return Lease(spark, str(folder), renew_seconds=0.2, watch_seconds=2.0)


def held_by(folder: Path, host: str, pid: int, **more: str) -> Path:
    """A lease that another run has left."""
    file = folder / "relay" / "lease.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"run": "other", "host": host, "pid": pid, "renewals": 3} | more))
    return file


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_second_run_is_refused_while_the_first_one_lives(spark: Any, tmp_path: Path) -> None:
    with (
        lease(spark, tmp_path) as first,
        pytest.raises(ServiceError, match="is using this checkpoint"),
        lease(spark, tmp_path),
    ):
        raise AssertionError("two runs hold one lease")
    assert not first.is_held()
    with lease(spark, tmp_path):
        pass
    assert list((tmp_path / "relay").glob("lease.json")) == []


def test_a_run_that_was_killed_on_this_machine_is_replaced_at_once(spark: Any, tmp_path: Path) -> None:
    held_by(tmp_path, platform.node(), dead_process(), pid_space=pid_space())
    said: list[str] = []
    with Lease(spark, str(tmp_path), said.append, watch_seconds=600) as taken:
        taken.check()
    assert said == []


@pytest.mark.skipif(not pid_space(), reason="the system does not tell boot and PID namespace")
def test_a_process_id_counts_only_in_its_own_pid_namespace() -> None:
    boot, namespace = pid_space().split()
    ended = Holder("other", platform.node(), dead_process(), 3, f"{boot} {namespace}")
    assert ended.is_gone
    assert not ended._replace(pid_space=f"{boot} pid:[1]").is_gone, "two containers with one host name"
    assert not ended._replace(pid_space=f"{'0' * len(boot)} {namespace}").is_gone, (
        "two machines with one name"
    )
    assert not ended._replace(host="elsewhere").is_gone
    assert not ended._replace(pid_space="").is_gone, "a lease of an older version"
    assert not ended._replace(pid=os.getpid()).is_gone


def test_a_system_that_tells_no_pid_namespace_recognizes_no_process() -> None:
    unknown = pid_space(Path("/nowhere"))
    assert unknown == ""
    assert not Holder("other", platform.node(), dead_process(), 3, unknown).is_gone


def test_a_lease_of_an_older_version_is_read(spark: Any, tmp_path: Path) -> None:
    held_by(tmp_path, platform.node(), dead_process())
    said: list[str] = []
    with Lease(spark, str(tmp_path), said.append, watch_seconds=1.0) as taken:
        taken.check()
    assert len(said) == 1, "it is watched"


def test_a_run_of_another_machine_is_replaced_if_it_gives_no_sign(spark: Any, tmp_path: Path) -> None:
    held_by(tmp_path, "elsewhere", 7)
    with lease(spark, tmp_path) as taken:
        taken.check()


@pytest.mark.parametrize("text", ["", '{"run": "oth'])
def test_a_run_that_was_killed_while_it_wrote_the_lease_is_replaced(
    text: str, spark: Any, tmp_path: Path
) -> None:
    held_by(tmp_path, "elsewhere", 7).write_text(text)
    said: list[str] = []
    with Lease(spark, str(tmp_path), said.append, renew_seconds=0.2, watch_seconds=0.5) as taken:
        taken.check()
    assert said == [
        f"{tmp_path}/relay/lease.json cannot be read: waiting to check whether another run is using it"
    ]


def test_a_live_run_that_was_writing_the_lease_is_not_replaced(spark: Any, tmp_path: Path) -> None:
    file = held_by(tmp_path, "elsewhere", 7)
    text = file.read_text()
    file.write_text("")

    def renew(_: str) -> None:
        file.write_text(text)

    with (
        pytest.raises(ServiceError, match="another run, process 7 on elsewhere, is using this checkpoint"),
        Lease(spark, str(tmp_path), renew),
    ):
        raise AssertionError("two runs hold one lease")


def test_a_lease_that_cannot_be_read_for_a_while_is_renewed_afterwards(spark: Any, tmp_path: Path) -> None:
    with lease(spark, tmp_path) as held:
        file = tmp_path / "relay" / "lease.json"
        text = file.read_text()
        (tmp_path / "relay" / ".lease.json.crc").unlink(missing_ok=True)
        file.write_text("{")
        with pytest.raises(ServiceError, match="cannot be read"):
            held.check()
        time.sleep(0.5)
        (tmp_path / "relay" / ".lease.json.crc").unlink(missing_ok=True)
        file.write_text(text)
        deadline = time.monotonic() + 10
        while json.loads(file.read_text() or text) == json.loads(text):
            assert time.monotonic() < deadline, "the lease is not renewed any more"
            time.sleep(0.1)


def test_a_run_whose_lease_was_taken_writes_no_step(spark: Any, tmp_path: Path) -> None:
    with lease(spark, tmp_path) as first:
        file = tmp_path / "relay" / "lease.json"
        found = json.loads(file.read_text()) | {"run": "other", "host": "elsewhere"}
        (tmp_path / "relay" / ".lease.json.crc").unlink(missing_ok=True)
        file.write_text(json.dumps(found))
        with pytest.raises(ServiceError, match=r"process .* on elsewhere, is using this checkpoint"):
            first.check()
    assert file.exists(), "a lease of another run is left alone"
