"""A real Prometheus with the chart's rules. Every `for` is short: what is measured is the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml
from chart.rendering import NAME, NAMESPACE, Rendered
from chart.test_alerts import rules

from relay.demo.kafka import free_ports

PROMETHEUS = shutil.which("prometheus")
#: Interval of scrapes and evaluations, and the `for` of every alert that has one.
INTERVAL_SECONDS, FOR_SECONDS = 1.0, 3.0
UNACKNOWLEDGED_SECONDS = 5


def _rules() -> dict[str, Any]:
    """The chart's rules with short times."""
    short: dict[str, dict[str, Any]] = {
        rule["alert"]: {"for": f"{FOR_SECONDS:g}s"} for rule in rules() if "for" in rule
    }
    short["RelayUnacknowledged"]["threshold"] = UNACKNOWLEDGED_SECONDS
    values = {"prometheusRule": {"enabled": True, "alerts": short}}
    spec: dict[str, Any] = Rendered(values).objects["PrometheusRule"]["spec"]
    return spec


def _configuration(target: int, rule_file: Path) -> dict[str, Any]:
    interval = f"{INTERVAL_SECONDS:g}s"
    job = {
        "job_name": NAME,
        "static_configs": [{"targets": [f"127.0.0.1:{target}"], "labels": {"namespace": NAMESPACE}}],
    }
    return {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(rule_file)],
        "scrape_configs": [job],
    }


class Prometheus:
    """Its HTTP API."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def firing(self) -> set[str]:
        """Return the alerts that fire, each with its check, if it is about one: `RelayCheckFailing/target`."""
        alerts = (await self._get("/api/v1/alerts"))["data"]["alerts"]
        firing = [each["labels"] for each in alerts if each["state"] == "firing"]
        return {"/".join(filter(None, (each["alertname"], each.get("check")))) for each in firing}

    async def scraped(self) -> None:
        """Wait until it has scraped relay several times, and no alert about the time before fires.

        Prometheus begins to scrape 5 s after its start.
        """
        query = "/api/v1/query?query=" + urllib.parse.quote("count_over_time((up == 1)[1m:1s]) >= 3")
        async with asyncio.timeout(60):
            while True:
                is_scraped = bool((await self._get(query))["data"]["result"])
                if is_scraped and "RelayDown" not in await self.firing():
                    return
                await asyncio.sleep(0.2)

    async def ready(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(OSError, ValueError):
                    await self._get("/api/v1/alerts")
                    return
                await asyncio.sleep(0.1)

    async def _get(self, path: str) -> dict[str, Any]:
        def get() -> bytes:
            address = f"http://127.0.0.1:{self._port}{path}"
            with urllib.request.urlopen(address, timeout=10) as answer:
                return bytes(answer.read())

        found: dict[str, Any] = json.loads(await asyncio.to_thread(get))
        return found


def _written(target: int, folder: Path) -> Path:
    """Write rules and configuration; return the path of the latter."""
    folder.mkdir()
    rule_file, configuration = folder / "rules.yml", folder / "prometheus.yml"
    rule_file.write_text(yaml.safe_dump(_rules()))
    configuration.write_text(yaml.safe_dump(_configuration(target, rule_file)))
    return configuration


@contextlib.asynccontextmanager
async def scraping(target: int, folder: Path) -> AsyncIterator[Prometheus]:
    """Start one that scrapes relay at this port."""
    assert PROMETHEUS is not None
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={_written(target, folder)}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        found = Prometheus(port)
        await found.ready()
        yield found
    finally:
        process.kill()
        await process.wait()
