"""Each part of `make bench-spark` runs, on tiny sizes, and the report has its figures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark_matrix import PARTS, Parameters
from benchmarks.spark_parts import JOBS, Place
from benchmarks.spark_report import NOT_MEASURED, Machine, Results, rows

TINY = Parameters(
    messages=(300,),
    partitions=(2,),
    tables=(3,),
    alters=2,
    rounds=1,
    task_records=100,
    tasks=5,
    parquet_tables=3,
    files=4,
)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.slow
def test_a_part_measures_all_its_figures(part: str, spark: Any, broker: str, tmp_path: Path) -> None:
    @contextlib.contextmanager
    def session(*_: Any, **__: Any) -> Iterator[Any]:
        yield spark

    place = Place(broker, tmp_path, TINY, lambda _: None, session)
    found = Results(Machine("", 2, 1, 0, ""), "", "", "")
    found.found = [result for job in JOBS[part] for result in job(place)]
    figures = [row for row in rows(found, TINY) if row.part == part]
    assert figures
    assert not [row for row in figures if row.verdict == NOT_MEASURED]
    assert not [row for row in figures if row.is_failure]
    # Workers of this session have run other tests.
    assert all(row.value and row.value > 0 for row in figures if "Python" in row.case)
