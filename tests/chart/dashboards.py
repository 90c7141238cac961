"""The dashboards of the chart, written for Grafana 10 and later: what each panel asks, and where it stands.

Each has the variables `datasource`, `job` and `instance`. Only queries are kept apart from the rest: tests
ask a real Prometheus every one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

#: What selects the series of a release's instances.
WHERE = 'job="$job", instance=~"$instance"'
_COLUMNS, _HEIGHT = 24, 8
LOSS, NO_LOSS = ', class="loss"', ', class!="loss"'


class Query(NamedTuple):
    """An expression, and the text of a series in the legend."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A panel. `width` of 24; `kind` is one of Grafana's."""

    title: str
    text: str
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 12
    kind: str = "timeseries"


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{WHERE}{more}}}[$__rate_interval]))"


def _stage(quantile: str) -> str:
    buckets = f"relay_stage_duration_seconds_bucket{{{WHERE}}}[$__rate_interval]"
    return f"histogram_quantile({quantile}, sum by (stage, le) (rate({buckets})))"


def _increase(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (increase({metric}{{{WHERE}{more}}}[$__range]))"


OPERATION = [
    Panel(
        "Instances",
        "Instances that Prometheus reaches.",
        [Query('sum(up{job="$job"})', "reached"), Query('count(up{job="$job"})', "known")],
        width=4,
        kind="stat",
    ),
    Panel(
        "Failing checks",
        "Checks of /readyz that fail. While the source is down, lag is unknown and counters do not change.",
        [Query(f"count(relay_check_ok{{{WHERE}}} == 0) or vector(0)", "failing")],
        width=4,
        kind="stat",
    ),
    Panel(
        "Waiting records",
        "Last known lag: while the source is down, new records are not included.",
        [Query(f"sum(relay_consumer_lag_records{{{WHERE}}})", "records")],
        width=4,
        kind="stat",
    ),
    Panel(
        "Age of the newest record read",
        "Now minus its Kafka timestamp; it also grows while nobody writes.",
        [Query(f"time() - max(relay_last_record_timestamp_seconds{{{WHERE}}} > 0)", "age")],
        "s",
        4,
        "stat",
    ),
    Panel(
        "Since the last commit",
        "The longest of all instances; it also grows while there is nothing to commit.",
        [Query(f"time() - min(relay_last_commit_timestamp_seconds{{{WHERE}}} > 0)", "longest")],
        "s",
        4,
        "stat",
    ),
    Panel(
        "Versions and routes",
        "More than one during an upgrade.",
        [
            Query(
                f"count by (version, source, target) (relay_build_info{{{WHERE}}})",
                "{{version}}: {{source}} to {{target}}",
            )
        ],
        width=4,
        kind="stat",
    ),
    Panel(
        "Records",
        "Read from source topics, and acknowledged by target topics.",
        [
            Query(_rate("relay_records_consumed_total", "topic"), "read {{topic}}"),
            Query(_rate("relay_records_produced_total", "topic"), "written {{topic}}"),
        ],
        "cps",
    ),
    Panel(
        "Bytes",
        "Keys and values of the same records.",
        [
            Query(_rate("relay_consumed_bytes_total", "topic"), "read {{topic}}"),
            Query(_rate("relay_produced_bytes_total", "topic"), "written {{topic}}"),
        ],
        "Bps",
    ),
    Panel(
        "Waiting records by topic",
        "Lag of the partitions of these instances.",
        [Query(f"sum by (topic) (relay_consumer_lag_records{{{WHERE}}})", "{{topic}}")],
    ),
    Panel(
        "Records in flight",
        "Read and not acknowledged by the target.",
        [Query(f"sum by (instance) (relay_in_flight_records{{{WHERE}}})", "{{instance}}")],
    ),
    Panel(
        "Without an acknowledgement",
        "Seconds since the last acknowledgement of the target, while records are in flight.",
        [Query(f"max by (instance) (relay_in_flight_age_seconds{{{WHERE}}})", "{{instance}}")],
        "s",
    ),
    Panel(
        "Partitions without a leader, and with unknown lag",
        "Nothing is read or written where there is no leader.",
        [
            Query(
                f"max by (side, topic) (relay_offline_partitions{{{WHERE}}})",
                "offline {{side}} {{topic}}",
            ),
            Query(f"sum by (topic) (relay_unknown_lag_partitions{{{WHERE}}})", "unknown {{topic}}"),
        ],
    ),
    Panel(
        "Behind the database",
        "Age of the newest row read by the time of its commit, and of the last watermark; the oldest of all partitions.",
        [
            Query(f"time() - min(relay_partition_last_row_timestamp_seconds{{{WHERE}}})", "row"),
            Query(f"time() - min(relay_partition_last_watermark_timestamp_seconds{{{WHERE}}})", "watermark"),
        ],
        "s",
    ),
    Panel(
        "Partitions by instance",
        "An instance with none is idle.",
        [Query(f"sum by (instance) (relay_assigned_partitions{{{WHERE}}})", "{{instance}}")],
    ),
    Panel(
        "Time of a round in each stage",
        "Translate is decoding and encoding; produce ends with the acknowledgement.",
        [Query(_stage("0.5"), "{{stage}} median"), Query(_stage("0.99"), "{{stage}} 99 %")],
        "s",
    ),
    Panel(
        "Records of a round",
        "Rounds grow when relay is behind.",
        [
            Query(
                f"sum(rate(relay_batch_records_sum{{{WHERE}}}[$__rate_interval])) / "
                f"sum(rate(relay_batch_records_count{{{WHERE}}}[$__rate_interval]))",
                "mean",
            )
        ],
    ),
    Panel(
        "Checks of /readyz",
        "1 is ok, 0 is failing.",
        [Query(f"min by (check) (relay_check_ok{{{WHERE}}})", "{{check}}")],
    ),
    Panel(
        "Errors",
        "By stage and code, including errors that relay recovers from.",
        [Query(f"{_rate('relay_errors_total', 'stage, code')} > 0", "{{stage}} {{code}}")],
        "cps",
    ),
    Panel(
        "Processor time",
        "Cores in use, by instance.",
        [Query(_rate("process_cpu_seconds_total", "instance"), "{{instance}}")],
    ),
    Panel(
        "Memory",
        "Resident, by instance.",
        [Query(f"sum by (instance) (process_resident_memory_bytes{{{WHERE}}})", "{{instance}}")],
        "bytes",
    ),
    Panel(
        "Starts",
        "Restarts of an instance in the last 30 minutes.",
        [Query(f"sum by (instance) (changes(process_start_time_seconds{{{WHERE}}}[30m]))", "{{instance}}")],
    ),
    Panel(
        "Waiting for the rate limit",
        "Share of the time; near 100 %, the limit is what holds the instance back. Empty without a limit.",
        [Query(_rate("relay_rate_limit_wait_seconds_total", "instance"), "{{instance}}")],
        "percentunit",
    ),
]

DATA_QUALITY = [
    Panel(
        "Dead letters",
        "Records written to the dead-letter topic in this range.",
        [Query(f"sum(increase(relay_dead_letters_total{{{WHERE}}}[$__range])) or vector(0)", "records")],
        width=6,
        kind="stat",
    ),
    Panel(
        "Skipped",
        "Records left out by the policy skip in this range.",
        [Query(f"sum(increase(relay_skipped_records_total{{{WHERE}}}[$__range])) or vector(0)", "records")],
        width=6,
        kind="stat",
    ),
    Panel(
        "Losses",
        "Values and messages of this range that lost data, except facts that the target's format has no field for.",
        [
            Query(
                f'sum(increase(relay_conversion_losses_total{{{WHERE}, class="loss"}}[$__range]))',
                "parts",
            )
        ],
        width=6,
        kind="stat",
    ),
    Panel(
        "Known table definitions",
        "Maximum over all instances.",
        [Query(f"max(relay_schema_versions{{{WHERE}}})", "definitions")],
        width=6,
        kind="stat",
    ),
    Panel(
        "Rows",
        "Translated rows by operation.",
        [Query(_rate("relay_events_total", "op", ', kind="row-change"'), "{{op}}")],
        "cps",
    ),
    Panel(
        "Other events",
        "DDL, watermarks, marks of transactions, heartbeats.",
        [Query(_rate("relay_events_total", "kind", ', kind!="row-change"'), "{{kind}}")],
        "cps",
    ),
    Panel(
        "Dead letters by code",
        "The code identifies what is wrong with the records.",
        [Query(f"{_rate('relay_dead_letters_total', 'code')} > 0", "{{code}}")],
        "cps",
    ),
    Panel(
        "Skipped by code",
        "The code identifies what is wrong with the records.",
        [Query(f"{_rate('relay_skipped_records_total', 'code')} > 0", "{{code}}")],
        "cps",
    ),
    Panel(
        "Losses by kind",
        "docs/protocols.md explains each kind.",
        [
            Query(
                f"{_increase('relay_conversion_losses_total', 'loss', LOSS)} > 0",
                "{{loss}}",
            )
        ],
        kind="bargauge",
    ),
    Panel(
        "Notes and inferred values by kind",
        "Values that relay inferred, events that the configuration filters, and facts that the target's format has no field for.",
        [
            Query(
                f"{_increase('relay_conversion_losses_total', 'class, loss', NO_LOSS)} > 0",
                "{{loss}}",
            )
        ],
        kind="bargauge",
    ),
    Panel(
        "Records that are not messages of the source's protocol",
        "By code, whatever the policy.",
        [
            Query(
                f"{_rate('relay_errors_total', 'code', ', code=~{}'.format(json.dumps('decode.*')))} > 0",
                "{{code}}",
            )
        ],
        "cps",
    ),
    Panel(
        "Written for each record read",
        "A change means another mix of events, or that records are left out.",
        [
            Query(
                f"sum(rate(relay_records_produced_total{{{WHERE}}}[$__rate_interval])) / "
                f"sum(rate(relay_records_consumed_total{{{WHERE}}}[$__rate_interval]))",
                "records",
            )
        ],
    ),
]

#: By the names of their files, with their titles.
DASHBOARDS = {
    "operation": ("relay: operation", OPERATION),
    "data-quality": ("relay: data quality", DATA_QUALITY),
}


def dashboard(name: str) -> str:
    """The file of a dashboard."""
    title, panels = DASHBOARDS[name]
    model = {
        "title": title,
        "uid": f"relay-{name}",
        "tags": ["relay", "cdc"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_placed(panels)),
    }
    return json.dumps(model, indent=1) + "\n"


def _variables() -> list[dict[str, Any]]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    instances = 'label_values(up{job="$job"}, instance)'
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "job",
            "type": "query",
            "datasource": source,
            "query": {"query": "label_values(relay_build_info, job)", "refId": "job"},
            "refresh": 2,
            "current": {"text": "relay", "value": "relay"},
        },
        {
            "name": "instance",
            "type": "query",
            "datasource": source,
            "query": {"query": instances, "refId": "instance"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        yield _panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": _HEIGHT})
        x += panel.width


def _panel(number: int, panel: Panel, grid_position: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "gridPos": grid_position,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": source,
                "expr": query.expr,
                "legendFormat": query.legend,
            }
            | ({"instant": True} if panel.kind != "timeseries" else {})
            for at, query in enumerate(panel.queries)
        ],
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    text_mode = "name" if "{{" in panel.queries[0].legend and panel.kind == "stat" else "auto"
    shown: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "stat":
        shown |= {"colorMode": "none", "textMode": text_mode}
    if panel.kind == "bargauge":
        shown |= {"orientation": "horizontal", "displayMode": "basic"}
    return shown


def asked(model: dict[str, Any], job: str) -> Iterator[tuple[str, str]]:
    """The title and the expression of every query of a dashboard, as Grafana asks for all instances."""
    values = {"job": job, "instance": ".*", "__rate_interval": "5s", "__range": "1m"}
    for panel in model["panels"]:
        for target in panel["targets"]:
            yield panel["title"], re.sub(r"\$(\w+)", lambda found: values[found[1]], target["expr"])
