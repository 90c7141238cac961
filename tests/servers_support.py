"""Servers that are no Kafka: a token endpoint, and one that talks nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web


@contextlib.asynccontextmanager
async def talking(answer: bytes | None) -> AsyncIterator[str]:
    """Something that is no Kafka: it answers whatever comes, or says nothing at all."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1000):
                if answer is not None:
                    writer.write(answer)
                    writer.close()
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


class Idp:
    """A token endpoint; `answer` makes its answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str | None, dict[str, Any]]] = []
        self.answer: Callable[[], web.StreamResponse] = self.give
        self.address = ""

    def give(self, **members: Any) -> web.StreamResponse:
        return web.json_response(
            {"access_token": f"t{len(self.requests)}", "token_type": "bearer", "expires_in": 300} | members
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.headers.get("Authorization"), dict(await request.post())))
        return self.answer()


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[Idp]:
    idp = Idp()
    app = web.Application()
    app.router.add_post("/token", idp.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    idp.address = f"{'https' if context else 'http'}://127.0.0.1:{port}/token"
    try:
        yield idp
    finally:
        await runner.cleanup()
