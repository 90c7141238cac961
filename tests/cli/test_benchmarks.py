"""The benchmarks run, so that nobody finds out on the day of a release that they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.routes import ROUTES

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)  # two minutes of processor time
def test_the_codecs_are_measured_next_to_the_floor(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--only", "codecs", "--quick", "--output", str(output)]
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
