"""Topics as source and as target: where reading begins and ends, and records written in order."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from relay.config import Config, DeliveryMode, Start, kafka
from relay.config.keys import End, Wait
from relay.config.wiring import translator_of
from relay.io.kafka.admin import TopicInfo
from relay.io.kafka.positions import COMMIT_TS_MARGIN_MS
from relay.model.errors import ConfigError, Problem, RecordsGone, TopicUnusable
from relay.model.events import TSO_LOGICAL_BITS
from relay.topics.matching import nothing_matches
from relay.topics.plan import KEPT_FOREVER
from relay.topics.startup import Topics, check_topics
from spark_backfill.brokers import JavaAdmin, client_options, for_spark
from spark_backfill.files import PARTITION_COLUMNS, Captured, as_records, in_target_order
from spark_backfill.frames import Columns
from spark_backfill.placement import Placement
from spark_backfill.sink import WRITTEN, Write
from spark_backfill.spark_errors import too_late
from spark_backfill.steps import records_of_step
from spark_backfill.terms import KEEP_PARTITION, LATEST_MS, Bounds, Terms

#: Tasks that write topics by table, for each task that runs at a time: tables differ in size.
_TASKS_A_CORE: Final = 4


class SourceTopics(NamedTuple):
    """The source topics.

    `first`: the beginning of each partition; `oldest`: the position of its oldest record; `bounds`: its end.
    `topic_ids`: distinguish a topic from a later one of the same name.
    """

    config: Config
    options: Mapping[str, str]
    partitions: Mapping[str, int]
    oldest: Mapping[str, int]
    first: Mapping[str, int]
    bounds: Bounds
    cluster: str = ""
    topic_ids: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def from_config(
        cls, spark: SparkSession, config: Config, kept: Mapping[str, int] | None = None
    ) -> SourceTopics:
        """Ask the brokers. Topics that a pattern matches are in the `config` that is returned.

        `kept`: where the first of several runs began; later ones begin there, too, regardless of `start` and
        of retention since. Raises ConfigError, RecordsGone, TopicUnusable, BrokerUnavailable.
        """
        options = client_options(kafka.source_cluster(config))
        with closing(JavaAdmin(spark, options)) as admin:
            config = _with_found_topics(config, admin)
            partitions = admin.partitions(config.source.topics)
            _check_named(config, partitions)
            oldest = admin.first_offsets(partitions)
            if kept is None:
                first = _first(admin, config, partitions, oldest, admin.end_offsets(partitions))
            else:  # partitions that were added since begin where Spark begins them
                first = {partition: kept.get(partition, offset) for partition, offset in oldest.items()}
            # The time bounds as well: a record may come before Spark sees the end.
            bounds = Bounds(end=_end(admin, config, partitions), before_ms=config.backfill.end_timestamp_ms)
            ids = admin.topic_ids(partitions)
            return cls(config, options, partitions, oldest, first, bounds, admin.cluster_id(), ids)

    def placement(self, spark: SparkSession) -> Placement:
        """Return the tasks that write records to target partitions, if these are folders."""
        fixed = self.config.fixed_topics
        partitions = {
            name: topic.partitions or max(self.partitions[source] for source in topic.sources)
            for name, topic in fixed.items()
        }
        return Placement.of_topics(partitions, tasks_for_tables(self.config, spark))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return all records from `first` on, as a stream, which resumes from its checkpoint."""
        reader = spark.readStream.format("kafka").options(**self._read_options())
        if most := records_of_step(self.config):
            reader = reader.option("maxOffsetsPerTrigger", most)
        return reader.option("startingOffsets", self._starting_offsets).load()

    @property
    def _starting_offsets(self) -> str:
        """Return where a new stream begins.

        Spark refuses offsets that lack a partition, as of a topic that was just created.
        """
        is_earliest = self.config.source.topics_pattern and self.first == self.oldest
        return "earliest" if is_earliest else _offsets_json(self.first)

    def before(self, spark: SparkSession) -> DataFrame | None:
        """Return the records before `first`, whose DDL holds for those after it; None without any."""
        begin = {partition: min(offset, self.first[partition]) for partition, offset in self.oldest.items()}
        return self.between(spark, begin, self.first)

    def ahead(self, spark: SparkSession, known: Mapping[str, int]) -> tuple[DataFrame | None, dict[str, int]]:
        """Return the records of each partition 0 that has DDL for other partitions, and their present ends.

        They begin at `known`; None without any.
        """
        with closing(JavaAdmin(spark, self.options)) as admin:
            ends = admin.end_offsets(dict.fromkeys(self._topics_ahead, 1))
        begin = {
            partition: min(end, max(known.get(partition, 0), self.first[partition], self.oldest[partition]))
            for partition, end in ends.items()
        }
        return self.between(spark, begin, ends), ends

    @property
    def ddl_topics(self) -> list[str]:
        """Return the topics whose partition 0 has the DDL, where the source sends it once."""
        return sorted(set(self.config.ddl_topics.values()))

    @property
    def _topics_ahead(self) -> list[str]:
        """Return the topics whose partition 0 has DDL for other partitions."""
        ddl_topics = self.config.ddl_topics
        return sorted(
            {ddl_topics[t] for t, count in self.partitions.items() if count > 1 or ddl_topics[t] != t}
        )

    def partitions_now(self, spark: SparkSession) -> dict[str, int]:
        """Return how many partitions each topic has by now."""
        with closing(JavaAdmin(spark, self.options)) as admin:
            return admin.partitions(self.config.source.topics)

    def too_late(self, spark: SparkSession) -> ConfigError:
        """Return the error about timestamps that Spark cannot hold, with each partition's first record."""
        with closing(JavaAdmin(spark, self.options)) as admin:
            found = admin.offsets_since(self.partitions, LATEST_MS + 1)
        records = [f"{partition}/{offset}" for partition, offset in found.items() if offset >= 0]
        return too_late(", ".join(records) or "a record")

    def between(
        self, spark: SparkSession, begin: Mapping[str, int], end: Mapping[str, int]
    ) -> DataFrame | None:
        """Return the records of these partitions between the offsets; None without any."""
        if begin == end:
            return None
        options = self._read_options() | {
            "startingOffsets": _offsets_json(begin),
            "endingOffsets": _offsets_json(end),
        }
        for name in ("subscribe", "subscribePattern"):
            options.pop(name, None)
        assigned = {topic: list(map(int, offsets)) for topic, offsets in _by_topic(begin).items()}
        return spark.read.format("kafka").options(**options, assign=json.dumps(assigned)).load()

    def _read_options(self) -> dict[str, str]:
        return for_spark(self.options) | {
            **_subscription(self.config),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxRecordsPerPartition": str(self.config.backfill.task_records),
            # Records of an aborted transaction do not count.
            "kafka.isolation.level": "read_committed",
            # Otherwise a poll at the end of a topic keeps the next task waiting.
            "kafka.fetch.max.wait.ms": "20",
        }


def _with_found_topics(config: Config, admin: JavaAdmin) -> Config:
    """Return the configuration with the topics that its pattern matches. Raises TopicUnusable without any."""
    if not config.source.topics_pattern:
        return config
    names = admin.names()
    if found := [name for name in names if config.reads(name)]:
        return config.with_topics(found)
    raise TopicUnusable(nothing_matches(config, names))


def _subscription(config: Config) -> dict[str, str]:
    """Return the option of Spark's source that chooses topics. With a pattern, each step may have more."""
    source = config.source
    if not source.topics_pattern:
        return {"subscribe": ",".join(source.topics)}
    left_out = [source.exclude_topics_pattern] if source.exclude_topics_pattern else []
    if config.is_one_cluster:
        left_out += config.target_expressions
    without = "".join(f"(?!(?:{_in_java(each, at)})$)" for at, each in enumerate(left_out))
    return {"subscribePattern": f"{without}(?:{source.topics_pattern})"}


def _in_java(expression: str, number: int) -> str:
    """Return an expression with Java's syntax of named groups, whose names are unique with the number."""
    return re.sub(
        r"\(\?P([<=])(\w+)[>)]",
        lambda found: f"(?<{found[2]}{number}>" if found[1] == "<" else rf"\k<{found[2]}{number}>",
        expression,
    )


def captured(frame: DataFrame) -> Captured:
    """Return rows of Spark's Kafka source as records to translate."""
    return Captured(as_records(frame), Columns())


def _offsets_json(offsets: Mapping[str, int]) -> str:
    """Return offsets by `topic/partition` in the form of Spark's source."""
    return json.dumps(_by_topic(offsets))


def _by_topic(offsets: Mapping[str, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        topic, _, number = partition.rpartition("/")
        found.setdefault(topic, {})[number] = offset
    return found


def _check_named(config: Config, partitions: Mapping[str, int]) -> None:
    """Refuse bounds of partitions that do not exist: all would be read. Raises ConfigError."""
    problems = []
    for key, partition in named_bounds(config):
        topic, _, number = partition.rpartition("/")
        count = partitions.get(topic, 0)
        if int(number) >= count:
            message = f"unknown partition: topic {topic} has {count}, counted from 0"
            problems.append(Problem(key, message))
    if problems:
        raise ConfigError(problems)


def _first(
    admin: JavaAdmin,
    config: Config,
    partitions: Mapping[str, int],
    oldest: Mapping[str, int],
    newest: Mapping[str, int],
) -> dict[str, int]:
    source = config.source
    match source.start:
        case Start.OFFSETS:
            return _named(source.start_offsets, oldest, newest)
        case Start.LATEST:
            return dict(newest)
        case Start.TIMESTAMP:
            found, otherwise = admin.offsets_since(partitions, source.start_timestamp_ms or 0), newest
        case Start.COMMIT_TS:
            since_ms = max(0, (source.start_commit_ts >> TSO_LOGICAL_BITS) - COMMIT_TS_MARGIN_MS)
            found, otherwise = admin.offsets_since(partitions, since_ms), oldest
        case _:
            return dict(oldest)
    return {partition: otherwise[partition] if offset < 0 else offset for partition, offset in found.items()}


def behind_ends(first: Mapping[str, int], ends: Mapping[str, int]) -> list[Problem]:
    """Find partitions that begin after their end."""
    return [
        Problem(f'source.start_offsets."{name}"', f"is {offset}, and the partition ends at {ends[name]}")
        for name, offset in first.items()
        if offset > ends[name]
    ]


def named_bounds(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the partitions that `start_offsets` and `end_offsets` name, each after its whole key."""
    bounds = {
        "source.start_offsets": config.source.start_offsets,
        "backfill.end_offsets": config.backfill.end_offsets,
    }
    return ((f'{key}."{partition}"', partition) for key, given in bounds.items() for partition in given)


def _named(given: Mapping[str, int], oldest: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Return the offsets that the configuration names; for other partitions the oldest record."""
    first = {**oldest, **given}
    if beyond := behind_ends(first, newest):
        raise ConfigError(beyond)
    gone = [
        f"{partition} begins at {oldest[partition]}, not {offset}"
        for partition, offset in first.items()
        if offset < oldest[partition]
    ]
    if gone:
        raise RecordsGone(f"records to begin with were deleted by retention: {'; '.join(gone)}")
    return first


def _end(admin: JavaAdmin, config: Config, partitions: Mapping[str, int]) -> dict[str, int]:
    backfill = config.backfill
    if backfill.end is End.TIMESTAMP:
        found = admin.offsets_since(partitions, backfill.end_timestamp_ms or 0)
        return {partition: offset for partition, offset in found.items() if offset >= 0}
    return dict(backfill.end_offsets)


async def _checked(config: Config) -> Topics:
    """Check topics as the service does, without those that only the service keeps."""
    own = {
        "schema": config.schema.model_copy(update={"history_topic": "", "wait_for_ddl": Wait.FALSE}),
        "delivery": config.delivery.model_copy(update={"mode": DeliveryMode.AT_LEAST_ONCE}),
    }
    sources = None
    if config.backfill.input:  # files contain no number of partitions, and keep their records
        sources = {topic: TopicInfo(1, KEPT_FOREVER) for topic in config.source.topics}
    return await check_topics(config.model_copy(update=own), None, sources)


def target_cluster(spark: SparkSession, config: Config) -> str:
    """Return Kafka's id of the target's cluster. Raises BrokerUnavailable, ConfigError."""
    with closing(JavaAdmin(spark, client_options(kafka.target_cluster(config)))) as admin:
        return admin.cluster_id()


def tasks_for_tables(config: Config, spark: SparkSession) -> int:
    """Return the number of tasks for topics by table, which are not known before; 0 without any."""
    return _TASKS_A_CORE * spark.sparkContext.defaultParallelism if config.has_table_topics else 0


class TargetTopics(NamedTuple):
    """The written topics, as far as they are known before; those of tables come with them."""

    config: Config
    topics: Topics

    @classmethod
    def from_config(cls, config: Config) -> TargetTopics:
        """Check the topics that are written as the service does, and create missing ones that may be created.

        Raises TopicUnusable, BrokerUnavailable, ConfigError.
        """
        # In a separate thread: the caller may have an event loop.
        with ThreadPoolExecutor(1) as thread:
            topics = thread.submit(lambda: asyncio.run(_checked(config))).result()
        return cls(config, topics)

    def tell(self, warn: Callable[[str], object]) -> None:
        """Pass the warnings about them to `warn`."""
        for warning in self.topics.warnings:
            warn(warning)

    @property
    def terms(self) -> Terms:
        """Return the facts about them for a translating task."""
        partitions = self.topics.target_partitions
        dead_letters = partitions.get(self.config.dead_letter_topic, KEEP_PARTITION)
        # Source topics were compared with target topics; of files only the records name their target.
        is_chosen_by_records = self.config.backfill.input and not self.config.has_table_topics
        return Terms(
            dead_letters,
            self.topics.limits,
            partitions if is_chosen_by_records else None,
            compacted=self.topics.compacted,
        )

    def write(self, produced: DataFrame) -> None:
        """Write records, in order within each target partition."""
        others = tasks_for_tables(self.config, produced.sparkSession)
        placement = Placement.of_topics(self.topics.target_partitions, others)
        by_time = translator_of(self.config).copies_ddl
        placed, order = in_target_order(placement.distribute(produced), by_time=by_time)
        ordered = placed.sortWithinPartitions(*PARTITION_COLUMNS, *order)
        rows = ordered.select("topic", "partition", "timestamp_ms", "key", "value", "headers")
        written = rows.mapInArrow(Write(self.config, self.topics), WRITTEN)
        written.write.format("noop").mode("overwrite").save()
