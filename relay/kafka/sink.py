"""Sinks over aiokafka 0.14: an idempotent producer, and a transactional one.

A failed batch poisons an idempotent producer's partition for good, and `flush`, `stop` and
`commit_transaction` hide failures or outlive them. So the loop awaits every acknowledgement, every wait has a
deadline, and after a failure the producer is thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalOperation,
    InvalidTimestampError,
    InvalidTransactionTimeout,
    KafkaError,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from relay.config import Config
from relay.errors import DeliveryFailed, InstanceFenced, ServiceError, TopicUnusable
from relay.kafka.aiokafka_compat import (
    REQUEST_SECONDS,
    STOP_SECONDS,
    pace_metadata,
    retrieve,
    started,
    text_of,
    within,
)
from relay.kafka.batch import KafkaBatch
from relay.kafka.clients import Settings, target_settings
from relay.kafka.fencing import Claim, Producer, is_taken_over
from relay.kafka.ports import Batch, Oversize, Partition, Undelivered
from relay.kafka.progress import progress_records
from relay.kafka.sizes import Limits
from relay.kafka.transactions import open_partitions, pending_offsets
from relay.records import ProducerRecord

ABANDON_SECONDS = 2.0
# aiokafka's sequence numbers turn negative after 2³¹ records to one partition, where Kafka goes on with 0.
WORN_AFTER_RECORDS = 2**30
_NOT_ALLOWED = (
    ClusterAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
# What the client raises in a transaction; the last two when its sender has died unnoticed.
_CLIENT_ERRORS = (KafkaError, IllegalOperation, AssertionError)


class KafkaSink:
    """An idempotent producer. It ends with its first failure: then `abandon` it and make a new one.

    `limits`: `max.message.bytes` of every topic that is written. `security`: TLS and SASL, if they were made
    before; a sink that replaces another must not depend on files that may be gone.
    """

    is_transactional = False
    aborted_leftovers = False

    def __init__(
        self,
        config: Config,
        limits: Mapping[str, int],
        security: Settings | None = None,
        **settings: Any,
    ) -> None:
        target = config.target
        self._servers = config.target_servers
        self._limits = Limits(limits)
        self._deadline = config.delivery.delivery_timeout_seconds
        self._written: dict[Partition, int] = {}
        self._pending: set[asyncio.Future[object]] = set()
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            client_id="relay",
            enable_idempotence=True,
            compression_type=None if target.compression == "none" else str(target.compression),
            # The broker's limit is for a whole batch; uncompressed is the safe side.
            max_batch_size=min(target.max_batch_bytes, self._limits.smallest),
            request_timeout_ms=int(min(REQUEST_SECONDS, self._deadline) * 1000),
            **(target_settings(config) if security is None else security),
            **settings,
        )

    async def start(self) -> None:
        """Connect and get a producer id. Raises Undelivered, TopicUnusable if rights are missing,
        DeliveryFailed.
        """
        pace_metadata(self._producer.client)
        try:
            await started(REQUEST_SECONDS, self._producer)
        except _NOT_ALLOWED as error:
            grant = "WRITE on the target topics and, for exactly-once, on the transactional id"
            raise TopicUnusable(
                f"not allowed to write at {self._servers}: {text_of(error)}; grant {grant}"
            ) from error
        except InvalidTransactionTimeout as error:
            advice = "raise transaction.max.timeout.ms of the brokers, or lower delivery_timeout_seconds in [delivery]"
            raise DeliveryFailed(
                f"the brokers at {self._servers} allow no transaction as long as relay's may be; {advice}"
            ) from error
        except (KafkaError, TimeoutError) as error:
            raise Undelivered(
                f"cannot connect to {self._servers}: {text_of(error)}", retriable=True
            ) from error

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """There is nothing to commit but the source's offsets, and that is the source's work."""

    def batch(self) -> Batch:
        """Make an empty batch."""
        return KafkaBatch(self._producer.create_batch())

    async def send(self, partition: Partition, batch: Batch) -> asyncio.Future[object]:
        """Queue a batch. A partition holds one queued batch, one may be on its way: that is the backpressure."""
        assert isinstance(batch, KafkaBatch)  # noqa: S101  (it is ours; this tells the type)
        self._written[partition] = self._written.get(partition, 0) + len(batch)
        try:
            async with asyncio.timeout(self._deadline):
                future: asyncio.Future[object] = await self._producer.send_batch(
                    batch.closed(), partition.topic, partition=partition.partition
                )
        except AssertionError as error:
            raise Undelivered(f"{partition} does not exist", retriable=False) from error
        except (KafkaError, IllegalOperation, TimeoutError) as error:
            raise self._failed(partition, error) from error
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        future.add_done_callback(retrieve)
        return future

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write records, in order within each partition, and wait for every acknowledgement. Raises
        Undelivered.
        """
        batches: dict[Partition, Batch] = {}
        pending = []
        for record in records:
            partition = Partition(record.topic, record.partition)
            batch = batches.get(partition)
            if batch is None or not batch.append(record):
                if batch is not None:
                    pending.append(await self.send(partition, batch))
                batches[partition] = self.batch()
                batches[partition].append(record)
        for partition, batch in batches.items():
            pending.append(await self.send(partition, batch))
        await self.delivered(pending)

    async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
        """Await every acknowledgement: `flush` would pass over failures."""
        if not pending:
            return
        _, waiting = await asyncio.wait(pending, timeout=self._deadline)
        # In the order of sending: after a first failure, later batches of the partition fail for that reason
        # alone.
        for future in pending:
            if future.cancelled():
                raise Undelivered("the producer was abandoned", retriable=True)
            error = future.exception() if future.done() else None
            if error is not None:
                raise self._failed(None, error, f"one of {', '.join(self._limits.by_topic)}: ") from error
        if waiting:
            raise Undelivered(
                f"{len(waiting)} batches were not acknowledged within {self._deadline:g} s", retriable=True
            )

    def _failed(
        self, partition: Partition | None, error: BaseException, where: str = ""
    ) -> Undelivered | ServiceError:
        return _undelivered(partition, error, where)

    def too_large(self, records: Sequence[ProducerRecord]) -> Oversize | None:
        """Find a record that does not fit in a batch of its own."""
        return self._limits.too_large(records)

    @property
    def worn(self) -> bool:
        """Whether a partition's sequence numbers come near their end."""
        return any(count >= WORN_AFTER_RECORDS for count in self._written.values())

    async def stop(self) -> None:
        """Disconnect. With the broker gone an idempotent producer's own stop never returns."""
        if not await within(STOP_SECONDS, self._producer.stop()):
            await self.abandon()

    async def abandon(self) -> None:
        """Disconnect without sending what is queued: a late write by this producer would come behind its
        successor's.

        The public interface has no such stop. So the sending task is ended first: it finishes the request on
        its way, if there is an answer, and takes no other. Cancelled once more, it leaves that request, too.
        """
        sender: asyncio.Task[None] | None = self._producer._sender.sender_task
        for _ in range(2):
            if sender is not None and not sender.done():
                sender.cancel()
                await asyncio.wait({sender}, timeout=ABANDON_SECONDS)
        for future in list(self._pending):
            future.cancel()
        # `stop` waits for every batch that is known, also for those that nobody will send.
        accumulator = self._producer._message_accumulator
        queued = [batch for queue in accumulator._batches.values() for batch in queue]
        accumulator._pending_batches.update(queued)
        accumulator.fail_all(ProducerClosed())
        for batch in queued:
            # That somebody may have waited behind it; asyncio would report a failure that nobody has seen.
            retrieve(batch._drain_waiter)
        await within(STOP_SECONDS, self._producer.client.close())
        await within(STOP_SECONDS, self._producer.stop())


class TransactionalSink(KafkaSink):
    """A transaction after the other, each with the offsets of what it was made of. One instance for each
    transactional id.

    Within one cluster the offsets are the group's, and Kafka commits them with the records. Between two
    clusters they are records of the progress topic, written in the same transaction.
    """

    is_transactional = True

    def __init__(
        self,
        config: Config,
        limits: Mapping[str, int],
        security: Settings | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._id, self._group = config.transactional_id, config.source.group_id
        self._sources, self._shard, self._shards = (
            config.source.topics,
            config.delivery.shard,
            config.delivery.shards,
        )
        self._progress_topic = None if config.is_one_cluster else config.delivery.progress_topic
        self._seconds = config.delivery.transaction_timeout_seconds
        self._claim = claim or Claim()
        timeout_ms = int(1000 * self._seconds)
        super().__init__(
            config, limits, security, transactional_id=self._id, transaction_timeout_ms=timeout_ms
        )

    async def start(self) -> None:
        """Connect, and end what an earlier instance has left open: first the brokers, by themselves, then
        whatever they forgot.

        Raises InstanceFenced, too, if a newer instance has taken over from the sink that this one replaces.
        """
        sender = self._producer._sender
        # The client has no place where one could look in between.
        sender._do_init_pid = partial(self._look_and_ask_for_producer, sender._do_init_pid)
        await super().start()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._abort_leftovers()
        except (GroupAuthorizationFailedError, TopicAuthorizationFailedError) as error:
            grant = f"READ on the source topics and on group {self._group!r}, to whoever writes"
            raise TopicUnusable(f"not allowed to commit offsets: {text_of(error)}; grant {grant}") from error
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"looking for what {self._id} has left open: ") from error

    async def _look_and_ask_for_producer(
        self, ask: Callable[[int], Awaitable[bool]], coordinator: int
    ) -> bool:
        """Ask for a producer id, which fences whoever has one: so not if that is a newer instance. False if
        it is not given yet.
        """
        claim = self._claim
        if claim.producer is not None and await is_taken_over(
            self._producer.client, coordinator, self._id, claim
        ):
            raise _fenced(f"{self._id}: ")
        # From here on we may have been given one without knowing it.
        claim.renew(None)
        is_given = await ask(coordinator)
        if is_given:
            manager = self._producer._txn_manager
            claim.renew(Producer(manager.producer_id, manager.producer_epoch))
        return is_given

    async def _abort_leftovers(self) -> None:
        """Abort in one transaction of our own what is left of an earlier one; see `relay.kafka.transactions`.

        Its offsets must be pending, or they count already, and its records with them. Markers concern our
        producer id alone: what others have open in the same partitions stays as it is.
        """
        if self._progress_topic is not None:
            return
        client = self._producer.client
        pending = await pending_offsets(
            client, self._group, self._sources, lambda number: number % self._shards == self._shard
        )
        if not pending:
            return
        await self._begin()
        for pair in await open_partitions(client, self._limits.by_topic):
            # The public interface adds a partition only with a record for it.
            self._producer._txn_manager.maybe_add_partition_to_txn(pair)
        # Any offset brings the group into the transaction; none is kept.
        await self._producer.send_offsets_to_transaction({pending[0]: 0}, self._group)
        await self._producer.abort_transaction()
        self._claim.end()
        self.aborted_leftovers = True

    async def send(self, partition: Partition, batch: Batch) -> asyncio.Future[object]:
        """Queue a batch in the transaction; the first one begins it."""
        await self._begin()
        return await super().send(partition, batch)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """End the transaction. All batches must be acknowledged: Kafka's client commits without those that
        failed.
        """
        await self._begin()
        try:
            async with asyncio.timeout(self._deadline):
                await self._add_offsets(offsets)
                await self._producer.commit_transaction()
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"transaction of {self._id}: ") from error
        self._claim.end()

    async def stop(self) -> None:
        """Disconnect. A transaction that nobody will commit is aborted: until then it hides later records
        from readers.
        """
        if self._claim.is_open:
            self._look_at_outcome()
            await within(STOP_SECONDS, self._producer.abort_transaction())
        await super().stop()
        self._look_at_outcome()

    async def abandon(self) -> None:
        """Disconnect at once; the next sink of this id aborts what is open."""
        await super().abandon()
        self._look_at_outcome()

    def _look_at_outcome(self) -> None:
        """A transaction may fail while nobody waits for its end; asyncio would report that as forgotten, with
        a traceback.
        """
        outcome = self._outcome
        if outcome is not None and outcome.done():
            retrieve(outcome)

    @property
    def _outcome(self) -> asyncio.Future[object] | None:
        """How the transaction at hand ends, as the client keeps it for itself."""
        outcome: asyncio.Future[object] | None = self._producer._txn_manager._transaction_waiter
        return outcome

    async def _begin(self) -> None:
        if self._claim.is_open:
            return
        try:
            async with asyncio.timeout(self._deadline):
                await self._producer.begin_transaction()
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"transaction of {self._id}: ") from error
        self._claim.begin(self._seconds)

    def _failed(
        self, partition: Partition | None, error: BaseException, where: str = ""
    ) -> Undelivered | ServiceError:
        # What ended the transaction is told once; after that the client says that there is none.
        outcome = self._outcome
        if (
            isinstance(error, IllegalOperation)
            and outcome is not None
            and outcome.done()
            and not outcome.cancelled()
        ):
            error = outcome.exception() or error
        failure = super()._failed(partition, error, where)
        if isinstance(failure, InstanceFenced) and self._claim.may_have_expired:
            # The broker gives a transaction up in the same way as one that another instance has taken over.
            return Undelivered(
                f"the transaction of {self._id} lasted longer than {self._seconds:g} s and was aborted",
                retriable=False,
            )
        return failure

    async def _add_offsets(self, offsets: Mapping[Partition, int]) -> None:
        if self._progress_topic is None:
            pairs = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
            await self._producer.send_offsets_to_transaction(pairs, self._group)
            return
        await self.write(progress_records(self._progress_topic, self._group, offsets))


def _undelivered(
    partition: Partition | None, error: BaseException, where: str = ""
) -> Undelivered | ServiceError:
    """Say what a failure means: usually that the producer must be replaced, never that somebody else took
    over.
    """
    where = f"{partition}: " if partition else where
    # The client wraps a lost connection twice in errors that are not retriable.
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    if any(isinstance(each, ProducerFenced) for each in chain):
        return _fenced(where)
    if any(isinstance(each, InvalidTimestampError) for each in chain):
        cure = "raise the topic's message.timestamp.after.max.ms and message.timestamp.before.max.ms"
        return TopicUnusable(f"{where}the topic refuses a record's timestamp, which relay keeps; {cure}")
    retriable = any(isinstance(each, TimeoutError) or getattr(each, "retriable", False) for each in chain)
    return Undelivered(where + text_of(error), retriable=retriable)


def _fenced(where: str) -> InstanceFenced:
    return InstanceFenced(f"{where}another instance with the same shard has started; this one ends")
