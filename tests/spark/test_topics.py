"""Topics in, topics out: keys, values, headers, timestamps, partitions and order are those of the relay's
output topic.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from pyspark.accumulators import _accumulatorRegistry
from service.topics_support import settings_of
from spark.backfills import config_for, lines_in
from support import captured

from relay import ConsumerRecord, ProducerRecord
from relay.config import Config
from relay.config.kafka import producer_settings, start_settings, target_cluster
from relay.config.wiring import translator_of
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered
from relay.io.kafka.positions import start_offsets
from relay.io.kafka.sink import KafkaSink
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, RelayError, TopicUnusable
from relay.model.records import SOURCE_HEADER
from relay.topics.startup import Topics
from spark_backfill.counts import as_document, as_text
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.sink import Write
from spark_backfill.spark_errors import explained
from spark_backfill.task_errors import Stopped
from spark_backfill.topics import SourceTopics

pytestmark = pytest.mark.kafka
BULK = "ticdc/canal-json.tidb-extension/12_bulk"
SPREAD = "ticdc/canal-json.3-partitions/10_ddl"


def of_topic(name: str, file: str) -> list[ConsumerRecord]:
    """A file's records as they are read from a topic: offsets from 0 in every partition, headers kept."""
    found: dict[int, int] = {}
    records = []
    for record in captured(file):
        offset = found[record.partition] = found.get(record.partition, -1) + 1
        records.append(msgspec.structs.replace(record, topic=name, offset=offset))
    return records


def relayed(config: Config, records: list[ConsumerRecord]) -> dict[int, list[ProducerRecord]]:
    translator = translator_of(config)
    translator.expect_partitions({(each.topic, each.partition) for each in records})
    found: dict[int, list[ProducerRecord]] = {}
    for record in records:
        for out in translator.translate(record):
            found.setdefault(out.partition, []).append(out)
    return found


def contents(records: list[ConsumerRecord] | list[ProducerRecord]) -> dict[int, list[tuple[object, ...]]]:
    """What a record is, by partition: all but its offset."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(
            (record.timestamp_ms, record.key, record.value, record.headers)
        )
    return found


def by_source(made: list[tuple[object, ...]]) -> dict[bytes, list[tuple[object, ...]]]:
    """The contents of a target partition by their source partition, in order."""
    found: dict[bytes, list[tuple[object, ...]]] = {}
    for each in made:
        *_, headers = each
        source = dict(cast("Any", headers))[SOURCE_HEADER].rpartition(b"/")[0].rpartition(b"/")[0]
        found.setdefault(source, []).append(each)
    return found


def expected_of(config: Config, records: list[ConsumerRecord]) -> dict[int, list[tuple[object, ...]]]:
    return contents([out for made in relayed(config, records).values() for out in made])


def topics_config(kafka: Any, source: str, target: str, tmp_path: Path, /, **tables: Any) -> Config:
    own: dict[str, dict[str, Any]] = {
        "source": {"bootstrap_servers": kafka.bootstrap_servers, "topics": [source]},
        "target": {"topic": target},
        "backfill": {"checkpoint": str(tmp_path / "checkpoint"), "task_records": 100},
    }
    for name, keys in tables.items():
        own.setdefault(name, {}).update(keys)
    return config_for("", "", **own)


def known(limits: dict[str, int]) -> Topics:
    return Topics(limits=limits, sources={}, target_partitions=dict.fromkeys(limits, 1))


def held(spark: Any) -> tuple[int, list[Path]]:
    """What PySpark keeps on the driver: accumulators, and the files of broadcast values."""
    return len(_accumulatorRegistry), sorted(Path(spark.sparkContext._temp_dir).iterdir())


async def topic_of_the_relay(
    kafka: Any, config: Config, folder: Path, partitions: int, count: int
) -> list[ConsumerRecord]:
    """What the relay's own process writes along this route; `count`: how much that is."""
    target = await kafka.topic(partitions)
    route, path = config.route, folder / "relay.toml"
    path.write_text(
        f"""
        [route]
        from = "{route.from_}"
        to = "{route.to}"
        [source]
        bootstrap_servers = "{kafka.bootstrap_servers}"
        topics = {json.dumps(config.source.topics)}
        group_id = "{target}"
        [target]
        topic = "{target}"
        [schema]
        wait_for_ddl = {json.dumps(config.schema.wait_for_ddl)}
        """
    )
    with (folder / "relay.log").open("wb") as log:
        command = (sys.executable, "-m", "relay", "run", "--config", str(path))
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        try:
            return cast("list[ConsumerRecord]", await kafka.read(target, count))
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 60) == 0, (folder / "relay.log").read_text()


@pytest.mark.parametrize(
    ("file", "partitions", "to"), [(BULK, 1, "ticdc-debezium"), (SPREAD, 3, "ticdc-open-protocol")]
)
async def test_the_target_topic_is_the_relays(
    file: str, partitions: int, to: str, spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source, target = await kafka.topic(partitions), await kafka.topic(partitions)
    records = of_topic(source, file)
    await kafka.produce(source, records)
    # Canal-JSON has DDL in partition 0: rows of the others wait for it.
    config = topics_config(kafka, source, target, tmp_path, route={"to": to}, schema={"wait_for_ddl": True})
    counts = TopicsRun(spark, config).run()
    expected = expected_of(config, records)
    assert counts.read == len(records)
    assert contents(await kafka.read(target, counts.written.total())) == expected
    own = contents(await topic_of_the_relay(kafka, config, tmp_path, partitions, counts.written.total()))
    # Where a copy of a statement stands among another partition's rows depends on what is polled together.
    assert {at: by_source(made) for at, made in own.items()} == {
        at: by_source(made) for at, made in expected.items()
    }
    # A second run adds nothing; one after new records goes on where the first ended.
    assert TopicsRun(spark, config).run().read == 0
    # With another configuration it would go on at the wrong position.
    other = topics_config(
        kafka, source, target, tmp_path, route={"to": "ckafka-json"}, schema={"wait_for_ddl": True}
    )
    with pytest.raises(
        ConfigError, match=r"route\.to: differs from the value that the checkpoint was created with"
    ):
        TopicsRun(spark, other)
    more = [
        msgspec.structs.replace(record, offset=record.offset + len(records))
        for record in records
        if record.partition == 0
    ]
    assert partitions > 1 or len(more) == len(records)
    if partitions == 1:
        await kafka.produce(source, more)
        assert TopicsRun(spark, config).run().read == len(more)
        expected = expected_of(config, [*records, *more])
        assert contents(await kafka.read(target, 2 * counts.written.total())) == expected


async def test_topics_by_table_are_made_and_filled_as_the_relay_does(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source = await kafka.topic(3)
    records = of_topic(source, "ticdc/open-protocol.3-partitions/09_dml")
    await kafka.produce(source, records)
    settings = {"topic": "{topic}.{database}.{table}", "create_topics": True}
    config = topics_config(
        kafka,
        source,
        "",
        tmp_path,
        route={"from": "ticdc-open-protocol", "to_options": {"key": "primary-key"}},
        target=settings | {"create_settings": {"retention.ms": -1}},
    )
    made = [out for some in relayed(config, records).values() for out in some]
    counts = TopicsRun(spark, config).run()
    assert counts.written.total() == len(made)
    names = {out.topic for out in made}
    assert len(names) == 3
    for name in names:
        expected = contents([out for out in made if out.topic == name])
        assert contents(await kafka.read(name)) == expected
        assert len(await kafka.partitions(name)) == 3
    other = topics_config(
        kafka, source, "", tmp_path, route={"from": "ticdc-open-protocol", "include_tables": ["a.*"]},
        target=settings,
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"route\.include_tables"):
        TopicsRun(spark, other)


async def test_steps_write_files_as_one_run_would(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """Offsets go on from step to step, and DDL of earlier steps counts for later ones, also for another
    process.
    """
    source = await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    config = topics_config(
        kafka,
        source,
        "{topic}",
        tmp_path,
        backfill={"output": str(tmp_path / "out"), "batch_records": len(records) // 2},
    )
    steps: list[int] = []
    before = held(spark)
    counts = TopicsRun(spark, config, lambda step, *_: steps.append(step)).run()
    # However many steps a continuous run takes: it keeps nothing of those that are done.
    assert held(spark) == before
    assert len(steps) >= 2
    assert counts.read == len(records)
    expected = [
        format_record(out, offset).rstrip(b"\n") for offset, out in enumerate(relayed(config, records)[0])
    ]
    assert lines_in(tmp_path / "out") == {f"{source}/0": expected}
    # A run from the beginning would write beside them.
    again = {"output": str(tmp_path / "out"), "checkpoint": str(tmp_path / "new")}
    with pytest.raises(ConfigError, match=f"already contains topic={source}, and the checkpoint is new"):
        TopicsRun(spark, topics_config(kafka, source, "{topic}", tmp_path, backfill=again))
    assert not (tmp_path / "new").exists()


async def test_letters_have_the_relays_headers(spark: Any, kafka: Any, tmp_path: Path) -> None:
    source, target, letters = await kafka.topic(), await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    poison = msgspec.structs.replace(records[5], value=b"{", headers=(("mine", b"x"),))
    records[5] = poison
    await kafka.produce(source, records)
    config = topics_config(
        kafka, source, target, tmp_path, errors={"decode": "dead-letter", "dead_letter_topic": letters}
    )
    counts = TopicsRun(spark, config).run()
    assert counts.failed == {"dead letters": {"decode.malformed": 1}}
    (letter,) = await kafka.read(letters, 1)
    from relay.core.dead_letters import read_dead_letter

    found = read_dead_letter(letter)
    assert found is not None
    assert (found.original.value, found.original.headers, found.source) == (
        b"{",
        (("mine", b"x"),),
        (source, 0, 5),
    )
    assert (found.code, found.route) == ("decode.malformed", f"g ticdc-canal-json to canal-json {target}")


async def test_topics_that_are_missing_are_created_as_the_service_does(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source = await kafka.topic(2)
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    records[5] = msgspec.structs.replace(records[5], value=b"{")
    await kafka.produce(source, records)
    config = topics_config(
        kafka,
        source,
        f"{source}.made",
        tmp_path,
        target={
            "topic": f"{source}.made",
            "create_topics": True,
            "create_settings": {"retention.ms": 77_000_000},
        },
        errors={"decode": "dead-letter", "dead_letter_topic": f"{source}.letters"},
    )
    counts = TopicsRun(spark, config).run()
    assert counts.failed == {"dead letters": {"decode.malformed": 1}}
    assert len(await kafka.read(f"{source}.letters", 1)) == 1
    assert contents(await kafka.read(f"{source}.made", counts.written.total() - 1)).keys() == {0}
    admin = TopicAdmin(Brokers.from_settings(target_cluster(config)))
    seen = await admin.look([f"{source}.made", f"{source}.letters", config.history_topic])
    assert {name: found.partitions for name, found in seen.found.items()} == {
        f"{source}.made": 2,
        f"{source}.letters": 2,
    }
    assert (seen.found[f"{source}.made"].settings or {})["retention.ms"] == "77000000"
    # What the checkpoint forbids creates nothing.
    other = topics_config(
        kafka, source, "", tmp_path, target={"topic": f"{source}.other", "create_topics": True}
    )
    with pytest.raises(
        ConfigError, match=r"target\.topic: differs from the value that the checkpoint was created with"
    ):
        TopicsRun(spark, other)
    assert not (await admin.look([f"{source}.other"])).found


@pytest.mark.parametrize(
    "start", [{"start": "latest"}, {"start": "timestamp", "start_timestamp": "2027-01-01T00:00:00Z"}]
)
async def test_records_of_an_open_transaction_come_behind_the_start(
    start: dict[str, str], spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """They may be committed yet; the relay begins there, too."""
    source = await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:3])
    table = {"bootstrap_servers": kafka.bootstrap_servers, "topics": [source], **start}
    config = topics_config(
        kafka, source, "t", tmp_path, source=table, backfill={"output": str(tmp_path / "out")}
    )
    servers, partition = kafka.bootstrap_servers, TopicPartition(source, 0)
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=source) as producer,
        producer.transaction(),
        AIOKafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer,
    ):
        await producer.send_and_wait(
            source, records[3].value, partition=0, timestamp_ms=records[3].timestamp_ms
        )
        consumer.assign([partition])
        expected = await start_offsets(consumer, start_settings(config.source), [partition])
        assert expected[partition] == 3
        assert (await asyncio.to_thread(SourceTopics.from_config, spark, config)).first == {f"{source}/0": 3}


async def test_records_behind_the_end_that_come_later_are_left_out(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source = await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:20])
    newest = max(record.timestamp_ms for record in records[:20])
    later = datetime.datetime.fromtimestamp(newest / 1000 + 1, datetime.UTC).isoformat()
    end = {"end": "timestamp", "end_timestamp": later, "output": str(tmp_path / "out")}
    config = topics_config(kafka, source, "t", tmp_path, backfill=end)
    run = TopicsRun(spark, config)
    await kafka.produce(source, [msgspec.structs.replace(records[20], timestamp_ms=newest + 1000)])
    counts = run.run()
    assert (counts.read, counts.left_out) == (20, 1)


async def test_bounds_of_partitions_that_are_not_there_are_refused(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source = await kafka.topic()
    table = {"start": "offsets", "start_offsets": {f"{source}/7": 3}}
    own = {"bootstrap_servers": kafka.bootstrap_servers, "topics": [source], **table}
    end = {"end": "offsets", "end_offsets": {f"{source}/1": 3}, "output": str(tmp_path / "out")}
    with pytest.raises(ConfigError) as raised:
        TopicsRun(spark, topics_config(kafka, source, "t", tmp_path, source=own, backfill=end))
    assert [problem.path for problem in raised.value.problems] == [
        f'source.start_offsets."{source}/7"',
        f'backfill.end_offsets."{source}/1"',
    ]


async def test_times_that_spark_cannot_hold_are_reported_with_their_position(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source = await kafka.topic(message_timestamp_after_max_ms=str(2**63 - 1))
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")[:3]
    records[2] = msgspec.structs.replace(records[2], timestamp_ms=1_700_000_000_000_000_000)
    await kafka.produce(source, records)
    config = topics_config(kafka, source, "t", tmp_path, backfill={"output": str(tmp_path / "out")})
    with pytest.raises(ConfigError, match=rf"the timestamp of {source}/0/2 is after the year 294246"):
        TopicsRun(spark, config).run()


async def test_files_that_the_target_has_no_place_for_write_nothing(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    target, file = await kafka.topic(), tmp_path / "in.jsonl"
    records = of_topic("x", "ticdc/canal-json.tidb-extension/09_dml")[:12]
    for change, why in (
        (
            {"partition": 3},
            rf"x/3/0: service\.topic-unusable: .* partition 3 of {target}, which has 1; add partitions",
        ),
        (
            {"topic": "y"},
            rf"y/0/0: config: source\.topics: does not name y, .*\(add it; its target is y-{target}\)",
        ),
    ):
        mine = [msgspec.structs.replace(records[0], **change), *records[1:]]
        file.write_bytes(b"".join(format_record(record, record.offset) for record in mine))
        name = target if "partition" in change else f"{{topic}}-{target}"
        own = {"topic": name, "create_topics": True}
        config = topics_config(
            kafka, "x", "", tmp_path, target=own, backfill={"checkpoint": "", "input": str(file)}
        )
        with pytest.raises(Exception, match="relay-stopped") as raised:
            from_files(spark, config)
        assert re.search(why, str(explained(raised.value)))
        assert await kafka.length(name.replace("{topic}", "x")) == 0


async def test_files_are_not_written_to_topics_that_delete_them_without_a_warning(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """Kafka deletes by the timestamps of records, and those of old captures are old."""
    target, new, file = (
        await kafka.topic(retention_ms="86400000"),
        f"new-{tmp_path.name}",
        tmp_path / "in.jsonl",
    )
    records = of_topic("x", "ticdc/canal-json.tidb-extension/09_dml")[:12]
    file.write_bytes(b"".join(format_record(record, record.offset) for record in records))
    backfill = {"checkpoint": "", "input": str(file)}
    warnings: list[str] = []
    counts = from_files(
        spark, topics_config(kafka, "x", target, tmp_path, backfill=backfill), warnings.append
    )
    (warning,) = warnings
    assert warning.startswith(
        f"topic {target} deletes records after 1 day, and its source keeps them forever"
    )
    assert as_document(counts, 0)["warnings"] == warnings
    assert f"  warning  {warning}" in as_text(counts, 0)
    own = {"topic": new, "create_topics": True}
    config = topics_config(kafka, "x", "", tmp_path, target=own, backfill=backfill)
    assert from_files(spark, config).warnings == ()
    assert (await settings_of(kafka, new))["retention.ms"] == "-1"


async def test_topics_that_cannot_hold_the_route_are_refused_before_anything_is_read(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source, small = await kafka.topic(3), await kafka.topic()
    compacted = await kafka.topic(3, cleanup_policy="compact")
    for target, why in {
        f"{source}.absent": "does not exist at .*: create it, or set create_topics = true",
        small: "has 1 partition, but .* has 3",
        compacted: "is compacted, but canal-json has no keys",
    }.items():
        with pytest.raises(TopicUnusable, match=why):
            TopicsRun(spark, topics_config(kafka, source, target, tmp_path))


async def test_a_range_of_commit_ts_is_translated(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """Rows in the middle of a topic have the definitions that DDL before them has made."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/10_ddl")
    await kafka.produce(source, records)
    translator = translator_of(config_for())
    marks = [event.source.commit_ts for record in records for event in translator.inspect(record)]
    since, before = (sorted(mark for mark in marks if mark)[len(marks) * share // 4] for share in (1, 3))
    config = topics_config(
        kafka,
        source,
        target,
        tmp_path,
        source={
            "bootstrap_servers": kafka.bootstrap_servers,
            "topics": [source],
            "start": "commit-ts",
            "start_commit_ts": since,
        },
        backfill={"end": "commit-ts", "end_commit_ts": before},
    )
    counts = TopicsRun(spark, config).run()
    whole = translator_of(config, before)
    expected = contents([out for record in records for out in whole.translate(record)])
    assert 0 < len(expected[0]) < len(records)
    assert contents(await kafka.read(target, counts.written.total())) == expected


@pytest.mark.parametrize("policy", ["stop", "skip", "dead-letter"])
async def test_a_record_that_the_topic_does_not_take_has_its_policy(
    policy: str, spark: Any, kafka: Any, tmp_path: Path
) -> None:
    source, target, letters = (
        await kafka.topic(),
        await kafka.topic(max_message_bytes="3000"),
        await kafka.topic(),
    )
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    large = next(at for at, record in enumerate(records) if b"INSERT" in (record.value or b""))
    message = json.loads(records[large].value or b"")
    message["data"][0]["name"] = "x" * 3000
    records[large] = msgspec.structs.replace(records[large], value=json.dumps(message).encode())
    await kafka.produce(source, records)
    config = topics_config(
        kafka, source, target, tmp_path, errors={"too_large": policy, "dead_letter_topic": letters}
    )
    run = TopicsRun(spark, config)
    if policy == "stop":
        with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, whose text is examined
            run.run()
        error = explained(raised.value)
        assert str(error).startswith(
            f"{source}/0/{large}: service.record-too-large: the record at {source}/0 offset {large} becomes"
        )
        assert f"topic {target} accepts 3000" in str(error)
        assert await kafka.length(target) == 0
        return
    counts = run.run()
    assert counts.failed == {
        "dead letters" if policy == "dead-letter" else "skipped": {"service.record-too-large": 1}
    }
    expected = expected_of(config, records)[0]
    del expected[
        next(at for at, (_, _, value, _) in enumerate(expected) if b"x" * 3000 in cast("bytes", value))
    ]
    assert contents(await kafka.read(target, len(expected)))[0] == expected
    found = await kafka.read(letters)
    assert [letter.value for letter in found] == ([records[large].value] if policy == "dead-letter" else [])


async def test_a_row_without_a_key_for_a_compacted_topic_has_its_policy(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """Some of the tables have no key."""
    source, target = await kafka.topic(), await kafka.topic(cleanup_policy="compact")
    records = of_topic(source, "ticdc/canal-json.tidb-extension/07_keys")
    await kafka.produce(source, records)
    options = {"key": "primary-key", "ddl": "drop", "watermarks": "drop"}
    route = {"from": "ticdc-canal-json", "to": "canal-json", "to_options": options}
    config = topics_config(kafka, source, target, tmp_path, route=route, errors={"encode": "skip"})
    translate = translator_of(config).translate
    without_key = sum(out.key is None for record in records for out in translate(record))
    counts = TopicsRun(spark, config).run()
    assert counts.failed == {"skipped": {"encode.key-missing": without_key}}
    assert all(each.key for each in await kafka.read(target, counts.written.total()))


def batch_of(records: list[ProducerRecord]) -> pa.RecordBatch:
    """Records as the tasks get them that write."""
    columns = [
        pa.array([getattr(record, name) for record in records])
        for name in ("topic", "partition", "timestamp_ms", "key", "value")
    ]
    headers = pa.array(
        [[{"key": key, "value": value} for key, value in record.headers] for record in records]
    )
    return pa.RecordBatch.from_arrays(
        [*columns, headers], names=["topic", "partition", "timestamp_ms", "key", "value", "headers"]
    )


async def test_a_producer_is_replaced_before_its_numbers_end(
    kafka: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = await kafka.topic()
    config = topics_config(kafka, target, target, tmp_path)
    records = relayed(config, of_topic(target, "ticdc/canal-json.tidb-extension/09_dml"))[0]
    started: list[int] = []
    begin = KafkaSink.start

    async def counted(sink: KafkaSink) -> None:
        started.append(1)
        await begin(sink)

    monkeypatch.setattr(KafkaSink, "start", counted)
    settings = dataclasses.replace(producer_settings(config), rotate_after_records=20)
    write = Write(config, known({target: 1_000_000}), settings, flush_records=10)
    assert list(await asyncio.to_thread(write, [batch_of(records)])) == []
    assert len(started) == math.ceil(len(records) / 20)
    assert contents(await kafka.read(target)) == contents(records)


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "the next run repeats this step"), ("in", "a new run writes everything again")],
)
def test_a_missing_acknowledgement_is_reported_with_its_consequence(
    given: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> None:
        pass

    async def undelivered(*_: Any) -> None:
        raise Undelivered("no answer", retriable=True)

    for name, instead in {"start": nothing, "abandon": nothing, "write": undelivered}.items():
        monkeypatch.setattr(KafkaSink, name, instead)
    monkeypatch.setattr("relay.io.kafka.sink.AIOKafkaProducer", lambda **_: SimpleNamespace())
    with pytest.raises(Stopped, match=f"writing failed: no answer; {said}"):
        Write(config_for(given), known({"t": 1_000_000}))(
            [batch_of([ProducerRecord("t", 0, 0, None, b"", (("h", b""),))])]
        )


async def test_a_target_that_refuses_ends_the_run_as_the_environment(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """The captured records are older than this topic lets them be."""
    source, target = await kafka.topic(), await kafka.topic(message_timestamp_before_max_ms="1000")
    await kafka.produce(source, of_topic(source, "ticdc/canal-json.tidb-extension/09_dml"))
    config = topics_config(kafka, source, target, tmp_path)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, whose text is examined
        TopicsRun(spark, config).run()
    error = explained(raised.value)
    assert isinstance(error, RelayError)
    assert error.exit_status == 3
    assert "the topic refuses a record's timestamp" in str(error)
