"""Faults on purpose: real Apache Kafka, real relay processes, real codecs, and a verifier that knows what
must come out.

    make chaos                          # throughput, a soak, 1000 topics by pattern, and 20 seeds of every scenario in both delivery modes
    make chaos SEEDS=3                  # under 15 minutes on two cores
    make chaos ONLY=relay-kill,network  # these faults alone
    RELAY_KERNEL=shadow make chaos      # with and without templates, compared; no throughput
    cd tests && ../.venv/bin/python -m chaos --only election --mode exactly-once --seed 7     # that run again
    cd tests && ../.venv/bin/python -m chaos soak
    cd tests && ../.venv/bin/python -m chaos topics --mode exactly-once
    cd tests && ../.venv/bin/python -m chaos throughput
    make chaos-spark SEEDS=10           # the Spark job: runs, executors and tasks (`chaos.spark_kills`)

A run takes 20 000 messages of TiCDC Canal-JSON (DDL, inserts, updates, watermarks; 4 partitions) to Canal's
JSON. A third is there at the start, the rest comes in parts, one for each time that the fault happens, so
that relay is at work then. While brokers or the network are away, relay is sometimes killed as well. At the
end it gets SIGTERM, and the verifier (`chaos.verify`) compares source and target:

* no record is lost, in either mode; none is changed; none comes from nowhere
* exactly-once: a read_committed reader gets no record twice and none of an aborted transaction, says the
  broker's own log; no transaction stays open
* the records of a key, and of a partition, first appear in the order of the source; the last record of every
  key is the newest
* the committed offsets are the ends of the source
* every relay that lives ends with status 0 within its deadline after SIGTERM. None ends by itself, except an
  instance that another one of its shard has fenced, and one that was started while no broker could be
  reached. None logs `relay.internal-error`, none writes to standard error

The seed decides what happens and when; the operating system decides the rest, so a repeated run is similar,
not identical. The logs of a failed run stay in .cache/chaos. chaos-results.json holds every run and
measurement. The exit status is 1 if one has failed or missed its target.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from chaos.campaign import campaign
from chaos.experiment import Job
from chaos.faults import MODES, SCENARIOS
from chaos.report import Report
from relay.io.kernel import KernelMode, mode

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Parse the command line and run what it names."""
    given = _parser().parse_args()
    # The harness loses its brokers, too, and its client has much to say about that.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    report = Report(given.output)
    # The measurements come first, while the machine is quiet.
    is_some = given.only or given.mode or given.seed is not None
    # Where each record goes both ways, throughput says nothing.
    everything = ["soak", "topics", "faults"]
    if mode() is not KernelMode.SHADOW:
        everything = ["throughput", *everything]
    what = [given.what] if given.what else ["faults"] if is_some else everything
    try:
        return max([_status(each, given, report) for each in what])
    except KeyboardInterrupt:
        sys.stderr.write("chaos: interrupted\n")
        return 130


def _status(part: str, given: argparse.Namespace, report: Report) -> int:
    """Run a part; return its exit status. A part that raises has failed, and the next ones still run."""
    try:
        return _PARTS[part](given, report)
    except Exception:
        sys.stderr.write(f"chaos: {part} did not finish\n")
        traceback.print_exc()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="?", choices=tuple(_PARTS), help="one part alone (default: all but spark)"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=20,
        help="how many seeds of every scenario and mode, from 1 on (default 20)",
    )
    parser.add_argument("--seed", type=int, help="faults alone, with this seed")
    parser.add_argument(
        "--only", type=_scenarios, default=[], help=f"faults alone, of these: {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--mode", choices=MODES, help="faults, or the soak, in this delivery mode alone")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (default 2)")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the logs of all runs in .cache/chaos, not of failed ones alone",
    )
    parser.add_argument(
        "--messages", type=int, help="for soak (default 1 000 000) and throughput (default 200 000)"
    )
    parser.add_argument("--rate", type=int, default=8_000, help="for soak: messages a second (default 8000)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="for throughput: turns of each program (default 7)"
    )
    parser.add_argument(
        "--topics",
        type=int,
        default=1_000,
        help="for topics: how many, a twentieth of them new (default 1000)",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "chaos-results.json")
    return parser


def _scenarios(text: str) -> list[str]:
    names = text.replace(",", " ").split()
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise argparse.ArgumentTypeError(
            f"no such scenario: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}"
        )
    return names


def _seeds(given: argparse.Namespace) -> list[int]:
    return [given.seed] if given.seed is not None else list(range(1, given.seeds + 1))


def _faults(given: argparse.Namespace, report: Report) -> int:
    modes = [given.mode] if given.mode else list(MODES)
    jobs = [
        Job(name, mode, seed) for name in given.only or SCENARIOS for seed in _seeds(given) for mode in modes
    ]
    return asyncio.run(campaign(jobs, given.jobs, ROOT / ".cache" / "chaos", report, keep=given.keep))


def _soak(given: argparse.Namespace, report: Report) -> int:
    from chaos.soak import soak

    return report.close(asyncio.run(soak(given.mode or MODES[0], given.messages or 1_000_000, given.rate)))


def _topics(given: argparse.Namespace, report: Report) -> int:
    from chaos.pattern_topics import pattern_topics

    return report.close(asyncio.run(pattern_topics(given.mode or MODES[0], given.topics, given.topics // 20)))


def _throughput(given: argparse.Namespace, report: Report) -> int:
    from chaos.throughput import throughput

    return report.close(throughput(given.messages or 200_000, given.rounds))


def _spark(given: argparse.Namespace, report: Report) -> int:
    from chaos.spark_kills import spark_kills

    return report.close(spark_kills(_seeds(given)))


_PARTS: dict[str, Callable[[argparse.Namespace, Report], int]] = {
    "faults": _faults,
    "soak": _soak,
    "topics": _topics,
    "throughput": _throughput,
    "spark": _spark,
}


if __name__ == "__main__":
    sys.exit(main())
