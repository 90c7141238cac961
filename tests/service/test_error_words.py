"""Errors of brokers and of the client as plain text, without class names or `repr`."""

from __future__ import annotations

import re
import socket

import pytest
from aiokafka import errors
from aiokafka.structs import TopicPartition

from relay.io.kafka.aiokafka_compat import unreachable
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.oauth import NoToken


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


BOOTSTRAP = errors.KafkaConnectionError(f"Unable to bootstrap from {[('h', 1, socket.AF_UNSPEC)]}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BOOTSTRAP, "no connection"),
        (errors.KafkaConnectionError("Connection at h:9092 closed"), "no connection to h:9092"),
        (
            caused(errors.KafkaConnectionError("Connection at h:1 broken: x"), ConnectionResetError(104, "Reset")),
            "no connection to h:1: Reset",
        ),
        (errors.TopicAuthorizationFailedError({"b", "a"}), "not authorized for the topic: a, b (TOPIC_AUTHORIZATION_FAILED)"),
        (errors.UnknownTopicOrPartitionError(), "the topic or the partition does not exist there (UNKNOWN_TOPIC_OR_PARTITION)"),
        (errors.LeaderNotAvailableError(TopicPartition("t", 3)), "the partition has no leader: t/3 (LEADER_NOT_AVAILABLE)"),
        (errors.PolicyViolationError(), "request parameters do not satisfy the configured policy (POLICY_VIOLATION)"),
        (errors.KafkaError("UnknownError()"), "the broker had an unexpected error (UNKNOWN)"),
        (errors.KafkaError("GroupAuthorizationFailedError('g')"), "not authorized for the group: g (GROUP_AUTHORIZATION_FAILED)"),
        (errors.KafkaError("Unable to get cluster metadata over all known brokers"), "unable to get cluster metadata over all known brokers"),
        (caused(errors.KafkaError("Unexpected error during batch delivery"), TimeoutError()), "no answer in time"),
        (errors.KafkaTimeoutError(), "no answer in time"),
        (errors.CommitFailedError(), "the group has given the partitions to another member"),
        (TimeoutError("no answer within 30 s"), "no answer within 30 s"),
        (NoToken("the token file t is not text"), "the token file t is not text"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "it contains text that is not UTF-8"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)  # fmt: skip
def test_words(error: Exception, said: str) -> None:
    assert text_of(error) == said


def test_no_error_of_the_client_is_reported_by_its_class() -> None:
    """Of every one that it has, as it is raised without words."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.KafkaError)
    ]
    assert len(kinds) > 90
    for kind in kinds:
        if kind is not errors.BrokerResponseError:
            assert not re.search(rf"{kind.__name__}|Error|Exception|\(\)|<", text_of(kind())), kind


def test_brokers_that_do_not_answer() -> None:
    assert str(unreachable("h:1", BOOTSTRAP)) == (
        "no broker answers at h:1: no connection; check the addresses and that the brokers are up"
    )
