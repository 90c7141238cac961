"""`wait_for_ddl` in [schema] on a real Apache Kafka: rows of partitions 1 to 3 wait for DDL of partition 0 that was
sent before them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from support import CANAL, TICDC, captured, translated_records

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.config.kafka import source_cluster
from relay.io.kafka.aiokafka_compat import started
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition, PollFailed, Undelivered
from relay.io.kafka.settings import DEFAULT_TIMEOUTS, Timeouts
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.model.records import SOURCE_HEADER
from relay.service.loop.async_resolver import learn
from relay.service.loop.ddl_order import DdlFollower
from relay.service.loop.history import source_records

pytestmark = pytest.mark.kafka

PARTITIONS = 4
DDL_FILE = "ticdc/canal-json.tidb-extension/10_ddl"
WAIT = {
    "schema_wait_for_ddl": True,
    # So small that partition 0 takes many polls to its first DDL, and the others one.
    "source_max_partition_fetch_bytes": 20_000,
    "delivery_commit_interval_seconds": 0.05,
}
EXACTLY_ONCE = {"delivery_mode": "exactly-once", "delivery_transaction_interval_seconds": 0.05}
Outputs = dict[bytes | None, tuple[int, bytes | None, bytes | None]]


def kind(record: ConsumerRecord) -> str:
    return str(json.loads(record.value or b"{}")["type"])


def spread(path: str = DDL_FILE) -> list[ConsumerRecord]:
    """A capture as TiCDC spreads it: DDL in partition 0, and the rows, all of them here, in the others."""
    records = [record for record in captured(path) if kind(record) != "TIDB_WATERMARK"]
    ddl = {"CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"}
    assert len({kind(record) for record in records} & ddl) > 3
    return [
        msgspec.structs.replace(record, partition=0 if kind(record) in ddl else 1 + number % (PARTITIONS - 1))
        for number, record in enumerate(records)
    ]


def filler(before: ConsumerRecord, count: int = 2_000) -> list[ConsumerRecord]:
    """Watermarks, of which nothing is written: they keep partition 0 busy until its first DDL."""
    (watermark, *_) = (each for each in captured(DDL_FILE) if kind(each) == "TIDB_WATERMARK")
    return [msgspec.structs.replace(watermark, partition=0, timestamp_ms=before.timestamp_ms - 1)] * count


def ddl_first(records: Iterable[ConsumerRecord]) -> Outputs:
    """What comes of a topic's records when all of partition 0 is read before the others."""
    return outputs(
        translated_records(Translator(TICDC, CANAL), sorted(records, key=lambda record: record.partition))
    )


def outputs(records: Iterable[ConsumerRecord | ProducerRecord]) -> Outputs:
    """By source position, so that a repeat counts once: partition, key and value. Two repeats that differ are
    an error.
    """
    found: Outputs = {}
    for each in records:
        mark = dict(each.headers)[SOURCE_HEADER]
        value = each.partition, each.key, each.value
        assert found.setdefault(mark, value) == value
    return found


async def filled(kafka: Any, records: Sequence[ConsumerRecord]) -> tuple[str, list[ConsumerRecord]]:
    """A new topic with these records, and the records as they stand there."""
    topic = await kafka.topic(PARTITIONS)
    await kafka.produce(topic, records)
    return topic, await kafka.read(topic, at_least=len(records))


async def relayed(
    kafka: Any, relays: Sequence[Any], records: Sequence[ConsumerRecord]
) -> list[ConsumerRecord]:
    """Wait until the relays have committed everything, stop them, and give what the target holds."""
    config = relays[0].config
    await kafka.until(lambda: _all_committed(kafka, config.source.group_id, len(records)))
    assert [await relay.stop() for relay in relays] == [0] * len(relays)
    committed = config.delivery.mode == "exactly-once"
    found: list[ConsumerRecord] = await kafka.read(config.target.topic, committed=committed)
    return found


async def _all_committed(kafka: Any, group: str, count: int) -> bool:
    return bool(sum((await kafka.committed(group)).values()) == count)


async def remembered(kafka: Any, config: Any) -> set[tuple[int, int]]:
    """Positions of the DDL that the schema history holds."""
    kept = await kafka.read(config.history_topic, committed=True)
    return {(record.partition, record.offset) for record in source_records(kept)}


def teaching(records: Iterable[ConsumerRecord]) -> set[tuple[int, int]]:
    """Positions of the records that define tables."""
    translator, found = Translator(TICDC, CANAL), set()
    for record in records:
        before = translator.catalog
        translator.learn(record)
        if translator.catalog is not before:
            found.add((record.partition, record.offset))
    return found


def untyped(found: Outputs) -> int:
    """How many rows came out with a `varchar` that lacks its length."""
    values = [json.loads(value or b"{}") for _, _, value in found.values()]
    return sum("varchar" in (value["mysqlType"] or {}).values() for value in values)


@pytest.fixture
async def late_ddl(kafka: Any) -> tuple[str, list[ConsumerRecord]]:
    """A topic in which a reader of all partitions meets the rows long before the DDL that was sent before
    them.
    """
    rows_and_ddl = spread()
    return await filled(kafka, [*filler(rows_and_ddl[0]), *rows_and_ddl])


async def test_without_wait_rows_outrun_their_ddl(
    kafka: Any, make_config: Any, run_relay: Any, late_ddl: Any
) -> None:
    """What the other tests are about: with this order, the rows are read before anything is known of their
    tables.
    """
    source, records = late_ddl
    config = make_config(source, await kafka.topic(PARTITIONS), **WAIT | {"schema_wait_for_ddl": False})
    relay = run_relay(config, None)
    found = outputs(await relayed(kafka, [relay], records))
    expected = ddl_first(records)
    assert found.keys() == expected.keys()
    assert untyped(found) > 20
    assert untyped(expected) == 0
    # It is logged, once per table.
    tables = [each["table"] for each in relay.log.named("schema.inferred")]
    assert "ddl_db.users" in tables
    assert len(tables) == len(set(tables))
    (stopped,) = relay.log.named("relay.stopped")
    assert list(stopped["inferred_tables"]) == tables == list(relay.status.inferred_tables)


@pytest.mark.parametrize("mode", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
async def test_by_default_every_row_knows_its_table(
    kafka: Any, make_config: Any, run_relay: Any, late_ddl: Any, mode: dict[str, Any]
) -> None:
    source, records = late_ddl
    settings = {name: value for name, value in WAIT.items() if name != "schema_wait_for_ddl"}
    config = make_config(source, await kafka.topic(PARTITIONS), **settings | mode)
    relay = run_relay(config, None)
    found = await relayed(kafka, [relay], records)
    assert outputs(found) == ddl_first(records)
    assert len(found) == len(ddl_first(records)), "nothing twice"
    assert not relay.log.named("poll.failed")
    assert not relay.log.named("schema.inferred")
    assert "inferred_tables" not in relay.log.named("relay.stopped")[0]
    # The DDL was learned out of turn, and is in the history all the same.
    assert await remembered(kafka, config) == teaching(records)


async def test_several_instances(kafka: Any, make_config: Any, run_relay: Any, late_ddl: Any) -> None:
    """Only one of them has partition 0, and while they join the group it wanders from one to the next."""
    source, records = late_ddl
    config = make_config(source, await kafka.topic(PARTITIONS), **WAIT)
    relays = []
    for _ in range(3):
        relays.append(run_relay(config, None))
        await kafka.until(lambda: _has_opened(relays[-1]))
    assert outputs(await relayed(kafka, relays, records)) == ddl_first(records)
    assert await remembered(kafka, config) == teaching(records)


async def test_several_shards(kafka: Any, make_config: Any, run_relay: Any, late_ddl: Any) -> None:
    source, records = late_ddl
    config = make_config(source, await kafka.topic(PARTITIONS), delivery_shards=2, **WAIT | EXACTLY_ONCE)
    other = config.model_copy(update={"delivery": config.delivery.model_copy(update={"shard": 1})})
    # The shard without partition 0 is there first.
    second = run_relay(other, None)
    await kafka.until(lambda: _has_opened(second))
    found = await relayed(kafka, [second, run_relay(config, None)], records)
    assert outputs(found) == ddl_first(records)
    assert len(found) == len(ddl_first(records)), "nothing twice"
    assert await remembered(kafka, config) == teaching(records)


async def _has_opened(relay: Any) -> bool:
    return bool(relay.log.named("partitions.opened"))


@pytest.mark.parametrize("mode", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("part", [0.3, 0.7])
async def test_a_restart_in_the_middle(
    kafka: Any, make_config: Any, run_relay: Any, part: float, mode: dict[str, Any]
) -> None:
    """What was learned ahead and not yet reached by the loop is learned ahead again; the rest comes from the
    history.
    """
    everything = spread()
    cut = int(len(everything) * part)
    source, first = await filled(kafka, [*filler(everything[0]), *everything[:cut]])
    config = make_config(source, await kafka.topic(PARTITIONS), **WAIT | mode)
    relay = run_relay(config, None)
    # Stopped somewhere in the filler: the rows are done, and partition 0 is not.
    await kafka.until(lambda: _rows_are_committed(kafka, config, first))
    assert await relay.stop() == 0
    await kafka.produce(source, everything[cut:])
    records = await kafka.read(source, at_least=len(first) + len(everything) - cut)
    again = run_relay(config, None)
    assert outputs(await relayed(kafka, [again], records)) == ddl_first(records)
    assert await remembered(kafka, config) == teaching(records)


async def _rows_are_committed(kafka: Any, config: Any, records: Sequence[ConsumerRecord]) -> bool:
    committed = await kafka.committed(config.source.group_id)
    rows = sum(record.partition != 0 for record in records)
    return bool(sum(offset for (_, partition), offset in committed.items() if partition != 0) == rows)


async def test_partition_0_at_rest_holds_nobody_up(kafka: Any, make_config: Any, run_relay: Any) -> None:
    """Nothing has been sent to it since the rows: its end is enough."""
    everything = spread()
    ddl = [record for record in everything if record.partition == 0]
    rows = [record for record in everything if record.partition != 0]
    source, _ = await filled(kafka, ddl)
    target = await kafka.topic(PARTITIONS)
    config = make_config(source, target, **WAIT)
    relay = run_relay(config, None)
    await kafka.until(lambda: _all_committed(kafka, config.source.group_id, len(ddl)))
    began = time.monotonic()
    late = max(record.timestamp_ms for record in ddl) + 60_000
    await kafka.produce(source, [msgspec.structs.replace(record, timestamp_ms=late) for record in rows])
    records = await kafka.read(source, at_least=len(everything))
    found = await relayed(kafka, [relay], records)
    assert time.monotonic() - began < 20
    assert outputs(found) == ddl_first(records)


async def test_an_empty_partition_0_holds_nobody_up(kafka: Any, make_config: Any, run_relay: Any) -> None:
    rows = [record for record in spread() if record.partition != 0]
    source, records = await filled(kafka, rows)
    config = make_config(source, await kafka.topic(PARTITIONS), **WAIT)
    found = await relayed(kafka, [run_relay(config, None)], records)
    assert outputs(found) == ddl_first(records)


async def test_an_open_transaction_in_partition_0_holds_nobody_up(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """What it holds has not happened yet for a reader of committed records."""
    everything = spread()
    source, records = await filled(kafka, everything)
    servers = kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{source}") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(source, b"not yet", partition=0)
        config = make_config(source, await kafka.topic(PARTITIONS), **WAIT)
        found = await relayed(kafka, [run_relay(config, None)], records)
        await producer.abort_transaction()
    assert outputs(found) == ddl_first(records)


# ---------------------------------------------------------------- a connector's schema change topic


@pytest.fixture
async def connector(kafka: Any) -> dict[str, list[ConsumerRecord]]:
    """Topics as a Debezium connector fills them, without schemas: in a reader's first polls there is none of
    the DDL that was sent before the rows. The topic of DDL comes first.
    """
    records = captured("mysql/debezium.no-schema/10_ddl")
    ddl = await kafka.topic(1)
    heartbeat = ConsumerRecord(ddl, 0, 0, records[0].timestamp_ms - 1, b'{"serverName":"s"}', b'{"ts_ms":1}')
    found = {ddl: [heartbeat] * 2_000 + [each for each in records if each.topic == "dbzns"]}
    for name, partitions in (("a", 1), ("b", 2)):
        topic = await kafka.topic(partitions, name=f"{ddl}.ddl_db.{name}")
        rows = [each for each in records if each.topic != "dbzns"][partitions - 1 :: 2]
        found[topic] = [
            msgspec.structs.replace(each, partition=number % partitions) for number, each in enumerate(rows)
        ]
    for topic, those in found.items():
        await kafka.produce(topic, those)
        found[topic] = await kafka.read(topic, at_least=len(those))
    return found


def of_a_connector(make_config: Any, topics: Iterable[str], target: str, **settings: Any) -> Any:
    """The route from such topics."""
    route = {"route_from": "debezium-json", "source_topics": list(topics)[::-1]}
    wait = {name: value for name, value in WAIT.items() if name != "schema_wait_for_ddl"}
    return make_config("", target, **wait | route | settings)


def ddl_topic_first(topics: dict[str, list[ConsumerRecord]]) -> Outputs:
    """What comes of the records when all of the topic of DDL is read before the others."""
    every = [record for records in topics.values() for record in records]
    return outputs(translated_records(Translator("debezium-json", CANAL), every))


@pytest.mark.parametrize("wait", [True, False])
async def test_rows_wait_for_a_connectors_topic_of_ddl(
    kafka: Any, make_config: Any, run_relay: Any, connector: dict[str, list[ConsumerRecord]], wait: bool
) -> None:
    settings = {} if wait else {"schema_wait_for_ddl": False}
    config = of_a_connector(make_config, connector, await kafka.topic(2), **settings)
    relay = run_relay(config, None)
    every = [record for records in connector.values() for record in records]
    found, expected = outputs(await relayed(kafka, [relay], every)), ddl_topic_first(connector)
    assert found.keys() == expected.keys()
    assert (found == expected) == wait
    assert bool(relay.log.named("schema.inferred")) != wait


async def test_several_instances_of_a_connectors_topics(
    kafka: Any, make_config: Any, run_relay: Any, connector: dict[str, list[ConsumerRecord]]
) -> None:
    """Partitions are handed out anew with the second, which is stopped and started again."""
    config = of_a_connector(make_config, connector, await kafka.topic(2))
    relays = [run_relay(config, None)]
    await kafka.until(lambda: _has_opened(relays[0]))
    gone = run_relay(config, None)
    await kafka.until(lambda: _has_opened(gone))
    assert await gone.stop() == 0
    relays.append(run_relay(config, None))
    every = [record for records in connector.values() for record in records]
    assert outputs(await relayed(kafka, relays, every)) == ddl_topic_first(connector)


async def test_a_shard_without_the_topic_of_ddl_reads_it_besides(
    kafka: Any,
    make_config: Any,
    run_relay: Any,
    connector: dict[str, list[ConsumerRecord]],
    followers: list[Any],
) -> None:
    mode = EXACTLY_ONCE | {"delivery_shards": 2}
    config = of_a_connector(make_config, connector, await kafka.topic(2), **mode)
    other = config.model_copy(update={"delivery": config.delivery.model_copy(update={"shard": 1})})
    second = run_relay(other, None)
    await kafka.until(lambda: _has_opened(second))
    every = [record for records in connector.values() for record in records]
    found = await relayed(kafka, [second, run_relay(config, None)], every)
    expected = ddl_topic_first(connector)
    assert outputs(found) == expected
    assert len(found) == len(expected), "nothing twice"
    assert len(followers) == 1
    kept = source_records(await kafka.read(config.history_topic, committed=True))
    assert {record.topic for record in kept} == {next(iter(connector))}


@pytest.fixture
def followers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The clients that were started to read partition 0 ahead."""
    found: list[Any] = []

    async def noting(seconds: float, client: Any, *given: Any) -> None:
        found.append(client)
        await started(seconds, client, *given)

    monkeypatch.setattr("relay.service.loop.ddl_order.started", noting)
    return found


async def test_a_source_with_one_partition(
    kafka: Any, make_config: Any, run_relay: Any, followers: list[Any]
) -> None:
    source, target = await kafka.topic(1), await kafka.topic(1)
    await kafka.produce(source, [msgspec.structs.replace(record, partition=0) for record in spread()])
    records = await kafka.read(source, at_least=len(spread()))
    found = await relayed(kafka, [run_relay(make_config(source, target, **WAIT), None)], records)
    assert outputs(found) == ddl_first(records)
    assert followers == []


async def test_whoever_has_partition_0_alone_follows_nothing(
    kafka: Any, make_config: Any, run_relay: Any, followers: list[Any]
) -> None:
    source, records = await filled(kafka, spread())
    mode = EXACTLY_ONCE | {"delivery_shards": PARTITIONS}
    config = make_config(source, await kafka.topic(PARTITIONS), **mode)
    relay = run_relay(config, None)
    count = sum(record.partition == 0 for record in records)
    await kafka.until(lambda: _all_committed(kafka, config.source.group_id, count))
    assert await relay.stop() == 0
    assert followers == []


async def test_two_topics_have_two_partitions_0(kafka: Any, make_config: Any, run_relay: Any) -> None:
    everything = spread()
    pairs = [await filled(kafka, [*filler(everything[0], count), *everything]) for count in (500, 2_000)]
    target = await kafka.topic(PARTITIONS)
    config = make_config(pairs[0][0], target, **WAIT)
    config = config.model_copy(
        update={"source": config.source.model_copy(update={"topics": tuple(name for name, _ in pairs)})}
    )
    records = [record for _, found in pairs for record in found]
    found = outputs(await relayed(kafka, [run_relay(config, None)], records))
    assert found.keys() == ddl_first(records).keys()
    assert untyped(found) == 0


async def test_the_loop_reports_unreadable_records(
    kafka: Any, make_config: Any, run_relay: Any, late_ddl: Any
) -> None:
    """Garbage behind the DDL: the follower passes over it, and the loop refuses it after what came before."""
    source, records = late_ddl
    await kafka.produce(source, [ConsumerRecord("", 0, 0, records[-1].timestamp_ms + 1, None, b"garbage")])
    await kafka.produce(
        source, [msgspec.structs.replace(records[-1], timestamp_ms=records[-1].timestamp_ms + 2)]
    )
    relay = run_relay(make_config(source, await kafka.topic(PARTITIONS), **WAIT), None)
    assert await relay.ended() == 2
    (refused,) = relay.log.named("record.refused")
    assert (refused["partition"], refused["code"]) == (f"{source}/0", "decode.malformed")


@pytest.mark.parametrize("mode", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
async def test_failed_deliveries_do_not_unlearn_what_was_read_ahead(
    kafka: Any,
    make_config: Any,
    run_relay: Any,
    monkeypatch: pytest.MonkeyPatch,
    late_ddl: Any,
    mode: dict[str, Any],
) -> None:
    """After a failure the loop goes back to what is safe, and the catalog with it; partition 0 was read
    further than that.
    """
    sink: Any = TransactionalSink if mode else KafkaSink
    rounds = 0

    class Failing(sink):  # type: ignore[misc]  # one of two classes
        async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
            nonlocal rounds
            await KafkaSink.delivered(self, pending)
            rounds += bool(pending)
            if rounds in {1, 3, 4}:
                rounds += 1
                raise Undelivered("OutOfOrderSequenceNumber", retriable=True)

    monkeypatch.setattr(f"relay.service.app.{sink.__name__}", Failing)
    source, records = late_ddl
    config = make_config(source, await kafka.topic(PARTITIONS), **WAIT | mode)
    relay = run_relay(config, None)
    found = await relayed(kafka, [relay], records)
    assert relay.log.named("delivery.failed")
    assert outputs(found) == ddl_first(records)
    assert await remembered(kafka, config) == teaching(records)


# ---------------------------------------------------------------- the follower alone


@pytest.fixture
def timeouts() -> Timeouts:
    """Give those of the follower; a test may have others."""
    return DEFAULT_TIMEOUTS


@pytest.fixture
async def follower(kafka: Any, make_config: Any, late_ddl: Any, timeouts: Timeouts) -> Any:
    """A follower of a topic with DDL behind much else, its translator, and a row that has to wait."""
    source, records = late_ddl
    config = make_config(source, "t")
    translator = Translator(TICDC, CANAL)
    brokers = Brokers.from_settings(source_cluster(config), timeouts)
    found = DdlFollower(config, translator, brokers=brokers)
    yield found, translator, records
    await found.stop()


def first_row(records: Sequence[ConsumerRecord], partition: int = 1) -> dict[Partition, list[ConsumerRecord]]:
    row = next(record for record in records if record.partition == partition)
    return {Partition(row.topic, partition): [row]}


async def test_what_was_read_ahead_is_not_read_again_when_partitions_are_handed_out_anew(
    follower: Any,
) -> None:
    """Reading ahead may take longer than a group waits for its member: it must come to its end nevertheless."""
    ahead, translator, records = follower
    first = Partition(records[0].topic, 0)
    await ahead.begin({first: 2})
    await ahead.wait_for(first_row(records))
    read: list[int] = []
    learn = translator.learn

    def listening(record: ConsumerRecord) -> None:
        read.append(record.offset)
        learn(record)

    translator.learn = listening
    for offset in (2, 3):
        await ahead.begin({first: offset})
        await ahead.wait_for(first_row(records))
        assert read == []
    # An older position, as after a reset of the group's offsets: everything from there on.
    await ahead.begin({first: 1})
    await ahead.wait_for(first_row(records))
    first_ddl = next(one.offset for one in records if one.partition == 0 and kind(one) != "TIDB_WATERMARK")
    assert read[0] == first_ddl, "what holds no DDL for certain is not decoded"


async def test_what_the_loop_learned_first_is_read_again_after_a_failed_transaction(follower: Any) -> None:
    """Positions are with the brokers then: nobody knows how far to go back, so all is read again from where
    they say.
    """
    ahead, translator, records = follower
    first, before = Partition(records[0].topic, 0), translator.state
    for record in records:
        translator.learn(record)
    learned = translator.catalog
    await ahead.begin({first: 0})
    await ahead.wait_for(first_row(records))
    assert not ahead.ahead
    translator.restore(before)
    await ahead.rewound({})
    await ahead.begin({first: 0})
    await ahead.wait_for(first_row(records))
    assert translator.catalog == learned


async def test_what_was_learned_ahead_is_learned_again_after_a_way_back(follower: Any) -> None:
    ahead, translator, records = follower
    topic = records[0].topic
    before = translator.state
    await ahead.begin({Partition(topic, 0): 0})
    await ahead.wait_for(first_row(records))
    learned, positions = translator.catalog, set(ahead.ahead)
    assert positions
    # Partition 0 is somebody else's: nobody but the follower tells its DDL.
    translator.restore(before)
    await ahead.rewound({Partition(topic, 1): 0})
    assert translator.catalog == learned
    # It is ours: the loop reads it again, and the follower, too.
    translator.restore(before)
    await ahead.rewound({Partition(topic, 0): 0, Partition(topic, 1): 0})
    await ahead.wait_for(first_row(records))
    assert translator.catalog == learned
    assert set(ahead.ahead) == positions


async def test_ddl_that_the_loop_has_learned_first_is_not_ahead(follower: Any) -> None:
    ahead, translator, records = follower
    topic = records[0].topic
    ddl = [record for record in records if record.partition == 0]
    for record in ddl:
        translator.learn(record)
    learned = translator.catalog
    await ahead.begin({Partition(topic, 0): 0})
    await ahead.wait_for(first_row(records))
    assert not ahead.ahead
    assert translator.catalog is learned
    # After a way back the loop has yet to come to it again: now it is.
    translator.restore(Translator(TICDC, CANAL).state)
    await ahead.rewound({Partition(topic, 0): 0})
    await ahead.wait_for(first_row(records))
    assert {(0, offset) for _, _, offset in ahead.ahead} <= teaching(records)
    assert ahead.ahead


async def test_rows_of_partition_0_wait_for_nothing(follower: Any) -> None:
    ahead, translator, records = follower
    before = translator.catalog
    await ahead.begin({Partition(records[0].topic, 0): 0})
    await ahead.wait_for(
        {Partition(records[0].topic, 0): [record for record in records if record.partition == 0]}
    )
    await ahead.wait_for({Partition(records[0].topic, 1): []})
    await ahead.wait_for({})
    assert translator.catalog is before


async def test_a_start_that_failed_is_tried_again(follower: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, _, records = follower
    topic = records[0].topic

    async def in_vain(*_: Any) -> None:
        raise TimeoutError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("relay.service.loop.ddl_order.started", in_vain)
        for _ in range(2):
            with pytest.raises(PollFailed, match="cannot read ahead in partition 0"):
                await ahead.begin({Partition(topic, 0): 0})
    await ahead.begin({Partition(topic, 0): 0})
    await ahead.wait_for(first_row(records))
    assert ahead.ahead


async def test_a_poll_that_raises_loses_nothing(follower: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may have moved on past records that nobody got."""
    ahead, _, records = follower
    topic = records[0].topic
    await ahead.begin({Partition(topic, 0): 0})
    getmany = AIOKafkaConsumer.getmany

    async def raising(consumer: Any, **arguments: Any) -> Any:
        if await getmany(consumer, **arguments):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaConsumer, "getmany", raising)
        with pytest.raises(PollFailed, match="it contains text that is not UTF-8"):
            await ahead.wait_for(first_row(records))
    await ahead.wait_for(first_row(records))
    row_time = first_row(records)[Partition(topic, 1)][0].timestamp_ms
    needed = {
        (0, each.offset) for each in records if each.partition == 0 and each.timestamp_ms <= row_time
    } & teaching(records)
    assert needed
    assert needed <= {(partition, offset) for _, partition, offset in ahead.ahead}


@pytest.mark.parametrize("timeouts", [Timeouts(request_seconds=0.2)], ids=["hasty"])
async def test_brokers_that_return_nothing_are_reported_after_a_while(
    follower: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on renews the patience; standing still does not."""
    ahead, _, records = follower
    await ahead.begin({Partition(records[0].topic, 0): 0})

    async def nothing(*_: Any, **arguments: Any) -> Any:
        await asyncio.sleep(0.01)
        return {}

    monkeypatch.setattr(AIOKafkaConsumer, "getmany", nothing)
    with pytest.raises(PollFailed, match="no answer in time"):
        await ahead.wait_for(first_row(records))


@pytest.mark.parametrize("timeouts", [Timeouts(request_seconds=0.3)], ids=["hasty"])
async def test_a_schema_may_take_longer_than_the_brokers(
    follower: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry has deadlines of its own: a fetch that the follower cut off would begin again and again."""
    ahead, _, records = follower
    await ahead.begin({Partition(records[0].topic, 0): 0})
    waits = [0.6]

    async def slowly(*arguments: Any) -> Any:
        await asyncio.sleep(waits.pop() if waits else 0)
        return await learn(*arguments)

    monkeypatch.setattr("relay.service.loop.ddl_order.learn", slowly)
    await ahead.wait_for(first_row(records))
    assert ahead.ahead
    assert not waits
