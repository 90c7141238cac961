"""One fault, played and watched: how soon page, check, metric and alert show it, and whether any is wrong."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final

from faults.faults import Fault, Stage
from faults.page import Headlines
from faults.prometheus import FOR_SECONDS, INTERVAL_SECONDS, Prometheus
from faults.site import Brokers, Feeder, RelayProcess

#: How soon page, checks and metrics must show a fault after its first evidence.
PROMISED_SECONDS: Final = 5.0
#: How long an alert may take beside its own `for`: two evaluations.
ALERT_SECONDS: Final = 2 * INTERVAL_SECONDS
_SAMPLE_SECONDS: Final = 0.2
FAULT_SECONDS: Final = 16.0
_HEAL_SECONDS: Final = 60.0
_CHECK_OK = re.compile(r'^relay_check_ok\{check="([a-z-]+)"\} 0\.0$', re.MULTILINE)


@dataclass
class Sample:
    """What relay showed at a moment."""

    at: float
    status: dict[str, Any]
    level: str
    headline: str
    failing: set[str]
    metrics: set[str]
    alerts: set[str]

    @property
    def says_all_is_read(self) -> bool:
        """Whether it claims that nothing waits."""
        lag = self.status["lag"]
        return bool(lag["is_exact"]) and lag["records"] == 0


@dataclass
class Outcome:
    """Seconds from the first evidence; None if it was not shown. `wrong`: what was shown and is not so."""

    page: float | None = None
    check: float | None = None
    metric: float | None = None
    alert: float | None = None
    ok_again: float | None = None
    check_name: str = ""
    headline: str = ""
    alerts: list[str] = field(default_factory=list)
    promised: tuple[str, ...] = ("page", "check", "metric")
    wrong: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What is not as promised."""
        found = list(self.wrong)
        for name in self.promised:
            seconds = getattr(self, name)
            if seconds is None or seconds > PROMISED_SECONDS:
                found.append(f"{name}: {seconds} s after the first evidence")
        if self.alert is not None and self.alert > ALERT_SECONDS:
            found.append(f"alert: {self.alert} s after its `for`")
        return found


class Watcher:
    """Samples a relay until it is cancelled."""

    def __init__(self, relay: RelayProcess, headlines: Headlines, prometheus: Prometheus | None) -> None:
        self._relay, self._headlines, self._prometheus = relay, headlines, prometheus
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Sample."""
        while True:
            if (found := await self._sample()) is not None:
                self.samples.append(found)
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def until_ok(self, seconds: float) -> None:
        """Wait until no check fails, but not for ever."""
        deadline = time.monotonic() + seconds
        while self.samples[-1].failing and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def _sample(self) -> Sample | None:
        status, ready, metrics = await asyncio.gather(
            self._relay.status(), self._relay.get("/readyz"), self._relay.get("/metrics")
        )
        if not status or not ready:
            return None
        level, headline = await self._headlines.of(status)
        checks = json.loads(ready)["checks"]
        failing = {name for name, line in checks.items() if line.startswith("failing")}
        alerts = await self._prometheus.firing() if self._prometheus is not None else set()
        metric_names = set(_CHECK_OK.findall(metrics))
        return Sample(time.monotonic(), status, level, headline, failing, metric_names, alerts)


async def play(
    fault: Fault,
    brokers: Brokers,
    relay: RelayProcess,
    headlines: Headlines,
    prometheus: Prometheus | None = None,
    *,
    seconds: float = FAULT_SECONDS,
) -> Outcome:
    """Play a fault on a relay that is about to start."""
    feeder = Feeder(brokers, relay.source)
    feeder.batch, feeder.ddl_every, feeder.poison_every = fault.load, fault.ddl_every, fault.poison_every
    stage = Stage(brokers, relay, feeder)
    watcher = Watcher(relay, headlines, prometheus)
    relay.start()
    tasks = [asyncio.create_task(feeder.run()), asyncio.create_task(watcher.run())]
    try:
        await relay.until_written(20)
        if prometheus is not None:
            await prometheus.scraped()
        await asyncio.sleep(1.0)
        if fault.tables:
            await feeder.remember(relay.history, fault.tables)
        if fault.idle:
            tasks[0].cancel()
            await asyncio.sleep(2.0)
        begun = time.monotonic()
        evidence = await fault.inflict(stage)
        await asyncio.sleep(max(0.0, evidence - time.monotonic()) + seconds)
        healed = time.monotonic()
        if fault.heal is not None:
            await fault.heal(stage)
            await watcher.until_ok(_HEAL_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.to_thread(relay.stop)
    outcome = judged(fault, watcher.samples, begun, evidence, healed)
    if prometheus is not None and seconds >= FAULT_SECONDS:
        outcome.wrong += [f"{name} does not fire" for name in fault.alerts if name not in outcome.alerts]
    return outcome


def judged(fault: Fault, samples: list[Sample], begun: float, evidence: float, healed: float) -> Outcome:
    """Say what the samples show."""
    outcome, wanted = Outcome(), set(fault.checks)
    during = [each for each in samples if begun <= each.at <= healed]
    before = {name for each in samples if each.at < begun for name in each.alerts} - set(fault.alerts)
    after = [each for each in samples if each.at > healed]

    def first(shows: Any) -> float | None:
        found = next((each for each in during if shows(each)), None)
        return None if found is None else round(max(0.0, found.at - evidence), 1)

    if fault.tables:
        outcome.headline = next(
            (each.headline.partition(" for ")[0] for each in during if each.at >= evidence), ""
        )
    failing = next((each for each in during if wanted & each.failing), None)
    if failing is not None:
        outcome.check_name = " ".join(sorted(wanted & failing.failing))
        outcome.headline = next(
            (each.headline for each in during if each.at >= failing.at and each.level != "good"), ""
        )
    outcome.page = first(
        lambda each: each.level != "good" and (each.status["degraded"] or each.status["state"] == "starting")
    )
    outcome.check = first(lambda each: wanted & each.failing)
    outcome.metric = first(lambda each: wanted & each.metrics)
    outcome.alert = _alert(fault, during)
    fired = {name.partition("/")[0] for each in during for name in each.alerts}
    outcome.alerts = sorted(fired - {name.partition("/")[0] for name in before})
    ok = next((each for each in after if not each.failing), None)
    outcome.ok_again = None if ok is None else round(ok.at - healed, 1)
    outcome.promised = ("page",) if fault.tables else outcome.promised
    outcome.wrong = _wrong(fault, during, evidence)
    if fault.heal is not None and ok is None:
        outcome.wrong.append("the check is not ok again")
    return outcome


def _alert(fault: Fault, during: list[Sample]) -> float | None:
    """Return how much longer than its `for` an alert about one of the checks took since that check failed."""
    delays = []
    for name in fault.checks:
        failed = next((each.at for each in during if name in each.metrics), None)
        alerted = next((each.at for each in during if f"RelayCheckFailing/{name}" in each.alerts), None)
        if failed is not None and alerted is not None:
            delays.append(round(max(0.0, alerted - failed - FOR_SECONDS), 1))
    return min(delays, default=None)


def _wrong(fault: Fault, during: list[Sample], evidence: float) -> list[str]:
    """Say what was shown and was not so, once the fault had to be known."""
    starting = [
        each for each in during if each.status["state"] == "starting" and "processes" not in each.status
    ]
    found = [
        f"a lag while it starts: {each.status['lag']['records']}, {each.level}, {each.headline}"
        for each in starting
        if each.status["lag"]["records"] is not None or each.status["lag"]["is_exact"] or each.level == "good"
    ][:1]
    if fault.tables:
        return found if starting else ["it starts at once"]
    if fault.cures_itself:
        return ["not cured"] if during[-1].failing else []
    late = [each for each in during if each.at > evidence + PROMISED_SECONDS]
    if any(not each.status["degraded"] for each in late):
        found.append("not degraded")
    if any(each.level == "good" for each in late):
        found.append("page: all is well")
    reads = set(fault.checks) & {"source", "source-topics", "offline-partitions"}
    if reads and any(each.says_all_is_read for each in late):
        found.append("lag: 0, exact")
    return found
