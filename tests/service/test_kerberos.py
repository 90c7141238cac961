"""Kerberos (SASL GSSAPI): a real KDC, and a real broker that takes its tickets."""

from __future__ import annotations

import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kerberos_support
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from kerberos_support import NAME, KerberosBroker
from secured_support import arguments_of, brokers_of, security_of, there_and_back
from servers_support import talking
from service.transport_support import MODES, both_modes, check_complete, numbered

from relay.config import Config, SecurityConfig
from relay.config.addresses import parse_server
from relay.io.kafka.kerberos import KerberosIdentity, KerberosLogin, KerberosService, NoTicket
from relay.model.errors import ConfigError, TokenUnavailable
from relay.service.check.cluster import ClusterInspection
from relay.service.check.connectivity import Unreachable, close, connect

GSSAPI = {"protocol": "SASL_SSL", "mechanism": "GSSAPI"}


# ---------------------------------------------------------------- settings


def problem_of(**settings: str) -> str:
    with pytest.raises(ConfigError) as raised:
        arguments_of(security_of(**GSSAPI, **settings))
    (problem,) = raised.value.problems
    return str(problem)


def test_a_missing_package_is_a_problem_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    assert problem_of() == (
        "source.security.mechanism: GSSAPI needs the package gssapi, which is not installed or lacks its "
        "library (install libgssapi-krb5-2, and '.[kerberos]' in relay's folder; the image has both)"
    )


def test_a_missing_keytab_is_a_problem_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", sys)
    path = tmp_path / "relay.keytab"
    said = f"source.security.keytab_file: {path} cannot be read: No such file or directory"
    assert problem_of(keytab_file=str(path)) == said


def test_the_name_of_the_service_carries_the_identity() -> None:
    identities = [KerberosIdentity.of("/k", "relay") for _ in range(2)]
    assert identities[0].cache != identities[1].cache
    service = KerberosService("kafka", identities[0])
    assert service == "kafka"
    assert service.identity is identities[0]


# ---------------------------------------------------------------- a real KDC and a real broker


@pytest.fixture(scope="module")
def broker() -> Iterator[KerberosBroker]:
    if lacks := kerberos_support.missing():
        pytest.skip(f"Kerberos needs {lacks}")
    with kerberos_support.running() as found:
        yield found


@pytest.fixture
def kerberos(broker: KerberosBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KerberosBroker:
    """The broker, with its realm in the environment of this process, and no ticket."""
    monkeypatch.setenv("KRB5_CONFIG", str(broker.realm.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    return broker


@pytest.mark.kafka
async def test_clients_log_in_with_a_keytab(kerberos: KerberosBroker, kafka_at: Any) -> None:
    async with kafka_at(kerberos.plain) as kafka:
        topic = await kafka.topic()
    settings = arguments_of(kerberos.security())
    assert settings["sasl_mechanism"] == "GSSAPI"
    before = kerberos.realm.logins("relay")
    assert await there_and_back(kerberos.address, settings, topic) == b"secret agent"
    # All connections share the ticket.
    assert kerberos.realm.logins("relay") == before + 1


async def reached(servers: str, security: SecurityConfig) -> str:
    """How a cluster was reached."""
    inspection = ClusterInspection(brokers_of(security, servers))
    await inspection.connect()
    try:
        assert inspection.is_reached, inspection.bootstrap
        return inspection.how
    finally:
        await inspection.close()


@pytest.mark.kafka
async def test_the_check_logs_in(kerberos: KerberosBroker) -> None:
    how = await reached(kerberos.address, kerberos.security())
    assert how == f"answers with SASL_PLAINTEXT, logged in with GSSAPI as relay@{NAME}"
    how = await reached(kerberos.address, kerberos.security(kerberos_principal=None))
    assert how == "answers with SASL_PLAINTEXT, logged in with GSSAPI"


@pytest.mark.kafka
async def test_the_service_may_have_another_host_name(kerberos: KerberosBroker) -> None:
    address = kerberos.address.replace("localhost", "127.0.0.1")
    problem = await unreachable(address, kerberos.security())
    assert problem.what.startswith("no Kerberos ticket for kafka@127.0.0.1: ")
    await reached(address, kerberos.security(kerberos_domain_name="localhost"))


@pytest.mark.kafka
async def test_credentials_may_come_from_the_environment(
    kerberos: KerberosBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process's own ticket, or its own keytab."""
    security = kerberos.security(keytab_file=None, kerberos_principal=None)
    problem = await unreachable(kerberos.address, security)
    assert problem.what.startswith("no Kerberos ticket for kafka@localhost: ")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberos.keytab))
    await reached(kerberos.address, security)
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'own'}")
    kerberos.realm.log_in(kerberos.keytab, "relay", tmp_path / "own")
    await reached(kerberos.address, security)


@pytest.mark.kafka
async def test_two_clusters_have_two_identities(kerberos: KerberosBroker) -> None:
    """Tickets of one do not serve the other."""
    other = kerberos.realm.keytab(f"u-{uuid.uuid4().hex[:8]}")
    await reached(kerberos.address, kerberos.security())
    name = other.stem
    await reached(kerberos.address, kerberos.security(keytab_file=str(other), kerberos_principal=name))
    assert kerberos.realm.logins(name) == 1


async def unreachable(servers: str, security: SecurityConfig) -> Unreachable:
    with pytest.raises(Unreachable) as raised:
        await connect(parse_server(servers), brokers_of(security))
    return raised.value


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"kerberos_principal": "nobody"},
            "no Kerberos ticket for kafka@localhost: No credentials cache found",
        ),
        (
            {"kerberos_service_name": "other"},
            f"no Kerberos ticket for other@localhost: Server other/localhost@{NAME} not found in Kerberos database",
        ),
    ],
)
async def test_the_check_says_why_there_is_no_ticket(
    kerberos: KerberosBroker, settings: dict[str, str], said: str
) -> None:
    problem = await unreachable(kerberos.address, kerberos.security(**settings))
    assert problem.what == said
    assert "keytab_file, kerberos_principal" in problem.hint


@pytest.mark.kafka
async def test_a_renewed_keytab_is_read(kerberos: KerberosBroker, tmp_path: Path) -> None:
    """Its old key is no longer valid."""
    name = f"u-{uuid.uuid4().hex[:8]}"
    path = tmp_path / "keytab"
    shutil.copy(kerberos.realm.keytab(name), path)
    brokers = brokers_of(kerberos.security(keytab_file=str(path), kerberos_principal=name), kerberos.address)
    renewed = kerberos.realm.keytab(name)
    with pytest.raises(Unreachable, match="no Kerberos ticket"):
        await connect(parse_server(kerberos.address), brokers)
    assert not brokers.renew()
    shutil.copy(renewed, path)
    assert brokers.renew()
    await close((await connect(parse_server(kerberos.address), brokers)).connection)


@pytest.mark.kafka
async def test_a_kdc_that_is_down_is_retried(
    kerberos: KerberosBroker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = arguments_of(kerberos.security())
    kerberos.realm.stop()
    try:
        with pytest.raises(KafkaError) as raised:
            await AIOKafkaAdminClient(bootstrap_servers=kerberos.address, **settings).start()
    finally:
        kerberos.realm.start()
    assert "no Kerberos ticket for kafka@localhost: Cannot contact any KDC for realm" in caplog.text
    assert raised.value.retriable
    assert issubclass(NoTicket, TokenUnavailable)
    admin = AIOKafkaAdminClient(bootstrap_servers=kerberos.address, **settings)
    await admin.start()
    await admin.close()


@pytest.mark.kafka
async def test_a_kdc_that_does_not_answer_is_reported(
    kerberos: KerberosBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with talking(None) as address:
        text = re.sub(r"127\.0\.0\.1:\d+", address, kerberos.realm.config.read_text())
        (tmp_path / "krb5.conf").write_text(text)
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        identity = KerberosIdentity.of(str(kerberos.keytab), "relay")
        with pytest.raises(NoTicket) as raised:
            await KerberosLogin("kafka@localhost", identity, seconds=0.2).step(None)
    assert str(raised.value) == "no Kerberos ticket for kafka@localhost: no answer from the KDC within 0.2 s"


@pytest.mark.kafka
@both_modes
async def test_a_relay_outlives_its_tickets(
    kerberos: KerberosBroker, kafka_at: Any, run_relay: Any, echo: Any, mode: str
) -> None:
    """The broker ends its logins, and the tickets end."""
    async with kafka_at(kerberos.plain) as kafka:
        source, target = [await kafka.topic(2) for _ in range(2)]
        delivery = {key.removeprefix("delivery_"): value for key, value in MODES[mode].items()}
        config = Config.model_validate(
            {
                "route": {"from": "ticdc-canal-json", "to": "canal-json"},
                "source": {
                    "bootstrap_servers": kerberos.address,
                    "topics": [source],
                    "group_id": f"g-{source}",
                    "security": kerberos.security(),
                },
                "target": {"topic": target},
                "schema": {"history_topic": ""},
                "delivery": delivery,
            }
        )
        kerberos.realm.set_lifetime("3s")
        try:
            relay = run_relay(config, echo(target))
            for start in range(0, 300, 100):
                await kafka.produce(source, numbered(100, start=start))
                before = kerberos.realm.logins("relay")

                async def has_new_ticket(count: int = start + 100, logins: int = before) -> bool:
                    assert not relay.has_ended, relay.log.events[-3:]
                    committed = sum((await kafka.committed(f"g-{source}")).values())
                    return bool(committed == count) and kerberos.realm.logins("relay") > logins

                await kafka.until(has_new_ticket)
            assert await relay.stop() == 0
        finally:
            kerberos.realm.set_lifetime("1h")
        found = await kafka.read(target, committed=True)
    check_complete(found, 300, once=mode == "exactly-once")
