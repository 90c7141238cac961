"""Values of hidden columns do not appear in a checkpoint, with which a run goes on as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from column_rules_support import HIDDEN, bytes_of, canaries_in, story
from spark.test_topics import topics_config

from relay.config.wiring import translator_of
from spark_backfill.checkpoint import StepStore
from spark_backfill.job import TopicsRun

pytestmark = pytest.mark.kafka


async def test_a_checkpoint_has_no_hidden_values(spark: Any, kafka: Any, tmp_path: Path) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    records = [msgspec.structs.replace(each, topic=source, offset=at) for at, each in enumerate(story())]
    rule = {"tables": ["shop.*"], "columns": list(HIDDEN), "action": "null"}
    config = topics_config(kafka, source, target, tmp_path, route={"columns": [rule]})
    translator = translator_of(config)
    for part in (records[:5], records[5:]):
        await kafka.produce(source, part)
        assert TopicsRun(spark, config).run().read == len(part)
    stored = StepStore(spark, config.backfill.checkpoint).ddl_before(100)
    assert [each.offset for each in stored] == [0, 4]
    assert not any(canaries_in(bytes_of(each)) for each in stored)
    expected = [out for each in records for out in translator.translate(each)]
    found = await kafka.read(target, len(expected))
    assert [(each.key, each.value) for each in found] == [(each.key, each.value) for each in expected]
