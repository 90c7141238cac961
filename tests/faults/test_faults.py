"""Some faults of a real Kafka: within 5 s of the first evidence page, checks and metrics show them, and none shows
anything else. `make faults` plays all of them.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from faults.__main__ import run
from faults.trial import PROMISED_SECONDS

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "name", ["source-deleted", "target-deleted", "hung", "history-deleted", "refused-busy"]
)
async def test_a_fault_shows_in_time(name: str, tmp_path: Path) -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    found = (await run([name], tmp_path, seconds=PROMISED_SECONDS + 3))[name]
    # How late alerts are is measured by `make faults` alone: Prometheus waits for a busy machine, too.
    assert [each for each in found.complaints if not each.startswith("alert")] == [], found
