"""Writing target topics in the workers of Spark with the sink of the service, so that timestamps and batches
are the same.

Spark's own sink for Kafka sets no timestamps. Here every task has a client and an event loop, and ends when
the brokers have acknowledged every batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from relay.config import Config
from relay.config.kafka import producer_settings
from relay.errors import DeliveryFailed, RelayError
from relay.kafka.ports import Undelivered, start_sink
from relay.kafka.sink import KafkaSink
from relay.records import ProducerRecord
from spark_backfill.frames import records_to_write
from spark_backfill.task_errors import Stopped

#: The columns of the result, which has no rows.
WRITTEN: Final = "nothing int"
#: Records between two waits for acknowledgements; after each, the producer may be replaced.
_RECORDS: Final = 1 << 20


class Write:
    """Write the rows of a task to their topics, in order. `limits`: `max.message.bytes` of every topic."""

    def __init__(self, config: Config, limits: Mapping[str, int]) -> None:
        self.config, self.limits = config, limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write everything and give nothing. Many tasks have no rows, and need no client."""
        records = chain.from_iterable(map(records_to_write, batches))
        first = next(records, None)
        if first is not None:
            try:
                asyncio.run(self._write(chain((first,), records)))
            except RelayError as error:
                raise Stopped(error, self.config.target_servers) from error
        return iter(())

    async def _write(self, records: Iterator[ProducerRecord]) -> None:
        for first in records:  # one producer for as many records as it may write
            await self._write_some(chain((first,), records))

    async def _write_some(self, records: Iterator[ProducerRecord]) -> None:
        sink = KafkaSink(producer_settings(self.config), self.limits)
        try:
            await start_sink(sink)
            for first in records:
                await sink.write(chain((first,), islice(records, _RECORDS - 1)))
                if sink.needs_rotation:
                    break
        except Undelivered as error:
            await sink.abandon()
            again = "the next run does this step again"
            if self.config.backfill.input:
                again = "a new run writes everything again"
            raise DeliveryFailed(f"writing failed: {error}; {again}") from error
        except BaseException:
            await sink.abandon()
            raise
        await sink.stop()
