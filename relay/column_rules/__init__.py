"""Column rules drop, replace or rename columns of decoded events.

`ColumnRules` is the step between decode and route; `ColumnRule` is one rule.
"""

from relay.column_rules.applying import ColumnRules
from relay.column_rules.rules import (
    RULE_FORM,
    ColumnAction,
    ColumnRule,
    ParsedRule,
    action_of,
    hides_values,
    parse_rule,
    parse_rules,
)

__all__ = [
    "RULE_FORM",
    "ColumnAction",
    "ColumnRule",
    "ColumnRules",
    "ParsedRule",
    "action_of",
    "hides_values",
    "parse_rule",
    "parse_rules",
]
