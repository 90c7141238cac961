"""The benchmarks run, so that nobody finds out on the day of a release that they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cold import Load, measure
from benchmarks.routes import DATA, ROUTES, WORKLOADS

ROOT = Path(__file__).parents[2]


#: Records of each file: a statement, and rows behind it.
_RECORDS = 30


def one_workload_of_each(folder: Path) -> Path:
    """A folder of record files with ordinary changes alone, where a route has them, and the first of those: fewer
    end sooner.
    """
    for name in {route.data for route in ROUTES}:
        (folder / name).mkdir(parents=True)
        found = [each for each in WORKLOADS if (DATA / name / f"{each}.jsonl").exists()]
        kept = "09_dml" if "09_dml" in found else found[0]
        for path in (DATA / name).iterdir():
            if path.suffix == ".jsonl" and path.stem == kept:
                lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
                (folder / name / path.name).write_text("".join(lines[:_RECORDS]), encoding="utf-8")
            elif path.suffix != ".jsonl":
                (folder / name / path.name).symlink_to(path)
    return folder


@pytest.mark.timeout(400)  # a minute of processor time
@pytest.mark.slow
def test_the_codecs_are_measured_next_to_the_floor(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--only", "codecs", "--quick", "--output", str(output)]
    command += ["--data", str(one_workload_of_each(tmp_path / "data"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ticdc-canal-json -> canal-json" in done.stdout
    found = json.loads(output.read_bytes())
    assert "kafka" not in found
    totals = [timing for timing in found["codecs"] if timing["workload"] == "total"]
    assert [timing["route"] for timing in totals] == [str(route) for route in ROUTES]
    assert all(
        timing["ratio"] > 0 and timing["messages"] > 0 and timing["rows"] >= timing["messages"]
        for timing in totals
    )


def test_tables_that_are_new_are_measured_with_and_without_an_engine() -> None:
    loads = {"few": Load(3, 4), "with statements": Load(3, 4, ddl_every=5)}
    found = measure(2, lambda _: None, loads)
    assert [(each.name, each.rows) for each in found] == [("few", 12), ("with statements", 12)]
    assert all(each.floor_us > 0 and each.slow_ratio > 1 and each.ratio > 0 for each in found)
