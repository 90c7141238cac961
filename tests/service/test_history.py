"""What is kept in topics of relay's own: the schema history and the progress of exactly-once. Their bytes are
golden files.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from service.memory import PLAIN, A, B, Bench, MemoryBatch, PlainTranslator, plain_status
from support import CANAL, OPEN, TICDC, captured

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.catalog import Catalog
from relay.config import Config
from relay.core.pipeline import State
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.progress import progress_in, progress_records
from relay.io.record_lines import format_record, parse_record
from relay.io.resolver import Resolver
from relay.model.errors import TopicUnusable
from relay.model.events import TableId
from relay.model.records import Header
from relay.mysql.types import format_type
from relay.service.loop.history import Schemas, apply_records, history_record, kept_records, source_records

GOLDEN = Path(__file__).with_name("schema_history.golden.jsonl")
GOLDEN_PROGRESS = Path(__file__).with_name("progress.golden.jsonl")
DEBEZIUM = "ticdc-debezium"
HEADERS: tuple[Header, ...] = (("h", None), ("h", b"\xff"), ("relay.source", b"orders/0/1/0"))


class Case(NamedTuple):
    """A captured CREATE TABLE, with headers that it might have had, and what the newest definition is then."""

    protocol: str
    file: str
    line: int
    teaches: dict[str, str]
    headers: tuple[Header, ...] = ()


USERS = {"id": "int", "name": "varchar(20)"}
ACCOUNTS = {
    "id": "int",
    "name": "varchar(30)",
    "balance": "decimal(12,2)",
    "note": "text",
    "email": "varchar(50)",
}
LATIN = {"id": "int", "v": "varchar(40)", "t": "text", "c": "char(20)"}
CASES = [
    Case(TICDC, "ticdc/canal-json/10_ddl", 1, USERS),
    Case(TICDC, "ticdc/canal-json.tidb-extension/09_dml", 1, ACCOUNTS, HEADERS),
    Case(CANAL, "mysql/canal-json/10_ddl", 1, USERS),
    Case(OPEN, "ticdc/open-protocol/10_ddl", 1, USERS),
    # Compressed bytes are no text.
    Case(OPEN, "ticdc/open-protocol.lz4/09_dml", 1, ACCOUNTS),
    Case(DEBEZIUM, "ticdc/debezium/05_charsets", 1, LATIN),
]


def original(case: Case) -> ConsumerRecord:
    return msgspec.structs.replace(captured(case.file)[case.line], headers=case.headers)


def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def as_read(
    written: ProducerRecord | ConsumerRecord, offset: int = 0, value: bytes | None = b""
) -> ConsumerRecord:
    """What a consumer gets of a record of the history; `value` in place of its own."""
    return ConsumerRecord(
        "history", 0, offset, written.timestamp_ms, written.key, written.value if value == b"" else value
    )


def entries(path: str = "ticdc/canal-json/10_ddl", count: int = 4) -> list[ConsumerRecord]:
    """Records of a history: the first statements of a file that define tables."""
    translator = Translator(TICDC, CANAL)
    found: list[ConsumerRecord] = []
    for record in captured(path):
        before = translator.catalog
        translator.learn(record)
        if translator.catalog is not before:
            found.append(as_read(history_record(record, "history"), len(found)))
    return found[:count]


# ---------------------------------------------------------------- the format on disk


@pytest.mark.parametrize(("case", "line"), list(zip(CASES, range(len(CASES)), strict=True)), ids=str)
def test_history_records_are_the_golden_ones(case: Case, line: int) -> None:
    """What is in topics today must be read tomorrow. A change of these bytes is a change of the format."""
    written = history_record(original(case), "history")
    assert (written.topic, written.partition, written.headers) == ("history", 0, ())
    assert {
        "protocol": case.protocol,
        "timestamp": written.timestamp_ms,
        "key": (written.key or b"").decode(),
        "value": (written.value or b"").decode(),
    } == golden()[line]


@pytest.mark.parametrize(("case", "line"), list(zip(CASES, range(len(CASES)), strict=True)), ids=str)
def test_golden_history_records_are_read(case: Case, line: int) -> None:
    kept = golden()[line]
    read = ConsumerRecord("history", 0, 0, kept["timestamp"], kept["key"].encode(), kept["value"].encode())
    assert source_records([read]) == [original(case)]
    translator = Translator(case.protocol, CANAL)
    assert apply_records(translator, source_records([read])) == 0
    (tables,) = translator.catalog.histories.values()
    ((newest,),) = tables.values()
    assert newest.schema is not None
    assert {column.name: format_type(column.type) for column in newest.schema.columns} == case.teaches


def test_no_golden_line_is_left_over() -> None:
    assert len(golden()) == len(CASES)


def test_progress_records_are_the_golden_ones() -> None:
    offsets = {Partition("orders", 0): 0, Partition("or.ders_-", 12): 2**63 - 1}
    lines = GOLDEN_PROGRESS.read_bytes().splitlines(keepends=True)
    written = list(progress_records("progress", "a/group", offsets))
    assert [format_record(record, offset) for offset, record in enumerate(written)] == lines
    assert progress_in(map(parse_record, lines), "a/group") == offsets


def test_progress_is_each_groups_own_and_the_newest_counts() -> None:
    groups = {"a": 5, "a/b": 7, "b/a": 9}
    written = [
        next(progress_records("p", group, {Partition("t", 0): at}))
        for group, at in [*groups.items(), ("a", 6)]
    ]
    read = [as_read(record) for record in written]
    assert [progress_in(read, group) for group in ("a", "a/b", "b/a", "c")] == [
        {Partition("t", 0): 6},
        {Partition("t", 0): 7},
        {Partition("t", 0): 9},
        {},
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"offset":1}'),
        (b"g/t/0", None),
        (b"g/t/0", b'{"offset":"x"}'),
        (b"g/t/0", b'{"offset":null}'),
        (b"g/t/0", b"[]"),
        (b"g/t/0", b"5"),
        (b"g/t/0", b'{"offset":"5"}'),
        (b"g/t/0", b'{"offset":1.5}'),
        (b"g/t/0", b'{"offset":true}'),
        (b"g/t/0", b'{"offset":-1}'),
        (b"g/t/0", b'{"offset":123456789012345678901234567890}'),
        (b"g/t/0", b'{"offset":1'),
        (b"g/t/0", b"plain text"),
        (b"g/t/0", b"\xff"),
        (b"g/t/x", b'{"offset":1}'),
        (b"t/0", b'{"offset":1}'),
        (b"\xff/t/0", b'{"offset":1}'),
    ],
)
def test_an_invalid_progress_record_is_reported(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(TopicUnusable, match="p/0 at 3 is not a progress record: set progress_topic"):
        progress_in([ConsumerRecord("p", 0, 3, 0, key, value)], "g")


# ---------------------------------------------------------------- what counts


def test_repeats_keep_the_place_of_the_first() -> None:
    kept = entries()
    again = [*kept, as_read(kept[1], 4), as_read(kept[0], 5)]
    assert [each.key for each in kept_records(again)] == [each.key for each in kept]
    assert source_records(again) == source_records(kept)


def test_what_was_taken_out_is_left_out() -> None:
    """Also before compaction has removed it from the topic; what comes again later counts."""
    kept = entries()
    gone = [as_read(each, 4 + number, value=None) for number, each in enumerate(kept)]
    assert source_records([*kept, *gone]) == []
    assert source_records([*kept, *gone[:2]]) == source_records(kept[2:])
    assert source_records([*kept, *gone, as_read(kept[1], 9)]) == source_records(kept[1:2])
    assert source_records([*gone, *kept]) == source_records(kept)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not valid JSON"),
        (b"\x00\xff", "not valid JSON"),
        (b'{"topic":"orders"', "not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"partition":0,"offset":1,"value":"x"}', "missing required field `topic`"),
        (b'{"topic":"t","partition":0,"value":"x"}', "missing required field `offset`"),
        (b'{"topic":"t","partition":0,"offset":1,"value":{"base64":"!"}}', "base64"),
        (b'{"topic":"t","partition":-1,"offset":1,"value":"x"}', "Expected `int` >= 0 - at `$.partition`"),
    ],
)
def test_a_damaged_entry_is_reported_with_its_position(value: bytes, reason: str) -> None:
    first, second, *_ = entries()
    damaged = ConsumerRecord("history", 0, 7, 0, b"orders/0/9", value)
    with pytest.raises(TopicUnusable) as raised:
        source_records([first, damaged, second])
    assert str(raised.value).startswith("history/0 at 7 is not a record of a schema history: ")
    assert reason in str(raised.value)
    assert "history_topic in [schema]" in str(raised.value)
    # Taken out, it does no harm any more.
    gone = ConsumerRecord("history", 0, 8, 0, b"orders/0/9", None)
    assert len(source_records([first, damaged, second, gone])) == 2


def test_entries_that_the_route_cannot_read_are_counted() -> None:
    """As after a change of `from`: what can be read is learned all the same."""
    of_canal = entries()
    others = [
        as_read(history_record(original(case), "history"))
        for case in CASES
        if case.protocol in {OPEN, DEBEZIUM}
    ]
    others = [msgspec.structs.replace(each, key=b"%d" % number) for number, each in enumerate(others)]
    translator = Translator(TICDC, CANAL)
    assert apply_records(translator, source_records([*others, *of_canal])) == 3
    other = Translator(TICDC, CANAL)
    assert apply_records(other, source_records(of_canal)) == 0
    assert translator.catalog == other.catalog != Catalog()


def test_learning_twice_changes_nothing() -> None:
    translator, records = Translator(TICDC, CANAL), source_records(entries())
    apply_records(translator, records)
    before = translator.catalog
    assert apply_records(translator, [*records, *reversed(records)]) == 0
    assert translator.catalog is before


# ---------------------------------------------------------------- a loop that goes back


class Pupil(PlainTranslator):
    """Copies, and remembers the values that it was taught; `restore` forgets those that came later."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[bytes | None, None] = {}

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        if record.value not in self.known:
            self.known[record.value] = None
            self.catalog = Catalog()
        return ()

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        return [ProducerRecord("out", record.partition, 0, None, record.value)]

    @property
    def state(self) -> State:
        return State(self.catalog, tuple(self.known))  # type: ignore[arg-type]  # in place of a gate

    def restore(self, state: State, /) -> None:
        super().restore(state)
        self.known = dict.fromkeys(state.gate)  # type: ignore[call-overload]  # in place of a gate


class Topic:
    """A history to which another instance adds between two polls."""

    def __init__(self) -> None:
        self.coming: list[ConsumerRecord] = []
        self.health = ClientHealth()

    async def to_end(self, take: Callable[[list[ConsumerRecord]], None], _: object) -> None:
        take(await self.new())

    async def new(self) -> list[ConsumerRecord]:
        coming, self.coming = self.coming, []
        return coming

    async def stop(self) -> None:
        pass


def reading(
    topic: Any, translator: Any, log: Any, config: Config = PLAIN, resolver: Resolver | None = None
) -> Schemas:
    """The schemas of a relay that reads this topic."""
    return Schemas(config, translator, log, plain_status(), resolver=resolver, topic=topic)


def entry_of_another_route() -> ConsumerRecord:
    taught = ConsumerRecord("in", 7, 0, 0, None, b"CREATE TABLE")
    return as_read(history_record(taught, "history"))


async def test_rewound_teaches_what_was_learned_out_of_turn(list_log: Any) -> None:
    pupil, topic = Pupil(), Topic()
    schemas = reading(topic, pupil, list_log)
    before = pupil.state
    topic.coming = [entry_of_another_route()]
    await schemas.ready({})
    assert list(pupil.known) == [b"CREATE TABLE"]
    pupil.restore(before)
    await schemas.rewound({})
    assert list(pupil.known) == [b"CREATE TABLE"]


async def test_what_was_learned_is_let_go_when_everything_is_safe(list_log: Any) -> None:
    """The translator is never set back behind such a moment."""
    pupil, topic = Pupil(), Topic()
    config = PLAIN.model_copy(update={"limits": PLAIN.limits.model_copy(update={"cache_bytes": 1})})
    schemas, before = reading(topic, pupil, list_log, config), pupil.state
    topic.coming = [entry_of_another_route()]
    await schemas.ready({})
    much = [schemas.holds_much]
    schemas.settled({})
    assert [*much, schemas.holds_much] == [True, False]
    assert list(pupil.known) == [b"CREATE TABLE"]
    pupil.restore(before)
    await schemas.rewound({})
    assert not pupil.known


async def test_learning_much_lets_others_have_their_turn(list_log: Any) -> None:
    """30,000 statements of a history would else be seconds without a heartbeat."""

    class Slow(Pupil):
        def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
            time.sleep(0.002)  # as a statement of many columns
            return super().learn(record)

    topic, turns = Topic(), 0
    schemas = reading(topic, Slow(), list_log)
    records = [ConsumerRecord("in", 7, number, 0, None, b"%d" % number) for number in range(100)]
    topic.coming = [
        as_read(history_record(record, "history"), number) for number, record in enumerate(records)
    ]
    learning = asyncio.create_task(schemas.ready({}))
    while not learning.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_failed_delivery_does_not_undo_entries_of_others(list_log: Any, transactional: bool) -> None:
    """The history is read once: definitions from after the position to which the loop returns must not be
    lost.
    """
    pupil, topic = Pupil(), Topic()
    bench = Bench(list_log, A, B, copy=pupil, transactional=transactional, topic=topic)
    failures = [Undelivered("refused", retriable=True)]

    def refuse(batch: MemoryBatch) -> Undelivered | None:
        if not failures or int(batch[0].value or b"") < 6:
            return None
        # The next poll comes before the failure is noticed: the one round is under way, and the other learns
        # from the history.
        topic.coming = [entry_of_another_route()]
        return failures.pop()

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    bench.check_complete()
    assert pupil.restored == 1
    assert list(pupil.known) == [b"CREATE TABLE"]


async def test_what_is_damaged_while_relay_runs_ends_it(list_log: Any) -> None:
    topic = Topic()
    schemas = reading(topic, Pupil(), list_log)
    topic.coming = [ConsumerRecord("history", 0, 3, 0, b"orders/0/7", b"something else")]
    async with asyncio.timeout(5):
        with pytest.raises(TopicUnusable, match="history/0 at 3 is not a record"):
            await schemas.ready({})


@pytest.mark.parametrize("key", [None, b"", b"k", b"a/b/c", b"7/0", b"orders/0/x"])
async def test_what_others_have_written_is_passed_over(list_log: Any, key: bytes | None) -> None:
    pupil, topic = Pupil(), Topic()
    schemas = reading(topic, pupil, list_log)
    topic.coming = [ConsumerRecord("history", 0, 3, 0, key, b"something else"), entry_of_another_route()]
    await schemas.ready({})
    assert list(pupil.known) == [b"CREATE TABLE"]
    (said,) = list_log.named("schemas.foreign-record")
    assert said["message"].startswith("history/0 at 3 is not a record of a schema history: ")
    assert "relay schema-history repair" in said["message"]


def test_entries_name_their_route() -> None:
    written = history_record(original(CASES[0]), "history", "g canal-json to debezium-json out")
    assert written.headers == (("relay.route", b"g canal-json to debezium-json out"),)
    assert history_record(original(CASES[0]), "history").headers == ()


# ---------------------------------------------------------------- records of other topics


def kept_of(topic: str, offset: int) -> ConsumerRecord:
    return as_read(
        history_record(ConsumerRecord(topic, 0, offset, 0, None, b"CREATE TABLE %d" % offset), "history")
    )


async def test_records_of_unread_topics_are_reported_once(list_log: Any) -> None:
    """They are learned: somebody may have imported them. Or another route keeps its tables in the same topic."""
    pupil, topic = Pupil(), Topic()
    schemas = reading(topic, pupil, list_log)
    topic.coming = [kept_of("in", 1), kept_of("theirs", 2), kept_of("theirs", 3), kept_of("by-hand", 4)]
    await schemas.load()
    topic.coming = [kept_of("theirs", 5), kept_of("in", 6)]
    await schemas.ready({})
    topic.coming = [kept_of("new", 7)]
    await schemas.ready({})
    logged = list_log.named("schemas.foreign")
    assert [(each["level"], each["topics"], each["records"]) for each in logged] == [
        ("warning", ["by-hand", "theirs"], 3),
        ("warning", ["new"], 1),
    ]
    assert len(pupil.known) == 7


async def test_a_history_of_ones_own_is_not_foreign(list_log: Any) -> None:
    topic = Topic()
    schemas = reading(topic, Pupil(), list_log)
    topic.coming = [kept_of("in", 1), kept_of("in", 2)]
    await schemas.load()
    assert list_log.named("schemas.foreign") == []
