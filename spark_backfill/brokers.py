"""Options of Kafka's Java client for Spark, and the driver's requests to the brokers before a run.

The driver uses the client of Spark's own connector, so that one set of options applies everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from relay.io.kafka.settings import ClusterSettings, Mechanism, Security
from relay.model.errors import BrokerUnavailable, ConfigError, Problem, TopicUnusable
from spark_backfill.connector import CONNECTOR

ANSWER_MS: Final = 30_000
REQUEST_MS: Final = 10_000
_LOGIN: Final = "org.apache.kafka.common.security"
_MSK: Final = "software.amazon.msk.auth.iam"
_MSK_JAR: Final = "the jar aws-msk-iam-auth-…-all.jar of software.amazon.msk"
#: The option with the endpoint of tokens.
ENDPOINT_OPTION: Final = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def client_options(cluster: ClusterSettings) -> dict[str, str]:
    """Return the options of a Java client. Raises ConfigError."""
    servers, security = cluster
    options = {"bootstrap.servers": servers, "security.protocol": str(security.protocol)}
    if security.protocol.uses_tls:
        options |= _tls(security)
    if security.protocol.uses_sasl:
        login = _LOGINS.get(security.mechanism, _password)
        options |= {"sasl.mechanism": str(security.mechanism), **login(security)}
    return options


def _password(security: Security) -> dict[str, str]:
    kind = "plain.PlainLoginModule" if security.mechanism is Mechanism.PLAIN else "scram.ScramLoginModule"
    module = f"{_LOGIN}.{kind}"
    password = security.password or _line(security, "password_file")
    return {"sasl.jaas.config": _jaas(module, username=security.username, password=password)}


def _tokens(security: Security) -> dict[str, str]:
    """Return the options of OAUTHBEARER: client credentials, or a file, which each client reads once."""
    given: dict[str, str] = {}
    url = security.token_endpoint or Path(security.token_file).absolute().as_uri()
    if security.token_endpoint:
        secret = security.client_secret or _line(security, "client_secret_file")
        given = {"clientId": security.client_id, "clientSecret": secret}
        if security.scope:
            given["scope"] = security.scope
    else:
        _text(security, "token_file")
    return {
        "sasl.login.callback.handler.class": f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
        ENDPOINT_OPTION: url,
        "sasl.jaas.config": _jaas(f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule", **given),
    }


def _msk(security: Security) -> dict[str, str]:
    """Return the options of Amazon's own client, which reads the region from the brokers' names.

    `aws_region` is only for the request of a role's credentials.
    """
    given = {"awsProfileName": security.aws_profile, "awsRoleArn": security.aws_role_arn}
    if security.aws_role_arn:
        given["awsStsRegion"] = security.aws_region
    module = f"{_MSK}.IAMLoginModule"
    return {
        "sasl.client.callback.handler.class": f"{_MSK}.IAMClientCallbackHandler",
        "sasl.jaas.config": _jaas(module, **{name: text for name, text in given.items() if text}),
    }


def _kerberos(security: Security) -> dict[str, str]:
    """Return the options of Java's own Kerberos: a keytab, or the ticket of the process's user."""
    problems = []
    if security.keytab_file and not security.kerberos_principal:
        hint = "set the principal of the keytab that logs in"
        problems.append(Problem(f"{security.table}.kerberos_principal", "is needed by Spark's client", hint))
    if security.kerberos_domain_name:
        message = "is not possible with Spark's client, which uses the brokers' host names"
        problems.append(Problem(f"{security.table}.kerberos_domain_name", message, "remove it"))
    if problems:
        raise ConfigError(problems)
    given = {"useTicketCache": "true"}
    if security.keytab_file:
        keytab = str(Path(security.keytab_file).absolute())
        given = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab}
    if security.kerberos_principal:
        given["principal"] = security.kerberos_principal
    return {
        "sasl.kerberos.service.name": security.kerberos_service_name,
        "sasl.jaas.config": _jaas("com.sun.security.auth.module.Krb5LoginModule", **given),
    }


#: By mechanism; all others have a password.
_LOGINS: Final = {
    Mechanism.OAUTHBEARER: _tokens,
    Mechanism.AWS_MSK_IAM: _msk,
    Mechanism.GSSAPI: _kerberos,
}


def _jaas(module: str, **given: str) -> str:
    options = "".join(f' {name}="{_quoted(text)}"' for name, text in given.items())
    return f"{module} required{options};"


def allowed_urls(*options: Mapping[str, str]) -> str:
    """Return the JVM property with the only addresses from which newer Java clients request tokens.

    It applies to driver and executors.
    """
    urls = dict.fromkeys(each[ENDPOINT_OPTION] for each in options if ENDPOINT_OPTION in each)
    return f"{_ALLOWED}={','.join(urls)}" if urls else ""


def _tls(security: Security) -> dict[str, str]:
    options: dict[str, str] = {}
    if security.ca_file:
        certificates = _text(security, "ca_file")
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}
    if security.certificate_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text(security, "certificate_file"),
            "ssl.keystore.key": _text(security, "key_file"),
        }
        password: str = security.key_password
        if security.key_password_file:
            password = _line(security, "key_password_file")
        if password:
            options["ssl.key.password"] = password
    return options


def _text(security: Security, key: str) -> str:
    file = getattr(security, key)
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(f"{security.table}.{key}", f"{file} cannot be read: {error}")]) from error


def _line(security: Security, key: str) -> str:
    return _text(security, key).rstrip("\r\n")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def for_spark(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a client in the form of options of Spark's source and sink."""
    return {f"kafka.{name}": value for name, value in options.items()}


def _unusable(options: Mapping[str, str], error: Py4JJavaError) -> ConfigError | BrokerUnavailable:
    """Return the error for options with which no client can be made."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    if options.get("sasl.mechanism") == Mechanism.AWS_MSK_IAM and _MSK in str(cause.getMessage()):
        hint = f"add {_MSK_JAR} to spark.jars"
        return ConfigError(
            [Problem("spark.jars.packages", "aws-msk-iam-auth is not on Spark's class path", hint)]
        )
    name = cause.getClass().getSimpleName()
    return BrokerUnavailable(f"{options['bootstrap.servers']}: {name}: {cause.getMessage()}")


class JavaAdmin:
    """The admin client of a cluster. All calls raise BrokerUnavailable.

    `answer_ms`, `request_ms`: time limits of a call, and of each of its requests.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        *,
        answer_ms: int = ANSWER_MS,
        request_ms: int = REQUEST_MS,
    ) -> None:
        # Objects of Java have no types in py4j.
        jvm: Any = spark._jvm
        self._jvm = jvm
        self.servers = options["bootstrap.servers"]
        properties = jvm.java.util.Properties()
        for name, value in (
            {**options, "default.api.timeout.ms": str(answer_ms), "request.timeout.ms": str(request_ms)}
        ).items():
            properties.setProperty(name, value)
        try:
            self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        except TypeError as error:
            hint = f"add the package {CONNECTOR}"
            raise ConfigError(
                [Problem("spark.jars.packages", "Spark has no Kafka connector", hint)]
            ) from error
        except Py4JJavaError as error:
            raise _unusable(options, error) from None

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises TopicUnusable."""
        return {name: found.partitions().size() for name, found in self._topics(topics)}

    def names(self) -> list[str]:
        """Return the names of all visible topics, without Kafka's internal ones."""
        found = self._answer(lambda: self._admin.listTopics().names().get())
        return sorted(str(name) for name in found)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the id of each topic (KIP-516), "" from brokers before Kafka 2.8. Raises TopicUnusable."""
        none = self._jvm.org.apache.kafka.common.Uuid.ZERO_UUID
        found = {name: found.topicId() for name, found in self._topics(topics)}
        return {name: "" if each is None or each.equals(none) else str(each) for name, each in found.items()}

    def _topics(self, topics: Iterable[str]) -> list[tuple[str, Any]]:
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        found = self._answer(lambda: self._admin.describeTopics(names).allTopicNames().get())
        return [(entry.getKey(), entry.getValue()) for entry in found.entrySet()]

    def cluster_id(self) -> str:
        """Return the id of the cluster; "" if it has none."""
        return str(self._answer(lambda: self._admin.describeCluster().clusterId().get()) or "")

    def first_offsets(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """Return the oldest offset of every partition of these topics, by `topic/partition`."""
        return self._offsets(partitions, self._spec().earliest())

    def end_offsets(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """Return the end of every partition, before any open transaction."""
        return self._offsets(partitions, self._spec().latest())

    def offsets_since(self, partitions: Mapping[str, int], time_ms: int) -> dict[str, int]:
        """Return the first offset whose record has at least this timestamp, before any open transaction.

        -1 without one.
        """
        return self._offsets(partitions, self._spec().forTimestamp(time_ms))

    def _spec(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _offsets(self, partitions: Mapping[str, int], spec: Any) -> dict[str, int]:
        # As the consumer of the service and the source of Spark see them.
        committed = self._jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(committed)
        asked = self._jvm.java.util.HashMap()
        by_name = {}
        for topic, count in partitions.items():
            for number in range(count):
                partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, number)
                by_name[f"{topic}/{number}"] = partition
                asked.put(partition, spec)
        found = self._answer(lambda: self._admin.listOffsets(asked, options).all().get())
        return {name: int(found.get(partition).offset()) for name, partition in by_name.items()}

    def _answer(self, call: Any) -> Any:
        try:
            return call()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            if cause.getClass().getSimpleName() == "UnknownTopicOrPartitionException":
                raise TopicUnusable(
                    f"a topic does not exist at {self.servers}: {cause.getMessage()}"
                ) from None
            raise BrokerUnavailable(
                f"{self.servers}: {cause.getClass().getSimpleName()}: {cause.getMessage()}"
            ) from None
