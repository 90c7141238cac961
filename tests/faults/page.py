"""The headline of the status page: its own script, run by Node.js where there is one."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from types import TracebackType
from typing import Any, Self

from relay.service.observe.server import Page

NODE = shutil.which("node")
#: Enough of a browser for the script to be read; `verdict` itself needs none of it.
_BROWSER = """
const thing = () => new Proxy(function () {}, { get: (_, name) => name === "then" ? undefined : thing(), apply: () => thing() });
globalThis.document = thing(); globalThis.fetch = () => new Promise(() => {});
"""
_ANSWER = """
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [number, status] = JSON.parse(line);
  console.log(JSON.stringify([number, verdict(status)]));
});
"""


class Headlines:
    """Asks the page's script for its headline: level, words and advice."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0

    async def __aenter__(self) -> Self:
        if NODE is not None:
            body = Page("relay.service.observe", "status_page.html").body.decode()
            (script,) = re.findall(r"<script>(.*?)</script>", body, re.DOTALL)
            self._process = await asyncio.create_subprocess_exec(
                NODE,
                "-e",
                _BROWSER + script + _ANSWER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 24,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def of(self, status: dict[str, Any]) -> tuple[str, str]:
        """Return level and headline; without Node.js, those that follow from `degraded`."""
        if self._process is None:
            return ("bad", "") if status["degraded"] else ("good", "")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        self._process.stdin.write(json.dumps([self._number, status]).encode() + b"\n")
        while True:
            # An answer may be left of a question that was given up.
            number, (level, words, _) = json.loads(await self._process.stdout.readline())
            if number == self._number:
                return level, words
