"""Read a part of a topic without a group: the newest records, those since a time, those between offsets.

Nothing is committed, so a running relay is not disturbed. Records of aborted transactions are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition

from relay.io.kafka.clients import Brokers
from relay.io.kafka.fetched import relay_records
from relay.io.kafka.reading import POLL_MS, Progress, bounds, consuming, partitions_of, stall_deadline
from relay.model.errors import ConfigError, Problem
from relay.model.records import ConsumerRecord

#: Factor by which to look further back if markers of transactions or compaction have left too few records.
_FURTHER: Final = 4

Each = Callable[[ConsumerRecord], None]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of a topic's records.

    Either the newest `last` of them, or all `since_ms` and before `until_ms` (milliseconds since 1970), at
    offsets from `first` to before `end`. `partitions`: () for all. `follow`: also later records, until it is
    stopped.
    """

    last: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    first: int | None = None
    end: int | None = None
    partitions: tuple[int, ...] = ()
    follow: bool = False


async def read_part(
    brokers: Brokers, topic: str, part: Part, each: Each, progress: Progress | None = None
) -> None:
    """Pass the records of a part to `each`, in the order of each partition.

    The newest of several partitions are passed by their time. Raises ConfigError for a partition that does
    not exist, TopicUnusable, BrokerUnavailable.
    """
    count = await partitions_of(brokers, topic)
    wrong = [str(number) for number in part.partitions if number >= count]
    if wrong:
        message = f"{topic} has no partition {', '.join(wrong)}; it has the partitions 0 to {count - 1}"
        raise ConfigError([Problem("--partition", message)])
    pairs = [TopicPartition(topic, number) for number in part.partitions or range(count)]
    async with consuming(brokers, pairs) as consumer:
        first, ends = await bounds(consumer, pairs)
        reader = _Reader(consumer, brokers, progress)
        if part.last is not None:
            for record in await _newest(reader, part.last, first, ends):
                each(record)
        else:
            begin = await _begin(consumer, part, first, ends)
            stop = dict(ends)
            if part.end is not None:
                stop = {pair: min(end, max(part.end, first[pair])) for pair, end in ends.items()}
            await reader.between(begin, stop, _within(part, each))
        if part.follow:
            await reader.follow(ends, _within(part, each))


def _within(part: Part, each: Each) -> Each:
    """Leave out records outside the requested times: the offset of a time only marks where to begin."""
    since, until = part.since_ms, part.until_ms
    if since is None and until is None:
        return each

    def chosen(record: ConsumerRecord) -> None:
        at = record.timestamp_ms
        if (since is None or at >= since) and (until is None or at < until):
            each(record)

    return chosen


async def _begin(consumer: Any, part: Part, first: dict[Any, int], ends: dict[Any, int]) -> dict[Any, int]:
    if part.since_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(first, part.since_ms))
        return {pair: ends[pair] if found.get(pair) is None else found[pair].offset for pair in first}
    if part.first is not None:
        return {pair: min(max(part.first, oldest), ends[pair]) for pair, oldest in first.items()}
    return dict(first)


async def _newest(
    reader: _Reader, count: int, first: dict[Any, int], ends: dict[Any, int]
) -> Sequence[ConsumerRecord]:
    """Return the newest records of all partitions together, in the order of their times.

    Those of a partition keep their own order, even where a time goes back.
    """
    found: list[tuple[int, ConsumerRecord]] = []
    for pair, end in ends.items():
        span = count
        while True:
            begin = max(first[pair], end - span)
            records: list[ConsumerRecord] = []
            await reader.between({pair: begin}, {pair: end}, records.append)
            if len(records) >= count or begin <= first[pair]:
                break
            span *= _FURTHER
        newest = -1
        for record in records[-count:]:
            newest = max(newest, record.timestamp_ms)
            found.append((newest, record))
    found.sort(key=lambda timed: timed[0])
    return [record for _, record in found[-count:]]


class _Reader:
    """Read partitions that are assigned to a consumer."""

    def __init__(self, consumer: Any, brokers: Brokers, progress: Progress | None) -> None:
        self._consumer, self._brokers, self._progress = consumer, brokers, progress

    async def between(self, begin: dict[Any, int], ends: dict[Any, int], each: Each) -> None:
        """Read from offsets to before others."""
        at, total = dict(begin), sum(max(0, ends[pair] - offset) for pair, offset in begin.items())
        for pair, offset in begin.items():
            self._consumer.seek(pair, offset)
        deadline = stall_deadline(time.monotonic(), moved=True, brokers=self._brokers)
        while left := [pair for pair in at if at[pair] < ends[pair]]:
            await self._poll(left, ends, each)
            before = sum(at.values())
            # The position, not the offset of the last record: markers of transactions have offsets, too.
            at |= {pair: min(await self._consumer.position(pair), ends[pair]) for pair in left}
            deadline = stall_deadline(deadline, moved=sum(at.values()) > before, brokers=self._brokers)
            if self._progress is not None:
                self._progress(sum(at.values()) - sum(begin.values()), total)

    async def follow(self, begin: dict[Any, int], each: Each) -> None:
        """Read arriving records until cancelled."""
        for pair, offset in begin.items():
            self._consumer.seek(pair, offset)
        while True:
            await self._poll(list(begin), None, each)

    async def _poll(self, pairs: Sequence[Any], ends: dict[Any, int] | None, each: Each) -> None:
        fetched = await self._consumer.getmany(*pairs, timeout_ms=POLL_MS)
        for pair, records in fetched.items():
            for record in relay_records(records):
                if ends is None or record.offset < ends[pair]:
                    each(record)
