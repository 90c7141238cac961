"""The channel between a supervisor and one of its processes.

It carries objects, each preceded by its length, over a pair of sockets that no other process holds. It ends
when either side does, however that ends. The supervisor first sends the process its `Config`; from then on
the process sends a `ProcessReport` about once a second.
"""

from __future__ import annotations

import pickle
import socket
import struct
from asyncio import StreamReader
from typing import Any, Final

_LENGTH: Final = struct.Struct("!I")


def packed(thing: object) -> bytes:
    """Serialize an object for the channel."""
    data = pickle.dumps(thing)
    return _LENGTH.pack(len(data)) + data


async def receive(reader: StreamReader) -> Any:  # noqa: ANN401 - any object that the peer sends
    """Wait for the next object. Raises asyncio.IncompleteReadError at the end, ConnectionError."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - no other process holds the sockets


def receive_first(channel: socket.socket) -> Any:  # noqa: ANN401 - any object that the peer sends
    """Receive an object before there is an event loop. Raises EOFError at the end."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    return pickle.loads(_exactly(channel, length))  # noqa: S301 - no other process holds the sockets


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
