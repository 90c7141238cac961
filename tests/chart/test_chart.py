"""What the chart renders is valid for Kubernetes, hardened, and hands the configuration on unchanged."""

from __future__ import annotations

import functools
import json
import tomllib
from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
from chart.rendering import CHART, NAMESPACE, RELEASE, ROOT, Rendered, chart, example, examples, values_of

from relay.config import DeliveryMode, load_config
from relay.config.keys import Delivery

#: The oldest release of Kubernetes that Chart.yaml allows, and the newest that is known here.
KUBERNETES = ("1.28", kubernetes_validate.latest_version())
CUSTOM = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
USER = 10_001
MARGIN_SECONDS = 15


@functools.cache
def default() -> Rendered:
    return Rendered({})


@pytest.fixture(scope="module", autouse=True)
def _schemas_are_read_once() -> Any:
    """The validator reads all definitions of Kubernetes for every object, which takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            kubernetes_validate.utils,
            "schema_contents",
            functools.cache(kubernetes_validate.utils.schema_contents),
        )
        yield


@functools.cache
def validate(text: str, version: str) -> None:
    kubernetes_validate.validate(json.loads(text), version, strict=True)


@pytest.mark.parametrize("name", examples())
def test_helm_finds_no_mistake(name: str) -> None:
    report = helm.lint(CHART, values_of(CHART / "ci" / f"{name}.yaml"), strict=True, namespace=NAMESPACE)
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", examples())
def test_kubernetes_takes_it(name: str, version: str) -> None:
    for each in example(name).all:
        if each["kind"] not in CUSTOM:
            validate(json.dumps(each), version)


def test_the_validator_sees_mistakes() -> None:
    wrong = default().workload | {"spec": default().workload["spec"] | {"replicaz": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
        validate(json.dumps(wrong), KUBERNETES[0])


@pytest.mark.parametrize("name", examples())
def test_objects_belong_to_the_release(name: str) -> None:
    release = example(name)
    selector = release.workload["spec"]["selector"]["matchLabels"]
    assert selector.items() <= release.workload["spec"]["template"]["metadata"]["labels"].items()
    # The service and the budget must not take the pod of `helm test` for one of relay's.
    assert not selector.items() <= release.test_pod["metadata"]["labels"].items()
    for each in release.all:
        assert each["metadata"]["namespace"] == NAMESPACE
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE
        assert len(each["metadata"]["name"]) < 63
    for kind, path in {"Service": ("selector",), "PodDisruptionBudget": ("selector", "matchLabels")}.items():
        if kind in release.objects:
            assert (
                functools.reduce(lambda found, key: found[key], path, release.objects[kind]["spec"])
                == selector
            )


@pytest.mark.parametrize("name", examples())
def test_pods_are_hardened(name: str) -> None:
    release = example(name)
    jobs = [each["spec"]["template"]["spec"] for each in release.all if each["kind"] == "Job"]
    for pod in (release.pod, release.test_pod["spec"], *jobs):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        container = pod["containers"][0]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        # A service called relay would give the pods variables that begin with RELAY_.
        assert pod["enableServiceLinks"] is False


def test_the_user_is_that_of_the_image() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    context = default().pod["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in text
    assert context["fsGroup"] == context["runAsGroup"] == USER
    assert f"CMD {json.dumps(default().container['args'])}\n" in text
    assert "command" not in default().container


def test_openshift_chooses_the_user() -> None:
    assert set(example("openshift").pod["securityContext"]) == {"runAsNonRoot", "seccompProfile"}
    assert example("openshift").pod["serviceAccountName"] == "relay"
    assert not {"ServiceAccount", "PodDisruptionBudget"} & set(example("openshift").objects)


def test_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart().metadata["appVersion"] == project["version"]
    assert default().container["image"] == f"relay:{project['version']}"


def test_a_digest_wins_over_a_tag() -> None:
    values = {"image": {"repository": "r/relay", "tag": "1", "digest": "sha256:" + "ab" * 32}}
    assert Rendered(values).container["image"] == f"r/relay@sha256:{'ab' * 32}"
    values["image"]["digest"] = ""
    assert Rendered(values).container["image"] == "r/relay:1"
    assert (
        example("placement").test_pod["spec"]["containers"][0]["image"]
        == example("placement").container["image"]
    )


def test_probes_ask_relay() -> None:
    container = default().container
    (port,) = container["ports"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        "startup": {"path": "/livez", "port": port["name"]},
        "liveness": {"path": "/livez", "port": port["name"]},
        "readiness": {"path": "/readyz", "port": port["name"]},
    }
    # The service is headless, so the port that is asked is the container's own.
    assert default().objects["Service"]["spec"]["clusterIP"] == "None"
    assert default().objects["Service"]["spec"]["ports"][0]["port"] == port["containerPort"] == 8080


# The configuration.


@pytest.mark.parametrize(
    "text",
    [
        "a = 10000000\nb = 0.10\nc = 1_000\nd = 1e3\n",
        "no = 'line end'",
        "\n\n  leading = 1\n\ttab = 2 \r\ntrailing = 3   \n\n\n",
        'template = "{{ .Values.x }} ${HOME} $(HOME)"\n# {{- fail "no" }}\n',
        "quotes = \"\\\"\\\\\" \nother = '''a'b'''\n# <html> & 'é', '中文', '😀', '\u00a0', '\u2028'\n",
        "text = '''\n---\n# a document\n...\n- x: [1, 2]\n: *a &b !c |\n'''\n",
    ],
)
def test_the_configuration_is_handed_on_byte_for_byte(text: str) -> None:
    assert Rendered({"config": text}).toml == text


@pytest.mark.parametrize("name", ["", *(name for name in examples() if name != "existing-config-map")])
def test_examples_are_valid_for_relay(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables of the pod: what Kubernetes takes from elsewhere is put in their place here."""
    release = example(name) if name else default()
    for variable, given in release.env.items():
        monkeypatch.setenv(variable, given.get("value", "0"))
    path = tmp_path / "relay.toml"
    path.write_text(release.toml, encoding="utf-8")
    config = load_config(path)
    assert (config.http.host, config.http.port) == ("0.0.0.0", release.container["ports"][0]["containerPort"])  # noqa: S104 - nothing is bound
    is_exact = release.workload["kind"] == "StatefulSet"
    assert config.delivery.mode is (DeliveryMode.EXACTLY_ONCE if is_exact else DeliveryMode.AT_LEAST_ONCE)
    assert (
        release.pod["terminationGracePeriodSeconds"] >= config.delivery.drain_timeout_seconds + MARGIN_SECONDS
    )


def test_a_change_of_the_configuration_rolls_the_pods() -> None:
    template, same = (Rendered({"config": "a = 1\n"}).workload["spec"]["template"] for _ in range(2))
    other = Rendered({"config": "a = 2\n"}).workload["spec"]["template"]
    assert template == same
    checksums = {each["metadata"]["annotations"].pop("checksum/config") for each in (template, other)}
    assert len(checksums) == 2
    assert template == other


def test_the_configuration_is_a_folder() -> None:
    """A file that is mounted by `subPath` does not follow the ConfigMap."""
    (volume,) = (each for each in default().pod["volumes"] if each["name"] == "config")
    (mount,) = (each for each in default().container["volumeMounts"] if each["name"] == "config")
    assert volume["configMap"] == {"name": default().objects["ConfigMap"]["metadata"]["name"]}
    assert mount == {"name": "config", "mountPath": "/etc/relay", "readOnly": True}
    assert default().container["args"] == ["run", "--config", "/etc/relay/relay.toml"]


def test_the_configuration_may_come_from_elsewhere() -> None:
    release = example("existing-config-map")
    assert "ConfigMap" not in release.objects
    assert release.pod["volumes"][0]["configMap"]["name"] == "relay-orders"
    assert "checksum/config" not in release.annotations
    assert "rollout restart deployment/orders-relay" in release.notes
    # The chart's own example is no obstacle.
    assert "ConfigMap" not in Rendered({"existingConfigMap": "mine"}).objects


def test_the_example_brokers_are_refused() -> None:
    """Names below .invalid never exist (RFC 2606)."""
    example_config = values_of(CHART / "values.yaml")["config"]
    assert tomllib.loads(example_config)["source"]["bootstrap_servers"] == "change-me.invalid:9092"
    with pytest.raises(helm.HelmRenderError, match="is the chart's example, whose brokers do not exist"):
        Rendered({"config": example_config})
    Rendered({"config": example_config, "existingConfigMap": "mine"})


def test_only_tmp_can_be_written() -> None:
    assert [each for each in default().container["volumeMounts"] if not each.get("readOnly")] == [
        {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - the container's own
    ]
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}} in default().pod["volumes"]


# Secrets.


def test_secrets_are_references() -> None:
    release = example("secrets")
    assert release.env["RELAY_TARGET__SECURITY__PASSWORD"] == {
        "valueFrom": {"secretKeyRef": {"name": "kafka-target-user", "key": "password"}}
    }
    assert "Secret" not in release.objects
    secrets = [each["secret"] for each in release.pod["volumes"] if "secret" in each]
    # The group of the pod may read them, nobody else.
    assert secrets == [
        {
            "secretName": "kafka-source-user",
            "defaultMode": 0o440,
            "items": [{"key": "scram-password", "path": "password"}],
        },
        {"secretName": "kafka-source-ca", "defaultMode": 0o440},
    ]


def test_kerberos_has_its_keytab_and_its_configuration() -> None:
    release = example("kerberos")
    mounts = {each["mountPath"]: each for each in release.container["volumeMounts"]}
    security = tomllib.loads(release.toml)["source"]["security"]
    assert str(Path(security["keytab_file"]).parent) in mounts
    # A file, so that the rest of /etc stays.
    expected = {"name": "krb5", "mountPath": "/etc/krb5.conf", "subPath": "krb5.conf", "readOnly": True}
    assert mounts["/etc/krb5.conf"] == expected
    assert {"name": "krb5", "configMap": {"name": "krb5"}} in release.pod["volumes"]
    (check,) = (each for (kind, _), each in release.others.items() if kind == "Job")
    checked = check["spec"]["template"]["spec"]
    assert expected in checked["containers"][0]["volumeMounts"]
    assert {"name": "krb5", "configMap": {"name": "krb5"}} in checked["volumes"]
    assert "/etc/krb5.conf" not in {each["mountPath"] for each in default().container["volumeMounts"]}


def test_traces_go_to_the_collector_under_the_name_of_the_release() -> None:
    release = example("tracing")
    assert release.env["RELAY_TRACING__ENABLED"] == {"value": "true"}
    assert release.env["OTEL_SERVICE_NAME"] == {"value": release.workload["metadata"]["name"]}
    assert release.env["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"].startswith("http://")
    assert "valueFrom" in release.env["OTEL_EXPORTER_OTLP_HEADERS"]
    assert not {name for name in default().env if "TRACING" in name or name.startswith("OTEL_")}


def test_a_service_account_has_the_role_that_logs_in() -> None:
    release = example("msk")
    account = release.objects["ServiceAccount"]
    assert account["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/relay"
    }
    assert release.pod["serviceAccountName"] == account["metadata"]["name"]


def test_files_of_secrets_are_where_the_configuration_says() -> None:
    release = example("secrets")
    folders = [
        each["mountPath"] for each in release.container["volumeMounts"] if each["name"].startswith("secret-")
    ]
    security = tomllib.loads(release.toml)["source"]["security"]
    assert [str(Path(security[key]).parent) for key in ("password_file", "ca_file")] == folders
    assert all(
        each["readOnly"] for each in release.container["volumeMounts"] if each["name"].startswith("secret-")
    )


# Workloads.


def test_at_least_once_is_a_deployment() -> None:
    assert "StatefulSet" not in default().objects
    assert default().workload["spec"]["replicas"] == 1
    assert default().workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert example("placement").workload["spec"]["replicas"] == 3
    assert example("single-instance").workload["spec"]["strategy"] == {"type": "Recreate"}
    assert not {name for name in default().env if name.startswith("RELAY_DELIVERY__")}


def test_a_pod_may_have_several_processes() -> None:
    assert example("processes").env["RELAY_DELIVERY__PROCESSES"] == {"value": "2"}


def test_a_scaler_may_decide_the_number_of_pods() -> None:
    assert "replicas" not in example("more").workload["spec"]


def test_exactly_once_is_a_stateful_set_of_shards() -> None:
    release = example("exactly-once")
    spec = release.objects["StatefulSet"]["spec"]
    assert "Deployment" not in release.objects
    assert (spec["replicas"], spec["podManagementPolicy"]) == (3, "Parallel")
    assert spec["serviceName"] == release.objects["Service"]["metadata"]["name"]
    assert release.env["RELAY_DELIVERY__MODE"] == {"value": "exactly-once"}
    assert release.env["RELAY_DELIVERY__SHARDS"] == {"value": "3"}
    # Kubernetes sets this label to the number of the pod since 1.28.
    number = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    assert release.env["RELAY_DELIVERY__SHARD"] == {"valueFrom": number}
    assert chart().metadata["kubeVersion"] == f">={KUBERNETES[0]}.0-0"


def test_the_grace_period_covers_the_drain() -> None:
    grace = default().pod["terminationGracePeriodSeconds"]
    assert grace >= Delivery().drain_timeout_seconds + MARGIN_SECONDS
    assert example("long-drain").pod["terminationGracePeriodSeconds"] == 75


def test_a_drained_node_takes_one_pod_at_a_time() -> None:
    spec = default().objects["PodDisruptionBudget"]["spec"]
    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec
    assert example("placement").objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == "34%"


def test_pods_are_scheduled_as_configured() -> None:
    release = example("placement")
    given = values_of(CHART / "ci/placement.yaml")
    for key in ("nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName"):
        assert release.pod[key] == given[key]
    assert release.workload["spec"]["template"]["metadata"]["labels"]["team"] == "data"
    assert release.annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert (
        example("exactly-once").pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    )


def test_pods_get_more_variables_and_volumes() -> None:
    release = example("more")
    assert release.env["RELAY_SOURCE__GROUP_ID"] == {"value": "relay-blue"}
    assert release.env["AWS_REGION"] == {"valueFrom": {"configMapKeyRef": {"name": "cloud", "key": "region"}}}
    assert release.pod["volumes"][-1] == {
        "name": "claim-checks",
        "persistentVolumeClaim": {"claimName": "claim-checks"},
    }
    assert release.container["volumeMounts"][-1] == {"name": "claim-checks", "mountPath": "/claim-checks"}


# What is off by default.


def test_nothing_more_is_made_unless_it_is_asked_for() -> None:
    assert set(default().objects) == {
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }


def test_prometheus_annotations_point_to_the_metrics() -> None:
    release = example("monitoring")
    monitor, service = release.objects["ServiceMonitor"], release.objects["Service"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    given = values_of(CHART / "ci/monitoring.yaml")["serviceMonitor"]
    assert endpoint == {
        "port": service["spec"]["ports"][0]["name"],
        "path": "/metrics",
        "interval": "15s",
        "scrapeTimeout": "10s",
        **{key: given[key] for key in ("relabelings", "metricRelabelings")},
    }


def test_a_network_policy_leaves_only_the_metrics() -> None:
    spec = example("network-policy").objects["NetworkPolicy"]["spec"]
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]
    monitoring, own = rule["from"]
    assert monitoring == values_of(CHART / "ci/network-policy.yaml")["networkPolicy"]["ingressFrom"][0]
    assert (
        own["podSelector"]["matchLabels"].items()
        <= example("network-policy").test_pod["metadata"]["labels"].items()
    )
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert {each["port"] for each in spec["egress"][0]["ports"]} == {53}

    open_to_all = Rendered({"networkPolicy": {"enabled": True}}).objects["NetworkPolicy"]["spec"]
    assert open_to_all["policyTypes"] == ["Ingress"]
    assert "from" not in open_to_all["ingress"][0]
