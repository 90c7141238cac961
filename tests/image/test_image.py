"""The image built and run: `make image-test`. It takes root and some minutes, so `make test` only reads the
Dockerfile.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image.container import ROOT, Image, missing

from relay.model.records import SOURCE_HEADER, ConsumerRecord

# The first test waits for the build, which is done once.
pytestmark = pytest.mark.timeout(2400)

RECORDS = ROOT / "tests/data/ticdc/canal-json.tidb-extension/09_dml.jsonl"
PARTITIONS = 4
COUNT = 20_000


def built(target: str = "") -> Iterator[Image]:
    """Build the image; RELAY_IMAGE_TEST says whether, and whether a machine that cannot is a failure (1) or a
    skip.
    """
    wanted = os.environ.get("RELAY_IMAGE_TEST")
    if not wanted:
        pytest.skip("`make image-test` builds and runs the image")
    if lacks := missing():
        (pytest.fail if wanted == "1" else pytest.skip)(f"building the image needs {lacks}")
    with tempfile.TemporaryDirectory(prefix="relay-image-") as folder:
        yield Image(Path(folder), target)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    yield from built()


@pytest.fixture(scope="module")
def spark_image() -> Iterator[Image]:
    yield from built("spark")


def run(
    image: Image, config: Path, *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        image.command(config, *arguments), input=given, capture_output=True, timeout=120, check=False
    )


def test_buildah_runs_it(image: Image) -> None:
    assert image.buildah(
        "run", "--isolation", "chroot", image.container, "--", "relay", "--version"
    ).startswith("relay ")


def test_it_starts_the_service_as_a_user_without_rights(image: Image, tmp_path: Path) -> None:
    assert image.settings["Entrypoint"] == ["relay"]
    assert image.settings["Cmd"] == ["run", "--config", "/etc/relay/relay.toml"]
    done = run(image, tmp_path, "sh", "-c", "id -u && id -g && grep CapEff /proc/self/status && touch /app/x")
    assert done.stdout.split() == [b"10001", b"10001", b"CapEff:", b"0000000000000000"]
    assert b"Read-only file system" in done.stderr


def test_it_has_labels(image: Image) -> None:
    labels = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in image.settings["Labels"].items()
    }
    assert labels["title"] == "relay"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"] in run(image, ROOT, "relay", "--version").stdout.decode()


def test_it_holds_relay_and_its_extras_but_no_tools_to_build_with(image: Image, tmp_path: Path) -> None:
    done = run(
        image,
        tmp_path,
        "python",
        "-c",
        "import relay, s3fs, gcsfs, adlfs, gssapi, cel, relay.io.kafka.msk, relay.service.observe.tracing; print(relay.__file__)",
    )
    assert done.stdout.startswith(b"/app/.venv/lib/python3.11/site-packages/relay/"), done.stderr
    found = run(
        image,
        tmp_path,
        "sh",
        "-c",
        "command -v uv gcc cc make cargo; ls /app /app/.venv/bin; ls -d /uv /wheels /var/cache/uv",
    )
    names = set(found.stdout.decode().split())
    assert "relay" in names
    assert not {
        name
        for name in names
        if name.rpartition("/")[2]
        in {"uv", "gcc", "cc", "make", "cargo", "wheels", "pip", "pytest", "pyproject.toml"}
    }


def test_it_has_the_native_kernel(image: Image, tmp_path: Path) -> None:
    done = run(image, tmp_path, "python", "-c", "from relay.io import kernel; print(kernel.installed())")
    assert b"relay_cdc_kernel.Kernel" in done.stdout, done.stdout + done.stderr
    assert b"problem=''" in done.stdout


def test_modules_are_compiled(image: Image) -> None:
    """A read-only file system has no place for it at run time."""
    folder = image.root / "app/.venv/lib/python3.11/site-packages/relay"
    assert len(list(folder.rglob("*.pyc"))) == len(list(folder.rglob("*.py"))) > 50


def test_it_translates_files(image: Image, tmp_path: Path) -> None:
    arguments = ("translate", "--from", "ticdc-canal-json", "--to", "canal-json", "-")
    done = run(image, tmp_path, *image.settings["Entrypoint"], *arguments, given=RECORDS.read_bytes())
    assert done.returncode == 0, done.stderr
    values = [json.loads(json.loads(line)["value"]) for line in done.stdout.splitlines()]
    assert len(values) == 60
    assert values[-1]["mysqlType"]


def updates() -> list[ConsumerRecord]:
    """An update as TiCDC sent it, many times, spread over the partitions."""
    value = json.loads(RECORDS.read_bytes().splitlines()[10])["value"].encode()
    return [ConsumerRecord("", i % PARTITIONS, 0, 1_700_000_000_000 + i, None, value) for i in range(COUNT)]


@pytest.mark.kafka
async def test_sigterm_drains(image: Image, kafka: Any, make_config: Any, tmp_path: Path) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(source, target)
    (tmp_path / "relay.toml").write_text(
        f"""
        [route]
        from = "{config.route.from_}"
        to = "{config.route.to}"
        [source]
        bootstrap_servers = "{config.source.bootstrap_servers}"
        topics = ["{source}"]
        group_id = "{config.source.group_id}"
        [target]
        topic = "{target}"
        """,
        encoding="utf-8",
    )
    # As a mounted ConfigMap, it can be read by everybody.
    tmp_path.chmod(0o755)  # noqa: ASYNC240 - takes no time
    await kafka.produce(source, updates())
    command = image.command(tmp_path, *image.settings["Entrypoint"], *image.settings["Cmd"])
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        await kafka.until(lambda: _holds_or_ended(kafka, target, process))
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(60):
            out, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b""), out
    assert [json.loads(line)["event"] for line in out.splitlines()][-2:] == [
        "relay.stopping",
        "relay.stopped",
    ]

    found = await kafka.read(target)
    assert len({dict(record.headers)[SOURCE_HEADER] for record in found}) == len(found) > 0
    assert sum((await kafka.committed(config.source.group_id)).values()) == len(found)


async def _holds_or_ended(kafka: Any, topic: str, process: asyncio.subprocess.Process) -> bool:
    return process.returncode is not None or bool(await kafka.length(topic) > 0)


# The image with Spark.


def test_the_spark_image_translates_files(spark_image: Image, tmp_path: Path) -> None:
    """As the user without rights, on a read-only file system: /tmp is all that it can write."""
    shutil.copy(RECORDS, tmp_path / "in.jsonl")
    (tmp_path / "relay.toml").write_text(
        """
        [route]
        from = "ticdc-canal-json"
        to = "canal-json"
        [source]
        bootstrap_servers = "127.0.0.1:1"
        topics = ["orders"]
        group_id = "g"
        [target]
        topic = "{topic}.canal"
        [backfill]
        input = "/etc/relay/in.jsonl"
        output = "/tmp/out"
        """,
        encoding="utf-8",
    )
    tmp_path.chmod(0o755)
    job = " ".join(spark_image.settings["Cmd"])
    script = f"/opt/entrypoint.sh {job} && cat /tmp/out/*/*/part-* | wc -l"
    assert spark_image.settings["Entrypoint"] == ["/opt/entrypoint.sh"]
    done = run(spark_image, tmp_path, "sh", "-c", script)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert done.stdout.split() == [b"60"]


def test_the_spark_image_has_the_connector(spark_image: Image) -> None:
    jars = {
        path.name for path in spark_image.root.glob("app/.venv/lib/python3.11/site-packages/pyspark/jars/*")
    }
    for name in ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients"):
        assert any(name in jar for jar in jars)
    # What Spark has is not there twice.
    assert len([jar for jar in jars if "snappy-java" in jar]) == 1
