"""Writing over aiokafka, on a real Apache Kafka: what a failed batch, a worn producer or a transaction
without answer leads to.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.producer.sender import TxnOffsetCommitHandler
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from service.transport_support import MODES, NOW, SMALL, Route, both_modes, marks, route

from relay.config.kafka import producer_settings, transactional_settings
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.settings import Timeouts
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.model.errors import InstanceFenced
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.settings import LoopSettings

__all__ = ["route"]
pytestmark = pytest.mark.kafka


# ---------------------------------------------------------------- a batch that fails


@both_modes
async def test_a_limit_that_is_lowered_while_running_loses_nothing(route: Route, mode: str) -> None:
    """The client alone would commit the transaction without the batch that the broker has refused. relay looks
    at the limit again, and finds the record that is too large for it.
    """
    await route.lay(mode, target_compression="none", **SMALL)
    route.translator.grow[b"1500"] = 5_000
    await route.produce(1_000)
    relay = route.start()
    await route.until_committed(1_000, relay)
    await route.set_target(max_message_bytes="4000")
    await route.produce(1_000, start=1_000)
    assert await relay.ended() == 3
    (refused,) = relay.log.named("record.refused")
    assert (refused["code"], refused["offset"]) == ("service.record-too-large", 750)
    assert any("MESSAGE_SIZE_TOO_LARGE" in each["reason"] for each in relay.log.named("delivery.failed"))

    found, committed = await route.written(), await route.committed()
    for partition in (0, 1):
        values = [number for _, number in marks(found, partition)]
        seen = list(dict.fromkeys(values))
        assert seen == [partition + 2 * i for i in range(len(seen))]
        assert committed[partition] <= len(seen)
        if route.once:
            # What was written with the refused batch is not visible, and every visible record is committed.
            assert committed[partition] == len(seen) == len(values)
    assert committed[0] <= 750

    route.translator.grow.clear()
    relay = route.start()
    await route.until_committed(2_000, relay)
    assert await relay.stop() == 0
    await route.check(2_000)


async def test_a_client_commits_a_transaction_whose_batch_was_refused(kafka: Any) -> None:
    """Why relay awaits every batch itself. If this fails, aiokafka has changed."""
    target = await kafka.topic(max_message_bytes="1000")
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"id-{target}"
    ) as producer:
        await producer.begin_transaction()
        batch = producer.create_batch()
        batch.append(timestamp=NOW, key=None, value=b"x" * 2_000)
        refused = await producer.send_batch(batch, target, partition=0)
        await producer.commit_transaction()
        with pytest.raises(KafkaError, match="MessageSizeTooLarge"):
            await refused


async def send(sink: KafkaSink, target: str, value: bytes, partition: int = 0) -> None:
    batch = sink.batch(target)
    batch.append(ProducerRecord(target, partition, NOW, None, value))
    await sink.delivered([await sink.send(Partition(target, partition), batch)])


async def test_after_a_refused_batch_only_a_new_producer_can_write(kafka: Any, make_config: Any) -> None:
    """The sequence number of the refused batch is used up, and the broker misses it for ever."""
    target = await kafka.topic(max_message_bytes="1000")
    config = make_config("none", target, target_compression="none")
    first, second = (
        KafkaSink(producer_settings(config), {target: 100_000}),
        KafkaSink(producer_settings(config), {target: 1_000}),
    )
    await first.start()
    await send(first, target, b"one")
    with pytest.raises(Undelivered, match="MESSAGE_SIZE_TOO_LARGE"):
        await send(first, target, b"x" * 2_000)
    for _ in range(2):
        with pytest.raises(Undelivered, match="OUT_OF_ORDER_SEQUENCE_NUMBER") as raised:
            await send(first, target, b"two")
        assert not raised.value.retriable
    await first.abandon()
    await second.start()
    await send(second, target, b"two")
    await second.stop()
    assert [r.value for r in await kafka.read(target)] == [b"one", b"two"]


@both_modes
async def test_a_sequence_out_of_order_replaces_the_producer(route: Route, mode: str) -> None:
    """The broker itself refuses everything after a gap; then all is written, in order."""
    await route.lay(mode, **SMALL)
    relay = route.start()
    await route.produce(2_000)
    await route.until_committed(2_000, relay)
    route.clients.sinks[0].producer._txn_manager.increment_sequence_number(TopicPartition(route.target, 1), 1)
    await route.produce(18_000, start=2_000)
    await route.until_committed(20_000, relay)
    assert await relay.stop() == 0
    (failed,) = relay.log.named("delivery.failed")
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in failed["reason"]
    assert len(route.clients.sinks) == 2
    await route.check(20_000)


# ---------------------------------------------------------------- a producer's life


@both_modes
async def test_a_producer_is_changed_before_its_sequence_numbers_end(route: Route, mode: str) -> None:
    route.clients.producer = {"rotate_after_records": 2_000}
    await route.lay(mode, **SMALL)
    await route.produce(20_000)
    relay = route.start()
    await route.until_committed(20_000, relay)
    assert await relay.stop() == 0
    assert len(route.clients.sinks) >= 3
    assert len(relay.log.named("sink.replaced")) == len(route.clients.sinks) - 1
    assert relay.log.named("delivery.failed") == []
    # Changed at quiet moments, so nothing is repeated in either mode.
    await route.check(20_000, once=True)


@both_modes
@pytest.mark.parametrize("which", ["producer", "consumer"])
async def test_a_client_whose_stop_never_returns_is_left_behind(route: Route, which: str, mode: str) -> None:
    route.settings = LoopSettings(timeouts=Timeouts(stop_seconds=0.3))
    hung = []

    def hang(end: Any, _: int) -> None:
        client = vars(end).get(which)

        async def never() -> None:
            client._closed = True
            hung.append(client)
            await asyncio.Event().wait()

        if client is not None:
            client.stop = never

    route.clients.on_sink = route.clients.on_source = hang
    await route.lay(mode)
    await route.produce(100)
    relay = route.start()
    await route.until_committed(100, relay)
    began = time.monotonic()
    assert await relay.stop() == 0
    assert time.monotonic() - began < 10
    assert len(set(hung)) == 1
    await route.check(100, once=True)


# ---------------------------------------------------------------- transactions


async def test_everything_of_a_record_is_kept_in_a_transaction(route: Route) -> None:
    await route.lay("exactly-once", partitions=1)
    headers = (("h", b"1"), ("h", b"2"), ("ä", None), ("e", b""))
    given = [
        ConsumerRecord("", 0, 0, NOW, b"key", b"value", headers),
        ConsumerRecord("", 0, 1, NOW - 1, b"tombstone", None),
        ConsumerRecord("", 0, 2, NOW + 5, None, b"no key"),
        ConsumerRecord("", 0, 3, NOW, None, None),
        ConsumerRecord("", 0, 4, NOW, b"", b""),
    ]
    await route.kafka.produce(route.source, given)
    relay = route.start()
    await route.until_committed(5, relay)
    assert await relay.stop() == 0
    kept = [(r.timestamp_ms, r.key, r.value, r.headers[:-1]) for r in await route.written()]
    assert kept == [(r.timestamp_ms, r.key, r.value, r.headers) for r in given]


REQUESTS = [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]


@pytest.mark.parametrize("is_heard", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("request_class", REQUESTS, ids=lambda each: each.__name__)
async def test_a_transaction_without_an_answer_ends_at_a_deadline(
    route: Route, request_class: Any, is_heard: bool
) -> None:
    """From some time on, the first producer's coordinator is as good as dead; the client itself would wait
    for ever.
    """
    is_deaf = False

    def deafen(sink: Any, number: int) -> None:
        if number:
            return
        original = sink.producer.client.send

        async def send(node: int, request: Any, **given: Any) -> Any:
            if is_deaf and isinstance(request, request_class):
                if is_heard:
                    await original(node, request, **given)
                await asyncio.Event().wait()
            return await original(node, request, **given)

        sink.producer.client.send = send

    route.clients.on_sink = deafen
    await route.lay("exactly-once", delivery_delivery_timeout_seconds=1.0, **SMALL)
    await route.produce(2_000)
    relay = route.start()
    await route.until_committed(2_000, relay)
    is_deaf = True
    await route.produce(2_000, start=2_000)
    await route.until_committed(4_000, relay)
    assert await relay.stop() == 0
    (failed,) = relay.log.named("delivery.failed")
    assert failed["retriable"]
    assert len(route.clients.sinks) == 2
    await route.check(4_000)


async def test_an_answer_that_the_client_does_not_know_replaces_the_producer(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka may answer 13 (network exception) to offsets of a transaction, and the client's sender dies of it
    (issue 1004).
    """
    original = TxnOffsetCommitHandler.handle_response
    is_strange = False

    def handle_response(self: Any, answer: Any) -> Any:
        nonlocal is_strange
        if is_strange:
            is_strange = False
            answer.errors = [
                (topic, [(partition, 13) for partition, _ in each]) for topic, each in answer.errors
            ]
        return original(self, answer)

    monkeypatch.setattr(TxnOffsetCommitHandler, "handle_response", handle_response)
    await route.lay("exactly-once", **SMALL)
    await route.produce(2_000)
    relay = route.start()
    await route.until_committed(2_000, relay)
    is_strange = True
    await route.produce(2_000, start=2_000)
    await route.until_committed(4_000, relay)
    assert await relay.stop() == 0
    (failed,) = relay.log.named("delivery.failed")
    assert "NETWORK_EXCEPTION" in failed["reason"]
    await route.check(4_000)


async def test_a_target_that_is_gone_is_asked_for_now_and_then(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's sender asks the brokers again as soon as they have answered, hundreds of times a second."""
    target = await kafka.topic()
    config = make_config(target, target, delivery_delivery_timeout_seconds=4.0)
    sink = KafkaSink(producer_settings(config), {target: 1_000_000})
    await sink.start()
    await send(sink, target, b"before")
    await kafka.admin.delete_topics([target])
    asked, ask = 0, sink.producer.client._metadata_update

    async def counted(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return await ask(*arguments)

    async def send_on() -> None:
        # The broker takes some until it has really deleted the topic.
        while True:
            await send(sink, target, b"after")

    monkeypatch.setattr(sink.producer.client, "_metadata_update", counted)
    with pytest.raises(Undelivered):
        await send_on()
    await sink.abandon()
    assert 3 < asked <= 60


async def test_offsets_of_a_topic_that_is_gone_end_at_a_deadline(kafka: Any, make_config: Any) -> None:
    """The client itself asks for ever, and lets nobody end the transaction meanwhile."""
    target = await kafka.topic()
    config = make_config(target, target, delivery_delivery_timeout_seconds=1.0, **MODES["exactly-once"])
    sinks = [TransactionalSink(transactional_settings(config), {target: 1_000_000}) for _ in range(2)]
    await sinks[0].start()
    await send(sinks[0], target, b"aborted")
    with pytest.raises(Undelivered) as raised:
        await sinks[0].commit({Partition("gone", 0): 1})
    assert raised.value.retriable
    began = time.monotonic()
    await sinks[0].abandon()
    assert time.monotonic() - began < 15
    await sinks[1].start()
    await send(sinks[1], target, b"committed")
    await sinks[1].commit({Partition(target, 0): 1})
    await sinks[1].stop()
    assert [r.value for r in await kafka.read(target, committed=True)] == [b"committed"]


async def test_a_fenced_producer_is_known_as_one_whatever_is_asked_of_it(
    kafka: Any, make_config: Any
) -> None:
    """The client tells of the other instance once, to whoever waits; later calls hear that there is no
    transaction.
    """
    target = await kafka.topic(2)
    config = make_config(target, target, **MODES["exactly-once"])
    sinks = [TransactionalSink(transactional_settings(config), {target: 1_000_000}) for _ in range(2)]
    await sinks[0].start()
    await send(sinks[0], target, b"aborted")
    await sinks[1].start()
    for _ in range(3):
        with pytest.raises(InstanceFenced, match="another instance with the same shard has started"):
            await send(sinks[0], target, b"late", partition=1)
    with pytest.raises(InstanceFenced):
        await sinks[0].commit({Partition(target, 0): 1})
    await sinks[0].abandon()
    await sinks[1].stop()
    assert await kafka.read(target, committed=True) == []


@pytest.mark.parametrize("is_begun", [False, True], ids=["before it begins", "before it ends"])
async def test_a_sender_that_has_died_unnoticed_is_a_failed_transaction(
    kafka: Any, make_config: Any, is_begun: bool
) -> None:
    """The client then says so with an AssertionError, which would look like a defect of relay."""
    target = await kafka.topic()
    config = make_config(target, target, **MODES["exactly-once"])
    sink = TransactionalSink(transactional_settings(config), {target: 1_000_000})
    await sink.start()
    await send(sink, target, b"one")
    if not is_begun:
        await sink.commit({Partition(target, 0): 1})
    sink.producer._sender.sender_task.cancel()
    sink.producer._txn_manager.fatal_error(KafkaError("gone"))
    with pytest.raises(Undelivered, match="transaction of"):
        await sink.commit({Partition(target, 0): 2})
    await sink.abandon()
