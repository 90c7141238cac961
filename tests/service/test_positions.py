"""Where partitions without a committed offset begin, on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from relay.config.kafka import start_settings
from relay.config.keys import SourceConfig
from relay.io.kafka.positions import COMMIT_TS_MARGIN_MS as MARGIN_MS
from relay.io.kafka.positions import start_offsets
from relay.io.kafka.settings import StartSettings
from relay.model.errors import ConfigError, RecordsGone
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

#: 2023-11-14T22:13:20Z.
NOW = 1_700_000_000_000
MINUTE = 60_000


@pytest.fixture
async def consumer(broker: str) -> AsyncIterator[Any]:
    async with AIOKafkaConsumer(bootstrap_servers=broker, isolation_level="read_committed") as found:
        yield found


def start_of(broker: str, topic: str, **settings: Any) -> StartSettings:
    return start_settings(SourceConfig(bootstrap_servers=broker, topics=(topic,), group_id="g", **settings))


async def filled(kafka: Any, *partitions: list[int]) -> str:
    """A topic whose partitions hold records of these times, in minutes after NOW."""
    topic: str = await kafka.topic(len(partitions))
    times = [(number, minute) for number, minutes in enumerate(partitions) for minute in minutes]
    await kafka.produce(
        topic, [ConsumerRecord("", number, 0, NOW + minute * MINUTE, None, b"v") for number, minute in times]
    )
    return topic


async def begin(kafka: Any, consumer: Any, topic: str, log: Any = None, **settings: Any) -> list[int]:
    """Where each partition begins."""
    pairs = await kafka.partitions(topic)
    found = await start_offsets(consumer, start_of(kafka.bootstrap_servers, topic, **settings), pairs, log)
    return [found[pair] for pair in pairs]


async def test_earliest_and_latest(kafka: Any, consumer: Any) -> None:
    topic = await filled(kafka, [0, 1, 2], [])
    await kafka.delete_before(topic, 1)
    assert await begin(kafka, consumer, topic) == [1, 0]
    assert await begin(kafka, consumer, topic, start="latest") == [3, 0]


async def test_no_partition_is_asked_for_nothing(kafka: Any, consumer: Any) -> None:
    assert await start_offsets(consumer, start_of(kafka.bootstrap_servers, "t", start="latest"), []) == {}


async def test_named_offsets_and_the_beginning_for_the_others(kafka: Any, consumer: Any) -> None:
    topic = await filled(kafka, [0, 1, 2], [0, 1], [0], [])
    named = {f"{topic}/0": 2, f"{topic}/1": 2, f"{topic}/3": 0}
    assert await begin(kafka, consumer, topic, start="offsets", start_offsets=named) == [2, 2, 0, 0]
    await kafka.delete_before(topic, 2)
    assert await begin(kafka, consumer, topic, start="offsets", start_offsets=named) == [2, 2, 0, 0]
    # A partition that is not named begins with what is there.
    assert (await begin(kafka, consumer, topic, start="offsets", start_offsets={f"{topic}/1": 1}))[0] == 2


async def test_a_named_offset_that_was_deleted_is_no_gap_in_silence(kafka: Any, consumer: Any) -> None:
    topic = await filled(kafka, [0, 1, 2, 3])
    await kafka.delete_before(topic, 3)
    with pytest.raises(RecordsGone, match=rf"{topic}/0 begins at 3, but start_offsets has 2"):
        await begin(kafka, consumer, topic, start="offsets", start_offsets={f"{topic}/0": 2})


async def test_a_named_offset_that_was_not_reached_is_a_mistake(kafka: Any, consumer: Any) -> None:
    topic = await filled(kafka, [0, 1], [0])
    await kafka.delete_before(topic, 1)
    with pytest.raises(ConfigError) as wrong:
        await begin(kafka, consumer, topic, start="offsets", start_offsets={f"{topic}/0": 3, f"{topic}/1": 9})
    assert [problem.path for problem in wrong.value.problems] == [
        f'source.start_offsets."{topic}/{at}"' for at in (0, 1)
    ]
    assert "is 3, and the partition has 1 to 2" in str(wrong.value)


async def test_a_time_begins_at_the_first_record_that_is_not_older(kafka: Any, consumer: Any) -> None:
    # In the second partition records are not in the order of their times: what comes first counts.
    topic = await filled(kafka, [0, 1, 2], [0, 2, 1, 2], [0], [])
    settings = {"start": "timestamp", "start_timestamp": "2023-11-14T22:14:20Z"}
    assert await begin(kafka, consumer, topic, **settings) == [1, 1, 1, 0]


async def test_a_record_that_comes_while_offsets_are_asked_for_is_not_passed_over(
    kafka: Any, consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker finds nothing that recent; then a record arrives before anybody asks for the end."""
    topic = await filled(kafka, [0, 1])
    original = consumer.offsets_for_times

    async def late(timestamps: dict[Any, int]) -> Any:
        found = await original(timestamps)
        await kafka.produce(topic, [ConsumerRecord("", 0, 0, NOW + 30 * MINUTE, None, b"late")])
        return found

    monkeypatch.setattr(consumer, "offsets_for_times", late)
    assert await begin(kafka, consumer, topic, start="timestamp", start_timestamp="2023-11-14T22:33:20Z") == [
        2
    ]


def commit_ts(minute: int) -> dict[str, Any]:
    return {"start": "commit-ts", "start_commit_ts": (NOW + minute * MINUTE << 18) + 77}


async def test_a_commit_ts_begins_ten_minutes_before_its_time(kafka: Any, consumer: Any) -> None:
    assert MARGIN_MS == 10 * MINUTE
    topic = await filled(kafka, [0, 29, 30, 31, 40, 41], [0, 50], [35], [])
    assert await begin(kafka, consumer, topic, **commit_ts(40)) == [2, 1, 0, 0]


async def test_a_commit_ts_that_no_record_comes_near_begins_at_the_oldest_record(
    kafka: Any, consumer: Any
) -> None:
    """Where timestamps are no times the end would lose everything; where they are, the translator leaves all
    of it out.
    """
    topic = await filled(kafka, [0, 1, 2])
    await kafka.delete_before(topic, 1)
    assert await begin(kafka, consumer, topic, **commit_ts(600)) == [1]


async def test_a_commit_ts_of_the_first_minutes_of_time_is_no_negative_time(
    kafka: Any, consumer: Any
) -> None:
    topic = await filled(kafka, [0])
    assert await begin(kafka, consumer, topic, start="commit-ts", start_commit_ts=1) == [0]


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (commit_ts(3), True),
        (commit_ts(4), False),
        ({"start": "timestamp", "start_timestamp": "2023-11-14T22:16:20Z"}, True),
        ({"start": "timestamp", "start_timestamp": "2023-11-14T22:17:20Z"}, False),
    ],
)
async def test_a_start_that_retention_may_have_truncated_is_reported(
    kafka: Any, consumer: Any, list_log: Any, settings: dict[str, Any], warned: bool
) -> None:
    """Deleted records are older than minute 4, and so may be younger than minute 3."""
    topic = await filled(kafka, [0, 1, 4, 5], [4])
    await kafka.delete_before(topic, 2)
    assert await begin(kafka, consumer, topic, list_log, **settings) == [2, 0]
    assert [each["event"] for each in list_log.events] == ["start.truncated"] * warned
    assert all(
        f"{topic}/0 begins at offset 2, 60000 ms after the requested start" in each["message"]
        for each in list_log.events
    )


async def test_partitions_that_are_not_asked_for_are_not_given(kafka: Any, consumer: Any) -> None:
    topic = await filled(kafka, [0], [0, 1], [0])
    pair = TopicPartition(topic, 1)
    for settings in (
        {},
        {"start": "latest"},
        {"start": "offsets", "start_offsets": {f"{topic}/0": 1}},
        commit_ts(0),
    ):
        found = await start_offsets(consumer, start_of(kafka.bootstrap_servers, topic, **settings), [pair])
        assert list(found) == [pair]
