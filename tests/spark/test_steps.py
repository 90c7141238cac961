"""Steps have a limit by default where they do not change the output."""

from __future__ import annotations

from typing import Any

import pytest
from spark.backfills import config_for

from spark_backfill.steps import records_of_step

DEFAULT = 50_000_000
WAITING = {"wait_for_ddl": True}


@pytest.mark.parametrize(
    ("tables", "records"),
    [
        ({"schema": WAITING}, DEFAULT),
        ({"schema": {"wait_for_ddl": False}}, 0),
        ({"route": {"from": "ticdc-open-protocol"}}, DEFAULT),
        # Copies of DDL, and rows in one message.
        ({"route": {"to": "ticdc-open-protocol"}, "schema": WAITING}, 0),
        ({"route": {"from": "ticdc-open-protocol", "to": "ticdc-open-protocol"}}, DEFAULT),
        (
            {
                "route": {
                    "from": "ticdc-open-protocol",
                    "to": "ticdc-open-protocol",
                    "to_options": {"max-batch-size": 16},
                }
            },
            0,
        ),
        # A registry numbers schemas.
        (
            {
                "route": {"from": "ticdc-open-protocol", "to": "ticdc-avro"},
                "target": {"topic": "{topic}", "schema_registry": {"urls": ["http://localhost:1"]}},
            },
            0,
        ),
        ({"schema": {"wait_for_ddl": False}, "backfill": {"batch_records": 7}}, 7),
        ({"schema": WAITING, "backfill": {"batch_records": 0}}, 0),
    ],
)
def test_the_default_has_no_effect_where_steps_matter(tables: dict[str, Any], records: int) -> None:
    assert records_of_step(config_for(**tables)) == records
