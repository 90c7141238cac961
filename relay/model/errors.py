"""The exception tree; every error that relay raises on purpose is one of these.

    RelayError                  .code: stable text for logs, metrics and dead letters
    ├─ ConfigError              the user's configuration or options; all problems at once
    ├─ CodecError               .protocol .path .reason; never a row's values
    │   ├─ DecodeError
    │   │   ├─ Malformed            the bytes are not a message of this protocol
    │   │   ├─ UnsupportedMessage   a message of this protocol that relay cannot take
    │   │   ├─ DefinitionMissing    a row came before the definition of its table
    │   │   ├─ LimitExceeded        the record is more than `relay.model.limits` allows
    │   │   └─ OutOfMemory          the process has no memory left for this record
    │   └─ EncodeError
    │       ├─ NotRepresentable     the target cannot hold it, and `strict` forbids losing it
    │       ├─ UnusableTopicName    a table cannot have the topic that a template gives it
    │       ├─ KeyColumnsMissing    a row lacks columns of which a rule makes its key
    │       ├─ KeyMissing           a record without a key, for a compacted topic
    │       └─ MessageTooLarge      the message exceeds `max-message-bytes`, and its options leave no way out
    ├─ DdlNotUnderstood         a statement that the DDL reader does not know; never stops rows
    ├─ TooManyFailures          more records cannot be relayed than the budget of [errors] allows
    └─ ServiceError             the environment
        ├─ BrokerUnavailable        no broker answers, or not in time
        ├─ TokenUnavailable         there is no token to log in to the brokers with
        ├─ TopicUnusable            a topic is missing or cannot hold the route
        ├─ RecordsGone              records to read were deleted before relay had read them
        ├─ RecordTooLarge           a translated record exceeds the target topic's limit
        ├─ ClaimCheckMissing        an object that a message refers to is not in the claim-check storage
        ├─ NeedUnanswered           what a translator needs nothing configured can give
        │   └─ SchemaRefused            a schema registry does not let a schema be read or registered
        ├─ SchemaMissing            a schema registry does not know the id in a message
        ├─ StorageUnavailable       the claim-check storage does not answer, or refuses
        │   └─ RegistryUnavailable      the same of a schema registry
        ├─ DatabaseUnavailable      a database does not tell its definitions
        ├─ WatermarksUnknowable     rows are repartitioned, and this instance does not read all partitions
        ├─ InstanceFenced           a newer instance has taken over this one's shard
        ├─ MemoryExhausted          the process is out of memory
        ├─ AddressUnavailable       the address of [http] cannot be served at
        ├─ ReplayUnderWay           another replay of the same dead letters is at work
        └─ DeliveryFailed           a record was not acknowledged, or an offset not committed

Configuration and codec errors, and too many of them, are the user's input (exit status 2); service errors
are the environment (3).
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from relay.text.redaction import shortened

#: Most characters of a place in a message: names of its members may be of any length.
LONGEST_PATH: Final = 200


class RelayError(Exception):
    """Base of all errors that relay raises on purpose."""

    code: ClassVar[str] = "relay"
    exit_status: ClassVar[int] = 1


class Problem(NamedTuple):
    """One thing that is wrong with a configuration: where (key path), what, and what to do about it."""

    path: str
    message: str
    hint: str = ""

    @property
    def said(self) -> str:
        """What it is, and what to do about it."""
        return self.message + (f" ({self.hint})" if self.hint else "")

    def __str__(self) -> str:
        return f"{self.path}: {self.said}"


class ConfigError(RelayError):
    """The configuration or the options of a codec are wrong; `problems` holds every one of them."""

    code = "config"
    exit_status = 2

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class CodecError(RelayError):
    """A message could not be read or written. `path` is the place in it (`data[0].c1`), never its value."""

    code = "codec"
    exit_status = 2

    def __init__(self, protocol: str, path: str, reason: str) -> None:
        path = shortened(path, LONGEST_PATH)
        super().__init__(f"{protocol}: {path or 'message'}: {reason}")
        self.protocol, self.path, self.reason = protocol, path, reason

    def __reduce__(self) -> tuple[type[CodecError], tuple[str, str, str]]:
        return type(self), (self.protocol, self.path, self.reason)


class DecodeError(CodecError):
    """A record could not be read."""

    code = "decode"


class Malformed(DecodeError):
    """The bytes are not a message of this protocol."""

    code = "decode.malformed"


class UnsupportedMessage(DecodeError):
    """A message of this protocol that relay cannot translate."""

    code = "decode.unsupported"


class DefinitionMissing(DecodeError):
    """A row refers to a definition of its table that has not been read."""

    code = "decode.definition-missing"


class LimitExceeded(DecodeError):
    """The record holds more than a limit allows. The message names the limit and what it is set to."""

    code = "decode.limit-exceeded"


class OutOfMemory(DecodeError):
    """The process has no memory left to translate this record, whatever the limits say."""

    code = "decode.out-of-memory"


class EncodeError(CodecError):
    """An event could not be written."""

    code = "encode"


class NotRepresentable(EncodeError):
    """The target format cannot hold what the event says, and `strict` forbids losing it."""

    code = "encode.not-representable"


class UnusableTopicName(EncodeError):
    """A table cannot have the topic that a template gives it: Kafka takes no such name, another table has it,
    or relay itself.
    """

    code = "encode.topic-name"


class KeyColumnsMissing(EncodeError):
    """A row lacks columns of which a rule makes its key."""

    code = "encode.key-columns"


class KeyMissing(EncodeError):
    """A record has no key, and its topic is compacted: brokers refuse such records."""

    code = "encode.key-missing"


class MessageTooLarge(EncodeError):
    """The message is larger than `max-message-bytes`, and the options leave no way to write it."""

    code = "encode.too-large"


class DdlNotUnderstood(RelayError):
    """The DDL reader does not know this statement. It is still passed on; rows never stop for it."""

    code = "ddl.not-understood"
    exit_status = 2


class TooManyFailures(RelayError):
    """More records cannot be relayed than the budget of [errors] allows, though each has a policy."""

    code = "too-many-failures"
    exit_status = 2


class ServiceError(RelayError):
    """Something around relay failed: a broker, a topic, a delivery."""

    code = "service"
    exit_status = 3


class BrokerUnavailable(ServiceError):
    """No broker answered, or not in time."""

    code = "service.broker-unavailable"


class TokenUnavailable(ServiceError):
    """There is no token for SASL OAUTHBEARER: its file cannot be read, or its endpoint does not give one."""

    code = "service.token-unavailable"


class TopicUnusable(ServiceError):
    """A topic does not exist or cannot hold what the route writes."""

    code = "service.topic-unusable"


class MemoryExhausted(ServiceError):
    """The process is out of memory, outside the translation of a record (see OutOfMemory)."""

    code = "service.out-of-memory"

    def __init__(self) -> None:
        super().__init__(
            "the process is out of memory; give it more, or lower fetch_max_bytes in [source], "
            "max_batch_bytes in [target] or the limits in [limits]"
        )


class RecordsGone(ServiceError):
    """The next records were deleted, by retention or with their topic, before relay had read them."""

    code = "service.records-gone"


class RecordTooLarge(ServiceError):
    """A translated record is larger than the target topic takes (`max.message.bytes`)."""

    code = "service.record-too-large"


class ClaimCheckMissing(ServiceError):
    """An object that a message refers to is not in the claim-check storage, even after some retries."""

    code = "service.claim-check-missing"


class NeedUnanswered(ServiceError):
    """A translator needs something that nothing configured can give: a schema without a registry, say."""

    code = "service.need-unanswered"


class SchemaRefused(NeedUnanswered):
    """A schema registry does not let a schema be read or registered: credentials, compatibility, its mode."""

    code = "service.schema-refused"


class SchemaMissing(ServiceError):
    """A schema registry does not know the id of a message's schema, even after some retries."""

    code = "service.schema-missing"


class StorageUnavailable(ServiceError):
    """The claim-check storage does not answer, or refuses to read or write."""

    code = "service.storage-unavailable"


class RegistryUnavailable(StorageUnavailable):
    """A schema registry does not answer, or cannot now.

    `retry_after_seconds`: when it wants to be asked again, 0 if it does not say.
    """

    code = "service.registry-unavailable"

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DatabaseUnavailable(ServiceError):
    """A database whose definitions are asked for does not answer, or refuses."""

    code = "service.database-unavailable"


class WatermarksUnknowable(ServiceError):
    """Rows are repartitioned, but this instance sees only part of the source: no watermark would be right."""

    code = "service.watermarks-unknowable"


class InstanceFenced(ServiceError):
    """Another instance with the same transactional id has started: this one may write no more."""

    code = "service.fenced"


class AddressUnavailable(ServiceError):
    """The address of [http] cannot be served at: another program has it, or it may not be taken."""

    code = "service.address-unavailable"


class ReplayUnderWay(ServiceError):
    """Another replay of the same dead-letter topic is running: two would write everything twice."""

    code = "service.replay-under-way"


class DeliveryFailed(ServiceError):
    """A record was not acknowledged, or an offset could not be committed."""

    code = "service.delivery-failed"
