"""Check for the packages of the extra `spark`, and Spark's version, before any of them is used."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Final

_NEEDED: Final = ("pyspark", "pyarrow", "pandas")
#: The first with `DataFrame.toArrow` and `Column.try_cast`.
_OLDEST_SPARK: Final = (4, 0)
_USERS_INPUT: Final = 2


def run() -> int:
    """Run the command, or report missing packages; return the exit status."""
    problem = _missing_packages() or _old_spark()
    if problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201 - the command's output
        return _USERS_INPUT
    from spark_backfill.command import main  # noqa: PLC0415 - it imports them

    return main()


def _missing_packages() -> str:
    """Return the message for missing packages; "" if there are all."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if not missing:
        return ""
    return (
        f"the Spark job needs {', '.join(missing)} in {sys.executable}: install relay with its extra, "
        "pip install '.[spark]' in its folder, or add the packages"
    )


def _old_spark() -> str:
    """Return the message for a Spark that is too old; "" for any other, also if its version is no number."""
    found = import_module("pyspark.version").__version__
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or tuple(map(int, numbers.groups())) >= _OLDEST_SPARK:
        return ""
    oldest = ".".join(map(str, _OLDEST_SPARK))
    return (
        f"the Spark job needs Spark {oldest} or later, and {sys.executable} has PySpark {found}: "
        "use a newer Spark, or the spark-submit of one"
    )
