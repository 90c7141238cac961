"""Values: what is refused, and what the README says about them."""

from __future__ import annotations

import itertools
import re
import tarfile
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
import yaml
from chart.generate import PROTOCOLS, README, documented, protocols, with_table
from chart.rendering import CHART, ROOT, Rendered, chart, schema_nodes, templates_of
from support import WRITABLE

from relay.cli.formats import options_of
from relay.codecs import BUILT_IN
from relay.config import load_config
from relay.core.translator import Translator

#: AsyncResolver of Kubernetes' own, which the API server checks, and Helm's own.
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
        ({"processes": 0}, "/processes"),
        ({"http": {"port": 80}}, "/http/port"),
        ({"livenessProbe": {"httpGet": {}}}, "'httpGet' not allowed"),
        ({"securityContext": {"privilege": True}}, "'privilege' not allowed"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "/podDisruptionBudget/maxUnavailable"),
        ({"podDisruptionBudget": {"minAvailable": 1}}, "'minAvailable' not allowed"),
        # A secret is never a value.
        ({"secrets": {"env": [{"name": "P", "value": "x"}]}}, "'value' not allowed"),
        # These folders are taken.
        (
            {"secrets": {"files": [{"secretName": "s", "mountPath": "/etc/relay/tls"}]}},
            "/secrets/files/0/mountPath",
        ),
        ({"secrets": {"files": [{"secretName": "s", "mountPath": "/tmp"}]}}, "/secrets/files/0/mountPath"),  # noqa: S108 - nothing is written
        ({"serviceMonitor": {"interval": "often"}}, "/serviceMonitor/interval"),
        ({"strategy": {"type": "OnDelete"}}, "/strategy/type"),
        ({"strategy": {"maxSurge": 1}}, "'maxSurge' not allowed"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "one"}}}, "/strategy/rollingUpdate/maxSurge"),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, "/strategy"),
    ],
)
def test_the_schema_refuses_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=message):
        Rendered(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"config": " \n"}, "relay needs a configuration: set `config`"),
        ({"config": '[delivery]\nmode = "exactly-once"\n'}, "set exactlyOnce.enabled=true"),
        (
            {"config": "[delivery]\ndrain_timeout_seconds = 31\n"},
            "set terminationGracePeriodSeconds to 46 or more",
        ),
        ({"terminationGracePeriodSeconds": 30}, "set terminationGracePeriodSeconds to 35 or more"),
        ({"exactlyOnce": {"enabled": True}, "replicaCount": 2}, "set exactlyOnce.shards"),
        (
            {"exactlyOnce": {"enabled": True}, "strategy": {"type": "Recreate"}},
            "strategy is for at-least-once",
        ),
        (
            {"config": "[delivery]\ndrain_timeout_seconds = 1e3\n"},
            "set terminationGracePeriodSeconds to 1015 or more",
        ),
        (
            {"config": "[delivery]\ndrain_timeout_seconds = +3.05E+01\n"},
            "set terminationGracePeriodSeconds to 46 or more",
        ),
        (
            {"config": "delivery = {drain_timeout_seconds=1_000, shard=0}\n"},
            "set terminationGracePeriodSeconds to 1015 or more",
        ),
        (
            {"config": "[delivery]\ndrain_timeout_seconds = inf\n"},
            "cannot read drain_timeout_seconds = inf: write it as a decimal number",
        ),
        (
            {"config": "[delivery]\ndrain_timeout_seconds = 0x14\n"},
            "cannot read drain_timeout_seconds = 0x14",
        ),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__MODE", "value": "exactly-once"}]},
            "RELAY_DELIVERY__MODE: set exactlyOnce.enabled",
        ),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__MODE"}], "existingConfigMap": "mine"},
            "RELAY_DELIVERY__MODE: set exactlyOnce.enabled",
        ),
        (
            {"extraEnv": [{"name": "relay_delivery__mode", "value": "exactly-once"}]},
            "relay_delivery__mode: set exactlyOnce.enabled",
        ),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__SHARDS", "value": "3"}]},
            "RELAY_DELIVERY__SHARDS: set exactlyOnce.shards",
        ),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__SHARD", "value": "0"}]},
            "RELAY_DELIVERY__SHARD: set exactlyOnce.shards",
        ),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__DRAIN_TIMEOUT_SECONDS", "value": "1"}]},
            "RELAY_DELIVERY__DRAIN_TIMEOUT_SECONDS: set drain_timeout_seconds in the configuration",
        ),
        ({"extraEnv": [{"name": "RELAY_HTTP__PORT", "value": "1"}]}, "RELAY_HTTP__PORT: set http.port"),
        (
            {"extraEnv": [{"name": "RELAY_DELIVERY__PROCESSES", "value": "2"}]},
            "RELAY_DELIVERY__PROCESSES: set processes",
        ),
        (
            {
                "tracing": {"enabled": True},
                "extraEnv": [{"name": "RELAY_TRACING__ENABLED", "value": "false"}],
            },
            "RELAY_TRACING__ENABLED: set tracing.enabled",
        ),
        ({"config": "[delivery]\nprocesses = 2\n"}, "set the value processes instead of that key"),
        (
            {"secrets": {"env": [{"name": "RELAY_DELIVERY__MODE", "secretName": "s", "key": "k"}]}},
            "RELAY_DELIVERY__MODE: set exactlyOnce.enabled",
        ),
        # Kubernetes and Helm would take one of both, and not say which.
        (
            {"podLabels": {"app.kubernetes.io/name": "x"}},
            "podLabels: the chart itself sets app.kubernetes.io/name",
        ),
        (
            {"podLabels": {"app.kubernetes.io/instance": "x"}},
            "podLabels: the chart itself sets app.kubernetes.io/instance",
        ),
        (
            {"podAnnotations": {"checksum/config": "x"}},
            "podAnnotations: the chart itself sets checksum/config",
        ),
        (
            {"podAnnotations": {"kubectl.kubernetes.io/default-container": "x"}},
            "podAnnotations: the chart itself sets kubectl.kubernetes.io/default-container",
        ),
        (
            {"serviceMonitor": {"enabled": True, "labels": {"helm.sh/chart": "x"}}},
            "serviceMonitor.labels: the chart itself sets helm.sh/chart",
        ),
        (
            {"prometheusRule": {"enabled": True, "labels": {"app.kubernetes.io/managed-by": "x"}}},
            "prometheusRule.labels: the chart itself sets app.kubernetes.io/managed-by",
        ),
    ],
)
def test_what_no_schema_sees_is_refused_with_advice(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm.HelmRenderError) as refused:
        Rendered(values)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[route\nfrom = 1", "`config` is not TOML: toml: line "),
        ('[route]\nfrom = "canal-json"\nfrom = "canal-json"\n', "`config` is not TOML: toml: line 3"),
        ("password_file", "`config` is not TOML"),
        ('[route]\nfrom = "cannal-json"\n', 'from in [route] of `config` is "cannal-json", which is not one'),
        ('route = {from = "canal-json", to = "x"}\n', 'to in [route] of `config` is "x", which is not one'),
        ('[route]\nfrom = "flat-json"\n', 'from in [route] of `config` is "flat-json", which is not one'),
    ],
)
def test_what_relay_would_not_start_with_is_refused(config: str, message: str) -> None:
    with pytest.raises(helm.HelmRenderError) as refused:
        Rendered({"config": config})
    assert message in str(refused.value)


def test_packages_may_bring_other_protocols() -> None:
    Rendered({"config": '[route]\nfrom = "toy-json"\n', "otherProtocols": True})


def test_what_is_commented_out_does_not_count() -> None:
    text = '[delivery]\n# mode = "exactly-once"\n# drain_timeout_seconds = 600\ndrain_timeout_seconds = 30\n'
    assert Rendered({"config": text}).workload["kind"] == "Deployment"


def test_the_checksum_of_a_config_map_of_ones_own_is_welcome() -> None:
    """The chart does not see its changes, and sets no checksum."""
    release = Rendered({"existingConfigMap": "mine", "podAnnotations": {"checksum/config": "1"}})
    assert release.annotations["checksum/config"] == "1"


# Watermarks need an instance that sees all of the source, if rows are repartitioned.

SPREAD = """
[route]
from = "{source}"
to = "{target}"
[target]
topic = "x"
{keys}
"""


def spread(
    source: str = "ticdc-open-protocol", target: str = "ticdc-open-protocol", keys: str = "partitions = 6"
) -> dict[str, Any]:
    return {"config": SPREAD.format(source=source, target=target, keys=keys)}


def strategy(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = Rendered(values).workload["spec"]["strategy"]
    return found


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
EXTENSION = "partitions = 6\n[route.to_options]\nenable-tidb-extension = true"


@pytest.mark.parametrize(
    "values",
    [
        spread(),
        spread(keys="partitions=1_0"),
        spread(keys='partitions = 6\nwatermarks = "keep"'),
        spread(keys='partitions = 6\n# watermarks = "drop"'),
        spread("ticdc-canal-json", "ticdc-debezium", EXTENSION),
        spread(keys="") | {"extraEnv": [{"name": "RELAY_TARGET__PARTITIONS", "value": "6"}]},
        spread() | {"replicaCount": None},
        spread() | {"replicaCount": 0},
        spread() | {"strategy": {"type": "Recreate"}},
        {
            "config": 'route = {from="ticdc-open-protocol", to="ticdc-open-protocol"}\ntarget = {topic="x", partitions=6}\n'
        },
    ],
)
def test_a_single_instance_is_gone_before_the_next_one_comes(values: dict[str, Any]) -> None:
    assert strategy(values) == {"type": "Recreate"}
    assert "This configuration needs a single pod" in Rendered(values).notes


@pytest.mark.parametrize(
    "values",
    [
        {},
        spread(keys=""),
        spread(keys="# partitions = 6"),
        spread(keys="partitions = 0"),
        spread(keys='partitions = 6\nwatermarks = "drop"'),
        spread(keys='partitions = 6\ncreate_settings = {"x.partitions" = 3}\nwatermarks = "drop"'),
        spread(keys='partitions = 6\n[route.to_options]\nwatermarks = "drop"'),
        {
            "config": 'route = {from="ticdc-open-protocol", to="ticdc-open-protocol", to_options={watermarks="drop"}}\n'
            'target = {topic="x", partitions=6}\n'
        },
        spread() | {"extraEnv": [{"name": "RELAY_TARGET__WATERMARKS", "value": "drop"}]},
        spread() | {"extraEnv": [{"name": "RELAY_TARGET__PARTITIONS", "value": "0"}]},
        spread() | {"existingConfigMap": "mine"},
        # These routes have no watermarks.
        spread("canal-json"),
        spread(target="canal-json"),
        spread("ckafka-json"),
        spread("ticdc-canal-json", "ticdc-debezium"),
    ],
)
def test_others_are_replaced_one_by_one(values: dict[str, Any]) -> None:
    assert strategy(values | {"replicaCount": 3}) == ROLLING
    assert "This configuration needs a single pod" not in Rendered(values).notes


def test_the_strategy_may_be_given() -> None:
    assert strategy({"strategy": {"type": "Recreate"}}) == {"type": "Recreate"}
    assert strategy({"strategy": {"type": "RollingUpdate"}}) == ROLLING
    assert strategy({"strategy": {"rollingUpdate": {"maxSurge": "25%"}}}) == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%"},
    }
    assert strategy({"strategy": None}) == ROLLING
    assert "strategy" not in Rendered({"exactlyOnce": {"enabled": True}}).workload["spec"]


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({"replicaCount": 2}, "set replicaCount=1"),
        ({"strategy": {"type": "RollingUpdate"}}, "leave strategy out, or set strategy.type=Recreate"),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
            "leave strategy out, or set strategy.type=Recreate",
        ),
        ({"exactlyOnce": {"enabled": True, "shards": 2}}, "set exactlyOnce.shards=1"),
        ({"processes": 2}, "set processes=1"),
    ],
)
def test_a_second_instance_without_all_partitions_is_refused(values: dict[str, Any], advice: str) -> None:
    """It would end itself and the first one: service.watermarks-unknowable."""
    with pytest.raises(helm.HelmRenderError) as refused:
        Rendered(spread() | values)
    assert advice in str(refused.value)
    assert 'watermarks = "drop"' in str(refused.value)
    assert Rendered(spread() | {"exactlyOnce": {"enabled": True}}).workload["kind"] == "StatefulSet"


def routes_with_options() -> list[tuple[str, str, bool]]:
    """Every route, without and with an option that the target may not have, so it is not asked then."""
    readable = [name for name, codec in BUILT_IN.items() if codec.is_readable]
    return [
        (source, target, extension)
        for source, target, extension in itertools.product(readable, sorted(WRITABLE), (False, True))
        if not extension or "enable-tidb-extension" in {each.name for each in options_of(BUILT_IN[target])}
    ]


def test_the_chart_knows_which_routes_have_watermarks() -> None:
    """As relay itself does. The release's own strategy is that of the same template."""
    found, needs_all = {}, {}
    for route in routes_with_options():
        source, target, extension = route
        options = {"enable-tidb-extension": "true"} if extension else {}
        translator = Translator(source, target, None, options, topic="x", partitions=6)
        needs_all[route] = translator.needs_all_partitions
        found[route] = spread(source, target, EXTENSION if extension else "partitions = 6")
    strategies = dict(zip(found, templates_of("relay.strategy", list(found.values())), strict=True))
    assert {
        route: yaml.safe_load(text)["type"] == "Recreate" for route, text in strategies.items()
    } == needs_all
    for alone in (True, False):
        route = next(route for route, needs in needs_all.items() if needs is alone)
        assert yaml.safe_load(strategies[route]) == strategy(found[route])


NO_HISTORY = '[schema]\nhistory_topic = ""\n'
WAITS = [
    ("", {}),
    ("[schema]\nwait_for_ddl = true\n", {}),
    ('[schema]\nwait_for_ddl = "auto"\nhistory_topic = "history"', {}),
    ("[schema]\nwait_for_ddl = false\n", {}),
    ("[schema]\nwait_for_ddl = 'false'\n", {}),
    (NO_HISTORY, {}),
    ("[schema]\nhistory_topic = ''\n", {}),
    ('schema = { history_topic = "", wait_for_ddl = "auto" }', {}),
    (NO_HISTORY, {"RELAY_SCHEMA__HISTORY_TOPIC": "history"}),
    ("", {"RELAY_SCHEMA__HISTORY_TOPIC": ""}),
    ("", {"RELAY_SCHEMA__WAIT_FOR_DDL": "false"}),
    ("[schema]\nwait_for_ddl = false\n", {"RELAY_SCHEMA__WAIT_FOR_DDL": "true"}),
]


def waiting(source: str, keys: str, more: dict[str, str]) -> dict[str, Any]:
    config = (
        f'route = {{ from = "{source}", to = "canal-json" }}\n'
        'source = { bootstrap_servers = "k:9092", topics = ["orders"], group_id = "g" }\n'
        f'target = {{ topic = "x" }}\n{keys}'
    )
    return {"config": config, "extraEnv": [{"name": name, "value": value} for name, value in more.items()]}


def test_the_chart_knows_whether_rows_wait_for_their_ddl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As relay itself does, of every source that needs no registry and every way to say so."""
    sources = [name for name, codec in BUILT_IN.items() if codec.is_readable and not codec.uses_registry]
    cases = list(itertools.product(sources, WAITS))
    values = [waiting(source, *way) for source, way in cases]
    for (source, (_, more)), given, said in zip(
        cases, values, templates_of("relay.waits", values), strict=True
    ):
        (tmp_path / "relay.toml").write_text(given["config"])
        with monkeypatch.context() as patch:
            for name, value in more.items():
                patch.setenv(name, value)
            waits = load_config(tmp_path / "relay.toml").waits_for_ddl
        may_overtake = BUILT_IN[source].decodes.ddl and not BUILT_IN[source].ddl_everywhere
        assert said == ("yes" if waits else "no" if may_overtake else ""), given


@pytest.mark.parametrize("said", ["yes", "no", ""])
def test_the_notes_say_what_rows_do_before_their_ddl(said: str) -> None:
    source = "canal-json" if said else "ticdc-open-protocol"
    values = waiting(source, "" if said == "yes" else "[schema]\nwait_for_ddl = false\n", {})
    assert templates_of("relay.waits", [values]) == [said]
    notes = Rendered(values).notes
    assert ("wait until relay has read the partition with their DDL" in notes) == (said == "yes")
    assert ("Rows that overtake their DDL are translated with inferred types" in notes) == (said == "no")


def test_the_notes_say_who_knows_what_is_in_a_config_map_of_ones_own() -> None:
    assert "to see whether rows wait for their DDL" in Rendered({"existingConfigMap": "mine"}).notes
    assert "to see whether rows wait for their DDL" not in Rendered({}).notes


def test_the_list_of_protocols_is_what_relay_says() -> None:
    text = PROTOCOLS.read_text(encoding="utf-8")
    assert text == protocols(), "run `python -m chart.generate` in the folder `tests`"


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
    blocks = re.findall(
        r"^```yaml\n(.*?)^```",
        (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    made = [set(Rendered(helm.values_from_yaml(block)).objects) for block in blocks]
    usual = set(Rendered({}).objects)
    assert made == [usual, usual | {"PrometheusRule"}]


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (CHART / link).exists()] == []


def test_the_package_holds_what_is_needed(tmp_path: Path) -> None:
    with tarfile.open(helm.package(CHART, destination=tmp_path)) as archive:
        names = {name.removeprefix("relay/") for name in archive.getnames()}
    assert {
        "Chart.yaml",
        "values.yaml",
        "values.schema.json",
        "README.md",
        "files/alerts.yaml",
        "files/ready.py",
    } <= names
    assert not [name for name in names if name.startswith("ci/")]


VALID = '[route]\nfrom = "canal-json"\nto = "ticdc-canal-json"\n'
KEYS = (
    *("password", "key_password", "client_secret", "PASSWORD", '"password"', "'client_secret'"),
    *("source.security.password", "secret-access-key", '"spark.hadoop.fs.s3a.secret.key"', "account_key"),
    *("some.table.nobody.knows.secret", "registry_password"),
)


@pytest.mark.parametrize(
    "config",
    [
        *(f'{key} = "HIDDEN"' for key in KEYS),
        "[source.security]\npassword='HIDDEN'",
        "[source]\nsecurity = {username = 'u', password = 'HIDDEN'}",
        'password = """\nHIDDEN"""',
        "password = '''HIDDEN'''",
        "password   =\t48151623",
        "# password = 'HIDDEN'",
        '[a.b.c]\nd = {e = [{"f" = {client_secret = "HIDDEN"}}]}',
        'to_options = {claim-check-storage-uri = "s3://b/p?access-key=K&secret-access-key=HIDDEN"}',
        'to_options = {claim-check-storage-uri = "s3://b/p?region=x&session-token=HIDDEN"}',
        'to_options = {claim-check-storage-uri = "s3://K:HID/DEN@b"}',
        'bootstrap_servers = "SASL_SSL://u:HIDDEN@kafka:9092"',
        'bootstrap_servers = "u:HID,DEN@kafka:9092"',
        'token_endpoint = "https://u:HIDDEN@idp/token"',
        'token_endpoint = "https://idp/token?client_secret=HIDDEN"',
        '"kafka.sasl.jaas.config" = \'PlainLoginModule required username="u" password="HIDDEN";\'',
    ],
)
def test_a_secret_in_the_config_map_is_refused_and_not_repeated(config: str) -> None:
    for values in ({"config": config}, {"config": VALID + config}):
        with pytest.raises(helm.HelmRenderError) as refused:
            Rendered(values)
        assert "take it from a Secret" in str(refused.value)
        assert not any(secret in str(refused.value) for secret in ("HIDDEN", "HID", "DEN", "48151623"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RELAY_SOURCE__SECURITY__PASSWORD", "HIDDEN"),
        ("RELAY_TARGET__SECURITY__CLIENT_SECRET", "HIDDEN"),
        ("AWS_SECRET_ACCESS_KEY", "HIDDEN"),
        ("AWS_SESSION_TOKEN", "HIDDEN"),
        ("RELAY_ROUTE__TO_OPTIONS__CLAIM_CHECK_STORAGE_URI", "s3://b/p?secret-access-key=HIDDEN"),
        ("HTTPS_PROXY", "http://u:HIDDEN@proxy:3128"),
    ],
)
def test_a_secret_in_a_variable_is_refused_and_not_repeated(name: str, value: str) -> None:
    with pytest.raises(helm.HelmRenderError) as refused:
        Rendered({"config": VALID, "extraEnv": [{"name": name, "value": value}]})
    assert f"extraEnv: {name} contains a secret" in str(refused.value)
    assert "HIDDEN" not in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        (ROOT / "config.example.toml").read_text(encoding="utf-8"),
        VALID + '[source.security]\npassword_file = "/run/secrets/password"\nkey_password = ""\n',
        VALID + 'token_endpoint = "https://idp:8443/token"\nclient_secret_file = "/run/secrets/s"\n',
        VALID + 'to_options = {claim-check-storage-uri = "abfs://box@account.dfs.core.windows.net/x"}\n',
        VALID + 'bootstrap_servers = "[::1]:9092,kafka:9092"\n',
    ],
)
def test_what_is_no_secret_is_welcome(config: str) -> None:
    assert Rendered({"config": config}).objects["ConfigMap"]["data"]["relay.toml"] == config
