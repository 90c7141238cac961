"""relay writes the same bytes as ever for the captured records: `make bytes WRITE=1` is a decision."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from output_digests import OPTION_SETS, Job, digests_of, jobs, read_digests

from relay.codecs import BUILT_IN

RECORDS = Path(__file__).parent / "data"
JOBS = list(jobs(RECORDS))


@functools.cache
def expected() -> dict[str, str]:
    return read_digests(RECORDS / "output-digests.json")


def prefix_of(job: Job) -> str:
    return f"{job.name}: {job.source} -> "


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.name} from {job.source}")
def test_the_bytes_are_the_same(job: Job) -> None:
    prefix = prefix_of(job)
    assert digests_of(job) == {name: each for name, each in expected().items() if name.startswith(prefix)}


@pytest.mark.parametrize("name", OPTION_SETS)
def test_every_set_of_options_has_every_protocol(name: str) -> None:
    _, by_target = OPTION_SETS[name]
    assert by_target.keys() == BUILT_IN.keys()


def test_no_digest_stands_alone() -> None:
    """A file of records that is gone takes its digests with it."""
    prefixes = tuple(map(prefix_of, JOBS))
    assert [name for name in expected() if not name.startswith(prefixes)] == []
