"""Rows with keys of their own and tombstones, relayed into a compacted topic of a real Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import captured

from relay.config.wiring import translator_of
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

OPTIONS = {"profile": "flink", "key": "primary-key", "tombstones": "true"}


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_the_newest_of_each_key_is_the_table(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(), await kafka.topic(cleanup_policy="compact")
    records = [
        one
        for one in captured("ticdc/canal-json.tidb-extension/09_dml")
        if b"nokey" not in (one.value or b"")
    ]
    config = make_config(source, target, route_to_options=OPTIONS, delivery_mode=mode, target_topic=target)
    expected = translator_of(config)
    wanted = [
        (out.key, out.value)
        for at, one in enumerate(records)
        for out in expected.translate(ConsumerRecord(source, 0, at, one.timestamp_ms, None, one.value))
    ]
    await kafka.produce(
        source, [ConsumerRecord("", 0, 0, one.timestamp_ms, None, one.value) for one in records]
    )
    relay = run_relay(config, translator_of(config))
    written = await kafka.read(target, at_least=len(wanted), committed=mode == "exactly-once")
    assert await relay.stop() == 0
    assert [(one.key, one.value) for one in written] == wanted
    assert None not in [one.key for one in written]
    newest = {(one.key): one.value for one in written}
    rows, deleted = [one for one in newest.values() if one], [key for key, one in newest.items() if not one]
    assert rows
    assert deleted
    for value in rows:
        assert json.loads(value)["type"] != "DELETE"
