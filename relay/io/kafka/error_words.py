"""Messages for errors of brokers and of the client.

Each ends with Kafka's own name of the error, which users can search for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aiokafka import errors
from aiokafka.errors import BrokerResponseError, KafkaError

from relay.io.kafka.error_codes import register
from relay.model.errors import RelayError

# On import, so that the codes are known before the first answer of a broker.
register()

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
