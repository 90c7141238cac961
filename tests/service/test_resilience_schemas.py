"""Table definitions outlive restarts, hand-overs and whatever happens to the topic that keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from service.resilience_support import MODES, NOW, committed
from support import CANAL, TICDC, captured, translated_records

from relay.config.wiring import translator_of
from relay.core.translator import Translator
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

FILES = [
    f"ticdc/canal-json.tidb-extension/{name}"
    for name in ("01_all_types", "04_strings_binary", "09_dml", "10_ddl")
]


def ddl(sql: str, at: int, kind: str = "ALTER") -> ConsumerRecord:
    """A statement about `orders`, in partition 0, where TiCDC sends it."""
    return _message(0, at, isDdl=True, type=kind, sql=sql)


def row(number: int, at: int, partition: int = 1) -> ConsumerRecord:
    types = {"id": "int", "note": "varchar"}
    fields = {
        "data": [{"id": str(number), "note": "x"}],
        "mysqlType": types,
        "sqlType": {"id": 4, "note": 12},
        "pkNames": ["id"],
    }
    return _message(partition, at, isDdl=False, type="INSERT", sql="", **fields)


def _message(partition: int, at: int, **fields: Any) -> ConsumerRecord:
    absent = dict.fromkeys(("pkNames", "sqlType", "mysqlType", "data", "old"))
    message = {
        "id": 0,
        "database": "shop",
        "table": "orders",
        "es": NOW + at,
        "ts": NOW + at,
        **absent,
        **fields,
    }
    return ConsumerRecord("", partition, 0, NOW + at, None, json.dumps(message).encode())


CREATE = ddl("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(100))", 0, "CREATE")
ALTER = ddl("ALTER TABLE orders MODIFY note VARCHAR(200)", 2_000)


def types_of(records: list[ConsumerRecord]) -> dict[int, str]:
    """The type of `note` in every row, by its id."""
    messages = [json.loads(record.value or b"{}") for record in records]
    return {
        int(message["data"][0]["id"]): message["mysqlType"]["note"]
        for message in messages
        if not message["isDdl"]
    }


async def write(kafka: Any, topic: str, *records: ConsumerRecord) -> None:
    await kafka.produce(topic, records)


@pytest.mark.parametrize("mode", MODES)
async def test_restarts_change_no_byte(kafka: Any, make_config: Any, run_relay: Any, mode: str) -> None:
    """Real messages of TiCDC, with a restart in the middle of each kind: as if there had been none."""
    source, target = await kafka.topic(), await kafka.topic()
    config = make_config(source, target, **MODES[mode])
    given = [record for path in FILES for record in captured(path)]
    steps = 4
    for step in range(steps):
        await kafka.produce(source, given[len(given) * step // steps : len(given) * (step + 1) // steps])
        relay = run_relay(config, None)
        await committed(kafka, relay, len(given) * (step + 1) // steps)
        assert await relay.stop() == 0
    assert relay.log.named("schemas.loaded")[0]["records"] > 10
    originals = await kafka.read(source)
    expected = [
        (out.key, out.value, out.headers) for out in translated_records(translator_of(config), originals)
    ]
    assert [(one.key, one.value, one.headers) for one in await kafka.read(target, committed=True)] == expected
    # Not so without: the last part alone has rows of tables that were created before it.
    late = originals[len(given) * (steps - 1) // steps :]
    alone = [out.value for out in translated_records(Translator(TICDC, CANAL, topic=target), late)]
    assert alone != [value for _, value, _ in expected][-len(alone) :]


@pytest.mark.parametrize("mode", MODES)
async def test_another_instance_knows_what_the_first_has_learned(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """Both are at work: what one reads in partition 0, the other learns before it opens its partitions, and
    while it runs.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    shards = {"delivery_shards": 2} if mode == "exactly-once" else {}
    config = make_config(source, target, **MODES[mode], **shards)
    await write(kafka, source, CREATE, row(1, 1, partition=0))
    first = run_relay(config, None)
    await kafka.until(lambda: holds(kafka, target, 2))
    other = config
    if shards:
        other = config.model_copy(update={"delivery": config.delivery.model_copy(update={"shard": 1})})
    second = run_relay(other, None)
    await kafka.until(lambda: one_each(first, second))
    await write(kafka, source, row(2, 1_000), row(3, 1_000, partition=0))
    await kafka.until(lambda: holds(kafka, target, 4))
    before = await kafka.length(config.history_topic)
    await write(kafka, source, ALTER)
    await kafka.until(lambda: longer(kafka, config.history_topic, before))
    await kafka.until(lambda: knows(first, second))
    await write(kafka, source, row(4, 3_000), row(5, 3_000, partition=0))
    await kafka.until(lambda: holds(kafka, target, 7))
    assert [await first.stop(), await second.stop()] == [0, 0]
    early = dict.fromkeys((1, 2, 3), "varchar(100)")
    assert types_of(await kafka.read(target, committed=True)) == early | dict.fromkeys((4, 5), "varchar(200)")


async def one_each(*relays: Any) -> bool:
    """Whether each relay has opened one of the two partitions."""
    opened = [
        relay.log.named("partitions.opened")[-1]["offsets"]
        for relay in relays
        if relay.log.named("partitions.opened")
    ]
    return sorted(map(len, opened)) == [1, 1]


async def knows(*relays: Any) -> bool:
    return len({len(str(relay.status.translator.catalog)) for relay in relays}) == 1


async def holds(kafka: Any, topic: str, count: int) -> bool:
    return len(await kafka.read(topic, committed=True)) >= count


async def longer(kafka: Any, topic: str, length: int) -> bool:
    return bool(await kafka.length(topic) > length)


async def test_a_deleted_history_is_created_anew_at_the_start(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """Then the tables are known from their next CREATE TABLE on, as without a history; nothing is lost but
    that.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target)
    await write(kafka, source, CREATE)
    relay = run_relay(config, None)
    await committed(kafka, relay, 1)
    assert await relay.stop() == 0
    await kafka.admin.delete_topics([config.history_topic])
    await write(kafka, source, row(1, 1_000))
    relay = run_relay(config, None)
    await committed(kafka, relay, 2)
    assert await relay.stop() == 0
    assert relay.log.named("topics.created")[0]["topics"] == [config.history_topic]
    assert types_of(await kafka.read(target)) == {1: "varchar"}
    assert relay.status.translator.losses["schema-inferred"] == 1


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
async def test_a_damaged_entry_of_the_history_ends_relay(
    kafka: Any, make_config: Any, run_relay: Any, running: bool
) -> None:
    """Its key is relay's, so the definition of a table would be missing."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target)
    await write(kafka, source, CREATE)
    relay = run_relay(config, None)
    await committed(kafka, relay, 1)
    if not running:
        assert await relay.stop() == 0
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(config.history_topic, b"something else", key=b"orders/0/7")
    await write(kafka, source, row(1, 1_000))
    if not running:
        relay = run_relay(config, None)
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.topic-unusable"
    assert failed["message"].startswith(
        f"{config.history_topic}/0 at 1 is not a record of a schema history: "
    )
    assert "schema-history repair" in failed["message"]


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
async def test_a_foreign_record_in_the_history_stops_no_relay(
    kafka: Any, make_config: Any, run_relay: Any, running: bool
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target)
    await write(kafka, source, CREATE)
    relay = run_relay(config, None)
    await committed(kafka, relay, 1)
    if not running:
        assert await relay.stop() == 0
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(config.history_topic, b"something else", key=b"k")
    await write(kafka, source, row(1, 1_000))
    if not running:
        relay = run_relay(config, None)
    await committed(kafka, relay, 2)
    assert await relay.stop() == 0
    assert types_of(await kafka.read(target)) == {1: "varchar(100)"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_history_deleted_while_running(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """The next DDL cannot be kept before relay has made a new history. What the old one held is known until a
    restart.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, delivery_delivery_timeout_seconds=1.0, **MODES[mode])
    await write(kafka, source, CREATE)
    relay = run_relay(config, None)
    await committed(kafka, relay, 1)
    await kafka.admin.delete_topics([config.history_topic])
    await write(kafka, source, ALTER, row(1, 3_000, partition=0))
    await committed(kafka, relay, 3)
    assert await relay.stop() == 0
    await write(kafka, source, row(2, 4_000, partition=0))
    relay = run_relay(config, None)
    await committed(kafka, relay, 4)
    assert await relay.stop() == 0
    # An ALTER TABLE alone tells nothing.
    assert types_of(await kafka.read(target, committed=True)) == {1: "varchar(200)", 2: "varchar"}
