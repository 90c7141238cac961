"""Topics that relay keeps for itself, and rights, on a real Apache Kafka: creation, errors and reports."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from secured_support import TOPIC, Secured
from service.topics_support import (
    dead_letters,
    exists,
    new_name,
    refusal,
    settings_of,
    two_clusters,
    without_history,
)

from relay.demo.kafka import Cluster
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.requests import Operation
from relay.io.kafka.sizes import DEFAULT_LIMIT_BYTES
from relay.model.errors import BrokerUnavailable
from relay.topics.plan import HEADER_RESERVE_BYTES
from relay.topics.startup import check_topics

pytestmark = pytest.mark.kafka


# ---------------------------------------------------------------- the relay's own topics


async def test_the_schema_history_is_created_compacted(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target)
    assert (await check_topics(config)).created == (config.history_topic,)
    settings = await settings_of(kafka, config.history_topic)
    assert settings["cleanup.policy"] == "compact"
    assert len(await kafka.partitions(config.history_topic)) == 1


async def test_without_a_history_topic_none_is_created(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    topics = await check_topics(make_config(source, target, **without_history()))
    assert (topics.created, list(topics.limits)) == ((), [target])


async def test_the_dead_letter_topic_keeps_what_the_sources_take_for_ever(
    kafka: Any, make_config: Any
) -> None:
    small, large = await kafka.topic(1), await kafka.topic(3, max_message_bytes="3000000")
    target, name = await kafka.topic(3), new_name()
    config = make_config(
        small, target, source_topics=[small, large], **without_history(), **dead_letters(name)
    )
    topics = await check_topics(config)
    assert topics.created == (name,)
    assert topics.target_partitions[name] == 3
    assert topics.limits[name] == 3_000_000 + HEADER_RESERVE_BYTES
    settings = await settings_of(kafka, name)
    assert (settings["retention.ms"], settings["cleanup.policy"]) == ("-1", "delete")


async def test_a_dead_letter_topic_that_no_policy_uses_is_not_created(kafka: Any, make_config: Any) -> None:
    source, target, name = await kafka.topic(), await kafka.topic(), new_name()
    topics = await check_topics(
        make_config(source, target, errors_dead_letter_topic=name, **without_history())
    )
    assert topics.created == ()
    assert not await exists(kafka, name)


async def test_dead_letter_topics_may_have_fewer_partitions_but_not_lose_letters(
    kafka: Any, make_config: Any
) -> None:
    source, target = await kafka.topic(3), await kafka.topic(3)
    one = await kafka.topic(1)
    topics = await check_topics(make_config(source, target, **without_history(), **dead_letters(one)))
    assert topics.target_partitions[one] == 1
    compacted = await kafka.topic(cleanup_policy="compact")
    message = await refusal(make_config(source, target, **without_history(), **dead_letters(compacted)))
    assert f"dead-letter topic {compacted} is compacted" in message


async def test_a_dead_letter_topic_with_a_smaller_limit_than_the_source_is_reported(
    kafka: Any, make_config: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    name = await kafka.topic(max_message_bytes="1000000", retention_ms="1000")
    warnings = (
        await check_topics(make_config(source, target, **without_history(), **dead_letters(name)))
    ).warnings
    assert len(warnings) == 2
    assert (
        f"dead-letter topic {name} accepts 1000000 bytes, but a source topic accepts 1048588" in warnings[0]
    )
    assert f"topic {name} deletes records after 1 second" in warnings[1]


async def test_the_progress_topic_is_for_exactly_once_between_two_clusters(
    kafka: Any, make_config: Any, broker: str
) -> None:
    source, target, name = await kafka.topic(), await kafka.topic(), new_name()
    settings = two_clusters(broker, name)
    one = {key: value for key, value in settings.items() if key != "target_bootstrap_servers"}
    assert (await check_topics(make_config(source, target, **without_history(), **one))).created == ()
    topics = await check_topics(make_config(source, target, **without_history(), **settings))
    assert topics.created == (name,)
    assert topics.target_partitions[name] == 1
    assert (await settings_of(kafka, name))["cleanup.policy"] == "compact"


@pytest.mark.parametrize("kind", ["schema history", "progress topic"])
@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ((1, "delete"), "has cleanup.policy=delete, which deletes records that relay"),
        ((1, "compact,delete"), "has cleanup.policy=compact,delete"),
        ((2, "compact"), "has 2 partitions, but must have 1"),
    ],
)
async def test_logs_of_relay_that_lose_records_or_their_order_are_refused(
    kafka: Any, make_config: Any, broker: str, kind: str, topic: tuple[int, str], text: str
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    name = await kafka.topic(topic[0], cleanup_policy=topic[1])
    settings = (
        {"schema_history_topic": name}
        if kind == "schema history"
        else two_clusters(broker, name) | without_history()
    )
    assert f"{kind} {name} {text}" in await refusal(make_config(source, target, **settings))


async def test_the_same_name_in_two_clusters_is_two_topics(
    own_cluster: Cluster, kafka: Any, make_config: Any, kafka_at: Any
) -> None:
    source, servers = await kafka.topic(4), own_cluster.bootstrap_servers
    config = make_config(
        source,
        "{topic}",
        target_bootstrap_servers=servers,
        target_partitions=2,
        target_create_topics=True,
    )
    topics = await check_topics(config)
    assert (topics.sources[source].partitions, topics.target_partitions[source]) == (4, 2)
    async with kafka_at(servers) as other:
        assert len(await other.partitions(source)) == 2


# ---------------------------------------------------------------- rights and brokers


def refusing(monkeypatch: pytest.MonkeyPatch, code: int, times: int = 1_000) -> list[int]:
    """Have the broker's answer to the creation of topics be an error code, so many times."""
    left = [times]
    original = AIOKafkaAdminClient.create_topics

    async def create_topics(self: Any, new_topics: list[Any], *args: Any, **more: Any) -> Any:
        if left[0] == 0:
            return await original(self, new_topics, *args, **more)
        left[0] -= 1

        return SimpleNamespace(topic_errors=[(topic.name, code, None) for topic in new_topics])

    monkeypatch.setattr(AIOKafkaAdminClient, "create_topics", create_topics)
    return left


NOT_AUTHORIZED, POLICY_VIOLATION, TIMED_OUT, NOT_CONTROLLER = 29, 44, 7, 41
FORBIDDEN: dict[str, tuple[Callable[[str], dict[str, Any]], str, str]] = {
    "target": (lambda _: {"target_create_topics": True, "schema_history_topic": ""}, "target topic", ""),
    "history": (
        lambda name: {"schema_history_topic": name},
        "schema history",
        'or set history_topic = "" in [schema] to run without it',
    ),
    "dead letters": (
        lambda name: dead_letters(name) | without_history(),
        "dead-letter topic",
        "or use other policies than dead-letter in [errors]",
    ),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
@pytest.mark.parametrize("code", [NOT_AUTHORIZED, POLICY_VIOLATION])
async def test_a_topic_that_may_not_be_created_is_reported_with_the_command(
    kafka: Any, make_config: Any, broker: str, monkeypatch: pytest.MonkeyPatch, kind: str, code: int
) -> None:
    settings, role, without = FORBIDDEN[kind]
    name = new_name()
    source, target = await kafka.topic(2), name if kind == "target" else await kafka.topic(2)
    refusing(monkeypatch, code)
    message = await refusal(make_config(source, target, **settings(name)))
    assert (
        f"{role} {name} does not exist at {broker} and cannot be created: {text_of(for_code(code)())}"
        in message
    )
    count = 1 if kind == "history" else 2
    assert (
        f"kafka-topics.sh --bootstrap-server {broker} --create --topic {name} --partitions {count}" in message
    )
    assert ("grant CREATE" in message) == (code == NOT_AUTHORIZED)
    assert ("--config cleanup.policy=compact" in message) == (kind == "history")
    assert without in message


@pytest.mark.parametrize("code", [TIMED_OUT, NOT_CONTROLLER])
async def test_creating_goes_on_when_the_controller_moves_or_is_slow(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    source, target = await kafka.topic(), new_name()
    left = refusing(monkeypatch, code, times=3)
    assert (await check_topics(make_config(source, target, target_create_topics=True))).target_partitions[
        target
    ] == 1
    assert left == [0]


async def test_without_a_right_the_topic_and_the_right_are_named(secured: Secured) -> None:
    """With real ACLs: nothing allowed, then DESCRIBE without CREATE."""
    source, target = await secured.topic(2), new_name()
    config = secured.config("SASL_SSL", source, target, secured.security())
    config = config.model_copy(update={"target": config.target.model_copy(update={"create_topics": True})})
    message = await refusal(config)
    for name in (source, target):
        assert (
            f"topic {name} at {config.target_servers} cannot be used: not visible; grant DESCRIBE on it"
            in message
        )
    await secured.grant(TOPIC, source, Operation.READ)
    await secured.grant(TOPIC, target, Operation.WRITE)
    message = await refusal(config)
    assert f"target topic {target} does not exist" in message
    assert "grant CREATE on it, or create it: kafka-topics.sh" in message
    await secured.grant(TOPIC, target, Operation.CREATE)
    topics = await check_topics(config)
    assert topics.target_partitions[target] == 2
    assert topics.limits[target] == DEFAULT_LIMIT_BYTES
    (warning,) = topics.warnings
    assert f"the settings of topic {target} are unknown: relay is not authorized to read them" in warning
    assert "grant DESCRIBE_CONFIGS" in warning
    await secured.grant(TOPIC, target, Operation.DESCRIBE_CONFIGS)
    await secured.grant(TOPIC, source, Operation.DESCRIBE_CONFIGS)
    assert (await check_topics(config)).warnings == ()


async def test_no_broker(make_config: Any) -> None:
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        await check_topics(make_config("a", "b", source_bootstrap_servers="127.0.0.1:1"))


async def test_no_target_broker(kafka: Any, make_config: Any) -> None:
    source = await kafka.topic()
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        await check_topics(make_config(source, "b", target_bootstrap_servers="127.0.0.1:1"))
