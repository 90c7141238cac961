"""A protocol of another package (`toy_protocol`) through a real Kafka: written by one relay, read by the next."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from service.test_process import finished, relay_process
from support import CANAL, DATA, TICDC, captured
from toy_protocol.codec import NAME as TOY

from relay import ConsumerRecord, Resolver, Translator
from relay.config.wiring import translator_of

pytestmark = pytest.mark.kafka

FILE = "ticdc/canal-json.tidb-extension/09_dml"


def translated(
    route: tuple[str, str], options: tuple[dict[str, str], dict[str, str]], records: list[ConsumerRecord]
) -> list[ConsumerRecord]:
    """What a translator alone makes of records, as records of a topic."""
    translator = Translator(*route, *options)
    made = [out for record in records for out in Resolver().translate(translator, record)]
    return [
        ConsumerRecord(out.topic, out.partition, offset, out.timestamp_ms, out.key, out.value)
        for offset, out in enumerate(made)
    ]


async def test_two_relays_with_needs_write_what_translators_make(
    kafka: Any, make_config: Any, run_relay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DATA.parent))
    source, between, target = [await kafka.topic() for _ in range(3)]
    records, registry = captured(FILE), {"registry": str(tmp_path / "schemas")}
    there = translated((TICDC, TOY), ({}, registry), records)
    back = translated((TOY, CANAL), (registry, {}), there)
    for known in (tmp_path / "schemas").iterdir():
        known.unlink()

    await kafka.produce(source, records)
    config = make_config(source, between, route_from=TICDC, route_to=TOY, route_to_options=registry)
    process = await relay_process(tmp_path, config)
    await kafka.read(between, at_least=len(there))
    process.send_signal(signal.SIGTERM)
    assert (await finished(process))[0] == 0
    assert [record.value for record in await kafka.read(between)] == [record.value for record in there]

    config = make_config(between, target, route_from=TOY, route_to=CANAL, route_from_options=registry)
    relay = run_relay(config, translator_of(config))
    written = await kafka.read(target, at_least=len(back))
    assert await relay.stop() == 0
    assert [record.value for record in written] == [record.value for record in back]
