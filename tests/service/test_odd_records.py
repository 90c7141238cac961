"""Records that a broker or a client refuses for what is around their value, and addresses that hide what they
are.
"""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import FetchError
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from secured_support import clusters_of
from service.topics_support import refusal

from relay.config.kafka import consumer_settings, producer_settings, target_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition
from relay.io.kafka.reading import look_up
from relay.io.kafka.settings import ClusterSettings, Security
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.source import KafkaSource
from relay.io.kafka.whole_topic import WholeTopic
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.check import CheckState
from relay.service.check.route import preflight

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000
FOR_EVER = str(2**63 - 1)
HOURS_MS = 2 * 3_600_000


def plain_brokers(servers: str) -> Brokers:
    return Brokers.from_settings(ClusterSettings(servers, Security(table="source.security")))


async def produce_with_broken_name(servers: str, topic: str, *, poison: bool = False) -> None:
    """Two records; the second one's header has a name that is not UTF-8."""
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        batch = producer.create_batch()
        last = b"poison" if poison else b"1"
        for value, headers in ((b"0", []), (last, [("QQQQ", b"x")])):
            batch.append(timestamp=NOW, key=b"k", value=value, headers=headers)
        batch.close()
        build = batch._build

        def broken() -> bytes:
            data = bytearray(build())
            at = data.index(b"QQQQ")
            data[at : at + 4] = b"\xff\xfe\xff\xfe"
            struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
            return bytes(data)

        batch._build = broken
        await (await producer.send_batch(batch, topic, partition=0))


@pytest.fixture
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such name has been met in this process."""
    monkeypatch.setattr(fetcher, "MemoryRecords", MemoryRecords)


@pytest.mark.usefixtures("_as_at_the_start")
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_a_header_name_that_is_not_text_is_read_as_java_reads_it(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(1), await kafka.topic(1)
    await produce_with_broken_name(kafka.bootstrap_servers, source)
    await kafka.produce(source, [ConsumerRecord("", 0, 0, NOW, None, b"2")])
    relay = run_relay(make_config(source, target, delivery_mode=mode), echo(target))
    found = await kafka.read(target, 3)
    assert [record.value for record in found] == [b"0", b"1", b"2"]
    assert found[1].headers[0] == ("\ufffd" * 4, b"x")
    assert await relay.stop() == 0


@pytest.mark.usefixtures("_as_at_the_start")
async def test_a_refused_record_with_such_a_name_goes_to_the_dead_letters(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, target, letters = [await kafka.topic(1) for _ in range(3)]
    await produce_with_broken_name(kafka.bootstrap_servers, source, poison=True)
    settings = {"errors_decode": "dead-letter", "errors_dead_letter_topic": letters}
    relay = run_relay(make_config(source, target, **settings), None)
    _, letter = await kafka.read(letters, 2)
    assert letter.value == b"poison"
    assert letter.headers[0] == ("\ufffd" * 4, b"x")
    assert await relay.stop() == 0


@pytest.mark.usefixtures("_as_at_the_start")
async def test_commands_find_a_record_with_such_a_name(kafka: Any) -> None:
    source = await kafka.topic(1)
    await produce_with_broken_name(kafka.bootstrap_servers, source)
    found = await look_up(plain_brokers(kafka.bootstrap_servers), source, 0, 1)
    assert found.record is not None
    assert found.record.headers == (("\ufffd" * 4, b"x"),)


@pytest.mark.usefixtures("_as_at_the_start")
async def test_such_a_header_in_a_topic_of_relays_own_ends_it_with_a_reason(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target, history = (
        await kafka.topic(1),
        await kafka.topic(1),
        await kafka.topic(1, cleanup_policy="compact"),
    )
    await kafka.produce(source, [ConsumerRecord("", 0, 0, NOW, None, b"0")])
    await produce_with_broken_name(kafka.bootstrap_servers, history)
    relay = run_relay(make_config(source, target, schema_history_topic=history), echo(target))
    assert await relay.ended() == 3
    assert "contains a record that relay did not write" in relay.log.named("relay.failed")[0]["message"]


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_a_time_that_the_target_refuses_is_reported_with_the_fix(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, mode: str
) -> None:
    source = await kafka.topic(1, message_timestamp_after_max_ms=FOR_EVER)
    target = await kafka.topic(1)
    ahead = int(time.time() * 1000) + HOURS_MS
    await kafka.produce(source, [ConsumerRecord("", 0, 0, ahead, None, b"0")])
    relay = run_relay(make_config(source, target, delivery_mode=mode), echo(target))
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.topic-unusable"
    assert target in failed["message"]
    assert "raise the topic's message.timestamp.after.max.ms" in failed["message"]


async def test_records_without_a_time_stay_without(kafka: Any, make_config: Any) -> None:
    topic = await kafka.topic(1)
    times = [-1, -1, 1_000, -1, 5_000, -1]
    sink = KafkaSink(producer_settings(make_config(topic, topic)), {topic: 1_000_000})
    await sink.start()
    await sink.write([ProducerRecord(topic, 0, time_ms, None, b"v") for time_ms in times])
    await sink.stop()
    assert [record.timestamp_ms for record in await kafka.read(topic)] == times


async def test_ddl_of_a_clock_that_runs_ahead_is_kept(
    kafka: Any, make_config: Any, run_relay: Any, ticdc_ddl: bytes
) -> None:
    """The target may take such times; the history that relay creates itself must, too."""
    source = await kafka.topic(1, message_timestamp_after_max_ms=FOR_EVER)
    target = await kafka.topic(1, message_timestamp_after_max_ms=FOR_EVER)
    ahead = int(time.time() * 1000) + HOURS_MS
    await kafka.produce(source, [ConsumerRecord("", 0, 0, ahead, None, ticdc_ddl)])
    config = make_config(source, target)
    relay = run_relay(config, None)

    async def is_committed() -> bool:
        return bool(sum((await kafka.committed(config.source.group_id)).values()) == 1)

    await kafka.until(is_committed)
    assert await relay.stop() == 0
    kept: list[ConsumerRecord] = []
    history = WholeTopic(Brokers.from_settings(target_cluster(config)), config.history_topic)
    await history.to_end(kept.extend)
    await history.stop()
    assert len(kept) == 1


@pytest.fixture
def ticdc_ddl() -> bytes:
    return (
        b'{"id":0,"database":"d","table":"t","pkNames":null,"isDdl":true,"type":"CREATE","es":1700000000000,"ts":1700000000000,'
        b'"sql":"CREATE TABLE `t` (`id` INT PRIMARY KEY)","sqlType":null,"mysqlType":null,"data":null,"old":null}'
    )


async def test_a_loop_over_two_names_of_one_broker_is_refused(kafka: Any, make_config: Any) -> None:
    """Only the brokers can tell: each record would come back for ever."""
    topic = await kafka.topic(1)
    other = kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    text = await refusal(make_config(topic, topic, target_bootstrap_servers=other, schema_history_topic=""))
    assert f"relay would read what it writes: {kafka.bootstrap_servers} and {other} are one cluster" in text
    assert f"{topic} is a source topic and the target topic" in text


async def test_a_history_that_is_a_source_topic_is_refused_too(kafka: Any, make_config: Any) -> None:
    source, target = await kafka.topic(1, cleanup_policy="compact"), await kafka.topic(1)
    other = kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    text = await refusal(
        make_config(source, target, target_bootstrap_servers=other, schema_history_topic=source)
    )
    assert f"{source} is a source topic and the schema history" in text


async def test_such_a_loop_is_seen_before_the_start(kafka: Any, make_config: Any) -> None:
    topic = await kafka.topic(1)
    other = kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    config = make_config(topic, topic, target_bootstrap_servers=other, schema_history_topic="")
    wrong = [each for each in await preflight(config, clusters_of(config)) if each.state is CheckState.FAILED]
    assert [each.subject for each in wrong] == [f"target topic {topic}"]
    assert "relay would read what it writes" in wrong[0].text


class Owner:
    """Nobody in particular."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []

    def assigned(self, partitions: Any) -> None:
        self.partitions = list(partitions)

    async def revoked(self) -> None:
        pass


async def test_positions_are_reported_only_if_they_are_certain(kafka: Any, make_config: Any) -> None:
    """A partition that was never opened has none; a pending error may belong to a record that was not delivered."""
    topic = await kafka.topic(1)
    await kafka.produce(topic, [ConsumerRecord("", 0, 0, NOW, None, b"%d" % number) for number in range(5)])
    source, owner, partition = (
        KafkaSource(consumer_settings(make_config(topic, topic))),
        Owner(),
        Partition(topic, 0),
    )
    await source.start(owner)
    try:
        assert owner.partitions == [partition]
        assert source.position_of(partition) is None
        assert await source.waiting() is False
        await source.open([partition], {})
        assert await source.waiting() is True
        while not await source.poll():
            pass
        assert source.position_of(partition) == 5
        source.consumer._fetcher._records[TopicPartition(*partition)] = FetchError(
            error=ValueError(), backoff=0
        )
        assert source.position_of(partition) is None
        del source.consumer._fetcher._records[TopicPartition(*partition)]
    finally:
        await source.stop()
