"""Many rows at once: the same records and counts as one by one, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from engine_support import needs_kernel
from spark.backfills import config_for
from support import captured

from relay import ConsumerRecord
from relay.catalog import Catalog
from relay.config import Config
from spark_backfill.columns import RecordBatchRows
from spark_backfill.counts import BackfillCounts, Parts
from spark_backfill.frames import Columns, record_batch
from spark_backfill.schema_pass import DdlRecord, empty_catalog, learn_ddl
from spark_backfill.task_errors import Stopped
from spark_backfill.terms import LATEST_MS, Bounds, Terms
from spark_backfill.translation import Translate

FILE = "ticdc/canal-json.tidb-extension/09_dml"
#: Often enough for templates.
TIMES = 20


class Found(NamedTuple):
    """The rows, batches and counts of a task."""

    rows: list[dict[str, Any]]
    batches: int
    counts: BackfillCounts


def run(
    config: Config,
    batches: Iterable[pa.RecordBatch],
    bounds: Bounds | None = None,
    terms: Terms | None = None,
    catalog: Catalog | None = None,
) -> Found:
    """Run a task without Spark."""
    counted: list[Parts] = []
    held: Any = SimpleNamespace(value=empty_catalog() if catalog is None else catalog)
    adds: Any = SimpleNamespace(add=counted.append)
    translate = Translate(config, Columns(), held, adds, bounds or Bounds(), terms or Terms())
    found = list(translate(batches))
    (parts,) = counted
    return Found(
        [row for batch in found for row in batch.to_pylist()], len(found), next(iter(parts.values()))
    )


def compare(monkeypatch: pytest.MonkeyPatch, *args: Any, **settings: Any) -> Found:
    """Run a task with and without the kernel."""
    monkeypatch.setenv("RELAY_KERNEL", "off")
    plain = run(*args, **settings)
    monkeypatch.delenv("RELAY_KERNEL")
    found = run(*args, **settings)
    assert found.rows == plain.rows
    assert found.counts == plain.counts
    return found


def loads(times: int = TIMES, **changes: Any) -> list[ConsumerRecord]:
    """The captured records again and again, at later offsets."""
    once = [msgspec.structs.replace(each, **changes) for each in captured(FILE)]
    return [
        msgspec.structs.replace(each, offset=each.offset + len(once) * number)
        for number in range(times)
        for each in once
    ]


def batches_of(records: list[ConsumerRecord], size: int = 300) -> list[pa.RecordBatch]:
    return [record_batch(records[at : at + size]) for at in range(0, len(records), size)]


def config(target: str = "canal-json", **tables: Any) -> Config:
    route = {"to": target, "from_options": {"enable-tidb-extension": True}}
    return config_for("in", "out", **{"route": route, **tables})


@needs_kernel
@pytest.mark.parametrize("target", ["canal-json", "debezium-json", "ticdc-open-protocol"])
def test_batches_become_the_same(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, config(target), batches_of(loads()))


@needs_kernel
def test_records_of_several_partitions_and_topics_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have headers, which are passed on."""
    choice = random.Random(1)
    headers = [(), (), (("trace", b"1"), ("none", None))]
    records = [
        msgspec.structs.replace(
            each, partition=choice.randrange(3), topic=choice.choice("tu"), headers=choice.choice(headers)
        )
        for each in loads()
    ]
    compare(monkeypatch, config(), batches_of(records))


@needs_kernel
def test_rows_of_a_batch_that_is_a_slice_are_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = record_batch(loads())
    compare(monkeypatch, config(), [whole.slice(at, 71) for at in range(3, len(whole), 71)])


@needs_kernel
def test_columns_of_large_types_are_read_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark sends them with `useLargeVarTypes`."""
    large = {"topic": pa.large_string(), "key": pa.large_binary(), "value": pa.large_binary()}
    batches = batches_of(loads(), 60)
    schema = pa.schema([field.with_type(large.get(field.name, field.type)) for field in batches[0].schema])
    cast = [batch.cast(schema) for batch in batches]
    for batch, plain in zip(cast, batches, strict=True):
        assert RecordBatchRows(batch).columns == RecordBatchRows(plain).columns
    compare(monkeypatch, config(), cast)


@needs_kernel
@pytest.mark.parametrize("columns", ["off", "auto"])
def test_a_missing_target_partition_stops_the_task(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_KERNEL", columns)
    whole = loads(topic="t")
    row = next(each for each in whole if b'"type":"INSERT"' in (each.value or b""))
    moved = msgspec.structs.replace(row, partition=1)
    terms = Terms(limits={"t": 1_000_000}, partitions={"t": 1})
    with pytest.raises(Stopped, match=f"{moved.position}.*partition 1 of t, which has 1"):
        run(config(), batches_of([*whole, *[moved] * 20]), terms=terms)


@needs_kernel
@pytest.mark.parametrize("columns", ["off", "auto"])
def test_a_header_without_a_name_stops_the_task(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_KERNEL", columns)
    batch = record_batch([msgspec.structs.replace(each, headers=(("name", b"1"),)) for each in loads(1)])
    headers = batch.column("headers")
    nameless = pa.StructArray.from_arrays(
        [pa.nulls(len(headers.values), pa.string()), headers.values.field("value")], names=["key", "value"]
    )
    at = batch.schema.get_field_index("headers")
    broken = batch.set_column(at, "headers", pa.ListArray.from_arrays(headers.offsets, nameless))
    with pytest.raises(Stopped, match="headers: a name is NULL"):
        run(config(), [broken])


@needs_kernel
def test_rows_outside_of_the_bounds_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    records = loads(topic="t")
    times = [record.timestamp_ms for record in records[:40]]
    bounds = Bounds({"t/0": 33}, {"t/0": len(records) - 7, "t/1": 3}, min(times) + 1, max(times))
    found = compare(monkeypatch, config(), batches_of(records), bounds)
    assert found.counts.left_out > 40
    assert found.counts.read + found.counts.left_out == len(records)


@needs_kernel
def test_records_that_are_too_large_for_their_topic_are_refused_in_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = config("debezium-json", errors={"too_large": "dead-letter", "dead_letter_topic": "letters"})
    sizes = sorted(len(row["value"] or b"") for row in run(settings, batches_of(loads(1, topic="t"))).rows)
    terms = Terms(limits={"t": sizes[-5] + 200, "letters": 100_000})
    found = compare(monkeypatch, settings, batches_of(loads(topic="t")), terms=terms)
    assert 0 < found.counts.failed["dead letters"]["service.record-too-large"] < found.counts.read / 2


@needs_kernel
def test_most_rows_of_a_batch_come_as_one() -> None:
    """Slow rows do not split the batch of the others."""
    found = run(config(), batches_of(loads(200), 2000))
    assert found.batches < 60


@needs_kernel
def test_a_late_timestamp_is_refused_with_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(backfill={"output_format": "parquet"})
    records = loads(1)
    records[7] = msgspec.structs.replace(records[7], timestamp_ms=LATEST_MS + 1)
    for mode in ("off", "auto"):
        monkeypatch.setenv("RELAY_KERNEL", mode)
        with pytest.raises(Stopped, match=f"{records[7].position}.*later than Spark can hold"):
            run(settings, batches_of(records))


@needs_kernel
def test_tasks_of_one_step_share_their_templates() -> None:
    """Their counts are their own."""
    records, catalog = loads(), learned()
    again = [run(config(), batches_of(records), catalog=catalog) for _ in range(3)]
    assert again[0].rows == again[1].rows == again[2].rows
    assert again[0].counts == again[1].counts == again[2].counts
    other = run(config("debezium-json"), batches_of(records), catalog=catalog)
    assert other.rows == run(config("debezium-json"), batches_of(records), catalog=learned()).rows


def learned() -> Catalog:
    """The catalog after all statements of the records."""
    ddl = [DdlRecord(each, 0) for each in captured(FILE) if b'"isDdl":true' in (each.value or b"")]
    return learn_ddl(config(), ddl, empty_catalog())
