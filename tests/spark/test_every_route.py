"""Captured sets and routes: what the job writes is what the relay writes, byte for byte. A fifth of the routes is
tried here, with every target among them; `make routes` tries all of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from spark.every_route import differences, relayed, routes, translated, variants
from support import ALL_ROUTES, DATA, WRITABLE

TASKS = 6
SHARE = 1 if ALL_ROUTES else 5


def test_every_captured_set(spark: Any, tmp_path: Path) -> None:
    """Keys, values, headers, timestamps, partitions, order, dead letters; every source partition is spread
    over six tasks.

    The order is that of the lines in the files that a backfill's target writes.
    """
    chosen = list(routes(DATA))[::SHARE]
    assert {route.config.route.to for route in chosen} == WRITABLE
    assert len(variants(DATA)) > 30
    found = translated(spark, chosen, TASKS, tmp_path / "out")
    wrong, letters, written = {}, Counter[str](), 0
    for route in chosen:
        expected = relayed(route)
        written += sum(map(len, expected.values()))
        letters[route.variant] += sum(len(made) for name, made in expected.items() if ".letters/" in name)
        if counts := differences(expected, found[route.number]):
            wrong[f"{route.variant} to {route.config.route.to} {route.config.route.to_options}"] = counts
    assert wrong == {}
    # Nearly all records can be translated: dead letters would be equal as well, and say nothing about rows.
    assert letters.total() < written / 50
