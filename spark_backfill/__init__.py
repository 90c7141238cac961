"""The Spark job: translate history of any size with relay's core, and write it with relay's sink.

Its functions over DataFrames are public: `translate` and `definitions` (docs/notebooks.md), `rows` and
`row_schemas` (docs/rows.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_backfill.dataframes import definitions, translate
    from spark_backfill.typed_rows import row_schemas, rows

__all__ = ["definitions", "row_schemas", "rows", "translate"]


def __getattr__(name: str) -> object:
    # Not at once: the command reports packages that are missing, before any of them is imported.
    if name in {"definitions", "translate"}:
        return getattr(import_module("spark_backfill.dataframes"), name)
    if name in __all__:
        return getattr(import_module("spark_backfill.typed_rows"), name)
    message = f"module 'spark_backfill' has no attribute {name!r}"
    raise AttributeError(message)
