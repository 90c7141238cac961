"""One replay of a dead-letter topic at a time, with machines whose clocks differ, over a topic in memory."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from config_support import MINIMAL, load

from relay.config import Config
from relay.core.dead_letters import ReplayClaim, read_claim, replay_claim
from relay.io.kafka.ports import Undelivered
from relay.io.kafka.reading import Part
from relay.model.errors import DeliveryFailed, ReplayUnderWay
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.commands import replay_claim as module
from relay.service.commands.replay import Outcome
from relay.service.commands.replay_claim import ClaimTimes

#: What the clock of another machine may say.
CLOCKS = [0, 1_000, 1 << 45]
TOPIC = "dead"


class Topic:
    """Partition 0 of the dead-letter topic, and a sink that writes to it. After `fails_after` records it
    refuses, or with `hangs` does not answer.
    """

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []
        self.fails_after, self.hangs = 1_000_000, False

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def write(self, records: Sequence[ProducerRecord]) -> None:
        if len(self.records) >= self.fails_after:
            if self.hangs:
                await asyncio.sleep(60)
            raise Undelivered("dead/0 is gone", retriable=True)
        for each in records:
            offset = len(self.records)
            self.records.append(
                ConsumerRecord(each.topic, 0, offset, each.timestamp_ms, None, None, each.headers)
            )

    async def read(self, _brokers: object, _topic: str, part: Part, each: Callable[[Any], None]) -> None:
        for record in self.records[part.first or 0 :]:
            each(record)

    async def announce(self, name: str, at_ms: int, *, ends: bool = False) -> None:
        await self.write([replay_claim(TOPIC, name, at_ms, ends=ends)])

    @property
    def at_work(self) -> list[str]:
        claims = [claim for record in self.records if (claim := read_claim(record))]
        ended = {claim.name for claim in claims if claim.ends}
        return [claim.name for claim in claims if claim.name not in ended]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()

    async def topics(*_: object) -> SimpleNamespace:
        return SimpleNamespace(limits={})

    monkeypatch.setattr(module, "KafkaSink", lambda *_: made)
    monkeypatch.setattr(module, "target_topics", topics)
    monkeypatch.setattr(module, "read_part", made.read)
    return made


#: `only_replay` in less time.
only_replay = functools.partial(
    module.only_replay,
    times=ClaimTimes(pause_seconds=0.01, renew_seconds=0.05, write_seconds=0.2, watch_seconds=0.5),
)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load(tmp_path, f'{MINIMAL}[errors]\ndecode = "dead-letter"\ndead_letter_topic = "{TOPIC}"\n')


async def done() -> Outcome:
    return Outcome(letters=7)


@pytest.mark.parametrize("at_ms", CLOCKS)
async def test_a_replay_that_was_killed_is_replaced_after_a_while(
    topic: Topic, config: Config, at_ms: int
) -> None:
    await topic.announce("killed", at_ms)
    said: list[str] = []
    assert (await only_replay(config, done, said.append)).letters == 7
    assert [text.split(":")[0] for text in said] == ["another replay of dead has not ended"]
    assert topic.at_work == [], "the next replay need not watch it again"
    said.clear()
    await only_replay(config, done, said.append)
    assert said == []


@pytest.mark.parametrize("at_ms", CLOCKS)
async def test_a_replay_gives_up_while_another_one_repeats_its_announcement(
    topic: Topic, config: Config, at_ms: int
) -> None:
    await topic.announce("other", at_ms)

    async def renew() -> None:
        while True:
            await asyncio.sleep(0.1)
            await topic.announce("other", at_ms)

    renewing = asyncio.create_task(renew())
    with pytest.raises(ReplayUnderWay, match="another replay of dead is running"):
        await only_replay(config, done)
    renewing.cancel()
    assert set(topic.at_work) == {"other"}


async def test_of_two_replays_that_wait_for_a_killed_one_the_first_proceeds(
    topic: Topic, config: Config
) -> None:
    await topic.announce("killed", 0)
    running = 0

    async def work() -> Outcome:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.3)
        running -= 1
        return Outcome()

    results = await asyncio.gather(*(only_replay(config, work) for _ in range(2)), return_exceptions=True)
    assert [type(result) for result in results] == [Outcome, ReplayUnderWay]


async def test_a_replay_begins_when_the_other_one_ends(topic: Topic, config: Config) -> None:
    await topic.announce("other", 1 << 45)
    replaying = asyncio.create_task(only_replay(config, done))
    await asyncio.sleep(0.1)
    assert not replaying.done()
    await topic.announce("other", 0, ends=True)
    assert (await asyncio.wait_for(replaying, 0.3)).letters == 7


@pytest.mark.parametrize(("hangs", "reason"), [(False, "dead/0 is gone"), (True, "did not acknowledge")])
async def test_a_replay_ends_when_it_cannot_repeat_its_announcement(
    topic: Topic, config: Config, hangs: bool, reason: str
) -> None:
    topic.fails_after, topic.hangs = 2, hangs
    ended = asyncio.Event()

    async def work() -> Outcome:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return Outcome()

    with pytest.raises(
        DeliveryFailed, match=f"{reason}.*run the replay again for the remaining dead letters"
    ):
        await asyncio.wait_for(only_replay(config, work), 5)
    assert ended.is_set()


async def test_the_error_of_a_replay_is_its_own_and_ends_the_announcement(
    topic: Topic, config: Config
) -> None:
    async def work() -> Outcome:
        raise DeliveryFailed("no")

    with pytest.raises(DeliveryFailed, match=r"^no$"):
        await only_replay(config, work)
    claims = [read_claim(record) for record in topic.records]
    assert isinstance(claims[-1], ReplayClaim)
    assert claims[-1].ends
