"""Error codes of Kafka's protocol that aiokafka 0.14 does not know, or knows under another name.

aiokafka maps every unknown code to `UnknownError`. `register` adds these codes to its table, so that every
answer has a distinct name, and errors that a retry cures are retried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from aiokafka import errors
from aiokafka.errors import BrokerResponseError


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
InvalidRecord: Final = _CLASSES[87]
UnstableOffsetCommit: Final = _CLASSES[88]


def register() -> None:
    """Add the codes to those of aiokafka."""
    errors.kafka_errors.update(_CLASSES)
