"""Column rules drop, replace or rename columns of decoded events.

`ColumnRules` is the step between decode and route; `ColumnRule` is one rule.
"""

from relay.rules.columns.applying import ColumnRules
from relay.rules.columns.rules import (
    RULE_FORM,
    ColumnAction,
    ColumnRule,
    ParsedColumnRule,
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
    "ParsedColumnRule",
    "action_of",
    "hides_values",
    "parse_rule",
    "parse_rules",
]
