"""Committed offsets: an answer without partitions is no answer, and a coordinator that cannot answer is asked
again.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError

from relay.io.kafka.ports import Partition
from relay.io.kafka.positions import committed_offsets

LOADING, NOT_COORDINATOR, NOT_ALLOWED = 14, 16, 30


class Coordinator:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.deaths = 0

    async def ensure_coordinator_known(self) -> None:
        """Nothing to find."""

    async def _send_req(self, request: object) -> Any:
        return self.answers.pop(0)

    def coordinator_dead(self) -> None:
        self.deaths += 1


def whole(code: int) -> Any:
    return SimpleNamespace(error_code=code, topics=[])


def answering(*partitions: tuple[int, int, str, int]) -> Any:
    return SimpleNamespace(error_code=0, topics=[("t", list(partitions))])


async def asked(*answers: Any) -> tuple[dict[Partition, int], Coordinator]:
    coordinator = Coordinator(*answers)
    consumer, every = SimpleNamespace(_coordinator=coordinator), [Partition("t", 0), Partition("t", 1)]
    return await committed_offsets(consumer, "g", every, pause_seconds=0.0), coordinator


async def test_partitions_without_an_offset_are_left_out() -> None:
    found, _ = await asked(answering((0, 7, "", 0), (1, -1, "", 0)))
    assert found == {Partition("t", 0): 7}


@pytest.mark.parametrize("refusal", [whole(LOADING), answering((0, -1, "", LOADING))])
async def test_a_coordinator_that_loads_is_asked_again(refusal: Any) -> None:
    found, coordinator = await asked(refusal, refusal, answering((0, 7, "", 0), (1, 0, "", 0)))
    assert found == {Partition("t", 0): 7, Partition("t", 1): 0}
    assert coordinator.deaths == 0


@pytest.mark.parametrize("refusal", [whole(NOT_COORDINATOR), answering((0, -1, "", NOT_COORDINATOR))])
async def test_a_coordinator_that_has_moved_is_looked_for(refusal: Any) -> None:
    found, coordinator = await asked(refusal, answering((0, 7, "", 0)))
    assert (found, coordinator.deaths) == ({Partition("t", 0): 7}, 1)


async def test_missing_permission_is_reported() -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        await asked(whole(NOT_ALLOWED))
