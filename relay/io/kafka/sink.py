"""Sinks over aiokafka 0.14: an idempotent producer, and a transactional one.

After a failed batch an idempotent producer can never write to that partition again, and `flush`, `stop` and
`commit_transaction` hide failures or do not return. So the loop awaits every acknowledgement, every wait has
a deadline, and after a failure the producer is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

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

from relay.io import kernel
from relay.io.kafka.aiokafka_compat import compressor, set_compression_level, started, within
from relay.io.kafka.batches import ClientBatch, KafkaBatch, KernelBatch, KeyedClientBatch
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.fencing import ProducerIdAndEpoch, ProducerIdentity, is_fenced
from relay.io.kafka.hanging_transactions import has_open_transaction, open_partitions, pending_offsets
from relay.io.kafka.ports import Batch, Partition, Undelivered
from relay.io.kafka.progress import progress_records
from relay.io.kafka.reconnecting import retrieve
from relay.io.kafka.settings import Compression, ProducerSettings, TransactionalSettings
from relay.io.kafka.sizes import NoMatch, TopicLimits
from relay.model.errors import DeliveryFailed, InstanceFenced, ServiceError, TopicUnusable
from relay.model.records import ProducerRecord

ABANDON_SECONDS = 2.0
_NOT_ALLOWED = (
    ClusterAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
# Exceptions of the client in a transaction; the last two if its sender has died unnoticed.
_CLIENT_ERRORS = (KafkaError, IllegalOperation, AssertionError)


class KafkaSink:
    """An idempotent producer. It ends with its first failure: then `abandon` it and make a new one.

    `limits`: `max.message.bytes` of every topic that is written. `compacted`: those of them in which every
    record needs a key. `brokers`: those of the settings, if their files were read before; a sink that
    replaces another must not depend on files that may be gone.
    """

    is_transactional = False
    has_aborted_hanging_transaction = False

    def __init__(
        self,
        settings: ProducerSettings,
        limits: Mapping[str, int],
        brokers: Brokers | None = None,
        compacted: Container[str] = (),
        **arguments: Any,
    ) -> None:
        brokers = brokers or Brokers.from_settings(settings.cluster)
        self._rotate_after_records, self._timeouts = settings.rotate_after_records, brokers.timeouts
        compression = settings.compression
        self._brokers, self._servers = brokers, brokers.servers
        self._limits = TopicLimits(limits, compacted)
        self._most_batch_bytes = min(settings.max_batch_bytes, self._limits.smallest)
        self._deadline = settings.delivery_timeout_seconds
        self._written: dict[Partition, int] = {}
        self._pending: set[asyncio.Future[object]] = set()
        #: aiokafka's client. Its own calls may hang, and raise the client's errors instead of relay's.
        self.producer: Any = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            client_id="relay",
            enable_idempotence=True,
            compression_type=None if compression is Compression.NONE else compression.value,
            # The broker limits whole batches as they are sent; limiting them uncompressed is the safe side.
            max_batch_size=self._most_batch_bytes,
            request_timeout_ms=int(min(self._timeouts.request_seconds, self._deadline) * 1000),
            **brokers.arguments,
            **arguments,
        )
        level = settings.compression_level or compression.default_level
        set_compression_level(compression, level)
        self._compressor, self._batch_types = compressor(compression, level), kernel.batch_types()
        self.health = ClientHealth()

    async def start(self) -> None:
        """Connect and get a producer id. Raises Undelivered, DeliveryFailed, TopicUnusable without rights."""
        try:
            await started(self._timeouts.start_seconds, self.producer, self._brokers, self.health)
        except _NOT_ALLOWED as error:
            grant = "WRITE on the target topics and, for exactly-once, on the transactional id"
            raise TopicUnusable(
                f"not allowed to write at {self._servers}: {text_of(error)}; grant {grant}"
            ) from error
        except InvalidTransactionTimeout as error:
            raise DeliveryFailed(
                f"the brokers at {self._servers} do not allow transactions as long as relay may need; "
                f"raise transaction.max.timeout.ms of the brokers, "
                f"or lower delivery_timeout_seconds in [delivery]"
            ) from error
        except (KafkaError, TimeoutError) as error:
            raise Undelivered(
                f"cannot connect to {self._servers}: {text_of(error)}", retriable=True
            ) from error

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Do nothing: the only offsets are those of the source, which the source commits."""

    def batch(self, topic: str) -> Batch:
        """Make an empty batch for a partition of a topic."""
        needs_key = topic in self._limits.compacted
        if self._batch_types is not None:
            target = self._batch_types.target(self._most_batch_bytes, needs_key)
            return KernelBatch(target, self._compressor, is_transactional=self.is_transactional)
        kind = KeyedClientBatch if needs_key else ClientBatch
        return kind(self.producer.create_batch())

    async def send(self, partition: Partition, batch: Batch) -> asyncio.Future[object]:
        """Queue a batch. Backpressure: each partition may have one queued batch, and one in flight."""
        its = cast("KafkaBatch", batch)
        self._written[partition] = self._written.get(partition, 0) + len(batch)
        # The client knows all topics at first. Once it follows any, it forgets those that it does not follow,
        # and waits with their batches until the deadline.
        self.producer.client._topics.add(partition.topic)
        number = self.health.sending()
        try:
            async with asyncio.timeout(self._deadline):
                future: asyncio.Future[object] = await self.producer.send_batch(
                    its.closed(), partition.topic, partition=partition.partition
                )
        except BaseException as error:
            self.health.sent(number, acknowledged=False)
            if isinstance(error, AssertionError):
                raise Undelivered(f"{partition} does not exist", retriable=False) from error
            if isinstance(error, KafkaError | IllegalOperation | TimeoutError):
                raise self._failed(partition, error) from error
            raise
        self._pending.add(future)
        future.add_done_callback(partial(self._note_sent, number))
        future.add_done_callback(self._pending.discard)
        future.add_done_callback(retrieve)
        return future

    def _note_sent(self, number: int, future: asyncio.Future[object]) -> None:
        self.health.sent(number, acknowledged=not future.cancelled() and future.exception() is None)

    async def expect(self, topics: Collection[str]) -> None:
        """Request the partitions of topics together: the client asks for one after the other."""
        client = self.producer.client
        unknown = [topic for topic in topics if client.cluster.partitions_for_topic(topic) is None]
        if len(unknown) < 2:
            return
        try:
            async with asyncio.timeout(self._deadline):
                await client.set_topics(client._topics.union(topics))
        except (KafkaError, TimeoutError) as error:
            raise self._failed(None, error) from error

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write records, in order within each partition, and wait until all are acknowledged."""
        batches: dict[tuple[str, int], Batch] = {}
        pending = []
        for record in records:
            partition = record.topic, record.partition
            batch = batches.get(partition)
            if batch is None or not batch.append(record):
                if batch is not None:
                    pending.append(await self.send(Partition(*partition), batch))
                batches[partition] = self.batch(record.topic)
                batches[partition].append(record)
        await self.expect({topic for topic, _ in batches})
        for partition, batch in batches.items():
            pending.append(await self.send(Partition(*partition), batch))
        await self.delivered(pending)

    async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
        """Await every acknowledgement: `flush` would ignore failures."""
        if not pending:
            return
        _, waiting = await asyncio.wait(pending, timeout=self._deadline)
        # In the order of sending: later batches of a partition fail because the first one has.
        for future in pending:
            if future.cancelled():
                raise Undelivered("the producer was discarded", retriable=True)
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

    def misfit(self, records: Sequence[ProducerRecord]) -> NoMatch | None:
        """Return why a topic refuses one of the records, if it does."""
        return self._limits.misfit(records)

    @property
    def needs_rotation(self) -> bool:
        """Return whether the sequence numbers of a partition come near their end."""
        return any(count >= self._rotate_after_records for count in self._written.values())

    async def stop(self) -> None:
        """Disconnect. Without a broker, the stop of an idempotent producer itself never returns."""
        if not await within(self._timeouts.stop_seconds, self.producer.stop()):
            await self.abandon()

    async def abandon(self) -> None:
        """Disconnect without sending queued batches: a late write would follow those of the successor.

        The client has no public method for it. So the sending task is ended first: it waits for the answer to
        its request, and sends no other one. Cancelled once more, it gives up that request, too.
        """
        sender: asyncio.Task[None] | None = self.producer._sender.sender_task
        for _ in range(2):
            if sender is not None and not sender.done():
                sender.cancel()
                await asyncio.wait({sender}, timeout=ABANDON_SECONDS)
        for future in list(self._pending):
            future.cancel()
        # `stop` waits for every batch, even for those that will never be sent.
        accumulator = self.producer._message_accumulator
        queued = [batch for queue in accumulator._batches.values() for batch in queue]
        accumulator._pending_batches.update(queued)
        accumulator.fail_all(ProducerClosed())
        for batch in queued:
            # A caller may have waited for space in the queue; asyncio would report its exception as never
            # retrieved.
            retrieve(batch._drain_waiter)
        await within(self._timeouts.stop_seconds, self.producer.client.close())
        await within(self._timeouts.stop_seconds, self.producer.stop())


class TransactionalSink(KafkaSink):
    """One transaction after another, each with the offsets of the records that it was made of.

    Exactly one instance exists for each transactional id. Within one cluster the group keeps the offsets, and
    Kafka commits them with the records. Between two clusters they are records of the progress topic, written
    in the same transaction.
    """

    is_transactional = True

    def __init__(
        self,
        settings: TransactionalSettings,
        limits: Mapping[str, int],
        brokers: Brokers | None = None,
        compacted: Container[str] = (),
        identity: ProducerIdentity | None = None,
    ) -> None:
        self._settings = settings
        self._id, self._group = settings.transactional_id, settings.group_id
        self._seconds = settings.transaction_timeout_seconds
        self._identity = identity or ProducerIdentity()
        timeout_ms = int(1000 * self._seconds)
        super().__init__(
            settings, limits, brokers, compacted, transactional_id=self._id, transaction_timeout_ms=timeout_ms
        )

    async def start(self) -> None:
        """Connect, and end open transactions of an earlier instance.

        The brokers do so first, and then this sink ends those that the brokers have forgotten. Also raises
        InstanceFenced, if a newer instance has fenced the sink that this one replaces.
        """
        sender = self.producer._sender
        # The client has no hook here.
        sender._do_init_pid = partial(self._request_producer_id, sender._do_init_pid)
        await super().start()
        try:
            async with asyncio.timeout(self._timeouts.request_seconds):
                await self._abort_hanging_transaction()
        except (GroupAuthorizationFailedError, TopicAuthorizationFailedError) as error:
            progress = self._settings.progress_topic
            rights = f"the source topics and on group {self._group!r}" if progress is None else repr(progress)
            raise TopicUnusable(
                f"not allowed to commit offsets: {text_of(error)}; grant READ on {rights}, to the user that "
                f"relay writes to the target as"
            ) from error
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"looking for an open transaction of {self._id}: ") from error

    async def _request_producer_id(self, ask: Callable[[int], Awaitable[bool]], coordinator: int) -> bool:
        """Request a producer id, which fences its holder unless that is newer.

        Returns False if there is none yet.
        """
        identity, client = self._identity, self.producer.client
        if identity.producer is not None and await is_fenced(client, coordinator, self._id, identity):
            raise _fenced(f"{self._id}: ")
        # From here on this process may have a producer id that it does not know.
        identity.renew(None)
        is_given = await ask(coordinator)
        if is_given:
            manager = self.producer._txn_manager
            identity.renew(ProducerIdAndEpoch(manager.producer_id, manager.producer_epoch))
        return is_given

    async def _abort_hanging_transaction(self) -> None:
        """Abort a hanging transaction in a new transaction; see `relay.io.kafka.hanging_transactions`.

        Only if it holds offsets: otherwise they count already, and so do its records. The markers concern our
        producer id alone: open transactions of others in the same partitions are not affected.
        """
        if not await self._are_offsets_held():
            return
        await self.begin()
        # The public interface would add partitions only with a record or an offset, which must not count if
        # brokers forget this transaction, too.
        manager, progress = self.producer._txn_manager, self._settings.progress_topic
        for pair in await open_partitions(self.producer.client, self._limits.by_topic):
            manager.maybe_add_partition_to_txn(pair)
        if progress is not None:
            manager.maybe_add_partition_to_txn(TopicPartition(progress, 0))
        else:
            is_added = False
            while not is_added:
                is_added = await self.producer._sender._do_add_offsets_to_txn(self._group)
        await self.producer.abort_transaction()
        self._identity.end()
        self.has_aborted_hanging_transaction = True

    async def _are_offsets_held(self) -> bool:
        """Return whether this sink's offsets are stuck in a transaction that does not end."""
        settings, client = self._settings, self.producer.client
        if settings.progress_topic is None:
            return bool(await pending_offsets(client, self._group, settings.source_topics, settings.shard))
        producer_id = self.producer._txn_manager.producer_id
        return await has_open_transaction(client, producer_id, TopicPartition(settings.progress_topic, 0))

    async def send(self, partition: Partition, batch: Batch) -> asyncio.Future[object]:
        """Queue a batch in the transaction; the first one begins it."""
        await self.begin()
        return await super().send(partition, batch)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the transaction. All batches must be acknowledged: clients commit without failed ones."""
        await self.begin()
        try:
            async with asyncio.timeout(self._deadline):
                await self.add_offsets(offsets)
                await self.producer.commit_transaction()
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"transaction of {self._id}: ") from error
        self._identity.end()

    async def stop(self) -> None:
        """Disconnect, and abort an open transaction: until it ends, it hides later records from readers."""
        if self._identity.is_open:
            self._look_at_outcome()
            await within(self._timeouts.stop_seconds, self.producer.abort_transaction())
        await super().stop()
        self._look_at_outcome()

    async def abandon(self) -> None:
        """Disconnect at once. The next sink of this id aborts the open transaction."""
        await super().abandon()
        self._look_at_outcome()

    def _look_at_outcome(self) -> None:
        """Retrieve the outcome of an abandoned transaction: asyncio would log its failure as unhandled."""
        outcome = self._outcome
        if outcome is not None and outcome.done():
            retrieve(outcome)

    @property
    def _outcome(self) -> asyncio.Future[object] | None:
        """Return the end of the present transaction, from the client's private state."""
        outcome: asyncio.Future[object] | None = self.producer._txn_manager._transaction_waiter
        return outcome

    async def begin(self) -> None:
        """Begin a transaction unless one is open. Raises Undelivered."""
        if self._identity.is_open:
            return
        try:
            async with asyncio.timeout(self._deadline):
                await self.producer.begin_transaction()
        except (*_CLIENT_ERRORS, TimeoutError) as error:
            raise self._failed(None, error, f"transaction of {self._id}: ") from error
        self._identity.begin(self._seconds)

    def _failed(
        self, partition: Partition | None, error: BaseException, where: str = ""
    ) -> Undelivered | ServiceError:
        # The client reports the cause of a transaction's end once; after that it reports no transaction.
        outcome = self._outcome
        if (
            isinstance(error, IllegalOperation)
            and outcome is not None
            and outcome.done()
            and not outcome.cancelled()
        ):
            error = outcome.exception() or error
        failure = super()._failed(partition, error, where)
        if isinstance(failure, InstanceFenced) and self._identity.may_have_expired:
            # The broker answers in the same way when it has aborted a transaction for its length.
            return Undelivered(
                f"the transaction of {self._id} lasted longer than {self._seconds:g} s and was aborted",
                retriable=False,
            )
        return failure

    async def add_offsets(self, offsets: Mapping[Partition, int]) -> None:
        """Add offsets of source partitions to the open transaction."""
        topic = self._settings.progress_topic
        if topic is None:
            pairs = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
            await self.producer.send_offsets_to_transaction(pairs, self._group)
            return
        await self.write(progress_records(topic, self._group, offsets))


def _undelivered(
    partition: Partition | None, error: BaseException, where: str = ""
) -> Undelivered | ServiceError:
    """Translate a failure of the client: most often into one after which the producer is replaced."""
    where = f"{partition}: " if partition else where
    # The client wraps a lost connection in two errors that are not retriable.
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    if any(isinstance(each, ProducerFenced) for each in chain):
        return _fenced(where)
    if any(isinstance(each, InvalidTimestampError) for each in chain):
        cure = "raise the topic's message.timestamp.after.max.ms and message.timestamp.before.max.ms"
        return TopicUnusable(f"{where}the topic refuses a record's timestamp, which relay preserves; {cure}")
    retriable = any(isinstance(each, TimeoutError) or getattr(each, "retriable", False) for each in chain)
    return Undelivered(where + text_of(error), retriable=retriable)


def _fenced(where: str) -> InstanceFenced:
    return InstanceFenced(f"{where}another instance with the same shard has started; this one stops")
