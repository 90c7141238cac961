"""Definitions from outside of the stream: dumps, and those in an exported schema history. No Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from spark.backfills import config_for
from support import DATA

from relay.catalog.definitions import Definition, definition_record, schema_of
from relay.model.events import TableId
from relay.model.limits import DEFAULT_LIMITS
from spark_backfill.checkpoint import described
from spark_backfill.command import report_rate_limits, report_schema_dumps
from spark_backfill.frames import Columns, record_batch
from spark_backfill.job import earlier_catalog
from spark_backfill.registries import RegistrySchemas
from spark_backfill.schema_pass import FindDdl, empty_catalog, learn_ddl, with_times

DUMP = str(DATA / "dumps/mariadb-10.11/dump.sql")
ORDERS = TableId("shop", "orders")
DEFINITION = Definition(ORDERS, (("shop", "CREATE TABLE orders (id int PRIMARY KEY)"),), 7 << 18)


def test_a_dump_is_known_to_every_task() -> None:
    config = config_for("x", "y", schema={"schema_dumps": [DUMP]})
    catalog = earlier_catalog(cast("Any", None), config, RegistrySchemas(config))
    schema = catalog.newest(ORDERS)[1]
    assert schema is not None
    assert (len(schema.columns), catalog.limit) == (5, empty_catalog().limit)


def test_definitions_of_an_exported_history_are_found_and_learned() -> None:
    config, kept = config_for("x", "y"), definition_record(DEFINITION)
    found = FindDdl(config, Columns())(iter([record_batch([kept])]))
    (batch,) = found
    assert batch.column("tso").to_pylist() == [str(7 << 18)]
    (dated,) = with_times(config, [kept])
    assert (dated.record, dated.tso) == (kept, 7 << 18)
    at, schema = learn_ddl(config, [dated], empty_catalog()).newest(ORDERS)
    assert at is not None
    assert (at.commit_ts, schema) == (7 << 18, schema_of(DEFINITION, DEFAULT_LIMITS))


def test_definitions_are_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    route = {"from": "ticdc-canal-json", "to": "canal-json", "include_tables": ["shop.*", "crm.*"]}
    broken = tmp_path / "broken.sql"
    broken.write_text("CREATE TABLE d.t (;")
    report_schema_dumps(config_for("x", "y", route=route, schema={"schema_dumps": [DUMP, str(broken)]}))
    printed = capsys.readouterr().err
    assert "schema_dumps: files read: 2, tables defined: 2" in printed
    assert f"warning: schema_dumps: {broken} line 1: not understood" in printed
    assert "warning: schema_dumps defines no table of include_tables crm.*" in printed


def test_rate_limits_are_reported_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    report_rate_limits(config_for("x", "y"))
    assert capsys.readouterr().err == ""
    report_rate_limits(config_for("x", "y", source={"max_bytes_per_second": 5}))
    printed = capsys.readouterr().err
    assert "warning: max_bytes_per_second in [source] has no effect on the job" in printed
    assert "max_records_per_second" not in printed


def test_a_checkpoint_knows_its_dumps() -> None:
    plain = described(config_for("x", "y"), "", "")
    assert not [key for key in plain if key.startswith("schema.schema_dumps")]
    found = described(config_for("x", "y", schema={"schema_dumps": [DUMP]}), "", "")
    assert found == plain | {"schema.schema_dumps": [DUMP]}
