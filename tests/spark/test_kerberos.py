"""Kerberos in the Spark job: the options of Kafka's Java client, which a real one takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kerberos_support
import pytest
from kerberos_support import NAME, KerberosBroker, java_with_kerberos
from secured_support import security_of
from spark.java import described

from relay.config import SecurityConfig
from relay.config.kafka import security_settings
from relay.demo.kafka import kafka_jars
from relay.io.kafka.settings import ClusterSettings
from relay.model.errors import ConfigError
from spark_backfill.brokers import client_options

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def options(security: SecurityConfig, servers: str = "b:1") -> dict[str, str]:
    return client_options(ClusterSettings(servers, security_settings(security, "source.security")))


def kerberos_of(**settings: str) -> SecurityConfig:
    return security_of(protocol="SASL_SSL", mechanism="GSSAPI", **settings)


def test_a_keytab_becomes_an_option_of_java() -> None:
    given = kerberos_of(
        keytab_file="/run/relay.keytab", kerberos_principal="relay@EXAMPLE.COM", kerberos_service_name="cdc"
    )
    assert options(given) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "cdc",
        "sasl.jaas.config": (
            f'{MODULE} useKeyTab="true" storeKey="true" keyTab="/run/relay.keytab" principal="relay@EXAMPLE.COM";'
        ),
    }


def test_without_a_keytab_the_ticket_of_the_process_is_used() -> None:
    assert options(kerberos_of())["sasl.jaas.config"] == f'{MODULE} useTicketCache="true";'


def test_settings_that_java_lacks_are_refused() -> None:
    given = kerberos_of(keytab_file="/run/relay.keytab", kerberos_domain_name="kafka.example.com")
    with pytest.raises(ConfigError) as raised:
        options(given)
    assert [problem.path for problem in raised.value.problems] == [
        "source.security.kerberos_principal",
        "source.security.kerberos_domain_name",
    ]


@pytest.fixture(scope="module")
def broker() -> Iterator[KerberosBroker]:
    if lacks := kerberos_support.missing():
        pytest.skip(f"Kerberos needs {lacks}")
    with kerberos_support.running() as found:
        yield found


@pytest.mark.kafka
async def test_javas_client_logs_in(broker: KerberosBroker, kafka_at: Any, tmp_path: Path) -> None:
    async with kafka_at(broker.plain) as kafka:
        topic = await kafka.topic()
    given = options(broker.security(kerberos_principal=f"relay@{NAME}"), broker.address)
    configuration = f"-Djava.security.krb5.conf={broker.realm.config}"
    said = described(given, tmp_path, java_with_kerberos(), f"{kafka_jars()}/*", configuration)
    assert f"topic {topic}" in said
    assert broker.realm.logins("relay") == 1
