"""The playground's server: the page, its choices, and `/translate`, which answers a request.

It reads only the request, and keeps no state. A page of another site cannot use it: `Host` is checked as by
all servers of relay; and where a browser names the requesting page (`Origin`, `Sec-Fetch-Site`), it must be
this server's own. A request has the content type of JSON, which forms of other sites cannot send.
"""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import msgspec
from aiohttp import web

from relay.cli.exits import say
from relay.cli.playground.catalog import catalog
from relay.cli.playground.translation import TranslationRequest, answer, encoded
from relay.cli.requests.route import PlaygroundRequest
from relay.cli.rule_options import NO_RULES, GivenRules, checked_rules
from relay.io.record_lines import DECODE_ERRORS
from relay.model.errors import ConfigError, Problem
from relay.service.observe.server import HEADER_BYTES, Page, SettingNames, WebServer, json_answer

#: Maximum bytes of a request to translate.
MOST_BYTES: Final = 1 << 20
_JSON: Final = "application/json"
_REQUEST: Final = msgspec.json.Decoder(TranslationRequest)


class PlaygroundServer(WebServer):
    """Serve the playground while the `async with` block runs.

    `body_seconds`: time limit for receiving the body of a request. `rules`: the rules of all
    translations.
    """

    paths: ClassVar[Mapping[str, str]] = {
        "/": "the playground",
        "/catalog": "protocols, options and examples",
        "/translate": "POST: translate the pasted input",
    }
    settings: ClassVar = SettingNames("--host", "another --port, or 0 for any free port", "a higher --port")
    not_ours: ClassVar = "the Host of this request is not allowed; use this server's IP address, or localhost"
    request_bytes: ClassVar = MOST_BYTES + HEADER_BYTES
    takes_bodies: ClassVar = True
    body_seconds: ClassVar[float] = 10.0

    def __init__(self, host: str, port: int, rules: GivenRules = NO_RULES) -> None:
        super().__init__(host, port)
        self._rules = rules
        self._page = Page("relay.cli.playground", "playground.html")
        # One at a time: a translation takes the processor, and may take some memory.
        self._turn = asyncio.Lock()

    def routes(self) -> Sequence[web.RouteDef]:
        """Return a handler for each of `paths`."""
        return [
            web.get("/", self._page.answer),
            web.get("/catalog", self._catalog),
            web.post("/translate", self._translate),
        ]

    def check(self, request: web.Request) -> None:
        """Raise an HTTPException for a request that comes, or may come, from a page of another site."""
        super().check(request)
        origin = request.headers.get("Origin")
        is_ours = origin is None or origin.partition("://")[2].lower() == request.host.lower()
        is_page = request.path == "/"  # another page may lead to it
        if not is_ours or not (is_page or request.headers.get("Sec-Fetch-Site", "none") in _OWN_PAGES):
            raise web.HTTPForbidden(reason="only the playground's own page may ask")

    async def _catalog(self, _: web.Request) -> web.Response:
        return json_answer(catalog(), indent=False)

    async def _translate(self, request: web.Request) -> web.Response:
        if request.content_type != _JSON:
            return json_answer({"error": f"the request's content type must be {_JSON}"}, 415)
        if (request.content_length or 0) > MOST_BYTES:
            return _too_large()
        try:
            async with asyncio.timeout(self.body_seconds):
                body = await request.read()
            asked = _REQUEST.decode(body)
        except TimeoutError:
            return json_answer({"error": "the request was not complete in time"}, 408)
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        except msgspec.ValidationError as error:
            return json_answer({"error": f"invalid request to /translate: {error}"}, 400)
        except DECODE_ERRORS:
            return json_answer({"error": "the request is not valid JSON in UTF-8"}, 400)
        async with self._turn:
            found = await asyncio.to_thread(lambda: encoded(answer(asked, rules=self._rules)))
        return web.Response(body=found, content_type=_JSON)


#: A browser's values for requests of the page itself, and of an address typed by the user.
_OWN_PAGES: Final = {"same-origin", "none"}


def _too_large() -> web.Response:
    most = f"{MOST_BYTES >> 20} MiB"
    return json_answer({"error": f"the input exceeds {most}; `relay translate` takes files of any size"}, 413)


def play(request: PlaygroundRequest) -> None:
    """Serve the playground until the process is asked to end. Raises AddressUnavailable, ConfigError."""
    problems: list[Problem] = []
    rules = checked_rules(
        request.columns, request.hash_key_file, problems, where=request.where, tables=request.tables
    )
    if problems:
        raise ConfigError(problems)
    asyncio.run(serve(request.host, request.port, opens=request.opens, rules=rules))


async def serve(host: str, port: int, *, opens: bool, rules: GivenRules = NO_RULES) -> None:
    """Serve the playground until a signal asks for its end. Raises AddressUnavailable."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    async with PlaygroundServer(host, port, rules) as server:
        url = address(host, server.port)
        say(f"The playground is at {url} until Ctrl-C.")
        if opens and not await asyncio.to_thread(webbrowser.open, url):
            say("No browser could be opened.")
        await asked.wait()


def address(host: str, port: int) -> str:
    """Return the server's URL for a browser on this machine."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - only compared
        host = "localhost"
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"
