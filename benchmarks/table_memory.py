"""Memory that many wide tables take: a process of its own translates rows of all of them in turn.

`python -m benchmarks.table_memory [TABLES COLUMNS ROUNDS]` prints what it found as JSON. A round is a row of
every table, and enough rounds come that each table has templates for its inserts, updates and deletes, where
there is an engine (`RELAY_KERNEL`). Messages are made one at a time, so that they take no memory themselves.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks import wide
from benchmarks.routes import ROUTES
from relay.io.kernel import engine, engine_name, mode

TABLES, COLUMNS = 1_000, 200
ROUNDS, QUICK_ROUNDS = 16, 4
#: What these tables may take, all of the process included.
MOST_MB = 256


class TableMemory(msgspec.Struct, frozen=True):
    """What a process took. `templates`: how many of the rows a template has translated. `base_mb`: the peak
    before the first table.
    """

    engine: str
    tables: int
    columns: int
    rows: int
    templates: int
    base_mb: float
    peak_mb: float


def measure(rounds: int, environment: Mapping[str, str]) -> TableMemory:
    """Run the child with this environment."""
    command = [sys.executable, "-m", "benchmarks.table_memory", str(TABLES), str(COLUMNS), str(rounds)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    return msgspec.json.decode(found, type=TableMemory)


def translate(tables: int, columns: int, rounds: int) -> TableMemory:
    """Translate so many rows of each table in this process."""
    rows = tables * rounds
    translator = ROUTES[0].translator(engine(mode()))
    base_mb = _peak_mb()
    for record in wide.of_tables(tables, columns, rows):
        translator.translate(record)
    used = translator.paths["fast"]
    return TableMemory(engine_name(), tables, columns, rows, used, base_mb, _peak_mb())


def _peak_mb() -> float:
    # `getrusage` would begin with the peak of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]] or [TABLES, COLUMNS, ROUNDS]
    print(msgspec.json.encode(translate(*given)).decode())
