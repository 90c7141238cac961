"""The status as the JSON of /livez, /readyz and /status: plain dictionaries of texts and numbers.

Times are ISO 8601 in UTC, durations are seconds, and unknown values are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from relay.codecs.losses import INFORMATIONAL, Loss
from relay.io.kafka.ports import Partition
from relay.io.metrics import SCHEMA_HISTORY
from relay.service.observe.about import Endpoint
from relay.service.observe.figures import ErrorSummary, Progress, Sample, Traffic
from relay.service.observe.status import RUNNING, STARTING, ProcessReport, Status

#: The state of a process that reports nothing.
SILENT: Final = "not responding"
RATE_SECONDS: Final = 60.0
Json = dict[str, Any]


def liveness(status: Status) -> Json:
    """Return the body of /livez."""
    return {
        "alive": status.is_alive,
        "state": status.phase,
        "heartbeat_age_seconds": _rounded(status.heartbeat_age),
        "heartbeat_limit_seconds": status.about.heartbeat_limit_seconds,
    }


def readiness(status: Status) -> Json:
    """Return the body of /readyz. A failing check makes relay degraded, not unready: no restart cures it."""
    checks = _checks(status)
    return {
        "ready": status.phase == RUNNING,
        "state": status.phase,
        "degraded": _is_degraded(status, checks),
        "checks": {check["name"]: _line(check, status.phase) for check in checks},
        "last_error": _failure(status.last_errors[0]) if status.last_errors else None,
        **_of_processes(status, _state),
    }


def details(status: Status) -> Json:
    """Return the body of /status."""
    about, now = status.about, status.now()
    checks = _checks(status)
    sample = status.sample()
    return {
        "time": iso_time(now),
        "version": about.version,
        "kernel": about.kernel or None,
        "route": {
            "source": _endpoint(about.source),
            "target": _endpoint(about.target),
            "topics": dict(about.topics),
            "group": about.group,
            "mode": about.mode,
            "dead_letter_topic": about.dead_letter_topic or None,
        },
        "state": status.phase,
        "state_since": iso_time(status.phase_since),
        "started": iso_time(status.started),
        "alive": status.is_alive,
        "ready": status.phase == RUNNING,
        "degraded": _is_degraded(status, checks),
        "heartbeat_age_seconds": _rounded(status.heartbeat_age),
        "checks": checks,
        "lag": _lag(status, sample, now),
        "rate_limit": _rate_limit(status),
        "deduplicate": _deduplicate(status),
        "in_flight": {"records": status.in_flight, "age_seconds": _rounded(status.in_flight_age)},
        "last_record": _iso_time_ms(status.newest_ms),
        "last_commit": None if status.last_commit is None else iso_time(status.last_commit),
        "rates": _rates(status, sample),
        "history": _history(status),
        "partitions": [
            _partition(status, partition, progress, now) | _reader(status, partition)
            for partition, progress in sorted(status.partitions.items())
        ],
        **_of_processes(status, _process),
        "records": _records(status),
        "topics": {
            "consumed": _traffic(status.consumption),
            "produced": _traffic(status.production),
            "own": _own_traffic(status),
        },
        **_outcomes(status),
        "schema_versions": status.schemas,
    }


def _rate_limit(status: Status) -> Json | None:
    """Return the limits, and whether they are what holds reading back; None for a route without any."""
    limits = status.about.rate_limits
    if not limits:
        return None
    return {
        "max_records_per_second": limits.records or None,
        "max_bytes_per_second": limits.size or None,
        "is_limiting": status.is_rate_limited,
        "waited_seconds": _rounded(status.rate_limited_seconds),
    }


def _deduplicate(status: Status) -> Json | None:
    """Return the remembered rows, and how many were dropped; None if repeated rows are written."""
    translator = status.translator
    if translator is None or translator.remembered_rows is None:
        return None
    losses = translator.losses
    return {
        "remembered_rows": translator.remembered_rows,
        "max_rows": status.about.deduplicate_rows,
        "dropped": losses[Loss.ROWS_DEDUPLICATED],
        "below_watermark": losses[Loss.ROWS_BELOW_WATERMARK],
        "repeats_above_watermark": losses[Loss.REPEATS_ABOVE_WATERMARK],
    }


def _of_processes(
    status: Status, shown: Callable[[ProcessReport | None], Json | str]
) -> dict[str, dict[str, Json | str]]:
    """Return a member with data of each process by its number; none where one works alone."""
    count = status.about.processes
    found = {str(number): shown(status.processes.get(number)) for number in range(count)}
    for number in status.silent:
        found[str(number)] = _silent(found[str(number)])
    return {"processes": found} if count > 1 else {}


def _silent(shown: Json | str) -> Json | str:
    """Return the display value of a process that reports nothing: its figures are unknown."""
    if isinstance(shown, str):
        return SILENT
    return dict.fromkeys(shown) | {"pid": shown["pid"], "state": SILENT, "degraded": True}


def _state(report: ProcessReport | None) -> str:
    return STARTING if report is None else report.status.phase


def _process(report: ProcessReport | None) -> Json:
    """Return the known facts of one process; one without a report is starting."""
    if report is None:
        return {"pid": None, "state": STARTING}
    status = report.status
    return {
        "pid": report.pid,
        "state": status.phase,
        "alive": status.is_alive,
        "degraded": _is_degraded(status, _checks(status)),
        "heartbeat_age_seconds": _rounded(status.heartbeat_age),
        "partitions": len(status.partitions),
        "lag_records": status.lag,
        "last_record": _iso_time_ms(status.newest_ms),
        "last_commit": None if status.last_commit is None else iso_time(status.last_commit),
        "records": _records(status),
    }


def _reader(status: Status, partition: Partition) -> Json:
    return {"process": status.readers[partition]} if partition in status.readers else {}


def _records(status: Status) -> Json:
    """Return the counts of records by their outcome."""
    own = status.own_production
    return {
        "read": status.totals.consumed.records,
        "written": status.totals.produced.records,
        "dead_lettered": status.dead_letters.total(),
        "skipped": status.skips.total(),
        "history": own[SCHEMA_HISTORY].records if SCHEMA_HISTORY in own else 0,
    }


def summary(status: Status) -> dict[str, Any]:
    """Return the summary logged at the end of a run.

    It has counts of records, tables whose rows were inferred, and warnings about topics.
    """
    found: dict[str, Any] = {f"records_{name}": count for name, count in _records(status).items()}
    named = {"inferred_tables": status.inferred_tables, "warnings": status.warnings}
    return found | {name: each for name, each in named.items() if each}


def _outcomes(status: Status) -> Json:
    translator = status.translator
    losses = translator.losses if translator is not None else {}
    return {
        "events": dict(translator.events) if translator is not None else {},
        "warnings": status.warnings,
        "last_errors": [_failure(failure) for failure in status.last_errors],
        "errors": [
            {"stage": stage, "code": code, "count": count}
            for (stage, code), count in status.errors.most_common()
        ],
        "dead_letters": dict(status.dead_letters.most_common()),
        "skipped": dict(status.skips.most_common()),
        "losses": {str(what): count for what, count in losses.items() if what not in INFORMATIONAL},
        "expected_losses": sorted(status.about.series.expected_losses & {str(what) for what in losses}),
        "inferred_tables": status.inferred_tables,
        "tables": {name: dict(kinds) for name, kinds in status.tables.items() if name},
        "other_tables": dict(status.tables.get("", {})),
        "records_by_path": dict(translator.paths) if translator is not None else {},
        "notes": {str(what): count for what, count in losses.items() if what in INFORMATIONAL},
    }


def _checks(status: Status) -> list[Json]:
    """Return the loop's own checks, and another one: whether the loop turns."""
    alive, age = status.is_alive, status.heartbeat_age
    detail = "" if alive else f"the last iteration was {age or 0:.0f} s ago"
    found = [{"name": "loop", "ok": alive, "detail": detail, "reason": None, "since": None}]
    for name, check in status.checks.items():
        about = {"detail": check.detail, "reason": check.reason or None, "since": iso_time(check.since)}
        found.append({"name": name, "ok": check.ok} | about)
    return found


def _is_degraded(status: Status, checks: list[Json]) -> bool:
    return status.phase != STARTING and any(not check["ok"] for check in checks)


def _line(check: Json, phase: str) -> str:
    """Return a check as text. Pending work at the start is no failure."""
    word = "waiting" if phase == STARTING else "failing"
    if check["ok"]:
        word = "ok"
    return f"{word}: {check['detail']}" if check["detail"] else word


def _endpoint(endpoint: Endpoint) -> Json:
    return {"protocol": endpoint.protocol, "options": dict(endpoint.options), "brokers": endpoint.brokers}


def _partition(status: Status, partition: Partition, progress: Progress, now: float) -> Json:
    at = progress.end_at
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "position": progress.position,
        "end": progress.end,
        "end_age_seconds": None if at is None else _rounded(max(0.0, status.steady() - at)),
        "committed": progress.committed,
        "lag_records": status.lag_of(progress),
        "committed_lag_records": status.committed_lag_of(progress),
        "lag_kafka_seconds": _kafka_seconds(status, progress, now),
        "lag_database_seconds": _age(progress.row_ms, now),
        "watermark_age_seconds": _age(progress.watermark_ms, now),
        "last_record": _iso_time_ms(progress.timestamp_ms),
        "last_row": _iso_time_ms(progress.row_ms),
        "last_watermark": _iso_time_ms(progress.watermark_ms),
    }


def _kafka_seconds(status: Status, progress: Progress, now: float) -> float | None:
    """Return the age of the newest record that was read, if later ones wait; 0 if none wait."""
    lag = status.lag_of(progress)
    if lag is None:
        return None
    return _age(progress.timestamp_ms, now) if lag else 0.0


def _age(milliseconds: int | None, now: float) -> float | None:
    return None if milliseconds is None else _rounded(max(0.0, now - milliseconds / 1000))


def _database_seconds(status: Status, now: float) -> float | None:
    """Return the age of the newest row, by the database's clock.

    Of the partitions where records wait, the one furthest behind counts; if none wait, the newest row of all.
    """
    late = [each.row_ms for each in status.partitions.values() if each.row_ms and status.lag_of(each)]
    known = [each.row_ms for each in status.partitions.values() if each.row_ms]
    return _age(min(late) if late else max(known, default=None), now)


def _watermark_seconds(status: Status, now: float) -> float | None:
    """Return the age of the lowest watermark: everything before it was read.

    None until every partition has one.
    """
    found = [each.watermark_ms for each in status.partitions.values()]
    known = [each for each in found if each is not None]
    return _age(min(known), now) if known and len(known) == len(found) else None


def _lag(status: Status, sample: Sample, now: float) -> Json:
    """Return the total lag, its trend, and, if it shrinks, when it will be 0 at that rate."""
    behind = [
        seconds
        for progress in status.partitions.values()
        if (seconds := _kafka_seconds(status, progress, now)) is not None
    ]
    ages = [status.steady() - each.end_at for each in status.partitions.values() if each.end_at is not None]
    unknown = sum(status.lag_of(progress) is None for progress in status.partitions.values())
    # Samples of other partitions do not describe the trend of these.
    before = _reference(
        (each for each in status.samples if each.at >= status.assigned_at and each.lag is not None), sample
    )
    per_second = gone_in = None
    if sample.lag is not None and before.lag is not None and sample.at - before.at >= 1:
        per_second = (sample.lag - before.lag) / (sample.at - before.at)
        if sample.lag and per_second < 0:
            gone_in = sample.lag / -per_second
    return {
        "records": status.lag,
        "committed_records": status.committed_lag,
        "is_exact": status.is_lag_exact,
        "unknown_partitions": unknown,
        "end_age_seconds": _rounded(max(0.0, *ages)) if ages else None,
        "kafka_seconds": max(behind, default=None),
        "database_seconds": _database_seconds(status, now),
        "watermark_seconds": _watermark_seconds(status, now),
        "change_per_second": _rounded(per_second),
        "gone_in_seconds": _rounded(gone_in),
    }


def _reference(samples: Iterable[Sample], sample: Sample) -> Sample:
    """Return the newest sample that is at least a minute older, or else the oldest.

    Returns `sample` itself if there are none.
    """
    found = None
    for each in samples:
        if found is not None and sample.at - each.at < RATE_SECONDS:
            break
        found = each
    return found or sample


def _rates(status: Status, sample: Sample) -> Json:
    """Return the rates per second over the last minute; `busy`: each stage's share of the time."""
    before = _reference(status.samples, sample)
    seconds = sample.at - before.at
    if seconds <= 0:
        return {"window_seconds": 0.0, "busy": {}} | dict.fromkeys(_PER_SECOND, 0.0)
    busy = {
        stage: (total - before.stages.get(stage, (0, 0.0))[1]) / seconds
        for stage, (_, total) in sample.stages.items()
    }
    return {
        "window_seconds": _rounded(seconds),
        **{
            name: _rounded((getattr(sample, of) - getattr(before, of)) / seconds)
            for name, of in _PER_SECOND.items()
        },
        "busy": {stage: _rounded(share) for stage, share in busy.items()},
    }


#: Names of the rates, and the totals that they are computed from.
_PER_SECOND: Final = {
    "consumed_records_per_second": "consumed",
    "consumed_bytes_per_second": "consumed_bytes",
    "produced_records_per_second": "produced",
    "produced_bytes_per_second": "produced_bytes",
    "given_up_records_per_second": "given_up",
}


def _history(status: Status) -> Json:
    """Return the last hour in columns, oldest first: one for each fact, with an item for each sample."""
    samples = list(status.samples)
    pairs = list(pairwise(samples))

    def per_second(of: str) -> list[float | None]:
        return [_rounded((getattr(b, of) - getattr(a, of)) / max(b.at - a.at, 1e-3)) for a, b in pairs]

    return {
        "time": [round(sample.time, 1) for _, sample in pairs],
        "lag_records": [sample.lag for _, sample in pairs],
        "consumed_records_per_second": per_second("consumed"),
        "produced_records_per_second": per_second("produced"),
        "given_up_records_per_second": per_second("given_up"),
    }


def _traffic(topics: dict[str, Traffic]) -> Json:
    return {topic: {"records": traffic.records, "bytes": traffic.size} for topic, traffic in topics.items()}


def _own_traffic(status: Status) -> Json:
    """Return the traffic of relay's own topics, by purpose."""
    found = _traffic(status.own_production)
    return {kind: {"topic": topic} | found[kind] for topic, kind in status.about.own_topics.items()}


def _failure(failure: ErrorSummary) -> Json:
    return {
        "time": iso_time(failure.last),
        "stage": failure.stage,
        "code": failure.code,
        "position": failure.position,
        "message": failure.message,
        "count": failure.count,
        "first": iso_time(failure.first),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _iso_time_ms(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_time(milliseconds / 1000)


def iso_time(seconds: float) -> str | None:
    """Return a time in ISO 8601; None if it is out of range, as a producer may write any number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return None
