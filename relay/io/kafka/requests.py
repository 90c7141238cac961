"""Read-only requests of Kafka's protocol that aiokafka 0.14 does not have.

`TopicsRequest` also forbids topic creation, which aiokafka's own metadata request permits: a broker with
`auto.create.topics.enable` would create the requested topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

from aiokafka.protocol.admin import DescribeGroupsRequest_v2
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

#: The bit field of a broker that does not report permissions.
UNKNOWN_OPERATIONS = -(2**31)


class Operation(IntEnum):
    """Kafka's numbers of the operations in ACLs (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


def allows(operations: int, operation: Operation) -> bool | None:
    """Return whether a bit field of operations holds this one; None if the broker does not report it."""
    return None if operations == UNKNOWN_OPERATIONS else bool(operations & 1 << operation)


_TEXT, _COMPACT_TEXT = String("utf-8"), CompactString("utf-8")
_NO_TAGS: Mapping[int, bytes] = {}
#: Partitions, by topic.
_PARTITIONS = CompactArray(
    ("topic", _COMPACT_TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
)


class _TopicsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("cluster_operations", Int32),
    )


class _TopicsRequest_v8(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _TopicsResponse
    SCHEMA = Schema(
        ("topics", Array(_TEXT)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


_TopicsStruct: TypeAlias = MetadataRequest_v5 | _TopicsRequest_v8


class TopicsRequest(Request[_TopicsStruct]):  # type: ignore[misc]  # aiokafka is not typed
    """Brokers, topics and allowed operations (KIP-430); version 5, before Kafka 2.3, lacks the latter."""

    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in the version that the broker supports."""
        options = (True, True) if request_struct_class is _TopicsRequest_v8 else ()
        return request_struct_class(self._topics, False, *options)


class _GroupsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 15
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", _TEXT),
                ("state", _TEXT),
                ("protocol_type", _TEXT),
                ("protocol", _TEXT),
                (
                    "members",
                    Array(
                        ("member_id", _TEXT),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("member_metadata", Bytes),
                        ("member_assignment", Bytes),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
    )


class _GroupsRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = _GroupsResponse
    SCHEMA = Schema(("groups", Array(_TEXT)), ("include_authorized_operations", Boolean))


_GroupsStruct: TypeAlias = DescribeGroupsRequest_v2 | _GroupsRequest_v3


class GroupsRequest(Request[_GroupsStruct]):  # type: ignore[misc]  # aiokafka is not typed
    """A group's state and allowed operations (KIP-430): version 3, which aiokafka reads without these."""

    API_KEY = 15

    def __init__(self, groups: list[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in the version that the broker supports."""
        options = (True,) if request_struct_class is _GroupsRequest_v3 else ()
        return request_struct_class(self._groups, *options)


class _OffsetsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _COMPACT_TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _COMPACT_TEXT),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class _OffsetsRequest_v7(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 7
    RESPONSE_TYPE = _OffsetsResponse
    SCHEMA = Schema(
        ("group", _COMPACT_TEXT),
        ("topics", _PARTITIONS),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class StableOffsetsRequest(Request[_OffsetsRequest_v7]):  # type: ignore[misc]  # aiokafka is not typed
    """The offsets of a group, with an error for each that an open transaction holds (KIP-447, Kafka 2.5)."""

    API_KEY = 9

    def __init__(self, group: str, partitions: Mapping[str, Sequence[int]]) -> None:
        self._group, self._partitions = group, partitions

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in its one version."""
        return request_struct_class(
            self._group,
            [(topic, list(each), _NO_TAGS) for topic, each in self._partitions.items()],
            True,
            _NO_TAGS,
        )


class TransactionsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    """The answer to a `TransactionsRequest`."""

    API_KEY = 65
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "transactions",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", _COMPACT_TEXT),
                ("state", _COMPACT_TEXT),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                ("topics", _PARTITIONS),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _TransactionsRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    FLEXIBLE_VERSION = True
    API_KEY = 65
    API_VERSION = 0
    RESPONSE_TYPE = TransactionsResponse
    SCHEMA = Schema(("transactional_ids", CompactArray(_COMPACT_TEXT)), ("tags", TaggedFields))


class TransactionsRequest(Request[_TransactionsRequest_v0]):  # type: ignore[misc]  # aiokafka is not typed
    """A coordinator's information about transactional ids (KIP-664, Kafka 3.0).

    Requires DESCRIBE on each id, which WRITE includes.
    """

    API_KEY = 65

    def __init__(self, *transactional_ids: str) -> None:
        self._ids = transactional_ids

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in its one version."""
        return request_struct_class(list(self._ids), _NO_TAGS)


class _ProducersResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 61
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _COMPACT_TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", _COMPACT_TEXT),
                        (
                            "producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_timestamp_ms", Int64),
                                ("coordinator_epoch", Int32),
                                ("transaction_begins", Int64),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ProducersRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    FLEXIBLE_VERSION = True
    API_KEY = 61
    API_VERSION = 0
    RESPONSE_TYPE = _ProducersResponse
    SCHEMA = Schema(
        ("topics", _PARTITIONS),
        ("tags", TaggedFields),
    )


class ProducersRequest(Request[_ProducersRequest_v0]):  # type: ignore[misc]  # aiokafka is not typed
    """The producers of a partition, and the start of each one's open transaction, -1 without one.

    KIP-664, Kafka 2.8. The leader answers; requires read permission.
    """

    API_KEY = 61

    def __init__(self, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in its one version."""
        return request_struct_class([(self._topic, [self._partition], _NO_TAGS)], _NO_TAGS)
