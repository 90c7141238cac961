"""Check the consumer group of a route: permission, members, and how many records it has left to read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from relay.config import Config
from relay.io.kafka.admin import TopicInfo
from relay.io.kafka.ports import Partition, PollFailed
from relay.io.kafka.progress import read_progress
from relay.io.kafka.reading import bounds, consuming
from relay.io.kafka.requests import Operation, allows
from relay.model.errors import ServiceError
from relay.service.check import CheckState, Finding, unreported
from relay.service.check.cluster import ClusterInspection, Group
from relay.text.redaction import first_of, printable

#: Maximum number of members listed by name.
_NAMED: Final = 5
_SECONDS: Final = 20.0
_OWN_GROUP: Final = "set group_id in [source] to a group that only this route uses"


async def group_findings(
    config: Config, source: ClusterInspection, target: ClusterInspection, topics: Mapping[str, TopicInfo]
) -> list[Finding]:
    """Judge the group of the route. `topics`: the source topics that can be read."""
    name, subject = config.source.group_id, f"source group {config.source.group_id}"
    group = await source.group(name)
    if isinstance(group, str):
        return [Finding(CheckState.UNTESTED, subject, group)]
    found = [_permission(subject, group), *_members(subject, group)]
    if group.operations and topics:
        found += await _progress(config, source, target, topics)
    return found


def _permission(subject: str, group: Group) -> Finding:
    may_read = allows(group.operations, Operation.READ) if group.operations else False
    if may_read is None:
        return Finding(CheckState.UNTESTED, subject, unreported("READ"))
    if not may_read:
        return Finding(CheckState.FAILED, subject, "READ is not allowed; grant it on the group")
    return Finding(CheckState.OK, subject, "READ allowed")


def _members(subject: str, group: Group) -> Iterator[Finding]:
    """List the members. Members of another application keep relay out of the group."""
    if not group.members:
        return
    counts = Counter(f"{printable(client)} at {printable(host)}" for client, host in group.members)
    named = [f"{who} ({count})" if count > 1 else who for who, count in counts.most_common()]
    who = f"its members are {first_of(named, _NAMED)}"
    wanted = RoundRobinPartitionAssignor.name
    if group.kind not in {"", "consumer"} or group.assignor not in {"", wanted}:
        how = f"with the assignor {printable(group.assignor)}" if group.kind == "consumer" else group.kind
        text = f"another application uses it, {how}: {who}; {_OWN_GROUP}"
        yield Finding(CheckState.FAILED, subject, text)
    else:
        yield Finding(
            CheckState.NOTE, subject, f"{who}: if they are not instances of this route, {_OWN_GROUP}"
        )


class _Offsets(NamedTuple):
    """The committed offsets of a group, and the first and end offsets of the partitions."""

    committed: Mapping[Partition, int]
    first: Mapping[Partition, int]
    end: Mapping[Partition, int]


async def _progress(
    config: Config, source: ClusterInspection, target: ClusterInspection, topics: Mapping[str, TopicInfo]
) -> list[Finding]:
    """Report how much is left to read: another route may have used the group name, and read everything."""
    subject = f"source group {config.source.group_id}"
    try:
        async with asyncio.timeout(_SECONDS):
            found = await _offsets(config, source, target, topics)
    except (ServiceError, PollFailed, TimeoutError) as error:
        reason = str(error) or "the brokers did not answer in time"
        return [Finding(CheckState.UNTESTED, subject, f"its offsets cannot be read: {reason}")]
    return [_judged(config, subject, found)]


def _judged(config: Config, subject: str, found: _Offsets) -> Finding:
    total = sum(found.end[each] - found.first[each] for each in found.end)
    if not found.committed:
        text = f"it has committed no offset yet: reading begins at start = {config.source.start}"
        return Finding(CheckState.OK, subject, text)
    left = sum(found.end[each] - max(found.committed.get(each, 0), found.first[each]) for each in found.end)
    text = f"it has committed offsets: {max(0, left)} of {total} records are left to read"
    if left <= 0 < total:
        text += f"; if this route has not run yet, another one uses the group: {_OWN_GROUP}"
        return Finding(CheckState.NOTE, subject, text)
    return Finding(CheckState.OK, subject, text)


async def _offsets(
    config: Config, source: ClusterInspection, target: ClusterInspection, topics: Mapping[str, TopicInfo]
) -> _Offsets:
    committed: Mapping[Partition, int]
    numbers = {name: range(found.partitions) for name, found in topics.items()}
    pairs = [TopicPartition(name, number) for name, each in numbers.items() for number in each]
    if config.uses_progress_topic:
        progress = config.delivery.progress_topic
        is_reached = target.is_reached
        committed = (
            await read_progress(target.brokers, progress, config.source.group_id) if is_reached else {}
        )
    else:
        answer = await source.committed(config.source.group_id, numbers)
        if isinstance(answer, str):
            raise PollFailed(answer)
        committed = {Partition(*pair): offset for pair, offset in answer.items()}
    async with consuming(source.brokers, pairs) as consumer:
        first, end = await bounds(consumer, pairs)
    mine = {Partition(*pair) for pair in pairs}
    return _Offsets(
        {each: offset for each, offset in committed.items() if each in mine},
        {Partition(*pair): offset for pair, offset in first.items()},
        {Partition(*pair): offset for pair, offset in end.items()},
    )
