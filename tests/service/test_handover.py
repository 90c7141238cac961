"""From batch to relay: a batch translates what lies before some point, the relay what lies after it, and each
event once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from support import OPEN, TICDC, captured, translated_records

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.config import Config
from relay.config.kafka import start_settings
from relay.config.wiring import translator_of
from relay.core.selection import Selection
from relay.io.kafka.positions import COMMIT_TS_MARGIN_MS as MARGIN_MS
from relay.io.kafka.positions import start_offsets
from relay.model.records import SOURCE_HEADER

pytestmark = pytest.mark.kafka

PARTITIONS = 3
#: TiCDC spread these over three partitions; every record holds one event.
FILES = ["ticdc/canal-json.3-partitions/09_dml", "ticdc/canal-json.3-partitions/10_ddl"]
#: How long after the commit the record was sent; the first is as early as can be, the second later than the
#: margin.
DELAYS_MS = [0, 2 * MARGIN_MS]
Offsets = dict[TopicPartition, int]


def marks(records: Iterable[ConsumerRecord | ProducerRecord]) -> Counter[bytes | None]:
    """Which source records these were made of."""
    return Counter(dict(one.headers)[SOURCE_HEADER] for one in records)


def batch(records: Iterable[ConsumerRecord], selection: Selection | None = None) -> Counter[bytes | None]:
    """What a batch makes of a topic's records: one partition after the other."""
    return marks(translated_records(Translator(TICDC, OPEN, selection=selection), list(records)))


def middle_commit_ts(records: Iterable[ConsumerRecord]) -> int:
    reader = Translator(TICDC, OPEN)
    found = sorted({event.source.commit_ts or 0 for one in records for event in reader.inspect(one)})
    return found[len(found) // 2]


async def filled(kafka: Any, files: str, delay_ms: int = 0) -> list[ConsumerRecord]:
    """A topic with the captured records; gives them as they are read."""
    topic = await kafka.topic(PARTITIONS)
    given = captured(files)
    late = [
        ConsumerRecord("", one.partition, 0, one.timestamp_ms + delay_ms, one.key, one.value) for one in given
    ]
    await kafka.produce(topic, late)
    records: list[ConsumerRecord] = await kafka.read(topic, at_least=len(given))
    assert len(records) == len(given)
    return records


async def beginning(kafka: Any, config: Config, margin_ms: int = MARGIN_MS) -> Offsets:
    """Where a relay with this configuration begins that has no committed offsets."""
    async with AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        partitions = await kafka.partitions(config.source.topics[0])
        settings = start_settings(config.source)
        return await start_offsets(consumer, settings, partitions, margin_ms=margin_ms)


def relayed(records: Iterable[ConsumerRecord], begin: Offsets, config: Config) -> Counter[bytes | None]:
    """What the relay's translator makes of the records from there on."""
    left = [one for one in records if one.offset >= begin[TopicPartition(one.topic, one.partition)]]
    return marks(translated_records(translator_of(config), left))


def half(records: Iterable[ConsumerRecord]) -> dict[str, int]:
    """An offset in each partition, as a batch would note where it has stopped; none for the last, which it
    has not read.
    """
    counts = Counter(f"{one.topic}/{one.partition}" for one in records)
    return {name: count // 2 for name, count in counts.items() if not name.endswith("/2")}


def is_before(one: ConsumerRecord, offsets: dict[str, int]) -> bool:
    return one.offset < offsets.get(f"{one.topic}/{one.partition}", 0)


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("delay_ms", DELAYS_MS)
@pytest.mark.parametrize("margin_ms", [0, MARGIN_MS])
async def test_a_commit_ts_divides_a_topic(
    kafka: Any, make_config: Any, files: str, delay_ms: int, margin_ms: int
) -> None:
    records = await filled(kafka, files, delay_ms)
    bound = middle_commit_ts(records)
    config = make_config(
        records[0].topic, "t", route_to=OPEN, source_start="commit-ts", source_start_commit_ts=bound
    )
    begin = await beginning(kafka, config, margin_ms)
    older, newer = batch(records, Selection(before_commit_ts=bound)), relayed(records, begin, config)
    assert older.total() > 20
    assert newer.total() > 20
    assert older + newer == batch(records)
    # Captured in some seconds: the margin takes in all of it, and so does a delay. Without both there is
    # something to leave out.
    assert (max(begin.values()) > 0) == (delay_ms == margin_ms == 0)


@pytest.mark.parametrize("files", FILES)
async def test_offsets_divide_a_topic(kafka: Any, make_config: Any, files: str) -> None:
    records = await filled(kafka, files)
    offsets = half(records)
    config = make_config(
        records[0].topic, "t", route_to=OPEN, source_start="offsets", source_start_offsets=offsets
    )
    older = batch(one for one in records if is_before(one, offsets))
    newer = relayed(records, await beginning(kafka, config), config)
    assert older.total() > 20
    assert newer.total() > 20
    assert older + newer == batch(records)


# ---------------------------------------------------------------- the whole service


async def run_to_the_end(
    kafka: Any, run_relay: Any, config: Config, target: str, expected: int
) -> Counter[bytes | None]:
    """Run a relay until it has written so many records, and stop it; gives what it has written in all."""
    relay = run_relay(config, None)
    await kafka.read(target, at_least=expected)
    assert await relay.stop() == 0
    return marks(await kafka.read(target))


async def test_a_batch_up_to_a_commit_ts_and_a_relay_from_there_on(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    records = await filled(kafka, FILES[0])
    target = await kafka.topic(PARTITIONS)
    bound = middle_commit_ts(records)
    config = make_config(
        records[0].topic, target, route_to=OPEN, source_start="commit-ts", source_start_commit_ts=bound
    )
    older, whole = batch(records, Selection(before_commit_ts=bound)), batch(records)
    newer = await run_to_the_end(kafka, run_relay, config, target, whole.total() - older.total())
    assert older + newer == whole
    # A restart goes on at the committed offsets, and still leaves out what is older.
    await kafka.produce(records[0].topic, records[-5:])
    again = run_relay(config, None)
    await kafka.read(target, at_least=newer.total() + 5)
    assert await again.stop() == 0


async def test_a_batch_up_to_offsets_and_a_relay_from_there_on(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    records = await filled(kafka, FILES[0])
    target = await kafka.topic(PARTITIONS)
    offsets = half(records)
    config = make_config(
        records[0].topic, target, route_to=OPEN, source_start="offsets", source_start_offsets=offsets
    )
    older, whole = batch(one for one in records if is_before(one, offsets)), batch(records)
    newer = await run_to_the_end(kafka, run_relay, config, target, whole.total() - older.total())
    assert older + newer == whole
