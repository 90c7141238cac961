"""Values: what is refused, and what the README says about them."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
from chart.generate import README, documented, with_table
from chart.rendering import CHART, ROOT, Rendered, chart, schema_nodes

#: Objects of Kubernetes' own, which the API server checks, and Helm's own.
_OPEN = {"/definitions/kubernetes", "/properties/global"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicaCout": 2}, "'replicaCout' not allowed"),
        ({"image": {"tags": "1"}}, "'tags' not allowed"),
        ({"image": {"tag": 1.1}}, "/image/tag"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"config": ""}, "/config"),
        ({"config": {"route": {}}}, "/config"),
        ({"exactlyOnce": {"shards": 0}}, "/exactlyOnce/shards"),
        ({"http": {"port": 80}}, "/http/port"),
        ({"livenessProbe": {"httpGet": {}}}, "'httpGet' not allowed"),
        ({"securityContext": {"privilege": True}}, "'privilege' not allowed"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "/podDisruptionBudget/maxUnavailable"),
        ({"podDisruptionBudget": {"minAvailable": 1}}, "'minAvailable' not allowed"),
        # A secret is never a value.
        ({"secrets": {"env": [{"name": "P", "value": "x"}]}}, "'value' not allowed"),
        # These folders are taken.
        ({"secrets": {"files": [{"secretName": "s", "mountPath": "/etc/relay/tls"}]}}, "/secrets/files/0/mountPath"),
        ({"secrets": {"files": [{"secretName": "s", "mountPath": "/tmp"}]}}, "/secrets/files/0/mountPath"),  # noqa: S108
        ({"serviceMonitor": {"interval": "often"}}, "/serviceMonitor/interval"),
    ],
)
def test_the_schema_refuses_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=message):
        Rendered(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"config": " \n"}, "relay needs a configuration: give `config`"),
        ({"config": '[delivery]\nmode = "exactly-once"\n'}, "set exactlyOnce.enabled=true"),
        ({"config": "[delivery]\ndrain_timeout_seconds = 31\n"}, "set terminationGracePeriodSeconds to 46 or more"),
        ({"terminationGracePeriodSeconds": 30}, "set terminationGracePeriodSeconds to 35 or more"),
        ({"exactlyOnce": {"enabled": True}, "replicaCount": 2}, "set exactlyOnce.shards"),
    ],
)
def test_what_no_schema_sees_is_refused_with_advice(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm.HelmRenderError) as refused:
        Rendered(values)
    assert message in str(refused.value)


def test_what_is_commented_out_does_not_count() -> None:
    text = '[delivery]\n# mode = "exactly-once"\n# drain_timeout_seconds = 600\ndrain_timeout_seconds = 30\n'
    assert Rendered({"config": text}).workload["kind"] == "Deployment"


def test_the_schema_knows_every_object_it_allows() -> None:
    found = list(schema_nodes(chart().schema))
    assert len(found) > 20
    # Labels and the like have any names, but texts for values.
    named = [(path, node) for path, node in found if not isinstance(node.get("additionalProperties"), dict)]
    assert {path for path, node in named if node.get("additionalProperties") is not False} == _OPEN


def _paths(schema: dict[str, Any], prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for name, inner in schema.get("properties", {}).items():
        found |= {(*prefix, name)} | _paths(inner, (*prefix, name))
    return found


def test_every_value_is_documented() -> None:
    """A documented value covers what lies below it, and a group is covered by what lies in it."""
    schema = chart().schema
    assert schema is not None
    paths = {value.path for value in documented()}
    uncovered = {
        path
        for path in _paths(schema) - {("global",)}
        if not any(path[: len(each)] == each or each[: len(path)] == path for each in paths)
    }
    assert uncovered == set()
    assert paths <= _paths(schema)


def test_the_table_of_the_readme_is_that_of_the_values() -> None:
    page = README.read_text(encoding="utf-8")
    assert page == with_table(page), "run `python -m chart.generate` in the folder `tests`"


def test_the_values_in_the_documentation_are_valid() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [sorted(Rendered(helm.values_from_yaml(block)).objects) for block in blocks] == [sorted(Rendered({}).objects)]


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (CHART / link).exists()] == []


def test_the_package_holds_what_is_needed(tmp_path: Path) -> None:
    with tarfile.open(helm.package(CHART, destination=tmp_path)) as archive:
        names = {name.removeprefix("relay/") for name in archive.getnames()}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md", "files/alerts.yaml", "files/ready.py"} <= names
    assert not [name for name in names if name.startswith("ci/")]
