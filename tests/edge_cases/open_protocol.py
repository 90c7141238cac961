"""The list of Open Protocol's edge cases, and its example of a batch."""

from __future__ import annotations

from edge_cases.support import EdgeCases
from open_support import Message, cell

CASES = EdgeCases("open-protocol", "Open Protocol")

#: A key change of `t1` split into DELETE and INSERT, and a row of a partitioned table.
BATCH: tuple[Message, ...] = (
    (
        {"ts": 458210000000000004, "scm": "test", "tbl": "t1", "t": 1},
        {"d": {"id": cell(3, 1, 11, h=True), "val": cell(15, "aa", 64)}},
    ),
    (
        {"ts": 458210000000000004, "scm": "test", "tbl": "t1", "t": 1},
        {"u": {"id": cell(3, 4, 11, h=True), "val": cell(15, "dd", 64)}},
    ),
    (
        {"ts": 458210000000000005, "scm": "test", "tbl": "pt", "t": 1, "ptn": 112},
        {"u": {"id": cell(3, 9, 11, h=True), "v": cell(16, 129, 193)}},
    ),
)
