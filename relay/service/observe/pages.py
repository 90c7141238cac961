"""Pages for people: single documents with inline style and script, which call only their own server."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import Final

from aiohttp import web

#: The style of all pages; a page refers to it as a file beside it, and is served with the style inlined.
_STYLE: Final = b'<link rel="stylesheet" href="style.css">'
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


class Page:
    """A page of a package, with the style of all pages."""

    def __init__(self, package: str, name: str) -> None:
        style = files("relay.service.observe").joinpath("style.css").read_bytes()
        page = files(package).joinpath(name).read_bytes()
        self.body = page.replace(_STYLE, b"<style>\n%b</style>" % style)
        self._headers = {
            "Content-Security-Policy": content_security_policy(self.body),
            "X-Frame-Options": "DENY",
        }

    async def answer(self, _: web.Request) -> web.Response:
        """Serve it."""
        return web.Response(body=self.body, content_type="text/html", charset="utf-8", headers=self._headers)


def content_security_policy(page: bytes) -> str:
    """Return a policy that lets the page run its own script and style and call its own server, no more."""
    allowed = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(page):
        allowed[kind.decode()] += f" 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
    return (
        f"default-src 'none'; script-src{allowed['script']}; style-src{allowed['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
