"""Write target topics in the workers of Spark with the sink of the service.

So timestamps and batches are the same. Spark's own sink for Kafka sets no timestamps. Here every task has a
client and an event loop, and ends when the brokers have acknowledged every batch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from relay.config import Config
from relay.config.kafka import producer_settings, target_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered, start_sink
from relay.io.kafka.settings import ProducerSettings
from relay.io.kafka.sink import KafkaSink
from relay.io.logs import Log
from relay.model.errors import BrokerUnavailable, DeliveryFailed, RelayError
from relay.model.records import ProducerRecord, source_mark
from relay.topics.startup import Topics
from relay.topics.table_topics import TableTopics
from spark_backfill.frames import records_to_write
from spark_backfill.task_errors import Stopped

#: The columns of the result, which has no rows.
WRITTEN: Final = "nothing int"
FLUSH_RECORDS: Final = 1 << 20
#: Records between two waits where topics depend on tables: these are held in memory.
_RECORDS_BY_TABLE: Final = 1 << 16


class Write:
    """Write the rows of a task to their topics, in order.

    `topics`: the known topics before it. `settings`: of the producers, those of `config` by default.
    `flush_records`: records between two waits for acknowledgements; after each, the producer may be replaced.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        settings: ProducerSettings | None = None,
        *,
        flush_records: int = FLUSH_RECORDS,
    ) -> None:
        self.config, self.topics, self._flush_records = config, topics, flush_records
        self._settings = settings or producer_settings(config)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write everything and yield no rows. Many tasks have no rows, and need no client."""
        records = chain.from_iterable(map(records_to_write, batches))
        first = next(records, None)
        if first is not None:
            try:
                asyncio.run(self._write(chain((first,), records)))
            except RelayError as error:
                raise Stopped(error, self.config.target_servers) from error
        return iter(())

    async def _write(self, records: Iterator[ProducerRecord]) -> None:
        if self.config.has_table_topics:
            await self._write_by_table(records)
            return
        for first in records:  # one producer for as many records as it may write
            await self._write_some(chain((first,), records), self.topics.limits)

    async def _write_by_table(self, records: Iterator[ProducerRecord]) -> None:
        """Write to topics that are checked, and created, before their first records."""
        target = Brokers.from_settings(target_cluster(self.config))
        topics = TableTopics(self.config, self.topics, target, Log(), self.config.partitions_of)
        while some := list(islice(records, _RECORDS_BY_TABLE)):
            needed = {out.topic: _source_topic(out) for out in some}
            try:
                with contextlib.suppress(Undelivered):  # raised to replace a sink; here it is made only now
                    await topics.ensure(needed)
                await topics.ensure(needed)
            except Undelivered as error:
                raise BrokerUnavailable(str(error)) from error
            await self._write_some(iter(some), topics.written.limits)

    async def _write_some(self, records: Iterator[ProducerRecord], limits: Mapping[str, int]) -> None:
        sink = KafkaSink(self._settings, limits)
        try:
            await start_sink(sink)
            for first in records:
                await sink.write(chain((first,), islice(records, self._flush_records - 1)))
                if sink.needs_rotation:
                    break
        except Undelivered as error:
            await sink.abandon()
            again = "the next run repeats this step"
            if self.config.backfill.input:
                again = "a new run writes everything again"
            raise DeliveryFailed(f"writing failed: {error}; {again}") from error
        except BaseException:
            await sink.abandon()
            raise
        await sink.stop()


def _source_topic(out: ProducerRecord) -> str:
    """Return the source topic of a record; a dead letter's headers name it, too."""
    mark = source_mark(out.headers)
    return "" if mark is None else mark.decode(errors="replace").rsplit("/", 3)[0]
