"""Killed runs go on, and a continuous run translates what comes."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import lines_in
from spark.killing import Command, content_of, once, written_config
from spark.test_metrics import scraped
from spark.test_parts import ddl
from spark.test_topics import BULK, by_source, contents, expected_of, of_topic, relayed, topics_config
from support import captured, record, row_message

from relay import ConsumerRecord
from relay.config import load_config
from relay.config.keys import FileFormat, OutputLayout
from relay.config.wiring import translator_of
from relay.demo.kafka import free_ports
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, RecordsGone
from spark_backfill.checkpoint import StepStore
from spark_backfill.files import OutputFolder
from spark_backfill.frames import PRODUCED
from spark_backfill.job import TopicsRun
from spark_backfill.spark_errors import explained

pytestmark = pytest.mark.kafka


@pytest.mark.slow
async def test_a_killed_run_goes_on(
    spark: Any, kafka: Any, spark_settings: dict[str, str], tmp_path: Path
) -> None:
    """Repeats in a topic are known by their header. `make chaos-spark` kills at other moments, and runs to
    files as well.
    """
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    path = written_config(tmp_path, kafka.bootstrap_servers, source, target, to_files=False, step=150)
    command = Command(path, spark_settings, tmp_path / "log")
    try:
        await asyncio.to_thread(command.said, "step 1:")
    finally:
        command.kill()
    config = load_config(path)
    # Another process goes on where that one was killed.
    # Step 0 is not done again: Spark has noted it before it began the next one.
    assert TopicsRun(spark, config).run().read <= len(records) - 150
    expected = [out for made in relayed(config, records).values() for out in made]
    found = [
        (each.timestamp_ms, each.key, each.value, each.headers)
        for each in await kafka.read(target, len(expected))
    ]
    assert once(found) == content_of(expected)


async def test_a_step_that_was_cut_off_writes_its_files_anew(
    spark: Any, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: its files are there, and nobody has noted it."""
    source = await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    backfill = {"output": str(tmp_path / "out"), "batch_records": 200, "task_records": 200}
    config = topics_config(kafka, source, "{topic}", tmp_path, backfill=backfill)

    keep = StepStore.keep_written

    def cut_off(kept: StepStore, step: int, written: Any) -> None:
        if step == 1:
            raise InterruptedError(f"step {step}")
        keep(kept, step, written)

    with monkeypatch.context() as patch:
        patch.setattr(StepStore, "keep_written", cut_off)
        with pytest.raises(InterruptedError, match="step 1"):
            TopicsRun(spark, config).run()
    (half,) = lines_in(tmp_path / "out").values()
    # Step 0 is done, and nobody reads it again.
    assert TopicsRun(spark, config).run().read == len(records) - 200
    expected = [
        format_record(out, offset).rstrip(b"\n") for offset, out in enumerate(relayed(config, records)[0])
    ]
    assert lines_in(tmp_path / "out") == {f"{source}/0": expected}
    assert half == expected


async def test_a_second_run_needs_nothing_that_retention_has_deleted(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """Neither the records that the first one began with, nor the DDL before them."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    start = next(at for at, record in enumerate(records) if b'"isDdl":false' in (record.value or b""))
    assert b'"isDdl":true' in b"".join(record.value or b"" for record in records[:start])
    middle = start + 10
    await kafka.produce(source, records[:middle])
    bounds = {"start": "offsets", "start_offsets": {f"{source}/0": start}}
    source_table = {"bootstrap_servers": kafka.bootstrap_servers, "topics": [source], **bounds}
    config = topics_config(kafka, source, target, tmp_path, source=source_table)
    assert TopicsRun(spark, config).run().read == middle - start
    await kafka.produce(source, records[middle:])
    await kafka.delete_before(source, middle)
    assert TopicsRun(spark, config).run().read == len(records) - middle
    translator = translator_of(config)
    expected = [out for record in records for out in translator.translate(record) if record.offset >= start]
    assert contents(await kafka.read(target, len(expected))) == contents(expected)
    await kafka.produce(source, records[:4])
    await kafka.delete_before(source, len(records) + 2)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, whose text is examined
        TopicsRun(spark, config).run()
    error = explained(raised.value)
    assert isinstance(error, RecordsGone)
    assert f"records of {source}/0 from offset {len(records)} on were deleted by retention" in str(error)
    assert "with a new checkpoint and source.start_offsets" in str(error)


async def test_a_topic_that_was_created_again_is_refused(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """Its first records have offsets that the checkpoint says are done."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:20])
    config = topics_config(kafka, source, target, tmp_path)
    assert TopicsRun(spark, config).run().read == 20
    await kafka.delete_topic(source)
    await kafka.topic(name=source)
    await kafka.produce(source, records)
    with pytest.raises(ConfigError, match=f"source.topics: {source}: recreated since the last run"):
        TopicsRun(spark, config)


async def test_the_first_start_is_the_beginning_of_all_runs(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """`latest` is that of the first run, also if it was killed before it had read anything."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:20])
    table = {"bootstrap_servers": kafka.bootstrap_servers, "topics": [source], "start": "latest"}
    config = topics_config(kafka, source, target, tmp_path, source=table)
    TopicsRun(spark, config)
    await kafka.produce(source, records[20:])
    assert TopicsRun(spark, config).run().read == len(records) - 20


async def test_rows_that_wait_know_the_ddl_that_no_step_has_come_to(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    """Steps take as much of partition 1 as of partition 0, whose DDL comes last but was sent first."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    values = [
        ddl(1, "CREATE TABLE t (a VARCHAR(1))").value,
        ddl(2, "ALTER TABLE t MODIFY a VARCHAR(2)").value,
    ]
    values += [record(row_message({"a": "varchar"}, {"a": "x"}, _tidb={"commitTs": 100}), 0).value] * 2
    records = [ConsumerRecord(source, at // 2, at % 2, 1000, None, value) for at, value in enumerate(values)]
    await kafka.produce(source, records)
    backfill = {"batch_records": 2}
    config = topics_config(kafka, source, target, tmp_path, schema={"wait_for_ddl": True}, backfill=backfill)
    steps: list[int] = []
    TopicsRun(spark, config, lambda step, *_: steps.append(step)).run()
    assert len(steps) == 2
    assert contents(await kafka.read(target, 4)) == expected_of(config, records)
    assert b"varchar(2)" in ((await kafka.read(target))[2].value or b"")


async def test_rows_know_the_ddl_of_a_connectors_own_topic(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """By default, though steps come to the rows first: the topic of DDL has much else before it."""
    records = captured("mysql/debezium.no-schema/09_dml")[:24]
    first, target = await kafka.topic(), await kafka.topic()
    heartbeat = ConsumerRecord(first, 0, 0, 0, b'{"serverName":"s"}', b'{"ts_ms":1}')
    statements = [heartbeat] * 60 + [each for each in records if each.topic == "dbzns"]
    rows = [each for each in records if each.topic == "dbzns.dml_db.accounts"]
    topics = {first: statements, await kafka.topic(name=f"{first}.dml_db.accounts"): rows}
    for topic, those in topics.items():
        await kafka.produce(topic, those)
    config = topics_config(
        kafka,
        "",
        target,
        tmp_path,
        route={"from": "debezium-json"},
        source={"topics": sorted(topics, reverse=True)},
        backfill={"batch_records": 40},
    )
    steps: list[int] = []
    TopicsRun(spark, config, lambda step, *_: steps.append(step)).run()
    assert len(steps) > 1
    every = [record for topic in topics for record in await kafka.read(topic)]
    found = by_source(contents(await kafka.read(target))[0])
    assert found == by_source(expected_of(config, every)[0])
    assert len(found) == len(topics)


@pytest.mark.parametrize("what", ["ddl", "written"])
def test_a_first_step_that_was_killed_while_it_kept_something_is_done_again(
    what: str, spark: Any, tmp_path: Path
) -> None:
    """Spark has made its folders for unfinished files, and no file."""
    (tmp_path / "relay" / what / "step=0" / "_temporary" / "0").mkdir(parents=True)
    kept = StepStore(spark, str(tmp_path))
    assert len(kept.ddl_before(1) if what == "ddl" else kept.written_before(1)) == 0
    records = captured("ticdc/canal-json.tidb-extension/09_dml")[:2]
    kept.keep_ddl(0, records)
    kept.keep_written(0, {"t/0": 7})
    kept.keep_written(1, {"t/0": 8})
    kept.keep_written(2, {"t/0": 9})
    # A step may be done again, and needs what was written before it.
    assert sorted(path.name for path in (tmp_path / "relay/written").glob("step=*")) == ["step=1", "step=2"]
    again = StepStore(spark, str(tmp_path))
    assert (again.ddl_before(1), again.written_before(2), again.written_before(3)) == (
        records,
        {"t/0": 8},
        {"t/0": 9},
    )


def test_a_checkpoint_without_a_part_of_itself_is_refused(spark: Any, tmp_path: Path) -> None:
    kept = StepStore(spark, str(tmp_path))
    kept.keep_written(0, {})
    assert StepStore(spark, str(tmp_path)).written_before(1) == {}
    with pytest.raises(ConfigError, match="offsets would restart"):
        StepStore(spark, str(tmp_path)).written_before(2)


@pytest.mark.parametrize("layout", [OutputLayout.TOPIC, OutputLayout.DATE])
def test_a_step_that_is_done_again_leaves_nothing_of_the_first_attempt(
    layout: OutputLayout, spark: Any, tmp_path: Path
) -> None:
    """The first attempt wrote dead letters, say, for want of an object that is there now."""
    target = OutputFolder(str(tmp_path / "out"), FileFormat.JSON_LINES, layout, step=3)
    for topic, day in (("letters", 1), ("orders", 2)):
        made: list[tuple[Any, ...]] = [
            (topic, 0, day * 86_400_000, None, b"v", [], "t", 0, at, 0) for at in range(2)
        ]
        target.delete_step(spark)
        target.write(spark.createDataFrame(made, PRODUCED), {})
    folders = {
        path.parent.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("part-*.txt")
    }
    assert folders == {
        "topic=orders/partition=0/step=3" if layout is OutputLayout.TOPIC else "date=1970-01-03/step=3"
    }


async def test_a_continuous_run_translates_what_comes(spark: Any, kafka: Any, tmp_path: Path) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:20])
    config = topics_config(kafka, source, target, tmp_path)
    run = TopicsRun(spark, config)
    thread = threading.Thread(target=run.run, kwargs={"continuous": True})
    thread.start()
    try:
        await kafka.until(lambda: _has(kafka, target, 1), 120)
        await kafka.produce(source, records[20:])
        expected = relayed(config, records)[0]
        await kafka.until(lambda: _has(kafka, target, len(expected)), 120)
        # A step is counted when all that it has written is there.
        await kafka.until(lambda: asyncio.sleep(0, run.counts.read == len(records)), 60)
    finally:
        run.stop()
        await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert contents(await kafka.read(target)) == contents(expected)
    assert run.counts.read == len(captured("ticdc/canal-json.tidb-extension/09_dml"))


async def test_ctrl_c_ends_a_continuous_run(
    kafka: Any, spark_settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal has the job's own lines, and the first of them names the file with Spark's. The step is a
    line of the progress file, and in the metrics, which also have what came after it.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records)
    path, port = (
        written_config(tmp_path, kafka.bootstrap_servers, source, target, to_files=False),
        free_ports(1)[0],
    )
    own = ("trigger_seconds=1h", f"progress={tmp_path / 'progress'}", f"metrics_port={port}")
    options = [word for each in own for word in ("--set", f"backfill.{each}")]
    command = Command(path, spark_settings, tmp_path / "log", "--continuous", *options, submitted=False)
    try:
        await asyncio.to_thread(command.said, "step 0:")
        await kafka.produce(source, records[:5])
        lag = f'relay_partition_lag_records{{partition="0",topic="{source}"}} 5.0'
        await kafka.until(lambda: _serves(port, lag), 60)
        for sample in (
            "relay_backfill_steps_total 1.0",
            f'relay_records_produced_total{{topic="{target}"}} 60.0',
        ):
            assert await _serves(port, sample)
        command.signal(signal.SIGINT)
        status = await asyncio.to_thread(command.wait, 60)
    finally:
        command.kill()
    said = command.log.read_text()
    assert status == 130, said[-3000:]
    (step,) = map(json.loads, (tmp_path / "progress").read_text().splitlines())
    assert (step["step"], step["records_read"], step["records_written"]) == (0, 68, 60)
    for words in (
        "stopped by SIGINT; the next run continues after the last step",
        "68 records read, 60 written in",
    ):
        assert words in said
    for noise in ("Traceback", "bug in relay", "Exception", "FileStreamSink"):
        assert noise not in said, said
    check_spark_is_elsewhere(said, tmp_path)


def check_spark_is_elsewhere(said: str, folder: Path) -> None:
    """What Spark says itself is in a file below this folder."""
    first, *others = said.splitlines()
    (log,) = folder.glob("relay-spark-*.log")
    assert first == f"starting Spark; its own output is in {log}"
    assert "log4j" in log.read_text()
    assert not [line for line in others if "WARN" in line or "log4j" in line]


async def _serves(port: int, sample: str) -> bool:
    """Whether a line of the metrics is this one."""
    return sample in await asyncio.to_thread(scraped, port)


async def _has(kafka: Any, topic: str, length: int) -> bool:
    return bool(await kafka.length(topic) >= length)
