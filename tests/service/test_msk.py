"""Amazon MSK with IAM: AWS's signer makes tokens from AWS credentials, and a real broker takes tokens by
OAUTHBEARER. Nothing here asks AWS: its token service is a server on this machine.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
import hmac
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from aiohttp import web
from aiokafka.errors import KafkaError
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from secured_support import (
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Secured,
    arguments_of,
    brokers_of,
    security_of,
    there_and_back,
    token,
)
from service.transport_support import MODES, both_modes, check_complete, numbered

from relay.config import SecurityConfig
from relay.config.addresses import parse_server
from relay.io.kafka.msk import AwsIdentity, MskTokens, region_of
from relay.io.kafka.oauth import NoToken
from relay.io.kafka.requests import Operation
from relay.model.errors import ConfigError
from relay.service.check.cluster import ClusterInspection
from relay.service.check.connectivity import Unreachable, connect

KEY_ID, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLE", "FQoGZXIvYXdzEXAMPLE"
REGION = "eu-west-3"
IAM = {"protocol": "SASL_SSL", "mechanism": "AWS_MSK_IAM"}
VARIABLES = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without AWS credentials; the result is the file with its profiles."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path / "config"


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in variables."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)


def signed_url(given: str) -> str:
    """The URL that a token contains."""
    return base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)).decode()


def query(given: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(signed_url(given)).query))


def signature(url: str, secret: str) -> str:
    """The signature of AWS, version 4, over a request without headers and body, but for the host."""
    parts = urlsplit(url)
    pairs = [pair for pair in parse_qsl(parts.query) if pair[0] not in {"X-Amz-Signature", "User-Agent"}]
    named = dict(pairs)
    text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(pairs))
    request = f"GET\n/\n{text}\nhost:{parts.netloc}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    _, date, *scope = named["X-Amz-Credential"].split("/")
    key = f"AWS4{secret}".encode()
    for word in (date, *scope):
        key = hmac.digest(key, word.encode(), "sha256")
    signed = (
        f"AWS4-HMAC-SHA256\n{named['X-Amz-Date']}\n{'/'.join((date, *scope))}\n"
        f"{hashlib.sha256(request.encode()).hexdigest()}"
    )
    return hmac.digest(key, signed.encode(), "sha256").hex()


# ---------------------------------------------------------------- tokens of the real signer


async def test_a_token_is_a_signed_request_of_the_documented_form(static: None) -> None:
    """As AWS describes it: kafka-cluster:Connect at the region's endpoint, valid for 15 minutes."""
    given = await MskTokens(AwsIdentity(REGION)).token()
    url = signed_url(given)
    parts, found = urlsplit(url), query(given)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", f"kafka.{REGION}.amazonaws.com", "/")
    assert "=" not in given
    date = found["X-Amz-Date"][:8]
    assert found == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY_ID}/{date}/{REGION}/kafka-cluster/aws4_request",
        "X-Amz-Date": found["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-Security-Token": SESSION,
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": signature(url, SECRET),
        "User-Agent": found["User-Agent"],
    }
    assert found["User-Agent"].startswith("aws-msk-iam-sasl-signer-python/")
    assert SECRET not in url


async def test_logs_have_no_parts_of_a_token(static: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    given = await MskTokens(AwsIdentity(REGION)).token()
    assert query(given)["X-Amz-Signature"] not in caplog.text
    assert SECRET not in caplog.text
    assert SESSION not in caplog.text


def test_settings_show_no_credentials(static: None) -> None:
    provider = arguments_of(security_of(**IAM, aws_region=REGION))["sasl_oauth_token_provider"]
    shown = repr(provider) + repr(vars(provider))
    assert SECRET not in shown
    assert REGION in shown


async def test_each_connection_gets_a_new_token(static: None, counted: list[str]) -> None:
    tokens = MskTokens(AwsIdentity(REGION))
    assert {await tokens.token() for _ in range(3)} == {"t1", "t2", "t3"}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A signer whose tokens are numbered, in place of AWS's."""
    signed: list[str] = []

    def sign(region: str, credentials: Any) -> tuple[str, int]:
        assert region == REGION
        assert credentials.load().secret_key == SECRET
        signed.append(f"t{len(signed) + 1}")
        return signed[-1], 0

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token_from_credentials_provider", sign)
    return signed


# ---------------------------------------------------------------- credentials


PROGRAM = """
import datetime, json, pathlib, sys
calls = pathlib.Path(sys.argv[1])
count = len(calls.read_text()) + 1 if calls.exists() else 1
calls.write_text("x" * count)
end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=int(sys.argv[2]))
print(json.dumps({"Version": 1, "AccessKeyId": f"KEY{count}", "SecretAccessKey": "s3cret-battery",
    "SessionToken": "t", "Expiration": end.isoformat()}))
"""


def program(aws: Path, seconds: int, text: str = PROGRAM) -> None:
    """Let a program give the credentials of a profile; they are valid for so many seconds."""
    script, calls = aws.parent / "program.py", aws.parent / "calls"
    script.write_text(text)
    aws.write_text(f"[profile cdc]\ncredential_process = {sys.executable} {script} {calls} {seconds}\n")


@pytest.mark.parametrize(("seconds", "count"), [(60, 2), (7200, 1)])
async def test_credentials_are_renewed_before_they_end(aws: Path, seconds: int, count: int) -> None:
    """Botocore does not use credentials for their last ten minutes."""
    program(aws, seconds)
    tokens = MskTokens(AwsIdentity(REGION, profile="cdc"))
    assert len({query(await tokens.token())["X-Amz-Credential"] for _ in range(2)}) == count


async def test_connections_that_begin_together_ask_for_credentials_once(aws: Path) -> None:
    program(aws, 7200)
    tokens = MskTokens(AwsIdentity(REGION, profile="cdc"))
    given = await asyncio.gather(*(tokens.token() for _ in range(5)))
    assert {query(each)["X-Amz-Credential"].split("/")[0] for each in given} == {"KEY1"}
    assert (aws.parent / "calls").read_text() == "x"


class Sts:
    """AWS's token service: gives the credentials of roles, and lists the requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await self.answers.wait()
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append((request.headers.get("Authorization", ""), form))
        if self.refuses:
            return web.Response(
                status=403,
                content_type="text/xml",
                text="<ErrorResponse><Error><Code>AccessDenied</Code><Message>s3cret-battery</Message></Error></ErrorResponse>",
            )
        end = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
        action = form["Action"]
        text = (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
            f"<AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
            f"<SessionToken>{SESSION}</SessionToken><Expiration>{end}</Expiration></Credentials>"
            f"</{action}Result></{action}Response>"
        )
        return web.Response(content_type="text/xml", text=text)


@pytest.fixture
async def sts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sts]:
    found, app = Sts(), web.Application()
    app.router.add_post("/", found.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield found
    await runner.cleanup()


async def test_a_role_is_assumed(static: None, sts: Sts) -> None:
    arn = "arn:aws:iam::123456789012:role/relay"
    tokens = MskTokens(AwsIdentity(REGION, role_arn=arn))
    found = query(await tokens.token())
    assert found["X-Amz-Credential"].startswith("ROLEKEY/")
    await tokens.token()
    # The role's credentials serve both tokens. The request is signed by the first identity, in the region.
    ((authorization, form),) = sts.requests
    assert (form["Action"], form["RoleArn"]) == ("AssumeRole", arn)
    assert f"{KEY_ID}/" in authorization
    assert f"/{REGION}/sts/" in authorization


async def test_a_web_identity_is_taken_as_in_kubernetes(
    sts: Sts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables that EKS sets for a service account with a role."""
    (tmp_path / "identity").write_text("projected-token")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/relay")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "identity"))
    monkeypatch.setenv("AWS_REGION", REGION)
    provider = arguments_of(security_of(**IAM))["sasl_oauth_token_provider"]
    assert query(await provider.token())["X-Amz-Credential"].startswith("ROLEKEY/")
    ((_, form),) = sts.requests
    assert form["Action"] == "AssumeRoleWithWebIdentity"
    assert form["WebIdentityToken"] == "projected-token"


async def test_a_refusal_is_reported_without_its_text_and_asked_again(static: None, sts: Sts) -> None:
    sts.refuses = True
    tokens = MskTokens(AwsIdentity(REGION, role_arn="arn:aws:iam::123456789012:role/other"))
    with pytest.raises(NoToken) as raised:
        await tokens.token()
    assert str(raised.value) == "no token can be signed for Amazon MSK: AWS refuses AssumeRole: AccessDenied"
    # aiokafka treats it as it treats a broker that is away.
    assert isinstance(raised.value, KafkaError)
    assert raised.value.retriable
    sts.refuses = False
    assert query(await tokens.token())["X-Amz-Credential"].startswith("ROLEKEY/")


async def test_a_service_that_does_not_answer_is_reported(static: None, sts: Sts) -> None:
    sts.answers.clear()
    tokens = MskTokens(AwsIdentity(REGION, role_arn="arn:aws:iam::123456789012:role/relay"), seconds=0.2)
    with pytest.raises(NoToken, match=r"for Amazon MSK: AWS gives no credentials within 0\.2 s"):
        await tokens.token()
    sts.answers.set()


async def test_missing_credentials_are_reported_and_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = MskTokens(AwsIdentity(REGION))
    with pytest.raises(NoToken, match="there are no AWS credentials in variables, files"):
        await tokens.token()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert query(await tokens.token())["X-Amz-Credential"].startswith(f"{KEY_ID}/")


async def test_a_missing_profile_is_reported() -> None:
    with pytest.raises(NoToken, match=r"The config profile \(cdc\) could not be found"):
        await MskTokens(AwsIdentity(REGION, profile="cdc")).token()


async def test_output_of_a_program_is_not_shown(aws: Path) -> None:
    program(aws, 60, text="import sys; sys.exit('s3cret-battery')")
    with pytest.raises(NoToken, match=r"cannot be obtained \(CredentialRetrievalError\)") as raised:
        await MskTokens(AwsIdentity(REGION, profile="cdc")).token()
    assert "battery" not in repr(raised.value)


# ---------------------------------------------------------------- configuration


def test_the_region_is_that_of_the_configuration_the_variables_or_the_profile(aws: Path) -> None:
    aws.write_text("[default]\nregion = r4\n[profile cdc]\nregion = r5\n")
    variables = {"AWS_REGION": "r2", "AWS_DEFAULT_REGION": "r3"}
    assert region_of("r1", "", variables) == "r1"
    assert region_of("", "", variables) == "r2"
    assert region_of("", "", {"AWS_DEFAULT_REGION": "r3", "AWS_REGION": ""}) == "r3"
    assert region_of("", "", {}) == "r4"
    assert region_of("", "cdc", {}) == "r5"
    assert region_of("", "other", {}) == ""


def problem_of(**settings: str) -> str:
    with pytest.raises(ConfigError) as raised:
        arguments_of(security_of(**IAM, **settings))
    (problem,) = raised.value.problems
    return str(problem)


def test_a_missing_region_is_a_problem_of_the_configuration() -> None:
    assert problem_of() == "source.security.aws_region: is missing (set it, or the variable AWS_REGION)"


def test_a_missing_signer_is_a_problem_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.delitem(sys.modules, "relay.io.kafka.msk")
    assert problem_of(aws_region=REGION) == (
        "source.security.mechanism: AWS_MSK_IAM needs AWS's signer, which is not installed "
        "(pip install '.[msk]' in relay's folder; the image has it)"
    )


# ---------------------------------------------------------------- a real broker


@pytest.fixture
def accepted(static: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A signer whose tokens a broker for tests takes, which cannot check AWS's signature."""
    signed: list[str] = []

    def sign(region: str, credentials: Any) -> tuple[str, int]:
        signed.append(token())
        return signed[-1], 0

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token_from_credentials_provider", sign)
    return signed


def msk_of(secured: Secured, **settings: str) -> SecurityConfig:
    return secured.security(
        mechanism="AWS_MSK_IAM", username=None, password=None, aws_region=REGION, **settings
    )


@pytest.mark.kafka
async def test_clients_log_in_with_a_token_for_each_connection(secured: Secured, accepted: list[str]) -> None:
    topic = await secured.topic()
    await secured.grant(TOPIC, topic, Operation.READ, Operation.WRITE)
    await secured.grant(GROUP, topic, Operation.READ)
    settings = arguments_of(msk_of(secured))
    assert settings["sasl_mechanism"] == "OAUTHBEARER"
    assert await there_and_back(secured.address("SASL_SSL"), settings, topic) == b"secret agent"
    assert len(accepted) > 3


@pytest.mark.kafka
@both_modes
async def test_a_relay_outlives_its_tokens(
    secured: Secured, kafka_at: Any, run_relay: Any, echo: Any, accepted: list[str], mode: str
) -> None:
    """The broker ends connections with their tokens, in the middle of transactions, too."""
    source, target = [await secured.topic(2, retention_ms="-1") for _ in range(2)]
    await secured.grant(TOPIC, source, Operation.READ)
    await secured.grant(TOPIC, target, Operation.WRITE)
    await secured.grant(GROUP, f"g-{source}", Operation.READ)
    await secured.grant(TRANSACTIONAL_ID, f"g-{source}-0", Operation.WRITE)
    delivery = {key.removeprefix("delivery_"): value for key, value in MODES[mode].items()}
    config = secured.config("SESSIONS", source, target, msk_of(secured), delivery=delivery)
    async with kafka_at(secured.address("PLAINTEXT")) as kafka:
        relay = run_relay(config, echo(target))
        for start in range(0, 300, 100):
            await kafka.produce(source, numbered(100, start=start))
            before = len(accepted)

            async def has_new_logins(count: int = start + 100, logins: int = before + 4) -> bool:
                assert not relay.has_ended, relay.log.events[-3:]
                committed = sum((await kafka.committed(f"g-{source}")).values())
                return bool(committed == count) and len(accepted) >= logins

            await kafka.until(has_new_logins)
        assert await relay.stop() == 0
        found = await kafka.read(target, committed=True)
    check_complete(found, 300, once=mode == "exactly-once")
    assert not any(each in str(relay.log.events) for each in (*accepted, SECRET, SESSION))


@pytest.mark.kafka
async def test_the_check_logs_in(secured: Secured, accepted: list[str]) -> None:
    inspection = ClusterInspection(brokers_of(msk_of(secured), secured.address("SASL_SSL")))
    await inspection.connect()
    try:
        assert inspection.is_reached
        assert inspection.how == "answers with SASL_SSL, logged in with AWS_MSK_IAM"
    finally:
        await inspection.close()


@pytest.mark.kafka
async def test_the_check_reports_a_refused_token(secured: Secured, static: None) -> None:
    """The broker for tests refuses tokens of the real signer, as MSK refuses an identity without rights."""
    brokers = brokers_of(msk_of(secured))
    with pytest.raises(Unreachable) as raised:
        await connect(parse_server(secured.address("SASL_SSL")), brokers)
    assert raised.value.what.startswith("the broker refuses the token: ")
    assert "kafka-cluster:Connect" in raised.value.hint
    assert SECRET not in str(raised.value)
    assert "X-Amz-Signature" not in str(raised.value)


@pytest.mark.kafka
async def test_the_check_reports_missing_credentials(secured: Secured) -> None:
    with pytest.raises(Unreachable) as raised:
        await connect(parse_server(secured.address("SASL_SSL")), brokers_of(msk_of(secured)))
    assert "no token can be signed for Amazon MSK: there are no AWS credentials" in raised.value.what
