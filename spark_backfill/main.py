"""The file for `spark-submit`; the job itself is installed beside it."""

from __future__ import annotations

from spark_backfill.packages import run

if __name__ == "__main__":
    raise SystemExit(run())
