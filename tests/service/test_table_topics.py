"""Topics by table on a real Apache Kafka: made when their tables come, and filled as `relay translate` does."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka.admin import NewTopic
from service.topics_support import exists, settings_of
from support import captured, record, row_message
from typer.testing import CliRunner

from relay import ConsumerRecord
from relay.cli.commands import app
from relay.config import Config, load_config
from relay.config.kafka import source_cluster, target_cluster
from relay.config.wiring import translator_of
from relay.core.batching import Joiner
from relay.io.kafka.admin import ClusterTopics, TopicAdmin
from relay.io.kafka.clients import Clusters
from relay.service.check import CheckState
from relay.service.check.route import preflight
from relay.service.observe.report import summary
from relay.topics.startup import check_topics

pytestmark = pytest.mark.kafka

OPEN = "ticdc-open-protocol"
KEPT = {"retention.ms": "-1"}
ByPartition = dict[tuple[str, int], list[tuple[Any, ...]]]


def as_source(records: Iterable[ConsumerRecord], topic: str) -> list[ConsumerRecord]:
    """The records as they will stand in this topic."""
    counts: dict[int, int] = defaultdict(int)
    found = []
    for each in records:
        at = counts[each.partition]
        counts[each.partition] += 1
        time_ms = 1_700_000_000_000 + at
        found.append(msgspec.structs.replace(each, topic=topic, offset=at, timestamp_ms=time_ms))
    return found


def rows(*tables: str, **cells: str) -> list[ConsumerRecord]:
    """A row of each of these tables."""
    types = dict.fromkeys(cells, "text") | {"id": "int"}
    return [
        record(row_message(types, {"id": str(at), **cells}, pkNames=["id"]) | {"table": table}, offset=at)
        for at, table in enumerate(tables)
    ]


def expected(config: Config, records: Iterable[ConsumerRecord]) -> ByPartition:
    """What the translator makes of the records, by target partition."""
    found: ByPartition = defaultdict(list)
    translator = translator_of(config)
    made = [out for each in records for out in translator.translate(each)]
    if translator.route.joining is not None:
        joiner: Joiner[None] = Joiner(translator.route.joining)
        joined = [done for out in made for done in joiner.add(out, None)]
        made = [out for out, _ in [*joined, *joiner.close()]]
    for out in made:
        found[out.topic, out.partition].append((out.key, out.value, out.headers))
    return found


async def written(kafka: Any, topics: Iterable[str], *, committed: bool = False) -> ByPartition:
    found: ByPartition = defaultdict(list)
    for topic in set(topics):
        await kafka.until(functools.partial(kafka.has_no_open_transaction, topic))
        for each in await kafka.read(topic, committed=committed):
            found[each.topic, each.partition].append((each.key, each.value, each.headers))
    return found


async def relayed(kafka: Any, run_relay: Any, config: Config, count: int) -> Any:
    """Run until everything is committed."""
    relay = run_relay(config, None)

    async def is_done() -> bool:
        assert not relay.has_ended, relay.log.events[-2:]
        return sum(each.committed or 0 for each in relay.status.partitions.values()) >= count

    await kafka.until(is_done)
    assert await relay.stop() == 0
    return relay


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_every_table_has_its_topic_with_all_that_is_about_it(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source = await kafka.topic(3)
    config = make_config(
        source,
        "{topic}.{database}.{table}",
        route_from=OPEN,
        route_to="ticdc-canal-json",
        route_to_options={"enable-tidb-extension": "true"},
        delivery_mode=mode,
        target_create_topics=True,
        target_create_settings=KEPT | {"max.message.bytes": "500000"},
    )
    records = as_source(captured("ticdc/open-protocol.3-partitions/09_dml"), source)
    wanted = expected(config, records)
    topics = {topic for topic, _ in wanted}
    assert len(topics) == 3
    await kafka.produce(source, records)
    relay = await relayed(kafka, run_relay, config, len(records))
    assert await written(kafka, topics, committed=mode == "exactly-once") == wanted
    created = {topic for each in relay.log.named("topics.created") for topic in each["topics"]}
    assert topics <= created
    assert (await settings_of(kafka, min(topics)))["max.message.bytes"] == "500000"
    counted = relay.status.production["{topic}.{database}.{table}"].records
    assert counted == sum(map(len, wanted.values()))
    assert not topics & relay.status.production.keys()


async def test_rules_spread_a_table_over_partitions_of_its_own(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, hot = await kafka.topic(), await kafka.topic(4)
    rules = [
        {"match": "d.t", "topic": hot, "partitions": 4},
        {"match": "d.*", "topic": f"{source}.rest.{{table}}"},
    ]
    config = make_config(source, "{topic}.out", target_topics=rules, target_create_topics=True)
    records = as_source(rows(*["t", "u"] * 20), source)
    wanted = expected(config, records)
    assert len({partition for topic, partition in wanted if topic == hot}) > 1
    await kafka.produce(source, records)
    await relayed(kafka, run_relay, config, len(records))

    async def is_all_there() -> bool:  # a client may not know the partitions of a new topic at once
        return await written(kafka, {topic for topic, _ in wanted}) == wanted

    await kafka.until(is_all_there)
    assert await exists(kafka, f"{source}.out")


@pytest.mark.parametrize("target_topic", ["{name}.{{database}}.{{table}}", "{name}.{{table}}"])
async def test_a_topic_that_two_sources_feed_has_the_partitions_of_the_larger(
    kafka: Any, make_config: Any, run_relay: Any, target_topic: str
) -> None:
    """As of Debezium, whose statements come in a topic of one partition."""
    statements, source = await kafka.topic(), await kafka.topic(3)
    topic = target_topic.format(name=source)
    both = [statements, source]
    config = make_config(source, topic, source_topics=both, target_create_topics=True)
    first = as_source(rows("t"), statements)
    rest = as_source([each for at in range(3) for each in replaced(rows("t"), at)], source)
    wanted = expected(config, [*first, *rest])
    await kafka.produce(statements, first)
    relay = run_relay(config, None)

    async def is_there() -> bool:
        return await exists(kafka, min(wanted)[0])

    await kafka.until(is_there)
    await kafka.produce(source, rest)

    async def is_done() -> bool:
        assert not relay.has_ended, relay.log.events[-2:]
        return sum(each.committed or 0 for each in relay.status.partitions.values()) >= 4

    await kafka.until(is_done)
    assert await relay.stop() == 0
    found = await written(kafka, {topic for topic, _ in wanted})
    assert {at: sorted(made) for at, made in found.items()} == {
        at: sorted(made) for at, made in wanted.items()
    }


def replaced(records: Iterable[ConsumerRecord], partition: int) -> list[ConsumerRecord]:
    """The records in this partition."""
    return [msgspec.structs.replace(each, partition=partition) for each in records]


async def test_rows_of_a_table_are_joined_in_its_topic(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source = await kafka.topic()
    config = make_config(
        source,
        "{topic}.{table}",
        route_to=OPEN,
        route_to_options={"max-batch-size": "8"},
        target_create_topics=True,
        target_create_settings=KEPT,
    )
    records = as_source(rows(*["t", "u"] * 32), source)
    wanted = expected(config, records)
    assert {len(made) for made in wanted.values()} == {8}
    await kafka.produce(source, records)
    await relayed(kafka, run_relay, config, len(records))
    assert await written(kafka, {topic for topic, _ in wanted}) == wanted


async def test_a_missing_topic_ends_the_relay_behind_all_before_it(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source = await kafka.topic()
    await kafka.admin.create_topics([NewTopic(f"{source}.there", 1, 1, topic_configs=KEPT)])
    await kafka.produce(source, as_source(rows(*["there"] * 5, *["absent"] * 4), source))
    relay = run_relay(make_config(source, "{topic}.{table}"), None)
    assert await relay.ended() == 3
    (refused,) = relay.log.named("record.refused")
    assert (refused["partition"], refused["offset"]) == (f"{source}/0", 5)
    assert f"topic {source}.absent does not exist" in refused["message"]
    assert len(await kafka.read(f"{source}.there")) == 5
    assert not await exists(kafka, f"{source}.absent")


async def test_a_topic_that_has_too_few_partitions_is_refused_when_it_is_needed(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source = await kafka.topic(3)
    await kafka.admin.create_topics([NewTopic(f"{source}.t", 1, 1)])
    await kafka.produce(source, as_source(rows("t"), source))
    relay = run_relay(make_config(source, "{topic}.{table}", target_create_topics=True), None)
    assert await relay.ended() == 3
    (refused,) = relay.log.named("record.refused")
    assert f"topic {source}.t has 1 partition, but {source} has 3" in refused["message"]


@pytest.mark.parametrize(
    ("creates", "said"),
    [
        (True, "are created when rows of their tables arrive"),
        (False, "must exist before rows of their tables arrive"),
    ],
)
async def test_check_says_what_becomes_of_them(
    kafka: Any, make_config: Any, creates: bool, said: str
) -> None:
    source = await kafka.topic(2)
    config = make_config(source, "{topic}.{table}", target_create_topics=creates)
    clusters = Clusters.from_settings(source_cluster(config), target_cluster(config))
    found = await preflight(config, clusters)
    assert [str(each) for each in found if each.state is CheckState.FAILED] == []
    (finding,) = [each for each in found if each.subject == "target topics {topic}.{table}"]
    assert finding.text.startswith(said)


async def test_a_replay_makes_the_topics_that_it_needs(kafka: Any, run_relay: Any, tmp_path: Path) -> None:
    source, path = await kafka.topic(2), tmp_path / "relay.toml"
    text = f"""
    [route]
    from = "canal-json"
    to = "canal-json"
    [source]
    bootstrap_servers = "{kafka.bootstrap_servers}"
    topics = ["{source}"]
    group_id = "g-{source}"
    [target]
    topic = "{{topic}}.{{table}}"
    create_topics = true
    [errors]
    decode = "dead-letter"
    dead_letter_topic = "dead-{source}"
    [schema]
    wait_for_ddl = false
    """
    path.write_text(f"{text}[limits]\nddl_bytes = 1\n")
    statement = rows("t")[0]
    create = msgspec.structs.replace(
        statement,
        value=(statement.value or b"")
        .replace(b'"isDdl": false', b'"isDdl": true')
        .replace(b'"type": "INSERT"', b'"type": "CREATE"')
        .replace(b'"sql": ""', b'"sql": "CREATE TABLE t (id INT PRIMARY KEY)"'),
    )
    await kafka.produce(source, as_source([create], source))
    relay = await relayed(kafka, run_relay, load_config(path), 1)
    assert relay.status.dead_letters == {"decode.limit-exceeded": 1}
    assert not await exists(kafka, f"{source}.t")
    path.write_text(text)
    arguments = ["dead-letters", "replay", "--config", str(path)]
    replayed = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert replayed.exit_code == 0, replayed.output
    (found,) = await kafka.read(f"{source}.t")
    assert b"CREATE TABLE" in found.value
    assert len(await kafka.partitions(f"{source}.t")) == 2


async def test_a_topic_with_a_lower_limit_makes_batches_smaller(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """Its limit is learned when its first row comes, and holds for batches of the sink that comes then."""
    source = await kafka.topic()
    settings = {"max.message.bytes": "3000", "retention.ms": "-1"}
    config = make_config(
        source,
        "{topic}.{table}",
        target_create_topics=True,
        target_create_settings=settings,
        schema_history_topic="",
    )
    records = as_source(rows(*["small"] * 40, v="x" * 500), source)
    await kafka.produce(source, records)
    relay = await relayed(kafka, run_relay, config, len(records))
    assert await written(kafka, [f"{source}.small"]) == expected(config, records)
    (failed,) = relay.log.named("delivery.failed")
    assert failed["reason"] == "a topic accepts 3000 bytes, less than the others: batches become smaller"


async def shorter_than_source(kafka: Any) -> tuple[str, str, str]:
    """A source topic that keeps records, and two topics of tables that do not."""
    source = await kafka.topic(retention_ms="-1")
    one, other = [
        await kafka.topic(name=f"{source}.d.{table}", retention_ms="86400000") for table in ("t", "u")
    ]
    return source, one, other


async def test_topics_that_delete_old_rows_soon_are_known_before_the_first_row(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, one, _ = await shorter_than_source(kafka)
    settings: dict[str, Any] = {"target_create_topics": True}
    config = make_config(source, "{topic}.{database}.{table}", **settings)
    expected = f"topic {one} (and 1 more) deletes records after 1 day, and its source keeps them forever: "
    (warning,) = (await check_topics(config)).warnings
    assert warning.startswith(expected)
    findings = await preflight(config, Clusters.from_settings(source_cluster(config), target_cluster(config)))
    assert [each.text for each in findings if each.subject == "target topics of tables"] == [warning]
    relay = run_relay(config, None)
    await kafka.until(lambda: answer(bool(relay.log.named("topics.warning"))))
    assert await relay.stop() == 0
    assert [each["message"] for each in relay.log.named("topics.warning")] == [warning]
    assert relay.status.warnings == [warning]
    assert summary(relay.status)["warnings"] == [warning]


async def test_new_topics_of_tables_keep_rows_as_long_as_the_source(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source = await kafka.topic(retention_ms="1209600000")
    records = as_source(rows("t", "u"), source)
    settings: dict[str, Any] = {"target_create_topics": True}
    config = make_config(source, "{topic}.{database}.{table}", **settings)
    await kafka.produce(source, records)
    relay = await relayed(kafka, run_relay, config, len(records))
    for topic, _ in expected(config, records):
        assert (await settings_of(kafka, topic))["retention.ms"] == "1209600000"
    assert relay.status.warnings == []
    config = make_config(
        source, "other.{database}.{table}", target_create_settings={"retention.ms": "60000"}, **settings
    )
    (warning,) = (await check_topics(config)).warnings
    assert "topic other.{database}.{table} deletes records after 1 minute" in warning


async def test_brokers_that_do_not_know_a_new_topic_of_a_table_yet_are_asked_again(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = await kafka.topic()
    records = as_source(rows("t", "u"), source)
    config = make_config(source, "{topic}.{database}.{table}", target_create_topics=True)
    topics = {topic for topic, _ in expected(config, records)}
    look, asked = TopicAdmin.look, Counter[str]()

    async def look_late(self: TopicAdmin, names: Any) -> ClusterTopics:
        seen = await look(self, names)
        asked.update(topics & seen.found.keys())
        # The first two brokers that are asked after a topic was created do not know it.
        found = {name: topic for name, topic in seen.found.items() if name not in topics or asked[name] > 2}
        return msgspec.structs.replace(seen, found=found)

    monkeypatch.setattr(TopicAdmin, "look", look_late)
    await kafka.produce(source, records)
    relay = await relayed(kafka, run_relay, config, len(records))
    assert topics == asked.keys()
    assert min(asked.values()) > 2
    assert await written(kafka, topics) == expected(config, records)
    assert not relay.log.named("topics.unusable")


async def answer(value: bool) -> bool:
    return value
