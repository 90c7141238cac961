"""Sources over aiokafka 0.14: a member of a consumer group, and a fixed shard of the partitions.

A poll that raises may have moved positions past records that were lost, and rebalances of the group run in a
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
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from relay.io.kafka.aiokafka_compat import started, stopped, unreachable
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.fencing import StaticMember
from relay.io.kafka.fetched import relay_records, take_any_name
from relay.io.kafka.hanging_transactions import written_ends
from relay.io.kafka.ports import Owner, OwnershipLost, Partition, PollFailed, StartPosition
from relay.io.kafka.positions import committed_offsets, start_offsets, was_added, why_gone
from relay.io.kafka.settings import ConsumerSettings, Start
from relay.io.kafka.topics_to_read import TopicsToRead
from relay.io.logs import Log
from relay.model.errors import (
    ConfigError,
    DeliveryFailed,
    InstanceFenced,
    Problem,
    RecordsGone,
    ServiceError,
    TopicUnusable,
)
from relay.model.records import ConsumerRecord

POLL_MS = 200
#: How long brokers may return an offset that is older than one that they have acknowledged.
STALE_SECONDS = 15.0
STALE_PAUSE_SECONDS = 0.02

#: Reads how far the source has been read, if the target's cluster stores that.
Progress = Callable[[], Awaitable[Mapping[Partition, int]]]


class KafkaSource:
    """A member of a consumer group.

    `brokers`: those of the settings, if their files were read before; a source that replaces another must not
    depend on files that may be gone. `topics`: those of the settings by default; they may change.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        progress: Progress | None = None,
        log: Log | None = None,
        brokers: Brokers | None = None,
        topics: TopicsToRead | None = None,
    ) -> None:
        brokers = brokers or Brokers.from_settings(settings.cluster)
        self._to_read = topics or TopicsToRead(settings.topics)
        # Those that are read now.
        self._topics = self._to_read.names
        self._owner: Owner | None = None
        self._settings, self._brokers, self._servers = settings, brokers, brokers.servers
        self._timeouts = brokers.timeouts
        self._progress, self._log = progress, log
        #: Number of partitions of each topic; one beyond that was added later.
        self.partitions_at_start: dict[str, int] = {}
        # Open partitions that are currently not fetched.
        self._paused: set[TopicPartition] = set()
        #: aiokafka's client. Its own calls may hang, and raise the client's errors instead of relay's.
        self.consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=brokers.servers,
            client_id="relay",
            group_id=settings.group_id,
            group_instance_id=settings.group_instance_id or None,
            enable_auto_commit=False,
            # "none": retention that overtakes a position must be detected. The client would silently skip
            # deleted records.
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_bytes=settings.fetch_max_bytes,
            max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=max(100, settings.session_timeout_ms // 10),
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            client_rack=settings.client_rack or None,
            # Every other strategy would cost one more join request in each rebalance.
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            **brokers.arguments,
        )
        self._static: StaticMember | None = None
        # Offsets that a broker reported as out of range, until their partition gives records.
        self._out_of_range: dict[TopicPartition, int] = {}
        self.health = ClientHealth(settings.fetch_max_wait_ms / 1000)

    async def start(self, owner: Owner) -> None:
        """Connect and join the group. Raises BrokerUnavailable, ConfigError, InstanceFenced."""
        if instance := self._settings.group_instance_id:
            self._static = StaticMember(self.consumer._client, instance)
        try:
            self._owner = owner
            self._subscribe(owner)
            # The client waits for its partitions, and other members may take as long to hand over their work.
            await started(
                self._timeouts.start_seconds + self._settings.rebalance_timeout_ms / 1000,
                self.consumer,
                self._brokers,
                self.health,
            )
        except InvalidSessionTimeoutError as error:
            hint = "it must lie between their group.min.session.timeout.ms and group.max.session.timeout.ms"
            problem = Problem(
                "source.session_timeout_ms", f"the brokers refuse {self._settings.session_timeout_ms}", hint
            )
            raise ConfigError([problem]) from error
        except InconsistentGroupProtocolError as error:
            raise self._foreign_group() from error
        except (KafkaError, TimeoutError) as error:
            if self._static is not None and self._static.is_fenced:
                raise self._fenced() from error
            raise unreachable(self._servers, error) from error
        self.partitions_at_start = Counter(partition.topic for partition in self.partitions())

    def _subscribe(self, owner: Owner) -> None:
        """Subscribe to the topics.

        Not in the constructor of the client, which takes no listener, and not to a pattern: with a new topic,
        aiokafka 0.14 drops its partitions before their offsets are committed (its issue 293).
        """
        # A new subscription revokes the partitions of the one before, which are released already.
        is_released, self._topics = self._topics != self._to_read.names, self._to_read.names
        listener = _Listener(self.consumer, owner, self._to_read, is_released=is_released)
        self.consumer.subscribe(list(self._topics), listener=listener)

    async def _take_new_topics(self) -> bool:
        """Commit everything read and resubscribe if the topics have changed; return whether they have."""
        if self._to_read.names == self._topics or self._owner is None:
            return False
        await self._owner.revoked()
        self._subscribe(self._owner)
        return True

    async def open(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        """Set positions to the committed offsets, or according to `start`, and let records through."""
        found = await self.look(partitions, at_least)
        try:
            for partition, position in found.items():
                self.consumer.seek(TopicPartition(*partition), position.offset)
            self.consumer.resume(*(TopicPartition(*partition) for partition in found))
            self._paused.difference_update(TopicPartition(*partition) for partition in found)
        except IllegalStateError as error:
            raise OwnershipLost(str(error)) from error
        return found

    async def look(
        self, partitions: Sequence[Partition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, StartPosition]:
        """Read the committed offsets, or find the offsets for `start`."""
        pairs = {partition: TopicPartition(*partition) for partition in partitions}
        try:
            async with asyncio.timeout(self._timeouts.request_seconds + STALE_SECONDS):
                # The end comes last: an offset that was just committed must not be after it.
                committed = await self._committed(pairs, at_least)
                first = await self.consumer.beginning_offsets(list(pairs.values()))
                end = await self.consumer.end_offsets(list(pairs.values()))
                fresh = [pair for partition, pair in pairs.items() if partition not in committed]
                begin = await self._start_offsets(fresh, first, committed)
            found = {}
            for partition, pair in pairs.items():
                if partition in committed:
                    found[partition] = StartPosition(committed[partition], True, first[pair], end[pair])
                    _check_kept(
                        partition, self._settings.group_id, committed[partition], first[pair], end[pair]
                    )
                else:
                    found[partition] = StartPosition(begin[pair], False, first[pair], end[pair])
        except (KafkaError, TimeoutError) as error:
            raise self._poll_error(error) from error
        return found

    async def _committed(
        self, pairs: Mapping[Partition, TopicPartition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Read the committed offsets until the answer is not older than `at_least`.

        Right after a transaction a broker may still return the offset before it (Kafka 4.3: for up to 50 ms).
        """
        deadline = time.monotonic() + STALE_SECONDS
        while True:
            if self._progress is not None:
                read = await self._progress()
                committed = {partition: read[partition] for partition in pairs if partition in read}
            else:
                committed = await committed_offsets(self.consumer, self._settings.group_id, pairs)
            stale = [
                partition for partition in pairs if committed.get(partition, 0) < at_least.get(partition, 0)
            ]
            if not stale:
                return committed
            if time.monotonic() > deadline:
                raise PollFailed(
                    f"the brokers report a committed offset of {stale[0]} that is older than "
                    f"the one they have acknowledged"
                )
            await asyncio.sleep(STALE_PAUSE_SECONDS)

    async def _start_offsets(
        self,
        fresh: Sequence[TopicPartition],
        first: Mapping[TopicPartition, int],
        committed: Collection[Partition],
    ) -> dict[TopicPartition, int]:
        """Find where partitions without a committed offset begin.

        They begin at `start`, but with "latest" at the beginning if they were added later. All other values
        are right for both.
        """
        start, added = self._settings.start, set[TopicPartition]()
        if start.start is Start.LATEST:
            added = await self.added_partitions(fresh, committed)
        begin = {pair: first[pair] for pair in fresh if pair in added}
        if others := [pair for pair in fresh if pair not in added]:
            begin |= await start_offsets(self.consumer, start, others, self._log)
        return begin

    async def added_partitions(
        self, fresh: Sequence[TopicPartition], committed: Collection[Partition]
    ) -> set[TopicPartition]:
        """Find the partitions that were added to their topic after the first start of the group.

        All of their records count. Added partitions have the highest numbers. So a partition was added if it
        was not there when this instance started, or if a lower one that is opened with it has a committed
        offset or was itself added. For an instance without any committed offset, see `_has_begun`.

        Of topics found by a pattern, all were added after the group has committed any offset.
        """
        if self._settings.has_pattern and (committed or await self._has_commits()):
            return set(fresh)
        older, added = set(committed), set()
        for pair in sorted(fresh):
            is_new = pair.partition >= self.partitions_at_start.get(pair.topic, 0)
            if is_new or was_added(Partition(*pair), older) or await self._has_begun(pair):
                added.add(pair)
                older.add(Partition(*pair))
        return added

    async def _has_commits(self) -> bool:
        """Return whether the group has committed an offset of any topic."""
        return bool(await committed_offsets(self.consumer, self._settings.group_id, self.partitions()))

    async def _has_begun(self, pair: TopicPartition) -> bool:
        """Return whether all lower partitions, which others have, are committed.

        Then the group began without this one. It is also true if the others have started at the same time and
        are ahead by more than their first poll, each with at most one partition of the topic. Then this one
        begins too early, at the oldest record, and misses nothing.
        """
        lower = [Partition(pair.topic, number) for number in range(pair.partition)]
        committed = await committed_offsets(self.consumer, self._settings.group_id, lower)
        return bool(lower) and len(committed) == len(lower)

    async def poll(self, without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Return all fetched records: without a limit, the next fetch runs during translation."""
        return await self._poll(without)

    async def poll_some(
        self, most: int, without: Collection[Partition] = ()
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Return the first fetched records; the others wait in the client."""
        return await self._poll(without, most)

    async def _poll(
        self, without: Collection[Partition], most: int | None = None
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        if await self._take_new_topics():
            return {}
        wanted = self.consumer.assignment() - {TopicPartition(*each) for each in without} if without else ()
        if without and not wanted:
            # Naming none would mean all. For the client this is a poll, too: it leaves the group if there is
            # none for minutes.
            with self.consumer._subscription.fetch_context():
                await asyncio.sleep(POLL_MS / 1000)
            return {}
        try:
            fetched = await self.consumer.getmany(*wanted, timeout_ms=POLL_MS, max_records=most)
        except Exception as error:
            raise self._poll_error(error) from error
        for pair in fetched:
            self._out_of_range.pop(pair, None)
        return {Partition(*pair): relay_records(records) for pair, records in fetched.items()}

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause these; their fetched records wait in the client. Resume earlier paused ones."""
        if not partitions and not self._paused:
            return
        assigned = self.consumer.assignment()
        wanted = {TopicPartition(*each) for each in partitions} & assigned
        self.consumer.pause(*(wanted - self._paused))
        self.consumer.resume(*((self._paused - wanted) & assigned))
        self._paused = wanted

    def end(self, partition: Partition) -> int | None:
        """Return the high watermark of the last fetch."""
        # It raises AssertionError for a partition that is not assigned any more.
        with contextlib.suppress(IllegalStateError, AssertionError):
            return cast("int | None", self.consumer.highwater(TopicPartition(*partition)))
        return None

    def end_age(self, partition: Partition) -> float | None:
        """Return the age of the answer to the last fetch, which the client dates by the wall clock."""
        with contextlib.suppress(IllegalStateError, AssertionError):
            fetched_ms = self.consumer.last_poll_timestamp(TopicPartition(*partition))
            return None if fetched_ms is None else max(0.0, time.time() - fetched_ms / 1000)
        return None

    async def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Ask for the end offsets; in a source of transactions, those where the first open one begins."""
        try:
            async with asyncio.timeout(self._timeouts.request_seconds):
                ends = await self.consumer.end_offsets([TopicPartition(*each) for each in partitions])
        except (KafkaError, TimeoutError) as error:
            raise self._poll_error(error) from error
        return {Partition(*pair): end for pair, end in ends.items()}

    async def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Ask the leaders for the ends of all records."""
        pairs = [TopicPartition(*each) for each in partitions]
        try:
            async with asyncio.timeout(self._timeouts.lookup_seconds):
                ends = await written_ends(self.consumer._client, pairs)
        except (KafkaError, TimeoutError) as error:
            raise self._poll_error(error) from error
        return {Partition(*pair): end for pair, end in ends.items()}

    def position_of(self, partition: Partition) -> int | None:
        """Return the position of the client, which also moves over offsets without records."""
        assigned = self.consumer._subscription.subscription
        pair = TopicPartition(*partition)
        if assigned is None or assigned.assignment is None or pair not in assigned.assignment.tps:
            return None
        if isinstance(self.consumer._fetcher._records.get(pair), FetchError):
            # Past a record beyond its fetch size the client moves at once, and raises at a later poll.
            return None
        state = assigned.assignment.state_value(pair)
        return int(state.position) if state.has_valid_position else None

    def partitions(self) -> Sequence[Partition]:
        """Return all partitions in the newest metadata of the client."""
        numbers = {topic: self.consumer.partitions_for_topic(topic) or set() for topic in self._topics}
        return [Partition(topic, number) for topic, found in numbers.items() for number in sorted(found)]

    async def waiting(self) -> bool | None:
        """Compare new end offsets with our positions; both are after transaction markers at the end.

        Partitions without a leader are left out: no broker could answer for them.
        """
        offline = self.health.offline
        assigned = [pair for pair in self.consumer.assignment() if Partition(*pair) not in offline]
        if not assigned:
            return False
        try:
            async with asyncio.timeout(self._timeouts.lookup_seconds):
                ends = await self.consumer.end_offsets(assigned)
        except (KafkaError, TimeoutError):
            return None
        # Partitions that were never opened have no position.
        positions = {pair: self.position_of(Partition(*pair)) for pair in ends}
        return any(position is not None and position < ends[pair] for pair, position in positions.items())

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Set positions."""
        for partition, offset in offsets.items():
            # A partition that was revoked meanwhile belongs to another member.
            with contextlib.suppress(IllegalStateError):
                self.consumer.seek(TopicPartition(*partition), offset)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit explicit offsets, not those of a background rebalance, which the client would take."""
        # For a topic that was deleted, the client would repeat the commit until the deadline.
        topics, known = frozenset(self._to_read.names), frozenset(self.partitions())
        existing = {
            TopicPartition(*each): offset
            for each, offset in offsets.items()
            if each in known and each.topic in topics
        }
        if not existing:
            return
        try:
            async with asyncio.timeout(self._timeouts.commit_seconds):
                await self.consumer.commit(existing)
        except (CommitFailedError, IllegalStateError) as error:
            raise OwnershipLost(str(error)) from error
        except KafkaError as error:
            if error.retriable:
                raise TimeoutError(text_of(error)) from error
            raise DeliveryFailed(
                f"offsets of group {self._settings.group_id!r} cannot be committed: {text_of(error)}"
            ) from error

    async def stop(self) -> None:
        """Leave the group."""
        await stopped(self.consumer, self._timeouts.stop_seconds)

    def _fenced(self) -> InstanceFenced:
        group, instance = self._settings.group_id, self._settings.group_instance_id
        return InstanceFenced(
            f"another instance has joined group {group!r} with the same group_instance_id, {instance!r}; "
            "this one ends: give each instance a group_instance_id of its own in [source]"
        )

    def _foreign_group(self) -> ConfigError:
        group = self._settings.group_id
        hint = "name a group that only this route uses"
        problem = f"group {group!r} has members of another application, with another partition assignor"
        return ConfigError([Problem("source.group_id", problem, hint)])

    def _may_be_behind(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Return whether the offsets may be out of range only at a replica that is behind its leader.

        After such an answer, aiokafka asks the leader, which knows better.
        """
        is_new = any(self._out_of_range.get(pair) != offset for pair, offset in offsets.items())
        self._out_of_range |= offsets
        return bool(self._settings.client_rack) and is_new

    def _poll_error(self, error: Exception) -> Exception:
        """Translate an exception of a poll into an error that stops the relay or makes it rewind."""
        if self._static is not None and self._static.is_fenced:
            return self._fenced()
        if isinstance(error, ServiceError):
            return error
        if isinstance(error, InconsistentGroupProtocolError):
            return self._foreign_group()
        if isinstance(error, OffsetOutOfRangeError):
            if self._may_be_behind(error.args[0]):
                return PollFailed("a replica does not have the next records yet; its leader is asked")
            where = ", ".join(
                f"{pair.topic}/{pair.partition} at {offset}" for pair, offset in error.args[0].items()
            )
            hint = _reset_hint(self._settings.group_id)
            return RecordsGone(f"the next records to read no longer exist: {where}; {hint}")
        if isinstance(error, TopicAuthorizationFailedError | GroupAuthorizationFailedError):
            group = self._settings.group_id
            return TopicUnusable(
                f"not allowed to read: {text_of(error)}; grant READ on the topics and on group {group!r}"
            )
        if isinstance(error, UnicodeDecodeError) and take_any_name():
            return PollFailed("a header name is not UTF-8; the record is read again with U+FFFD in the name")
        return PollFailed(text_of(error))


class ShardSource(KafkaSource):
    """The partitions of one shard, for as long as this instance lives.

    It joins no group: the transactions of aiokafka cannot fence a member, but they fence the transactional id
    of a shard. Within one cluster the group still keeps the offsets.
    """

    _assigned: tuple[Partition, ...] = ()

    async def start(self, owner: Owner) -> None:
        """Connect and take the shard's partitions."""
        self._owner = owner
        try:
            await started(self._timeouts.start_seconds, self.consumer, self._brokers, self.health)
            async with asyncio.timeout(self._timeouts.request_seconds):
                # From the first time on, the client keeps the metadata of these topics up to date. Without an
                # answer all partitions would later count as added, and be read from their beginning.
                await self._ask_for_topics()
        except (KafkaError, TimeoutError) as error:
            raise unreachable(self._servers, error) from error
        self.partitions_at_start = Counter(partition.topic for partition in self.partitions())
        self._assign(self._shard_partitions())

    async def _poll(
        self, without: Collection[Partition], most: int | None = None
    ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        """Poll; if topics have new partitions, finish the rounds in flight and then take ours of them."""
        if await self._take_new_topics():
            return {}
        found = self._shard_partitions()
        if len(found) > len(self._assigned) and self._owner is not None:
            await self._owner.revoked()
            self._assign(found)
            return {}
        if not self._assigned:
            await asyncio.sleep(POLL_MS / 1000)
            return {}
        return await super()._poll(without, most)

    async def _take_new_topics(self) -> bool:
        """Take the shard's partitions of other topics, if these have changed; return whether they have."""
        if self._to_read.names == self._topics or self._owner is None:
            return False
        self._topics, before = self._to_read.names, self._topics
        try:
            async with asyncio.timeout(self._timeouts.request_seconds):
                await self._ask_for_topics()
        except (KafkaError, TimeoutError) as error:
            self._topics = before
            raise self._poll_error(error) from error
        await self._owner.revoked()
        self._assign(self._shard_partitions())
        return True

    async def _ask_for_topics(self) -> None:
        """Ask for the metadata of the topics until a broker answers; from then on the client keeps it."""
        client = self.consumer._client
        is_answered = await client.set_topics(self._topics)
        while not is_answered:
            is_answered = await client.force_metadata_update()

    async def _has_commits(self) -> bool:
        """Return False: the commits of other shards prove nothing; see `_has_begun`."""
        return False

    async def _has_begun(self, pair: TopicPartition) -> bool:  # noqa: ARG002 - as in the base class
        """Return False: the commits of other shards prove nothing; each shard may be started at another time.

        So a partition that was added while its shard was stopped, and had none before, begins at the end.
        """
        return False

    def _shard_partitions(self) -> tuple[Partition, ...]:
        shard = self._settings.shard
        return tuple(partition for partition in self.partitions() if shard.contains(partition.partition))

    def _assign(self, partitions: tuple[Partition, ...]) -> None:
        pairs = [TopicPartition(*partition) for partition in partitions]
        self.consumer.assign(pairs)
        # The client would forget the topics of which the shard has no partition.
        self.consumer._client.set_topics(self._topics)
        self.consumer.pause(*pairs)
        self._assigned = partitions
        if self._owner is not None:
            self._owner.assigned(partitions)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    """Passes changes of the group's assignment on. `is_released`: the partitions before it were released."""

    def __init__(
        self, consumer: AIOKafkaConsumer, owner: Owner, topics: TopicsToRead, *, is_released: bool
    ) -> None:
        self._consumer, self._owner, self._topics = consumer, owner, topics
        self._is_released = is_released

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Let the loop finish. The member still belongs to the group here, so its commit is valid."""
        if revoked and not self._is_released:
            await self._owner.revoked()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Close new partitions until the loop has set positions: a running poll must not return records."""
        is_own, self._is_released = self._is_released, False
        self._consumer.pause(*assigned)
        self._owner.assigned(sorted(Partition(*pair) for pair in assigned))
        if not is_own:
            self._topics.assigned()


def _check_kept(partition: Partition, group: str, committed: int, first: int, end: int) -> None:
    """Raise RecordsGone if the committed offset is outside the offsets that the partition holds."""
    if why := why_gone(committed, first, end):
        raise RecordsGone(f"{partition}: {why}; {_reset_hint(group)}")


def _reset_hint(group: str) -> str:
    how = "with `relay offsets seek`"
    return f"to continue anyway, change the committed offsets of group {group!r} {how}, or use a new group"
