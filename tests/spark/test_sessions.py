"""What the driver's environment says to workers."""

from __future__ import annotations

import pytest
from spark.backfills import config_for

from spark_backfill.sessions import default_settings


def test_workers_have_the_drivers_choice_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "spark.executorEnv.RELAY_KERNEL"
    monkeypatch.delenv("RELAY_KERNEL", raising=False)
    assert name not in default_settings(config_for())
    monkeypatch.setenv("RELAY_KERNEL", "shadow")
    assert default_settings(config_for())[name] == "shadow"
