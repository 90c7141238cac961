"""What the loop needs of a message system: a source, a sink, and the three ways in which they fail.

`kafka.py` implements this over aiokafka; the tests implement it in memory, for failures that a real broker
cannot be made to show. Failures that no retry cures are raised as `relay.errors.ServiceError` and pass
through the loop.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from relay.errors import BrokerUnavailable
from relay.records import ConsumerRecord, ProducerRecord


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Position(NamedTuple):
    """Where reading of a partition begins, and whether that is a committed offset."""

    offset: int
    committed: bool


class Oversize(NamedTuple):
    """A record that its topic does not take: its size with all overhead, and the topic's limit, in bytes."""

    topic: str
    size: int
    limit: int


class PollFailed(Exception):
    """A poll raised: records may have been handed out and lost with it, so all positions are unknown."""


class OwnershipLost(Exception):
    """The group has given the partitions to somebody else: what is uncommitted is theirs now."""


class Undelivered(Exception):
    """A batch was not acknowledged. `retriable` tells whether waiting may help."""

    def __init__(self, reason: str, *, retriable: bool) -> None:
        super().__init__(reason)
        self.retriable = retriable


class Owner(Protocol):
    """Who is told what the group hands out and takes away."""

    async def revoked(self) -> None:
        """All partitions are about to be taken away; returns when what was read is delivered and committed."""
        ...

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Learn which partitions are ours now; they stay closed until the loop opens them. Must not wait."""
        ...


class Source(Protocol):
    """Reads records in the order of their partitions."""

    async def start(self, owner: Owner) -> None:
        """Connect and ask for partitions."""
        ...

    async def open(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, Position]:
        """Find out where newly assigned partitions begin, and let their records through from there.

        `at_least`: offsets that were certainly committed; an older answer of the brokers is stale and asked
        for again.
        """
        ...

    async def poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Give what is ready, or nothing after a short wait. Raises PollFailed."""
        ...

    async def look(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, Position]:
        """Find out where partitions would begin, ours or not, and leave them as they are."""
        ...

    def end(self, partition: Partition) -> int | None:
        """Where the partition ended when the brokers last answered; None if they have not said. Asks nobody."""
        ...

    def passed(self, partition: Partition) -> int | None:
        """Where the next record of a partition of ours can be, behind all that was polled and what is no
        record: markers of transactions, what was aborted or compacted away. None if it is not known. Asks
        nobody.
        """
        ...

    def partitions(self) -> Sequence[Partition]:
        """All partitions of the topics, whoever they belong to, as far as known. Asks nobody."""
        ...

    async def waiting(self) -> bool | None:
        """Ask the brokers whether any partition of ours holds records that have not been polled; None if they
        do not answer.
        """
        ...

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets; partitions that are no longer ours are left alone."""
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit these offsets. Raises OwnershipLost, TimeoutError."""
        ...

    async def stop(self) -> None:
        """Leave the group and disconnect; ends within its own deadline."""
        ...


class Batch(Protocol):
    """Records for one output partition, encoded as they are appended."""

    def append(self, record: ProducerRecord) -> bool:
        """Add a record; False if the batch is full or would be with it. An empty batch takes any record, all
        others none that is too large for its topic.
        """
        ...

    def __len__(self) -> int:
        """How many records it holds."""
        ...

    @property
    def size(self) -> int:
        """Its bytes before compression."""
        ...


class Sink(Protocol):
    """Writes batches, each in the order of `send` within its partition.

    A transactional one shows nothing to readers before `commit`, which commits the source's offsets with the
    batches or neither; the others leave the offsets to the source.
    """

    @property
    def is_transactional(self) -> bool:
        """Whether `commit` is to be called."""
        ...

    @property
    def aborted_leftovers(self) -> bool:
        """Whether its start has aborted a transaction that the brokers had called complete: even an
        acknowledged commit.
        """
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit what was sent, all of it acknowledged, together with these offsets. Raises Undelivered,
        InstanceFenced.
        """
        ...

    async def start(self) -> None:
        """Connect. Raises Undelivered."""
        ...

    def batch(self) -> Batch:
        """Make an empty batch."""
        ...

    async def send(self, partition: Partition, batch: Batch) -> Future[object]:
        """Hand over a batch, waiting while the partition is full. Raises Undelivered."""
        ...

    async def delivered(self, pending: Sequence[Future[object]]) -> None:
        """Wait until all of these batches are acknowledged. Raises Undelivered if one is not, or not in time."""
        ...

    def too_large(self, records: Sequence[ProducerRecord]) -> Oversize | None:
        """Find a record that its topic does not take."""
        ...

    @property
    def worn(self) -> bool:
        """Whether the sink should be replaced at the next quiet moment."""
        ...

    async def stop(self) -> None:
        """Disconnect after everything has been acknowledged; ends within its own deadline."""
        ...

    async def abandon(self) -> None:
        """Disconnect at once: nothing that was handed over may be written any more."""
        ...


async def start_sink(sink: Sink) -> None:
    """Start a sink that nobody waits for yet. Raises BrokerUnavailable, TopicUnusable, DeliveryFailed."""
    try:
        await sink.start()
    except Undelivered as error:
        raise BrokerUnavailable(f"{error}; check the addresses and that the brokers are up") from error
