"""Health, metrics, status and the page, asked over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import html
import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from status_support import (
    LIMIT,
    ORDERS_0,
    ORDERS_1,
    Clock,
    Translated,
    make_status,
    running_status,
    together,
    turns,
)

from relay.codecs.losses import Loss
from relay.core.counts import OTHER_TABLES
from relay.model.errors import AddressUnavailable
from relay.model.events import TableId
from relay.service.observe.http import PATHS, HttpServer
from relay.service.observe.server import MAX_CONNECTIONS, Page, content_security_policy
from relay.service.observe.status import Status
from relay.service.rate_limit import RateLimits

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGE = Page("relay.service.observe", "status_page.html").body.decode()


class HastyServer(HttpServer):
    """It waits less for requests."""

    request_seconds = 0.3


class Site:
    """A server and a client of it."""

    def __init__(self, client: aiohttp.ClientSession, server: HttpServer) -> None:
        self._client, self.server = client, server
        self.url = f"http://127.0.0.1:{server.port}"

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
        async with self._client.request(method, self.url + path, headers=headers) as answer:
            return answer.status, await answer.text(), answer.headers


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def status(clock: Clock) -> Status:
    return running_status(clock)


@pytest.fixture
async def site(status: Status) -> AsyncIterator[Site]:
    async with HttpServer("127.0.0.1", 0, status) as server, aiohttp.ClientSession() as client:
        yield Site(client, server)


async def test_livez_goes_by_the_heartbeat_alone(site: Site, status: Status, clock: Clock) -> None:
    status.set_check("source", ok=False, detail="no broker answers")
    code, text, _ = await site.get("/livez")
    assert (code, json.loads(text)["alive"]) == (200, True)
    clock.passes(LIMIT + 1)
    code, text, _ = await site.get("/livez")
    assert code == 503
    assert json.loads(text) == {
        "alive": False,
        "state": "running",
        "heartbeat_age_seconds": LIMIT + 1,
        "heartbeat_limit_seconds": LIMIT,
    }
    # A loop that hangs is not ready for less, but it is seen.
    assert '"loop": "failing: the last iteration was 121 s ago"' in (await site.get("/readyz"))[1]
    status.heartbeat()
    assert (await site.get("/livez"))[0] == 200


@pytest.mark.parametrize(
    ("state", "expected"), [("starting", 503), ("running", 200), ("draining", 503), ("stopped", 503)]
)
async def test_readyz_by_state(state: str, expected: int) -> None:
    status = make_status()
    status.enter_phase(state)
    async with HttpServer("127.0.0.1", 0, status) as server, aiohttp.ClientSession() as client:
        code, text, _ = await Site(client, server).get("/readyz")
    assert (code, json.loads(text)["state"]) == (expected, state)


async def test_readyz_has_a_line_for_each_check_and_stays_ready_when_degraded(
    site: Site, status: Status
) -> None:
    status.set_check("target", ok=False, detail="no broker answers")
    code, text, _ = await site.get("/readyz")
    lines = [line.strip(" ,") for line in text.splitlines()]
    assert code == 200
    assert {'"configuration": "ok"', '"target": "failing: no broker answers"', '"degraded": true'} <= set(
        lines
    )


async def test_metrics_in_both_formats(site: Site) -> None:
    code, text, headers = await site.get("/metrics")
    assert (code, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    plain = {family.name for family in parse_text(text)}
    accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    code, text, headers = await site.get("/metrics", Accept=accept)
    assert (code, headers["Content-Type"].split(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert {family.name for family in parse_openmetrics(text)} == plain  # type: ignore[no-untyped-call]  # theirs has no types
    assert {"relay_events", "relay_consumer_lag_records", "process_resident_memory_bytes"} <= plain
    assert (await site.get("/metrics", Accept="application/openmetrics-text; version=x"))[0] == 200


async def test_status_is_json_of_what_is_known_now(site: Site, status: Status) -> None:
    status.consumed("orders", 7, 70)
    status.add_error("translate", "decode.malformed", "orders/0 at 4711", "data[0].price: is no decimal")
    code, text, headers = await site.get("/status")
    body = json.loads(text)
    assert (code, headers["Content-Type"]) == (200, "application/json")
    assert body["route"]["topics"] == {"orders": "orders.canal-json"}
    assert body["topics"]["consumed"]["orders"] == {"records": 7, "bytes": 70}
    assert body["last_errors"][0]["position"] == "orders/0 at 4711"
    assert body["lag"]["records"] == 50


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_answers_head_like_get_and_nothing_is_kept(site: Site, path: str) -> None:
    code, text, headers = await site.get(path)
    head_code, head_text, head_headers = await site.get(path, "HEAD")
    assert (code, head_code, head_text) == (200, 200, "")
    assert text
    assert head_headers["Content-Type"] == headers["Content-Type"]
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"], headers["Server"]) == (
        "no-store",
        "nosniff",
        "relay",
    )


@pytest.mark.parametrize("path", ["/health", "/livez/", "/status.json", "/%3Cscript%3E", "/../etc/passwd"])
async def test_unknown_paths_get_the_list_of_paths(site: Site, path: str) -> None:
    code, text, headers = await site.get(path)
    assert (code, headers["Content-Type"]) == (404, "application/json")
    assert set(json.loads(text)["paths"]) == set(PATHS)
    assert "script" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(site: Site, method: str) -> None:
    code, _, headers = await site.get("/status", method)
    assert (code, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_requests_with_a_body_are_refused_and_nothing_is_decompressed(
    site: Site, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """A kilobyte may be a megabyte, in the loop that relays."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    bomb = gzip.compress(bytes(1 << 20))
    made = aiohttp.http_parser.DeflateBuffer
    for name in ("feed_data", "__init__"):
        monkeypatch.setattr(made, name, refuse)
    for headers in ({"Content-Encoding": "gzip"}, {}):
        length = f"Content-Length: {len(bomb)}"
        names = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{names}{length}\r\n\r\n".encode() + bomb
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(request)
        answer = await reader.readline()
        assert answer.split()[1] == (b"415" if headers else b"400")
        writer.close()
        await writer.wait_closed()


async def test_a_port_in_use_is_a_clear_error(site: Site, status: Status) -> None:
    with pytest.raises(
        AddressUnavailable, match=f"127.0.0.1:{site.server.port}: another program.* uses the port"
    ) as caught:
        async with HttpServer("127.0.0.1", site.server.port, status):
            pass
    assert (caught.value.code, caught.value.exit_status) == ("service.address-unavailable", 3)
    # The one that was there goes on.
    assert (await site.get("/livez"))[0] == 200


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "does not have the address"), ("no.such.host.invalid", "unknown host name")],
)
async def test_an_address_of_another_machine_is_a_clear_error(status: Status, host: str, words: str) -> None:
    with pytest.raises(AddressUnavailable, match=words):
        async with HttpServer(host, 0, status):
            pass


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "a\0b", "\ud800"])
async def test_a_host_that_can_be_none_is_a_clear_error(status: Status, host: str) -> None:
    with pytest.raises(AddressUnavailable, match="unknown host name"):
        async with HttpServer(host, 0, status):
            pass


async def is_closed(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the server ends this connection by then; what it still sends is passed over."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read()
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@contextlib.asynccontextmanager
async def clients(port: int, count: int, sent: bytes) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections, made one after the other, that have sent this."""
    found = []
    try:
        for _ in range(count):
            found.append(await asyncio.open_connection("127.0.0.1", port))
            found[-1][1].write(sent)
        yield [reader for reader, _ in found]
    finally:
        for _, writer in found:
            writer.transport.abort()
        # The event loop ends them in its next turn.
        await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


HALF = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
MANY_PAGES = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500


@pytest.mark.parametrize(
    "sent", [b"", HALF, HALF + b"\r\n", MANY_PAGES], ids=["nothing", "half", "whole", "reads-nothing"]
)
async def test_slow_clients_keep_nobody_out(site: Site, sent: bytes) -> None:
    """The oldest connection gives way: a probe is answered however many others there are, and descriptors do
    not run out.
    """
    before = descriptors()
    async with clients(site.server.port, MAX_CONNECTIONS + 40, sent) as held:
        async with asyncio.timeout(5), aiohttp.ClientSession() as probe:
            assert (await Site(probe, site.server).get("/livez"))[0] == 200
        open_here = descriptors() - before - len(held)
        assert open_here <= MAX_CONNECTIONS
        # What a client has not read comes before the end.
        assert await is_closed(held[0], 5)


@pytest.mark.parametrize(
    "sent", [b"", HALF, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc"]
)
async def test_a_request_that_does_not_end_is_not_waited_for(status: Status, sent: bytes) -> None:
    async with HastyServer("127.0.0.1", 0, status) as server, clients(server.port, 2, sent) as held:
        assert not await is_closed(held[0], 0.1)
        for reader in held:
            assert await is_closed(reader, 5)


async def test_bytes_that_drip_win_no_time(status: Status) -> None:
    async with HastyServer("127.0.0.1", 0, status) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HALF + b"X: ")
        async with asyncio.timeout(5):
            while not reader.at_eof() and reader.exception() is None:
                writer.write(b"x")
                await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_the_port_is_free_again_afterwards(status: Status) -> None:
    async with HttpServer("127.0.0.1", 0, status) as server:
        port = server.port
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
    async with HttpServer("127.0.0.1", port, status) as server:
        assert server.port == port


async def test_a_stop_waits_for_no_idle_client(status: Status) -> None:
    # The client is left last, so its connection is open when the server ends.
    async with (
        asyncio.timeout(5),
        aiohttp.ClientSession() as client,
        HttpServer("127.0.0.1", 0, status) as server,
    ):
        assert (await Site(client, server).get("/livez"))[0] == 200


async def test_nothing_is_logged_for_requests(
    site: Site, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    await site.get("/livez")
    await site.get("/nothing")
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(b"\x16\x03\x01 no HTTP at all\r\n\r\n")
    await writer.drain()
    await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


async def test_a_defect_while_reading_is_an_answer_without_values(site: Site, status: Status) -> None:
    class Broken:
        @property
        def events(self) -> Any:
            raise RuntimeError("secret value of a row")

        losses = inferred_tables = paths = counts_by_table = remembered_rows = events

    status.translator = Broken()
    for path in ("/status", "/metrics"):
        code, text, _ = await site.get(path)
        assert (code, json.loads(text)) == (500, {"error": "a bug in relay", "kind": "RuntimeError"})
    assert (await site.get("/livez"))[0] == 200


async def test_the_page_may_run_its_own_script_and_nothing_else(site: Site) -> None:
    code, text, headers = await site.get("/")
    assert (code, headers["Content-Type"], text) == (200, "text/html; charset=utf-8", PAGE)
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert (
        policy["default-src"]
        == policy["base-uri"]
        == policy["form-action"]
        == policy["frame-ancestors"]
        == "'none'"
    )
    assert policy["connect-src"] == "'self'"
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"('sha256-[A-Za-z0-9+/]{43}=' ?)+", policy[kind])
    assert content_security_policy(b"<script>a</script>") != content_security_policy(b"<script>b</script>")


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert not re.search(r"(?:src|href)=\"(?!status|metrics|readyz|livez|data:,)", PAGE)
    assert re.findall(r"https?://[^\"]*", PAGE) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in PAGE
    assert "url(" not in PAGE


def test_the_page_never_makes_markup_of_text() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\bon[a-z]+=|style=", PAGE
    )


def test_the_page_asks_for_what_the_status_has() -> None:
    """A member that is renamed on one side only would show as nothing."""
    from relay.service.observe.report import details

    body = details(together(Clock(), running_status(Clock())))
    used = set(re.findall(r"\bs\.([a-z_]+)", PAGE))
    assert used
    assert used <= set(body)
    for part in ("lag", "rates", "history"):
        assert set(re.findall(rf"\b(?:s\.)?{part}\.([a-z_]+)", PAGE)) <= set(body[part])
    assert set(re.findall(r"\bp\.([a-z_]+)", PAGE)) <= set(body["partitions"][0])
    assert set(re.findall(r"\bone\.([a-z_]+)", PAGE)) <= set(body["processes"]["0"])
    assert set(re.findall(r"\broute\.([a-z_]+)", PAGE)) <= set(body["route"])


async def shown_by_browser(port: int, folder: Path) -> str:
    """The status page when its script has run."""
    flags = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=1500",
        f"--user-data-dir={folder}",
    )
    assert CHROMIUM is not None
    browser = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *flags,
        "--dump-dom",
        f"http://127.0.0.1:{port}/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(60):
        return (await browser.communicate())[0].decode()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_several_processes_and_no_list_of_one(tmp_path: Path) -> None:
    hidden = '<section class="card" id="processes-card" hidden="">'
    async with HttpServer("127.0.0.1", 0, running_status(Clock())) as server:
        assert hidden in await shown_by_browser(server.port, tmp_path)
    async with HttpServer("127.0.0.1", 0, together(Clock(), running_status(Clock()))) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    assert hidden not in shown
    table = shown.partition('<tbody id="processes">')[2].partition("</tbody>")[0]
    rows = [re.findall(">([^<]*)</td>", row) for row in table.split("</tr>") if row]
    assert [row[1:4] for row in rows] == [["running", "2", "50"], ["starting", "?", "?"]]


def verdict(shown: str) -> tuple[str, str, str]:
    """The level, the word and the sentence at the head of the page."""
    found = re.search(
        r'<section class="card verdict (\w*)"[^>]*><p class="word">([^<]*)</p><p>([^<]*)</p>', shown
    )
    assert found is not None
    level, word, sentence = found.groups()
    return level, word, html.unescape(sentence)


def tile(shown: str, name: str) -> str:
    found = re.search(rf"<h2>{re.escape(name)}</h2><b>([^<]*)</b>", shown)
    assert found is not None
    return found[1]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_a_relay_at_work(tmp_path: Path) -> None:
    clock, translated = Clock(), Translated()
    status = running_status(clock, translated)
    translated.events = Counter({"insert": 9})
    translated.losses = Counter({Loss.COMMIT_TS: 9})
    translated.counts_by_table = {
        TableId("shop", "orders"): Counter(insert=9),
        OTHER_TABLES: Counter(delete=4),
    }
    status.progress(ORDERS_1, position=200, end=200, timestamp_ms=None)
    status.database_times(ORDERS_0, row_ms=int(clock.time - 75) * 1000, watermark_ms=None)
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    level, word, sentence = verdict(shown)
    assert (level, word) == ("good", "Caught up")
    assert sentence == "All records in the source topics have been read."
    assert (tile(shown, "Waiting"), tile(shown, "Newest row")) == ("0", "1 min 15 s")
    rows = shown.partition('<tbody id="tables">')[2].partition("</tbody>")[0]
    assert [re.findall(">([^<]+)</td>", row) for row in rows.split("</tr>") if row] == [
        ["shop.orders", "9", "0"],
        ["all other tables", "0", "4"],
    ]
    lost, _, expected = shown.partition("<h3>Lost in translation</h3>")[2].partition(
        "<h3>Not representable in the target's format</h3>"
    )
    assert ("commit-ts" in lost, "commit-ts" in expected) == (False, True)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("waits", [0, 50])
async def test_a_browser_shows_in_an_outage_what_is_not_known(tmp_path: Path, waits: int) -> None:
    clock = Clock()
    status = running_status(clock)
    status.progress(ORDERS_1, position=200 - waits, end=200, timestamp_ms=None)
    clock.passes(100)
    status.set_check("source", ok=False, detail="no broker answers", reason="unreachable")
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    level, word, sentence = verdict(shown)
    assert (level, word) == ("bad", "No answer from a broker of the source")
    assert "has been read" not in sentence
    assert (
        "The number of waiting records is unknown: the brokers last reported it 1 min 40 s ago." in sentence
    )
    assert tile(shown, "Waiting") == "?"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_that_a_rate_limit_holds_relay_back(tmp_path: Path) -> None:
    """Also while nothing is read for a minute, because a record was large."""
    clock = Clock()
    status = running_status(clock)
    status.about = msgspec.structs.replace(
        status.about, rate_limits=RateLimits(records=2_000, size=1_000_000)
    )
    turns(status, clock, 60)
    for partition, position in ((ORDERS_0, 100), (ORDERS_1, 150)):
        status.progress(partition, position=position, end=position + 25, timestamp_ms=None)
    status.rate_limited(59.0)
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    level, word, sentence = verdict(shown)
    assert level == "warn"
    assert "50 records behind" in word
    limits = "max_records_per_second = 2,000, max_bytes_per_second = 1,000,000"
    assert sentence.startswith(f"Held back by {limits}: reading 0 records/s")
    assert f"<dt>Rate limit</dt><dd>{limits}; waited 59 s for it</dd>" in shown


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_before_an_outage_is_noticed_that_ends_are_old(tmp_path: Path) -> None:
    clock = Clock()
    status = running_status(clock)
    status.progress(ORDERS_1, position=200, end=200, timestamp_ms=None)
    clock.passes(4)
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
        assert verdict(shown)[0] == "good"
        clock.passes(2)
        shown = await shown_by_browser(server.port, tmp_path)
    level, word, sentence = verdict(shown)
    assert (level, word) == ("warn", "Unknown whether records wait")
    assert "has been read" not in sentence


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_that_all_records_became_dead_letters(tmp_path: Path) -> None:
    clock = Clock()
    status = running_status(clock, Translated())
    status.progress(ORDERS_1, position=200, end=200, timestamp_ms=None)
    for offset in range(54):
        status.consumed("orders", 1, 9)
        status.dead_letter("decode.malformed")
        status.produced("relay.dead", 1, 9)
        status.add_error("translate", "decode.malformed", f"orders/0/{offset}", "no message")
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    level, word, sentence = verdict(shown)
    assert (level, word) == ("bad", "Nothing gets through")
    assert sentence.startswith(
        "No row and no statement was relayed since the start: 54 dead letters. Do these topics hold "
        "ticdc-canal-json? At orders/0/53: no message."
    )
    assert tile(shown, "Given up") == "54"
    assert "54 times since" in shown
    errors = shown.partition("<h2>Last errors</h2>")[2].partition("</section>")[0]
    assert re.findall(r"orders/0/\d+", errors) == ["orders/0/53"]
    written = shown.partition("<h3>Records written to the target</h3>")[2].partition("<h3>")[0]
    assert "<dd>0</dd>" in written


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_a_browser_shows_hostile_names_as_text(tmp_path: Path) -> None:
    clock = Clock()
    status = make_status(clock, {HOSTILE: f"{HOSTILE}.out"})
    status.enter_phase("running")
    status.add_error("translate", "decode.malformed", HOSTILE, HOSTILE)
    status.set_check("source", ok=False, detail=HOSTILE)
    status.dead_letter(HOSTILE)
    async with HttpServer("127.0.0.1", 0, status) as server:
        shown = await shown_by_browser(server.port, tmp_path)
    assert "<title>Nothing gets through · relay</title>" in shown
    assert shown.count("<script>") == 1
    assert "<img" not in shown
    assert shown.count(html.escape(HOSTILE, quote=False)) >= 4


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080",
        "10.1.2.3",
        "[fe80::1]:8080",
        "[::1]",
        "localhost",
        "LOCALHOST:8080",
        "relay.localhost",
        "relay",
        "relay:8080",
        "relay-0.relay.orders.svc",
        "relay.orders.svc.cluster.local:8080",
        "relay.example.com",
        "Relay.Example.Com.:443",
        "",
    ],
)
async def test_addresses_and_own_names_are_answered(status: Status, host: str) -> None:
    async with HttpServer("127.0.0.1", 0, status, names=("relay.example.com",)) as server:
        assert (await asked_as(server.port, f"Host: {host}\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.example"],
        ["evil.example:8080"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example"],
        ["relay.example.com.evil.example"],
        ["svc.evil.example"],
        ["10.1.2.3.evil"],
        ["0x7f.1"],
        ["127.0.0.1@evil.example"],
        ["localhost", "evil.example"],
    ],
)
@pytest.mark.parametrize("path", ["/", "/status", "/livez", "/metrics", "/nowhere"])
async def test_a_name_that_anybody_could_own_is_refused(status: Status, hosts: list[str], path: str) -> None:
    """DNS rebinding: a page of evil.example has its own name mean the address of a relay."""
    async with HttpServer("127.0.0.1", 0, status, names=("relay.example.com",)) as server:
        answer = await asked_as(server.port, "".join(f"Host: {host}\r\n" for host in hosts), path)
    assert answer.split(b" ")[1] in {b"421", b"400"}
    assert b"group" not in answer


async def test_every_name_may_be_allowed(status: Status) -> None:
    async with HttpServer("127.0.0.1", 0, status, names=("*",)) as server:
        assert (await asked_as(server.port, "Host: any.example\r\n")).startswith(b"HTTP/1.1 200")


async def asked_as(port: int, headers: str, path: str = "/status") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_requests_and_headers_are_bounded(status: Status) -> None:
    async with HttpServer("127.0.0.1", 0, status) as server:
        for sent in (f"X: {'x' * 100_000}\r\n", "".join(f"X{number}: x\r\n" for number in range(20_000))):
            with contextlib.suppress(ConnectionError):
                answer = await asked_as(server.port, "Host: localhost\r\n" + sent)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
        assert (await asked_as(server.port, "Host: localhost\r\n")).startswith(b"HTTP/1.1 200")


async def test_half_characters_and_controls_of_the_configuration_break_no_answer(status: Status) -> None:
    status.about = msgspec.structs.replace(status.about, group="a\udc80\x9b\u202eb")
    async with HttpServer("127.0.0.1", 0, status) as server:
        answer = await asked_as(server.port, "Host: localhost\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.isascii()
    assert orjson.loads(answer.partition(b"\r\n\r\n")[2])["route"]["group"] == "a\\udc80\x9b\u202eb"
