"""Source topics by a pattern on a real Apache Kafka: found at the start, joined later, gone, and never relay's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from secured_support import GROUP, TOPIC, Secured
from service.topics_support import exists, new_name, refusal
from service.transport_support import both_modes
from support import record, row_message

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.io.kafka.clients import Clusters
from relay.io.kafka.requests import Operation
from relay.model.errors import TopicUnusable
from relay.service.check import CheckState, Finding
from relay.service.check.route import preflight
from relay.service.commands.offsets import open_route_offsets
from relay.service.observe.report import details
from relay.topics.matching import with_found_topics
from relay.topics.startup import check_topics

pytestmark = pytest.mark.kafka
MODES: Mapping[str, Mapping[str, Any]] = {
    "at-least-once": {},
    "exactly-once": {"delivery_mode": "exactly-once", "delivery_transaction_interval_seconds": 0.05},
}


@pytest.fixture
def prefix() -> str:
    """The beginning of the names of a test's topics."""
    return new_name()


class Topics:
    """A route of all topics that begin with a prefix and a dot; each goes to NAME.out."""

    def __init__(self, kafka: Any, prefix: str, config: Config) -> None:
        self.kafka, self.prefix, self.config = kafka, prefix, config

    async def make(self, *names: str, count: int = 3) -> None:
        """Create topics, each with rows."""
        for name in names:
            await self.kafka.topic(1, name=f"{self.prefix}.{name}")
            await self.fill(name, count)

    async def fill(self, name: str, count: int = 3, start: int = 0) -> None:
        rows = [
            record(row_message({"id": "int"}, {"id": str(at)}, pkNames=["id"]) | {"table": name}, offset=at)
            for at in range(start, start + count)
        ]
        await self.kafka.produce(f"{self.prefix}.{name}", rows)

    async def until_written(self, name: str, count: int, relay: Any) -> None:
        """Wait until the target of a topic has so many records."""

        async def is_so() -> bool:
            assert not relay.has_ended, relay.log.events[-5:]
            target = f"{self.prefix}.{name}.out"
            if not await exists(self.kafka, target):
                return False
            return len(await self.written(name)) >= count

        await self.kafka.until(is_so)

    async def written(self, name: str) -> list[Any]:
        found: list[Any] = await self.kafka.read(f"{self.prefix}.{name}.out", committed=True)
        return found

    async def names(self) -> list[str]:
        """The topics with the prefix, without it."""
        every = await self.kafka.topics()
        return sorted(
            name.removeprefix(f"{self.prefix}.") for name in every if name.startswith(f"{self.prefix}.")
        )


@pytest.fixture
def topics(kafka: Any, prefix: str, make_config: Any) -> Any:
    def make(mode: str = "at-least-once", **more: Any) -> Topics:
        settings: dict[str, Any] = {
            "source_topics_pattern": rf"{prefix}\..*",
            "source_exclude_topics_pattern": rf"{prefix}\.audit_.*",
            "errors_decode": "dead-letter",
            "errors_dead_letter_topic": f"{prefix}.dead",
            "schema_history_topic": f"{prefix}.history",
            "target_create_topics": True,
        }
        given = {**settings, "source_metadata_max_age_ms": 300, **MODES[mode], **more}
        return Topics(kafka, prefix, make_config("", "{topic}.out", **given))

    return make


def source_names(relay: Any) -> list[str]:
    """The topics that the status page shows."""
    return [name.rpartition(".")[2] for name in details(relay.status)["route"]["topics"]]


@both_modes
async def test_topics_join_a_running_relay(mode: str, topics: Any, run_relay: Any) -> None:
    """No record is missing or repeated, of topics from before, while running and while stopped.

    relay reads no topic that it writes: targets, dead letters and the history match the pattern, too.
    """
    route = topics(mode, source_start="latest")
    await route.make("a", "b", "audit_log", count=0)
    relay = run_relay(route.config, None)
    await route.kafka.until(lambda: _opened(relay, 2))
    await route.fill("a")
    await route.until_written("a", 3, relay)
    await route.make("c", "d")
    for name in "cd":
        await route.until_written(name, 3, relay)
    await route.fill("b")
    await route.until_written("b", 3, relay)
    assert source_names(relay) == ["a", "b", "c", "d"]
    assert set(relay.status.consumption) == {f"{route.prefix}.{name}" for name in "abcd"}
    assert await relay.stop() == 0
    await route.make("e")
    relay = run_relay(route.config, None)
    await route.until_written("e", 3, relay)
    await route.fill("a", start=3)
    await route.until_written("a", 6, relay)
    assert await relay.stop() == 0
    counts = {name: len(await route.written(name)) for name in "abcde"}
    assert counts == {"a": 6, "b": 3, "c": 3, "d": 3, "e": 3}
    own = ["dead", "history"]
    assert await route.names() == sorted([*"abcde", "audit_log", *(f"{name}.out" for name in "abcde"), *own])


async def _opened(relay: Any, count: int) -> bool:
    return sum(len(each["offsets"]) for each in relay.log.named("partitions.opened")) >= count


async def test_nothing_matches_yet_and_a_new_topic_cannot_be_relayed(topics: Any, run_relay: Any) -> None:
    """Relay waits for the first topic; one without a target does not disturb the others, and joins later."""
    route = topics(target_create_topics=False)
    relay = run_relay(route.config, None)

    async def waits() -> bool:
        assert not relay.has_ended, relay.log.events[-5:]
        return "source-topics" in relay.status.checks

    await route.kafka.until(waits)
    check = relay.status.checks["source-topics"]
    assert not check.ok
    assert f"matches topics_pattern {route.config.source.topics_pattern}" in check.detail
    assert details(relay.status)["ready"] is False
    await route.kafka.topic(1, name=f"{route.prefix}.a.out")
    await route.make("a")
    await route.until_written("a", 3, relay)
    assert relay.status.checks["source-topics"].ok
    await route.make("b")

    async def is_refused() -> bool:
        return "new-topics" in relay.status.checks

    await route.kafka.until(is_refused)
    assert f"topic {route.prefix}.b.out does not exist" in relay.status.checks["new-topics"].detail
    await route.fill("a", start=3)
    await route.until_written("a", 6, relay)
    await route.kafka.topic(1, name=f"{route.prefix}.b.out")
    await route.until_written("b", 3, relay)
    assert relay.status.checks["new-topics"].ok
    assert await relay.stop() == 0


@pytest.fixture
async def secured_kafka(secured: Secured, kafka_at: Any) -> AsyncIterator[Any]:
    async with kafka_at(secured.address("PLAINTEXT")) as kafka:
        yield kafka


async def test_a_new_topic_that_relay_may_not_read(
    secured: Secured, secured_kafka: Any, prefix: str, run_relay: Any
) -> None:
    """It is refused with its reason, the others are not affected, and it joins with the permission."""
    security = secured.security()
    config = secured.config("SASL_SSL", prefix, "{topic}.out", security, target={"security": security})
    found_by = {"topics": (), "topics_pattern": rf"{prefix}\.[a-z]", "metadata_max_age_ms": 300}
    config = config.model_copy(update={"source": config.source.model_copy(update=found_by)})
    await secured.grant(GROUP, config.source.group_id, Operation.READ)
    route = Topics(secured_kafka, prefix, config)
    for name in "ab":
        await route.kafka.topic(1, name=f"{prefix}.{name}.out")
        await secured.grant(TOPIC, f"{prefix}.{name}.out", Operation.WRITE)
    await secured.grant(TOPIC, f"{prefix}.a", Operation.READ)
    await secured.grant(TOPIC, f"{prefix}.b", Operation.DESCRIBE)
    await route.make("a")
    relay = run_relay(config, None)
    await route.until_written("a", 3, relay)
    await route.make("b")

    async def is_refused() -> bool:
        assert not relay.has_ended, relay.log.events[-5:]
        return "new-topics" in relay.status.checks

    await route.kafka.until(is_refused)
    assert "cannot be read: grant READ on it" in relay.status.checks["new-topics"].detail
    await route.fill("a", start=3)
    await route.until_written("a", 6, relay)
    await secured.grant(TOPIC, f"{prefix}.b", Operation.READ)
    await route.until_written("b", 3, relay)
    assert await relay.stop() == 0


@both_modes
async def test_members_and_deleted_topics(mode: str, topics: Any, run_relay: Any) -> None:
    """Two members, or shards, share the topics that join; one that is deleted leaves the others undisturbed."""
    route = topics(mode)
    await route.make("a", "b")
    configs = (
        [route.config] * 2 if mode == "at-least-once" else [route.config.as_shard(at, 2) for at in (0, 1)]
    )
    relays = [run_relay(each, None) for each in configs]
    for name in "ab":
        await route.until_written(name, 3, relays[0])
    await route.kafka.topic(2, name=f"{route.prefix}.c")
    await route.fill("c")
    await route.until_written("c", 3, relays[1])
    await route.kafka.delete_topic(f"{route.prefix}.a")
    for relay in relays:
        await route.kafka.until(lambda relay=relay: _logged(relay, "topics.gone"))
    await route.fill("b", start=3)
    await route.until_written("b", 6, relays[0])
    for relay in relays:
        assert source_names(relay) == ["b", "c"]
        assert relay.status.checks.get("new-topics") is None
        assert await relay.stop() == 0
    written = [each for name in "bc" for each in await route.written(name)]
    assert max(Counter(each.headers for each in written).values()) == 1


async def test_a_topic_is_deleted_before_its_offsets_are_committed(topics: Any, run_relay: Any) -> None:
    """No broker takes them any more: relay does not wait for that."""
    route = topics(delivery_commit_interval_seconds=60)
    await route.make("a", "b")
    relay = run_relay(route.config, None)
    for name in "ab":
        await route.until_written(name, 3, relay)
    await route.kafka.delete_topic(f"{route.prefix}.a")
    await route.fill("b", start=3)
    await route.kafka.until(lambda: _logged(relay, "topics.gone"))
    await route.until_written("b", 6, relay)
    assert await relay.stop() == 0
    assert not relay.log.named("commit.timeout")


async def _logged(relay: Any, event: str) -> bool:
    assert not relay.has_ended, relay.log.events[-5:]
    return bool(relay.log.named(event))


async def test_two_addresses_of_one_cluster(topics: Any) -> None:
    """Relay finds out that it would read what it writes, although no target exists yet."""
    other = topics().config.source.bootstrap_servers.replace("127.0.0.1", "localhost")
    route = topics(target_bootstrap_servers=other, target_topic="{topic}.{table}.out")
    await route.make("a.b.out", count=0)
    refused = await refusal(await with_found_topics(route.config))
    assert "are one cluster, and this route may write" in refused
    assert refused.count(f"{route.prefix}.a.b.out") == 1


async def test_a_target_that_was_deleted_is_not_created_for_a_new_topic(topics: Any) -> None:
    route = topics(target_topic=new_name())
    await route.make("a", count=0)
    config = await with_found_topics(route.config)
    with pytest.raises(TopicUnusable, match="was deleted while relay was running"):
        await check_topics(config, known={config.target.topic})
    assert (await check_topics(config)).created[0] == config.target.topic


async def test_check_names_what_matches(topics: Any) -> None:
    route = topics()
    clusters = Clusters.from_settings(source_cluster(route.config), target_cluster(route.config))

    async def findings() -> list[Finding]:
        found = await preflight(route.config, clusters)
        assert not [each for each in found if each.state is CheckState.FAILED]
        return [each for each in found if each.subject.startswith("source topic")]

    (finding,) = await findings()
    assert finding.state is CheckState.UNTESTED
    assert finding.text.endswith("; relay waits for one")
    await route.make(*(f"t{at}" for at in range(21)), count=0)
    await route.make("t0.out", count=0)
    chosen, unread, *others = await findings()
    assert chosen.state is CheckState.OK
    assert chosen.text.startswith("21 topics of ")
    assert unread.text == f"not read, because this route may write them: {route.prefix}.t0.out"
    (joined,) = others
    assert joined.subject.endswith(" and 1 more")
    assert joined.text == "1 partition, READ allowed"
    async with open_route_offsets(route.config) as offsets:
        assert len(offsets.partitions) == len(await offsets.read()) == 21
