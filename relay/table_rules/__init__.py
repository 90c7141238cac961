"""Table rules rename the databases and tables of decoded events.

`TableNames` is the step before routing; `TableRule` is one rule.
"""

from relay.table_rules.applying import NO_TABLES, TableNames, TakenNames
from relay.table_rules.rules import RULE_FORM, ParsedRule, TableRule, parse_rule, parse_rules

__all__ = [
    "NO_TABLES",
    "RULE_FORM",
    "ParsedRule",
    "TableNames",
    "TableRule",
    "TakenNames",
    "parse_rule",
    "parse_rules",
]
