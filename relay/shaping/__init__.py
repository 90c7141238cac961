"""Rules for columns: what of the decoded events is written, and under which names.

`Shaper` is the step between decode and route; `ColumnRule` is one rule.
"""

from relay.shaping.rules import (
    RULE_FORM,
    ColumnAction,
    ColumnRule,
    ParsedRule,
    action_of,
    parse_rule,
    parse_rules,
)
from relay.shaping.shaper import Shaper

__all__ = [
    "RULE_FORM",
    "ColumnAction",
    "ColumnRule",
    "ParsedRule",
    "Shaper",
    "action_of",
    "parse_rule",
    "parse_rules",
]
