"""What the statements of one record may cost."""

from __future__ import annotations

from typing import Final

from relay.catalog.catalog import HISTORY_LIMIT
from relay.limits import MYSQL_COLUMNS, Budget, Limits
from relay.model import TableSchema
from relay.mysql.ddl import alter_table
from relay.mysql.ddl.statements import Change

#: Columns that the statements of a record may go through. Double what one late statement takes, if all that
#: is kept of a table of the most columns comes after it; some 0.5 µs each.
_ALTERED_COLUMNS: Final = 2 * HISTORY_LIMIT * MYSQL_COLUMNS
#: Looking so many columns up costs what going through all of them does, to take them apart and put together.
_CHANGES_A_PASS: Final = 16


class DdlBudget:
    """What the statements of one record may still cost together: their number, and the columns that are gone
    through to alter tables, and to apply again the statements after one that is late.
    """

    __slots__ = ("_columns", "statements")

    def __init__(self, limits: Limits) -> None:
        self.statements = Budget("ddl_statements", limits.ddl_statements)
        self._columns = _ALTERED_COLUMNS

    def altered(self, schema: TableSchema, changes: tuple[Change, ...]) -> TableSchema | None:
        """The definition after these changes; None, unknown, if they do not fit or too much was altered."""
        self._columns -= len(schema.columns) * (1 + len(changes) // _CHANGES_A_PASS)
        return None if self._columns < 0 else alter_table(schema, changes)
