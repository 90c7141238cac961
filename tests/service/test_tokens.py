"""Tokens for SASL OAUTHBEARER from files and endpoints: how they are asked for, kept, and refused."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from aiokafka.errors import KafkaError
from secured_support import arguments_of, security_of
from servers_support import Idp, serving

from relay.io.kafka.oauth import (
    LONGEST_SECONDS,
    SPARE_SECONDS,
    Credentials,
    EndpointTokens,
    FileTokens,
    NoToken,
    token_in,
)
from relay.model.errors import TokenUnavailable

SECRET = "client-battery"


@pytest.fixture
async def idp() -> AsyncIterator[Idp]:
    async with serving() as found:
        yield found


async def test_the_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = FileTokens(path)
    for text in ("first", "second\n"):
        path.write_text(text)
        assert await tokens.token() == text.strip()


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two words", b"\xff", b"a\x01auth=b"])
async def test_a_token_file_without_a_token_is_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenUnavailable, match=f"the token file {path}") as raised:
        await FileTokens(path).token()
    # aiokafka treats it as it treats a broker that is away.
    assert isinstance(raised.value, KafkaError)
    assert raised.value.retriable


def asking(
    idp: Idp, scope: str = "", clock: Callable[[], float] = lambda: 0.0, **credentials: str
) -> EndpointTokens:
    given = {"client_id": "relay", "secret": SECRET} | credentials
    return EndpointTokens(
        Credentials(idp.address, given["client_id"], given["secret"], scope),
        ssl.create_default_context(),
        clock,
    )


async def test_credentials_are_sent_as_the_standard_says(idp: Idp) -> None:
    tokens = asking(idp, scope="kafka", client_id="a client", secret="p:ss+w\u00f6rd")
    assert await tokens.token() == "t1"
    ((authorization, form),) = idp.requests
    assert form == {"grant_type": "client_credentials", "scope": "kafka"}
    assert authorization == "Basic " + base64.b64encode(b"a+client:p%3Ass%2Bw%C3%B6rd").decode()


async def test_a_token_is_kept_until_shortly_before_its_end(idp: Idp) -> None:
    now = 1000.0
    tokens = asking(idp, clock=lambda: now)
    # Connections to all brokers begin at once.
    assert set(await asyncio.gather(*(tokens.token() for _ in range(5)))) == {"t1"}
    now += 300 - SPARE_SECONDS - 1
    assert await tokens.token() == "t1"
    now += 2
    assert await tokens.token() == "t2"
    assert len(idp.requests) == 2


@pytest.mark.parametrize("answer", [{"expires_in": None}, {"expires_in": 0}, {"expires_in": "soon"}])
async def test_a_token_of_unknown_age_is_not_kept(idp: Idp, answer: dict[str, Any]) -> None:
    idp.answer = lambda: idp.give(**answer)
    tokens = asking(idp)
    assert [await tokens.token(), await tokens.token()] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            lambda: web.json_response({"error": "invalid_client"}, status=401),
            "refuses with HTTP status 401: invalid_client",
        ),
        (
            lambda: web.json_response({"error": f"bad {SECRET}"}, status=400),
            "refuses with HTTP status 400: no reason given",
        ),
        (
            lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
            "refuses with HTTP status 302",
        ),
        (lambda: web.Response(text="<html>"), "does not answer with JSON"),
        (lambda: web.json_response(["t"]), "answers without access_token"),
        (lambda: web.json_response({"access_token": 7}), "answers without access_token"),
        (lambda: web.json_response({"access_token": "a b"}), "is not a token"),
    ],
)
async def test_a_refusal_of_the_endpoint_is_reported_without_the_secret(
    idp: Idp, answer: Callable[[], web.StreamResponse], said: str
) -> None:
    idp.answer = answer
    with pytest.raises(NoToken) as raised:
        await asking(idp).token()
    assert str(raised.value).startswith(f"the token endpoint {idp.address} {said}")
    assert SECRET not in str(raised.value) + repr(raised.value)


async def test_an_unreachable_endpoint_is_reported_and_asked_again(idp: Idp) -> None:
    credentials = Credentials("http://127.0.0.1:1/token", "relay", SECRET)
    with pytest.raises(NoToken, match=r"cannot be reached: .*127\.0\.0\.1.*1"):
        await EndpointTokens(credentials, ssl.create_default_context()).token()


async def test_the_ca_file_is_trusted_at_the_endpoint_besides_the_systems(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    given = {
        "protocol": "SASL_SSL",
        "mechanism": "OAUTHBEARER",
        "client_id": "relay",
        "client_secret": SECRET,
    }
    async with serving(context) as idp:
        settings = arguments_of(
            security_of(**given, token_endpoint=idp.address, ca_file=str(tmp_path / "ca.pem"))
        )
        assert await settings["sasl_oauth_token_provider"].token() == "t1"
        settings = arguments_of(security_of(**given, token_endpoint=idp.address))
        with pytest.raises(NoToken, match="its certificate is not trusted"):
            await settings["sasl_oauth_token_provider"].token()


# ---------------------------------------------------------------- answers that do harm


async def answer_to(body: bytes, status: int = 200, headers: str = "", endpoint: str = "") -> str:
    """Ask an endpoint that answers with these bytes; the token, or the error."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n{headers}Connection: close\r\n\r\n"
        writer.write(head.encode())
        with contextlib.suppress(ConnectionError):
            for begin in range(0, len(body), 1 << 20):
                writer.write(body[begin : begin + (1 << 20)])
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{endpoint}"
    async with server:
        try:
            return await EndpointTokens(
                Credentials(url, "id", "s3cret"), ssl.create_default_context()
            ).token()
        except NoToken as error:
            return str(error)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"access_token":"' + b"x" * 100_000_000 + b'"}', "answers with more than"),
        (b'{"access_token":"' + b"x" * 200_000 + b'"}', "has more than"),
        (b"[" * 200_000, "does not answer with JSON"),
        (b'{"access_token":' * 10_000, "does not answer with JSON"),
        (b'{"access_token":"x","expires_in":' + b"9" * 5000 + b"}", "does not answer with JSON"),
        (b"\xff\xfe", "does not answer with JSON"),
        (b"", "does not answer with JSON"),
    ],
)
async def test_an_answer_has_bounds(body: bytes, said: str) -> None:
    assert said in await answer_to(body)


async def test_a_refusal_has_bounds() -> None:
    assert "no reason given" in await answer_to(b"[" * 200_000, status=400)


async def test_an_answer_is_not_unpacked() -> None:
    data = gzip.compress(b'{"access_token":"' + b"x" * 50_000_000 + b'"}')
    assert "JSON" in await answer_to(data, headers="Content-Encoding: gzip\r\n")


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("60", 60.0),
        ('"60"', 60.0),
        ("1e308", LONGEST_SECONDS),
        ("1e999", LONGEST_SECONDS),
        ("1" + "0" * 400, 0.0),
        ("Infinity", LONGEST_SECONDS),
        ("NaN", 0.0),
        ("-5", 0.0),
        ("true", 0.0),
        ("null", 0.0),
        ("[]", 0.0),
        ('"soon"', 0.0),
    ],
)
def test_a_token_is_not_used_for_ever(given: str, seconds: float) -> None:
    body = f'{{"access_token":"x","expires_in":{given}}}'.encode()
    assert token_in(200, body, "the endpoint") == ("x", seconds)


async def test_secrets_in_the_endpoints_address_are_redacted() -> None:
    said = await answer_to(b"{}", endpoint="/token?client_secret=HIDDEN&x=HIDDEN")
    assert "/token answers without" in said
    assert "HIDDEN" not in said
