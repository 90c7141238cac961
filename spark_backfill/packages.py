"""Check for the packages of the extra `spark` before any of them is imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

_NEEDED: Final = ("pyspark", "pyarrow", "pandas")
_USERS_INPUT: Final = 2


def run() -> int:
    """Run the command, or report missing packages; return the exit status."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(  # noqa: T201 - the command's output
            f"error: the Spark job needs {', '.join(missing)} in {sys.executable}: "
            "install relay with its extra, pip install '.[spark]' in its folder, or add the packages",
            file=sys.stderr,
        )
        return _USERS_INPUT
    from spark_backfill.command import main  # noqa: PLC0415 - it imports them

    return main()
