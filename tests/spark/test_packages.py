"""The command refuses a Spark that it cannot use, before it imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def started_with(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """The command with another PySpark."""
    for name in ("pyspark", "pyarrow", "pandas"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    (folder / "pyspark" / "version.py").write_text(f'__version__ = "{version}"\n')
    command = [sys.executable, "-m", "spark_backfill", "--config", "none.toml"]
    env = {"PYTHONPATH": f"{folder}:{ROOT}"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("version", ["3.5.6", "2.4.0"])
def test_an_old_spark_is_refused_by_name(version: str, tmp_path: Path) -> None:
    found = started_with(tmp_path, version)
    assert found.returncode == 2
    assert found.stderr.startswith(f"error: the Spark job needs Spark 4.0 or later, and {sys.executable} has")
    assert f"PySpark {version}: use a newer Spark" in found.stderr


@pytest.mark.parametrize("version", ["4.0.0", "4.2.0.dev1", "10.1", "unknown"])
def test_others_are_tried(version: str, tmp_path: Path) -> None:
    """These have nothing but a version."""
    found = started_with(tmp_path, version)
    assert "Spark 4.0 or later" not in found.stderr
    assert "pyspark" in found.stderr
