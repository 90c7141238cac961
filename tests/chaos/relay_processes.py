"""The relay processes of a run: started, killed, stopped, watched. A life is one process from its start to
its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos.broker import RunFailed

DRAIN_SECONDS = 10
#: What "some seconds to disconnect" may mean, on a busy machine.
DISCONNECT_SECONDS = 20
FENCED = "service.fenced"
#: Allowed only before a relay has read anything: later an outage is waited for.
UNREACHED = "service.broker-unavailable"
_WATCH_SECONDS = 0.05
_START_SECONDS = 90.0


class End(StrEnum):
    """Why a life is over."""

    RUNNING = "running"
    KILLED = "killed"
    ASKED = "asked to stop"
    ITSELF = "by itself"


class Life:
    """One process of relay."""

    def __init__(self, number: int, config: Path, folder: Path) -> None:
        self.number = number
        self.end, self.status, self.peak_mb, self.stop_seconds = End.RUNNING, 0, 0.0, 0.0
        self._log, self._errors = folder / f"relay-{number}.log", folder / f"relay-{number}.err"
        with self._log.open("wb") as log, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relay", "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
            )
        self._asked_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether nobody has noticed its end yet."""
        return self.end is End.RUNNING

    def look(self) -> None:
        """Note its memory, or that it has ended by itself."""
        self.peak_mb = max(self.peak_mb, peak_mb(self.process.pid))
        if self.is_running and self.process.poll() is not None:
            self.end, self.status = End.ITSELF, self.process.returncode

    def kill(self) -> None:
        """SIGKILL."""
        self.look()
        if self.is_running:
            self.process.kill()
            self.process.wait()
            self.end, self.status = End.KILLED, self.process.returncode

    async def stop(self) -> None:
        """SIGTERM, and wait for its end as long as its deadline allows; then it is killed and `status` is -9.

        Before relay has begun to listen for signals, SIGTERM ends Python itself: that is not what is tried
        here.
        """
        deadline = time.monotonic() + _START_SECONDS
        while self.is_running and not self.has_logged("relay.starting") and time.monotonic() < deadline:
            await asyncio.sleep(_WATCH_SECONDS)
            self.look()
        if not self.is_running:
            return
        self.end, self._asked_at = End.ASKED, time.monotonic()
        self.process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS + DISCONNECT_SECONDS):
                while self.process.poll() is None:
                    self.peak_mb = max(self.peak_mb, peak_mb(self.process.pid))
                    await asyncio.sleep(_WATCH_SECONDS)
        self.stop_seconds = time.monotonic() - self._asked_at
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.status = self.process.returncode

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged; a line that a kill has cut short is left out."""
        found = []
        for line in self._log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    @property
    def code(self) -> str:
        """The code of the error that ended it, or nothing."""
        codes = [
            each["code"]
            for each in self.events
            if each["event"] in {"relay.failed", "record.refused", "relay.stalled"}
        ]
        return codes[-1] if codes else ""

    def has_logged(self, event: str) -> bool:
        """Whether it has logged such an event."""
        return any(each["event"] == event for each in self.events)

    def complaints(self, allowed: frozenset[str]) -> list[str]:
        """What is wrong with this life. `allowed`: error codes with which it may end by itself with status 3."""
        found = []
        name = f"relay {self.number}"
        if self.has_logged("partitions.opened"):
            allowed -= {UNREACHED}
        if self.end is End.ASKED and self.status != 0 and not (self.status == 3 and self.code in allowed):
            how = "was not through" if self.status == -9 else f"ended with status {self.status} {self.code}"
            found.append(f"{name} {how} {self.stop_seconds:.1f} s after SIGTERM")
        if self.end is End.ITSELF and not (self.status == 3 and self.code in allowed):
            found.append(f"{name} ended by itself with status {self.status} {self.code}")
        found += [
            f"{name} logged {event}"
            for event in ("relay.internal-error", "relay.stalled", "http.failed")
            if self.has_logged(event)
        ]
        if errors := self._errors.read_text(errors="replace").strip():
            found.append(f"{name} wrote to standard error: {errors.splitlines()[-1][:200]}")
        return found


class RelayProcesses:
    """All lives of a run. `allowed`: error codes with which a relay may end by itself, and then is started
    again.
    """

    def __init__(self, folder: Path, config: str, allowed: frozenset[str] = frozenset()) -> None:
        self._folder, self.allowed = folder, allowed
        self._config = folder / "relay.toml"
        self._config.write_text(config)
        self.lives: list[Life] = []

    @property
    def running(self) -> list[Life]:
        """The living, oldest first."""
        for life in self.lives:
            life.look()
        return [life for life in self.lives if life.is_running]

    def start(self) -> Life:
        """Start a relay."""
        self.lives.append(Life(len(self.lives), self._config, self._folder))
        return self.lives[-1]

    async def opened(self, life: Life, event: str = "partitions.opened") -> bool:
        """Wait until a life has logged that it reads; False if it has ended before. Raises RunFailed at the
        deadline.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not life.has_logged(event):
            life.look()
            if not life.is_running:
                return False
            if time.monotonic() > deadline:
                raise RunFailed(f"relay {life.number} has not logged {event} within {_START_SECONDS:g} s")
            await asyncio.sleep(_WATCH_SECONDS)
        return True

    async def watch(self) -> None:
        """Look at the memory of the living, until cancelled."""
        while True:
            for life in self.lives:
                life.look()
            await asyncio.sleep(1.0)

    async def stop(self) -> None:
        """Stop all that live, at once."""
        await asyncio.gather(*(life.stop() for life in self.running))

    def kill(self) -> None:
        """Leave nothing behind."""
        for life in self.lives:
            if life.process.poll() is None:
                life.process.kill()
                life.process.wait()

    @property
    def complaints(self) -> list[str]:
        """What is wrong with any life."""
        return [text for life in self.lives for text in life.complaints(self.allowed)]

    def most(self, of: Callable[[Life], float]) -> float:
        """The highest value of any life."""
        return max(map(of, self.lives), default=0.0)


def peak_mb(pid: int) -> float:
    """The highest resident memory of a process so far (Linux; proc_pid_status(5), VmHWM); 0 if it has ended."""
    return _status_mb(pid, "VmHWM")


def resident_mb(pid: int) -> float:
    """The resident memory of a process now (VmRSS); 0 if it has ended."""
    return _status_mb(pid, "VmRSS")


def _status_mb(pid: int, name: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0
