"""The quick start of docs/backfill.md, as a new user follows it: in an empty environment, with a real Kafka."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from spark.java import SHORT_RUNS, java_home
from support import captured

from relay.core.translator import Translator
from relay.demo.kafka import cache_dir
from spark_backfill.connector import IN_SPARK

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BACKFILL = (ROOT / "docs/backfill.md").read_text(encoding="utf-8")
QUICK_START = _BACKFILL.partition("\n## Quick start\n")[2].partition("\n## ")[0]
#: Words of the documentation that name a version of Spark or of its connector.
_NAMED = re.compile(
    r"spark-sql-kafka-0-10_2\.13:([\d.]+\d)|apache/spark:([\d.]+\d)|with Spark ([\d.]+\d)|pyspark==([\d.]+\d)"
)
FILE = "ticdc/canal-json.tidb-extension/09_dml"


def block_with(words: str, page: str) -> str:
    """The block of a page that holds these words."""
    found: str
    (found,) = (block for block in re.findall(r"```\w*\n(.*?)```", page, re.DOTALL) if words in block)
    return found


def test_everything_names_one_spark() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = (need.removeprefix("pyspark==") for need in extras["spark"] if need.startswith("pyspark"))
    lock = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert [each["version"] for each in lock if each["name"] == "pyspark"] == [wanted]
    assert [need for need in extras["dev"] if need.startswith("pyspark")] == ["pyspark[connect]"]
    named = set()
    for path in (
        ROOT / "README.md",
        ROOT / "Dockerfile",
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("helm/*.md"),
    ):
        found = {next(filter(None, groups)) for groups in _NAMED.findall(path.read_text(encoding="utf-8"))}
        assert found <= {wanted}, path
        named |= found
    assert named == {wanted}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment with what the quick start installs, in the locked versions; its folder of programs."""
    folder = tmp_path_factory.mktemp("fresh")
    (extra,) = re.findall(
        r"^pip install '\.\[(\w+)\]'", block_with("spark-submit", QUICK_START), re.MULTILINE
    )
    uv = shutil.which("uv", path=f"{ROOT / '.cache/uv/bin'}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", f".[{extra}]"], cwd=ROOT, check=True)
    else:
        # `make setup` has downloaded these versions; newer ones would take minutes.
        command = [
            uv,
            "sync",
            "--quiet",
            "--locked",
            "--no-editable",
            "--extra",
            extra,
            "--python",
            sys.executable,
        ]
        environment = os.environ | {"UV_PROJECT_ENVIRONMENT": str(folder)}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
    yield folder / "bin"
    shutil.rmtree(folder)


def surroundings(folder: Path, programs: Path) -> dict[str, str]:
    """The variables of a new user: those of the tests' own Spark are not there."""
    settings = {
        "spark.jars.ivy": cache_dir() / "ivy",
        "spark.jars.excludes": ",".join(IN_SPARK),
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    defaults = folder / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "PYTHON", "SPARK", "RELAY", "VIRTUAL_ENV", "JAVA_HOME"))
    }
    # The system's Java also trusts what this machine trusts, a proxy before Maven Central, say.
    java = {} if shutil.which("java") else {"JAVA_HOME": str(java_home(folder / "java", *SHORT_RUNS))}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return kept | java | {"PATH": path, "SPARK_CONF_DIR": str(defaults.parent)}


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.slow
async def test_the_quick_start_translates_a_topic(fresh: Path, kafka: Any, tmp_path: Path) -> None:
    records = captured(FILE)
    source = await kafka.topic(1)
    await kafka.produce(source, records)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await admin.start()
    await admin.create_topics([NewTopic(f"{source}.canal-json", 1, 1)])
    await admin.close()
    config = (
        block_with("[route]", README).replace("kafka:9092", kafka.bootstrap_servers).replace("orders", source)
    )
    (tmp_path / "relay.toml").write_text(config)
    (command,) = re.findall(r"^spark-submit (?:.*\\\n)*.*$", QUICK_START, re.MULTILINE)
    ran = await asyncio.to_thread(
        subprocess.run,
        ["sh", "-c", command],
        cwd=tmp_path,
        env=surroundings(tmp_path, fresh),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
    found = await kafka.read(f"{source}.canal-json", 60)
    translator = Translator("ticdc-canal-json", "canal-json")
    wanted = [out.value for record in records for out in translator.translate(record)]
    assert [record.value for record in found] == wanted
    assert f"{len(records)} records read, 60 written" in ran.stdout


def test_without_the_extra_the_job_says_what_to_install(tmp_path: Path) -> None:
    """An environment in which relay is, and Spark is not."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name in {'pyspark', 'pandas'} else found(name, *more)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "spark_backfill", "--config", "relay.toml"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: the Spark job needs pyspark, pandas in ")
    assert "pip install '.[spark]'" in ran.stderr
    assert "Traceback" not in ran.stderr
