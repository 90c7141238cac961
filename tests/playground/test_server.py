"""The playground's server, asked over real HTTP, and its page in a browser."""

from __future__ import annotations

import asyncio
import html
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from support import CANAL, TICDC, row_message

from relay.cli.playground import server as module
from relay.cli.playground.catalog import catalog, examples
from relay.cli.playground.server import MOST_BYTES, PlaygroundServer, address
from relay.cli.playground.translation import TranslationRequest, answer
from relay.cli.requests.route import PlaygroundRequest
from relay.cli.rule_options import GivenRules
from relay.model.errors import AddressUnavailable, ConfigError
from relay.rules.columns import parse_rule
from relay.rules.rows import parse_where
from relay.rules.tables import parse_rule as parse_table_rule
from relay.service.observe.server import Page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGE = Page("relay.cli.playground", "playground.html").body.decode()
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
REQUEST = {"from": TICDC, "to": CANAL, "message": next(iter(examples(TICDC))).message}
JSON = {"Content-Type": "application/json"}


class Site:
    """A server and a client of it."""

    def __init__(self, client: aiohttp.ClientSession, server: PlaygroundServer) -> None:
        self._client, self.port = client, server.port

    async def ask(self, method: str, path: str, data: bytes = b"", **headers: str) -> tuple[int, Any, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._client.request(
            method, url, data=io.BytesIO(data) if data else None, headers=named
        ) as reply:
            return reply.status, await reply.text(), reply.headers

    async def translate(self, request: object, **headers: str) -> tuple[int, Any]:
        code, text, _ = await self.ask("POST", "/translate", json.dumps(request).encode(), **(JSON | headers))
        return code, json.loads(text)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with PlaygroundServer("127.0.0.1", 0) as server, aiohttp.ClientSession() as client:
        yield Site(client, server)


async def test_the_page_what_there_is_to_choose_and_an_answer(site: Site) -> None:
    code, text, headers = await site.ask("GET", "/")
    assert (code, headers["Content-Type"], text) == (200, "text/html; charset=utf-8", PAGE)
    code, text, _ = await site.ask("GET", "/catalog")
    assert json.loads(text) == catalog()
    code, found = await site.translate(REQUEST)
    assert (code, found["problems"], len(found["records"])) == (200, [], 1)


@pytest.mark.parametrize(
    ("path", "method", "allowed"), [("/", "POST", "GET, HEAD"), ("/translate", "GET", "POST"), ("/translate", "HEAD", "POST")]
)  # fmt: skip
async def test_other_methods(site: Site, path: str, method: str, allowed: str) -> None:
    code, _, headers = await site.ask(method, path)
    assert (code, headers["Allow"]) == (405, allowed)


@pytest.mark.parametrize(
    "path", ["/examples", "/style.css", "/../pyproject.toml", "/%2e%2e/README.md", "/metrics", "/status"]
)
async def test_nothing_else_is_served(site: Site, path: str) -> None:
    code, text, headers = await site.ask("GET", path)
    assert (code, headers["Content-Type"]) == (404, "application/json")
    assert set(json.loads(text)["paths"]) == {"/", "/catalog", "/translate"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid JSON in UTF-8"),
        (b"{", "not valid JSON in UTF-8"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"from":"a"}', "missing required field `to`"),
        (b'{"from":"a","to":"b","file":"/etc/passwd"}', "unknown field `file`"),
        (b'{"from":"a","to":"b","to_options":{"strict":true}}', "Expected `str`"),
        (b'{"from":"a","to":"\xff"}', "not valid JSON in UTF-8"),
        (b'{"from":"a","to":"\\ud800"}', "not valid JSON in UTF-8"),
    ],
)  # fmt: skip
async def test_an_invalid_request_is_reported(site: Site, body: bytes, words: str) -> None:
    code, text, _ = await site.ask("POST", "/translate", body, **JSON)
    assert code == 400
    assert words in json.loads(text)["error"]


async def test_forms_of_other_sites_cannot_ask(site: Site) -> None:
    body = json.dumps(REQUEST).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert (await site.ask("POST", "/translate", body, Content_Type=kind))[0] == 415


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
async def test_pages_of_other_sites_cannot_ask(site: Site, headers: dict[str, str]) -> None:
    code, found = await site.translate(REQUEST, **headers)
    assert (code, found["error"]) == (403, "only the playground's own page may ask")
    assert (await site.ask("GET", "/catalog", b"", **headers))[0] == 403


async def test_its_own_page_can_and_others_may_lead_to_it(site: Site) -> None:
    for host in (f"127.0.0.1:{site.port}", f"localhost:{site.port}", f"[::1]:{site.port}"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert (await site.translate(REQUEST, **headers))[0] == 200
    assert (await site.ask("GET", "/", Sec_Fetch_Site="cross-site"))[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8090", "127.0.0.1.evil.example", "localhost.evil.example"]
)
async def test_a_name_that_anybody_could_own_is_refused(site: Site, host: str) -> None:
    """DNS rebinding: the page of evil.example has its own name mean this machine, and so the same origin."""
    code, found = await site.translate(REQUEST, Host=host, Origin=f"http://{host}")
    assert (code, "is not allowed" in found["error"]) == (421, True)
    for path in ("/", "/catalog", "/nowhere"):
        assert (await site.ask("GET", path, Host=host))[0] == 421


async def _send_without_end(writer: asyncio.StreamWriter) -> None:
    for _ in range(100):
        writer.write(b"10000\r\n%b\r\n" % (b"x" * 0x10000))
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_requests_are_bounded(site: Site) -> None:
    fits = REQUEST | {"key": "x" * (MOST_BYTES - 5_000)}
    assert (await site.translate(fits))[0] == 200
    code, found = await site.translate(REQUEST | {"key": "x" * MOST_BYTES})
    assert (code, found["error"]) == (
        413,
        "the input exceeds 1 MiB; `relay translate` takes files of any size",
    )
    # More than a request may be is cut off, whatever it says of itself.
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    with pytest.raises(ConnectionError):
        await _send_without_end(writer)
    writer.transport.abort()
    await asyncio.sleep(0.01)
    del reader
    assert (await site.translate(REQUEST))[0] == 200


class HastyServer(PlaygroundServer):
    """It waits less for bodies."""

    body_seconds = 0.2


async def test_a_body_that_does_not_end_is_not_waited_for() -> None:
    async with HastyServer("127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99\r\n\r\n{"
        )
        async with asyncio.timeout(5):
            assert b" 408 " in await reader.readline()
        writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_a_bug_is_an_answer_without_values(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: TranslationRequest, **__: Any) -> dict[str, Any]:
        raise RuntimeError("secret value of a row")

    monkeypatch.setattr(module, "answer", broken)
    assert await site.translate(REQUEST) == (500, {"error": "a bug in relay", "kind": "RuntimeError"})


async def test_an_address_that_cannot_be_served_names_the_options(site: Site) -> None:
    with pytest.raises(AddressUnavailable, match=r"another program.*set another --port, or 0 for any"):
        async with PlaygroundServer("127.0.0.1", site.port):
            pass
    with pytest.raises(AddressUnavailable, match="does not have the address; set --host"):
        async with PlaygroundServer("192.0.2.1", 0):
            pass


def test_it_is_served_here_alone_until_it_is_interrupted() -> None:
    program = [sys.executable, "-m", "relay", "playground", "--port", "0"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found, said
        with urllib.request.urlopen(found[0], timeout=10) as page:  # noqa: S310 - a server of this machine
            assert page.read().decode() == PAGE
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


async def test_a_browser_is_opened_on_request_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def no_browser(url: str) -> bool:
        opened.append(url)
        return False

    monkeypatch.setattr(webbrowser, "open", no_browser)
    loop = asyncio.get_running_loop()
    for opens in (False, True):
        serving = asyncio.create_task(module.serve("127.0.0.1", 0, opens=opens))
        await asyncio.sleep(0.3)
        serving.cancel()
        await asyncio.wait({serving})
        assert len(opened) == int(opens)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    assert opened[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "http://127.0.0.1:1/"), ("0.0.0.0", "http://localhost:1/"), ("::1", "http://[::1]:1/")],  # noqa: S104 - nothing is bound to it
)
def test_the_printed_address(host: str, expected: str) -> None:
    assert address(host, 1) == expected


# ---------------------------------------------------------------- the page


async def test_the_page_may_run_its_own_script_and_ask_its_own_server(site: Site) -> None:
    _, _, headers = await site.ask("GET", "/")
    policy = dict(one.split(" ", 1) for one in headers["Content-Security-Policy"].split("; "))
    assert {policy[name] for name in ("default-src", "base-uri", "form-action", "frame-ancestors")} == {
        "'none'"
    }
    assert policy["connect-src"] == "'self'"
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"('sha256-[A-Za-z0-9+/]{43}=' ?)+", policy[kind])


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_text() -> None:
    assert not re.search(r"(?:src|href)=\"(?!data:,)|https?:|@import|url\(", PAGE)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\bon[a-z]+=|style=", PAGE
    )


def test_every_field_of_the_page_has_a_label() -> None:
    fields = set(re.findall(r"<(?:select|input|textarea) id=\"([a-z]+)\"", PAGE))
    assert fields == {"from", "to", "example", "profile", "message", "before", "key", "schemas"}
    assert fields == set(re.findall(r"<label for=\"([a-z]+)\"", PAGE))


def test_the_page_asks_for_what_the_answer_has() -> None:
    """A member that is renamed on one side only would show as nothing."""
    found = answer(TranslationRequest(source=TICDC, target=CANAL, message=REQUEST["message"]))
    record = found["records"][0]
    used = {
        name: set(re.findall(rf"\b{name}\.([a-z_]+)", PAGE)) for name in ("found", "record", "out", "loss")
    }
    assert used["found"] - {"ok", "kind", "error"} == set(found)
    assert used["record"] <= set(record)
    assert used["out"] <= set(record["output"][0])
    assert used["loss"] <= set(record["lost"][0])
    protocol = catalog()["protocols"][0]
    assert set(re.findall(r"\bprotocol\.([a-z_]+)", PAGE)) <= set(protocol)


async def shown_by_browser(port: int, folder: Path, **choices: str) -> str:
    """The page when its script has run, with these choices."""
    assert CHROMIUM is not None
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000")
    browser = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *flags,
        f"--user-data-dir={folder}",
        "--dump-dom",
        f"http://127.0.0.1:{port}/#{urllib.parse.urlencode(choices)}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(60):
        return (await browser.communicate())[0].decode()


def text_of(markup: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", markup))


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_event_output_and_losses(site: Site, tmp_path: Path) -> None:
    choices = {"from": TICDC, "to": CANAL, "example": "update", "to.option.watermarks": "drop"}
    shown = await shown_by_browser(site.port, tmp_path, **choices)
    results = text_of(shown.partition('<div id="results">')[2].partition("<script>")[0])
    assert "1 event, 1 record written, 1 kind of loss" in text_of(shown)
    assert "*  balance   decimal(12,2)  200.00" in results
    assert '"balance": "250.50"' in results
    assert "commit-ts" in results
    # Every option has its meaning and its default.
    options = text_of(shown.partition('id="to-options"')[2].partition("</section>")[0])
    assert "max-batch-sizerows per message" in options
    assert "default: keep" in options


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_hostile_texts_as_text(site: Site, tmp_path: Path) -> None:
    row = {"type": "INSERT", "isDdl": False, "database": HOSTILE, "table": HOSTILE, "es": 1, "ts": 1, "data": [{HOSTILE: HOSTILE}],
           "mysqlType": {HOSTILE: "text"}, "sqlType": {HOSTILE: 2005}, "pkNames": None, "old": None}  # fmt: skip
    record = {"topic": HOSTILE, "partition": 0, "value": json.dumps(row), "headers": [[HOSTILE, HOSTILE]]}
    shown = await shown_by_browser(
        site.port, tmp_path, **{"from": TICDC, "to": CANAL, "message": json.dumps(record)}
    )
    results = shown.partition('<div id="results">')[2].partition("<script>\n")[0]
    assert "<title>relay playground</title>" in shown
    assert shown.count("<script>") == 1
    assert "<img" not in shown
    assert "1 event, 1 record written" in text_of(shown)
    assert text_of(results).count(HOSTILE) >= 6


async def test_column_rules_apply_to_all_translations() -> None:
    rules = GivenRules(
        (parse_rule("hash *.* *_name,name,email length=40"), parse_rule("null *.* note")), b"k" * 16
    )
    request = {"from": TICDC, "to": CANAL, "message": row_of("ann@canary.example")}
    async with PlaygroundServer("127.0.0.1", 0, rules) as server, aiohttp.ClientSession() as client:
        code, found = await Site(client, server).translate(request)
    (shown,) = found["records"]
    assert (code, shown["error"]) == (200, None)
    assert "ann@canary.example" not in json.dumps([shown["events"], shown["output"]])
    plain = answer(msgspec.convert(request, TranslationRequest))
    assert "ann@canary.example" in json.dumps([plain["records"][0]["events"], plain["records"][0]["output"]])
    refused = answer(
        msgspec.convert(request, TranslationRequest), rules=GivenRules((parse_rule("drop *.* id"),))
    )
    assert refused["records"][0]["events"] == []
    assert refused["records"][0]["error"]["code"] == "encode.not-representable"


def test_rules_for_rows_and_tables_apply_to_the_output() -> None:
    request = {"from": TICDC, "to": CANAL, "message": row_of("ann@canary.example")}
    where, table = parse_where("d.t: email == 'ann@canary.example'"), parse_table_rule("d.t -> x.u")
    asked = msgspec.convert(request, TranslationRequest)
    (shown,) = answer(asked, rules=GivenRules(rows=(where,), tables=(table,)))["records"]
    written = json.loads(shown["output"][0]["value"]["text"])
    assert (written["database"], written["table"]) == ("x", "u")
    asked = msgspec.structs.replace(asked, message=row_of("bob@canary.example"))
    (shown,) = answer(asked, rules=GivenRules(rows=(where,), tables=(table,)))["records"]
    # The row is shown, and why nothing is written.
    assert (len(shown["events"]), shown["output"]) == (1, [])
    assert "rows-filtered" in json.dumps(shown["lost"])


def row_of(email: str) -> str:
    message = row_message({"id": "bigint", "email": "text"}, {"id": "1", "email": email}, pkNames=["id"])
    return json.dumps(message | {"_tidb": {"commitTs": 1_700_000_000_000 << 18}})


@pytest.mark.parametrize("rule", ["drop shop.*", "hash shop.* email"])
def test_rules_that_are_never_valid_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="--column"):
        module.play(PlaygroundRequest(columns=(rule,)))


def test_all_rules_are_checked() -> None:
    with pytest.raises(ConfigError) as refused:
        module.play(PlaygroundRequest(where=("d.t: id >", "d.t"), tables=("t -> u",), columns=("x",)))
    paths = [problem.path for problem in refused.value.problems]
    assert [path.partition(",")[0] for path in paths] == ["--column", "--where", "--where", "--table"]
