"""The alerts: understood by Prometheus, about metrics that relay has, and each with a section of what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
import yaml
from chart.rendering import CHART, NAME, NAMESPACE, ROOT, Rendered, example
from status_support import Clock, running_status

from relay.io.metrics import CLASS_LOSS
from relay.service.observe.metrics import registry_of

ALERTS = CHART / "files/alerts.yaml"
PAGE = ROOT / "docs/kubernetes.md"
_METRIC = re.compile(r"\b(?:relay|process)_[a-z_]+")
_LABEL_USED = re.compile(r"\$labels\.([a-z]+)")
_TARGET_LABELS = {"job", "instance", "pod", "namespace"}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool comes with Debian's package prometheus"
)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_understands_them(tmp_path: Path) -> None:
    promtool("check", "rules", ALERTS)
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(example("monitoring").objects["PrometheusRule"]["spec"]), encoding="utf-8")
    promtool("check", "rules", path)


@needs_promtool
def test_they_fire_when_they_should() -> None:
    promtool("test", "rules", ROOT / "tests/chart/alerts_test.yaml")


def test_no_alert_fires_without_lost_rows() -> None:
    """Notes, and what each row of a route lacks because of its formats, would fire for ever."""
    (rule,) = [each for each in rules() if each["alert"] == "RelayConversionLosses"]
    assert f'class="{CLASS_LOSS}"' in rule["expr"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_is_about_metrics_of_relay(rule: dict[str, Any]) -> None:
    samples = {
        sample.name: set(sample.labels)
        for family in registry_of(running_status(Clock())).collect()
        for sample in family.samples
    }
    used = set(_METRIC.findall(rule["expr"]))
    assert used <= set(samples)
    assert used or "up{" in rule["expr"]
    labels = set.union(_TARGET_LABELS, *(samples[name] for name in used))
    assert set(_LABEL_USED.findall(str(rule["annotations"]))) <= labels


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_says_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    page, anchor = rule["annotations"]["runbook_url"].split("#")
    assert ROOT / page == PAGE
    assert anchor == rule["alert"].lower()
    assert f"### {rule['alert']}\n" in PAGE.read_text(encoding="utf-8")


def test_a_release_watches_itself() -> None:
    groups = example("monitoring").objects["PrometheusRule"]["spec"]["groups"]
    selectors = [found for rule in groups[0]["rules"] for found in re.findall(r"\{([^}]*)\}", rule["expr"])]
    assert len(selectors) == 17
    assert {
        selector for selector in selectors if not selector.startswith(f'namespace="{NAMESPACE}",job="{NAME}"')
    } == set()
    # Prometheus Operator names the job after the service.
    assert example("monitoring").objects["Service"]["metadata"]["name"] == NAME
    assert {rule["alert"] for rule in groups[0]["rules"]} == {rule["alert"] for rule in rules()} - {
        "RelayConversionLosses"
    }
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in groups[0]["rules"]} == {
        "https://wiki.example.com/relay/kubernetes"
    }


def alerts_of(alerts: dict[str, Any]) -> dict[str, Any]:
    spec = Rendered({"prometheusRule": {"enabled": True, "alerts": alerts}}).objects["PrometheusRule"]["spec"]
    return {rule["alert"]: rule for rule in spec["groups"][0]["rules"]}


def test_without_changes_they_are_those_of_the_file() -> None:
    selector = f'namespace="{NAMESPACE}",job="{NAME}"'
    wanted = {rule["alert"]: rule for rule in rules()}
    for rule in wanted.values():
        rule["expr"] = rule["expr"].replace('job="relay"', selector).replace(" # threshold", "").strip()
    assert alerts_of({}) == wanted


def test_single_alerts_are_changed() -> None:
    before, after = (
        alerts_of({}),
        example("monitoring").objects["PrometheusRule"]["spec"]["groups"][0]["rules"],
    )
    (late,) = (rule for rule in after if rule["alert"] == "RelayRecordsLate")
    assert late["expr"] == before["RelayRecordsLate"]["expr"].replace("> 900", "> 3600")
    assert late["for"] == "30m"
    assert late["labels"] == {"severity": "critical", "team": "data"}
    assert late["annotations"]["summary"] == before["RelayRecordsLate"]["annotations"]["summary"]
    assert "0.25\n" in alerts_of({"RelayRecordsLate": {"threshold": 0.25}})["RelayRecordsLate"]["expr"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_can_be_turned_off(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert set(alerts_of({})) - set(alerts_of({name: {"enabled": False}})) == {name}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_threshold_is_a_whole_number_of_the_expression(rule: dict[str, Any]) -> None:
    """Or the alert has none, and one that is given is refused."""
    name, change = rule["alert"], {rule["alert"]: {"threshold": 123456789}}
    if "# threshold" not in rule["expr"]:
        with pytest.raises(helm.HelmRenderError, match=f"{name} has no threshold"):
            alerts_of(change)
        return
    before, after = alerts_of({})[name]["expr"], alerts_of(change)[name]["expr"]
    (number,) = re.findall(r"> ([0-9]+) # threshold", rule["expr"])
    assert before.count(f"> {number}") == 1
    assert after == before.replace(f"> {number}", "> 123456789")


def test_an_alert_that_is_not_there_is_refused() -> None:
    with pytest.raises(helm.HelmRenderError, match="unknown alert RelayLate"):
        alerts_of({"RelayLate": {"enabled": False}})
    with pytest.raises(
        helm.HelmRenderError, match=r"alerts\.RelayDown\.labels: the chart itself sets severity"
    ):
        alerts_of({"RelayDown": {"labels": {"severity": "page"}}})
