"""Mutations of real records on every route, and everything that must hold of what relay makes of them.

    make fuzz                                   # a minute, one process a core; the seed is printed
    make fuzz SECONDS=600 SEED=7                # longer; the sessions of a seed do the same every time
    make fuzz RECORD=artifacts/fuzz/NAME        # one finding again, from the records that were kept of it
    cd tests && ../.venv/bin/python -m fuzz --seed 7 --session 31         # one session again
    cd tests && ../.venv/bin/python -m fuzz --only ticdc-debezium      # routes from or into this protocol

Good records are those of tests/data, and what relay makes of them for protocols that nobody has captured.
Routes have any options that go together, readers' profiles, topics by table or by rule, rows spread by key or
table, chosen tables. Records are changed by structure (`fuzz.mutations`, `fuzz.binary`): members and types of
JSON, Avro and packets, extreme numbers, dates and texts, types, DDL by its grammar, frames, compression, keys,
headers, order, and thousands of blanks, digits, escapes and levels. A protocol is known by its wire, so one that is added is covered without a change
here. What is checked (`fuzz.oracle`, `fuzz.events`):

* errors are relay's own, with protocol and path, of bounded length, and without row values
* all or nothing: a refused record changes neither state nor counters, and after all that was taken back good
  records give the bytes that they give by themselves
* the target's own decoder, with the options of the encoder, reads the output back as the same events
* strict refuses what is counted as lost, and nothing else; the same record gives the same bytes
* a member that no protocol defines is carried and counted, and changes nothing else (`fuzz.unknown`)
* time and memory of a record; a message twice as long takes no more than twice the time (`fuzz.scaling`)
* other ways in for untrusted bytes (`fuzz.entry_points`)

Every finding is reported once, with its seed, and its records are kept as a record file, which `relay inspect`
and `relay translate` read as well. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from toy_protocol.registry import remember

from fuzz.findings import read
from fuzz.runner import Plan, Summary, default_jobs, run
from fuzz.session import reproduce, sample_routes, watch

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Parse the command line and run what it names."""
    given = _parser().parse_args()
    if given.record:
        return _again(Path(given.record))
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed

    def is_wanted(source: str, target: str) -> bool:
        return not given.only or given.only in {source, target}

    # In another order with each seed, so that short runs do not try the same routes every time.
    routes = sample_routes(is_wanted)
    random.Random(seed).shuffle(routes)
    if not routes:
        sys.stderr.write(f"fuzz: unknown protocol {given.only!r}\n")
        return 2
    _say(f"seed {seed}, {len(routes)} routes, {given.jobs} processes, {given.seconds:g} s")
    plan = Plan(given.seconds, seed, given.jobs, tuple(routes), given.output, given.session)
    try:
        return _close(run(plan, _say), plan)
    except KeyboardInterrupt:
        sys.stderr.write("fuzz: interrupted\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, help="what decides everything (default: a new one)")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes (default: one a core)")
    parser.add_argument("--session", type=int, help="this session of the seed alone")
    parser.add_argument("--only", default="", help="routes from or into this protocol alone")
    parser.add_argument("--record", default="", help="a folder that was kept of a finding: that one again")
    parser.add_argument("--output", type=Path, default=ROOT / "artifacts" / "fuzz", help="where findings go")
    return parser


def _again(folder: Path) -> int:
    watch()
    finding = read(folder)
    for id, schema in finding.setting.schemas.items():
        remember(id, schema)
    if finding.check == "entry point" or finding.kind == "worse than linear":
        _say(f"to repeat this one, run its session alone: --seed … --session …\n{finding.text()}")
        return 2
    error = reproduce(finding)
    if error is None:
        _say(f"gone: {' '.join(finding.identity)}")
        return 0
    _say(f"{'again' if error.identity == finding.identity else 'now'}: {error}\n{finding.text()}")
    return 1


def _close(summary: Summary, plan: Plan) -> int:
    rate = summary.records / summary.busy_seconds if summary.busy_seconds else 0
    _say(
        f"{summary.records} records in {summary.cases} cases on {len(summary.routes)} of {len(plan.routes)} routes, "
        f"{summary.sessions} sessions, {rate:.0f} records a second of one core, "
        f"{len(summary.findings)} findings, seed {plan.seed}"
    )
    for identity, count in summary.findings.most_common():
        _say(f"  {count:5} x {' | '.join(identity)}")
    return 1 if summary.findings else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
