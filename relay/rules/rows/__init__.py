"""Row rules select the rows of tables that are written.

`RowRules` is the step between the selection of tables and the column rules; `RowRule` is one rule.
"""

from relay.rules.rows.applying import RowFilter, RowRules, Verdict
from relay.rules.rows.rules import (
    WHERE_FORM,
    ParsedRowRule,
    RowRule,
    UnknownBefore,
    parse_row_rules,
    parse_where,
    unknown_before_of,
)

__all__ = [
    "WHERE_FORM",
    "ParsedRowRule",
    "RowFilter",
    "RowRule",
    "RowRules",
    "UnknownBefore",
    "Verdict",
    "parse_row_rules",
    "parse_where",
    "unknown_before_of",
]
