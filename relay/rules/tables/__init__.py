"""Table rules rename the databases and tables of decoded events.

`TableNames` is the step before routing; `TableRule` is one rule.
"""

from relay.rules.tables.applying import NO_TABLES, TableNames, TakenNames, names_after_restore
from relay.rules.tables.merged_statements import MergedTable, StatementContext
from relay.rules.tables.rules import RULE_FORM, MergedDdl, ParsedTableRule, TableRule, parse_rule, parse_rules

__all__ = [
    "NO_TABLES",
    "RULE_FORM",
    "MergedDdl",
    "MergedTable",
    "ParsedTableRule",
    "StatementContext",
    "TableNames",
    "TableRule",
    "TakenNames",
    "names_after_restore",
    "parse_rule",
    "parse_rules",
]
