"""A topic of relay's own is read once, whatever cuts the reading off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError

from relay.config.kafka import target_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition
from relay.io.kafka.progress import ProgressTopic, progress_in, progress_records
from relay.io.kafka.whole_topic import WholeTopic
from relay.model.errors import BrokerUnavailable
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka
COUNT = 40
#: The request's key in Kafka's protocol.
METADATA = 3


async def filled(kafka: Any, make_config: Any) -> tuple[WholeTopic, str]:
    """A topic of which no poll gives everything."""
    topic = await kafka.topic(1)
    await kafka.produce(
        topic, [ConsumerRecord("", 0, 0, 0, b"%d" % number, b"x" * 200_000) for number in range(COUNT)]
    )
    config = make_config(topic, topic)
    return WholeTopic(Brokers.from_settings(target_cluster(config)), topic), topic


async def test_a_reading_that_is_cut_off_goes_on_where_it_was(kafka: Any, make_config: Any) -> None:
    whole, _ = await filled(kafka, make_config)
    found: list[int] = []
    some = asyncio.Event()

    def take(records: Sequence[ConsumerRecord]) -> None:
        found.extend(record.offset for record in records)
        if records:
            some.set()

    reading = asyncio.create_task(whole.to_end(take))
    await some.wait()
    reading.cancel()
    await asyncio.wait({reading})
    assert 0 < len(found) < COUNT
    await whole.to_end(take)
    await whole.stop()
    assert found == list(range(COUNT))


async def test_records_that_were_lost_with_an_exception_are_read_again(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = await filled(kafka, make_config)
    getmany, failures = AIOKafkaConsumer.getmany, 3

    async def losing(self: Any, **settings: Any) -> Any:
        nonlocal failures
        polled = await getmany(self, **settings)
        if failures and polled:
            failures -= 1
            raise KafkaConnectionError
        return polled

    monkeypatch.setattr(AIOKafkaConsumer, "getmany", losing)
    found: list[ConsumerRecord] = []
    for _ in range(3):
        with pytest.raises(BrokerUnavailable):
            await whole.to_end(found.extend)
    await whole.to_end(found.extend)
    await whole.stop()
    assert [record.offset for record in found] == list(range(COUNT))


async def test_progress_is_complete_although_its_reading_was_cut_off(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a partition that was noted long ago, nothing may be forgotten: it would begin anew."""
    topic = await kafka.topic(1)
    config = make_config(topic, topic, delivery_progress_topic=topic)
    group = config.source.group_id
    rare, busy = Partition("in", 1), Partition("in", 0)
    noted = [{rare: 7}, *[{busy: number} for number in range(20_000)]]
    records = [record for offsets in noted for record in progress_records(topic, group, offsets)]
    await kafka.produce(topic, [ConsumerRecord("", 0, 0, 0, record.key, record.value) for record in records])
    brokers = Brokers.from_settings(target_cluster(config))
    progress, is_begun = ProgressTopic(brokers, topic, group), asyncio.Event()

    def noting(*given: Any) -> dict[Partition, int]:
        is_begun.set()
        return progress_in(*given)

    monkeypatch.setattr("relay.io.kafka.progress.progress_in", noting)
    reading = asyncio.create_task(progress.read())
    await is_begun.wait()
    reading.cancel()
    await asyncio.wait({reading})
    assert await progress.read() == {rare: 7, busy: 19_999}
    await progress.stop()


async def test_brokers_are_asked_now_and_then_about_a_topic_that_is_gone(
    kafka: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself the client asks hundreds of times a second."""
    whole, topic = await filled(kafka, make_config)
    await whole.to_end(lambda _: None)
    asked, send = 0, AIOKafkaConnection.send

    def counted(self: Any, request: Any, **options: Any) -> Any:
        nonlocal asked
        asked += request.API_KEY == METADATA
        return send(self, request, **options)

    monkeypatch.setattr(AIOKafkaConnection, "send", counted)
    await kafka.admin.delete_topics([topic])
    await kafka.until(lambda: is_missing(whole))
    asked, until = 0, time.monotonic() + 2.0
    while time.monotonic() < until:
        await whole.new()
        await asyncio.sleep(0.01)
    await whole.stop()
    assert asked <= 30


async def is_missing(whole: WholeTopic) -> bool:
    await whole.new()
    return whole.name in whole.health.missing_topics
