"""The files of `deploy` for Compose: valid, consistent, and their producer and relay run against a real Kafka."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from relay.config import load_config
from relay.config.keys import Delivery
from relay.core.translator import Translator
from relay.demo.kafka import VERSION, free_ports
from relay.demo.play import captured_records

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "docker-compose.yaml"
PROGRAMS = Path(sys.executable).parent


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


def run(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def test_compose_takes_the_file() -> None:
    """By the schema of the Compose specification."""
    checked = run(PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)
    assert checked.returncode == 0, checked.stdout
    wrong = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    wrong["services"]["relay"]["portz"] = []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(wrong, file)
        file.flush()
        checked = run(PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", file.name)
    assert "portz" in checked.stdout


def test_services_are_those_that_the_documentation_names() -> None:
    assert set(services()) == {"kafka", "producer", "relay", "prometheus", "grafana"}
    for service in services().values():
        for other in service.get("depends_on", ()):
            assert other in services()


def test_every_mounted_file_is_there() -> None:
    mounts = [mount for service in services().values() for mount in service.get("volumes", ())]
    assert mounts
    for mount in mounts:
        source, target, mode = mount.split(":")
        assert (DEPLOY / source).exists(), mount
        assert (target[0], mode) == ("/", "ro")


def test_nothing_is_reached_from_other_machines() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports)) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_relay_is_built_and_stopped_as_it_should_be() -> None:
    relay, producer = services()["relay"], services()["producer"]
    assert (relay["image"], relay["build"]) == (producer["image"], producer["build"])
    assert (DEPLOY / relay["build"]["context"]).resolve() == ROOT
    assert f" AS {relay['build']['target']}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert int(relay["stop_grace_period"].removesuffix("s")) >= Delivery().drain_timeout_seconds + 15
    assert services()["kafka"]["image"] == f"apache/kafka:{VERSION}"


def test_names_and_ports_agree() -> None:
    config = load_config(DEPLOY / "relay.toml")
    kafka = services()["kafka"]["environment"]
    assert f"INSIDE://{config.source.bootstrap_servers}" in kafka["KAFKA_ADVERTISED_LISTENERS"]
    command = services()["producer"]["command"]
    assert command[command.index("--bootstrap-servers") + 1] == config.source.bootstrap_servers
    assert (command[command.index("--topic") + 1],) == config.source.topics
    assert services()["relay"]["ports"] == [f"127.0.0.1:{config.http.port}:{config.http.port}"]
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"relay:{config.http.port}"]}]
    alerts = (ROOT / "helm/files/alerts.yaml").read_text(encoding="utf-8")
    assert {job["job_name"]} == set(re.findall(r'job="(\w+)"', alerts))


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasources.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in services()["prometheus"]["ports"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards.yaml").read_text())["providers"]
    mounts = dict(mount.split(":")[:2][::-1] for mount in services()["grafana"]["volumes"])
    assert list((DEPLOY / mounts[provider["options"]["path"]]).glob("*.json"))


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool comes with Debian's package prometheus"
)
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(ROOT / "helm/files/alerts.yaml", tmp_path)
    checked = run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.kafka
async def test_the_producer_and_the_relay_run(kafka: Any, tmp_path: Path) -> None:
    """As Compose runs them, with the addresses and names of this test by variables."""
    source, port = f"compose-{time.time_ns()}", *free_ports(1)
    environment = os.environ | {
        "TMPDIR": str(tmp_path),
        "RELAY_SOURCE__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "RELAY_SOURCE__TOPICS": source,
        "RELAY_SOURCE__GROUP_ID": source,
        "RELAY_HTTP__PORT": str(port),
        "RELAY_HTTP__HOST": "127.0.0.1",
    }
    arguments = ["--bootstrap-servers", kafka.bootstrap_servers, "--topic", source]
    producing = [sys.executable, DEPLOY / "producer.py", *arguments, "--rounds", "2", "--every-seconds", "0"]
    done = await asyncio.to_thread(run, *producing, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "producing").exists()
    command = [sys.executable, "-m", "relay", "run", "--config", str(DEPLOY / "relay.toml")]
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    translator = Translator("ticdc-canal-json", "canal-json")
    wanted = sum(len(translator.translate(record)) for record in captured_records()) * 2
    try:
        await kafka.until(lambda: _has(kafka, f"{source}.canal-json", wanted))
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
    finally:
        process.terminate()
        assert await process.wait() == 0


async def _has(kafka: Any, topic: str, count: int) -> bool:
    try:
        return bool(await kafka.length(topic) >= count)
    except Exception:  # relay has not made the topic yet
        return False


@pytest.fixture
def compose() -> Iterator[list[str]]:
    """The command of Compose where there is a Docker; RELAY_COMPOSE_TEST=1 says that there must be."""
    command = ["docker", "compose", "--file", str(COMPOSE)]
    lacks = shutil.which("docker") is None or run(*command, "version").returncode != 0
    if lacks or run("docker", "info").returncode != 0:
        (pytest.fail if os.environ.get("RELAY_COMPOSE_TEST") == "1" else pytest.skip)("there is no Docker")
    if not os.environ.get("RELAY_COMPOSE_TEST"):
        pytest.skip("RELAY_COMPOSE_TEST=1 builds the image and starts everything")
    yield command
    run(*command, "down", "--volumes")


@pytest.mark.timeout(1200)
def test_compose_starts_everything(compose: list[str]) -> None:
    started = subprocess.run([*compose, "up", "--build", "--detach", "--wait"], timeout=1000, check=False)
    assert started.returncode == 0
    deadline = time.monotonic() + 120
    query = "http://127.0.0.1:9090/api/v1/query?query=sum(relay_records_produced_total)%20%3E%200"
    while True:
        with urllib.request.urlopen(query, timeout=10) as answer:
            if json.load(answer)["data"]["result"]:
                break
        assert time.monotonic() < deadline
        time.sleep(2)
    with urllib.request.urlopen("http://127.0.0.1:3000/api/search?query=relay", timeout=10) as answer:
        assert {each["title"] for each in json.load(answer)} >= {"relay: operation", "relay: data quality"}
