"""The service on a real Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from service.memory import PlainTranslator

from relay.model.records import SOURCE_HEADER, ConsumerRecord

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000


def numbered(count: int, partitions: int = 1, start: int = 0) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("", i % partitions, 0, NOW + i, b"k%d" % i, b"v%d" % i)
        for i in range(start, start + count)
    ]


def source_of(record: ConsumerRecord) -> str:
    (mark,) = [value for name, value in record.headers if name == SOURCE_HEADER]
    assert mark is not None
    return mark.decode()


def without_repeats(records: list[ConsumerRecord]) -> list[bytes | None]:
    """Values in order of their first appearance; a repeat has the mark of a record that is already there."""
    first = {source_of(record): record.value for record in reversed(records)}
    seen = dict.fromkeys(source_of(record) for record in records)
    return [first[mark] for mark in seen]


def names(relay: Any) -> list[str]:
    """Event names without the Kafka client's own, which depend on the moment."""
    return [each["event"] for each in relay.log.events if each["event"] != "kafka.client"]


async def test_everything_of_a_record_is_kept(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    headers = (("h", b"1"), ("h", b"2"), ("ä", None), ("e", b""))
    given = [
        ConsumerRecord(source, 0, 0, NOW, b"key", b"value", headers),
        ConsumerRecord(source, 0, 1, NOW - 1, b"tombstone", None),
        ConsumerRecord(source, 0, 2, NOW + 5, None, b"no key"),
        ConsumerRecord(source, 0, 3, NOW, None, None),
        ConsumerRecord(source, 0, 4, NOW, b"", b""),
    ]
    await kafka.produce(source, given)
    relay = run_relay(make_config(source, target), echo(target))
    found = await kafka.read(target, at_least=len(given))
    assert await relay.stop() == 0

    kept = [(r.timestamp_ms, r.key, r.value, r.headers[:-1]) for r in found]
    assert kept == [(r.timestamp_ms, r.key, r.value, r.headers) for r in given]
    assert [source_of(r) for r in found] == [f"{source}/0/{r.offset}/0" for r in given]
    assert await kafka.committed(relay.config.source.group_id) == {(source, 0): 5}
    opening = ["topics.created", "partitions.assigned", "schemas.loaded", "partitions.opened"]
    assert names(relay) == ["relay.starting", *opening, "relay.stopping", "relay.stopped"]
    assert relay.log.events[-1]["records_read"] == relay.log.events[-1]["records_written"] == 5


async def test_order_is_kept_in_every_partition(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(4), await kafka.topic(4)
    given = numbered(20_000, partitions=4)
    await kafka.produce(source, given)
    relay = run_relay(
        make_config(source, target, target_max_batch_bytes=5_000, source_fetch_max_bytes=100_000),
        echo(target),
    )
    found = await kafka.read(target, at_least=len(given))
    assert await relay.stop() == 0
    for partition in range(4):
        assert [r.value for r in found if r.partition == partition] == [
            r.value for r in given if r.partition == partition
        ]


async def test_a_restart_goes_on_where_the_last_run_stopped(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target)
    await kafka.produce(source, numbered(10, 2))
    relay = run_relay(config, echo(target))
    await kafka.read(target, at_least=10)
    assert await relay.stop() == 0
    assert [each["records"] for each in relay.log.named("schemas.loaded")] == [0]
    await kafka.produce(source, numbered(10, 2, start=10))
    relay = run_relay(config, echo(target))
    found = await kafka.read(target, at_least=20)
    assert await relay.stop() == 0
    assert len(found) == 20


async def test_latest_skips_what_is_there_and_nothing_after(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    config = make_config(source, target, source_start="latest")
    await kafka.produce(source, numbered(10))
    relay = run_relay(config, echo(target))
    # The start itself is committed, so that a crash before the first record does not move it.
    await kafka.until(lambda: committed(kafka, relay, source, 10))
    assert await relay.stop() == 0
    await kafka.produce(source, numbered(5, start=10))
    relay = run_relay(config, echo(target))
    found = await kafka.read(target, at_least=5)
    assert await relay.stop() == 0
    assert [r.value for r in found] == [b"v%d" % i for i in range(10, 15)]


async def committed(kafka: Any, relay: Any, topic: str, offset: int) -> bool:
    return bool((await kafka.committed(relay.config.source.group_id)).get((topic, 0)) == offset)


async def test_an_oversize_record_stops_the_relay(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic(max_message_bytes="2000")
    await kafka.produce(source, numbered(10))
    translator = echo(target)
    translator.grow[b"v3"] = 3_000
    config = make_config(source, target)
    for _ in range(2):  # a restart stops at the same record
        relay = run_relay(config, translator)
        assert await relay.ended() == 3
        (refused,) = relay.log.named("record.refused")
        assert (refused["partition"], refused["offset"], refused["code"]) == (
            f"{source}/0",
            3,
            "service.record-too-large",
        )
        assert f"{source}/0 offset 3" in refused["message"]
        assert "accepts 2000" in refused["message"]
        assert await kafka.committed(config.source.group_id) == {(source, 0): 3}
    assert [r.value for r in await kafka.read(target)] == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_the_size_limit_is_exact(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, compression: str
) -> None:
    """The largest record that passes our check is taken by the broker."""
    source, target = await kafka.topic(), await kafka.topic(max_message_bytes="2000")
    await kafka.produce(source, numbered(1))
    translator = echo(target)
    translator.grow[b"v0"] = 2_000
    config = make_config(source, target, target_compression=compression)
    relay = run_relay(config, translator)
    assert await relay.ended() == 3
    excess = int(relay.log.named("record.refused")[0]["message"].split(" bytes")[0].split()[-1]) - 2_000
    translator.grow[b"v0"] -= excess
    relay = run_relay(config, translator)
    (found,) = await kafka.read(target, at_least=1)
    assert await relay.stop() == 0
    assert len(found.value) == 2_000 - excess


async def test_an_undecodable_record_stops_the_relay(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    given = [*numbered(100), ConsumerRecord("", 0, 0, NOW, None, b"poison"), *numbered(100, start=100)]
    await kafka.produce(source, given)
    config = make_config(source, target)
    for _ in range(2):
        relay = run_relay(config, echo(target))
        assert await relay.ended() == 2
        (refused,) = relay.log.named("record.refused")
        assert (refused["partition"], refused["offset"], refused["code"]) == (
            f"{source}/0",
            100,
            "decode.malformed",
        )
        assert (await kafka.committed(config.source.group_id))[source, 0] == 100
    assert [r.value for r in await kafka.read(target)] == [r.value for r in given[:100]]


async def test_a_defect_of_a_codec_stops_the_relay(kafka: Any, make_config: Any, run_relay: Any) -> None:
    class Broken(PlainTranslator):
        def translate(self, record: ConsumerRecord, /) -> list[Any]:
            raise KeyError(record.value, "secret value")

    source, target = await kafka.topic(), await kafka.topic()
    await kafka.produce(source, numbered(1))
    relay = run_relay(make_config(source, target), Broken())
    assert await relay.ended() == 1
    assert relay.log.named("relay.internal-error")[0]["kind"] == "KeyError"
    assert "secret" not in str(relay.log.events)


async def test_records_deleted_before_they_were_read_are_not_passed_over(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    config = make_config(source, target)
    await kafka.produce(source, numbered(10))
    relay = run_relay(config, echo(target))
    await kafka.read(target, at_least=10)
    assert await relay.stop() == 0
    await kafka.produce(source, numbered(10))
    await kafka.delete_before(source, 15)
    relay = run_relay(config, echo(target))
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.records-gone"
    assert "offsets 10 to 14" in relay.log.named("relay.failed")[0]["message"]


async def test_two_members_share_and_hand_over_without_loss(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(4), await kafka.topic(4)
    config = make_config(source, target)
    await kafka.produce(source, numbered(4_000, 4))
    first = run_relay(config, echo(target))
    await kafka.read(target, at_least=100)
    second = run_relay(config, echo(target))
    await kafka.produce(source, numbered(4_000, 4, start=4_000))
    await kafka.until(lambda: opened(second))
    await kafka.produce(source, numbered(4_000, 4, start=8_000))
    assert await first.stop() == 0
    await kafka.produce(source, numbered(4_000, 4, start=12_000))
    await kafka.until(lambda: complete(kafka, target, 16_000))
    assert await second.stop() == 0
    found = await kafka.read(target)
    for partition in range(4):
        values = without_repeats([r for r in found if r.partition == partition])
        assert values == [b"v%d" % i for i in range(partition, 16_000, 4)]
    assert sum((await kafka.committed(config.source.group_id)).values()) == 16_000


async def opened(relay: Any) -> bool:
    return bool(relay.log.named("partitions.opened"))


async def complete(kafka: Any, topic: str, count: int) -> bool:
    """Tell whether so many different records have arrived."""
    return bool(
        await kafka.length(topic) >= count and len({source_of(r) for r in await kafka.read(topic)}) >= count
    )
