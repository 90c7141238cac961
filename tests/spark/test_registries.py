"""Registries of a backfill: every schema is asked for once, by the driver, whatever the number of tasks, and
what is written is what `relay translate` writes.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_registry import FakeRegistry, serving
from spark.backfills import config_for, lines_in
from spark.test_files import is_split
from support import DATA, captured

from relay import ConsumerRecord
from relay.config import Config
from relay.config.registries import resolver_of
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record
from relay.io.registry import RETRIES
from relay.model.errors import SchemaRefused
from spark_backfill.job import from_files

AVRO = "debezium-avro"
OPEN = "ticdc-open-protocol"
FOLDER = "mysql/debezium.avro"


def of_producer() -> FakeRegistry:
    """The registry of captured records."""
    found = FakeRegistry()
    for line in (DATA / FOLDER / "schemas.ndjson").read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        found.texts[each["id"]] = each["schema"]
    return found


def relayed(config: Config, records: list[ConsumerRecord]) -> dict[str, list[bytes]]:
    """The lines that `relay translate` writes, by topic and partition."""
    translator, resolver = translator_of(config), resolver_of(config)
    translator.expect_partitions({(each.topic, each.partition) for each in records})
    found: dict[str, list[bytes]] = {}
    for each in records:
        for out in resolver.translate(translator, each):
            lines = found.setdefault(f"{out.topic}/{out.partition}", [])
            lines.append(format_record(out, len(lines)).rstrip(b"\n"))
    return found


def config_of(tmp_path: Path, file: str, protocol: str, **registries: FakeRegistry) -> Config:
    """A backfill of a captured file, whose rows are dealt out to several tasks."""
    sides: dict[str, dict[str, Any]] = {
        side: {"schema_registry": {"urls": [fake.url], "allow_http": True}}
        for side, fake in registries.items()
    }
    sides["target"]["topic"] = "{topic}.{database}.{table}"
    reading = {"field.name.adjustment.mode": "avro_unicode"} if protocol == AVRO else {}
    route = {
        "from": protocol,
        "to": AVRO,
        "from_options": reading,
        "to_options": {"profile": "kafka-connect"},
    }
    return config_for(str(DATA / f"{file}.jsonl"), str(tmp_path / "out"), route=route, **sides)


def test_schemas_of_the_source_are_asked_for_once(spark: Any, tmp_path: Path) -> None:
    file = f"{FOLDER}/02_numeric"
    with serving(of_producer()) as source, serving(FakeRegistry()) as target:
        config = config_of(tmp_path, file, AVRO, source=source, target=target)
        from_files(spark, config)
        asked, registrations = Counter(source.asked), target.registrations()
        expected = relayed(config, captured(file))
    assert lines_in(tmp_path / "out") == expected
    assert set(asked.values()) == {1}
    assert {method for method, _ in asked} == {"GET"}
    assert len(registrations) == len(set(registrations)) > 2


def test_schemas_of_the_target_are_registered_once(spark: Any, tmp_path: Path) -> None:
    file = "ticdc/open-protocol/09_dml"
    records = captured(file)
    path = str(DATA / f"{file}.jsonl")
    with serving(FakeRegistry()) as fake:
        config = config_of(tmp_path, file, OPEN, target=fake)
        tasks = is_split(records, spark, path)
        from_files(spark, config)
        asked, registrations = list(fake.asked), fake.registrations()
        expected = relayed(config, records)
    assert tasks > 1
    assert lines_in(tmp_path / "out") == expected
    versions = sum(map(len, fake.subjects.values()))
    assert len(registrations) == versions > 1
    # Each is looked up first, and nothing else is asked.
    assert len(asked) == 2 * versions


def test_versions_are_registered_in_the_order_of_the_records(spark: Any, tmp_path: Path) -> None:
    """The newest version of a subject is that of its newest rows, as if the relay had come to them."""
    file = "ticdc/open-protocol/10_ddl"
    with serving(FakeRegistry()) as of_spark, serving(FakeRegistry()) as of_relay:
        from_files(spark, config_of(tmp_path, file, OPEN, target=of_spark))
        relayed(config_of(tmp_path, file, OPEN, target=of_relay), captured(file))
    found, expected = (
        {subject: [fake.texts[id] for id in ids] for subject, ids in fake.subjects.items()}
        for fake in (of_spark, of_relay)
    )
    assert found == expected
    assert max(map(len, found.values())) > 2


def test_the_driver_gets_each_schema_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tasks have found it."""
    file = "ticdc/open-protocol/09_dml"
    frames = type(spark.range(1))
    collect, collected = frames.toArrow, list[Any]()

    def collecting(frame: Any) -> Any:
        table = collect(frame)
        if "subject" in table.column_names:
            collected.append(table)
        return table

    monkeypatch.setattr(frames, "toArrow", collecting)
    with serving(FakeRegistry()) as fake:
        from_files(spark, config_of(tmp_path, file, OPEN, target=fake))
    (table,) = collected
    assert is_split(captured(file), spark, str(DATA / f"{file}.jsonl")) > 1
    assert table.num_rows == sum(map(len, fake.subjects.values()))


def test_a_schema_that_is_not_compatible_ends_the_job(spark: Any, tmp_path: Path) -> None:
    file = "ticdc/open-protocol/09_dml"
    with serving(FakeRegistry()) as fake:
        fake.add(f"{captured(file)[0].topic}.dml_db.accounts-key", '{"type":"record","name":"R","fields":[]}')
        with pytest.raises(SchemaRefused, match="-key"):
            from_files(spark, config_of(tmp_path, file, OPEN, target=fake))
    assert not (tmp_path / "out").exists()


def test_a_schema_that_is_missing_is_asked_for_once(spark: Any, tmp_path: Path) -> None:
    """Every record that names it goes the way of the error policy."""
    file = f"{FOLDER}/02_numeric"
    with serving(of_producer()) as source, serving(FakeRegistry()) as target:
        value = next(record.value for record in captured(file) if record.value and record.key)
        missing = int.from_bytes(value[1:5], "big")
        del source.texts[missing]
        config = config_of(tmp_path, file, AVRO, source=source, target=target)
        config = config.model_copy(update={"errors": config.errors.model_copy(update={"decode": "skip"})})
        counts = from_files(spark, config)
    asked = [path for _, path in source.asked if path == f"/schemas/ids/{missing}"]
    assert counts.failed
    assert len(asked) <= RETRIES + 1
