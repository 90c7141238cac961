"""The schema catalog: which definition a table had when a row changed. It learns from the stream's own DDL.

Contract: a `Catalog` is a value; `learn` gives a new one, and raises only LimitExceeded. Every table
has a history of versions, newest first, each with the position of the statement that made it. A row sees the
newest version whose statement strictly precedes it. A version also keeps its cause. So a statement that
arrives late (from another partition or topic) takes its place in the order of positions, and what was derived
from the older definition is derived again. The same statement seen twice (broadcast to all partitions, or
replayed) is recognized by the identity that its versions carry. Where a definition cannot be known (a table
made by a query, an ALTER that does not fit) the table is unknown rather than wrong.
"""

from relay.catalog.catalog import HISTORY_LIMIT, Catalog, EffectiveSchema
from relay.catalog.learning import DdlMessage, define, learn, left_by
from relay.catalog.versions import Unknown
from relay.catalog.writer import DdlBudget

__all__ = [
    "HISTORY_LIMIT",
    "Catalog",
    "DdlBudget",
    "DdlMessage",
    "EffectiveSchema",
    "Unknown",
    "define",
    "learn",
    "left_by",
]
