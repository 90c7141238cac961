"""The exception hierarchy; every error that relay raises on purpose is one of these.

    RelayError                  .code: stable text for logs, metrics and dead letters
    ├─ ConfigError              the user's configuration or options; all problems at once
    ├─ CodecError               .protocol .path .reason; never a row's values
    │   ├─ DecodeError
    │   │   ├─ Malformed            the bytes are not a message of this protocol
    │   │   ├─ UnsupportedMessage   a message of this protocol that relay cannot translate
    │   │   ├─ DefinitionMissing    a row precedes the definition of its table
    │   │   ├─ LimitExceeded        the record exceeds a limit of `relay.model.limits`
    │   │   └─ OutOfMemory          the process has no memory left for this record
    │   └─ EncodeError
    │       ├─ NotRepresentable     the target cannot represent it, and `strict` forbids the loss
    │       ├─ UnusableTopicName    a table cannot use the topic name that a template yields
    │       ├─ KeyColumnsMissing    a row lacks columns that a rule chooses for its key
    │       ├─ KeyMissing           a record without a key, for a compacted topic
    │       ├─ ConditionFailed      `where` of a row rule has no result for a row
    │       └─ MessageTooLarge      the message exceeds `max-message-bytes`, and no option makes it smaller
    ├─ DdlNotUnderstood         a statement that the DDL parser does not support; never stops rows
    ├─ TooManyFailures          failed records exceed the budget of [errors]
    └─ ServiceError             the environment
        ├─ BrokerUnavailable        no broker answers, or not in time
        ├─ TokenUnavailable         there is no token for the login to the brokers
        ├─ TopicUnusable            a topic is missing or unsuitable for the route
        ├─ RecordsGone              records were deleted before relay read them
        ├─ RecordTooLarge           a translated record exceeds the target topic's limit
        ├─ ClaimCheckMissing        an object that a message refers to is not in the claim-check storage
        ├─ NeedUnanswered           nothing configured can answer a translator's lookup
        │   └─ SchemaRefused            a schema registry refuses to read or register a schema
        ├─ SchemaMissing            a schema registry does not know the id in a message
        ├─ StorageUnavailable       the claim-check storage does not answer, or refuses
        │   └─ RegistryUnavailable      a schema registry does not answer, or refuses for now
        ├─ DatabaseUnavailable      a database does not return its table definitions
        ├─ WatermarksUnknowable     rows are repartitioned, and this instance does not read all partitions
        ├─ InstanceFenced           a newer instance has taken over this instance's shard
        ├─ MemoryExhausted          the process is out of memory
        ├─ AddressUnavailable       the address of [http] is in use or not permitted
        ├─ ReplayUnderWay           another replay of the same dead letters is running
        ├─ RelayRunning             offsets cannot be changed while instances of the route run
        └─ DeliveryFailed           a record was not acknowledged, or an offset not committed

Configuration and codec errors, and TooManyFailures, are caused by the user's input (exit status 2); service
errors by the environment (exit status 3).
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from relay.text.redaction import shortened

#: Maximum characters of a path in an error: member names in a message may be of any length.
LONGEST_PATH: Final = 200


class RelayError(Exception):
    """Base of all errors that relay raises on purpose."""

    code: ClassVar[str] = "relay"
    exit_status: ClassVar[int] = 1


class Problem(NamedTuple):
    """One problem of a configuration: the key's path, the problem and a hint to solve it."""

    path: str
    message: str
    hint: str = ""

    @property
    def text(self) -> str:
        """The problem and its hint, without the path."""
        return self.message + (f" ({self.hint})" if self.hint else "")

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class ConfigError(RelayError):
    """The configuration or the options of a codec are invalid; `problems` lists all problems."""

    code = "config"
    exit_status = 2

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class CodecError(RelayError):
    """A message could not be read or written. `path` locates the error (`data[0].c1`) without its value."""

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
    """The record exceeds a limit. The message names the limit and its value."""

    code = "decode.limit-exceeded"


class OutOfMemory(DecodeError):
    """The process has no memory left to translate this record, although it is within the limits."""

    code = "decode.out-of-memory"


class EncodeError(CodecError):
    """An event could not be written."""

    code = "encode"


class NotRepresentable(EncodeError):
    """The target format cannot represent the event, and `strict` forbids the loss."""

    code = "encode.not-representable"


class UnusableTopicName(EncodeError):
    """A table cannot use the topic name that a template yields: Kafka does not allow the name, or another
    table or relay itself uses it.
    """

    code = "encode.topic-name"


class KeyColumnsMissing(EncodeError):
    """A row lacks columns that a rule chooses for its key."""

    code = "encode.key-columns"


class KeyMissing(EncodeError):
    """A record has no key and its topic is compacted; brokers refuse such records."""

    code = "encode.key-missing"


class ConditionFailed(EncodeError):
    """The condition of a row rule has no result for a row, or its table lacks a column of the condition."""

    code = "encode.condition"


class MessageTooLarge(EncodeError):
    """The message is larger than `max-message-bytes`, and the options allow no smaller form."""

    code = "encode.too-large"


class DdlNotUnderstood(RelayError):
    """The DDL parser does not support this statement. It is still relayed; rows never stop because of it."""

    code = "ddl.not-understood"
    exit_status = 2


class TooManyFailures(RelayError):
    """The number of failed records exceeds the budget of [errors], although each has an error policy."""

    code = "too-many-failures"
    exit_status = 2


class ServiceError(RelayError):
    """A failure in the environment: a broker, a topic, a delivery."""

    code = "service"
    exit_status = 3


class BrokerUnavailable(ServiceError):
    """No broker answered, or not in time."""

    code = "service.broker-unavailable"


class TokenUnavailable(ServiceError):
    """There is no token or ticket for the login to the brokers: a file or server does not give one."""

    code = "service.token-unavailable"


class TopicUnusable(ServiceError):
    """A topic does not exist, or it is unsuitable for the route's records."""

    code = "service.topic-unusable"


class MemoryExhausted(ServiceError):
    """The process is out of memory, outside the translation of a record (see OutOfMemory)."""

    code = "service.out-of-memory"

    def __init__(self) -> None:
        super().__init__(
            "the process is out of memory; give it more memory, or lower fetch_max_bytes in [source], "
            "max_batch_bytes in [target] or the limits in [limits]"
        )


class RecordsGone(ServiceError):
    """The next records were deleted, by retention or with their topic, before relay read them."""

    code = "service.records-gone"


class RecordTooLarge(ServiceError):
    """A translated record is larger than the target topic allows (`max.message.bytes`)."""

    code = "service.record-too-large"


class ClaimCheckMissing(ServiceError):
    """An object that a message refers to is not in the claim-check storage, even after some retries."""

    code = "service.claim-check-missing"


class NeedUnanswered(ServiceError):
    """Nothing configured can answer a translator's lookup, such as a schema lookup without a registry."""

    code = "service.need-unanswered"


class SchemaRefused(NeedUnanswered):
    """A schema registry refuses to read or register a schema: credentials, compatibility or its mode."""

    code = "service.schema-refused"


class SchemaMissing(ServiceError):
    """A schema registry does not know the id of a message's schema, even after some retries."""

    code = "service.schema-missing"


class StorageUnavailable(ServiceError):
    """The claim-check storage does not answer, or refuses to read or write."""

    code = "service.storage-unavailable"


class RegistryUnavailable(StorageUnavailable):
    """A schema registry does not answer, or temporarily refuses.

    `retry_after_seconds`: the registry's own retry delay; 0 if it gives none.
    """

    code = "service.registry-unavailable"

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DatabaseUnavailable(ServiceError):
    """A database does not answer a query for table definitions, or refuses it."""

    code = "service.database-unavailable"


class WatermarksUnknowable(ServiceError):
    """Rows are repartitioned, but this instance reads only part of the source: no watermark is valid."""

    code = "service.watermarks-unknowable"


class InstanceFenced(ServiceError):
    """Another instance with the same transactional id has started; this instance may not write any more."""

    code = "service.fenced"


class AddressUnavailable(ServiceError):
    """The address of [http] cannot be bound: another program uses it, or it is not permitted."""

    code = "service.address-unavailable"


class ReplayUnderWay(ServiceError):
    """Another replay of the same dead-letter topic is running; two would write every record twice."""

    code = "service.replay-under-way"


class RelayRunning(ServiceError):
    """Committed offsets or the schema history of a route cannot be changed while its instances run."""

    code = "service.relay-running"


class DeliveryFailed(ServiceError):
    """A record was not acknowledged, or an offset could not be committed."""

    code = "service.delivery-failed"
