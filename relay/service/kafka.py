"""Source and sink over aiokafka 0.14.

What is unusual here has a reason in aiokafka: a failed batch poisons an idempotent producer's partition for good, `flush` and
`stop` hide or outlive failures, a poll that raises may have moved positions past records that nobody got, and group rebalances
run in a background task. So every acknowledgement is awaited by the loop, every wait has a deadline, offsets are always explicit,
and new partitions stay paused until the loop has opened them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import ConsumerRecord as KafkaRecord
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from aiokafka.producer.message_accumulator import BatchBuilder

from relay.config import Config, Start
from relay.errors import BrokerUnavailable, DeliveryFailed, RecordsGone, TopicUnusable
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.transport import Batch, Oversize, Owner, OwnershipLost, Partition, PollFailed, Position, Undelivered

POLL_MS = 200
REQUEST_SECONDS = 30.0
COMMIT_SECONDS = 15.0
STOP_SECONDS = 5.0
ABANDON_SECONDS = 2.0
BATCH_HEADER_BYTES = 61
# More than a record with no key and our own header adds to its value: a topic name has at most 249 bytes.
OVERHEAD_BYTES = 1024
# aiokafka's sequence numbers turn negative after 2³¹ records to one partition, where Kafka goes on with 0.
WORN_AFTER_RECORDS = 2**30


class KafkaSource:
    """A member of a consumer group."""

    def __init__(self, config: Config) -> None:
        self._config = config.source
        source = config.source
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=source.bootstrap_servers,
            client_id="relay",
            group_id=source.group_id,
            enable_auto_commit=False,
            # "none": a position that retention has overtaken must be seen, not silently moved past what was deleted.
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_bytes=source.fetch_max_bytes,
            max_partition_fetch_bytes=source.max_partition_fetch_bytes,
            fetch_max_wait_ms=source.fetch_max_wait_ms,
            session_timeout_ms=source.session_timeout_ms,
            heartbeat_interval_ms=max(100, source.session_timeout_ms // 10),
            rebalance_timeout_ms=source.rebalance_timeout_ms,
            # Each further strategy would cost a join request in every rebalance.
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
        )

    async def start(self, owner: Owner) -> None:
        """Connect and join the group."""
        try:
            # The topics go through subscribe, not the constructor: else there is no listener.
            self._consumer.subscribe(list(self._config.topics), listener=_Listener(self._consumer, owner))
            # The client waits for the group's assignment, and other members may take as long as that to hand over their work.
            async with asyncio.timeout(REQUEST_SECONDS + self._config.rebalance_timeout_ms / 1000):
                await self._consumer.start()
        except (KafkaError, TimeoutError) as error:
            raise _unreachable(self._config.bootstrap_servers, error) from error

    async def open(self, partitions: Sequence[Partition]) -> dict[Partition, Position]:
        """Set the positions to the committed offsets, or to where `start` says, and let the records through."""
        pairs = {partition: TopicPartition(*partition) for partition in partitions}
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                first = await self._consumer.beginning_offsets(list(pairs.values()))
                end = await self._consumer.end_offsets(list(pairs.values()))
                committed = {pair: await self._consumer.committed(pair) for pair in pairs.values()}
            start = first if self._config.start is Start.EARLIEST else end
            found = {}
            for partition, pair in pairs.items():
                if committed[pair] is None:
                    found[partition] = Position(start[pair], committed=False)
                else:
                    found[partition] = Position(committed[pair], committed=True)
                    _check_kept(partition, self._config.group_id, committed[pair], first[pair], end[pair])
                self._consumer.seek(pair, found[partition].offset)
            self._consumer.resume(*pairs.values())
        except IllegalStateError as error:
            raise OwnershipLost(str(error)) from error
        except (KafkaError, TimeoutError) as error:
            raise self._poll_error(error) from error
        return found

    async def poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Give everything that has been fetched: without a limit of records, the next fetch runs while these are translated."""
        try:
            fetched = await self._consumer.getmany(timeout_ms=POLL_MS)
        except Exception as error:
            # Not only KafkaError: a record whose header name is not UTF-8 raises UnicodeDecodeError out of the parser.
            raise self._poll_error(error) from error
        return {Partition(*pair): _records(records) for pair, records in fetched.items()}

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Set positions."""
        for partition, offset in offsets.items():
            # A partition taken away in the meantime is somebody else's.
            with contextlib.suppress(IllegalStateError):
                self._consumer.seek(TopicPartition(*partition), offset)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit explicit offsets: the bare form commits what a background rebalance has made of the assignment."""
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                await self._consumer.commit({TopicPartition(*partition): offset for partition, offset in offsets.items()})
        except (CommitFailedError, IllegalStateError) as error:
            raise OwnershipLost(str(error)) from error
        except KafkaError as error:
            raise DeliveryFailed(f"offsets of group {self._config.group_id!r} cannot be committed: {_text(error)}") from error

    async def stop(self) -> None:
        """Leave the group."""
        await _within(STOP_SECONDS, self._consumer.stop())

    def _poll_error(self, error: Exception) -> Exception:
        """Translate what a poll raised: into an error that stops the relay, or into one after which it rewinds."""
        if isinstance(error, OffsetOutOfRangeError):
            where = ", ".join(f"{pair.topic}/{pair.partition} at {offset}" for pair, offset in error.args[0].items())
            return RecordsGone(f"the records to read next are no longer there: {where}; {_reset_hint(self._config.group_id)}")
        if isinstance(error, TopicAuthorizationFailedError | GroupAuthorizationFailedError):
            group = self._config.group_id
            return TopicUnusable(f"not allowed to read: {_text(error)}; grant READ on the topics and on group {group!r}")
        return PollFailed(_text(error))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    def __init__(self, consumer: AIOKafkaConsumer, owner: Owner) -> None:
        self._consumer, self._owner = consumer, owner

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Let the loop finish. The member is still in the group here, so the commit is still valid."""
        if revoked:
            await self._owner.revoked()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Close the new partitions until the loop has set their positions: a poll under way must not return them."""
        self._consumer.pause(*assigned)
        self._owner.assigned(sorted(Partition(*pair) for pair in assigned))


class KafkaBatch:
    """Records of one output partition, encoded as they come."""

    def __init__(self, builder: BatchBuilder) -> None:
        self._builder = builder
        # The encoder behind the builder: its own `append` adds three calls of Python to every record, for serializers we have not.
        self._encode = builder._builder.append  # noqa: SLF001
        self._count = 0

    def append(self, record: ProducerRecord) -> bool:
        """Encode one record; False if the batch is full."""
        headers = list(record.headers)
        if self._encode(self._count, record.timestamp_ms, key=record.key, value=record.value, headers=headers) is None:
            return False
        self._count += 1
        return True

    def closed(self) -> BatchBuilder:
        """The builder, which takes no more records."""
        self._builder._relative_offset = self._count  # noqa: SLF001
        self._builder.close()
        return self._builder


class KafkaSink:
    """An idempotent producer. It ends with its first failure: then `abandon` it and make a new one."""

    def __init__(self, config: Config, limits: Mapping[str, int]) -> None:
        target = config.target
        self._servers = config.target_servers
        self._limits = limits
        self._smallest_limit = min(limits.values())
        self._surely_fits = self._smallest_limit - OVERHEAD_BYTES
        self._deadline = config.delivery.delivery_timeout_seconds
        self._written: dict[Partition, int] = {}
        self._pending: set[asyncio.Future[object]] = set()
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            client_id="relay",
            enable_idempotence=True,
            compression_type=None if target.compression == "none" else str(target.compression),
            # The broker's limit is for a whole batch; uncompressed is the safe side.
            max_batch_size=min(target.max_batch_bytes, self._smallest_limit),
            request_timeout_ms=int(min(REQUEST_SECONDS, self._deadline) * 1000),
        )

    async def start(self) -> None:
        """Connect and get a producer id."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._producer.start()
        except (KafkaError, TimeoutError) as error:
            raise Undelivered(f"cannot connect to {self._servers}: {_text(error)}", retriable=True) from error

    def batch(self) -> Batch:
        """Make an empty batch."""
        return KafkaBatch(self._producer.create_batch())

    async def send(self, partition: Partition, batch: Batch) -> asyncio.Future[object]:
        """Queue a batch. A partition holds one queued batch, one may be on its way: that is the backpressure."""
        assert isinstance(batch, KafkaBatch)  # noqa: S101  (it is ours; this tells the type)
        builder = batch.closed()
        self._written[partition] = self._written.get(partition, 0) + builder.record_count()
        try:
            async with asyncio.timeout(self._deadline):
                future: asyncio.Future[object] = await self._producer.send_batch(
                    builder, partition.topic, partition=partition.partition
                )
        except AssertionError as error:
            raise Undelivered(f"{partition} does not exist", retriable=False) from error
        except (KafkaError, TimeoutError) as error:
            raise _undelivered(partition, error) from error
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        future.add_done_callback(_retrieve)
        return future

    async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
        """Await every acknowledgement: `flush` would pass over failures."""
        if not pending:
            return
        _, waiting = await asyncio.wait(pending, timeout=self._deadline)
        # In the order of sending: after a first failure, later batches of the partition fail for that reason alone.
        for future in pending:
            if future.cancelled():
                raise Undelivered("the producer was abandoned", retriable=True)
            error = future.exception() if future.done() else None
            if error is not None:
                raise _undelivered(None, error) from error
        if waiting:
            raise Undelivered(f"{len(waiting)} batches were not acknowledged within {self._deadline:g} s", retriable=True)

    def too_large(self, records: Sequence[ProducerRecord]) -> Oversize | None:
        """Find a record that does not fit in a batch of its own."""
        for record in records:
            # Almost every record: no key, our own header alone, and far below the limit.
            if record.key is None and len(record.headers) == 1 and len(record.value or b"") < self._surely_fits:
                continue
            if _roughly(record) > self._smallest_limit:
                size = _batch_bytes(record)
                limit = self._limits[record.topic]
                if size > limit:
                    return Oversize(record.topic, size, limit)
        return None

    @property
    def worn(self) -> bool:
        """Whether a partition's sequence numbers come near their end."""
        return any(count >= WORN_AFTER_RECORDS for count in self._written.values())

    async def stop(self) -> None:
        """Disconnect. With the broker gone an idempotent producer's own stop never returns."""
        if not await _within(STOP_SECONDS, self._producer.stop()):
            await self.abandon()

    async def abandon(self) -> None:
        """Disconnect without sending what is queued: a late write by this producer would come behind its successor's.

        The public interface has no such stop. So the sending task is ended first: it finishes the request on its way, if there is
        an answer, and takes no other. Cancelled once more, it leaves that request, too.
        """
        sender: asyncio.Task[None] | None = self._producer._sender.sender_task  # noqa: SLF001
        for _ in range(2):
            if sender is not None and not sender.done():
                sender.cancel()
                await asyncio.wait({sender}, timeout=ABANDON_SECONDS)
        for future in list(self._pending):
            future.cancel()
        await _within(STOP_SECONDS, self._producer.client.close())
        await _within(STOP_SECONDS, self._producer.stop())


def _records(records: Sequence[KafkaRecord] | Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """The client's records in relay's own type; in a tuned process (`relay.service.tuning`) they come in it."""
    if records and isinstance(records[0], ConsumerRecord):
        return cast("Sequence[ConsumerRecord]", records)
    return [
        ConsumerRecord(each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in cast("Sequence[KafkaRecord]", records)
    ]


def _roughly(record: ProducerRecord) -> int:
    """Give an upper bound of the size, cheaply."""
    headers = sum(20 + 4 * len(name) + len(value or b"") for name, value in record.headers)
    return 200 + len(record.key or b"") + len(record.value or b"") + headers


def _batch_bytes(record: ProducerRecord) -> int:
    """Give the exact size of an uncompressed batch that holds this record alone."""
    body = 3 + _field(record.key) + _field(record.value) + _varint(len(record.headers))
    body += sum(_field(name.encode()) + _field(value) for name, value in record.headers)
    return BATCH_HEADER_BYTES + _varint(body) + body


def _field(value: bytes | None) -> int:
    return 1 if value is None else _varint(len(value)) + len(value)


def _varint(number: int) -> int:
    """Give the size of a zig-zag varint."""
    return max(1, ((number << 1).bit_length() + 6) // 7)


def _check_kept(partition: Partition, group: str, committed: int, first: int, end: int) -> None:
    """Raise RecordsGone if the committed offset lies outside what the partition holds."""
    if committed < first:
        what = f"records {committed}…{first - 1} of {partition} were deleted by retention before relay had read them"
    elif committed > end:
        what = f"{partition} ends at {end}, before the committed offset {committed}: it has been created anew"
    else:
        return
    raise RecordsGone(f"{what}; {_reset_hint(group)}")


def _reset_hint(group: str) -> str:
    return f"reset the offsets of group {group!r} to accept that (kafka-consumer-groups.sh --reset-offsets), or use a new group"


def _retrieve(future: asyncio.Future[object]) -> None:
    """Look at a batch's failure even if nobody awaits it any more; asyncio would report it as forgotten."""
    if not future.cancelled():
        future.exception()


def _undelivered(partition: Partition | None, error: BaseException) -> Undelivered:
    where = f"{partition}: " if partition else ""
    retriable = isinstance(error, TimeoutError) or bool(getattr(error, "retriable", False))
    return Undelivered(where + _text(error), retriable=retriable)


def _unreachable(servers: str, error: BaseException) -> BrokerUnavailable:
    return BrokerUnavailable(f"no broker answers at {servers}: {_text(error)}; check the addresses and that the brokers are up")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Run something that should end; False if it failed or did not end in time.

    It gets a task of its own: aiokafka's `stop` may end in a CancelledError that is nobody's cancellation.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    return task.done() and not task.cancelled() and task.exception() is None
