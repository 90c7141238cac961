"""A standalone cluster on this machine, master and two workers, to which the job is submitted with a packed
environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from support import DATA, captured

from relay.demo.kafka import free_ports

ROOT = Path(__file__).parent.parent.parent
BIN = Path(pyspark.__file__).parent / "bin"
FILE = "ticdc/canal-json.tidb-extension/09_dml"
_DEPLOY = "org.apache.spark.deploy"


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
    recipe = (ROOT / "docs/backfill.md").read_text()
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
    _run(
        str(environment / "bin/venv-pack"), *pack.split()[1:], "--quiet", "--compress-level", "0", cwd=folder
    )
    return folder / "relay-env.tar.gz"


def _run(*command: str, cwd: Path | None = None, **variables: str) -> None:
    # As pip does it; else every worker would compile what it imports.
    environment = os.environ | {"UV_COMPILE_BYTECODE": "1"} | variables
    ran = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


class Running(NamedTuple):
    master: str
    folder: Path


@pytest.fixture(scope="module")
def cluster(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cluster")
    port, *web = free_ports(4)
    master = f"spark://127.0.0.1:{port}"
    # A worker's own Python has no relay: it must come from the archive. PySpark comes from an unchanged
    # SPARK_HOME.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_", "PYTHON", "SPARK_HOME"))
    }
    commands = [
        [f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web[0])]
    ]
    for number, web_port in enumerate(web[1:]):
        own = [
            "--host",
            "127.0.0.1",
            "--webui-port",
            str(web_port),
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(folder / f"worker-{number}"),
        ]
        commands.append([f"{_DEPLOY}.worker.Worker", *own, master])
    log = folder / "log"
    with log.open("wb") as out:
        processes = [
            subprocess.Popen(
                [str(BIN / "spark-class"), *command], env=environment, stdout=out, stderr=out, cwd=folder
            )
            for command in commands
        ]
    try:
        _until_said(log, "Successfully registered with master", 2)
        yield Running(master, folder)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _until_said(log: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + 120
    while log.read_text().count(words) < times:
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


def test_a_cluster_writes_what_one_machine_does(
    cluster: Running, packed: Path, spark_settings: dict[str, str], tmp_path: Path
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
        str(BIN / "spark-submit"),
        "--master",
        cluster.master,
        "--archives",
        f"{packed}#environment",
        *flags,
    ]
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    ran = subprocess.run(
        [*command, str(ROOT / "spark_backfill/main.py"), "--config", str(config)],
        env=own | {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    # Both workers took part, each with the archive's Python.
    assert len(list(cluster.folder.glob("worker-*/app-*/*/environment/bin/python"))) == 2
    assert lines_in(tmp_path / "out") == relayed(
        config_for(target={"topic": "{topic}.canal"}), captured(FILE)
    )
