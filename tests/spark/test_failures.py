"""How many records may fail in a run whose policies go on: limits of [errors] in the Spark job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for, lines_in
from support import DATA

from relay.model.errors import TooManyFailures
from spark_backfill.counts import BackfillCounts, as_document
from spark_backfill.first_records import ratio_exceeded
from spark_backfill.job import from_files

DML = "ticdc/canal-json.tidb-extension/09_dml.jsonl"
OPEN = "ticdc/open-protocol/09_dml.jsonl"
SKIP = {"decode": "skip"}


def config(folder: Path, file: Path, **errors: Any) -> Any:
    return config_for(str(file), str(folder / "out"), errors=SKIP | errors)


def test_a_wrong_source_protocol_ends_a_run_before_it_writes(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(
        TooManyFailures, match=r"none of the first 21 records could be relayed: .* Is `from`,"
    ):
        from_files(spark, config(tmp_path, DATA / OPEN))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("errors", [{"max_initial_failures": 0}, {"on_max_initial_failures": "degrade"}])
def test_a_wrong_source_protocol_ends_no_run_when_the_check_is_off(
    spark: Any, tmp_path: Path, errors: dict[str, Any]
) -> None:
    counts = from_files(spark, config(tmp_path, DATA / OPEN, **errors))
    assert counts.failed["skipped"].total() == counts.read > 21
    assert ratio_exceeded(config(tmp_path, DATA / OPEN), counts).startswith(
        f"{counts.read} of {counts.read} records, rows and statements failed, more than the ratio"
    )


def half_wrong(folder: Path) -> Path:
    """Records of which the second half is of no protocol."""
    lines = (DATA / DML).read_text().splitlines()
    wrong = [json.dumps(json.loads(line) | {"value": "{}"}) for line in lines]
    numbered = (json.loads(line) | {"offset": offset} for offset, line in enumerate([*lines, *wrong]))
    file = folder / "half.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in numbered))
    return file


def test_a_step_with_too_many_failures_is_not_written(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(TooManyFailures, match=r"more than the ratio of 0\.1; the step was not written"):
        from_files(spark, config(tmp_path, half_wrong(tmp_path), on_max_failure_ratio="stop"))
    assert not (tmp_path / "out").exists()
    counts = from_files(spark, config(tmp_path, half_wrong(tmp_path), on_max_failure_ratio="degrade"))
    assert counts.read == 2 * counts.failed["skipped"].total()
    assert lines_in(tmp_path / "out")


def test_a_statement_about_a_database_is_counted_by_its_name(spark: Any, tmp_path: Path) -> None:
    counts = from_files(spark, config(tmp_path, DATA / DML))
    assert "dml_db" in counts.tables
    assert not [name for name in as_document(counts, 1.0)["tables"] if name.endswith(".")]


def test_few_failures_are_no_share() -> None:
    counts = BackfillCounts()
    for _ in range(19):
        counts.count_failed("skipped", "decode.malformed")
    assert ratio_exceeded(config_for("in", "out", errors=SKIP), counts) == ""
