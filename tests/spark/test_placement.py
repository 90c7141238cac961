"""Each target partition has a task of its own, and no other task has records of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.sql import functions as F

from spark_backfill.files import in_target_order, number_in_partition, target_columns
from spark_backfill.frames import PRODUCED
from spark_backfill.placement import Placement


def produced(spark: Any, partitions: dict[str, int], each: int = 3) -> Any:
    rows: list[tuple[Any, ...]] = [
        (topic, number, 0, None, None, [], "source", number, at, 0)
        for topic, count in partitions.items()
        for number in range(count)
        for at in range(each)
    ]
    return spark.createDataFrame(rows, PRODUCED).repartition(5)


def tasks_of(frame: Any) -> dict[tuple[str, int], set[int]]:
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in frame.select("topic", "partition", F.spark_partition_id().alias("id")).collect():
        found[row.topic, row.partition].add(row.id)
    return found


@pytest.mark.parametrize(
    "partitions",
    [{"t": 1}, {"t": 12}, {"t": 48}, {"a": 3, "b": 1, "c": 5}, dict.fromkeys(map(str, range(40)), 2)],
)
def test_each_partition_has_one_task(partitions: dict[str, int], spark: Any) -> None:
    placement = Placement.of_topics(partitions)
    found = tasks_of(placement.distribute(produced(spark, partitions)))
    assert len(found) == placement.tasks == sum(partitions.values())
    assert sorted(found.values()) == [{task} for task in range(placement.tasks)]


@pytest.mark.parametrize("by_time", [False, True])
def test_windows_leave_records_in_their_tasks(by_time: bool, spark: Any) -> None:
    partitions = {"t": 7}
    placed = Placement.of_topics(partitions).distribute(produced(spark, partitions))
    ordered, order = in_target_order(placed, by_time=by_time)
    numbered = ordered.withColumn("offset", number_in_partition(order, target_columns(placed)))
    assert sorted(map(min, tasks_of(numbered).values())) == list(range(7))
    assert {row.offset for row in numbered.collect()} == {1, 2, 3}


def test_partitions_of_an_unknown_topic_have_tasks_of_their_own(spark: Any) -> None:
    found = tasks_of(Placement.of_topics({}, 8).distribute(produced(spark, {"unknown": 8})))
    assert sorted(found.values()) == [{task} for task in range(8)]


def test_many_topics_share_a_bounded_number_of_tasks(spark: Any) -> None:
    partitions = {f"db.table_{number}": 2 for number in range(150)}
    placement = Placement.of_topics({"fixed": 1}, 8)
    found = tasks_of(placement.distribute(produced(spark, partitions, each=1)))
    assert placement.tasks == 9
    assert all(len(tasks) == 1 for tasks in found.values())
    counts = Counter(min(tasks) for tasks in found.values())
    assert len(counts) == 9
    assert max(counts.values()) < 3 * 300 / 9
    assert Placement.of_topics(partitions) == Placement(300)
