"""The table of the Spark job, which the service accepts and does without."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems, without_variables

from relay.config.keys import Backfill, End


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def test_the_table_may_be_left_out(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL).backfill == Backfill()


def test_an_end_needs_its_key_and_a_key_its_end(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL + '[backfill]\nend = "commit-ts"') == [
        'backfill: end = "commit-ts" needs end_commit_ts'
    ]
    assert problems(tmp_path, MINIMAL + "[backfill]\nend_offsets = {}\nend_commit_ts = 7") == [
        'backfill: end_commit_ts needs end = "commit-ts"'
    ]
    found = load(
        tmp_path, MINIMAL + '[backfill]\nend = "timestamp"\nend_timestamp = 1970-01-01T00:00:01Z'
    ).backfill
    assert (found.end, found.end_timestamp_ms) == (End.TIMESTAMP, 1000)


def test_an_end_of_no_source_partition_is_refused(tmp_path: Path) -> None:
    """It would be passed over, and all would be read."""
    topic = load(tmp_path, MINIMAL).source.topics[0]
    for name in ("ordres/0", topic, f"{topic}/01", f"{topic}/-1"):
        assert problems(tmp_path, ending_at(name)) == [
            f'backfill.end_offsets: "{name}" is not the partition of a source topic (partitions are written "topic/0")'
        ]
    assert load(tmp_path, ending_at(f"{topic}/7")).backfill.end_offsets == {f"{topic}/7": 5}


def ending_at(partition: str) -> str:
    return f'{MINIMAL}[backfill]\nend = "offsets"\nend_offsets = {{"{partition}" = 5}}'


def test_spark_settings_may_be_numbers_and_booleans(tmp_path: Path) -> None:
    text = MINIMAL + '[backfill]\nspark = {"spark.sql.shuffle.partitions" = 8, "spark.ui.enabled" = false}'
    assert load(tmp_path, text).backfill.spark == {
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }
