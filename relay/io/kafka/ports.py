"""The loop's interface to a message system: a source, a sink, and the three ways in which they fail.

`relay.io.kafka.source` and `relay.io.kafka.sink` implement this over aiokafka; the tests implement it in
memory, for failures that a real broker cannot be made to show. Failures that no retry cures are raised as
`relay.model.errors.ServiceError` and pass through the loop.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from relay.io.kafka.sizes import NoMatch
from relay.model.errors import BrokerUnavailable
from relay.model.records import ConsumerRecord, ProducerRecord, split_numbers


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Partition | None:
        """Parse `topic/partition`; None if the text has another form."""
        found = split_numbers(text, 1)
        return None if found is None else cls(found[0], *found[1])


class StartPosition(NamedTuple):
    """Where reading of a partition begins, and whether that is a committed offset.

    `first`, `end`: the first and the end offset of the partition, 0 if unknown.
    """

    offset: int
    committed: bool
    first: int = 0
    end: int = 0


class PollFailed(Exception):
    """A poll raised. Records may have been lost with it, so all positions are unknown."""


class OwnershipLost(Exception):
    """The group has assigned the partitions to another member, with all uncommitted records."""


class Undelivered(Exception):
    """A batch was not acknowledged. `retriable`: whether waiting may help."""

    def __init__(self, reason: str, *, retriable: bool) -> None:
        super().__init__(reason)
        self.retriable = retriable


class FaultKind(IntEnum):
    """Kinds of faults, the most informative first."""

    REFUSED = 0
    UNREACHABLE = 1
    UNANSWERED = 2


class Fault(NamedTuple):
    """A current fault. `since`, `last`: its first and last evidence, by the steady clock.

    `group`: it concerns the coordinator of the consumer group. `is_missing`: a topic or partition does not
    exist.
    """

    kind: FaultKind
    detail: str
    since: float
    last: float
    group: bool = False
    is_missing: bool = False


class Health(Protocol):
    """The health of a cluster, as observed in the requests of one client."""

    @property
    def observes(self) -> bool:
        """Return whether there is a client."""
        ...

    @property
    def answered_at(self) -> float:
        """Return when a broker last answered, by the steady clock."""
        ...

    @property
    def missing_topics(self) -> Collection[str]:
        """Return the topics that the cluster does not have."""
        ...

    @property
    def offline(self) -> Collection[Partition]:
        """Return the partitions without a leader."""
        ...

    def faults(self) -> Sequence[Fault]:
        """Return the current faults, the most significant first."""
        ...

    def ask(self) -> None:
        """Request metadata, so that an answer or its absence shows the current state."""
        ...


class Owner(Protocol):
    """The source's callbacks into the loop for partitions that come and go."""

    async def revoked(self) -> None:
        """Deliver and commit all records read: all partitions are about to be revoked."""
        ...

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Note the newly assigned partitions; they stay closed until the loop opens them. Must not wait."""
        ...


class RecordSource(Protocol):
    """Read records in the order of their partitions."""

    @property
    def health(self) -> Health:
        """Return the health of its cluster."""
        ...

    async def start(self, owner: Owner) -> None:
        """Connect and request partitions."""
        ...

    async def open(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        """Find out where newly assigned partitions begin, and let their records through from there.

        `at_least`: offsets that were certainly committed; an answer of the brokers that is older is stale,
        and they are asked again.
        """
        ...

    async def poll(self, without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Return available records `without` some partitions, or nothing after a while. Raises PollFailed."""
        ...

    async def poll_some(
        self, most: int, without: Collection[Partition] = ()
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Poll at most so many records; later polls return the others."""
        ...

    async def look(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        """Find out where partitions would begin, assigned or not, and change nothing."""
        ...

    def end(self, partition: Partition) -> int | None:
        """Return the last end of a partition reported by the brokers, None before that. Sends no request."""
        ...

    def end_age(self, partition: Partition) -> float | None:
        """Return the age of that end in seconds; None before the first report. Sends no request."""
        ...

    async def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Ask the brokers where partitions end now, for a reader of committed records. Raises PollFailed."""
        ...

    async def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Ask the brokers for the end offsets of partitions, open transactions included.

        Leaves out partitions whose leader does not answer. Raises PollFailed.
        """
        ...

    def position_of(self, partition: Partition) -> int | None:
        """Return the position of an assigned partition, None if unknown. Sends no request.

        It is after everything that was polled, and after offsets without records, such as markers of
        transactions, aborted records and gaps of compaction.
        """
        ...

    def partitions(self) -> Sequence[Partition]:
        """Return all known partitions of the topics, ours and those of others. Sends no request."""
        ...

    async def waiting(self) -> bool | None:
        """Ask the brokers if an assigned partition has unpolled records; None without an answer."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop fetching these partitions, which no poll asks for, and resume all others."""
        ...

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Go on reading from these offsets. Ignores partitions that are not ours any more."""
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit these offsets. Raises OwnershipLost, TimeoutError."""
        ...

    async def stop(self) -> None:
        """Leave the group and disconnect, within a deadline."""
        ...


class Batch(Protocol):
    """Records for one output partition, encoded as they are appended."""

    def append(self, record: ProducerRecord) -> bool:
        """Add a record; False if it does not fit. Only an empty batch takes one that its topic refuses."""
        ...

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    @property
    def size(self) -> int:
        """Return the bytes of the records before compression."""
        ...


class Sink(Protocol):
    """Write batches, each in the order of `send` within its partition.

    A transactional sink shows readers nothing before `commit`, which commits the batches together with the
    offsets of the source, or neither. The others leave the offsets to the source.
    """

    @property
    def health(self) -> Health:
        """Return the health of its cluster."""
        ...

    @property
    def is_transactional(self) -> bool:
        """Return whether `commit` is to be called."""
        ...

    @property
    def has_aborted_hanging_transaction(self) -> bool:
        """Return whether the start has aborted a transaction that the brokers had reported complete.

        Then not even an acknowledged commit counts.
        """
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit all batches sent, which must be acknowledged, with these offsets.

        Raises Undelivered, InstanceFenced.
        """
        ...

    async def start(self) -> None:
        """Connect. Raises Undelivered, TopicUnusable, DeliveryFailed."""
        ...

    def batch(self, topic: str) -> Batch:
        """Make an empty batch for a partition of a topic."""
        ...

    async def send(self, partition: Partition, batch: Batch) -> Future[object]:
        """Hand over a batch; wait while the queue of the partition is full. Raises Undelivered."""
        ...

    async def expect(self, topics: Collection[str]) -> None:
        """Look up the partitions of many topics at once, before they are written. Raises Undelivered."""
        ...

    async def delivered(self, pending: Sequence[Future[object]]) -> None:
        """Wait until these batches are acknowledged. Raises Undelivered if one is not, or not in time."""
        ...

    def misfit(self, records: Sequence[ProducerRecord]) -> NoMatch | None:
        """Return why a topic refuses one of the records, if it does: its size, or that it has no key."""
        ...

    @property
    def needs_rotation(self) -> bool:
        """Return whether the sink should be replaced at the next quiet moment."""
        ...

    async def stop(self) -> None:
        """Disconnect after everything has been acknowledged, within a deadline."""
        ...

    async def abandon(self) -> None:
        """Disconnect at once. No queued batch may be written afterwards."""
        ...


async def start_sink(sink: Sink) -> None:
    """Start the first sink. Raises BrokerUnavailable, TopicUnusable, DeliveryFailed."""
    try:
        await sink.start()
    except Undelivered as error:
        raise BrokerUnavailable(f"{error}; check the addresses and that the brokers are up") from error
