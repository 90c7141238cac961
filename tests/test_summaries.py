"""Lines of a summary of counted losses."""

from __future__ import annotations

import pytest

from relay.codecs.losses import INFERRED, INFORMATIONAL, Loss
from relay.core.summaries import lost

NOTE = next(iter(sorted(INFORMATIONAL - INFERRED)))


@pytest.mark.parametrize(
    ("counts", "lines"),
    [
        ({}, []),
        ({Loss.GTID: 2}, ["  lost     gtid 2"]),
        ({Loss.SCHEMA_INFERRED: 3}, ["  assumed  schema-inferred 3"]),
        ({NOTE: 1}, [f"  notes    {NOTE} 1"]),
        (
            {Loss.GTID: 2, Loss.COMMIT_TS: 5, Loss.SCHEMA_INFERRED: 3, NOTE: 1},
            ["  lost     commit-ts 5, gtid 2", "  assumed  schema-inferred 3", f"  notes    {NOTE} 1"],
        ),
    ],
)
def test_each_kind_is_in_one_line(counts: dict[Loss, int], lines: list[str]) -> None:
    assert lost(counts) == lines
