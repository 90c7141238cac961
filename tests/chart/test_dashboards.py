"""The dashboards: about metrics that relay has, and every query asked of a real Prometheus that scrapes a
relay at work.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from chart.dashboards import DASHBOARDS, asked, dashboard
from chart.generate import BOARDS
from chart.rendering import CHART, NAME, Rendered, example
from status_support import ORDERS_0, Clock, running_status
from support import captured

from relay.demo.kafka import free_ports
from relay.model.records import ConsumerRecord
from relay.service.observe.metrics import registry_of
from relay.service.rate_limit import RateLimits

FILE = "ticdc/canal-json.tidb-extension/09_dml"
_NAME = re.compile(r"\b(?:relay|process)_[a-z_]+")
_LABELS = re.compile(r"by \(([^)]*)\)|\{\{(\w+)\}\}")
_OWN = {"job", "instance", "le"}
#: What a relay with dead letters does not count beside them: asked without the comparison that hides zeros.
_ZERO = {"Skipped by code", "Losses by kind"}


def models() -> dict[str, Any]:
    return {name: json.loads((BOARDS / f"{name}.json").read_text(encoding="utf-8")) for name in DASHBOARDS}


def metrics() -> dict[str, set[str]]:
    """The samples that relay exposes, with their labels."""
    found: dict[str, set[str]] = {}
    status = running_status(Clock())
    status.database_times(ORDERS_0, row_ms=1, watermark_ms=1)
    status.about = msgspec.structs.replace(status.about, rate_limits=RateLimits(1, 1))
    for family in registry_of(status).collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
        if family.type == "histogram":
            labels = {"stage"} if "stage" in family.name else set()
            for end in ("bucket", "sum", "count"):
                found.setdefault(f"{family.name}_{end}", set()).update(labels)
    return found


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_file_is_what_is_written_here(name: str) -> None:
    text = (BOARDS / f"{name}.json").read_text(encoding="utf-8")
    assert text == dashboard(name), "run `python -m chart.generate` in the folder `tests`"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_query_is_about_metrics_and_labels_of_relay(name: str) -> None:
    known = metrics()
    for panel in models()[name]["panels"]:
        for target in panel["targets"]:
            used = set(_NAME.findall(target["expr"]))
            assert used <= set(known), panel["title"]
            assert used or "up{" in target["expr"]
            labels = {
                label.strip()
                for pair in _LABELS.findall(target["expr"] + target["legendFormat"])
                for label in "".join(pair).split(",")
            }
            assert labels <= _OWN.union(*(known[each] for each in used)), panel["title"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_stand_side_by_side(name: str) -> None:
    model = models()[name]
    taken: set[tuple[int, int]] = set()
    for panel in model["panels"]:
        position = panel["gridPos"]
        cells = {(x, position["y"]) for x in range(position["x"], position["x"] + position["w"])}
        assert not cells & taken
        assert position["x"] + position["w"] <= 24
        taken |= cells
        assert panel["title"]
        assert panel["description"]
    assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])


def test_the_two_have_different_queries_and_ids() -> None:
    expressions = [expr for model in models().values() for _, expr in asked(model, "relay")]
    assert len(expressions) == len(set(expressions))
    assert len({model["uid"] for model in models().values()}) == len(DASHBOARDS)


def test_a_release_has_dashboards_of_its_own() -> None:
    data = example("monitoring").others["ConfigMap", "dashboards"]["data"]
    assert set(data) == {f"{NAME}-{name}.json" for name in DASHBOARDS}
    ids = set()
    for text in data.values():
        model = json.loads(text)
        (job,) = (each for each in model["templating"]["list"] if each["name"] == "job")
        assert job["current"] == {"text": NAME, "value": NAME}
        ids.add(model["uid"])
        assert len(model["uid"]) <= 40
    other = Rendered({"dashboards": {"enabled": True}, "fullnameOverride": "other"})
    more = {json.loads(text)["uid"] for text in other.others["ConfigMap", "dashboards"]["data"].values()}
    assert not ids & more
    assert (CHART / "files/dashboards").is_dir()


# A real Prometheus.


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Its address, and the port of the relay that it scrapes, every second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("it comes with Debian's package prometheus")
    web, relay = free_ports(2)
    job = {"job_name": "relay", "static_configs": [{"targets": [f"127.0.0.1:{relay}"]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{web}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{web}", relay
    finally:
        process.terminate()
        process.wait(20)


def records() -> list[ConsumerRecord]:
    """Captured ones, and two that are no messages."""
    broken = [ConsumerRecord("", 0, 0, 1_700_000_000_000, None, value) for value in (b"{", b"[]")]
    return captured(FILE) + broken


@asynccontextmanager
async def relay_at(folder: Path, kafka: Any, source: str, target: str, port: int) -> AsyncIterator[None]:
    (folder / "relay.toml").write_text(
        f"""
        [route]
        from = "ticdc-canal-json"
        to = "canal-json"
        exclude_tables = ["dml_db.accounts"]
        [source]
        bootstrap_servers = "{kafka.bootstrap_servers}"
        topics = ["{source}"]
        group_id = "g-{source}"
        max_records_per_second = 1000000
        [target]
        topic = "{target}"
        [delivery]
        commit_interval_seconds = 0.2
        [errors]
        decode = "dead-letter"
        too_large = "skip"
        dead_letter_topic = "{target}.dead"
        [http]
        port = {port}
        """
    )
    command = [sys.executable, "-m", "relay", "run", "--config", str(folder / "relay.toml")]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0


async def answer(client: aiohttp.ClientSession, url: str, expr: str) -> Any:
    async with client.post(f"{url}/api/v1/query", data={"query": expr}) as response:
        found = await response.json()
        assert response.status == 200, (expr, found)
        return found["data"]["result"]


@pytest.mark.kafka
async def test_every_query_has_an_answer(prometheus: tuple[str, int], kafka: Any, tmp_path: Path) -> None:
    url, port = prometheus
    source, target = await kafka.topic(1), await kafka.topic(1)
    questions = [
        (title, expr.removesuffix(" > 0") if title in _ZERO else expr)
        for model in models().values()
        for title, expr in asked(model, "relay")
    ]
    async with aiohttp.ClientSession() as client, relay_at(tmp_path, kafka, source, target, port):
        deadline = time.monotonic() + 90
        left = dict.fromkeys(questions)
        while True:
            # New records again and again, so that rates have something to count.
            await kafka.produce(source, records())
            await asyncio.sleep(1)
            for question in [each for each in left if await _answers(client, url, each[1])]:
                del left[question]
            if not left:
                break
            assert time.monotonic() < deadline, list(left)
        dead = await answer(client, url, 'sum(relay_dead_letters_total{job="relay"})')
    assert float(dead[0]["value"][1]) > 0


async def _answers(client: aiohttp.ClientSession, url: str, expr: str) -> bool:
    try:
        return bool(await answer(client, url, expr))
    except aiohttp.ClientConnectionError:  # Prometheus has not started
        return False
