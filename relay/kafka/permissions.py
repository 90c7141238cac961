"""What the brokers allow this client: the two requests that tell it (KIP-430, Kafka 2.3), which aiokafka does
not have.

Both change nothing. `TopicsRequest` also forbids what aiokafka's own metadata request permits: that a broker
with `auto.create.topics.enable` creates the topics that are asked for.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

from aiokafka.protocol.admin import DescribeGroupsRequest_v2
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import Array, Boolean, Bytes, Int16, Int32, Schema, String

_TEXT = String("utf-8")
#: What stands where a broker tells no operations.
UNTOLD = -(2**31)


class Operation(IntEnum):
    """Kafka's numbers of the operations that ACLs are about (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


def allows(operations: int, operation: Operation) -> bool | None:
    """Whether a bit field of operations holds this one; None if the broker does not tell."""
    return None if operations == UNTOLD else bool(operations & 1 << operation)


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
    """Brokers, topics, and what the client may do with them. Before Kafka 2.3 (version 5) without the
    operations.
    """

    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in one of its versions."""
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
    """A group's state, and what the client may do with it. aiokafka reads version 3 without the operations."""

    API_KEY = 15

    def __init__(self, groups: list[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in one of its versions."""
        options = (True,) if request_struct_class is _GroupsRequest_v3 else ()
        return request_struct_class(self._groups, *options)
