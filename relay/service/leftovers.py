"""Transactions that the brokers have called complete and have not ended in every partition.

Seen with Kafka 4.3.1, one broker: killed between taking a commit and writing its markers, and started again, it noted the
transaction as complete and wrote no marker at all. Its records then become visible with the producer id's next commit, although the
group's offsets are still those from before it: what is translated again would be there twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, LeaderNotAvailableError, NoError, for_code
from aiokafka.protocol.offset import OffsetRequest

PAUSE_SECONDS = 0.1
_ALL, _COMMITTED = 0, 1
_NO_REPLICA, _END = -1, -1


async def open_partitions(client: Any, topics: Iterable[str]) -> list[TopicPartition]:
    """Partitions with a transaction that has not ended, whoever's it is: their last stable offset lies before their end.

    Topics that do not exist are left out. Waits for leaders, so the caller has to set a deadline. Raises KafkaError for what
    waiting does not cure.
    """
    names = list(topics)
    for name in names:
        client.add_topic(name)
    while True:
        await client.force_metadata_update()
        try:
            return await _open_now(client, names)
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _open_now(client: Any, topics: Sequence[str]) -> list[TopicPartition]:
    by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic in topics:
        for number in client.cluster.partitions_for_topic(topic) or ():
            leader = client.cluster.leader_for_partition(TopicPartition(topic, number))
            if leader is None or leader < 0:
                raise LeaderNotAvailableError(f"{topic}/{number}")
            by_leader[leader][topic].append(number)
    found = []
    for leader, asked in by_leader.items():
        # The end comes first: what is written in between must not look like something that is open.
        ends = await _ends(client, leader, asked, _ALL)
        stable = await _ends(client, leader, asked, _COMMITTED)
        found += [pair for pair, end in ends.items() if stable[pair] < end]
    return found


async def _ends(client: Any, leader: int, asked: Mapping[str, Sequence[int]], isolation: int) -> dict[TopicPartition, int]:
    topics = [(topic, [(number, _END) for number in numbers]) for topic, numbers in asked.items()]
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, isolation, topics))
    found = {}
    for topic, partitions in answer.topics:
        for number, code, _, offset in partitions:
            error = for_code(code)
            if error is not NoError:
                raise error(f"{topic}/{number}")
            found[TopicPartition(topic, number)] = offset
    return found
