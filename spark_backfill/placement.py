"""Distribute records over the tasks that write.

Each partition of a known topic has a separate task; other topics share tasks by a hash of their name.

Spark distributes rows by the hash of columns. The hash of a target's name and number leaves many tasks idle,
and gives others several partitions. Here a column has a number for each task, whose hash is known to choose
that task.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import accumulate, count
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: The column that distributes rows. Windows over target partitions must include it, or Spark sorts them into
#: other tasks.
TASK: Final = "task"
#: With more topics, all are distributed like unknown ones: Spark compares the topic of each row with them.
_MOST_KNOWN: Final = 100
_BITS: Final = (1 << 32) - 1


class Placement(NamedTuple):
    """The number of tasks, and the first task of each known topic: partitions are in consecutive tasks.

    Topics that are not known begin at a task that depends on their name.
    """

    tasks: int
    first: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of_topics(cls, partitions: Mapping[str, int], others: int = 0) -> Placement:
        """Return one task for each partition of these topics.

        others: Number of additional tasks, for topics that are not known yet.
        """
        starts = accumulate(partitions.values(), initial=0)
        known = len(partitions) <= _MOST_KNOWN
        first = dict(zip(partitions, starts, strict=False)) if known else {}
        return cls(max(1, sum(partitions.values()) + others), first)

    def distribute(self, produced: DataFrame) -> DataFrame:
        """Return the records in their tasks, with the column `TASK`."""
        start = F.pmod(F.hash("topic"), F.lit(self.tasks))
        if self.first:
            known = F.create_map(*[F.lit(each) for pair in self.first.items() for each in pair])
            start = F.coalesce(known[F.col("topic")], start)
        number = F.pmod(start + F.pmod(F.col("partition"), F.lit(self.tasks)), F.lit(self.tasks))
        numbers = F.array(*map(F.lit, _numbers(self.tasks)))
        return produced.withColumn(TASK, F.get(numbers, number)).repartition(self.tasks, TASK)


@functools.cache
def _numbers(tasks: int) -> tuple[int, ...]:
    """Return a number for each task by which Spark sends a row to it."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(_hash(number) % tasks, number)
        if len(found) == tasks:
            break
    return tuple(number for _, number in sorted(found.items()))


def _hash(number: int) -> int:
    """Return Spark's hash of an integer: MurmurHash3 (32 bits) with the seed 42."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593 & _BITS
    found = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _BITS) ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _BITS
    found = (found ^ found >> 13) * 0xC2B2AE35 & _BITS
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(number: int, bits: int) -> int:
    """Return a number of 32 bits rotated to the left."""
    number &= _BITS
    return (number << bits | number >> (32 - bits)) & _BITS
