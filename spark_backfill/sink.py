"""What writes target topics, in Spark's workers: the relay's own sink, so that timestamps and batches are the
relay's as well.

Spark's sink for Kafka sets no timestamps. Here a task has a client and an event loop of its own, and it ends
when the brokers have acknowledged every batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from relay.config import Config
from relay.errors import DeliveryFailed, RelayError
from relay.kafka.ports import Undelivered, start_sink
from relay.kafka.sink import KafkaSink
from relay.records import ProducerRecord
from spark_backfill.frames import records_to_write
from spark_backfill.translation import Stopped

#: The columns of what comes out: nothing.
WRITTEN: Final = "nothing int"
#: Records between two waits for acknowledgements, and looks at whether the producer is worn.
_RECORDS: Final = 1 << 20


class Write:
    """Writes the rows of a task to their topics, in their order. `limits`: `max.message.bytes` of every
    topic.
    """

    def __init__(self, config: Config, limits: Mapping[str, int]) -> None:
        self.config, self.limits = config, limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all of it; gives nothing. Many tasks have no rows, and need no client."""
        records = chain.from_iterable(map(records_to_write, batches))
        first = next(records, None)
        if first is not None:
            try:
                asyncio.run(self._write(chain((first,), records)))
            except RelayError as error:
                raise Stopped(error, self.config.target_servers) from error
        return iter(())

    async def _write(self, records: Iterator[ProducerRecord]) -> None:
        for first in records:  # a producer for as many as one may write
            await self._write_some(chain((first,), records))

    async def _write_some(self, records: Iterator[ProducerRecord]) -> None:
        sink = KafkaSink(self.config, self.limits)
        try:
            await start_sink(sink)
            for first in records:
                await sink.write(chain((first,), islice(records, _RECORDS - 1)))
                if sink.worn:
                    break
        except Undelivered as error:
            await sink.abandon()
            again = (
                "a new run writes everything again"
                if self.config.backfill.input
                else "the next run does this step again"
            )
            raise DeliveryFailed(f"writing failed: {error}; {again}") from error
        except BaseException:
            await sink.abandon()
            raise
        await sink.stop()
