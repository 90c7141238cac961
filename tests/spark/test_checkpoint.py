"""A checkpoint belongs to one configuration, and says what it was made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for

from relay.config import Config
from relay.model.errors import ConfigError
from spark_backfill.checkpoint import Checkpoint, described, differing, local_problems

KEY = "a secret key of tests"
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
        "schema": {"wait_for_ddl": False},
    }
    for name, keys in tables.items():
        own.setdefault(name, {}).update(keys)
    return config_for("", "", **own)


FIRST = {"a/0": 7, "b/0": 0}
IDS = {"a": "3Db5QLSqSZieL3rJBUUegA", "b": "jL2Q0mVSQBCXkv2LpKRVvg"}


def kept(spark: Any, folder: Path, now: dict[str, Any]) -> None:
    """What a run does at its start."""
    checkpoint = Checkpoint(spark, str(folder))
    checkpoint.check(now, IDS)
    checkpoint.keep(now, FIRST, IDS)


def test_what_is_kept_is_readable_and_holds_no_secret(spark: Any, tmp_path: Path) -> None:
    """Newer versions must read it: a change of the golden file is a change of the format."""
    assert Checkpoint(spark, str(tmp_path)).first is None
    kept(spark, tmp_path, described(config(), "cluster-1", "cluster-2"))
    assert (tmp_path / "relay/configuration.json").read_text() == GOLDEN.read_text()
    assert "SECRET" not in GOLDEN.read_text()
    assert Checkpoint(spark, str(tmp_path)).first == FIRST


def test_a_topic_that_was_created_again_is_refused(spark: Any, tmp_path: Path) -> None:
    now = described(config(), "cluster-1", "cluster-2")
    kept(spark, tmp_path, now)
    again = IDS | {"b": "AAAAAAAAAAAAAAAAAAAAAA"}
    with pytest.raises(ConfigError, match=r"^source.topics: b: recreated since the last run, with offsets"):
        Checkpoint(spark, str(tmp_path)).check(now, again)


def test_a_checkpoint_without_ids_of_topics_gets_them(spark: Any, tmp_path: Path) -> None:
    now = described(config(), "cluster-1", "cluster-2")
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.keep(now, FIRST)
    file = tmp_path / "relay/configuration.json"
    older = json.loads(file.read_text())
    del older["topic_ids"]
    (file.parent / ".configuration.json.crc").unlink(missing_ok=True)
    file.write_text(json.dumps(older))
    kept(spark, tmp_path, now)
    assert json.loads(file.read_text())["topic_ids"] == IDS


def test_a_local_checkpoint_is_compared_without_spark(spark: Any, tmp_path: Path) -> None:
    own = config(backfill={"checkpoint": str(tmp_path)})
    kept(spark, tmp_path, described(own, "cluster-1", "cluster-2"))
    assert local_problems(own) == []
    other = config(backfill={"checkpoint": str(tmp_path), "end_timestamp": "2026-01-30T12:00:00Z"})
    (found,) = local_problems(other)
    assert found.path == "backfill.end_timestamp"
    assert "differs from the value that the checkpoint was created with" in str(found)


def test_paths_are_kept_without_passwords() -> None:
    backfill = {
        "output": "ftp://me:SECRET@host:21/x/",
        "schema_input": "s3a://KEY:SE+CRET=@b/?.jsonl, a:b@c/d,abfss://box@account/e/",
    }
    found = described(config(backfill=backfill), "1", "1")
    assert found["backfill.output"] == "ftp://host:21/x/"
    # What holds none is as it was: a checkpoint that knows it still fits.
    assert found["backfill.schema_input"] == "s3a://b/?.jsonl, a:b@c/d,abfss://box@account/e/"


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, []),
        ({"route": {"to_options": {"max-batch-size": 2}}}, ["route.to_options.max-batch-size"]),
        ({"route": {"to": "ckafka-json", "to_options": {}}}, ["route.to", "route.to_options.max-batch-size"]),
        ({"source": {"topics": ["a"]}}, ["source.topics"]),
        ({"source": {"start_offsets": {"a/0": 8}}}, ["source.start_offsets"]),
        ({"target": {"partitions": 3, "watermarks": "drop"}}, ["target.partitions", "target.watermarks"]),
        (
            {"backfill": {"output": "o", "output_layout": "date"}},
            ["backfill.output", "backfill.output_layout"],
        ),
        ({"backfill": {"end_timestamp": "2026-02-01T12:00:00Z"}}, ["backfill.end_timestamp"]),
        ({"errors": {"decode": "skip"}}, ["errors.dead_letter_topic", "errors.decode"]),
        (
            {
                "route": {
                    "columns": [{"tables": ["d.t"], "columns": ["c"], "action": "hash"}],
                    "hash_key": KEY,
                }
            },
            ["route.columns", "route.hash_key"],
        ),
        ({"route": {"tables": [{"from": "d.t", "to": "d.u"}]}}, ["route.tables"]),
        ({"route": {"rows": [{"tables": ["d.t"], "where": "id > 7"}]}}, ["route.rows"]),
        # What rows know depends on it.
        ({"schema": {"wait_for_ddl": True}}, ["schema.wait_for_ddl"]),
        # What it means counts, not whether somebody has written it.
        ({"schema": {"wait_for_ddl": "auto"}}, ["schema.wait_for_ddl"]),
        # Nothing has depended on these yet.
        ({"errors": {"encode": "skip"}}, []),
        ({"source": {"bootstrap_servers": "other:1"}}, []),
        ({"backfill": {"batch_records": 5, "task_records": 5, "summary": "s", "progress": "p"}}, []),
        ({"backfill": {"trigger_seconds": 5, "spark": {"a": "b"}}}, []),
        (
            {
                "route": {
                    "from_options": {"claim-check-storage-uri": "s3://b/p?access-key=B&secret-access-key=NEW"}
                }
            },
            [],
        ),
        (
            {"route": {"from_options": {"claim-check-storage-uri": "s3://b/q"}}},
            ["route.from_options.claim-check-storage-uri"],
        ),
    ],
    ids=str,
)
def test_another_configuration_is_distinguished(change: dict[str, Any], keys: list[str]) -> None:
    assert (
        differing(
            json.loads(GOLDEN.read_text())["keys"], described(config(**change), "cluster-1", "cluster-2")
        )
        == keys
    )


def test_a_run_that_has_stopped_may_go_on_with_another_policy(spark: Any, tmp_path: Path) -> None:
    """And then the policy is kept as well."""
    stopped, skipping = (
        config(errors={"decode": policy, "dead_letter_topic": ""}) for policy in ("stop", "skip")
    )
    for each in (stopped, skipping, skipping):
        kept(spark, tmp_path, described(each, "1", "1"))
    with pytest.raises(ConfigError) as raised:
        kept(spark, tmp_path, described(stopped, "2", "1"))
    assert [problem.path for problem in raised.value.problems] == ["errors.decode", "source.cluster"]
    (tmp_path / "relay/configuration.json").write_text('{"version": 9}')
    # Hadoop keeps a checksum beside each file.
    (tmp_path / "relay/.configuration.json.crc").unlink()
    with pytest.raises(ConfigError, match="was not written by this version of relay"):
        kept(spark, tmp_path, described(skipping, "1", "1"))


def test_a_run_that_was_killed_while_it_kept_its_configuration_goes_on(spark: Any, tmp_path: Path) -> None:
    now, file = described(config(), "1", "1"), tmp_path / "relay/configuration.json"
    kept(spark, tmp_path, now)
    (tmp_path / "spark").mkdir()
    # Between `delete` and `rename`.
    (tmp_path / "relay/.configuration.json.crc").unlink()
    whole = file.read_bytes()
    file.rename(file.with_suffix(".json.draft"))
    with pytest.raises(ConfigError, match="differs from the value that the checkpoint was created with"):
        Checkpoint(spark, str(tmp_path)).check(described(config(), "2", "1"))
    kept(spark, tmp_path, now)
    assert file.read_bytes() == whole


@pytest.mark.parametrize("draft", [None, b'{"versi'])
def test_progress_of_which_nobody_knows_what_it_was_made_with_is_refused(
    draft: bytes | None, spark: Any, tmp_path: Path
) -> None:
    if draft:
        (tmp_path / "relay").mkdir()
        (tmp_path / "relay/configuration.json.draft").write_bytes(draft)
    assert Checkpoint(spark, str(tmp_path)).first is None
    (tmp_path / "spark").mkdir()
    with pytest.raises(ConfigError, match=r"backfill\.checkpoint: .*configuration\.json is missing"):
        Checkpoint(spark, str(tmp_path))
