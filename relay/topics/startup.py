"""Check topics before relay starts: create missing ones, refuse unusable ones, warn about others.

Topics that are known only when their tables are come later, by the same rules (`relay.topics.table_topics`).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.io.kafka.admin import ClusterTopics, TopicAdmin, TopicInfo
from relay.io.kafka.clients import Clusters
from relay.io.logs import Log
from relay.model.errors import TopicUnusable
from relay.topics.plan import (
    RequiredTopic,
    Role,
    is_compacted,
    limit_of,
    loops,
    missing,
    not_created,
    pattern_loops,
    problems,
    required_topics,
    target_topic,
    warnings,
)


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about the topics of a route, which all exist and can hold it.

    `limits`: `max.message.bytes` of every topic that relay writes, its own included. `compacted`: those in
    which every record needs a key. `sources`: the topics that are read. `target_partitions`: the number of
    partitions of every topic that is written; two clusters may have the same names. `by_table`: topics that
    exist and may be those of tables. `created`: topics that relay has just created. `warnings`: sentences for
    the operator.
    """

    limits: Mapping[str, int]
    compacted: frozenset[str] = frozenset()
    sources: Mapping[str, TopicInfo]
    target_partitions: Mapping[str, int]
    by_table: Mapping[str, TopicInfo] = {}
    created: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def tell(self, log: Log) -> None:
        """Log the created topics, and the warnings."""
        if self.created:
            log.info("topics.created", topics=list(self.created))
        for warning in self.warnings:
            log.warning("topics.warning", message=warning)


class Creates(enum.Enum):
    """The missing topics to create.

    `LOGS`: topics of a running relay whose content it has in memory or does not need, such as its schema
    history. A deleted target topic is not recreated: the loss of its records would go unnoticed.
    """

    NONE = enum.auto()
    LOGS = enum.auto()
    ALL = enum.auto()


_RENEWABLE: Final = frozenset({Role.HISTORY, Role.DEAD_LETTERS})


class WrittenTopics:
    """The limits of the topics that relay writes, as brokers last described them.

    `limits` and `compacted` as in `Topics`. Sinks read both, so a new answer takes effect with the next sink.
    """

    def __init__(self, limits: Mapping[str, int], compacted: Collection[str]) -> None:
        self.limits, self.compacted = dict(limits), set(compacted)

    @classmethod
    def of(cls, found: Mapping[str, TopicInfo]) -> WrittenTopics:
        """Return the limits of these topics."""
        limits = {name: limit_of(info) for name, info in found.items()}
        return cls(limits, {name for name, info in found.items() if is_compacted(info)})

    def update(self, newer: WrittenTopics | Topics) -> None:
        """Replace the facts about the topics that were just described."""
        self.limits |= newer.limits
        self.compacted -= newer.limits.keys()
        self.compacted |= newer.compacted


async def check_topics(
    config: Config,
    clusters: Clusters | None = None,
    sources: Mapping[str, TopicInfo] | None = None,
    *,
    creates: Creates = Creates.ALL,
    known: Collection[str] = (),
) -> Topics:
    """Check all topics of the route. If nothing is wrong, create missing ones that may be created.

    With `Creates.NONE`, warn of all that are missing. `known`: targets that existed earlier in this run; they
    are not created. `clusters`: those of the configuration, if their files were read before. `sources`:
    stand-ins for source topics where records do not come from topics. Raises TopicUnusable with all problems,
    BrokerUnavailable, and ConfigError for files of [….security].
    """
    clusters = clusters or Clusters.from_settings(source_cluster(config), target_cluster(config))
    source = ClusterTopics(sources or {}, {})
    if sources is None:
        source = await TopicAdmin(clusters.source).look(config.source.topics)
    target_admin = TopicAdmin(clusters.target)
    wanted = required_topics(config, source.found)
    if creates is Creates.LOGS:
        known = {each.name for each in wanted}
    wanted = [
        existed(each) if each.name in known and each.role not in _RENEWABLE else each for each in wanted
    ]
    target = await target_admin.look(each.name for each in wanted)
    absent = []
    if creates is Creates.NONE:
        absent = [each for each in wanted if _is_absent(each, target)]
    wanted = [each for each in wanted if each not in absent]
    wrong = [*_source_problems(source, config), *_problems(wanted, target, config, target_admin.servers)]
    if source.brokers & target.brokers:
        # The configured addresses alone do not show whether this is one cluster.
        wrong += [problem for _, problem in loops(wanted, config)] or pattern_loops(config)
    if wrong:
        raise TopicUnusable("; ".join(wrong))
    target, created = await create_missing(wanted, target, config, target_admin)
    by_table = await topics_of_tables(config, target_admin, target.found)
    written = WrittenTopics.of({**by_table, **target.found})
    return Topics(
        limits=written.limits,
        compacted=frozenset(written.compacted),
        sources=source.found,
        target_partitions={name: found.partitions for name, found in target.found.items()},
        by_table=by_table,
        created=created,
        warnings=(
            *(_absence_warning(each, target_admin.servers) for each in absent),
            *(
                text
                for each in wanted
                for text in warnings(each, target.found[each.name], source.found, config)
            ),
            *table_topic_warnings(config, by_table, source.found),
        ),
    )


def table_topic_warnings(
    config: Config, found: Mapping[str, TopicInfo], sources: Mapping[str, TopicInfo]
) -> Iterator[str]:
    """Yield the warnings about topics of tables, existing ones and those to be created.

    One warning stands for all topics with the same settings.
    """
    every = tuple(dict.fromkeys(config.source.topics))
    by_settings: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, info in found.items():
        by_settings.setdefault(tuple(sorted((info.settings or {}).items())), []).append(name)
    for name, *others in by_settings.values():
        wanted = target_topic(config, name, every, 0, sources)
        wanted = msgspec.structs.replace(wanted, others=len(others))
        yield from warnings(wanted, found[name], sources, config)
    for template in dict.fromkeys(each.text for each, _ in config.templates if each.is_by_table):
        wanted = target_topic(config, template, every, 0, sources)
        if wanted.may_create and wanted.settings:
            yield from warnings(wanted, TopicInfo(1, wanted.settings), sources, config)


def existed(wanted: RequiredTopic) -> RequiredTopic:
    """Return a topic that existed earlier in this run.

    If it is missing, it was deleted, and relay must not replace it by an empty one.
    """
    return msgspec.structs.replace(wanted, may_create=False, existed=True)


def _is_absent(wanted: RequiredTopic, target: ClusterTopics) -> bool:
    return wanted.name not in target.found and wanted.name not in target.unusable


def _absence_warning(wanted: RequiredTopic, servers: str) -> str:
    """Return the effect of a run on a missing topic."""
    if wanted.may_create:
        return f"{wanted.role} {wanted.name} does not exist at {servers}: `relay run` creates it"
    return missing(wanted, servers)


async def usable_topics(
    wanted: Sequence[RequiredTopic], config: Config, admin: TopicAdmin
) -> tuple[ClusterTopics, tuple[str, ...]]:
    """Look at topics, and create missing ones that may be created; return all, and the created names.

    Raises TopicUnusable with all problems, BrokerUnavailable.
    """
    target = await admin.look(each.name for each in wanted)
    if wrong := list(_problems(wanted, target, config, admin.servers)):
        raise TopicUnusable("; ".join(wrong))
    return await create_missing(wanted, target, config, admin)


async def create_missing(
    wanted: Sequence[RequiredTopic], target: ClusterTopics, config: Config, admin: TopicAdmin
) -> tuple[ClusterTopics, tuple[str, ...]]:
    """Create the missing topics that have no other problem; see `usable_topics`."""
    absent = [each for each in wanted if each.name not in target.found]
    if not absent:
        return target, ()
    refused = await admin.create([each.new_topic for each in absent])
    wrong = [not_created(each, refused[each.name], admin.servers) for each in absent if each.name in refused]
    # Another instance may have created them, and brokers have defaults: look again.
    names = {each.name for each in wanted if each.name not in refused}
    target = await admin.look_until_found(names)
    wrong += [
        f"topic {name} at {admin.servers} was created, but the brokers do not know it yet: start relay again"
        for name in sorted(names - target.found.keys() - target.unusable.keys())
    ]
    wrong += [_unusable(name, admin.servers, target) for name in sorted(names & target.unusable.keys())]
    wrong += [problem for each in wanted for problem in _topic_problems(each, target, config)]
    if wrong:
        raise TopicUnusable("; ".join(wrong))
    return target, tuple(each.name for each in absent)


async def topics_of_tables(
    config: Config, admin: TopicAdmin, known: Collection[str]
) -> Mapping[str, TopicInfo]:
    """Find existing topics of tables, besides those that are `known`.

    Their limits are known then, and transactions in them that brokers have not ended are found.
    """
    patterns = [
        template.pattern(config.source.topics) for template, _ in config.templates if template.is_by_table
    ]
    if not patterns:
        return {}
    names = {name for name in await admin.names() if any(each.fullmatch(name) for each in patterns)}
    names -= config.reserved_topics.union(known)
    return (await admin.look(names)).found


def _source_problems(source: ClusterTopics, config: Config) -> Iterator[str]:
    servers = config.source.bootstrap_servers
    for name in dict.fromkeys(config.source.topics):
        if name in source.unusable:
            yield _unusable(name, servers, source)
        elif name not in source.found:
            yield f"topic {name} does not exist at {servers}: create it; relay does not create source topics"
        elif not source.found[name].is_readable:
            yield f"topic {name} at {servers} cannot be read: grant READ on it"
        else:
            yield from _start_problems(name, source.found[name].partitions, config)


def _start_problems(topic: str, partitions: int, config: Config) -> Iterator[str]:
    """Find keys of `start_offsets` that would be ignored, so that everything would be read."""
    named = [each.rpartition("/") for each in config.source.start_offsets]
    absent = [number for name, _, number in named if name == topic and int(number) >= partitions]
    if absent:
        numbers = ", ".join(f"{topic}/{number}" for number in sorted(absent, key=int))
        has = f"partitions 0 to {partitions - 1}" if partitions > 1 else "partition 0 alone"
        named_but_absent = f"start_offsets in [source] names {numbers}"
        yield f"{named_but_absent}, and topic {topic} has the {has}: correct the numbers"


def _problems(
    wanted: Sequence[RequiredTopic], target: ClusterTopics, config: Config, servers: str
) -> Iterator[str]:
    """Find all problems before anything is created."""
    for each in wanted:
        if each.name in target.unusable:
            yield _unusable(each.name, servers, target)
        elif each.name in target.found:
            yield from _topic_problems(each, target, config)
        elif not each.may_create:
            yield missing(each, servers)
        else:
            # Report its problems before it exists.
            yield from problems(each, TopicInfo(each.partitions, each.settings), config)


def _topic_problems(wanted: RequiredTopic, target: ClusterTopics, config: Config) -> Iterator[str]:
    if wanted.name in target.found:
        yield from problems(wanted, target.found[wanted.name], config)


def _unusable(name: str, servers: str, topics: ClusterTopics) -> str:
    return f"topic {name} at {servers} cannot be used: {topics.unusable[name]}"
