"""A backfill with `max-batch-size`: every byte is what one run of the command line writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for, lines_in
from support import DATA, OPEN, TICDC, captured, captured_files, translated_records

from relay import ConsumerRecord, ProducerRecord
from relay.config import Config
from relay.config.wiring import translator_of
from relay.core.batching import Joiner
from relay.io.record_lines import format_record
from spark_backfill.job import from_files

BULK = "ticdc/canal-json.tidb-extension/12_bulk"


def apart(config: Config, records: list[ConsumerRecord]) -> list[ProducerRecord]:
    """What is joined in one pass."""
    translator = translator_of(config)
    translator.expect_partitions({(record.topic, record.partition) for record in records})
    return translated_records(translator, records)


def joined(config: Config, records: list[ConsumerRecord]) -> dict[str, list[bytes]]:
    """The lines of one pass, by topic and partition."""
    joining = translator_of(config).route.joining
    assert joining is not None
    joiner = Joiner[None](joining)
    found: dict[str, list[bytes]] = {}
    made = [each for out in apart(config, records) for each in joiner.add(out, None)]
    for out, _ in [*made, *joiner.close()]:
        lines = found.setdefault(f"{out.topic}/{out.partition}", [])
        lines.append(format_record(out, len(lines)).rstrip(b"\n"))
    return found


@pytest.mark.parametrize(
    ("path", "options", "target"),
    [
        (BULK, {"max-batch-size": "16"}, {}),
        (BULK, {"max-batch-size": "64", "large-message-handle-compression": "lz4"}, {"partitions": 3}),
        ("ticdc/canal-json.3-partitions", {"max-batch-size": "5"}, {}),
    ],
)
def test_every_byte_is_that_of_one_pass(
    path: str, options: dict[str, str], target: dict[str, Any], spark: Any, tmp_path: Path
) -> None:
    is_file = (DATA / f"{path}.jsonl").exists()
    files = [path] if is_file else captured_files(path)
    config = config_for(
        str(DATA / (f"{path}.jsonl" if is_file else path)),
        str(tmp_path / "out"),
        route={"from": TICDC, "to": OPEN, "to_options": options},
        target=target,
    )
    records = [record for file in files for record in captured(file)]
    counts = from_files(spark, config)
    expected = joined(config, records)
    assert lines_in(tmp_path / "out") == expected
    assert sum(map(len, expected.values())) < len(apart(config, records))
    assert counts.written == Counter({partition: len(lines) for partition, lines in expected.items()})
    assert counts.read == len(records)


def test_folders_of_tables_hold_records_of_one_table(spark: Any, tmp_path: Path) -> None:
    config = config_for(
        str(DATA / f"{BULK}.jsonl"),
        str(tmp_path / "out"),
        route={"from": TICDC, "to": OPEN, "to_options": {"max-batch-size": "16"}},
        backfill={"output_layout": "table"},
    )
    counts = from_files(spark, config)
    assert counts.written.total() == counts.read
