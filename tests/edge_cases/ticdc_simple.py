"""The list of TiCDC Simple's edge cases."""

from __future__ import annotations

from edge_cases.support import EdgeCases

CASES = EdgeCases("ticdc-simple", "TiCDC Simple")
