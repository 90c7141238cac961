"""Hanging transactions: the brokers report them complete and have not ended them in every partition.

Seen with one broker of Kafka 4.3.1. It was killed after it had accepted a commit and before it had written
the markers. When it was started again, it recorded the transaction as complete and wrote no marker at all.
Such records become visible with the next commit of the producer id, while the offsets of the group, or those
in the progress topic, are still the earlier ones: records translated again would be there twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    GroupIdNotFound,
    IncompatibleBrokerVersion,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka.protocol.offset import OffsetRequest

from relay.io.kafka.aiokafka_compat import check
from relay.io.kafka.requests import ProducersRequest, StableOffsetsRequest, TopicsRequest
from relay.io.kafka.settings import Shard

PAUSE_SECONDS = 0.1
#: How long an offset may be pending without a hanging transaction: until Kafka 3.9, markers reach the cache
#: of the group a moment later.
SETTLE_SECONDS = 1.0
_UNSTABLE = 88
_ALL, _COMMITTED = 0, 1
_NO_REPLICA, _END = -1, -1

Answer = TypeVar("Answer")


async def pending_offsets(
    client: Any, group: str, topics: Collection[str], shard: Shard
) -> list[TopicPartition]:
    """Return the partitions of the shard whose offsets are held by a transaction that does not end.

    Returns none with brokers before 2.5. Waits for leaders and coordinators, so the caller must set a
    deadline. Raises KafkaError for errors that waiting does not cure.
    """
    return await _ask_until_settled(lambda: _pending_now(client, group, topics, shard), [])


async def has_open_transaction(client: Any, producer_id: int, pair: TopicPartition) -> bool:
    """Return whether a transaction of this producer id is still open in a partition after a while.

    Returns False with brokers before 2.8. Waits and raises like `pending_offsets`.
    """
    return await _ask_until_settled(lambda: _is_open_now(client, producer_id, pair), False)


async def open_partitions(client: Any, topics: Collection[str]) -> list[TopicPartition]:
    """Return the partitions with an open transaction of any producer: last stable offset before the end.

    Topics that do not exist are left out. Waits and raises like `pending_offsets`.
    """
    return await _patiently(lambda: _open_now(client, topics))


async def written_end(client: Any, pair: TopicPartition) -> int:
    """Return the offset after all records of a partition, including those of open transactions.

    Waits and raises like `pending_offsets`.
    """
    return await _patiently(lambda: _end_now(client, pair))


async def written_ends(client: Any, pairs: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the same for several partitions, if their leaders answer. Asks each leader once."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for pair in pairs:
        leader = client.cluster.leader_for_partition(pair)
        if leader is not None and leader >= 0:
            by_leader[leader].append(pair)
    found = await asyncio.gather(*(_ends_of_leader(client, *each) for each in by_leader.items()))
    return {pair: end for ends in found for pair, end in ends.items()}


async def _ends_of_leader(
    client: Any, leader: int, asked: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        return await _ends(client, leader, asked, _ALL, lenient=True)
    except KafkaError:
        return {}


async def _ask_until_settled(ask: Callable[[], Awaitable[Answer]], nothing: Answer) -> Answer:
    """Return a finding that lasts for a while; `nothing` with brokers that do not report it."""
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        try:
            found = await _patiently(ask)
        except (IncompatibleBrokerVersion, UnsupportedVersionError, NotImplementedError):
            return nothing
        if not found or asyncio.get_running_loop().time() >= deadline:
            return found
        await asyncio.sleep(PAUSE_SECONDS)


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _pending_now(
    client: Any, group: str, topics: Collection[str], shard: Shard
) -> list[TopicPartition]:
    ours = [pair for pair in await _leaders(client, topics) if shard.contains(pair.partition)]
    coordinator = await client.coordinator_lookup(CoordinationType.GROUP, group)
    answer = await client.send(coordinator, StableOffsetsRequest(group, _by_topic(ours)))
    if answer.error_code != GroupIdNotFound.errno:
        check(answer.error_code, group)
    return [
        TopicPartition(topic, number)
        for topic, partitions, _ in answer.topics
        for number, _, _, _, code, _ in partitions
        if code == _UNSTABLE
    ]


async def _is_open_now(client: Any, producer_id: int, pair: TopicPartition) -> bool:
    answer = await client.send(await _leader(client, pair), ProducersRequest(*pair))
    ((_, ((_, code, _, producers, _),), _),) = answer.topics
    check(code, f"{pair.topic}/{pair.partition}")
    return any(each == producer_id and begins >= 0 for each, _, _, _, _, begins, _ in producers)


async def _end_now(client: Any, pair: TopicPartition) -> int:
    return (await _ends(client, await _leader(client, pair), [pair], _ALL))[pair]


async def _leader(client: Any, pair: TopicPartition) -> int:
    leader = (await _leaders(client, [pair.topic])).get(pair, -1)
    if leader < 0:
        raise LeaderNotAvailableError(f"{pair.topic}/{pair.partition}")
    return leader


async def _open_now(client: Any, topics: Collection[str]) -> list[TopicPartition]:
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for pair, leader in (await _leaders(client, topics)).items():
        if leader < 0:
            raise LeaderNotAvailableError(f"{pair.topic}/{pair.partition}")
        by_leader[leader].append(pair)
    found = []
    for leader, asked in by_leader.items():
        # The end comes first: records written in between must not look like an open transaction.
        ends = await _ends(client, leader, asked, _ALL)
        stable = await _ends(client, leader, asked, _COMMITTED)
        found += [pair for pair, end in ends.items() if stable[pair] < end]
    return found


async def _leaders(client: Any, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Return the leader of each partition of the existing topics, -1 for a partition without one."""
    answer = await client.send(client.get_random_node(), TopicsRequest(sorted(topics)))
    found: dict[TopicPartition, int] = {}
    for code, topic, _, partitions, *_ in answer.topics:
        if for_code(code) is UnknownTopicOrPartitionError:
            continue
        check(code, topic)
        found |= {TopicPartition(topic, number): leader for _, number, leader, *_ in partitions}
    return found


async def _ends(
    client: Any, leader: int, asked: Iterable[TopicPartition], isolation: int, *, lenient: bool = False
) -> dict[TopicPartition, int]:
    topics = [(topic, [(number, _END) for number in numbers]) for topic, numbers in _by_topic(asked).items()]
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, isolation, topics))
    found = {}
    for topic, partitions in answer.topics:
        for number, code, _, offset in partitions:
            if lenient and code:
                continue
            check(code, f"{topic}/{number}")
            found[TopicPartition(topic, number)] = offset
    return found


def _by_topic(pairs: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for pair in pairs:
        found[pair.topic].append(pair.partition)
    return found
