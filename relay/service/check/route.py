"""The preflight check of a route: `relay check --connect`. It writes, creates and commits nothing.

Each finding is one line. Brokers are contacted one by one, including those that the cluster advertises:
clients are redirected to these, and an address that works only inside a network is the most frequent mistake.
Permissions come from the brokers' answers (`relay.io.kafka.requests`); permissions that they do not report
are listed as untested.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

from relay.codecs import codec_named
from relay.config import Config
from relay.config.kafka import transactional_settings
from relay.config.keys import Wait
from relay.io.kafka.admin import TopicAdmin, TopicInfo
from relay.io.kafka.clients import Brokers, Clusters
from relay.io.kafka.requests import UNKNOWN_OPERATIONS, Operation, allows
from relay.model.errors import BrokerUnavailable
from relay.service.check import CheckState, Finding, unreported
from relay.service.check.cluster import BrokerUnresponsive, ClusterInspection, TopicDescription
from relay.service.check.groups import group_findings
from relay.service.check.messages import message_findings
from relay.text.redaction import first_of, plural
from relay.topics.matching import nothing_matches, written_matches
from relay.topics.plan import (
    RequiredTopic,
    Role,
    loops,
    pattern_loops,
    problems,
    required_topics,
    warnings,
)
from relay.topics.startup import table_topic_warnings, topics_of_tables

# Permissions needed on each topic of the target's brokers, and their purpose.
_NEEDED = {
    Role.TARGET: (Operation.WRITE,),
    Role.DEAD_LETTERS: (Operation.WRITE,),
    Role.HISTORY: (Operation.READ, Operation.WRITE),
    Role.PROGRESS: (Operation.READ, Operation.WRITE),
}
#: Findings that there may be for each of many topics.
_OF_TOPICS = ("source topic", "source messages of", str(Role.TARGET))
#: Topics that a finding names, and topics found by a pattern whose messages are examined.
_MOST_NAMES = 20
_MOST_EXAMINED = 20
_UNKNOWN_TOPIC, _NOT_ALLOWED_TOPIC = 3, 29


async def preflight(config: Config, clusters: Clusters) -> list[Finding]:
    """Check everything that a route needs of its brokers.

    Returns the findings in the order of a record's path, from source to target.
    """
    with _quiet_client():
        source = target = ClusterInspection(clusters.source)
        if clusters.target is not clusters.source:
            target = ClusterInspection(clusters.target)
        inspections = [source] if target is source else [source, target]
        try:
            await asyncio.gather(*(inspection.connect() for inspection in inspections))
            return _joined(await _findings(config, source, target))
        finally:
            await asyncio.gather(*(inspection.close() for inspection in inspections))


async def _findings(config: Config, source: ClusterInspection, target: ClusterInspection) -> list[Finding]:
    found = [*_address_findings("source and target" if target is source else "source", source)]
    source_topics: dict[str, TopicInfo] = {}
    if source.is_reached:
        config, matching = await _with_matching_topics(config, source)
        found += matching
        try:
            topics = await source.topics(config.source.topics)
            source_topics = {name: topic.found for name, topic in topics.items() if topic.found}
            found += [_source_topic(topics[name]) for name in dict.fromkeys(config.source.topics)]
            found += _unordered_rows(config, source_topics)
            found += _idle_processes(config, source_topics)
            # The findings above are more specific about unusable brokers or partitions.
            if not any(problem for _, _, problem in source.advertised):
                readable = [
                    name
                    for name, topic in source_topics.items()
                    if topic.is_led and allows(topics[name].operations, Operation.READ) is not False
                ]
                readable_topics = {name: source_topics[name] for name in readable}
                found += await group_findings(config, source, target, readable_topics)
                found += await message_findings(config, source.brokers, _sample(config, readable))
            else:
                found += await group_findings(config, source, target, {})
        except BrokerUnresponsive as reason:
            found.append(Finding(CheckState.FAILED, "source topics", f"{reason}; check the broker's log"))
    if target is not source:
        found += _address_findings("target", target)
    if target.is_reached:
        try:
            found += await _target_findings(config, target, source_topics)
            if target is not source and source.addresses & target.addresses:
                wanted = required_topics(config, source_topics)
                found += [
                    Finding(CheckState.FAILED, f"{each.role} {each.name}", why)
                    for each, why in loops(wanted, config)
                ]
                found += [Finding(CheckState.FAILED, "source topics", why) for why in pattern_loops(config)]
        except BrokerUnresponsive as reason:
            found.append(Finding(CheckState.FAILED, "target topics", f"{reason}; check the broker's log"))
    return found


async def _with_matching_topics(config: Config, source: ClusterInspection) -> tuple[Config, list[Finding]]:
    """Return the configuration with the topics that its pattern matches, and a finding about them."""
    if not config.source.topics_pattern:
        return config, []
    subject = "source topics"
    try:
        names = await TopicAdmin(source.brokers).names()
    except BrokerUnavailable as error:
        return config, [Finding(CheckState.UNTESTED, subject, str(error))]
    found = [name for name in names if config.reads(name)]
    if not found:
        text = f"{nothing_matches(config, names)}; relay waits for one"
        return config, [Finding(CheckState.UNTESTED, subject, text)]
    text = f"{plural(len(found), 'topic')} of {len(names)} match topics_pattern"
    if len(found) > _MOST_EXAMINED:
        text += f"; messages of the first {_MOST_EXAMINED} are examined"
    findings = [Finding(CheckState.OK, subject, text)]
    if written := written_matches(config, names):
        text = f"not read, because this route may write them: {first_of(written, _MOST_NAMES)}"
        findings.append(Finding(CheckState.NOTE, subject, text))
    return config.with_topics(found), findings


def _sample(config: Config, topics: list[str]) -> list[str]:
    """Return the topics whose messages are examined: all that are named, or some that a pattern matches."""
    return topics[:_MOST_EXAMINED] if config.source.topics_pattern else topics


def _joined(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings that say the same about many topics."""
    groups: dict[tuple[str, CheckState, str], list[str]] = {}
    for each in findings:
        kind, name = _kind_of(each)
        groups.setdefault((kind, each.state, each.text), []).append(name)
    found = []
    for each in findings:
        kind, name = _kind_of(each)
        names = groups[kind, each.state, each.text]
        if len(names) <= _MOST_NAMES:
            found.append(each)
        elif name == names[0]:
            found.append(each._replace(subject=f"{kind} {first_of(names, _MOST_NAMES)}"))
    return found


def _kind_of(finding: Finding) -> tuple[str, str]:
    """Return the kind of a finding about a topic, and the topic's name; otherwise its subject, and ""."""
    for kind in _OF_TOPICS:
        if finding.subject.startswith(f"{kind} "):
            return kind, finding.subject.removeprefix(f"{kind} ")
    return finding.subject, ""


async def _target_findings(
    config: Config, target: ClusterInspection, sources: Mapping[str, TopicInfo]
) -> list[Finding]:
    wanted = required_topics(config, sources)
    topics = await target.topics([each.name for each in wanted])
    found = []
    for each in wanted:
        topic = topics[each.name]
        found.append(_target_topic(each, topic, target, config))
        if topic.found:
            found += _topic_warnings(each, topic.found, sources, config)
        elif topic.code == _UNKNOWN_TOPIC and each.may_create and each.settings:
            found += _topic_warnings(each, TopicInfo(each.partitions, each.settings), sources, config)
    found += unstable_keys(
        config, has_history=bool(config.history_topic and topics[config.history_topic].found)
    )
    found += _table_topics(config, target)
    if config.has_table_topics:
        found += await _table_topic_warnings(config, target, sources, {each.name for each in wanted})
    exactly_once = config.is_exactly_once
    # Each process has a separate transactional id.
    found += [await _writer(target, each) for each in (config.of_processes if exactly_once else [config])]
    return found


def unstable_keys(config: Config, *, has_history: bool) -> Iterator[Finding]:
    """Note that row keys may change when their tables' DDL is learned, unless there is a schema history."""
    if has_history or not config.has_row_keys:
        return
    text = (
        "a table's definition is unknown until its DDL has been read from the source: until then, keys of "
        "its rows are written with inferred types, and may change afterwards; use `relay schema-history "
        "import` for definitions that the source no longer has"
    )
    if not config.history_topic:
        text += ", which needs history_topic in [schema]"
    yield Finding(CheckState.NOTE, f"keys of {config.route.to}", text)


def _table_topics(config: Config, target: ClusterInspection) -> Iterator[Finding]:
    """Describe the handling of topics that are known only when their tables are."""
    for template in dict.fromkeys(template.text for template, _ in config.templates if template.is_by_table):
        subject = f"target topics {template}"
        if not config.target.create_topics:
            text = (
                "must exist before rows of their tables arrive: if one is missing, relay stops "
                "(create_topics = false)"
            )
            yield Finding(CheckState.NOTE, subject, text)
            continue
        may = allows(target.operations, Operation.CREATE)
        text = "are created when rows of their tables arrive"
        if may:
            yield Finding(CheckState.OK, subject, text)
        else:
            why = "the broker does not report whether it is" if may is None else "it is not"
            text += f", if CREATE is allowed on each of them; {why} allowed cluster-wide"
            yield Finding(CheckState.UNTESTED, subject, text)


def _address_findings(side: str, cluster: ClusterInspection) -> Iterator[Finding]:
    for address, problem in cluster.bootstrap.items():
        subject = f"{side} {address}"
        if problem is None:
            yield Finding(CheckState.OK, subject, cluster.how)
        else:
            yield Finding(CheckState.FAILED, subject, str(problem))
    for node, address, problem in cluster.advertised:
        subject = f"{side} broker {node} at {address}"
        if problem is None:
            yield Finding(CheckState.OK, subject, f"{cluster.how}, at the address that the broker advertises")
        else:
            advice = (
                f"{cluster.first} answers and refers clients to its advertised address {address}: make that "
                f"reachable from here, or correct advertised.listeners of the broker"
            )
            yield Finding(CheckState.FAILED, subject, f"{problem.what}; {advice}")


def _source_topic(topic: TopicDescription) -> Finding:
    subject = f"source topic {topic.name}"
    if topic.found is None:
        if topic.code == _UNKNOWN_TOPIC:
            return Finding(
                CheckState.FAILED, subject, "does not exist; create it, or correct topics in [source]"
            )
        return Finding(CheckState.FAILED, subject, _unseen(topic, (Operation.READ,)))
    return _judged(subject, topic, (Operation.READ,), [])


def rows_do_not_wait(config: Config, rows: str = "rows of other partitions") -> str:
    """Describe the handling of rows that overtake their DDL in another partition, and why that can happen."""
    why = (
        "wait_for_ddl = false"
        if config.schema.wait_for_ddl is Wait.FALSE
        else 'wait_for_ddl = "auto" without a history_topic'
    )
    return (
        f"{rows} do not wait for it ({why}): rows that overtake it are translated with "
        "inferred types, counted as schema-inferred, and their tables are logged as schema.inferred and "
        "listed as inferred_tables in /status"
    )


def _unordered_rows(config: Config, topics: Mapping[str, TopicInfo]) -> Iterator[Finding]:
    """Note the topics whose rows may arrive before their DDL."""
    source = codec_named(config.route.from_, "from")
    if config.waits_for_ddl or not source.sends_ddl_once:
        return
    ddl_topics = config.ddl_topics
    for name, found in topics.items():
        subject = f"source topic {name}"
        if ddl_topics[name] != name:
            text = f"DDL is in {ddl_topics[name]}, and {rows_do_not_wait(config, 'rows')}"
            yield Finding(CheckState.NOTE, subject, text)
        elif found.partitions > 1:
            text = f"DDL is in partition 0 alone, and {rows_do_not_wait(config)}"
            yield Finding(CheckState.NOTE, subject, text)


def _idle_processes(config: Config, topics: Mapping[str, TopicInfo]) -> Iterator[Finding]:
    """Note that some processes of this instance will have nothing to do, regardless of other instances."""
    processes = config.of_processes
    counts = [found.partitions for found in topics.values()]
    busy = min(len(processes), sum(counts))
    if config.is_exactly_once:
        busy = sum(each.delivery.shard < max(counts, default=0) for each in processes)
    if len(processes) > 1 and topics and busy < len(processes):
        idle = len(processes) - busy
        text = (
            f"{idle} of {len(processes)} will be idle, as the source topics have "
            f"{plural(sum(counts), 'partition')}: lower processes in [delivery], or add partitions"
        )
        yield Finding(CheckState.NOTE, "processes", text)


def _target_topic(
    wanted: RequiredTopic, topic: TopicDescription, cluster: ClusterInspection, config: Config
) -> Finding:
    subject, needed = f"{wanted.role} {topic.name}", _NEEDED[wanted.role]
    if topic.found is None:
        if topic.code != _UNKNOWN_TOPIC:
            more = "; and CREATE, if relay is to create it" if wanted.may_create else ""
            return Finding(CheckState.FAILED, subject, _unseen(topic, needed) + more)
        return _absent(subject, wanted, topic, cluster)
    return _judged(subject, topic, needed, list(problems(wanted, topic.found, config)))


def _absent(
    subject: str, wanted: RequiredTopic, topic: TopicDescription, cluster: ClusterInspection
) -> Finding:
    if not wanted.may_create:
        return Finding(
            CheckState.FAILED, subject, "does not exist; create it, or set create_topics = true in [target]"
        )
    may = [allows(operations, Operation.CREATE) for operations in (topic.operations, cluster.operations)]
    if any(may):
        return Finding(
            CheckState.OK,
            subject,
            f"does not exist; relay creates it with {plural(wanted.partitions, 'partition')} at startup",
        )
    if None in may:
        return Finding(
            CheckState.UNTESTED,
            subject,
            "does not exist; the broker does not report whether relay may create it",
        )
    return Finding(
        CheckState.FAILED,
        subject,
        "does not exist, and relay may not create it; grant CREATE on it, or create it",
    )


def _unseen(topic: TopicDescription, needed: tuple[Operation, ...]) -> str:
    if topic.code == _NOT_ALLOWED_TOPIC:
        return f"may not be seen, whether it exists or not; grant {_names(needed)} on it"
    return f"cannot be used: {topic.error}; check the broker's log"


def _judged(
    subject: str, topic: TopicDescription, needed: tuple[Operation, ...], wrong: list[str]
) -> Finding:
    """Judge an existing topic by the problems in `wrong`, its leaders, and the permitted operations."""
    if topic.leaderless:
        wrong.append(
            f"partitions {', '.join(map(str, topic.leaderless))} have no leader: "
            f"start the brokers that hold them"
        )
    refused = tuple(operation for operation in needed if allows(topic.operations, operation) is False)
    if refused:
        wrong.append(f"{_names(refused)} is not allowed: grant it on the topic")
    if wrong:
        return Finding(CheckState.FAILED, subject, "; ".join(wrong))
    count = len(topic.partitions)
    held = f"{count} partition{'s' if count != 1 else ''}"
    if topic.operations == UNKNOWN_OPERATIONS:
        return Finding(CheckState.UNTESTED, subject, f"{held}; {unreported(_names(needed))}")
    return Finding(CheckState.OK, subject, f"{held}, {_names(needed)} allowed")


def _names(operations: tuple[Operation, ...]) -> str:
    return " and ".join(operation.name for operation in operations)


def _topic_warnings(
    wanted: RequiredTopic, found: TopicInfo, sources: Mapping[str, TopicInfo], config: Config
) -> Iterator[Finding]:
    """Report notable facts about a usable topic to the operator."""
    # A source topic whose settings may not be read cannot be compared.
    known = {name: each for name, each in sources.items() if each.settings is not None}
    for text in warnings(wanted, found, known, config):
        state = CheckState.UNTESTED if found.settings is None else CheckState.NOTE
        yield Finding(state, f"{wanted.role} {wanted.name}", text)


async def _table_topic_warnings(
    config: Config, target: ClusterInspection, sources: Mapping[str, TopicInfo], others: Collection[str]
) -> list[Finding]:
    """Report notable facts about topics of tables to the operator: existing ones, and those to be created."""
    subject = "target topics of tables"
    try:
        found = await topics_of_tables(config, TopicAdmin(target.brokers), others)
    except BrokerUnavailable as error:
        return [Finding(CheckState.UNTESTED, subject, str(error))]
    return [Finding(CheckState.NOTE, subject, text) for text in table_topic_warnings(config, found, sources)]


async def _writer(cluster: ClusterInspection, config: Config) -> Finding:
    """Return whether the producer that the route needs is allowed."""
    if config.is_exactly_once:
        subject = f"target transactional id {config.transactional_id}"
        grant = "grant WRITE on the transactional id"
        answer = await cluster.may_use_transactional_id(config.transactional_id)
        allowed, refused = "WRITE allowed", "WRITE is not allowed"
    else:
        subject = "target producer"
        grant = "grant WRITE on the target topics (IDEMPOTENT_WRITE on the cluster before Kafka 2.8)"
        answer = await cluster.may_write_idempotently()
        allowed, refused = "idempotent writing allowed", "idempotent writing is not allowed"
    if isinstance(answer, str):
        return Finding(CheckState.UNTESTED, subject, answer)
    if not answer:
        return Finding(CheckState.FAILED, subject, f"{refused}; {grant}")
    if config.is_exactly_once and (problem := await _too_long(cluster, config)):
        return Finding(CheckState.FAILED, subject, problem)
    return Finding(CheckState.OK, subject, allowed)


async def _too_long(cluster: ClusterInspection, config: Config) -> str:
    """Return a text if the brokers' transaction timeout is shorter than relay's.

    Returns "" if it suffices or is unknown.
    """
    longest_ms = await cluster.longest_transaction_ms(config.transactional_id)
    wanted_ms = int(1000 * transactional_settings(config).transaction_timeout_seconds)
    if longest_ms is None or wanted_ms <= longest_ms:
        return ""
    return (
        f"transactions may last {wanted_ms} ms, and transaction.max.timeout.ms of the brokers is "
        f"{longest_ms}: raise it, or lower delivery_timeout_seconds in [delivery]"
    )


async def diagnosis(brokers: Brokers) -> str:
    """Return why no broker of a cluster can be used, address by address; empty if one can."""
    cluster = ClusterInspection(brokers)
    with _quiet_client():
        try:
            await cluster.connect()
        finally:
            await cluster.close()
    wrong = [f"{address}: {problem}" for address, problem in cluster.bootstrap.items() if problem]
    wrong += map(str, brokers.problems)
    return "" if cluster.is_reached else ". ".join(wrong)


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Suppress warnings of aiokafka: the findings are more specific."""
    logger = logging.getLogger("aiokafka")
    nobody = logging.NullHandler()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(nobody)
    try:
        yield
    finally:
        logger.removeHandler(nobody)
        logger.propagate = propagate
