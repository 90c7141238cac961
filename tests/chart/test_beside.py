"""What stands in a release beside relay: other containers, scalers, jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
from chart.rendering import CHART, NAME, Object, Rendered, example, examples, values_of

from spark_backfill.command import argument_parser

SPREAD = '[route]\nfrom = "ticdc-open-protocol"\nto = "ticdc-open-protocol"\n[target]\ntopic = "x"\npartitions = 6\n'


def pod_of(job: Object) -> Object:
    found: Object = job["spec"]["template"]["spec"]
    return found


# Pods.


def test_containers_stand_beside_relay_and_before_it() -> None:
    release, given = example("sidecars"), values_of(CHART / "ci/sidecars.yaml")
    assert [each["name"] for each in release.pod["containers"]] == ["relay", "tools"]
    assert release.pod["containers"][1:] == given["extraContainers"]
    assert release.container["lifecycle"] == given["lifecycle"]
    for key in ("initContainers", "dnsPolicy", "dnsConfig", "hostAliases"):
        assert release.pod[key] == given[key]
        if key != "initContainers":
            assert release.test_pod["spec"][key] == given[key]
    assert release.workload["metadata"]["annotations"] == given["annotations"]


@pytest.mark.parametrize("name", examples())
def test_common_labels_are_everywhere_but_in_selectors(name: str) -> None:
    release = Rendered(values_of(CHART / "ci" / f"{name}.yaml") | {"commonLabels": {"of": "all"}})
    for each in release.all:
        assert each["metadata"]["labels"]["of"] == "all"
        if "template" in each.get("spec", {}):
            assert each["spec"]["template"]["metadata"]["labels"]["of"] == "all"
    assert "of" not in release.workload["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"commonLabels": {"helm.sh/chart": "x"}}, "commonLabels: the chart itself sets helm.sh/chart"),
        (
            {"commonLabels": {"team": "a"}, "podLabels": {"team": "b"}},
            "podLabels: the chart itself sets team",
        ),
        ({"autoscaling": {"enabled": True}, "keda": {"enabled": True}}, "enable one of them"),
        (
            {"autoscaling": {"enabled": True}, "exactlyOnce": {"enabled": True}},
            "autoscaling is for at-least-once",
        ),
        ({"autoscaling": {"enabled": True}, "config": SPREAD}, "autoscaling: `partitions` in"),
        ({"autoscaling": {"enabled": True, "minReplicas": 4}}, "minReplicas is more than maxReplicas"),
        ({"keda": {"enabled": True}}, "keda.triggers: is empty"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm.HelmRenderError, match=message):
        Rendered(values)


# Scalers.


@pytest.mark.parametrize("name", ["autoscaling", "keda"])
def test_a_scaler_sets_the_number_of_pods_alone(name: str) -> None:
    release = example(name)
    assert "replicas" not in release.workload["spec"]
    kind = {"autoscaling": "HorizontalPodAutoscaler", "keda": "ScaledObject"}[name]
    assert release.objects[kind]["spec"]["scaleTargetRef"]["name"] == release.workload["metadata"]["name"]


def test_the_autoscaler_uses_processor_time_by_default() -> None:
    spec = example("autoscaling").objects["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 6)
    assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    own = [{"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}}]
    values = {"autoscaling": {"enabled": True, "metrics": own}}
    assert Rendered(values).objects["HorizontalPodAutoscaler"]["spec"]["metrics"] == own


def test_keda_looks_at_the_lag() -> None:
    spec = example("keda").objects["ScaledObject"]["spec"]
    assert spec["triggers"] == values_of(CHART / "ci/keda.yaml")["keda"]["triggers"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 6)
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600


# Jobs.


def test_an_upgrade_is_checked_with_the_new_configuration() -> None:
    """The pods' own ConfigMap has the old one until the hook has ended."""
    release = example("upgrade-check")
    job, config = release.others["Job", "check"], release.others["ConfigMap", "check"]
    for each in (job, config):
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    assert int(config["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0
    assert config["data"]["relay.toml"] == release.toml
    assert pod_of(job)["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 90)
    (container,) = pod_of(job)["containers"]
    assert container["image"] == release.container["image"]
    env = {each["name"]: each for each in container["env"]}
    assert env["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"]["name"] == "claim-checks"
    # A Job's pod has no number; any shard will do.
    assert env["RELAY_DELIVERY__SHARD"]["value"] == "0"
    own = Rendered({"existingConfigMap": "mine", "preUpgradeCheck": {"enabled": True}})
    assert pod_of(own.others["Job", "check"])["volumes"][0]["configMap"]["name"] == "mine"
    assert ("ConfigMap", "check") not in own.others


def test_the_check_is_a_command_of_relay(tmp_path: Path) -> None:
    """Without `--connect`, for which there is no broker here."""
    release = example("upgrade-check")
    (container,) = pod_of(release.others["Job", "check"])["containers"]
    assert container["args"] == ["check", "--config", "/etc/relay/relay.toml", "--connect"]
    (tmp_path / "relay.toml").write_text(release.toml)
    command = [sys.executable, "-m", "relay", "check", "--config", str(tmp_path / "relay.toml")]
    env = {each["name"]: each.get("value", "x") for each in container["env"]}
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "configuration is valid" in done.stdout


def test_a_backfill_has_relays_settings_and_more_storage() -> None:
    release = example("backfill")
    job = release.others["Job", "backfill"]
    assert job["metadata"]["name"] == f"{NAME}-backfill-2026-11"
    pod = pod_of(job)
    (container,) = pod["containers"]
    assert container["image"] == f"{release.container['image']}-spark"
    assert container["command"] == ["python", "-m", "spark_backfill"]
    given = argument_parser().parse_args(container["args"])
    assert str(given.config) == "/etc/relay/relay.toml"
    assert given.set == [
        "backfill.checkpoint=/data/checkpoint",
        'backfill.spark={"spark.driver.memory"="2g"}',
    ]
    # What Spark says belongs into the log of the pod.
    assert given.spark_log == "-"
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}} in pod["volumes"]
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]
    assert "data" not in {each["name"] for each in release.pod["volumes"]}
    assert pod["volumes"][0] == release.pod["volumes"][0]


def test_dashboards_are_where_grafana_looks() -> None:
    found = example("monitoring").others["ConfigMap", "dashboards"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "CDC"}
