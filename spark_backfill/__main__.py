"""`python -m spark_backfill`."""

from __future__ import annotations

from spark_backfill.packages import run

if __name__ == "__main__":
    raise SystemExit(run())
