"""Amazon MSK with IAM in the Spark job: the options of Amazon's own Java client, which a real one takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from secured_support import Secured, security_of
from spark.java import described, msk_jar

from relay.config.kafka import security_settings
from relay.demo.kafka import java_binary, kafka_jars
from relay.io.kafka.settings import ClusterSettings
from relay.model.errors import ConfigError
from spark_backfill.brokers import JavaAdmin, client_options

ROLE = "arn:aws:iam::123456789012:role/relay"
PACKAGE = "software.amazon.msk.auth.iam"


def options(servers: str = "b:1", **settings: str) -> dict[str, str]:
    security = security_of(protocol="SASL_SSL", mechanism="AWS_MSK_IAM", **settings)
    return client_options(ClusterSettings(servers, security_settings(security, "source.security")))


def test_the_keys_become_options_of_amazons_client() -> None:
    assert options(aws_region="eu-west-3") == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.client.callback.handler.class": f"{PACKAGE}.IAMClientCallbackHandler",
        "sasl.jaas.config": f"{PACKAGE}.IAMLoginModule required;",
    }
    with_role = options(aws_region="eu-west-3", aws_profile="cdc", aws_role_arn=ROLE)
    assert with_role["sasl.jaas.config"] == (
        f'{PACKAGE}.IAMLoginModule required awsProfileName="cdc" awsRoleArn="{ROLE}" awsStsRegion="eu-west-3";'
    )


@pytest.mark.kafka
def test_amazons_client_takes_the_options(secured: Secured, tmp_path: Path) -> None:
    """It gets as far as the broker's answer: no broker outside of AWS has the mechanism."""
    given = options(secured.address("SASL_SSL"), ca_file=str(secured.folder / "ca.pem"), aws_role_arn=ROLE)
    said = described(given, tmp_path, str(java_binary()), f"{kafka_jars()}/*:{msk_jar()}")
    assert "Client SASL mechanism 'AWS_MSK_IAM' not enabled in the server" in said, said


@pytest.mark.kafka
def test_a_missing_client_of_amazon_is_reported(spark: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        JavaAdmin(spark, options())
    (problem,) = raised.value.problems
    assert str(problem) == (
        "spark.jars.packages: aws-msk-iam-auth is not on Spark's class path "
        "(add the jar aws-msk-iam-auth-…-all.jar of software.amazon.msk to spark.jars)"
    )
