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


@pytest.mark.slow
async def test_faults_show_in_time(tmp_path: Path) -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    names = ["source-deleted", "hung", "refused-busy"]
    found = await run(names, tmp_path, seconds=PROMISED_SECONDS + 3)
    # How late alerts are is measured by `make faults` alone: Prometheus waits for a busy machine, too.
    late = {
        name: complaints
        for name, outcome in found.items()
        if (complaints := [each for each in outcome.complaints if not each.startswith("alert")])
    }
    assert late == {}, found
