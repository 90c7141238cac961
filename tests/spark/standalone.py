"""A standalone cluster of Spark, whose executors and Python workers can be killed and stopped.

Each worker has an address of its own: Spark starts no speculative copy of a task on the host of the first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyspark

_HOSTS = ("127.0.0.2", "127.0.0.3")
#: Settings with which Spark soon repeats a task that is slower than others, or than half a second.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.task.duration.threshold": "500ms",
}
_TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process of this machine. `seconds`: the processor time that it has used."""

    pid: int
    parent: int
    session: int
    started: int
    seconds: float
    command: str


def processes_of(*sessions: int) -> dict[int, Process]:
    """The running processes of these sessions."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ends
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) in sessions and fields[0] != "Z":
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    seconds = (int(fields[11]) + int(fields[12])) / _TICKS
                    pid = int(folder.name)
                    found[pid] = Process(
                        pid, int(fields[1]), int(fields[3]), int(fields[19]), seconds, command
                    )
    return found


def send(number: int, *pids: int) -> None:
    """Send a signal to processes, if they still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def connected_to(port: int, pids: Iterable[int]) -> list[int]:
    """Those of the processes that have a connection to this port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{each[9]}]" for each in lines if int(each[2].rpartition(":")[2], 16) == port}
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it ends
            if any(str(each.readlink()) in sockets for each in Path(f"/proc/{pid}/fd").iterdir()):
                found.append(pid)
    return found


class Standalone:
    """A master, and two workers with a core each. `environment`: as `spark.java.environment` makes it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master, self._folder = f"spark://127.0.0.1:{port}", folder
        self._environment = {**os.environ, **environment, "SPARK_NO_DAEMONIZE": "1"}
        self._environment.pop("SPARK_LOCAL_IP", None)
        self._port = port
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        for number, host in enumerate(_HOSTS):
            work = str(self._folder / f"work-{number}")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", work)
            self._start("worker.Worker", "--host", host, "--webui-port", "0", *size, self.master)
        deadline = time.monotonic() + 120
        while (log := self._log()).count("Registering worker") < len(_HOSTS):
            assert time.monotonic() < deadline, log[-3000:]
            assert all(each.poll() is None for each in self._started), log[-3000:]
            time.sleep(0.1)
        return self

    def _start(self, name: str, *options: str) -> None:
        program = str(Path(pyspark.__file__).parent / "bin/spark-class")
        with (self._folder / "log").open("ab") as log:
            started = subprocess.Popen(
                [program, f"org.apache.spark.deploy.{name}", *options],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(started)

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        send(signal.SIGKILL, *processes_of(*self.sessions))

    @property
    def sessions(self) -> list[int]:
        """The sessions of its processes, executors included."""
        return [each.pid for each in self._started]

    def settings(self, events: Path) -> dict[str, str]:
        """Settings of a session on it. `events`: the folder of Spark's event log."""
        events.mkdir(exist_ok=True)
        return {
            "spark.master": self.master,
            "spark.executor.memory": "512m",
            "spark.pyspark.python": sys.executable,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }

    def executors(self) -> list[int]:
        """The processes of executors."""
        found = processes_of(*self.sessions).values()
        return [each.pid for each in found if "CoarseGrainedExecutorBackend" in each.command]

    def python_workers(self) -> list[int]:
        """The Python processes that run tasks, or wait for the next one."""
        found = processes_of(*self.sessions)
        return [
            each.pid
            for each in found.values()
            if "pyspark.daemon" in each.command
            and each.parent in found
            and "pyspark.daemon" in found[each.parent].command
        ]
