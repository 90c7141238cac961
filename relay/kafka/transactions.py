"""Transactions that the brokers have called complete and have not ended in every partition.

Seen with Kafka 4.3.1, one broker: killed between taking a commit and writing its markers, and started again,
it noted the transaction as complete and wrote no marker at all. Its records then become visible with the
producer id's next commit, although the group's offsets are still those from before it: what is translated
again would be there twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from relay.kafka.aiokafka_compat import check
from relay.kafka.permissions import TopicsRequest

PAUSE_SECONDS = 0.1
#: How long an offset may be pending that is not left over: until Kafka 3.9, markers reach a group's cache a
#: moment later.
SETTLE_SECONDS = 1.0
_UNSTABLE = 88
_ALL, _COMMITTED = 0, 1
_NO_REPLICA, _END = -1, -1
_TEXT = CompactString("utf-8")

Answer = TypeVar("Answer")


class _OffsetsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _TEXT),
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
        ("group", _TEXT),
        (
            "topics",
            CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class _StableOffsetsRequest(Request[_OffsetsRequest_v7]):  # type: ignore[misc]  # aiokafka is not typed
    """A group's offsets, with an error for those that a transaction is about to change (KIP-447, Kafka 2.5)."""

    API_KEY = 9

    def __init__(self, group: str, partitions: Mapping[str, Sequence[int]]) -> None:
        self._group, self._partitions = group, partitions

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in its one version."""
        return request_struct_class(
            self._group, [(topic, list(each), {}) for topic, each in self._partitions.items()], True, {}
        )


async def pending_offsets(
    client: Any, group: str, topics: Collection[str], is_ours: Callable[[int], bool]
) -> list[TopicPartition]:
    """Partitions of ours whose offsets lie in a transaction that has not ended, and does not end; none with
    brokers before 2.5.

    `is_ours` tells by the number. Waits for leaders and coordinators, so the caller has to set a deadline.
    Raises KafkaError for what waiting does not cure.
    """
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        try:
            found = await _patiently(lambda: _pending_now(client, group, topics, is_ours))
        except (IncompatibleBrokerVersion, NotImplementedError):
            return []
        if not found or asyncio.get_running_loop().time() >= deadline:
            return found
        await asyncio.sleep(PAUSE_SECONDS)


async def open_partitions(client: Any, topics: Collection[str]) -> list[TopicPartition]:
    """Partitions with a transaction that has not ended, whoever's it is: their last stable offset lies before
    their end.

    Topics that do not exist are left out. Waits and raises like `pending_offsets`.
    """
    return await _patiently(lambda: _open_now(client, topics))


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _pending_now(
    client: Any, group: str, topics: Collection[str], is_ours: Callable[[int], bool]
) -> list[TopicPartition]:
    ours = [pair for pair in await _leaders(client, topics) if is_ours(pair.partition)]
    coordinator = await client.coordinator_lookup(CoordinationType.GROUP, group)
    answer = await client.send(coordinator, _StableOffsetsRequest(group, _by_topic(ours)))
    check(answer.error_code, group)
    return [
        TopicPartition(topic, number)
        for topic, partitions, _ in answer.topics
        for number, _, _, _, code, _ in partitions
        if code == _UNSTABLE
    ]


async def _open_now(client: Any, topics: Collection[str]) -> list[TopicPartition]:
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for pair, leader in (await _leaders(client, topics)).items():
        if leader < 0:
            raise LeaderNotAvailableError(f"{pair.topic}/{pair.partition}")
        by_leader[leader].append(pair)
    found = []
    for leader, asked in by_leader.items():
        # The end comes first: what is written in between must not look like something that is open.
        ends = await _ends(client, leader, asked, _ALL)
        stable = await _ends(client, leader, asked, _COMMITTED)
        found += [pair for pair, end in ends.items() if stable[pair] < end]
    return found


async def _leaders(client: Any, topics: Collection[str]) -> dict[TopicPartition, int]:
    """The leader of each partition of the topics that exist, -1 where there is none."""
    answer = await client.send(client.get_random_node(), TopicsRequest(sorted(topics)))
    found: dict[TopicPartition, int] = {}
    for code, topic, _, partitions, *_ in answer.topics:
        if for_code(code) is UnknownTopicOrPartitionError:
            continue
        check(code, topic)
        found |= {TopicPartition(topic, number): leader for _, number, leader, *_ in partitions}
    return found


async def _ends(
    client: Any, leader: int, asked: Iterable[TopicPartition], isolation: int
) -> dict[TopicPartition, int]:
    topics = [(topic, [(number, _END) for number in numbers]) for topic, numbers in _by_topic(asked).items()]
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, isolation, topics))
    found = {}
    for topic, partitions in answer.topics:
        for number, code, _, offset in partitions:
            check(code, f"{topic}/{number}")
            found[TopicPartition(topic, number)] = offset
    return found


def _by_topic(pairs: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for pair in pairs:
        found[pair.topic].append(pair.partition)
    return found
