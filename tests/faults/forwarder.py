"""A TCP forwarder in front of a broker, which can hold all bytes back as a broker that hangs does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Forwarder:
    """Forwards connections of `port` to a broker's port on this machine."""

    def __init__(self, port: int, upstream: int) -> None:
        self.port, self._upstream = port, upstream
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        """Accept connections and bytes, and forward nothing."""
        self._open.clear()

    def release(self) -> None:
        """Forward again, also what was held back."""
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either end closes it."""
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.close()
            return
        pumps = [
            asyncio.create_task(self._pump(reader, broker_writer)),
            asyncio.create_task(self._pump(broker_reader, writer)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps)
        self._tasks.difference_update(pumps)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    def stop(self) -> None:
        """Drop all connections."""
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def forwarding(port: int, upstream: int) -> AsyncIterator[Forwarder]:
    """Forward while the block runs."""
    forwarder = Forwarder(port, upstream)
    server = await asyncio.start_server(forwarder.serve, "127.0.0.1", port)
    try:
        yield forwarder
    finally:
        server.close()
        forwarder.stop()
