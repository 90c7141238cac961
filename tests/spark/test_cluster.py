"""A standalone cluster on this machine, a master and two workers with an executor each, to which the job is
submitted with a packed environment. Spark starts and ends it: master and workers are in the driver's Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from support import DATA, captured

ROOT = Path(__file__).parent.parent.parent
FILE = "ticdc/canal-json.tidb-extension/09_dml"
#: Modules that a worker imports, directly or not.
IMPORTED = "pandas, pyarrow, relay.config, relay.codecs, relay.io.resolver"


def uv() -> str:
    """The program that made this environment."""
    found = shutil.which("uv") or str(ROOT / ".cache/uv/bin/uv")
    if not Path(found).exists():
        pytest.skip("uv is missing: `make setup` installs it")
    return found


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed environment of the documentation's recipe: relay with what workers need, without Spark."""
    folder = tmp_path_factory.mktemp("packed")
    recipe = (ROOT / "docs/backfill/clusters.md").read_text()
    (pack,) = re.findall(r"^(venv-pack --.*)$", recipe, re.MULTILINE)
    (install,) = re.findall(r"^relay-env/bin/pip install (.*)$", recipe, re.MULTILINE)
    # In the locked versions, which are here already: to ask the index takes longer than the test.
    *packages, packer = install.split()
    assert packages == [".", "pyarrow", "pandas"]
    environment = folder / "relay-env"
    spark_itself = [f"--no-install-package={name}" for name in ("pyspark", "py4j")]
    command = (uv(), "sync", "--quiet", "--locked", "--no-editable", "--extra", "spark", *spark_itself)
    _run(*command, "--python", sys.executable, cwd=ROOT, UV_PROJECT_ENVIRONMENT=str(environment))
    python = str(environment / "bin/python")
    _run(uv(), "pip", "install", "--quiet", "--python", python, packer, "setuptools")
    # Every worker would compile what it imports.
    _run(python, "-c", f"import {IMPORTED}")
    # Neither time for compression nor for the packages' own tests and headers.
    short = ("--quiet", "--compress-level", "0", "--exclude", "*/tests/*", "--exclude", "*/include/*")
    _run(str(environment / "bin/venv-pack"), *pack.split()[1:], *short, cwd=folder)
    return folder / "relay-env.tar.gz"


def _run(*command: str, cwd: Path | None = None, **variables: str) -> None:
    environment = os.environ | variables
    ran = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unchanged Spark, whose workers get PySpark from it, with a place for their folders."""
    home = tmp_path_factory.mktemp("cluster")
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


@pytest.mark.slow
def test_a_cluster_writes_what_one_machine_does(
    spark_home: Path, packed: Path, spark_settings: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "relay.toml"
    config.write_text(
        f"""
        [route]
        from = "ticdc-canal-json"
        to = "canal-json"
        [source]
        bootstrap_servers = "127.0.0.1:1"
        topics = ["t"]
        group_id = "g"
        [target]
        topic = "{{topic}}.canal"
        [backfill]
        input = "{DATA / FILE}.jsonl"
        output = "{tmp_path / "out"}"
        """
    )
    kept = ("spark.driver.host", "spark.driver.bindAddress", "spark.sql", "spark.ui", "spark.driver.memory")
    settings = {name: value for name, value in spark_settings.items() if name.startswith(kept)} | {
        "spark.executor.memory": "512m"
    }
    settings["spark.sql.files.maxPartitionBytes"] = "8192"
    flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [
        str(spark_home / "bin/spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        "--archives",
        f"{packed}#environment",
        *flags,
    ]
    # A worker's own Python has no relay: it must come from the archive.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [*command, str(ROOT / "spark_backfill/main.py"), "--config", str(config)],
        env=own
        | {
            "SPARK_HOME": str(spark_home),
            "PYSPARK_PYTHON": "./environment/bin/python",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    # Both workers took part, each with the archive's Python.
    assert len(list(spark_home.glob("work/app-*/*/environment/bin/python"))) == 2
    assert lines_in(tmp_path / "out") == relayed(
        config_for(target={"topic": "{topic}.canal"}), captured(FILE)
    )
