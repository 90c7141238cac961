"""Records that wait until the topics of their tables are certain: what the round, the translator and the
schema history know of them, whatever ends the stretch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from service.memory import MemoryBatch, PlainTranslator, Target, plain_status

from relay.catalog import Catalog
from relay.core.error_policies import ErrorPolicies, Policy
from relay.core.pipeline import State
from relay.io.kafka.ports import Partition
from relay.model.errors import Malformed, TopicUnusable
from relay.model.events import TableId
from relay.model.records import ConsumerRecord, ProducerRecord, RecordPosition
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import InFlightBatch, Owned
from relay.service.loop.translation_stage import STRETCH_RECORDS, InFlightBatchBuilder, TranslationStage

#: The first record whose topic is not certain, and how many there are.
FIRST, COUNT = 3, 9
SPOILT = Malformed("canal-json", "$", "spoilt")


class Learning(PlainTranslator):
    """Writes each record to a topic of its own; from FIRST on, nobody has asked for it. `teaches`: offsets
    that change the catalog; `spoilt`: those that cannot be translated.
    """

    def __init__(self, teaches: Collection[int] = (), spoilt: Collection[int] = ()) -> None:
        super().__init__()
        self._teaches, self._spoilt = teaches, spoilt
        self.taken: tuple[int, ...] = ()

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.offset in self._spoilt:
            raise SPOILT
        self.taken += (record.offset,)
        if record.offset in self._teaches:
            self.catalog = Catalog()
        return [ProducerRecord(topic_of(record.offset), record.partition, 0, None, b"%d" % record.offset)]

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        self.catalog = Catalog()
        return ()

    @property
    def state(self) -> State:
        taken: Any = self.taken
        return State(self.catalog, None, taken)

    def restore(self, state: State, /) -> None:
        taken: Any = state.seen
        self.catalog, self.taken = state.catalog, taken


def topic_of(offset: int) -> str:
    return "certain" if offset < FIRST else f"t{offset}"


class Asked:
    """Stands for the topics of tables; those that are `unusable` never are certain."""

    def __init__(self, *unusable: str) -> None:
        self.usable, self.asked = {"certain"}, list[list[str]]()
        self._unusable = unusable

    async def ensure(self, sources: Mapping[str, str]) -> None:
        self.asked.append(list(sources))
        assert set(sources.values()) == {"in"}
        self.usable |= sources.keys() - set(self._unusable)
        if not sources.keys().isdisjoint(self._unusable):
            raise TopicUnusable("it cannot be written")


class Bench:
    """A round that takes COUNT records, of one partition or more."""

    def __init__(  # noqa: PLR0913 - what a round may meet
        self,
        log: Any,
        translator: Learning,
        topics: Asked | None = None,
        *,
        policy: Policy = Policy.STOP,
        ahead: Collection[RecordPosition] = (),
        is_over: Callable[[], bool] = lambda: False,
        resolver: AsyncResolver | None = None,
        stretch_records: int = STRETCH_RECORDS,
    ) -> None:
        self.target, self.owned = Target(), Owned(0, 0, None)
        self.round = InFlightBatch(0, translator.state)
        self.round.pause_at = self.round.ends_at = math.inf
        self._sink = self.target.sink()
        given: Any = topics or Asked()
        self.topics: Asked = given
        self._log, self._status = log, plain_status()
        stage = TranslationStage(
            translator,
            resolver or AsyncResolver(log, writes=False),
            log,
            self._status,
            errors=ErrorPolicies({"decode": policy}, "dead"),
            history_topic="history",
            ahead=frozenset(ahead),
            targets=given,
            stretch_records=stretch_records,
        )
        self.builder: InFlightBatchBuilder = stage.builder(self.round, self._sink, is_over)

    async def take(self, partition: int = 0) -> int:
        records = [ConsumerRecord("in", partition, at, 0, None, b"%d" % at) for at in range(COUNT)]
        return await self.builder.take(records, self.owned)

    async def written(self) -> dict[str, list[bytes]]:
        """What was sent, by topic: values, or the keys of the history and of dead letters."""
        await self.builder.send_rest()
        await self._sink.delivered(self.round.pending)
        found: dict[str, list[bytes]] = {}
        for each in self.target.records:
            found.setdefault(each.topic, []).append(each.key or each.value or b"")
        return found


def of_their_own(*without: int, end: int = COUNT) -> dict[str, list[bytes]]:
    """What is written of the records up to `end`."""
    found: dict[str, list[bytes]] = {}
    for at in range(end):
        if at not in without:
            found.setdefault(topic_of(at), []).append(b"%d" % at)
    return found


async def test_the_history_has_each_record_that_taught_something_once(list_log: Any) -> None:
    """Before the stretch, at its head, in it, and where the table was learned ahead of the record's turn."""
    bench = Bench(
        list_log, Learning({2, FIRST, 5}), ahead={RecordPosition("in", 0, 1), RecordPosition("in", 0, 7)}
    )
    assert await bench.take() == bench.owned.next == COUNT
    kept = {"history": [b"in/0/%d" % at for at in (1, 2, FIRST, 5, 7)]}
    assert await bench.written() == of_their_own() | kept
    assert len(bench.topics.asked) == 1


async def test_a_head_that_was_learned_ahead_is_news(list_log: Any) -> None:
    bench = Bench(list_log, Learning(), ahead={RecordPosition("in", 0, FIRST)})
    assert await bench.take() == COUNT
    assert (await bench.written())["history"] == [b"in/0/%d" % FIRST]


@pytest.mark.parametrize("at", [FIRST, FIRST + 1, 6, COUNT - 1])
async def test_a_refused_record_ends_the_round_before_it(at: int, list_log: Any) -> None:
    """Whether it cannot be translated, or its topic cannot be written."""
    for translator, topics, error in (
        (Learning({5, 7}, spoilt={at}), None, SPOILT),
        (Learning({5, 7}), Asked(topic_of(at)), TopicUnusable),
    ):
        bench = Bench(list_log, translator, topics)
        assert await bench.take() == bench.owned.next == at
        assert bench.round.reached == {Partition("in", 0): at}
        assert translator.taken == tuple(range(at))
        refused = bench.round.refused
        assert refused is not None
        assert refused.offset == at
        assert refused.error is error or type(refused.error) is error
        assert len(bench.topics.asked) <= 2  # of the stretch, and of the record that is refused
        found = await bench.written()
        assert found.pop("history", []) == [b"in/0/%d" % each for each in (5, 7) if each < at]
        assert found == of_their_own(end=at)


async def test_a_refusal_counts_only_once_the_records_before_it_are_done(list_log: Any) -> None:
    """A stop that comes while one of these is stored ends the round before that one."""

    class Cut(AsyncResolver):
        async def store(self, records: Any, *_: Any) -> bool:
            return bool(records[0].value != b"4")

    translator = Learning(spoilt={6})
    bench = Bench(list_log, translator, resolver=Cut(list_log, writes=True))
    assert await bench.take() == bench.owned.next == 4
    assert translator.taken == (0, 1, 2, 3)
    assert bench.round.refused is None


@pytest.mark.parametrize("policy", [Policy.SKIP, Policy.DEAD_LETTER])
@pytest.mark.parametrize("at", [FIRST, FIRST + 1, COUNT - 1])
async def test_a_stretch_goes_on_behind_a_record_that_is_left_out(
    at: int, policy: Policy, list_log: Any
) -> None:
    """Its dead letter, whose topic is asked for with the others, and what it says about tables are kept."""
    bench = Bench(list_log, Learning(spoilt={at}), policy=policy)
    assert await bench.take() == bench.owned.next == COUNT
    assert bench.round.refused is None
    found = await bench.written()
    assert found.pop("history") == [b"in/0/%d" % at]
    assert len(found.pop("dead", [])) == (policy is Policy.DEAD_LETTER)
    assert found == of_their_own(at)


@pytest.mark.parametrize("end", ["none", "stop", "late"])
async def test_others_have_their_turn_within_a_stretch(end: str, list_log: Any) -> None:
    """A stop that comes then, or the end of the round's time, leaves the records behind; what is translated is
    written.
    """
    translator = Learning()
    bench = Bench(list_log, translator, is_over=lambda: end == "stop")
    began = bench.round.pause_at = time.monotonic()
    bench.round.ends_at = began if end == "late" else math.inf
    done = COUNT if end == "none" else FIRST + 2
    assert await bench.take() == bench.owned.next == done
    assert translator.taken == tuple(range(done))
    assert bench.round.pause_at > began
    assert await bench.written() == of_their_own(end=done)


async def test_a_stop_behind_a_stretch_leaves_the_next_records(list_log: Any) -> None:
    stops = iter([False, True])
    translator = Learning()
    bench = Bench(list_log, translator, is_over=lambda: next(stops), stretch_records=2)
    assert await bench.take() == bench.owned.next == FIRST + 4
    assert bench.topics.asked == [["t3", "t4"], ["t5", "t6"]]
    assert translator.taken == tuple(range(FIRST + 4))


async def test_partitions_are_taken_one_behind_the_other(
    list_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has the same tables: their topics are certain by then."""
    monkeypatch.setattr(MemoryBatch, "most", 3)
    bench = Bench(list_log, Learning())
    assert [await bench.take(0), await bench.take(1)] == [COUNT, COUNT]
    assert bench.round.reached == {Partition("in", 0): COUNT, Partition("in", 1): COUNT}
    assert len(bench.topics.asked) == 1
    assert await bench.written() == {name: 2 * values for name, values in of_their_own().items()}
