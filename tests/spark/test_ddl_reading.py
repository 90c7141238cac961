"""A source that sends DDL once is read for it in partition 0 alone; DDL elsewhere is found before anything is
written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from spark.backfills import config_for, lines_in
from spark.test_topics import SPREAD, contents, of_topic, topics_config

from relay import ConsumerRecord
from relay.catalog import Catalog
from relay.config import Config
from relay.config.wiring import translator_of
from spark_backfill.checkpoint import ends_of_step
from spark_backfill.ddl_reading import DdlWatch, watch_of
from spark_backfill.files import Captured
from spark_backfill.frames import Columns, Lines, record_batch
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.registries import FindWritten
from spark_backfill.schema_pass import DdlRecord, FindDdl, empty_catalog, find_ddl, learn_ddl, with_times
from spark_backfill.task_errors import DdlUnread, unread_ddl
from spark_backfill.terms import Bounds, Terms

STATE = Path(__file__).parent.parent / "data/state/checkpoint"


def moved(records: list[ConsumerRecord], of: int, to: int) -> list[ConsumerRecord]:
    """The records with those of a partition in another one, in the order of the records."""
    offsets: dict[int, int] = {}
    found = []
    for record in records:
        partition = to if record.partition == of else record.partition
        offset = offsets[partition] = offsets.get(partition, -1) + 1
        found.append(msgspec.structs.replace(record, partition=partition, offset=offset))
    return found


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many records of each partition are searched for DDL."""
    found: Counter[int] = Counter()

    def finding(records: Captured, *given: Any, **named: Any) -> list[DdlRecord]:
        found.update(row.partition for row in records.frame.select("partition").collect())
        return find_ddl(records, *given, **named)

    for module in ("ddl_reading", "job"):
        monkeypatch.setattr(f"spark_backfill.{module}.find_ddl", finding)
    return found


def expected_of(config: Config, records: list[ConsumerRecord]) -> dict[int, list[tuple[object, ...]]]:
    """The output of a translator that knows all DDL before the first row."""
    translator = translator_of(config)
    ddl = [each for each in with_times(config, records) if b'"isDdl":true' in (each.record.value or b"")]
    translator.catalog = learn_ddl(config, ddl, empty_catalog())
    return contents([out for record in records for out in translator.translate(record)])


@pytest.mark.kafka
@pytest.mark.parametrize("steps", [{}, {"batch_records": 30}])
async def test_only_partition_0_is_searched(
    steps: dict[str, int], spark: Any, kafka: Any, tmp_path: Path, searched: Counter[int]
) -> None:
    source, target = await kafka.topic(3), await kafka.topic(3)
    records = of_topic(source, SPREAD)
    await kafka.produce(source, records)
    warnings: list[str] = []
    backfill = {"checkpoint": str(tmp_path / "checkpoint"), "task_records": 100, **steps}
    config = topics_config(kafka, source, target, tmp_path, backfill=backfill)
    run = TopicsRun(spark, config, warn=warnings.append)
    assert await asyncio.to_thread(run.run)
    expected = expected_of(config, records)
    assert contents(await kafka.read(target, sum(map(len, expected.values())))) == expected
    assert searched == Counter(record.partition for record in records if record.partition == 0)
    assert warnings == []


@pytest.mark.kafka
@pytest.mark.parametrize("steps", [{}, {"batch_records": 30}])
async def test_ddl_elsewhere_begins_the_step_again(
    steps: dict[str, int], spark: Any, kafka: Any, tmp_path: Path, searched: Counter[int]
) -> None:
    """Once, and nothing was written before."""
    source, target = await kafka.topic(3), await kafka.topic(3)
    records = moved(of_topic(source, SPREAD), 0, 2)
    await kafka.produce(source, records)
    warnings: list[str] = []
    backfill = {"checkpoint": str(tmp_path / "checkpoint"), "task_records": 100, **steps}
    config = topics_config(kafka, source, target, tmp_path, backfill=backfill)
    run = TopicsRun(spark, config, warn=warnings.append)
    counts = await asyncio.to_thread(run.run)
    assert counts.read == len(records)
    count = sum(map(len, expected_of(config, records).values()))
    assert counts.written.total() == count
    found = contents(await kafka.read(target, count))
    assert await ends_of(kafka, target) == count
    if not steps:  # with more, a row does not know the DDL of another partition in a later step
        assert found == expected_of(config, records)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{source}/2/")
    assert searched[1] == sum(record.partition == 1 for record in records)


async def ends_of(kafka: Any, topic: str) -> int:
    """How many records a topic has."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async with AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(3)]
        return sum((await consumer.end_offsets(partitions)).values())


def parquet_of(records: list[ConsumerRecord], path: Path) -> None:
    table = pa.Table.from_batches([record_batch(records)])
    parquet.write_table(
        table.rename_columns([*table.column_names[:3], "timestamp", *table.column_names[4:]]), path
    )


@pytest.mark.parametrize("ddl_partition", [0, 2])
def test_parquet_is_searched_alike(
    ddl_partition: int, spark: Any, tmp_path: Path, searched: Counter[int]
) -> None:
    records = moved(of_topic("t", SPREAD), 0, ddl_partition)
    parquet_of(records, tmp_path / "in.parquet")
    config = config_for(
        str(tmp_path / "in.parquet"), str(tmp_path / "out"), backfill={"input_format": "parquet"}
    )
    warnings: list[str] = []
    counts = from_files(spark, config, warnings.append)
    assert counts.read == len(records)
    assert counts.inferred == {}
    found = lines_in(tmp_path / "out")
    expected = expected_of(config, records)
    assert {name: len(lines) for name, lines in found.items()} == {
        f"t/{partition}": len(lines) for partition, lines in expected.items()
    }
    everything = Counter(record.partition for record in records)
    assert searched == (Counter({0: everything[0]}) if ddl_partition == 0 else everything)
    assert len(warnings) == (ddl_partition != 0)


@pytest.mark.kafka
async def test_ddl_elsewhere_in_files_is_found_before_topics_are_written(
    spark: Any, kafka: Any, tmp_path: Path
) -> None:
    target = await kafka.topic(3)
    records = moved(of_topic("t", SPREAD), 0, 2)
    parquet_of(records, tmp_path / "in.parquet")
    config = config_for(
        str(tmp_path / "in.parquet"),
        source={"bootstrap_servers": kafka.bootstrap_servers},
        target={"topic": target},
        backfill={"input_format": "parquet"},
    )
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    await asyncio.to_thread(from_files, spark, config)
    expected = expected_of(config, records)
    count = sum(map(len, expected.values()))
    assert contents(await kafka.read(target, count)) == expected
    assert await ends_of(kafka, target) == count


def test_a_record_that_fails_without_ddl_elsewhere_does_not_end_the_run(spark: Any, tmp_path: Path) -> None:
    """A row of partition 0 is refused without a definition, whose DDL is in another partition."""
    records = moved(of_topic("t", SPREAD), 0, 2)
    rows = [record for record in records if b'"isDdl":false' in (record.value or b"")]
    ddl = [record for record in records if b'"isDdl":true' in (record.value or b"")]
    rows = [msgspec.structs.replace(row, partition=0, offset=at) for at, row in enumerate(rows)]
    ddl = [msgspec.structs.replace(each, partition=1, offset=at) for at, each in enumerate(ddl)]
    parquet_of([*rows, *ddl], tmp_path / "in.parquet")
    config = config_for(
        str(tmp_path / "in.parquet"),
        str(tmp_path / "out"),
        route={"to_options": {"strict": "schema-inferred"}},
        backfill={"input_format": "parquet"},
    )
    warnings: list[str] = []
    assert from_files(spark, config, warnings.append).read == len(rows) + len(ddl)
    reason = "a record failed, perhaps because its DDL is not in partition 0"
    assert warnings == [f"{reason}: the step begins again, and reads DDL from all partitions"]


def test_a_bad_record_stops_the_run_the_second_time(spark: Any, tmp_path: Path) -> None:
    records = of_topic("t", SPREAD)
    records[-1] = msgspec.structs.replace(records[-1], value=b"{")
    parquet_of(records, tmp_path / "in.parquet")
    config = config_for(
        str(tmp_path / "in.parquet"), str(tmp_path / "out"), backfill={"input_format": "parquet"}
    )
    warnings: list[str] = []
    with pytest.raises(Exception, match=r"decode\.malformed"):
        from_files(spark, config, warnings.append)
    assert [text.partition(",")[0] for text in warnings] == ["a record failed"]


def batches(records: list[ConsumerRecord]) -> list[pa.RecordBatch]:
    return [record_batch(records)]


class _Shared:
    def __init__(self, catalog: Catalog) -> None:
        self.value = catalog


def test_ddl_that_is_left_out_is_found_by_tasks_that_look_for_schemas() -> None:
    records = moved(of_topic("t", SPREAD), 0, 2)
    config = config_for()
    watch = DdlWatch(FindDdl(config, Columns()))
    first = next(record for record in records if b'"isDdl":true' in (record.value or b""))
    for bounds in (Bounds(), Bounds(first={"t/2": 1 << 40})):
        find = FindWritten(config, Columns(), _Shared(empty_catalog()), bounds, Terms(watch=watch), {})
        with pytest.raises(DdlUnread) as raised:
            list(find(batches(records)))
        assert unread_ddl(str(raised.value)) == f"t/2/{first.offset}"


def test_ddl_in_partition_0_of_another_topic_counts_if_it_has_none() -> None:
    records = [each for each in of_topic("t", SPREAD) if each.partition == 0]
    find = FindDdl(config_for(), Columns())
    for topics in (None, frozenset({"t"})):
        DdlWatch(find, topics).check(record_batch(records))
    with pytest.raises(DdlUnread):
        DdlWatch(find, frozenset({"other"})).check(record_batch(records))


@pytest.mark.parametrize(
    ("route", "reader", "is_apart"),
    [
        ({"from": "ticdc-canal-json"}, Columns(), True),
        ({"from": "ticdc-canal-json"}, Lines(), False),
        ({"from": "ticdc-open-protocol"}, Columns(), False),
    ],
)
def test_where_ddl_is_read_apart(route: dict[str, str], reader: Any, is_apart: bool, spark: Any) -> None:
    records = Captured(spark.range(1), reader)
    assert (watch_of(config_for(route=route), records, {}) is not None) is is_apart


def test_the_ends_of_steps_are_those_of_sparks_log(spark: Any) -> None:
    assert ends_of_step(spark, str(STATE), 0) == {"backfill/0": 40}
    assert ends_of_step(spark, str(STATE), 9) is None


def test_a_log_of_another_version_is_not_read(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "spark/offsets"
    folder.mkdir(parents=True)
    (folder / "0").write_text('v2\n{}\n{"t":{"0":40}}')
    assert ends_of_step(spark, str(tmp_path), 0) is None
