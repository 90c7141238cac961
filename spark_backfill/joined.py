"""Join rows of neighboring source records into one message, after the tasks that translate.

Uses `relay.core.batching`. A window may be spread over several tasks. So records are first sorted in the
order of their target partitions. Messages end where a step ends, at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from relay.codecs.codec import Joining
from relay.config import Config
from relay.config.keys import OutputLayout
from relay.config.wiring import translator_of
from relay.core.batching import Joiner
from relay.model.records import ConsumerRecord, ProducerRecord
from spark_backfill.counts import Accumulator, BackfillCounts, hand_over
from spark_backfill.files import PARTITION_COLUMNS, SOURCE_ORDER, in_target_order
from spark_backfill.frames import PRODUCED, Produced, records_to_write


class SourceTag(NamedTuple):
    """The origin of a record: its source record, and its number among the results of that record."""

    source: ConsumerRecord
    number: int


def joining_of(config: Config) -> Joining | None:
    """Return how a run joins rows, None if it does not.

    Folders of tables hold records of one table each.
    """
    backfill = config.backfill
    if backfill.output and backfill.output_layout is OutputLayout.TABLE:
        return None
    return translator_of(config).route.joining


def joined(
    produced: DataFrame,
    joining: Joining,
    limits: Mapping[str, int] | None,
    counters: Accumulator,
    *,
    by_time: bool,
) -> DataFrame:
    """Return the records that tasks have produced, with their rows joined.

    `limits` as in `Joiner`, `by_time` as in `in_target_order`: rows are not joined across DDL that is ordered
    between them.
    """
    placed, order = in_target_order(produced.repartition(*PARTITION_COLUMNS), by_time=by_time)
    ordered = placed.sortWithinPartitions(*PARTITION_COLUMNS, *order).select(*produced.columns)
    return ordered.mapInArrow(Join(joining, limits, counters), PRODUCED)


class Join:
    """Join the sorted records of a task, and count the written ones."""

    def __init__(self, joining: Joining, limits: Mapping[str, int] | None, counters: Accumulator) -> None:
        self.joining, self.limits, self.counters = joining, limits, counters

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records to write."""
        joiner, out, counts = Joiner[SourceTag](self.joining, self.limits), Produced(), BackfillCounts()
        for batch in batches:
            for record, tag in zip(records_to_write(batch), _source_tags(batch), strict=True):
                _add(out, joiner.add(record, tag))
                if out.is_full:
                    yield from _flushed(out, counts)
        _add(out, joiner.close())
        yield from _flushed(out, counts)
        hand_over(counts, self.counters)


def _add(out: Produced, complete: Iterable[tuple[ProducerRecord, SourceTag]]) -> None:
    for record, tag in complete:
        out.add([record], tag.source, tag.number)


def _flushed(out: Produced, counts: BackfillCounts) -> Iterator[pa.RecordBatch]:
    batch = out.take()
    if batch is not None:
        counts.count_written(batch)
        yield batch


def _source_tags(batch: pa.RecordBatch) -> Iterator[SourceTag]:
    topics, partitions, offsets, numbers = (batch.column(name).to_pylist() for name in SOURCE_ORDER)
    for topic, partition, offset, number in zip(topics, partitions, offsets, numbers, strict=True):
        yield SourceTag(ConsumerRecord(topic, partition, offset, 0, None, None), number)
