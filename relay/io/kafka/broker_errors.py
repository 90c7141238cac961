"""Errors of brokers and of the client: their messages, and codes that aiokafka 0.14 does not know.

Each message ends with Kafka's own name of the error, which users can search for. aiokafka maps every unknown
code to `UnknownError`, so these codes are added to its table: every answer then has a distinct name, and
errors that a retry cures are retried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiokafka import errors
from aiokafka.errors import BrokerResponseError, KafkaError

from relay.model.errors import RelayError


class _Code(NamedTuple):
    name: str
    words: str
    is_retriable: bool = False


_CODES: Final[Mapping[int, _Code]] = {
    # aiokafka uses another name, and does not retry.
    13: _Code("NETWORK_EXCEPTION", "the broker lost its connection to another broker", is_retriable=True),
    73: _Code("TOPIC_DELETION_DISABLED", "the broker does not allow topics to be deleted"),
    74: _Code("FENCED_LEADER_EPOCH", "the partition has a newer leader epoch", is_retriable=True),
    75: _Code("UNKNOWN_LEADER_EPOCH", "the broker does not know the leader epoch yet", is_retriable=True),
    76: _Code("UNSUPPORTED_COMPRESSION_TYPE", "the compression type is not supported"),
    77: _Code("STALE_BROKER_EPOCH", "the broker has restarted meanwhile"),
    78: _Code("OFFSET_NOT_AVAILABLE", "the new leader does not know the end offset yet", is_retriable=True),
    80: _Code("PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not available", is_retriable=True),
    81: _Code("GROUP_MAX_SIZE_REACHED", "the group has as many members as the broker allows"),
    82: _Code("FENCED_INSTANCE_ID", "another member has joined with the same group.instance.id"),
    83: _Code("ELIGIBLE_LEADERS_NOT_AVAILABLE", "no eligible leader is available", is_retriable=True),
    84: _Code("ELECTION_NOT_NEEDED", "the partition needs no leader election", is_retriable=True),
    85: _Code("NO_REASSIGNMENT_IN_PROGRESS", "no reassignment of partitions is in progress"),
    86: _Code("GROUP_SUBSCRIBED_TO_TOPIC", "the group is subscribed to the topic"),
    87: _Code("INVALID_RECORD", "the topic refuses a record, such as one without a key in a compacted topic"),
    88: _Code("UNSTABLE_OFFSET_COMMIT", "an open transaction holds the offsets", is_retriable=True),
    89: _Code("THROTTLING_QUOTA_EXCEEDED", "the quota is exceeded", is_retriable=True),
    90: _Code("PRODUCER_FENCED", "a newer producer uses the same transactional id"),
    91: _Code("RESOURCE_NOT_FOUND", "the resource does not exist"),
    92: _Code("DUPLICATE_RESOURCE", "the request names a resource twice"),
    93: _Code("UNACCEPTABLE_CREDENTIAL", "the broker does not accept such a credential"),
    94: _Code("INCONSISTENT_VOTER_SET", "the controllers disagree about the voters"),
    95: _Code("INVALID_UPDATE_VERSION", "the version of the update is invalid"),
    96: _Code("FEATURE_UPDATE_FAILED", "the features could not be updated"),
    97: _Code("PRINCIPAL_DESERIALIZATION_FAILURE", "the brokers cannot forward the request's principal"),
    98: _Code("SNAPSHOT_NOT_FOUND", "the snapshot does not exist"),
    99: _Code("POSITION_OUT_OF_RANGE", "the position is outside of the snapshot"),
    100: _Code("UNKNOWN_TOPIC_ID", "the broker does not know the topic's id", is_retriable=True),
    101: _Code("DUPLICATE_BROKER_REGISTRATION", "the broker id is already in use"),
    102: _Code("BROKER_ID_NOT_REGISTERED", "the broker id is not registered"),
    103: _Code("INCONSISTENT_TOPIC_ID", "the topic was created again", is_retriable=True),
    104: _Code("INCONSISTENT_CLUSTER_ID", "the request is for another cluster"),
    105: _Code("TRANSACTIONAL_ID_NOT_FOUND", "the broker does not know the transactional id"),
    106: _Code("FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session mixes topics with and without ids", True),
    107: _Code("INELIGIBLE_REPLICA", "a replica may not join the in-sync replicas"),
    108: _Code("NEW_LEADER_ELECTED", "the partition has a new leader"),
    109: _Code("OFFSET_MOVED_TO_TIERED_STORAGE", "the offset is in tiered storage"),
    110: _Code("FENCED_MEMBER_EPOCH", "the group has replaced this member"),
    111: _Code("UNRELEASED_INSTANCE_ID", "another member still uses the same group.instance.id"),
    112: _Code("UNSUPPORTED_ASSIGNOR", "the group does not support the assignor"),
    113: _Code("STALE_MEMBER_EPOCH", "the group has rebalanced meanwhile"),
    114: _Code("MISMATCHED_ENDPOINT_TYPE", "the request went to the wrong type of endpoint"),
    115: _Code("UNSUPPORTED_ENDPOINT_TYPE", "the broker does not support this type of endpoint"),
    116: _Code("UNKNOWN_CONTROLLER_ID", "the controller id is not known"),
    117: _Code("UNKNOWN_SUBSCRIPTION_ID", "the subscription id of the client's metrics is outdated"),
    118: _Code("TELEMETRY_TOO_LARGE", "the client's metrics are larger than the broker allows"),
    119: _Code("INVALID_REGISTRATION", "the controller refuses the broker's registration"),
    120: _Code("TRANSACTION_ABORTABLE", "the transaction must be aborted"),
    121: _Code("INVALID_RECORD_STATE", "the share group no longer holds the record for this member"),
    122: _Code("SHARE_SESSION_NOT_FOUND", "the share session does not exist", is_retriable=True),
    123: _Code("INVALID_SHARE_SESSION_EPOCH", "the epoch of the share session is invalid", is_retriable=True),
    124: _Code("FENCED_STATE_EPOCH", "the share group has a newer state"),
    125: _Code("INVALID_VOTER_KEY", "the voter's key does not match the controller's"),
    126: _Code("DUPLICATE_VOTER", "the voter is already in the set of voters"),
    127: _Code("VOTER_NOT_FOUND", "the voter is not in the set of voters"),
    128: _Code("INVALID_REGULAR_EXPRESSION", "the regular expression is invalid"),
    129: _Code("REBOOTSTRAP_REQUIRED", "the client's metadata is outdated: it must connect again"),
    130: _Code("STREAMS_INVALID_TOPOLOGY", "the topology of the streams group is invalid"),
    131: _Code("STREAMS_INVALID_TOPOLOGY_EPOCH", "the topology epoch of the streams group is invalid"),
    132: _Code("STREAMS_TOPOLOGY_FENCED", "the streams group has a newer topology"),
    133: _Code("SHARE_SESSION_LIMIT_REACHED", "the broker has as many share sessions as it allows", True),
}


def _error_class(number: int, code: _Code) -> type[BrokerResponseError]:
    members = {
        "errno": number,
        "message": code.name,
        "words": code.words,
        "retriable": code.is_retriable,
    }
    name = "".join(word.capitalize() for word in code.name.split("_"))
    return type(name, (BrokerResponseError,), members)


_CLASSES: Final = {number: _error_class(number, code) for number, code in _CODES.items()}
FencedInstanceId: Final = _CLASSES[82]
UnstableOffsetCommit: Final = _CLASSES[88]


# On import, so that the codes are known before the first answer of a broker.
errors.kafka_errors.update(_CLASSES)

#: Errors that Kafka describes at length, or for authors of clients.
_OF_BROKERS: Final[Mapping[str, str]] = {
    "UNKNOWN": "the broker had an unexpected error",
    "UNKNOWN_TOPIC_OR_PARTITION": "the topic or the partition does not exist there",
    "LEADER_NOT_AVAILABLE": "the partition has no leader",
    "NOT_LEADER_FOR_PARTITION": "the partition has another leader now",
    "REQUEST_TIMED_OUT": "no answer in time",
    "MESSAGE_SIZE_TOO_LARGE": "the record is larger than the broker or topic allows",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator is starting",
    "COORDINATOR_NOT_AVAILABLE": "no coordinator is available",
    "NOT_COORDINATOR": "the coordinator is another broker now",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas asks for",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "fewer replicas are in sync than min.insync.replicas asks for",
    "ILLEGAL_GENERATION": "the group has rebalanced meanwhile",
    "UNKNOWN_MEMBER_ID": "the group no longer knows this member",
    "REBALANCE_IN_PROGRESS": "the group is rebalancing",
    "TOPIC_AUTHORIZATION_FAILED": "not authorized for the topic",
    "GROUP_AUTHORIZATION_FAILED": "not authorized for the group",
    "CLUSTER_AUTHORIZATION_FAILED": "not authorized for the cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "not authorized for the transactional id",
    "SASL_AUTHENTICATION_FAILED": "authentication failed",
    "INVALID_PRODUCER_EPOCH": "a newer producer uses the same transactional id",
    "CONCURRENT_TRANSACTIONS": "another transaction of this transactional id has not ended yet",
    "KAFKA_STORAGE_ERROR": "the broker cannot use its disk",
}
#: Errors of the client itself, which have no such name.
_OF_CLIENTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (errors.NodeNotReadyError, "the broker is not connected"),
    (errors.NoBrokersAvailable, "no broker is connected"),
    (errors.KafkaTimeoutError, "no answer in time"),
    (errors.StaleMetadata, "the partition has another leader now"),
    (errors.CommitFailedError, "the group has given the partitions to another member"),
    (errors.ProducerFenced, "a newer producer uses the same transactional id"),
    (errors.ProducerClosed, "the producer was stopped"),
    (errors.CorrelationIdError, "the response belongs to another request"),
    (errors.Cancelled, "the request was cancelled"),
)
#: An exception of the client inside the text of another one: `UnknownError()`.
_REPR: Final = re.compile(r"([A-Za-z]+)\((.*)\)", re.DOTALL)
#: A broker in the client's message about a broken or closed connection.
_ADDRESS: Final = re.compile(r"\bat ([^\s:]+:\d+)")
#: The part of Kafka's own description that is shown.
_SENTENCE: Final = re.compile(r"[^.]*")


def text_of(error: BaseException) -> str:
    """Return the meaning of an error of a broker, of the client, or of the system."""
    if isinstance(error, RelayError):
        return str(error)
    if isinstance(error, BrokerResponseError):
        return _of_broker(error)
    if isinstance(error, KafkaError):
        return _of_client(error)
    if isinstance(error, TimeoutError):
        return str(error) or "no answer in time"
    if isinstance(error, UnicodeDecodeError):
        return "it contains text that is not UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"a client error: {type(error).__name__}" + (str(error) and f": {error}")


def _of_broker(error: BrokerResponseError) -> str:
    name = getattr(error, "message", "")
    words = _OF_BROKERS.get(name) or getattr(error, "words", None)
    if words is None:
        sentence = _SENTENCE.match(getattr(error, "description", ""))
        words = sentence[0] if sentence and sentence[0] else "the broker refuses it"
        words = words[0].lower() + words[1:]
    about = ", ".join(_shown(each) for each in error.args)
    return f"{words}{about and f': {about}'} ({name})"


def _shown(about: object) -> str:
    """Return the subject of an error: names of topics, mostly."""
    if isinstance(about, set | frozenset | list | tuple) and not hasattr(about, "_fields"):
        return ", ".join(sorted(map(str, about)))
    topic, partition = getattr(about, "topic", None), getattr(about, "partition", None)
    return str(about) if topic is None else f"{topic}/{partition}"


def _no_connection(error: KafkaError) -> str:
    """Return the broker and the system's message of a failed connection, where known."""
    address = _ADDRESS.search(" ".join(map(str, error.args)))
    why = getattr(error.__cause__, "strerror", None)
    return f"no connection{f' to {address[1]}' if address else ''}{f': {why}' if why else ''}"


def _of_client(error: KafkaError) -> str:
    """Return the meaning of an error of the client itself, by its kind or by the error inside it."""
    if isinstance(error, errors.KafkaConnectionError):
        return _no_connection(error)
    for kind, words in _OF_CLIENTS:
        if isinstance(error, kind):
            return words
    if isinstance(error.__cause__, KafkaError | OSError | TimeoutError):
        return text_of(error.__cause__)
    text = ", ".join(map(str, error.args))
    found = _REPR.fullmatch(text)
    inner = getattr(errors, found[1], None) if found else None
    if found and isinstance(inner, type) and issubclass(inner, Exception):
        return text_of(inner(*([found[2].strip("'\"")] if found[2] else [])))
    return text[:1].lower() + text[1:] if text else "the client gave up"
