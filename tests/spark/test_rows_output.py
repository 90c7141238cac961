"""The job's tables of rows: those of the function, for every table, in one run or in steps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from pyarrow import parquet
from spark.backfills import config_for
from spark.java import delta_jars
from spark.test_function import ROOT, of_kafka
from spark.test_rows import DDL, RESULT, change, in_order, statement
from spark.test_topics import of_topic, topics_config
from support import CANAL, DATA, TICDC, captured

from relay import ConsumerRecord
from relay.config import Config
from relay.config.keys import RowsFormat
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError
from spark_backfill import definitions, row_schemas, rows
from spark_backfill.command import check_config
from spark_backfill.files import Captured, as_records
from spark_backfill.frames import Columns
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.rows_output import RowsOutput, run_name, write_rows
from spark_backfill.schema_pass import collect_ddl, ddl_frame, empty_catalog, learn_ddl
from spark_backfill.task_errors import error_of_task
from spark_backfill.terms import Bounds


def config_of_rows(output: Path, path: str = "in", **tables: Any) -> Config:
    given = {"output_format": "rows", **tables.pop("backfill", {})}
    return config_for(path, str(output), backfill=given, **tables)


def test_every_table_is_that_of_the_function(spark: Any, tmp_path: Path) -> None:
    """A second run writes the same again; the folder has nothing else."""
    tables = ["ddl_db.users", "ddl_db.tmp_a", "ddl_db.part_range"]
    route = {"include_tables": tables}
    config = config_of_rows(tmp_path / "out", str(DATA / f"{DDL}.jsonl"), route=route)
    df = of_kafka(spark, captured(DDL))
    ddl = definitions(df, source=TICDC).cache()
    counts = [from_files(spark, config) for _ in range(2)]
    assert counts[0] == counts[1]
    written: Counter[str] = Counter()
    for table in tables:
        for version, _ in enumerate(row_schemas(ddl, source=TICDC)[table], 1):
            database, name = table.split(".")
            folder = tmp_path / f"out/database={database}/table={name}/version={version}"
            found = spark.read.parquet(str(folder))
            assert found.columns == RESULT
            expected = in_order(rows(df, source=TICDC, table=table, ddl=ddl, version=version))
            assert in_order(found) == expected
            written[f"{table}/{version}"] = len(expected)
    ddl.unpersist()
    assert written == counts[0].written
    assert counts[0].read == len(captured(DDL))
    assert counts[0].lost["tables-filtered"] > 0
    assert counts[0].tables["ddl_db.tmp_a"]["insert"] == 3
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"database=ddl_db"}


#: Names of which some look like numbers or times, and some have characters with a meaning in paths.
NAMES = [
    "007",
    "1e3",
    "2026-01-01",
    "true",
    "null",
    "a=b",
    "ä/ö",
    "a%2Fb",
    "{x}*?[y]",
    " b ",
    "T",
    "t",
    "a:b#c",
]


def test_tables_of_any_name_are_written(spark: Any, tmp_path: Path) -> None:
    """Spark may infer the types of columns from the names of folders."""
    types = {"id": "int"}
    records = []
    for at, name in enumerate(NAMES):
        records += [
            msgspec.structs.replace(
                each, value=(each.value or b"").replace(b'"d"', named).replace(b'"t"', named)
            )
            for named in [json.dumps(name, ensure_ascii=False).encode()]
            for each in (
                statement("CREATE TABLE `x` (id INT PRIMARY KEY)".replace("x", name), 2 * at),
                change(2 * at + 1, types, {"id": str(at)}),
            )
        ]
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    config = config_for(
        str(path), str(tmp_path / "out"), backfill={"output_format": "rows"}, route={"from": CANAL}
    )
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(setting)
    for is_inferred in ("true", before):
        spark.conf.set(setting, is_inferred)
        try:
            counts = from_files(spark, config)
        finally:
            spark.conf.set(setting, before)
        assert counts.written == {f"{name}.{name}/1": 1 for name in NAMES}
        found = {}
        for file in tmp_path.glob("out/*/*/version=1/part-*"):
            database, table = (unquote(part.partition("=")[2]) for part in file.parts[-4:-2])
            assert database == table
            found[table] = parquet.read_table(file).column("after").to_pylist()
        assert found == {name: [{"id": at}] for at, name in enumerate(NAMES)}
    RowsOutput(str(tmp_path / "out"), RowsFormat.PARQUET).check(spark)


def test_old_and_far_times_are_written_exactly(spark: Any, tmp_path: Path) -> None:
    """Dates from before the Gregorian calendar, and all types."""
    file, table = "ticdc/canal-json.tidb-extension/01_all_types", "all_types_db.all_types"
    from_files(spark, config_of_rows(tmp_path / "out", str(DATA / f"{file}.jsonl")))
    df = of_kafka(spark, captured(file))
    expected = rows(df, source=TICDC, table=table, ddl=definitions(df, source=TICDC))
    found = spark.read.parquet(str(tmp_path / "out/database=all_types_db/table=all_types/version=1"))
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert in_order(found) == in_order(expected)


def write(
    spark: Any, config: Config, target: RowsOutput, records: Sequence[ConsumerRecord], first: int = 0
) -> None:
    """Write the records from `first` on, with the definitions of all of them."""
    every, some = (
        Captured(as_records(of_kafka(spark, part)), Columns()) for part in (records, records[first:])
    )
    catalog = learn_ddl(config, collect_ddl(ddl_frame(every, config)), empty_catalog())
    write_rows(spark, config, some, catalog, target, bounds=Bounds())


#: Steps by their number: the first record, and the one after the last. A column is added in the second one, and
#: the third one is repeated.
STEPS = [(0, 0, 5), (1, 5, 15), (2, 15, 30), (2, 15, 30)]


def write_steps(spark: Any, config: Config, target: RowsOutput) -> None:
    for number, first, end in STEPS:
        write(spark, config, target._replace(step=number), captured(DDL)[:end], first)


def test_a_repeated_step_writes_its_rows_once(spark: Any, tmp_path: Path) -> None:
    config = config_of_rows(tmp_path / "out")
    target = RowsOutput(str(tmp_path / "out"), RowsFormat.PARQUET)
    target.check(spark, is_new=True)
    write_steps(spark, config, target)
    table = tmp_path / "out/database=ddl_db/table=users"
    first = spark.read.option("mergeSchema", "true").parquet(str(table / "version=1"))
    assert [row["source_offset"] for row in in_order(first)] == OFFSETS
    assert sorted(first.select("after.*").columns) == COLUMNS
    others = [spark.read.parquet(str(table / f"version={number}")).count() for number in (2, 3, 4)]
    assert others == [1, 1, 2]
    target.check(spark)
    with pytest.raises(ConfigError, match="and the checkpoint is new"):
        target.check(spark, is_new=True)
    (tmp_path / "out" / "notes.txt").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"contains other files than tables of rows: notes\.txt"):
        target.check(spark)


def test_an_error_ends_the_writing_of_other_tables(spark: Any, tmp_path: Path) -> None:
    """The first table cannot be written, because a file has the name of its folder."""
    config, whole, out = config_of_rows(tmp_path / "out"), tmp_path / "whole", tmp_path / "out"
    write(spark, config, RowsOutput(str(whole), RowsFormat.PARQUET, step=0), captured(DDL))
    written = sorted(path.relative_to(whole) for path in whole.glob("*/*/*/step=0/_SUCCESS"))
    first = out / Path(*written[0].parts[:2])
    first.parent.mkdir(parents=True)
    first.write_bytes(b"")
    with pytest.raises(Exception, match=str(first)):
        write(spark, config, RowsOutput(str(out), RowsFormat.PARQUET, step=0), captured(DDL))
    others = [name for name in written if not (out / name).is_relative_to(first)]
    assert len(list(out.glob("*/*/*/step=0/_SUCCESS"))) < len(others)
    assert not (out / "_staging").exists()


def test_the_name_of_a_run_does_not_depend_on_the_spelling(spark: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/checkpoint"
    spellings = [path, f"{path}/", f"file:{path}", f"file://{path}/", f"{tmp_path}//checkpoint"]
    assert {run_name(spark, spelling) for spelling in spellings} == {f"file:{path}"}


#: Rows of the first version of the table, and its columns.
OFFSETS = [3, 4, 6, 7, 10, 11, 13, 14, 17, 19]
COLUMNS = ["age", "code", "id", "name", "score"]


def test_selection_bounds_and_policies_apply(spark: Any, tmp_path: Path) -> None:
    records = captured(DDL)
    records[7] = msgspec.structs.replace(records[7], value=b"{")
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    more: dict[str, Any] = {
        "route": {"include_tables": ["ddl_db.users"], "exclude_events": ["update"]},
        "source": {"start": "offsets", "start_offsets": {"ticdc-10_ddl/0": 6}, "topics": ["ticdc-10_ddl"]},
    }
    with pytest.raises(Exception, match="relay-stopped") as raised:
        from_files(spark, config_of_rows(tmp_path / "out", str(path), **more))
    assert str(error_of_task(str(raised.value))).startswith("ticdc-10_ddl/0/7: decode.malformed")
    assert not list((tmp_path / "out").iterdir())
    counts = from_files(spark, config_of_rows(tmp_path / "out", str(path), **more, errors={"decode": "skip"}))
    assert counts.failed == {"skipped": {"decode.malformed": 1}}
    assert counts.left_out == 6
    assert counts.written == {"ddl_db.users/1": 3, "ddl_db.users/4": 6}
    assert "update" not in counts.events


def test_a_table_without_a_definition_is_refused(spark: Any, tmp_path: Path) -> None:
    records = [each for each in captured(DDL) if b'"isDdl":false' in (each.value or b"")]
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    with pytest.raises(Exception, match="relay-stopped") as raised:
        from_files(spark, config_of_rows(tmp_path / "out", str(path)))
    assert "decode.definition-missing" in str(error_of_task(str(raised.value)))


@pytest.mark.kafka
async def test_a_step_over_topics_that_was_cut_off(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """Its tables are there, and nobody has noted it. A second column comes in a later step than the first rows."""
    source = await kafka.topic()
    records = of_topic(source, DDL)
    await kafka.produce(source, records)
    backfill = {"output": str(tmp_path / "out"), "output_format": "rows", "batch_records": 50}
    config = topics_config(kafka, source, "{topic}", tmp_path, backfill=backfill)

    def cut_off(step: int, *_: object) -> None:
        if step == 1:
            raise InterruptedError(f"step {step}")

    with pytest.raises(InterruptedError, match="step 1"):
        TopicsRun(spark, config, cut_off).run()
    again = TopicsRun(spark, config).run()
    assert again.read == len(records) - 50
    table = tmp_path / "out/database=ddl_db/table=users"
    first = spark.read.option("mergeSchema", "true").parquet(str(table / "version=1"))
    assert [row["source_offset"] for row in in_order(first)] == OFFSETS
    steps = [path.name for path in sorted((tmp_path / "out/database=ddl_db").glob("*/version=*/step=*"))]
    assert set(steps) == {"step=0", "step=1", "step=2"}
    assert TopicsRun(spark, config).run().read == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output_format": "rows"}, 'output_format = "rows" needs output'),
        ({"output_format": "rows", "output": "o", "output_layout": "date"}, "output_layout has no effect"),
        ({"output": "o", "rows_format": "delta"}, 'rows_format needs output_format = "rows"'),
    ],
)
def test_keys_that_do_not_fit_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_for("in", backfill=given)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"errors": {"decode": "dead-letter", "dead_letter_topic": "letters"}},
            r"errors\.decode: tables of rows have no place for dead letters",
        ),
        (
            {"errors": {"decode": "skip", "on_max_failure_ratio": "stop"}},
            r"errors\.on_max_failure_ratio: is not checked for tables of rows",
        ),
        (
            {"backfill": {"input_format": "ticdc-storage"}},
            r"backfill\.input_format: is not read for tables of rows",
        ),
    ],
)
def test_settings_without_effect_are_refused(tables: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"{}")
    with pytest.raises(ConfigError, match=message):
        check_config(config_of_rows(tmp_path / "out", str(tmp_path / "in"), **tables), continuous=False)


@pytest.mark.slow
def test_delta(spark_settings: dict[str, str], tmp_path: Path) -> None:
    """In a process of its own, whose session has Delta's classes: steps, one of them repeated; and the page's MERGE."""
    jars = ",".join(map(str, delta_jars()))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "spark.delta_rows", jars, str(tmp_path)],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    # The second of the whole runs has fewer records.
    assert found == {
        "steps": OFFSETS,
        "whole": OFFSETS[:4],
        "columns": COLUMNS,
        # The rows of each table after each part; the second table is dropped.
        "merged": [[4, 7], [2, 0]],
    }
