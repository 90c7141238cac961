"""A checkpoint belongs to one configuration, and says what it was made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for

from relay.config import Config
from relay.errors import ConfigError
from spark_backfill.checkpoint import check_checkpoint, described, differing

GOLDEN = Path(__file__).parent / "checkpoint.golden.json"


def config(**tables: Any) -> Config:
    own: dict[str, dict[str, Any]] = {
        "route": {
            "to_options": {"max-batch-size": 1},
            "from_options": {"claim-check-storage-uri": "s3://b/p?access-key=A&secret-access-key=SECRET"},
        },
        "source": {"topics": ["a", "b"], "start": "offsets", "start_offsets": {"a/0": 7}},
        "backfill": {"checkpoint": "c", "end": "timestamp", "end_timestamp": "2026-01-31T12:00:00Z"},
        "errors": {"decode": "dead-letter", "dead_letter_topic": "letters"},
    }
    for name, keys in tables.items():
        own.setdefault(name, {}).update(keys)
    return config_for("", "", **own)


def test_what_is_kept_is_readable_and_holds_no_secret(spark: Any, tmp_path: Path) -> None:
    """Newer versions must read it: a change of the golden file is a change of the format."""
    check_checkpoint(spark, str(tmp_path), described(config(), "cluster-1", "cluster-2"))
    assert (tmp_path / "relay/configuration.json").read_text() == GOLDEN.read_text()
    assert "SECRET" not in GOLDEN.read_text()


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, []),
        ({"route": {"to_options": {"max-batch-size": 2}}}, ["route.to_options.max-batch-size"]),
        ({"route": {"to": "ckafka-json", "to_options": {}}}, ["route.to", "route.to_options.max-batch-size"]),
        ({"source": {"topics": ["a"]}}, ["source.topics"]),
        ({"source": {"start_offsets": {"a/0": 8}}}, ["source.start_offsets"]),
        ({"target": {"partitions": 3, "watermarks": "drop"}}, ["target.partitions", "target.watermarks"]),
        ({"backfill": {"output": "o", "output_layout": "date"}}, ["backfill.output", "backfill.output_layout"]),
        ({"backfill": {"end_timestamp": "2026-02-01T12:00:00Z"}}, ["backfill.end_timestamp"]),
        ({"errors": {"decode": "skip"}}, ["errors.dead_letter_topic", "errors.decode"]),
        # Nothing has depended on these yet.
        ({"errors": {"encode": "skip"}}, []),
        ({"source": {"bootstrap_servers": "other:1"}}, []),
        ({"backfill": {"batch_records": 5, "task_records": 5, "summary": "s", "spark": {"a": "b"}}}, []),
        ({"route": {"from_options": {"claim-check-storage-uri": "s3://b/p?access-key=B&secret-access-key=NEW"}}}, []),
        ({"route": {"from_options": {"claim-check-storage-uri": "s3://b/q"}}}, ["route.from_options.claim-check-storage-uri"]),
    ],
    ids=str,
)
def test_another_configuration_is_told_apart(change: dict[str, Any], keys: list[str]) -> None:
    kept = json.loads(GOLDEN.read_text())["keys"]
    assert differing(kept, described(config(**change), "cluster-1", "cluster-2")) == keys


def test_a_run_that_has_stopped_may_go_on_with_another_policy(spark: Any, tmp_path: Path) -> None:
    """And then the policy is kept as well."""
    stopped, skipping = (config(errors={"decode": policy, "dead_letter_topic": ""}) for policy in ("stop", "skip"))
    for each in (stopped, skipping, skipping):
        check_checkpoint(spark, str(tmp_path), described(each, "1", "1"))
    with pytest.raises(ConfigError) as raised:
        check_checkpoint(spark, str(tmp_path), described(stopped, "2", "1"))
    assert [problem.path for problem in raised.value.problems] == ["errors.decode", "source.cluster"]
    (tmp_path / "relay/configuration.json").write_text('{"version": 9}')
    # Hadoop keeps a checksum beside each file.
    (tmp_path / "relay/.configuration.json.crc").unlink()
    with pytest.raises(ConfigError, match="was not written by this version of relay"):
        check_checkpoint(spark, str(tmp_path), described(skipping, "1", "1"))
