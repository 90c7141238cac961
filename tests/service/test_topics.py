"""Target topics before the start, on a real Apache Kafka: creation, errors and reports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from broker_support import broker_options
from service.topics_support import exists, new_name, refusal, settings_of, without_history

from relay.demo.kafka import Cluster
from relay.io.kafka.admin import ClusterTopics, TopicAdmin
from relay.io.kafka.settings import Timeouts
from relay.io.kafka.sizes import DEFAULT_LIMIT_BYTES
from relay.model.records import ConsumerRecord
from relay.topics.startup import Topics, check_topics

pytestmark = pytest.mark.kafka

#: Which protocols keys are good for what in a compacted topic.
NO_KEYS, MESSAGE_KEYS, ROW_KEYS = (
    ("ticdc-canal-json", "canal-json", "ckafka-json"),
    ("ticdc-open-protocol",),
    ("ticdc-debezium",),
)


# ---------------------------------------------------------------- what is known


async def test_partitions_and_limits_of_all_topics_are_given(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(2), await kafka.topic(3, max_message_bytes="1000000")
    config = make_config(source, target)
    topics = await check_topics(config)
    history = config.history_topic
    assert topics == Topics(
        limits={target: 1_000_000, history: DEFAULT_LIMIT_BYTES},
        compacted=frozenset({history}),
        sources=topics.sources,
        target_partitions={target: 3, history: 1},
        created=(history,),
    )
    assert topics.sources[source].partitions == 2
    assert await check_topics(config) == msgspec.structs.replace(topics, created=())


async def test_what_is_found_is_logged(kafka: Any, make_config: Any, list_log: Any) -> None:
    source, target = await kafka.topic(), await kafka.topic(message_timestamp_type="LogAppendTime")
    config = make_config(source, target)
    (await check_topics(config)).tell(list_log)
    assert [each["event"] for each in list_log.events] == ["topics.created", "topics.warning"]
    assert list_log.events[0]["topics"] == [config.history_topic]
    assert target in list_log.events[1]["message"]


# ---------------------------------------------------------------- sources


async def test_start_offsets_are_for_partitions_that_exist(kafka: Any, make_config: Any) -> None:
    """Or a misspelled one would be passed over, and everything read again."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    settings = without_history(
        source_start="offsets", source_start_offsets={f"{source}/1": 4, f"{source}/2": 0, f"{source}/7": 4}
    )
    message = await refusal(make_config(source, target, **settings))
    assert message == (
        f"start_offsets in [source] names {source}/2, {source}/7, and topic {source} has the partitions 0 to 1: correct the numbers"
    )
    settings["source_start_offsets"] = {f"{source}/0": 0, f"{source}/1": 4}
    assert (await check_topics(make_config(source, target, **settings))).sources[source].partitions == 2


# ---------------------------------------------------------------- targets


async def test_missing_topics_are_reported_together(kafka: Any, make_config: Any) -> None:
    config = make_config("no-such-source", "no-such-target", **without_history())
    message = await refusal(config)
    for text in (
        "no-such-source does not exist",
        "no-such-target does not exist",
        "create it",
        "create_topics = true",
    ):
        assert text in message


async def test_a_look_creates_nothing_where_brokers_create_what_is_asked_for(
    tmp_path: Path, make_config: Any
) -> None:
    """With auto.create.topics.enable the client's own look at a missing topic would create it, with one
    partition.
    """
    options = broker_options(properties="auto.create.topics.enable=true\n")
    with Cluster(tmp_path / "kafka", options=options) as cluster:
        config = make_config(
            "a", "b", source_bootstrap_servers=cluster.bootstrap_servers, **without_history()
        )
        for _ in range(2):
            assert "b does not exist" in await refusal(config)


async def test_too_few_partitions_are_refused(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(3), await kafka.topic(2)
    assert f"{target} has 2 partitions, but {source} has 3" in await refusal(make_config(source, target))
    message = await refusal(make_config(source, target, target_partitions=4))
    assert f"{target} has 2 partitions, but `partitions` in [target] is 4" in message
    assert (await check_topics(make_config(source, target, target_partitions=2))).target_partitions[
        target
    ] == 2


async def test_a_target_of_several_sources_needs_the_partitions_of_the_largest(
    kafka: Any, make_config: Any
) -> None:
    small, large, target = await kafka.topic(1), await kafka.topic(3), new_name()
    config = make_config(small, target, source_topics=[small, large], target_create_topics=True)
    assert (await check_topics(config)).target_partitions[target] == 3


@pytest.mark.parametrize("partitions", [0, 5])
async def test_a_missing_target_is_created(kafka: Any, make_config: Any, partitions: int) -> None:
    source, target = await kafka.topic(3), new_name()
    config = make_config(
        source,
        target,
        target_create_topics=True,
        target_partitions=partitions,
        target_create_replication_factor=1,
        target_create_settings={"retention.ms": -1, "max.message.bytes": 2_000_000},
    )
    topics = await check_topics(config)
    assert topics.created == (target, config.history_topic)
    assert topics.target_partitions[target] == (partitions or 3)
    assert topics.limits[target] == 2_000_000
    assert topics.warnings == ()
    assert (await settings_of(kafka, target))["retention.ms"] == "-1"
    # It can be written at once.
    await kafka.produce(target, [])
    assert len(await kafka.partitions(target)) == (partitions or 3)


async def test_nothing_is_created_while_something_else_is_wrong(kafka: Any, make_config: Any) -> None:
    good, bad = new_name(), await kafka.topic(1)
    first, second = f"{good}-source", await kafka.topic(2)
    config = make_config(first, good, source_topics=[first, second], target_create_topics=True)
    assert f"{first} does not exist" in await refusal(config)
    config = make_config(second, bad, target_create_topics=True)
    assert f"{bad} has 1 partition" in await refusal(config)
    assert not await exists(kafka, good)
    assert not await exists(kafka, config.history_topic)


async def test_two_instances_that_create_at_the_same_moment_both_start(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(2), new_name()
    config = make_config(source, target, target_create_topics=True)
    found = await asyncio.gather(*[check_topics(config) for _ in range(4)])
    assert {topics.target_partitions[target] for topics in found} == {2}


@pytest.mark.parametrize(
    ("settings", "words", "advice"),
    [
        (
            {"target_create_settings": {"no.such.setting": "1"}},
            "no.such.setting",
            "correct create_settings in [target]",
        ),
        (
            {"target_create_settings": {"retention.ms": "soon"}},
            "retention.ms",
            "correct create_settings in [target]",
        ),
        ({"target_create_replication_factor": 3}, "replication", "set create_replication_factor in [target]"),
    ],
)
async def test_a_target_that_the_broker_does_not_create(
    kafka: Any, make_config: Any, settings: dict[str, Any], words: str, advice: str
) -> None:
    source, target = await kafka.topic(), new_name()
    message = await refusal(
        make_config(source, target, target_create_topics=True, **without_history(), **settings)
    )
    assert f"target topic {target} does not exist" in message
    assert words in message
    assert advice in message
    assert not await exists(kafka, target)


# ---------------------------------------------------------------- compaction


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("protocol", [*NO_KEYS, *MESSAGE_KEYS])
async def test_a_compacted_target_is_refused_where_keys_are_no_row_keys(
    kafka: Any, make_config: Any, protocol: str, policy: str
) -> None:
    source, target = await kafka.topic(), await kafka.topic(cleanup_policy=policy)
    message = await refusal(make_config(source, target, route_to=protocol))
    assert f"topic {target} is compacted" in message
    assert ("brokers refuse records without a key" in message) == (protocol in NO_KEYS)
    assert "cleanup.policy=delete" in message


@pytest.mark.parametrize("protocol", ROW_KEYS)
async def test_a_compacted_target_with_row_keys_is_the_users_wish(
    kafka: Any, make_config: Any, protocol: str
) -> None:
    source, target = await kafka.topic(), await kafka.topic(cleanup_policy="compact")
    (warning,) = (await check_topics(make_config(source, target, route_to=protocol))).warnings
    assert f"topic {target} is compacted: " in warning
    assert "only the last message of each row" in warning


async def test_a_compacted_target_is_not_even_created(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(), new_name()
    config = make_config(
        source, target, target_create_topics=True, target_create_settings={"cleanup.policy": "compact"}
    )
    assert f"topic {target} is compacted" in await refusal(config)
    assert not await exists(kafka, target)


# ---------------------------------------------------------------- warnings of targets


Case = tuple[dict[str, str], dict[str, Any], list[str]]
WARNED: dict[str, Case] = {
    "nothing": ({}, {}, []),
    "batches": (
        {"max_message_bytes": "5000"},
        {},
        ["accepts 5000 bytes, less than max_batch_bytes (900000)"],
    ),
    "max-message-bytes by default": ({}, {"route_to": "ticdc-open-protocol"}, []),
    "max-message-bytes": (
        {},
        {"route_to": "ticdc-open-protocol", "route_to_options": {"max-message-bytes": 1_048_589}},
        ["accepts 1048588 bytes, less than max-message-bytes (1048589)"],
    ),
    "max-message-bytes that fits": (
        {},
        {"route_to": "ticdc-open-protocol", "route_to_options": {"max-message-bytes": 1_048_588}},
        [],
    ),
    "large messages above the limit": (
        {},
        {
            "route_to": "ticdc-open-protocol",
            "route_to_options": {"large-message-handle-option": "handle-key-only"},
        },
        ["less than max-message-bytes (10485760)"],
    ),
    "append time": (
        {"message_timestamp_type": "LogAppendTime", "retention_ms": "1000"},
        {},
        ["source timestamps are not kept"],
    ),
    "retention": (
        {"retention_ms": "60000"},
        {},
        ["deletes records after 1 minute, and its source keeps them forever"],
    ),
    "retention from the end on": ({"retention_ms": "60000"}, {"source_start": "latest"}, []),
    "oldest timestamp": (
        {"message_timestamp_before_max_ms": "60000"},
        {},
        ["refuses records older than 1 minute"],
    ),
}


@pytest.mark.parametrize("name", WARNED)
async def test_operators_are_informed(kafka: Any, make_config: Any, name: str) -> None:
    topic, settings, expected = WARNED[name]
    source, target = await kafka.topic(), await kafka.topic(**topic)
    warnings = (await check_topics(make_config(source, target, **settings))).warnings
    assert len(warnings) == len(expected)
    for warning, text in zip(warnings, expected, strict=True):
        assert f"topic {target}" in warning
        assert text in warning


async def test_retention_that_is_not_shorter_than_the_sources_loses_nothing(
    kafka: Any, make_config: Any
) -> None:
    source, target = await kafka.topic(retention_ms="50000"), await kafka.topic(retention_ms="50000")
    assert (await check_topics(make_config(source, target))).warnings == ()
    compacted = await kafka.topic(cleanup_policy="compact", retention_ms="1")
    assert "keeps them forever" in (await check_topics(make_config(compacted, target))).warnings[0]


@pytest.mark.parametrize(
    ("of_source", "given", "expected"),
    [
        ({"retention_ms": "1209600000"}, {}, "1209600000"),
        ({"retention_ms": "60000"}, {}, "60000"),
        ({"retention_ms": "-1"}, {}, "-1"),
        ({"cleanup_policy": "compact"}, {}, "-1"),
        ({"retention_ms": "-1"}, {"retention.ms": "86400000"}, "86400000"),
    ],
)
async def test_a_created_topic_keeps_records_as_long_as_its_source(
    kafka: Any, make_config: Any, of_source: dict[str, str], given: dict[str, str], expected: str
) -> None:
    """Records keep their timestamps: what the source still has must not be deleted from the target."""
    source, target = await kafka.topic(**of_source), new_name()
    config = make_config(source, target, target_create_topics=True, target_create_settings=given)
    topics = await check_topics(config)
    assert (await settings_of(kafka, target))["retention.ms"] == expected
    shorter = [each for each in topics.warnings if "deletes records after" in each]
    assert [
        f"topic {target} deletes records after 1 day, and its source keeps them forever" in each
        for each in shorter
    ] == ([True] if given else [])


# ---------------------------------------------------------------- the whole service


async def test_the_service_ends_with_the_reason(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(3), await kafka.topic(2)
    for config, code in (
        (make_config(source, target), "service.topic-unusable"),
        (make_config("a", "b", source_bootstrap_servers="127.0.0.1:1"), "service.broker-unavailable"),
    ):
        relay = run_relay(config, echo(target))
        assert await relay.ended() == 3
        assert [each["code"] for each in relay.log.named("relay.failed")] == [code]


async def test_the_service_creates_its_target_and_writes_to_it(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), new_name()
    await kafka.produce(source, [ConsumerRecord("", at % 2, 0, 1, None, b"%d" % at) for at in range(10)])
    settings = {"target_create_topics": True, "target_create_settings": {"retention.ms": -1}}
    relay = run_relay(make_config(source, target, **settings), echo(target))
    await kafka.until(lambda: exists(kafka, target))
    assert len(await kafka.read(target, at_least=10)) == 10
    assert await relay.stop() == 0
    (created,) = relay.log.named("topics.created")
    assert created["topics"] == [target, relay.config.history_topic]


@pytest.mark.parametrize("role", ["target", "history"])
async def test_a_broker_that_does_not_know_a_new_topic_yet_is_asked_again(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """Brokers learn of a new topic one after the other, and each look may ask another one."""
    source, target = await kafka.topic(2), new_name()
    config = make_config(source, target, target_create_topics=True)
    late, look, asked = target if role == "target" else config.history_topic, TopicAdmin.look, 0

    async def look_late(self: TopicAdmin, names: Any) -> ClusterTopics:
        nonlocal asked
        seen = await look(self, names)
        if late not in seen.found:
            return seen
        asked += 1
        # The first three that are asked after it was created do not know it.
        found = {name: topic for name, topic in seen.found.items() if name != late or asked > 3}
        return msgspec.structs.replace(seen, found=found)

    monkeypatch.setattr(TopicAdmin, "look", look_late)
    topics = await check_topics(config)
    assert late in topics.created
    assert topics.target_partitions[late] == (2 if role == "target" else 1)
    assert asked == 4


async def test_a_topic_that_stays_unknown_after_its_creation_is_reported(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = await kafka.topic(2), new_name()
    look = TopicAdmin.look

    async def look_elsewhere(self: TopicAdmin, names: Any) -> ClusterTopics:
        seen = await look(self, names)
        found = {name: topic for name, topic in seen.found.items() if name != target}
        return msgspec.structs.replace(seen, found=found)

    monkeypatch.setattr(TopicAdmin, "look", look_elsewhere)
    config = make_config(source, target, target_create_topics=True)
    message = await refusal(config, Timeouts(visible_seconds=0.5))
    assert (
        f"topic {target} at {kafka.bootstrap_servers} was created, but the brokers do not know it" in message
    )
