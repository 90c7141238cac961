"""`relay playground`: serve the page until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import webbrowser

from relay.cli.exits import say
from relay.cli.playground.server import PlaygroundServer
from relay.cli.requests.route import PlaygroundRequest


def play(request: PlaygroundRequest) -> None:
    """Serve the playground until the process is asked to end. Raises AddressUnavailable."""
    asyncio.run(_serve(request.host, request.port, opens=request.opens))


async def _serve(host: str, port: int, *, opens: bool) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    async with PlaygroundServer(host, port) as server:
        url = address(host, server.port)
        say(f"The playground is at {url} until Ctrl-C.")
        if opens and not await asyncio.to_thread(webbrowser.open, url):
            say("There is no browser that could be opened.")
        await asked.wait()


def address(host: str, port: int) -> str:
    """Return the URL by which a browser on this machine finds it."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - only compared
        host = "localhost"
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"
