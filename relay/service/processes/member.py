"""One of several processes of a relay: `python -m relay.service.processes.member NUMBER DESCRIPTOR`.

Only `relay.service.processes.supervisor` calls it. DESCRIPTOR is that of its end of the channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from relay.io.logs import Log
from relay.model.errors import ServiceError
from relay.service.app import run_member
from relay.service.loop.stopping import STOP_SIGNALS
from relay.service.observe.status import ProcessReport, Status
from relay.service.processes.channel import packed, receive_first

#: Interval between reports to the supervisor.
TELL_SECONDS: Final = 1.0
#: Time limit of the last report.
_LAST_WORD_SECONDS: Final = 1.0


def main() -> None:
    """Run the configuration received from the supervisor, and end with the exit status of `relay run`."""
    number, descriptor = map(int, sys.argv[1:])
    channel = socket.socket(fileno=descriptor)
    try:
        config = receive_first(channel)
    except EOFError:
        sys.exit(ServiceError.exit_status)
    log = Log(settings=config.log.settings, process=number)
    sys.exit(run_member(config, log, partial(_supervised, channel, log)))


@contextlib.asynccontextmanager
async def _supervised(
    channel: socket.socket, log: Log, stop: asyncio.Event, status: Status
) -> AsyncIterator[None]:
    """Report to the supervisor, and stop when it is gone."""
    # The supervisor blocked these signals until they could be handled.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    reader, writer = await asyncio.open_connection(sock=channel)
    tasks = [
        asyncio.create_task(_stop_at_end(reader, stop, log)),
        asyncio.create_task(_tell(writer, status)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await _say(writer, status)
        writer.close()


async def _stop_at_end(reader: asyncio.StreamReader, stop: asyncio.Event, log: Log) -> None:
    with contextlib.suppress(OSError):
        await reader.read(1)
    log.warning("supervisor.lost", message="the parent process was killed: stopping")
    stop.set()


async def _tell(writer: asyncio.StreamWriter, status: Status) -> None:
    with contextlib.suppress(OSError):
        while True:
            await _say(writer, status)
            await asyncio.sleep(TELL_SECONDS)


async def _say(writer: asyncio.StreamWriter, status: Status) -> None:
    writer.write(packed(ProcessReport(os.getpid(), status, gc.get_stats())))
    await writer.drain()


if __name__ == "__main__":
    main()
