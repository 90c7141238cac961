"""Signals that ask relay to stop, without a relay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from relay.service.loop.stopping import STOP_SIGNALS

#: Begins and ends many times to be stopped by signals. Between the blocks, signals are only counted.
BLOCKS = """\
import asyncio, signal, sys
from relay.service.loop.stopping import STOP_SIGNALS, stopped_by_signals

def count(*_): pass

async def run():
    for number in STOP_SIGNALS:
        signal.signal(number, count)
    print("ready", flush=True)
    for block in range(200):
        for number in STOP_SIGNALS:
            signal.signal(number, count)
        with stopped_by_signals(lambda: None):
            await asyncio.sleep(0)

asyncio.run(run())
"""
#: Waits for a signal, and then sends one more to itself.
WAITS = """\
import asyncio, os, signal, sys
from relay.service.loop.stopping import stopped_by_signals

async def run():
    stop = asyncio.Event()
    with stopped_by_signals(stop.set):
        print("ready", flush=True)
        await asyncio.wait_for(stop.wait(), 10)
    os.kill(os.getpid(), int(sys.argv[1]))
    print("stopped", flush=True)

asyncio.run(run())
"""


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_signal_at_the_end_of_a_run_does_not_change_the_exit_status() -> None:
    process = started(BLOCKS)
    while process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_each_signal_stops_once_and_is_ignored_afterwards(number: signal.Signals) -> None:
    process = started(WAITS, str(int(number)))
    os.kill(process.pid, number)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output, errors) == (0, "stopped\n", "")


def test_a_signal_that_is_ignored_already_stays_ignored() -> None:
    ignoring = f"import signal; signal.signal({int(signal.SIGHUP)}, signal.SIG_IGN)\n{WAITS}"
    process = started(ignoring, str(int(signal.SIGHUP)))
    os.kill(process.pid, signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.5)
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, output) == (0, "stopped\n")
