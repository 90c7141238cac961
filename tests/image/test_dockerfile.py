"""What the Dockerfile says, without building it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from image.container import BASE, ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_all_stages_have_the_same_base() -> None:
    """The virtual environment links to the Python of the base by its absolute path."""
    bases = re.findall(r"^FROM (\S+)(?: AS (\S+))?", TEXT, re.MULTILINE)
    assert bases == [
        ("${BASE}", "kernel"),
        ("${BASE}", "build"),
        ("build", "spark-build"),
        ("${BASE}", "spark"),
        # What is built without a target.
        ("${BASE}", "relay"),
    ]
    assert f"ARG BASE={BASE}\n" in TEXT


def test_both_installations_have_the_same_extras() -> None:
    """Or the second one would remove what the first one put into the cached layer."""
    first, second, third = (
        set(re.findall(r"--extra (\S+)", line)) for line in re.findall(r"uv sync (.*)", TEXT)
    )
    assert (
        first == second == third - {"spark"} == {"s3", "gcs", "azure", "msk", "kerberos", "rows", "tracing"}
    )
    assert first <= set(PROJECT["optional-dependencies"])


def test_the_label_has_the_version_of_the_project() -> None:
    assert f"ARG VERSION={PROJECT['version']}\n" in TEXT


def test_only_named_files_reach_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for name in line.split()
    }
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert {name for name in copied if not name.startswith("deploy/")} == allowed - {"deploy/spark"}
    assert {name for name in copied if name.startswith("deploy/")} == {"deploy/spark/entrypoint.sh"}


def test_spark_has_its_folder_and_user() -> None:
    """The versions of Python and the user are those of the other stages."""
    stage = TEXT.split(" AS spark\n")[1].split("\nFROM ")[0]
    (python,) = set(re.findall(r"lib/(python[0-9.]+)/", TEXT))
    assert f"ARG BASE={python.replace('python', 'python:')}-" in TEXT
    assert re.findall(r"^USER (.*)$", TEXT, re.MULTILINE) == ["10001:10001"] * 2
    assert "--uid 10001 --gid 10001" in stage


def entry(*arguments: str, **variables: str) -> str:
    """What the entry point runs, with `echo` in place of each program."""
    text = (ROOT / "deploy/spark/entrypoint.sh").read_text(encoding="utf-8")
    command = ["sh", "-c", text.replace("exec tini", "echo tini"), "sh", *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def test_the_entry_point_is_a_driver_an_executor_or_any_command() -> None:
    home = {"SPARK_HOME": "/s", "JAVA_HOME": "/j", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}
    assert entry("python", "-m", "x y") == "tini -s -- python -m x y"
    assert entry("driver", "--conf", "a=b", **home) == (
        "tini -s -- /s/bin/spark-submit --conf spark.driver.bindAddress=10.0.0.1 --deploy-mode client --conf a=b"
    )
    variables = {
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://d",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_10": "-Dlast=1",
        "SPARK_JAVA_OPT_2": "-Dsecond=1",
    }
    assert entry("executor", **home, **variables) == (
        "tini -s -- /j/bin/java -Da=b c -Dsecond=1 -Dlast=1 -Xms1g -Xmx1g -cp /s/conf:/s/jars/* "
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url spark://d "
        "--executor-id 3 --cores 2 --app-id app --hostname 10.0.0.2 --resourceProfileId 0 --podName pod"
    )
