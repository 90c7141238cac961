"""TLS and SASL for aiokafka's clients: what is read from where, what is said when it is wrong, and that
secrets stay hidden.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import ValidationError
from secured_support import (
    GROUP,
    PASSWORD,
    SECRETS,
    TOPIC,
    Secured,
    arguments_of,
    clusters_of,
    security_of,
    there_and_back,
    token,
)
from servers_support import Idp, serving

from relay.config import Config, SecurityConfig
from relay.io.kafka.requests import Operation
from relay.model.errors import ConfigError

SECRET = "client-battery"
KEY_PASSWORD = "key-battery"


def problems(security: SecurityConfig) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        arguments_of(security)
    assert not any(secret in str(raised.value) for secret in SECRETS)
    return [str(problem) for problem in raised.value.problems]


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a client's certificate, its key, plain and encrypted, another key, and things that are
    neither.
    """
    folder = tmp_path_factory.mktemp("own")
    ca = trustme.CA()
    leaf, other = ca.issue_cert("relay@example.com"), ca.issue_cert("relay@example.com")
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "certificate.pem").write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(str(folder / "key.pem"))
    other.private_key_pem.write_to_path(str(folder / "other_key.pem"))
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_PASSWORD.encode())
    )
    (folder / "locked_key.pem").write_bytes(locked)
    (folder / "words.txt").write_text("no certificate, no key\n")
    (folder / "empty").write_text("\n")
    (folder / "password").write_text(KEY_PASSWORD + "\n")
    return folder


# ---------------------------------------------------------------- settings


def test_plain_text_needs_nothing_else() -> None:
    assert arguments_of(SecurityConfig()) == {"security_protocol": "PLAINTEXT"}


def test_tls_alone_has_a_context_and_no_login(own: Path) -> None:
    settings = arguments_of(security_of(protocol="SSL", ca_file=str(own / "ca.pem")))
    context = settings.pop("ssl_context")
    assert settings == {"security_protocol": "SSL"}
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    # Only the file's: whoever names a CA does not want all the others.
    assert context.cert_store_stats()["x509_ca"] == 1


def test_without_a_file_the_systems_certificates_are_trusted() -> None:
    assert arguments_of(security_of(protocol="SSL"))["ssl_context"].verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_from_a_file_is_its_text_without_the_line_end(tmp_path: Path, ending: str) -> None:
    (tmp_path / "password").write_bytes((" p\u00e4ss \n word " + ending).encode())
    given = security_of(protocol="SASL_PLAINTEXT", username="relay", password_file=str(tmp_path / "password"))
    assert arguments_of(given) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "relay",
        "sasl_plain_password": " p\u00e4ss \n word ",
    }


def test_settings_do_not_show_their_secrets(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    login = security_of(protocol="SASL_PLAINTEXT", username="relay", password=PASSWORD)
    endpoint = {"token_endpoint": "https://idp.example.com/token", "client_id": "relay"}
    bearer = security_of(
        protocol="SASL_PLAINTEXT",
        mechanism="OAUTHBEARER",
        **endpoint,
        client_secret_file=str(tmp_path / "secret"),
    )
    provider = arguments_of(bearer)["sasl_oauth_token_provider"]
    shown = [arguments_of(login), login, bearer, arguments_of(bearer), provider, vars(provider)]
    for each in shown:
        assert not any(secret in text for secret in SECRETS for text in (repr(each), str(each), f"{each}")), (
            each
        )


def test_own_certificate_is_loaded(own: Path) -> None:
    def given(**settings: str) -> SecurityConfig:
        return security_of(protocol="SSL", certificate_file=str(own / "certificate.pem"), **settings)

    assert arguments_of(given(key_file=str(own / "key.pem")))
    assert arguments_of(given(key_file=str(own / "locked_key.pem"), key_password=KEY_PASSWORD))
    assert arguments_of(given(key_file=str(own / "locked_key.pem"), key_password_file=str(own / "password")))


CERTIFICATE = {"certificate_file": "certificate.pem"}


@pytest.mark.parametrize(
    ("files", "texts", "said"),
    [
        ({"ca_file": "nowhere.pem"}, {}, ["ca_file: … cannot be read: No such file or directory"]),
        ({"ca_file": "."}, {}, ["ca_file: … cannot be read: Is a directory"]),
        ({"ca_file": "empty"}, {}, ["ca_file: … is empty"]),
        (
            {"ca_file": "words.txt"},
            {},
            ["ca_file: contains no certificate (it must be PEM, with -----BEGIN CERTIFICATE-----)"],
        ),
        (
            {"certificate_file": "words.txt", "key_file": "key.pem"},
            {},
            ["certificate_file: contains no certificate"],
        ),
        (CERTIFICATE | {"key_file": "words.txt"}, {}, ["key_file: contains no readable private key"]),
        (
            CERTIFICATE | {"key_file": "other_key.pem"},
            {},
            ["key_file: is not the key of the certificate in certificate_file"],
        ),
        (
            CERTIFICATE | {"key_file": "locked_key.pem"},
            {},
            ["key_password: is missing: key_file is encrypted"],
        ),
        (
            CERTIFICATE | {"key_file": "locked_key.pem"},
            {"key_password": "wrong-battery"},
            ["key_password: does not open key_file"],
        ),
        (
            CERTIFICATE | {"key_file": "locked_key.pem", "key_password_file": "words.txt"},
            {},
            ["key_password_file: does not open key_file"],
        ),
        (
            CERTIFICATE | {"key_file": "locked_key.pem", "key_password_file": "empty"},
            {},
            ["key_password_file: … is empty"],
        ),
        (
            {
                "ca_file": "words.txt",
                "certificate_file": "nowhere.pem",
                "key_file": "empty",
                "key_password_file": "nowhere",
            },
            {},
            [
                "ca_file: contains no certificate",
                "key_password_file: … cannot be read",
                "certificate_file: … cannot be read",
                "key_file: … is empty",
            ],
        ),
    ],
)
def test_every_problem_of_the_files_is_reported(
    own: Path, files: dict[str, str], texts: dict[str, str], said: list[str]
) -> None:
    found = problems(
        security_of(protocol="SSL", **{key: str(own / name) for key, name in files.items()}, **texts)
    )
    assert len(found) == len(said)
    for problem, expected in zip(found, said, strict=True):
        start, _, rest = expected.partition("… ")
        assert problem.startswith("source.security." + start)
        assert rest in problem


def test_problems_of_both_clusters_are_reported_together(tmp_path: Path) -> None:
    login = {"protocol": "SASL_PLAINTEXT", "username": "relay"}
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {
            "bootstrap_servers": "one:9092",
            "topics": ["t"],
            "group_id": "g",
            "security": login | {"password_file": str(tmp_path / "one")},
        },
        "target": {
            "bootstrap_servers": "two:9092",
            "topic": "u",
            "security": login | {"password_file": str(tmp_path / "two")},
        },
    }
    with pytest.raises(ConfigError) as raised:
        clusters_of(Config(**tables))
    assert [problem.path for problem in raised.value.problems] == [
        "source.security.password_file",
        "target.security.password_file",
    ]


def test_one_cluster_has_one_set_of_settings() -> None:
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "one:9092", "topics": ["t"], "group_id": "g"},
        "target": {"topic": "u"},
    }
    settings = clusters_of(Config(**tables))
    assert settings.source is settings.target


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("idp.example.com/token", "is not an address"),
        ("https://a:b@idp.example.com/token", "contains a user or a password"),
    ],
)
async def test_a_token_endpoint_must_be_an_address(endpoint: str, said: str) -> None:
    given = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "OAUTHBEARER",
        "client_id": "relay",
        "client_secret": SECRET,
    }
    with pytest.raises(ValidationError) as refused:
        security_of(**given, token_endpoint=endpoint)
    assert f"token_endpoint {said}" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert endpoint not in str(refused.value)


# ---------------------------------------------------------------- a real broker


@pytest.fixture
async def idp() -> AsyncIterator[Idp]:
    async with serving() as found:
        yield found


@pytest.fixture
async def topic(secured: Secured) -> str:
    """A topic that the user may write and read, with a group of the same name."""
    name = await secured.topic()
    await secured.grant(TOPIC, name, Operation.READ, Operation.WRITE)
    await secured.grant(GROUP, name, Operation.READ)
    return name


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_clients_log_in_with_a_password(
    secured: Secured, topic: str, tmp_path: Path, mechanism: str
) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    given = secured.security(mechanism=mechanism, password=None, password_file=str(tmp_path / "password"))
    assert await there_and_back(secured.address("SASL_SSL"), arguments_of(given), topic) == b"secret agent"


def bearer(secured: Secured, **settings: str) -> dict[str, Any]:
    return arguments_of(secured.security(mechanism="OAUTHBEARER", username=None, password=None, **settings))


@pytest.mark.kafka
async def test_clients_log_in_with_a_token_from_a_file(secured: Secured, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(token() + "\n")
    settings = bearer(secured, token_file=str(path))
    assert await there_and_back(secured.address("SASL_SSL"), settings, topic) == b"secret agent"


@pytest.mark.kafka
async def test_clients_log_in_with_a_token_from_an_endpoint(secured: Secured, topic: str, idp: Idp) -> None:
    idp.answer = lambda: idp.give(access_token=token())
    settings = bearer(secured, token_endpoint=idp.address, client_id="relay", client_secret=SECRET)
    assert await there_and_back(secured.address("SASL_SSL"), settings, topic) == b"secret agent"
    assert len(idp.requests) == 1


@pytest.mark.kafka
async def test_a_refused_token_is_a_refused_login(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client alone takes it for a login, and for a cluster without brokers."""
    path = tmp_path / "token"
    path.write_text(token(seconds=-60))
    servers, settings = secured.address("SASL_SSL"), bearer(secured, token_file=str(path))
    with pytest.raises(KafkaConnectionError):
        await AIOKafkaAdminClient(bootstrap_servers=servers, **settings).start()
    assert "the broker refuses the token: invalid_token" in caplog.text
    # The next connection reads the file again.
    path.write_text(token())
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, **settings)
    await admin.start()
    await admin.close()


@pytest.mark.kafka
async def test_a_missing_token_is_a_connection_that_failed(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text(token())
    settings = bearer(secured, token_file=str(path))
    path.unlink()
    with pytest.raises(KafkaConnectionError):
        await AIOKafkaAdminClient(bootstrap_servers=secured.address("SASL_SSL"), **settings).start()
    assert f"the token file {path} cannot be read: No such file or directory" in caplog.text


@pytest.mark.kafka
async def test_clients_show_their_certificate(secured: Secured) -> None:
    own = str(secured.folder / "client.pem")
    given = security_of(
        protocol="SSL", ca_file=str(secured.folder / "ca.pem"), certificate_file=own, key_file=own
    )
    admin = AIOKafkaAdminClient(bootstrap_servers=secured.address("MUTUAL"), **arguments_of(given))
    await admin.start()
    await admin.close()
