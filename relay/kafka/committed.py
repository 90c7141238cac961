"""Committed offsets, asked for by a request of our own.

aiokafka 0.14 looks at the errors of partitions alone. A coordinator that has moved, or is still loading,
answers with one error for the whole request and no partitions, and the client takes that for "no offset is
committed": relay would begin at `start`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from aiokafka.errors import KafkaError, NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetFetchRequest

from relay.kafka.aiokafka_compat import check
from relay.kafka.ports import Partition

PAUSE_SECONDS = 0.1


async def committed_offsets(
    consumer: Any, group: str, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """The group's committed offsets; partitions without one are left out. Waits for a coordinator that can
    answer.

    So the caller has to set a deadline. Raises KafkaError for what waiting does not cure.
    """
    topics: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(partition.partition)
    if not topics:
        return {}
    coordinator = consumer._coordinator
    while True:
        await coordinator.ensure_coordinator_known()
        try:
            answer = await coordinator._send_req(OffsetFetchRequest(group, list(topics.items())))
            return _offsets_in(answer)
        except NotCoordinatorForGroupError:
            coordinator.coordinator_dead()
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


def _offsets_in(answer: Any) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    check(getattr(answer, "error_code", 0))
    for topic, partitions in answer.topics:
        for number, offset, _, code in partitions:
            check(code)
            if offset >= 0:
                found[Partition(topic, number)] = offset
    return found
