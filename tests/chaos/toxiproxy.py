"""toxiproxy between relay and a broker: built with Go, once, into the cache folder; driven over its HTTP API
on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from relay.demo.kafka import cache_dir, free_ports

PACKAGE = "github.com/Shopify/toxiproxy/v2/cmd/server@latest"
PROXY = "kafka"
_START_SECONDS = 30.0


class ToxiproxyMissing(Exception):
    """toxiproxy cannot be had here; says why."""


def toxiproxy_binary() -> Path:
    """The program, built at the first call (10 s to 2 min). Raises ToxiproxyMissing."""
    folder = cache_dir() / "toxiproxy"
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / "server"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            go = shutil.which("go")
            if go is None:
                raise ToxiproxyMissing(
                    f"the network scenario needs Go, to build {PACKAGE}; there is no `go` on the PATH"
                )
            environment = {**os.environ, "GOBIN": str(folder)}
            done = subprocess.run(
                [go, "install", PACKAGE], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise ToxiproxyMissing(f"go install {PACKAGE} failed: {done.stderr.strip()[-1000:]}")
    return binary


class Toxiproxy:
    """One proxy: clients at `port`, the broker at the port it was made for."""

    def __init__(self, api: str, session: aiohttp.ClientSession, port: int) -> None:
        self.port = port
        self._api, self._session = api, session

    async def cut(self) -> None:
        """Close all connections and take no new ones."""
        await self._post(f"/proxies/{PROXY}", {"enabled": False})

    async def poison(self, kind: str, stream: str, **attributes: int) -> None:
        """Add a toxic to `upstream` (requests) or `downstream` (answers)."""
        await self._post(
            f"/proxies/{PROXY}/toxics", {"type": kind, "stream": stream, "attributes": attributes}
        )

    async def heal(self) -> None:
        """Remove all toxics and take connections again."""
        await self._post("/reset", {})

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        async with self._session.post(self._api + path, json=body) as answer:
            answer.raise_for_status()


@contextlib.asynccontextmanager
async def running(binary: Path, port: int, upstream: int) -> AsyncIterator[Toxiproxy]:
    """Start toxiproxy, with a proxy at `port` for the broker's `upstream`."""
    (api_port,) = free_ports(1)
    command = [str(binary), "-host", "127.0.0.1", "-port", str(api_port)]
    # A session of its own: after Ctrl-C the runs that are under way still need it for their end.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        async with aiohttp.ClientSession() as session:
            api = f"http://127.0.0.1:{api_port}"
            await _answers(session, api)
            proxy = {
                "name": PROXY,
                "listen": f"127.0.0.1:{port}",
                "upstream": f"127.0.0.1:{upstream}",
                "enabled": True,
            }
            async with session.post(f"{api}/proxies", json=proxy) as answer:
                answer.raise_for_status()
            yield Toxiproxy(api, session, port)
    finally:
        process.terminate()
        await process.wait()


async def _answers(session: aiohttp.ClientSession, api: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(f"{api}/version") as answer:
                if answer.ok:
                    return
        if time.monotonic() > deadline:
            raise ToxiproxyMissing(f"toxiproxy did not answer at {api} within {_START_SECONDS:g} s")
        await asyncio.sleep(0.05)
