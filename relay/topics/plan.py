"""Determine the topics that a route writes, and whether existing ones can hold it. Sends no requests."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from relay.codecs import Handling, LargeMessageOptions, codec_named
from relay.codecs.codec import Options
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Keys
from relay.codecs.row_keys import has_row_keys, keys_of
from relay.config import Config, Start
from relay.io.kafka.admin import CreateError, NewTopic, TopicInfo
from relay.io.kafka.sizes import DEFAULT_LIMIT_BYTES
from relay.text.durations import duration_text
from relay.text.redaction import first_of, plural

#: Kafka's "no limit" for times, and longer than any.
FOREVER_MS: Final = 2**63 - 1
_RETENTION: Final = "retention.ms"
_MOST_NAMES: Final = 20
#: Settings of a topic for records that nothing deletes, such as those of files.
KEPT_FOREVER: Final = {_RETENTION: "-1"}


def retention_ms(found: TopicInfo) -> int:
    """Return how long a topic keeps records: forever, if its settings may not be read."""
    settings = found.settings or {}
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return FOREVER_MS
    kept = int(settings.get(_RETENTION, -1))
    return FOREVER_MS if kept < 0 else kept


def longest_retention_ms(known: Mapping[str, TopicInfo], sources: Iterable[str]) -> int | None:
    """Return how long the source topics keep records; None if the settings of none may be read."""
    found = [known[name] for name in sources if name in known]
    return max((retention_ms(each) for each in found if each.settings is not None), default=None)


def retention_settings(known: Mapping[str, TopicInfo], sources: Iterable[str]) -> dict[str, str]:
    """Return the retention setting with which a new topic keeps records as long as its sources do."""
    kept = longest_retention_ms(known, sources)
    if kept is None:
        return {}
    return KEPT_FOREVER if kept == FOREVER_MS else {_RETENTION: str(kept)}


#: Maximum bytes that the headers of a dead letter add to the record that it keeps.
HEADER_RESERVE_BYTES = 16_384
_COMPACTED = {"cleanup.policy": "compact"}
#: For a topic that every transaction writes to. Only closed segments are compacted, and by default a segment
#: is closed after a week or a gigabyte.
_OFTEN_COMPACTED = {
    **_COMPACTED,
    "segment.ms": "600000",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.1",
}


class Role(enum.StrEnum):
    """The purpose of a topic in the route."""

    TARGET = "target topic"
    HISTORY = "schema history"
    DEAD_LETTERS = "dead-letter topic"
    PROGRESS = "progress topic"


class RequiredTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a topic that the route writes.

    `partitions`: the lowest number for a target, the exact one for a log of relay's own, and for dead letters
    that of a new topic. `partitions_if_new`: those of a new one, if they are more. `why`: the origin of this
    number. `others`: how many more topics a message about it covers. `sources`: the topics whose records it
    gets. `may_create`: relay creates it if it is missing, with `replicas` and `settings`. `existed`: it
    existed earlier in this run, so it was deleted if it is missing now.
    """

    name: str
    role: Role
    partitions: int
    others: int = 0
    partitions_if_new: int = 0
    why: str = ""
    sources: tuple[str, ...] = ()
    may_create: bool = True
    existed: bool = False
    replicas: int = -1
    settings: Mapping[str, str] = {}

    @property
    def label(self) -> str:
        """Return the topic's name for messages, including others with the same settings."""
        return f"{self.name} (and {self.others} more)" if self.others else self.name

    @property
    def new_topic(self) -> NewTopic:
        """Return the topic to create if it is missing."""
        partitions = max(self.partitions, self.partitions_if_new)
        return NewTopic(self.name, partitions, self.replicas, self.settings)

    @property
    def is_log(self) -> bool:
        """Return whether it is a log that relay keeps for itself and reads again at every start."""
        return self.role in {Role.HISTORY, Role.PROGRESS}


def limit_of(found: TopicInfo | None) -> int:
    """Return `max.message.bytes` of a topic."""
    return int(((found and found.settings) or {}).get("max.message.bytes", DEFAULT_LIMIT_BYTES))


def is_compacted(found: TopicInfo | None) -> bool:
    """Return whether a topic is compacted, so that every record in it needs a key."""
    return found is not None and "compact" in _policies(found)


def required_topics(config: Config, sources: Mapping[str, TopicInfo]) -> list[RequiredTopic]:
    """Return every topic that the route writes. Source topics that are not in `sources` require nothing."""
    return [*_targets(config, sources), *_own_topics(config, sources)]


def _targets(config: Config, sources: Mapping[str, TopicInfo]) -> Iterator[RequiredTopic]:
    for target, fixed in config.fixed_topics.items():
        yield target_topic(config, target, fixed.sources, fixed.partitions, sources)


def target_topic(
    config: Config, name: str, sources: tuple[str, ...], spread: int, known: Mapping[str, TopicInfo]
) -> RequiredTopic:
    """Return the requirements of a target topic. A new one keeps records as long as its sources do.

    `spread`: over how many partitions rows are spread, 0 for those of the source; `known`: the source topics
    that were found.
    """
    counts = {source: known[source].partitions for source in sources if source in known}
    largest = max(sources, key=lambda source: counts.get(source, 0))
    return RequiredTopic(
        name=name,
        role=Role.TARGET,
        partitions=spread or counts.get(largest, 0),
        why="`partitions` in [target] is" if spread else f"{largest} has",
        sources=sources,
        may_create=config.target.create_topics,
        replicas=config.target.create_replication_factor,
        settings={**retention_settings(known, sources), **config.target.create_settings},
    )


def _own_topics(config: Config, sources: Mapping[str, TopicInfo]) -> Iterator[RequiredTopic]:
    replicas = config.target.create_replication_factor
    if config.history_topic:
        yield RequiredTopic(
            name=config.history_topic, role=Role.HISTORY, partitions=1, replicas=replicas, settings=_COMPACTED
        )
    if config.uses_progress_topic:
        name = config.delivery.progress_topic
        yield RequiredTopic(
            name=name, role=Role.PROGRESS, partitions=1, replicas=replicas, settings=_OFTEN_COMPACTED
        )
    if config.has_dead_letters:
        # A dead letter is the record unchanged: any record of the source must fit, and its age is no reason
        # to delete it.
        max_message_bytes = (
            max([limit_of(found) for found in sources.values()], default=DEFAULT_LIMIT_BYTES)
            + HEADER_RESERVE_BYTES
        )
        yield RequiredTopic(
            name=config.dead_letter_topic,
            role=Role.DEAD_LETTERS,
            partitions=max((found.partitions for found in sources.values()), default=0),
            sources=config.source.topics,
            replicas=replicas,
            settings={
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "max.message.bytes": str(max_message_bytes),
            },
        )


def missing(wanted: RequiredTopic, servers: str) -> str:
    """Return the problem of a missing topic that relay does not create."""
    if wanted.existed:
        return (
            f"topic {wanted.name} at {servers} was deleted while relay was running: create it again, or "
            "restart relay"
        )
    return (
        f"topic {wanted.name} does not exist at {servers}: create it, or set create_topics = true in [target]"
    )


def loops(wanted: Sequence[RequiredTopic], config: Config) -> Iterator[tuple[RequiredTopic, str]]:
    """Yield topics that are both read and written, with the problem.

    For brokers that turn out to be one cluster.
    """
    for each in wanted:
        if each.name in config.source.topics:
            why = (
                f"relay would read what it writes: {config.source.bootstrap_servers} and "
                f"{config.target_servers} are one cluster, and {each.name} is a source topic "
                f"and the {each.role}; name another one"
            )
            yield each, why


def pattern_loops(config: Config) -> Iterator[str]:
    """Yield the problem of topics found by a pattern that the route may write, for brokers of one cluster."""
    names = config.source.topics if config.source.topics_pattern else ()
    if written := [name for name in names if config.has_target_name(name)]:
        yield (
            f"relay would read what it writes: {config.source.bootstrap_servers} and {config.target_servers} "
            f"are one cluster, and this route may write {first_of(written, _MOST_NAMES)}: leave out "
            "bootstrap_servers in [target], so that relay does not read these, or exclude them"
        )


def not_created(wanted: RequiredTopic, error: CreateError, servers: str) -> str:
    """Return why a topic could not be created, and the remedy."""
    command = ["kafka-topics.sh", "--bootstrap-server", servers, "--create", "--topic", wanted.name]
    command += ["--partitions", str(wanted.new_topic.partitions)]
    command += ["--replication-factor", str(wanted.replicas)] if wanted.replicas != -1 else []
    for name, value in wanted.settings.items():
        command += ["--config", f"{name}={value}"]
    by_hand = " ".join(command)
    if error.is_forbidden:
        advice = f"grant CREATE on it, or create it: {by_hand}"
    elif error.is_about_replicas:
        advice = "set create_replication_factor in [target] to at most the number of brokers"
        advice += f", or create it: {by_hand}"
    elif error.is_about_settings and wanted.role is Role.TARGET:
        advice = "correct create_settings in [target]"
    else:
        advice = f"create it: {by_hand}"
    without = {
        Role.HISTORY: '; or set history_topic = "" in [schema] to run without it',
        Role.DEAD_LETTERS: "; or use other policies than dead-letter in [errors]",
    }.get(wanted.role, "")
    what = f"{wanted.role} {wanted.name} does not exist at {servers} and cannot be created"
    return f"{what}: {error.message}; {advice}{without}"


def problems(wanted: RequiredTopic, found: TopicInfo, config: Config) -> Iterator[str]:
    """Yield the reasons why a topic cannot hold the route's records."""
    if wanted.is_log:
        yield from _log_problems(wanted, found)
        return
    if wanted.role is Role.TARGET and found.partitions < wanted.partitions:
        yield (
            f"topic {wanted.name} has {plural(found.partitions, 'partition')}, but {wanted.why} "
            f"{wanted.partitions}: add partitions to {wanted.name}, or set `partitions` in [target] to "
            f"{found.partitions}"
        )
    if is_compacted(found):
        yield from _compaction_problems(wanted, config)


def _log_problems(wanted: RequiredTopic, found: TopicInfo) -> Iterator[str]:
    """Check a log, which is read as a whole at every start.

    It needs one partition for one order, and only replaced records may be deleted.
    """
    otherwise = "if nothing else uses it, delete it and relay recreates it; or name another topic"
    if found.partitions != wanted.partitions:
        count = plural(found.partitions, "partition")
        yield f"{wanted.role} {wanted.name} has {count}, but must have 1: {otherwise}"
    if found.settings is not None and _policies(found) != {"compact"}:
        policy = found.settings.get("cleanup.policy")
        yield (
            f"{wanted.role} {wanted.name} has cleanup.policy={policy}, which deletes records that relay "
            f"still needs: set cleanup.policy=compact on it, or name another topic"
        )


def _compaction_problems(wanted: RequiredTopic, config: Config) -> Iterator[str]:
    name, protocol = wanted.name, config.route.to
    if wanted.role is Role.DEAD_LETTERS:
        cure = "set cleanup.policy=delete on it"
        yield f"dead-letter topic {name} is compacted and would lose dead letters: {cure}"
        return
    codec = codec_named(protocol, "to")
    options = parse_options(codec, config.route.to_options, "to.option")
    keys, says = keys_of(codec, options), codec.output(options)
    if codec.keys.meaning is Keys.NONE and keys is Keys.ROW and (says.ddl or says.watermark):
        yield (
            f"topic {name} is compacted, but only rows of {protocol} have keys, and brokers refuse "
            f"records without a key; set ddl=drop and watermarks=drop in to_options, or set "
            f"cleanup.policy=delete on {name}"
        )
    elif keys is Keys.NONE:
        yield (
            f"topic {name} is compacted, but {protocol} has no keys, and brokers refuse records without a "
            f"key; set cleanup.policy=delete on {name}, or write to another topic"
        )
    elif keys is Keys.MESSAGE:
        yield (
            f"topic {name} is compacted, and keys of {protocol} do not identify rows: of one transaction's "
            f"messages about a table only the last would be kept; "
            f"set cleanup.policy=delete on {name}, or write to another topic"
        )


def _policies(found: TopicInfo) -> set[str]:
    policy = (found.settings or {}).get("cleanup.policy", "")
    return {part.strip() for part in policy.split(",") if part.strip()}


def warnings(
    wanted: RequiredTopic, found: TopicInfo, sources: Mapping[str, TopicInfo], config: Config
) -> Iterator[str]:
    """Yield warnings for the operator about a topic that can hold the route."""
    name = wanted.label
    if found.settings is None:
        yield (
            f"the settings of topic {name} are unknown: relay is not authorized to read them, or the broker "
            f"does not report them; max.message.bytes is assumed to be {DEFAULT_LIMIT_BYTES} and "
            "cleanup.policy to be suitable: grant DESCRIBE_CONFIGS on it"
        )
        return
    if wanted.role is Role.DEAD_LETTERS:
        largest = max([limit_of(sources[each]) for each in wanted.sources if each in sources], default=0)
        if limit_of(found) < largest:
            yield (
                f"dead-letter topic {name} accepts {limit_of(found)} bytes, but a source topic "
                f"accepts {largest}: larger records cannot be written to it; raise its max.message.bytes"
            )
    if wanted.role is Role.TARGET:
        if is_compacted(found):
            yield _kept_of_compacted(name, config)
        yield from _limit_warnings(name, limit_of(found), config)
    if not wanted.is_log:
        yield from _time_warnings(wanted, found, sources, config)


def _kept_of_compacted(name: str, config: Config) -> str:
    codec = codec_named(config.route.to, "to")
    refused = (
        "brokers refuse records without a key, such as rows of tables without a primary key: for "
        "those, the policy `encode` in [errors] applies"
    )
    if has_row_keys(parse_options(codec, config.route.to_options, "to.option")):
        return f"topic {name} is compacted: Kafka keeps only the last message of each row; {refused}"
    return (
        f"topic {name} is compacted: Kafka keeps only the last message of each row, and the last DDL of each "
        f"database; {refused}"
    )


def _limit_warnings(name: str, limit: int, config: Config) -> Iterator[str]:
    if limit < config.target.max_batch_bytes:
        batch = config.target.max_batch_bytes
        yield f"topic {name} accepts {limit} bytes, less than max_batch_bytes ({batch}): batches are smaller"
    given = config.route.to_options
    options: Options = parse_options(codec_named(config.route.to, "to"), given, "to.option")
    if not isinstance(options, LargeMessageOptions) or options.max_message_bytes <= limit:
        return
    # The default is far above that of topics, and does not show the user's intention.
    if "max-message-bytes" in given or options.large_message_handle_option is not Handling.NONE:
        yield (
            f"topic {name} accepts {limit} bytes, less than max-message-bytes ({options.max_message_bytes}): "
            f"rows between the two are refused as too large; set max-message-bytes to {limit} at most, "
            f"or raise max.message.bytes of the topic"
        )


def _time_warnings(
    wanted: RequiredTopic, found: TopicInfo, sources: Mapping[str, TopicInfo], config: Config
) -> Iterator[str]:
    """Compare retention, which uses timestamps: they are kept, so old source records arrive old."""
    name, settings = wanted.label, found.settings or {}
    if settings.get("message.timestamp.type") == "LogAppendTime":
        yield f"topic {name} has message.timestamp.type=LogAppendTime: source timestamps are not kept"
        return
    oldest = int(settings.get("message.timestamp.before.max.ms", FOREVER_MS))
    if oldest < FOREVER_MS:
        yield (
            f"topic {name} refuses records older than {duration_text(oldest)}, and source records keep their "
            "timestamps: raise its message.timestamp.before.max.ms, or set "
            "message.timestamp.type=LogAppendTime"
        )
    kept, longest = retention_ms(found), longest_retention_ms(sources, wanted.sources)
    if longest is not None and kept < longest and config.source.start is not Start.LATEST:
        kept_by_source = "forever" if longest == FOREVER_MS else f"for {duration_text(longest)}"
        yield (
            f"topic {name} deletes records after {duration_text(kept)}, and its source keeps them "
            f"{kept_by_source}: records keep their timestamps, so old ones are deleted soon after they are "
            "written; raise its retention.ms"
        )
