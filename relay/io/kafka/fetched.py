"""Convert fetched records directly into relay's own type: aiokafka 0.14 would make each of them twice.

Batches are taken as a whole: record by record, the work besides the client's own parsing takes twice as long.
Of a fetch that holds many, a poll hands out some, so that they are still in the processor's cache when they
are translated; the others stay compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, Final, cast

from aiokafka import ConsumerRecord as KafkaRecord
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException

from relay.model.records import ConsumerRecord

#: aiokafka releases whose fetched records have the form that `read_by_batch` relies on.
KNOWN_RELEASES = ("0.14.0",)
#: Some megabytes of all partitions together, and still as large as written batches may be.
ENOUGH_RECORDS: Final = 4_000

_get_all = fetcher.FetchResult.getall


def relay_records(records: Sequence[KafkaRecord] | Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """Return records of the client in relay's own type, which `read_by_batch` makes the client produce."""
    if records and isinstance(records[0], ConsumerRecord):
        return cast("Sequence[ConsumerRecord]", records)
    kept = cast("Sequence[KafkaRecord]", records)
    return _relay_records(kept[0].topic, kept[0].partition, kept) if kept else []


def read_by_batch(enough_records: int = ENOUGH_RECORDS) -> bool:
    """Make all consumers of this process produce relay's own records, batch by batch.

    From `enough_records` of a partition on, the next batch waits for the next poll. Returns False if the
    release of aiokafka is unknown: then nothing changes.
    """
    if version("aiokafka") not in KNOWN_RELEASES:
        return False

    def getall(fetched: Any, max_records: int | None = None) -> Sequence[Any]:
        return _some_batches(fetched, max_records, enough_records)

    fetcher.FetchResult.getall = getall
    return True


def _some_batches(fetched: Any, max_records: int | None, enough_records: int) -> Sequence[Any]:
    """Return records of a partition, in place of aiokafka's `FetchResult.getall`.

    aiokafka's own method remains in use where records are counted, or taken one by one.
    """
    found: Any = fetched._partition_records
    if max_records is not None or not found or getgeneratorstate(found._records_iterator) != GEN_CREATED:
        return cast("Sequence[Any]", _get_all(fetched, max_records))
    if not fetched.check_assignment(fetched._topic_partition):
        return []
    records: list[ConsumerRecord] = []
    while found._records.has_next() and len(records) < enough_records:
        batch = found._records.next_batch()
        if _has_records(found, batch):
            # A fetch begins with the batch that holds the position.
            records += _relay_records(found._tp.topic, found._tp.partition, batch, found.next_fetch_offset)
        found.next_fetch_offset = batch.next_offset
    fetched._update_position()
    if not found._records.has_next():
        fetched._partition_records = None
        # It is in a reference cycle: the fetch would stay until the garbage collector runs, which is rare.
        found._records_iterator.close()
    return records


def _has_records(found: Any, batch: Any) -> bool:
    """Return whether the records of a batch count: those of an aborted transaction, and its markers, do not.

    Follows aiokafka's `PartitionRecords._unpack_records`. Raises CorruptRecordException.
    """
    if found._check_crcs and not batch.validate_crc():
        raise CorruptRecordException(f"Invalid CRC - {found._tp}")
    aborted = found._aborted_producers
    if found._isolation_level == fetcher.READ_COMMITTED and batch.producer_id is not None:
        found._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and found._contains_abort_marker(batch):
            aborted.discard(batch.producer_id)
        if batch.is_transactional and batch.producer_id in aborted:
            return False
    return not batch.is_control_batch


def _relay_records(
    topic: str, partition: int, records: Iterable[Any], begin: int = 0
) -> list[ConsumerRecord]:
    """Make relay's own records of a partition's, from an offset on."""
    made: list[ConsumerRecord] = []
    for record in records:
        offset, headers, time_ms = record.offset, record.headers, record.timestamp
        if offset >= begin:
            made.append(
                ConsumerRecord(
                    topic,
                    partition,
                    offset,
                    # Records of message format 0 have none.
                    -1 if time_ms is None else time_ms,
                    record.key,
                    record.value,
                    tuple(headers) if headers else (),
                )
            )
    return made
