"""The relays of a run have the harness's RELAY_KERNEL, and a difference is a complaint about them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from wrong_kernel_support import wrong_kernel

from chaos.broker import Feeder, broker_at
from chaos.experiment import config_text
from chaos.messages import planned
from chaos.relay_processes import RelayProcesses

pytestmark = pytest.mark.kafka


async def test_a_difference_is_a_complaint(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in wrong_kernel().items():
        monkeypatch.setenv(name, value)
    async with broker_at(broker) as asked:
        source = await asked.create("shadow-source", 1)
        target = await asked.create("shadow-target", 1)
        await Feeder(asked, source, planned(random.Random(1), 400)).feed(1.0)
        text = config_text(servers=broker, source=source, target=target, mode="at-least-once")
        relays = RelayProcesses(tmp_path, text)
        relays.start()
        try:
            async with asyncio.timeout(60):
                while relays.running:  # noqa: ASYNC110 - processes tell nobody
                    await asyncio.sleep(0.1)
        finally:
            relays.kill()
    assert relays.complaints == ["relay 0 ended by itself with status 1 templates-differ"]
