"""An upgrade of a running release: Helm's `lookup` asks an API server, of which this is just enough."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import helm_python as helm
import pytest
from chart.rendering import CHART, CONFIG, NAME, NAMESPACE, RELEASE

LookupCache = dict[str, dict[str, Any]]
KINDS = {
    "v1": ("ConfigMap", "Service", "ServiceAccount", "Pod"),
    "apps/v1": ("StatefulSet", "Deployment"),
    "policy/v1": ("PodDisruptionBudget",),
}
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


def discovery() -> LookupCache:
    """What an API server says about itself."""
    groups = [
        {"name": name.removesuffix("/v1"), "versions": [{"groupVersion": name, "version": "v1"}]}
        for name in KINDS
        if "/" in name
    ]
    answers: LookupCache = {
        "/version": {"major": "1", "minor": "30", "gitVersion": "v1.30.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for group, kinds in KINDS.items():
        resources = [
            {"name": f"{kind.lower()}s", "namespaced": True, "kind": kind, "verbs": ["get"]} for kind in kinds
        ]
        path = f"/apis/{group}" if "/" in group else f"/api/{group}"
        answers[path] = {"kind": "APIResourceList", "groupVersion": group, "resources": resources}
    return answers


def running(kind: str, replicas: int, processes: int = 1) -> LookupCache:
    env = [{"name": "RELAY_DELIVERY__PROCESSES", "value": str(processes)}] if processes > 1 else []
    pod = {"spec": {"containers": [{"name": "relay", "env": [{"name": "X", "value": "y"}, *env]}]}}
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s/{NAME}"
    found = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": NAME, "namespace": NAMESPACE}}
    return {path: found | {"spec": {"replicas": replicas, "template": pod}}}


@contextmanager
def api_server(answers: LookupCache) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = json.dumps(found or NOT_FOUND).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def refusal(values: dict[str, Any], beside: LookupCache) -> str:
    """What Helm says; once the chart has rendered, it asks for the types of all objects, which this server
    does not have.
    """
    values = {"config": CONFIG} | values
    with api_server(discovery() | beside) as address:
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        }
        with (
            helm.Config(
                kubeconfig_content=json.dumps(kubeconfig), namespace=NAMESPACE, storage_driver="memory"
            ) as cluster,
            pytest.raises(helm.HelmReleaseError) as refused,
        ):
            cluster.install(CHART, RELEASE, values, dry_run="server", namespace=NAMESPACE)
    return str(refused.value)


EXACTLY_ONCE = {"exactlyOnce": {"enabled": True, "shards": 3}}


@pytest.mark.parametrize(
    ("values", "beside", "advice"),
    [
        (
            EXACTLY_ONCE,
            running("StatefulSet", 2),
            f"2 shards .* first `kubectl scale statefulset {NAME} --replicas=0`",
        ),
        (
            EXACTLY_ONCE,
            running("Deployment", 1),
            f"1 pods .* first `kubectl scale deployment {NAME} --replicas=0`",
        ),
        (
            EXACTLY_ONCE | {"processes": 2},
            running("StatefulSet", 3),
            "3 shards of 1 processes .* first `kubectl scale statefulset",
        ),
        (EXACTLY_ONCE, running("StatefulSet", 3, processes=2), "3 shards of 2 processes"),
        ({}, running("StatefulSet", 2), f"2 shards .* first `kubectl scale statefulset {NAME} --replicas=0`"),
    ],
)
def test_partitions_are_not_read_twice(values: dict[str, Any], beside: LookupCache, advice: str) -> None:
    assert re.search(advice, refusal(values, beside))


@pytest.mark.parametrize(
    ("values", "beside"),
    [
        (EXACTLY_ONCE, {}),
        (EXACTLY_ONCE, running("StatefulSet", 3)),
        (EXACTLY_ONCE, running("StatefulSet", 0)),
        (EXACTLY_ONCE | {"processes": 2}, running("StatefulSet", 3, processes=2)),
        ({"exactlyOnce": {"enabled": True}, "processes": 2}, running("StatefulSet", 1)),
        ({"processes": 2}, running("Deployment", 3)),
        (EXACTLY_ONCE, running("Deployment", 0)),
        ({}, running("Deployment", 4)),
        ({}, running("StatefulSet", 0)),
    ],
)
def test_nothing_is_in_the_way_otherwise(values: dict[str, Any], beside: LookupCache) -> None:
    assert "failed to download openapi" in refusal(values, beside)
