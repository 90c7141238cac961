"""`make faults`: play every fault, print the table, and write it into docs/failures.md.

ONLY=hung,refused plays some, and writes their rows alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from faults.faults import FAULTS, Fault
from faults.page import Headlines
from faults.prometheus import PROMETHEUS, scraping
from faults.report import written
from faults.site import Brokers, RelayProcess, one_broker, three_brokers
from faults.trial import FAULT_SECONDS, Outcome, play


async def run(
    names: list[str],
    folder: Path,
    seconds: float = FAULT_SECONDS,
    note: Callable[[str, Outcome], object] = lambda *_: None,
) -> dict[str, Outcome]:
    """Play these faults, each on a cluster of its kind and for so many seconds; `note` gets each outcome."""
    outcomes: dict[str, Outcome] = {}
    async with Headlines() as headlines:
        for count, cluster in ((1, one_broker), (3, three_brokers)):
            chosen = {name: FAULTS[name] for name in names if FAULTS[name].brokers == count}
            if not chosen:
                continue
            async with cluster(folder / f"brokers-{count}") as brokers:
                for name, fault in chosen.items():
                    outcomes[name] = await _played(fault, brokers, folder / name, headlines, seconds)
                    note(name, outcomes[name])
    return {name: outcomes[name] for name in names}


async def _played(
    fault: Fault, brokers: Brokers, folder: Path, headlines: Headlines, seconds: float
) -> Outcome:
    relay = RelayProcess(brokers, folder, processes=fault.processes, mode=fault.mode)
    await prepared(fault, brokers, relay)
    async with contextlib.AsyncExitStack() as stack:
        prometheus = None
        if PROMETHEUS is not None:
            prometheus = await stack.enter_async_context(scraping(relay.port, folder / "prometheus"))
        return await play(fault, brokers, relay, headlines, prometheus, seconds=seconds)


async def prepared(fault: Fault, brokers: Brokers, relay: RelayProcess) -> None:
    """Create the topics of a relay."""
    for topic, nodes in zip((relay.source, relay.target), fault.replicas, strict=True):
        await brokers.create(topic, {number: list(nodes) for number in range(fault.processes)})


def noted(name: str, outcome: Outcome) -> None:
    """Show an outcome, and write it into the page."""
    sys.stderr.write(f"{name}: {outcome}\n")
    written({name: outcome})


def main() -> None:
    """Run."""
    # The feeder's own client reports every fault, too.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--only", default="")
    names = [name for name in parser.parse_args().only.split(",") if name] or list(FAULTS)
    with tempfile.TemporaryDirectory(prefix="relay-faults-", ignore_cleanup_errors=True) as folder:
        outcomes = asyncio.run(run(names, Path(folder), note=noted))
    complaints = {name: found.complaints for name, found in outcomes.items() if found.complaints}
    for name, found in complaints.items():
        sys.stderr.write(f"{name}: {'; '.join(found)}\n")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
