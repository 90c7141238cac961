"""The Spark benchmark: `python -m benchmarks.spark --help`."""

from __future__ import annotations

import multiprocessing
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import orjson
from spark.java import environment

from benchmarks.machine import this_machine
from benchmarks.spark_load import ROUTE
from benchmarks.spark_matrix import Parameters, parameters
from benchmarks.spark_parts import JOBS, WITHOUT_KAFKA, Job, Place
from benchmarks.spark_report import Machine, Result, Results, report, rows
from relay.demo.kafka import BENCHMARK_JAVA_OPTIONS, Cluster, NodeOptions

_PACKAGES = ("pyspark", "pyarrow")


class JobFailed(Exception):
    """A process of a part ended with an error."""


def main() -> int:
    """Measure, and write the report after every result."""
    given = parameters()
    # Otherwise the broker and the files would remain.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    tell = partial(show_progress, began)
    options = shlex.join(sys.argv[1:]) or "none"
    started = time.strftime("%Y-%m-%d %H:%M")
    results = Results(_machine(), str(ROUTE), started, f"Options: {options}.")

    def write() -> None:
        results.minutes = (time.monotonic() - began) / 60
        given.output.write_text(report(results), encoding="utf-8")
        given.output.with_suffix(".json").write_bytes(
            orjson.dumps(msgspec.to_builtins(results, str_keys=True), option=orjson.OPT_INDENT_2)
        )

    write()  # a wrong --output is an error at once
    with tempfile.TemporaryDirectory(prefix="relay-bench-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ.update(environment(folder / "environment"))
        with _brokers(folder, given, tell) as servers:
            for part in given.only:
                for job in JOBS[part]:
                    try:
                        for result in _results(job, Place(servers, folder, given, tell)):
                            results.found.append(result)
                            write()
                    except JobFailed as error:
                        results.failed[part] = "; ".join(filter(None, [results.failed.get(part), str(error)]))
                    write()
    print(report(results))
    return 1 if any(row.is_missed for row in rows(results)) else 0


def show_progress(began: float, text: str) -> None:
    """Print a line after the seconds since the start."""
    print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)


@contextmanager
def _brokers(folder: Path, given: Parameters, tell: Callable[[str], None]) -> Iterator[str]:
    """Start a broker, if a part needs one."""
    if set(given.only) <= WITHOUT_KAFKA:
        yield ""
        return
    options = NodeOptions(java=BENCHMARK_JAVA_OPTIONS)
    with Cluster(folder / "kafka", options=options, progress=tell) as cluster:
        yield cluster.bootstrap_servers


def _results(job: Job, place: Place) -> Iterator[Result]:
    """Yield the results of a process as it sends them. Raises JobFailed."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(job, place, sending))
    process.start()
    sending.close()
    try:
        while True:
            received = receiving.recv()
            if received is None:
                return
            if isinstance(received, str):
                raise JobFailed(received)
            yield received
    except EOFError:
        process.join()
        raise JobFailed(f"its process ended with status {process.exitcode}") from None
    finally:
        process.terminate()  # it has sent everything, or this run ends early
        process.join()
        receiving.close()


def _run(job: Job, place: Place, sending: Connection) -> None:
    """Send the results of a job, then None; or the text of an error."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for result in job(place):
            sending.send(result)
    except Exception as error:
        traceback.print_exc()
        sending.send(f"{type(error).__name__}: {error}")
    else:
        sending.send(None)


def _machine() -> Machine:
    """Look at the machine before anything runs."""
    (load, *_), found = os.getloadavg(), this_machine()
    packages = found.packages | {name: version(name) for name in _PACKAGES}
    listed = ", ".join(f"{name} {number}" for name, number in packages.items())
    kernel = found.kernel or "without kernel"
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    software = f"{found.python}, {found.platform}, {kernel}; {listed}."
    return Machine(_cpu(), os.cpu_count() or 0, memory_gb, load, software)


def _cpu() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
