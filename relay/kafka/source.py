"""Sources over aiokafka 0.14: a member of a consumer group, and a fixed shard of the partitions.

A poll that raises may have moved positions past records that nobody got, and group rebalances run in a
background task. So every wait has a deadline, offsets are always explicit, and new partitions stay paused
until the loop has opened them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.consumer.fetcher import FetchError
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidSessionTimeoutError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from relay.config import Config, Start
from relay.errors import ConfigError, DeliveryFailed, Problem, RecordsGone, TopicUnusable
from relay.kafka.aiokafka_compat import REQUEST_SECONDS, relay_records, started, stopped, text_of, unreachable
from relay.kafka.clients import Settings, source_settings
from relay.kafka.committed import committed_offsets
from relay.kafka.ports import Owner, OwnershipLost, Partition, PollFailed, Position
from relay.kafka.positions import start_offsets
from relay.logs import Log
from relay.records import ConsumerRecord

POLL_MS = 200
COMMIT_SECONDS = 15.0
ASKING_SECONDS = 10.0
#: How long brokers may go on telling an offset that is older than one they have acknowledged.
STALE_SECONDS = 15.0
STALE_PAUSE_SECONDS = 0.02
#: How soon new partitions of a topic are noticed.
METADATA_MAX_AGE_MS = 30_000

#: Gives how far the source has been read, where the target's cluster keeps it.
Progress = Callable[[], Awaitable[Mapping[Partition, int]]]


class KafkaSource:
    """A member of a consumer group.

    `settings`: TLS and SASL, if they were made before; a source that replaces another must not depend on
    files that may be gone.
    """

    def __init__(
        self,
        config: Config,
        progress: Progress | None = None,
        log: Log | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._config = config.source
        self._progress, self._log = progress, log
        # How many each topic has; one beyond that was added later.
        self._partitions_at_start: dict[str, int] = {}
        source = config.source
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=source.bootstrap_servers,
            client_id="relay",
            group_id=source.group_id,
            group_instance_id=source.group_instance_id or None,
            enable_auto_commit=False,
            # "none": a position that retention has overtaken must be seen, not silently moved past what was
            # deleted.
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_bytes=source.fetch_max_bytes,
            max_partition_fetch_bytes=source.max_partition_fetch_bytes,
            fetch_max_wait_ms=source.fetch_max_wait_ms,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            session_timeout_ms=source.session_timeout_ms,
            heartbeat_interval_ms=max(100, source.session_timeout_ms // 10),
            rebalance_timeout_ms=source.rebalance_timeout_ms,
            # Each further strategy would cost a join request in every rebalance.
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            **(source_settings(config) if settings is None else settings),
        )

    async def start(self, owner: Owner) -> None:
        """Connect and join the group. Raises BrokerUnavailable, ConfigError."""
        try:
            # The topics go through subscribe, not the constructor: else there is no listener.
            self._consumer.subscribe(list(self._config.topics), listener=_Listener(self._consumer, owner))
            # The client waits for the group's assignment, and other members may take as long as that to hand
            # over their work.
            await started(REQUEST_SECONDS + self._config.rebalance_timeout_ms / 1000, self._consumer)
        except InvalidSessionTimeoutError as error:
            hint = "it must lie between their group.min.session.timeout.ms and group.max.session.timeout.ms"
            problem = Problem(
                "source.session_timeout_ms", f"the brokers refuse {self._config.session_timeout_ms}", hint
            )
            raise ConfigError([problem]) from error
        except (KafkaError, TimeoutError) as error:
            raise unreachable(self._config.bootstrap_servers, error) from error
        self._partitions_at_start = Counter(partition.topic for partition in self.partitions())

    async def open(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, Position]:
        """Set the positions to the committed offsets, or to where `start` says, and let the records through."""
        found = await self.look(partitions, at_least)
        try:
            for partition, position in found.items():
                self._consumer.seek(TopicPartition(*partition), position.offset)
            self._consumer.resume(*(TopicPartition(*partition) for partition in found))
        except IllegalStateError as error:
            raise OwnershipLost(str(error)) from error
        return found

    async def look(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, Position]:
        """Read the committed offsets, or find where `start` says."""
        pairs = {partition: TopicPartition(*partition) for partition in partitions}
        try:
            async with asyncio.timeout(REQUEST_SECONDS + STALE_SECONDS):
                # The end comes last: what was committed a moment ago must not lie behind it.
                committed = await self._committed(pairs, at_least)
                first = await self._consumer.beginning_offsets(list(pairs.values()))
                end = await self._consumer.end_offsets(list(pairs.values()))
                fresh = [pair for partition, pair in pairs.items() if partition not in committed]
                begin = await self._beginnings(fresh, first, committed)
            found = {}
            for partition, pair in pairs.items():
                if partition in committed:
                    found[partition] = Position(committed[partition], committed=True)
                    _check_kept(
                        partition, self._config.group_id, committed[partition], first[pair], end[pair]
                    )
                else:
                    found[partition] = Position(begin[pair], committed=False)
        except (KafkaError, TimeoutError) as error:
            raise self._poll_error(error) from error
        return found

    async def _committed(
        self, pairs: Mapping[Partition, TopicPartition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Read how far the partitions have been read, until the answer is not older than `at_least`.

        Right after a transaction a broker may still tell the offset before it (seen with Kafka 4.3: up to 50
        ms).
        """
        deadline = time.monotonic() + STALE_SECONDS
        while True:
            if self._progress is not None:
                told = await self._progress()
                committed = {partition: told[partition] for partition in pairs if partition in told}
            else:
                committed = await committed_offsets(self._consumer, self._config.group_id, pairs)
            stale = [
                partition for partition in pairs if committed.get(partition, 0) < at_least.get(partition, 0)
            ]
            if not stale:
                return committed
            if time.monotonic() > deadline:
                raise PollFailed(
                    f"the brokers tell an offset of {stale[0]} that is older than the one they have acknowledged"
                )
            await asyncio.sleep(STALE_PAUSE_SECONDS)

    async def _beginnings(
        self,
        fresh: Sequence[TopicPartition],
        first: Mapping[TopicPartition, int],
        committed: Collection[Partition],
    ) -> dict[TopicPartition, int]:
        """Where partitions without a committed offset begin: where `start` says, but for "latest" one that
        was added later at its beginning. All other starts give the right place for both.
        """
        added = await self._added(fresh, committed) if self._config.start is Start.LATEST else set()
        begin = {pair: first[pair] for pair in fresh if pair in added}
        others = [pair for pair in fresh if pair not in added]
        return (
            begin | await start_offsets(self._consumer, self._config, others, self._log) if others else begin
        )

    async def _added(
        self, fresh: Sequence[TopicPartition], committed: Collection[Partition]
    ) -> set[TopicPartition]:
        """Which of these partitions were added to their topic after the group's first start, so that all of
        their records count.

        Added partitions have the highest numbers, so one is added if it was not there when this instance
        started, or if a lower one that is opened with it is older than it: it has a committed offset, or was
        itself added. For an instance whose partitions are all without, see `_has_begun`.
        """
        older, added = set(committed), set()
        for pair in sorted(fresh):
            is_new = pair.partition >= self._partitions_at_start.get(pair.topic, 0)
            follows = any(each.topic == pair.topic and each.partition < pair.partition for each in older)
            if is_new or follows or await self._has_begun(pair):
                added.add(pair)
                older.add(Partition(*pair))
        return added

    async def _has_begun(self, pair: TopicPartition) -> bool:
        """Whether all lower partitions, which others have, are committed: then the group has begun without
        this one.

        Or the others have started at the same time and were quicker by more than their first poll, each with
        one partition of the topic at most. This one then begins too early, at the oldest record; it misses
        nothing.
        """
        lower = [Partition(pair.topic, number) for number in range(pair.partition)]
        return bool(lower) and len(
            await committed_offsets(self._consumer, self._config.group_id, lower)
        ) == len(lower)

    async def poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Give everything that has been fetched: without a limit of records, the next fetch runs while these
        are translated.
        """
        try:
            fetched = await self._consumer.getmany(timeout_ms=POLL_MS)
        except Exception as error:
            # Not only KafkaError: a record whose header name is not UTF-8 raises UnicodeDecodeError out of
            # the parser.
            raise self._poll_error(error) from error
        return {Partition(*pair): relay_records(records) for pair, records in fetched.items()}

    def end(self, partition: Partition) -> int | None:
        """The high water of the last fetch."""
        with contextlib.suppress(IllegalStateError):
            return cast("int | None", self._consumer.highwater(TopicPartition(*partition)))
        return None

    def passed(self, partition: Partition) -> int | None:
        """The client's position, which moves over what is no record, too."""
        assigned = self._consumer._subscription.subscription
        pair = TopicPartition(*partition)
        if assigned is None or assigned.assignment is None or pair not in assigned.assignment.tps:
            return None
        if isinstance(self._consumer._fetcher._records.get(pair), FetchError):
            # For a record beyond its fetch size the client moves on at once, and tells of it at a later poll.
            return None
        state = assigned.assignment.state_value(pair)
        return int(state.position) if state.has_valid_position else None

    def partitions(self) -> Sequence[Partition]:
        """All partitions, by the client's newest metadata."""
        numbers = {
            topic: self._consumer.partitions_for_topic(topic) or set() for topic in self._config.topics
        }
        return [Partition(topic, number) for topic, found in numbers.items() for number in sorted(found)]

    async def waiting(self) -> bool | None:
        """Compare fresh end offsets with our positions; transaction markers at the end are behind both."""
        assigned = list(self._consumer.assignment())
        if not assigned:
            return False
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                ends = await self._consumer.end_offsets(assigned)
        except (KafkaError, TimeoutError):
            return None
        # A partition that was never opened has no position.
        positions = {pair: self.passed(Partition(*pair)) for pair in ends}
        return any(position is not None and position < ends[pair] for pair, position in positions.items())

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Set positions."""
        for partition, offset in offsets.items():
            # A partition taken away in the meantime is somebody else's.
            with contextlib.suppress(IllegalStateError):
                self._consumer.seek(TopicPartition(*partition), offset)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit explicit offsets: the bare form commits what a background rebalance has made of the
        assignment.
        """
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                await self._consumer.commit(
                    {TopicPartition(*partition): offset for partition, offset in offsets.items()}
                )
        except (CommitFailedError, IllegalStateError) as error:
            raise OwnershipLost(str(error)) from error
        except KafkaError as error:
            if error.retriable:
                raise TimeoutError(text_of(error)) from error
            raise DeliveryFailed(
                f"offsets of group {self._config.group_id!r} cannot be committed: {text_of(error)}"
            ) from error

    async def stop(self) -> None:
        """Leave the group."""
        await stopped(self._consumer)

    def _poll_error(self, error: Exception) -> Exception:
        """Translate what a poll raised: into an error that stops the relay, or into one after which it
        rewinds.
        """
        if isinstance(error, OffsetOutOfRangeError):
            where = ", ".join(
                f"{pair.topic}/{pair.partition} at {offset}" for pair, offset in error.args[0].items()
            )
            return RecordsGone(
                f"the records to read next are no longer there: {where}; {_reset_hint(self._config.group_id)}"
            )
        if isinstance(error, TopicAuthorizationFailedError | GroupAuthorizationFailedError):
            group = self._config.group_id
            return TopicUnusable(
                f"not allowed to read: {text_of(error)}; grant READ on the topics and on group {group!r}"
            )
        if isinstance(error, UnicodeDecodeError):
            where = ", ".join(
                f"{partition} at {self.passed(partition)} or behind" for partition in self._unread()
            )
            return TopicUnusable(
                f"a record has a header whose name is not UTF-8, which the client cannot read, in {where}: "
                f"move the offset of group {self._config.group_id!r} past it (kafka-consumer-groups.sh --reset-offsets)"
            )
        return PollFailed(text_of(error))

    def _unread(self) -> list[Partition]:
        """Partitions of ours that hold more than was polled."""
        ours = [Partition(*pair) for pair in self._consumer.assignment()]
        return [each for each in sorted(ours) if (self.passed(each) or 0) < (self.end(each) or 0)]


class ShardSource(KafkaSource):
    """The partitions of one shard, for as long as this instance lives: p belongs to shard p modulo `shards`.

    There is no group membership, because a member cannot be fenced by aiokafka's transactions; the shard's
    transactional id can. The group still keeps the offsets, within one cluster.
    """

    def __init__(
        self,
        config: Config,
        progress: Progress | None = None,
        log: Log | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(config, progress, log, settings)
        self._shard, self._shards = config.delivery.shard, config.delivery.shards
        self._owner: Owner | None = None
        self._assigned: tuple[Partition, ...] = ()

    async def start(self, owner: Owner) -> None:
        """Connect and take the shard's partitions."""
        self._owner = owner
        try:
            await started(REQUEST_SECONDS, self._consumer)
            async with asyncio.timeout(REQUEST_SECONDS):
                # Asked for once, so that the client goes on asking for them.
                self._consumer._client.set_topics(self._config.topics)
                await self._consumer._client.force_metadata_update()
        except (KafkaError, TimeoutError) as error:
            raise unreachable(self._config.bootstrap_servers, error) from error
        self._partitions_at_start = Counter(partition.topic for partition in self.partitions())
        self._assign(self._ours())

    async def poll(self) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Poll; when a topic has got more partitions, take ours of them after finishing what is under way."""
        found = self._ours()
        if len(found) > len(self._assigned) and self._owner is not None:
            await self._owner.revoked()
            self._assign(found)
            return {}
        if not self._assigned:
            await asyncio.sleep(POLL_MS / 1000)
            return {}
        return await super().poll()

    async def _has_begun(self, pair: TopicPartition) -> bool:  # noqa: ARG002 - one of several ways to begin
        """No: what other shards have committed tells nothing, because each is started when somebody likes.

        So partitions that were added while a shard was stopped which had none yet begin at the end.
        """
        return False

    def _ours(self) -> tuple[Partition, ...]:
        return tuple(
            partition for partition in self.partitions() if partition.partition % self._shards == self._shard
        )

    def _assign(self, partitions: tuple[Partition, ...]) -> None:
        pairs = [TopicPartition(*partition) for partition in partitions]
        self._consumer.assign(pairs)
        self._consumer.pause(*pairs)
        self._assigned = partitions
        if self._owner is not None:
            self._owner.assigned(partitions)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    def __init__(self, consumer: AIOKafkaConsumer, owner: Owner) -> None:
        self._consumer, self._owner = consumer, owner

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Let the loop finish. The member is still in the group here, so the commit is still valid."""
        if revoked:
            await self._owner.revoked()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Close the new partitions until the loop has set their positions: a poll under way must not return
        them.
        """
        self._consumer.pause(*assigned)
        self._owner.assigned(sorted(Partition(*pair) for pair in assigned))


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
