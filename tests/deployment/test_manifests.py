"""Manifests of `deploy` without the chart: a sidecar, and the Spark job on one node and on many."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pyspark import __version__ as spark_version

from relay.config import load_config
from relay.config.keys import Delivery
from spark_backfill.command import argument_parser, check_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
#: A sidecar is part of Kubernetes' own since 1.29; the schema knows it since 1.28.
KUBERNETES = ("1.28", kubernetes_validate.latest_version())
FILES = ("kubernetes/sidecar.yaml", "spark/job.yaml", "spark/sparkapplication.yaml")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def manifests(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")) if each]


def of_kind(name: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in manifests(name) if each["kind"] == kind)
    return found


@pytest.fixture(scope="module", autouse=True)
def _schemas_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        read = functools.cache(kubernetes_validate.utils.schema_contents)
        patch.setattr(kubernetes_validate.utils, "schema_contents", read)
        yield


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", FILES[:2])
def test_kubernetes_takes_it(name: str, version: str) -> None:
    for each in manifests(name):
        kubernetes_validate.validate(each, version, strict=True)


def test_the_spark_operator_takes_it() -> None:
    """By the models that are made of its own definition: what they do not know would not come back."""
    # To import them takes seconds, which workers without this test need not spend.
    from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

    given = of_kind("spark/sparkapplication.yaml", "SparkApplication")
    model = SparkV1beta2SparkApplication.from_dict(given)
    assert model is not None
    assert model.to_dict() == given
    wrong = SparkV1beta2SparkApplication.from_dict(given | {"spec": given["spec"] | {"imag": "x"}})
    assert wrong is not None
    assert wrong.to_dict() == given


def test_images_are_those_of_the_project() -> None:
    for name in FILES:
        text = (DEPLOY / name).read_text(encoding="utf-8")
        assert set(re.findall(r"registry\.example\.com/relay:(\S+)", text)) <= {VERSION, f"{VERSION}-spark"}
    given = of_kind("spark/sparkapplication.yaml", "SparkApplication")["spec"]
    assert given["sparkVersion"] == spark_version
    folder = given["mainApplicationFile"].removeprefix("local://")
    stage = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"SPARK_HOME={Path(folder).parent.parent / 'pyspark'} " in stage


# The sidecar.


def test_the_sidecar_starts_first_and_has_time_to_drain(tmp_path: Path) -> None:
    pod = of_kind("kubernetes/sidecar.yaml", "Pod")["spec"]
    (relay,) = pod["initContainers"]
    assert relay["restartPolicy"] == "Always"
    assert pod["terminationGracePeriodSeconds"] >= Delivery().drain_timeout_seconds + 15
    (tmp_path / "relay.toml").write_text(
        of_kind("kubernetes/sidecar.yaml", "ConfigMap")["data"]["relay.toml"]
    )
    config = load_config(tmp_path / "relay.toml")
    assert config.http.port == relay["ports"][0]["containerPort"]
    # Probes come from outside of the pod's own addresses.
    assert config.http.host == "0.0.0.0"  # noqa: S104 - nothing is bound
    for container in (relay, *pod["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


# The Spark job.


def test_the_jobs_configuration_is_one_for_the_spark_job(tmp_path: Path) -> None:
    config_map = of_kind("spark/job.yaml", "ConfigMap")
    path = tmp_path / "relay.toml"
    path.write_text(config_map["data"]["relay.toml"])
    (container,) = of_kind("spark/job.yaml", "Job")["spec"]["template"]["spec"]["containers"]
    application = of_kind("spark/sparkapplication.yaml", "SparkApplication")["spec"]
    for arguments in (container["args"], application["arguments"]):
        given = argument_parser().parse_args(arguments)
        assert str(given.config) == "/etc/relay/relay.toml"
        config = load_config(path, given.set)
        check_config(config, continuous=given.continuous)
        assert config.backfill.checkpoint.startswith("/data/")
    for volumes in (
        of_kind("spark/job.yaml", "Job")["spec"]["template"]["spec"]["volumes"],
        application["volumes"],
    ):
        assert {"name": "config", "configMap": {"name": config_map["metadata"]["name"]}} in volumes


def test_driver_and_executors_have_the_same_mounts_and_no_rights() -> None:
    spec = of_kind("spark/sparkapplication.yaml", "SparkApplication")["spec"]
    for key in ("volumeMounts", "securityContext"):
        assert spec["driver"][key] == spec["executor"][key]
    assert spec["driver"]["securityContext"]["runAsUser"] == 10_001
