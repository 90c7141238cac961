"""Settings of Kafka clients, in Kafka's terms. Made by `relay.config.kafka`.

Nothing here imports a Kafka client, so that reading a configuration needs none.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import urlsplit


class SecurityProtocol(StrEnum):
    """How clients talk to brokers."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Return whether clients must authenticate."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class Mechanism(StrEnum):
    """How clients authenticate (SASL)."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    AWS_MSK_IAM = "AWS_MSK_IAM"
    GSSAPI = "GSSAPI"


class Compression(StrEnum):
    """Compression of the batches that are written."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def levels(self) -> range:
        """Return the levels that may be chosen, empty for compressions that have none."""
        return _LEVELS.get(self, range(0))

    @property
    def default_level(self) -> int:
        """Return the level if none is chosen, 0 for compressions that have none."""
        return _DEFAULT_LEVELS.get(self, 0)


_LEVELS: Final = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 13),
    Compression.ZSTD: range(1, 23),
}
#: aiokafka's and the brokers' default for LZ4 is 9, which takes ten times as much processor time as the fast
#: levels 1 and 2, for two thirds of the bytes.
_DEFAULT_LEVELS: Final = {Compression.GZIP: 6, Compression.LZ4: 1, Compression.ZSTD: 3}


class Start(StrEnum):
    """Where a partition without a committed offset begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    COMMIT_TS = "commit-ts"


class Secret(str):
    """A secret that no `repr` shows. It is text, because aiokafka wants text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


_NO_SECRET = Secret()


@dataclass(frozen=True, kw_only=True)
class Security:
    """TLS and SASL of one cluster. A secret is given directly, or in a separate file.

    `table`: the name of these settings in messages, such as `source.security`.
    """

    table: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: Secret = _NO_SECRET
    key_password_file: str = ""
    mechanism: Mechanism = Mechanism.PLAIN
    username: str = ""
    password: Secret = _NO_SECRET
    password_file: str = ""
    token_file: str = ""
    token_endpoint: str = ""
    token_endpoint_allow_http: bool = False
    client_id: str = ""
    client_secret: Secret = _NO_SECRET
    client_secret_file: str = ""
    scope: str = ""
    aws_region: str = ""
    aws_profile: str = ""
    aws_role_arn: str = ""
    keytab_file: str = ""
    kerberos_principal: str = ""
    kerberos_service_name: str = "kafka"
    kerberos_domain_name: str = ""

    @property
    def shown_user(self) -> str:
        """Return the name of user or principal; "" if the mechanism has none, or it is not configured."""
        if self.mechanism is Mechanism.GSSAPI:
            return self.kerberos_principal
        return "" if self.mechanism in {Mechanism.OAUTHBEARER, Mechanism.AWS_MSK_IAM} else self.username


def endpoint_fault(endpoint: str, *, allow_http: bool) -> tuple[str, str]:
    """Return the problem with the address of a token endpoint, and the remedy; two empty texts if none.

    Over http:// everyone on the network path can read the client's secret and the token, so it is only for
    this machine, unless it is allowed.
    """
    try:
        url = urlsplit(endpoint)
        host, login = url.hostname, "@" in url.netloc
        _ = url.port
    except ValueError:
        host, login = None, False
    if not host or url.scheme not in {"http", "https"}:
        return "is not an address", "write it as https://host/path"
    if login:
        return "contains a user or a password", "set client_id and client_secret instead"
    if url.scheme == "http" and not allow_http and not _is_this_machine(host):
        hint = "use https://, or set token_endpoint_allow_http = true if the network is trusted"
        return "sends client_secret over http:// in clear text", hint
    return "", ""


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Time limits of the clients of a running relay.

    start_seconds: The start of a client.
    request_seconds: An answer to a request.
    commit_seconds: A commit of offsets to the consumer group.
    lookup_seconds: An answer about the ends of partitions, for which a running loop waits.
    connect_seconds: A connection, with login.
    step_seconds: One step of a connection whose failure is diagnosed: the name, TCP, TLS.
    stop_seconds: Disconnecting.
    whole_topic_seconds: Reading a topic of relay's own to its end, which is before the records hidden by an
        open transaction.
    visible_seconds: The time until brokers learn of a new topic.
    """

    start_seconds: float = 30.0
    request_seconds: float = 30.0
    commit_seconds: float = 15.0
    lookup_seconds: float = 10.0
    connect_seconds: float = 10.0
    step_seconds: float = 5.0
    stop_seconds: float = 5.0
    whole_topic_seconds: float = 120.0
    visible_seconds: float = 30.0


DEFAULT_TIMEOUTS = Timeouts()


class ClusterSettings(NamedTuple):
    """The addresses of a cluster's brokers (`host:port`, with commas), and how clients talk to them."""

    servers: str
    security: Security


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of the partitions of topics, as `shard_of` has it."""

    number: int = 0
    count: int = 1

    def contains(self, partition: int) -> bool:
        """Return whether a partition with this number belongs to the shard."""
        return shard_of(partition, self.count) == self.number


def shard_of(partition: int, count: int) -> int:
    """Return the number of the shard, of `count`, to which a partition with this number belongs."""
    return partition % count


@dataclass(frozen=True)
class StartSettings:
    """Where partitions without a committed offset begin.

    `offsets`: by `topic/partition`. `commit_time_ms`: the physical time of the commit ts.
    """

    start: Start = Start.EARLIEST
    offsets: Mapping[str, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    commit_time_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """The topics to read, the group, and the fetch settings.

    `has_pattern`: the topics were found by a pattern, and others may follow. `metadata_max_age_ms`: how long
    new partitions may stay unnoticed.

    `shard` is for a reader that joins no group. `client_rack`: of the brokers to read from, if possible; ""
    for the leaders.
    """

    cluster: ClusterSettings
    topics: tuple[str, ...]
    group_id: str
    group_instance_id: str
    start: StartSettings
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    shard: Shard
    client_rack: str = ""
    has_pattern: bool = False
    metadata_max_age_ms: int = 30_000


@dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """How records are written. `delivery_timeout_seconds`: how long an acknowledgement may take.

    `compression_level`: one of `Compression.levels`; 0 for its default.

    `rotate_after_records`: how many records a producer may write to a partition before it is replaced.
    aiokafka's sequence numbers become negative after 2³¹ records, where Kafka continues with 0.
    """

    cluster: ClusterSettings
    compression: Compression
    compression_level: int = 0
    max_batch_bytes: int
    delivery_timeout_seconds: float
    rotate_after_records: int = 2**30


@dataclass(frozen=True, kw_only=True)
class TransactionalSettings(ProducerSettings):
    """How records are written in transactions, with the offsets of the source topics.

    `progress_topic`: topic for offsets that the group cannot keep; None where it can.
    """

    transactional_id: str
    transaction_timeout_seconds: float
    group_id: str
    source_topics: tuple[str, ...]
    shard: Shard
    progress_topic: str | None
