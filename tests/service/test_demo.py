"""`relay demo` as users run it: it ends by itself, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path

import pytest
from wrong_kernel_support import wrong_kernel

from relay.demo.play import PARTITIONS, captured_records, is_ddl

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.usefixtures("broker"),
]  # the broker's fixture decides about a missing extra


async def demo(folder: Path, *arguments: str, environment: Mapping[str, str] = os.environ) -> Process:
    changed = {**environment, "TMPDIR": str(folder)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "relay", "demo", *arguments, stdout=PIPE, stderr=STDOUT, env=changed
    )


def check_nothing_left(folder: Path) -> None:
    """No temporary folder, and so no broker whose command line names one."""
    assert list(folder.iterdir()) == []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(folder).encode() not in process.read_bytes()
        except OSError:
            continue  # it ended while we looked


async def test_it_shows_messages_losses_and_counts_and_ends(tmp_path: Path) -> None:
    process = await demo(tmp_path)
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, text
    for expected in (
        "varchar(30)",
        '[{"name": "ann"}]',
        "ADD COLUMN",
        "records read",
        "commit-ts",
        "watermark",
        "Done",
    ):
        assert expected in text, text
    check_nothing_left(tmp_path)


async def test_keep_runs_until_it_is_stopped(tmp_path: Path) -> None:
    process = await demo(tmp_path, "--keep")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        while b"Ctrl-C ends it" not in await process.stdout.readline():
            assert process.returncode is None
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0
    check_nothing_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_start_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = await demo(tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert b"starting" in await process.stdout.readline()
        process.send_signal(number)
        await process.communicate()
    assert process.returncode == 130
    check_nothing_left(tmp_path)


def test_the_captured_records_are_spread_as_ticdc_does() -> None:
    records = captured_records()
    assert {record.partition for record in records if is_ddl(record)} == {0}
    watermarks = [record for record in records if b"TIDB_WATERMARK" in (record.value or b"")]
    assert {record.partition for record in watermarks} == set(range(PARTITIONS))
    for partition in range(PARTITIONS):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))


async def test_a_difference_between_the_ways_ends_it(tmp_path: Path) -> None:
    process = await demo(tmp_path, environment=wrong_kernel())
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    assert process.returncode == 1
    text = " ".join(out.decode().split())
    assert "ended with status 1: templates-differ: ticdc/" in text
    assert ": another value" in text
    check_nothing_left(tmp_path)
