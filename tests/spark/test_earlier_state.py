"""A checkpoint that an older version has written is continued: `data/state/checkpoint`, of two steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for, lines_in
from spark.test_topics import of_topic
from state_support import STATE

from relay.config import Config
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record
from spark_backfill.checkpoint import Checkpoint, StepStore, described, differing, local_problems
from spark_backfill.job import TopicsRun

#: What both steps have read of topic `backfill`, and what they have written.
READ, WRITTEN = 80, 67
TABLES = "ticdc/canal-json.tidb-extension/10_ddl"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint, with this machine's folders."""
    shutil.copytree(STATE / "checkpoint", tmp_path / "checkpoint")
    kept = tmp_path / "checkpoint/relay/configuration.json"
    kept.write_text(kept.read_text(encoding="utf-8").replace("@FOLDER@", str(tmp_path)), encoding="utf-8")
    dump = "CREATE TABLE `shop`.`orders` (`id` int NOT NULL PRIMARY KEY, `note` varchar(20));\n"
    (tmp_path / "dump.sql").write_text(dump, encoding="utf-8")
    return tmp_path / "checkpoint"


def config(checkpoint: Path, servers: str = "localhost:1", **options: str) -> Config:
    """The configuration of its run, with the present names of keys, options and losses."""
    folder = checkpoint.parent
    refusing = {"strict": "value-inferred,zone-inferred", "missing-before": "refuse"}
    return config_for(
        route={"to_options": refusing | options},
        source={"bootstrap_servers": servers, "topics": ["backfill"], "group_id": "backfill"},
        target={"topic": "{topic}.canal-json"},
        errors={"decode": "dead-letter", "dead_letter_topic": "backfill-dead"},
        schema={
            "wait_for_ddl": True,
            "schema_dumps": [str(folder / "dump.sql")],
            "schema_dumps_database": "shop",
            "schema_dumps_as_of": "2020-01-01T00:00:00Z",
        },
        backfill={"output": str(folder / "output"), "checkpoint": str(checkpoint), "batch_records": 40},
    )


def test_a_checkpoint_has_the_same_configuration(checkpoint: Path) -> None:
    assert local_problems(config(checkpoint)) == []
    (found,) = local_problems(config(checkpoint, strict="value-inferred"))
    assert found.path == "route.to_options.strict"


def test_a_checkpoint_is_accepted(spark: Any, checkpoint: Path) -> None:
    kept = json.loads((checkpoint / "relay/configuration.json").read_text(encoding="utf-8"))["keys"]
    assert {"schema.wait", "schema.bootstrap", "route.to_options.unknown-before"} <= kept.keys()
    found, now = Checkpoint(spark, str(checkpoint)), described(config(checkpoint), kept["source.cluster"], "")
    assert found.first == {"backfill/0": 0}
    found.check(now, {"backfill": "an id that the older version did not keep"})
    assert differing(kept, now) != [], "the names have changed"


def test_steps_are_known(spark: Any, checkpoint: Path) -> None:
    store, records = StepStore(spark, str(checkpoint)), of_topic("backfill", TABLES)[:READ]
    # Spark reads files in any order; their steps' statements have positions.
    statements = sorted(store.ddl_before(2), key=lambda each: each.position)
    assert statements == [each for each in records if b'"isDdl":true' in (each.value or b"")]
    assert 0 < len(store.ddl_before(1)) < len(statements)
    assert store.written_before(2) == {"backfill.canal-json/0": WRITTEN}


@pytest.mark.kafka
async def test_a_run_goes_on(spark: Any, kafka: Any, checkpoint: Path) -> None:
    """It reads no record again, knows the DDL of the earlier steps, and counts offsets on."""
    records = of_topic("backfill", TABLES)
    await kafka.topic(name="backfill")
    await kafka.produce("backfill", records)
    own = config(checkpoint, kafka.bootstrap_servers)
    assert TopicsRun(spark, own).run().read == len(records) - READ
    translator = translator_of(own)
    translator.expect_partitions([("backfill", 0)])
    expected = [
        format_record(out, offset).rstrip(b"\n")
        for offset, out in enumerate(out for record in records for out in translator.translate(record))
    ]
    assert lines_in(checkpoint.parent / "output") == {"backfill.canal-json/0": expected[WRITTEN:]}
