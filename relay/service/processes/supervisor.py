"""Start the processes of a relay, pass signals on to them, and show their status as one.

When one of them ends, the supervisor ends all. It reads and writes no records itself, so its loop always has
time for health and metrics. A supervisor that is killed closes its ends of the channels, at which its
processes stop by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Final, Self

from relay.config import Config
from relay.io.logs import Log, frames_of
from relay.model.errors import RelayError, ServiceError
from relay.service.loop.stopping import STOP_SIGNALS, stopped_by_signals
from relay.service.observe.about import About, announce
from relay.service.observe.http import serving
from relay.service.observe.report import summary
from relay.service.observe.status import ProcessReport
from relay.service.observe.together import TogetherStatus
from relay.service.processes.channel import packed, receive

DEFECT: Final = 1
#: Orchestrators are configured with the same time.
DISCONNECT_SECONDS: Final = 15.0
#: How often to look for processes that report nothing.
LOOK_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 10.0
#: Offset that a shell adds to the number of the signal that has ended a process.
_ENDED_BY_SIGNAL: Final = 128


def supervise(config: Config, log: Log | None = None) -> int:
    """Run the relay in processes until a signal to stop, or until one of them ends.

    Returns the exit status of the first process that ended with another one than 0.
    """
    return asyncio.run(_supervise_until_signal(config, log or Log(settings=config.log.settings)))


async def _supervise_until_signal(config: Config, log: Log) -> int:
    stop = asyncio.Event()
    with stopped_by_signals(stop.set):
        return await supervise_until(stop, config, log)


async def supervise_until(
    stop: asyncio.Event,
    config: Config,
    log: Log,
    *,
    disconnect_seconds: float = DISCONNECT_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
) -> int:
    """Run the relay in processes until `stop` is set, log its progress, and return the exit status.

    `disconnect_seconds`, `idle_seconds`: see `WorkerProcesses`.
    """
    announce(config, log)
    status = TogetherStatus(About.of(config))
    processes = WorkerProcesses(
        config, log, status, disconnect_seconds=disconnect_seconds, idle_seconds=idle_seconds
    )
    try:
        async with serving(config.http, status, log), processes:
            await processes.work(stop)
    except Exception as error:
        return _failed(error, log)
    if processes.exit_status == 0:
        log.info("relay.stopped", **summary(status))
    return processes.exit_status


def _failed(error: Exception, log: Log) -> int:
    if isinstance(error, RelayError):
        log.error("relay.failed", code=error.code, message=str(error))
        return error.exit_status
    log.error("relay.internal-error", kind=type(error).__name__, frames=frames_of(error))
    return DEFECT


class WorkerProcesses:
    """The processes, which run during its `async with` block at most. Entering raises ServiceError.

    `disconnect_seconds`: how much longer than its drain a process may take to disconnect and end.
    `idle_seconds`: the time without partitions after which a process is reported as idle.
    """

    def __init__(
        self,
        config: Config,
        log: Log,
        status: TogetherStatus,
        *,
        disconnect_seconds: float,
        idle_seconds: float,
    ) -> None:
        self._config, self._log, self._status = config, log, status
        self._disconnect_seconds, self._idle_seconds = disconnect_seconds, idle_seconds
        self._processes: list[Process] = []
        #: That of the first process that ended with another one than 0.
        self.exit_status = 0

    async def __aenter__(self) -> Self:
        try:
            for number, config in enumerate(self._config.of_processes):
                process = await Process.start(number, config)
                self._processes.append(process)
                self._log.info("process.started", process=number, pid=process.pid)
        except OSError as error:
            self._kill()
            why = f"process {len(self._processes)} cannot be started: {error.strerror}"
            raise ServiceError(why) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        self._kill()

    async def work(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set or a process ends; then stop all.

        Processes that do not end in time are killed.
        """
        watches = [asyncio.create_task(self._watch(each)) for each in self._processes]
        asked = asyncio.create_task(stop.wait())
        watching = [asyncio.create_task(self._report_idle()), asyncio.create_task(self._check_silence())]
        await asyncio.wait([asked, *watches], return_when=asyncio.FIRST_COMPLETED)
        for task in (asked, *watching):
            task.cancel()
        self._log.info("relay.stopping")
        self._status.stopping()
        for process in self._processes:
            process.stop()
        seconds = self._config.delivery.drain_timeout_seconds + self._disconnect_seconds
        _, late = await asyncio.wait(watches, timeout=seconds)
        if late:
            self._log.error("processes.killed", seconds=seconds, pids=[str(pid) for pid in self._kill()])
        await asyncio.gather(*watches)

    async def _watch(self, process: Process) -> None:
        """Store a process's reports until it ends, and note its exit status."""
        number = process.number
        async for report in process.reports():
            self._status.report_from(number, report)
        code = await process.ended()
        self._status.ended(number)
        status = code if code >= 0 else _ENDED_BY_SIGNAL - code
        self.exit_status = self.exit_status or status
        if status:
            self._log.error("process.ended", process=number, pid=process.pid, status=status)
        else:
            self._log.info("process.ended", process=number, pid=process.pid, status=0)

    async def _check_silence(self) -> None:
        """Have the status notice processes that report nothing."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._status.check_silence()

    async def _report_idle(self) -> None:
        """Log, once, the processes without partitions; after a rebalance that is normal for a moment."""
        idle: list[int] = []
        while True:
            await asyncio.sleep(self._idle_seconds)
            before, idle = idle, self._status.idle
            if idle and idle == before:
                names = [str(number) for number in idle]
                message = (
                    "idle processes without partitions: lower processes in [delivery], or add partitions"
                )
                self._log.warning("processes.idle", processes=names, message=message)
                return

    def _kill(self) -> list[int]:
        """Kill the running processes; return their ids."""
        return [process.pid for process in self._processes if process.kill()]


class Process:
    """One process, as its supervisor sees it."""

    def __init__(
        self,
        number: int,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.number, self.pid = number, process.pid
        self._process, self._reader, self._writer = process, reader, writer

    @classmethod
    async def start(cls, number: int, config: Config) -> Process:
        """Start a process that runs the configuration. Raises OSError."""
        ours, theirs = socket.socketpair()
        # The same way as this process finds relay, without the folder that it was started in.
        command = [sys.executable, "-P", "-m", "relay.service.processes.member", str(number)]
        path = os.pathsep.join(filter(None, sys.path))
        try:
            with theirs, _blocked_signals():
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=os.environ | {"PYTHONPATH": path},
                )
        except OSError:
            ours.close()
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(packed(config))
        return cls(number, process, reader, writer)

    async def reports(self) -> AsyncIterator[ProcessReport]:
        """Yield its reports until it ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                yield await receive(self._reader)

    async def ended(self) -> int:
        """Wait for its end; returns its exit status, or the number of the signal that ended it, negative."""
        status = await self._process.wait()
        self._writer.close()
        return status

    def stop(self) -> None:
        """Ask it to stop."""
        if self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> bool:
        """Kill it if it still runs; return whether it did."""
        if self._process.returncode is not None:
            return False
        self._process.kill()
        return True


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """Make a process that is started meanwhile hold signals back until its handlers are set."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
