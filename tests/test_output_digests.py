"""relay writes the same bytes as ever for the captured records: `make bytes WRITE=1` is a decision.

Each file is translated to every target, with one of the sets of options; the files of a source take turns, so
that each route has each set. `make bytes` and `make routes` take every file through all of them.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

import pytest
from output_digests import OPTION_SETS, Job, digests_of, jobs, name_of, read_digests
from support import ALL_ROUTES, WRITABLE

RECORDS = Path(__file__).parent / "data"
JOBS = list(jobs(RECORDS))
TARGETS, SETS = sorted(WRITABLE), list(OPTION_SETS)


@functools.cache
def expected() -> dict[str, str]:
    return read_digests(RECORDS / "output-digests.json")


def is_foreign(job: Job) -> bool:
    """Whether the records are of another format, which every protocol is to refuse."""
    return sum(other.path == job.path for other in JOBS) > 2


@functools.cache
def turns() -> dict[Job, int]:
    """The number of a job among those of its source, and of its kind."""
    counts: dict[tuple[str, bool], int] = defaultdict(int)
    found = {}
    for job in JOBS:
        kind = job.source, is_foreign(job)
        found[job] = counts[kind]
        counts[kind] += 1
    return found


def is_chosen(job: Job, set_name: str, target: str) -> bool:
    turn = turns()[job] + TARGETS.index(target)
    return ALL_ROUTES or SETS[turn % len(SETS)] == set_name


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.name} from {job.source}")
def test_the_bytes_are_the_same(job: Job) -> None:
    names = {
        name_of(job, each, target) for each in SETS for target in TARGETS if is_chosen(job, each, target)
    }
    found = digests_of(job, functools.partial(is_chosen, job))
    assert found == {name: each for name, each in expected().items() if name in names}
    assert found.keys() == names


def test_every_route_has_every_set_of_options() -> None:
    for source in {job.source for job in JOBS if not is_foreign(job)}:
        those = [job for job in JOBS if job.source == source and not is_foreign(job)]
        for target in TARGETS:
            assert {each for each in SETS for job in those if is_chosen(job, each, target)} == set(SETS)


def test_every_digest_has_a_file_and_every_file_its_digests() -> None:
    every = {name_of(job, each, target) for job in JOBS for each in SETS for target in TARGETS}
    assert expected().keys() == every


@pytest.mark.parametrize("name", OPTION_SETS)
def test_every_set_of_options_has_every_protocol(name: str) -> None:
    _, by_target = OPTION_SETS[name]
    assert by_target.keys() == WRITABLE
