"""The schema catalog: maps each table and position to the definition that the table had there.

A `Catalog` is an immutable value. `apply_ddl` applies a DDL statement from the stream and returns a new
catalog; it raises only LimitExceeded. Each table has a history of versions, newest first, each with the
position of the statement that created it. A row uses the newest version whose statement strictly precedes it.

A version keeps the effect of its statement, too. A statement that arrives late (from another partition or
topic) is therefore inserted in position order, and the versions after it are derived again. A repeated
statement (broadcast to all partitions, or replayed) is recognized by the identity that its versions carry. If
a definition cannot be known (a table created from a query, an ALTER that does not fit), the table is unknown
rather than wrong.
"""

from relay.catalog.catalog import HISTORY_LIMIT, Catalog, EffectiveSchema
from relay.catalog.learning import apply_bootstrap, apply_ddl, definition_after
from relay.catalog.messages import DdlMessage
from relay.catalog.versions import Unknown
from relay.catalog.writer import DdlBudget

__all__ = [
    "HISTORY_LIMIT",
    "Catalog",
    "DdlBudget",
    "DdlMessage",
    "EffectiveSchema",
    "Unknown",
    "apply_bootstrap",
    "apply_ddl",
    "definition_after",
]
