"""The chart rendered by Helm's own library, without a cluster."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
RELEASE, NAMESPACE = "orders", "cdc"
NAME = "orders-relay"
Object = dict[str, Any]
#: The chart's example, with brokers that may exist.
CONFIG = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"].replace(
    "change-me.invalid", "kafka"
)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Refuses a key that stands twice, which YAML forbids and PyYAML passes over."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice: {keys}"
        return super().construct_mapping(node, deep)


@functools.cache
def chart() -> helm.Chart:
    """The chart, read once."""
    return helm.Chart.load(CHART)


def values_of(path: Path) -> dict[str, Any]:
    """A file of values, as Helm reads it."""
    found: dict[str, Any] = helm.values_from_yaml(path.read_text(encoding="utf-8"))
    return found


class Rendered:
    """What a release consists of. `objects` by kind; the pod of `helm test` is `test_pod`; `others` is what
    stands beside relay itself, by kind and component.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        if "config" not in values and not values.get("existingConfigMap"):
            values = values | {"config": CONFIG}
        self.texts = chart().render(values, name=RELEASE, namespace=NAMESPACE)
        self.notes = self.texts.pop("relay/templates/NOTES.txt")
        found = [each for text in self.texts.values() for each in yaml.load_all(text, _Loader) if each]
        (self.test_pod,) = (each for each in found if each["kind"] == "Pod")
        self.all: list[Object] = found
        self.objects: dict[str, Object] = {}
        self.others: dict[tuple[str, str], Object] = {}
        for each in found:
            component = each["metadata"]["labels"]["app.kubernetes.io/component"]
            if component == "relay":
                self.objects[each["kind"]] = each
            else:
                self.others[each["kind"], component] = each
        assert len(self.objects) + len(self.others) == len(found)

    @property
    def workload(self) -> Object:
        """The Deployment or StatefulSet."""
        (found,) = (self.objects[kind] for kind in ("Deployment", "StatefulSet") if kind in self.objects)
        return found

    @property
    def pod(self) -> Object:
        """The specification of its pods."""
        spec: Object = self.workload["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Object:
        """The first container of its pods, which is relay's."""
        container: Object = self.pod["containers"][0]
        return container

    @property
    def env(self) -> dict[str, Object]:
        """The variables of the container by name, each without its name."""
        names = [each["name"] for each in self.container["env"]]
        assert len(names) == len(set(names))
        return {
            each["name"]: {key: value for key, value in each.items() if key != "name"}
            for each in self.container["env"]
        }

    @property
    def toml(self) -> str:
        """The configuration as the pods see it."""
        text: str = self.objects["ConfigMap"]["data"]["relay.toml"]
        return text

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the pods."""
        found: dict[str, str] = self.workload["spec"]["template"]["metadata"]["annotations"]
        return found


def templates_of(name: str, values: Sequence[dict[str, Any]]) -> list[str]:
    """The result of a template of `_config.tpl` for each of these values, in one rendering of a chart that has
    this file, the list of protocols and the cases.
    """
    usual = values_of(CHART / "values.yaml")
    of_one = f'include "{name}" (dict "Values" . "Files" $.Files) | quote'
    listed = "{{- range .Values.cases }}\n- {{ " + of_one + " }}\n{{- end }}\n"
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder)
        for part in ("Chart.yaml", "templates/_config.tpl", "files/protocols.yaml"):
            (alone / part).parent.mkdir(exist_ok=True)
            shutil.copy(CHART / part, alone / part)
        (alone / "templates/list.yaml").write_text(listed)
        cases = [usual | each for each in values]
        (text,) = helm.Chart.load(alone).render({"cases": cases}, name=RELEASE, namespace=NAMESPACE).values()
    found: list[str] = yaml.safe_load(text)
    return found


@functools.cache
def example(name: str) -> Rendered:
    """The release of a file in `ci`."""
    return Rendered(values_of(CHART / "ci" / f"{name}.yaml"))


def examples() -> list[str]:
    """The names of the files in `ci`."""
    return sorted(path.stem for path in (CHART / "ci").glob("*.yaml"))


def schema_nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside the schema of the values that describes an object, with its path."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for key, inner in node.items():
            yield from schema_nodes(inner, f"{path}/{key}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from schema_nodes(inner, f"{path}/{number}")
