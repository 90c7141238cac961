"""`deduplicate` drops rows that TiCDC sends again below the watermark, and never any other row."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from engine_support import ENGINE, ENGINES
from hypothesis import given
from hypothesis import strategies as st
from repeats_support import (
    COUNTED,
    FIRST_TS,
    Log,
    Producer,
    Sent,
    SentRow,
    SentStatement,
    SentWatermark,
    Tables,
    records_of,
    rows_in,
    split,
    without_repeats,
)
from support import TICDC, captured, protocol_of, reading_options, record
from templates_support import Both

from relay import ConfigError, RowRule, Translator
from relay.codecs.losses import Loss
from relay.core.pipeline import State
from relay.core.selection import Selection, chosen_tables
from relay.core.verification import ShadowTranslator
from relay.model.events import Bootstrap, RowChange, SchemaChange
from relay.templates.engine import Engine

#: Random numbers from a seed.
chances = st.integers(0, 2**32 - 1).map(random.Random)


def translator(**settings: Any) -> Translator:
    return Translator(TICDC, TICDC, {}, {"enable-tidb-extension": "true"}, deduplicate=True, **settings)


def written(sent: list[Sent], **settings: Any) -> list[SentRow]:
    made = translator(**settings)
    return [row for each in records_of(sent) for row in rows_in(made.translate(each))]


def row(at: int, identity: int = 1, table: str = "a", old: bool = False) -> SentRow:
    """An INSERT, or an UPDATE, of which every one has another email."""
    before = (identity, 0) if old else None
    return SentRow(FIRST_TS + at, table, before, (identity, at))


def watermark(at: int) -> SentWatermark:
    return SentWatermark(FIRST_TS + at)


A, B, C = row(1), row(2, old=True), row(3, identity=2)


@given(chances)
def test_output_is_the_stream_without_repeats(chance: random.Random) -> None:
    sent = Producer(Log(chance, 20), chance).run(120)
    assert written(sent) == split(without_repeats(sent))


@given(chances, st.integers(1, 12))
def test_nothing_is_lost_with_any_memory(chance: random.Random, memory: int) -> None:
    log = Log(chance, 20)
    sent = Producer(log, chance).run(120)
    found = written(sent, deduplicate_rows=memory)
    assert set(found) == set(split(log.rows))
    assert Tables().apply(found).rows == Tables().apply(log.rows).rows


@given(chances, st.integers(1, 40))
def test_nothing_is_lost_when_records_are_read_again(chance: random.Random, memory: int) -> None:
    """Deliveries fail: some of the records after a state arrive, or none, and all are read again."""
    log = Log(chance, 20)
    records = records_of(Producer(log, chance).run(120))
    made, found = translator(deduplicate_rows=memory), list[SentRow]()
    at, safe, state = 0, 0, made.state
    pending: list[SentRow] = []
    while at < len(records):
        pending += rows_in(made.translate(records[at]))
        at += 1
        chosen = chance.random()
        if chosen < 0.1:
            found += pending[: chance.randrange(len(pending) + 1)]
            made.restore(state)
            at, pending = safe, []
        elif chosen < 0.3:
            found += pending
            safe, state, pending = at, made.state, []
    found += pending
    assert set(found) == set(split(log.rows))
    assert Tables().apply(found).rows == Tables().apply(log.rows).rows


def test_a_repeat_below_the_watermark_is_dropped_and_counted() -> None:
    made = translator()
    out = [made.translate(each) for each in records_of([A, B, watermark(3), A, B, C])]
    assert [len(each) for each in out] == [1, 1, 1, 0, 0, 1]
    assert [made.losses[kind] for kind in COUNTED] == [2, 0, 0]
    assert made.events == {"insert": 2, "update": 1, "watermark": 1}
    assert made.remembered_rows == 3


def test_a_repeat_at_the_watermark_or_above_is_written() -> None:
    """Its order is not settled: B, A, B is possible if A could not be sent at first."""
    made = translator()
    rows = [row for each in records_of([B, A, B, watermark(2), B]) for row in rows_in(made.translate(each))]
    assert rows == [B, A, B, B]
    assert [made.losses[kind] for kind in COUNTED] == [0, 0, 2]


def test_a_row_below_the_watermark_that_never_came_is_written() -> None:
    assert written([A, watermark(9), row(5, identity=3)]) == [A, row(5, identity=3)]


def test_after_an_unknown_row_all_others_are_written_again() -> None:
    """The reader would keep row 1 of the repeat, if only the rows after it were dropped."""
    made = translator()
    sent: list[Sent] = [B, C, watermark(9), A, B, C, A, B, C]
    rows = [row for each in records_of(sent) for row in rows_in(made.translate(each))]
    assert rows == [B, C, A, B, C, A, B, C]
    assert made.losses[Loss.ROWS_BELOW_WATERMARK] == 6


def test_a_statement_ends_what_is_remembered() -> None:
    """A repeated TRUNCATE removes rows that came after it, so these must be written again."""
    truncate = SentStatement(FIRST_TS + 2, "a")
    assert written([A, truncate, C, watermark(9), A, truncate, C]) == [A, C, A, C]


def test_a_statement_of_another_partition_that_was_read_ahead_counts_too() -> None:
    made = translator()
    for each in records_of([A, watermark(9)]):
        made.translate(each)
    made.learn(record(SentStatement(FIRST_TS + 2, "a").message, partition=1))
    assert made.remembered_rows == 0


def test_partitions_are_separate() -> None:
    made = translator()
    for each in records_of([A, watermark(9)]):
        made.translate(each)
    assert made.translate(record(A.message, partition=1, offset=7))
    assert not made.translate(record(A.message, partition=0, offset=7))


def test_rows_of_another_operation_or_time_or_key_are_others() -> None:
    delete = SentRow(A.commit_ts, "a", A.new, None)
    others = [delete, row(4), row(1, identity=2), row(1, table="b")]
    for other in others:
        assert written([A, watermark(9), other]) == [A, other]


def test_rows_without_a_key_or_commit_ts_are_written() -> None:
    made = translator()
    keyless = A.message | {"pkNames": None}
    timeless = A.message | {"_tidb": None}
    for message in (keyless, timeless, watermark(9).message, keyless, timeless):
        assert len(made.translate(record(message, offset=made.events.total()))) == 1
    assert made.losses[Loss.ROWS_BELOW_WATERMARK] == 1
    assert made.remembered_rows == 0


@pytest.mark.parametrize("engine", [None, ENGINE])
def test_rows_with_keys_that_no_column_can_hold_are_written(engine: type[Engine] | None) -> None:
    """Some decoders pass on integers of any size, as text."""
    made = translator(engine=engine)
    wide = [A.message | {"data": [{"id": f"{at}{10**20}", "email": "e1"}]} for at in (1, 2, 3, 4)]
    records = [*wide, watermark(9).message, *wide]
    out = [made.translate(record(message, offset=at)) for at, message in enumerate(records)]
    assert [len(each) for each in out] == [1] * 9
    assert made.remembered_rows == 0


def test_rows_without_a_key_do_not_end_what_is_remembered() -> None:
    made = translator()
    messages = [A.message, watermark(9).message, A.message | {"pkNames": None}, A.message]
    out = [made.translate(record(message, offset=at)) for at, message in enumerate(messages)]
    assert [len(each) for each in out] == [1, 1, 1, 0]


def test_forgotten_rows_have_no_repeats() -> None:
    made = translator()
    for each in records_of([A, watermark(9)]):
        made.translate(each)
    made.forget_rows()
    assert made.translate(record(A.message, offset=10))
    assert made.translate(record(watermark(9).message, offset=11))
    assert not made.translate(record(A.message, offset=12))


def test_forgotten_rows_stay_forgotten_if_a_state_is_restored() -> None:
    """A delivery from before a rebalance fails after it, when others may have written older rows again."""
    made = translator()
    for each in records_of([A, watermark(9)]):
        made.translate(each)
    before = made.state
    made.forget_rows()
    made.restore(before)
    assert made.translate(record(A.message, offset=10))


def test_start_over_forgets() -> None:
    made = translator()
    sent: list[Sent] = [A, watermark(9), A]
    first = [made.translate(each) for each in records_of(sent)]
    made.start_over()
    assert made.remembered_rows == 0
    assert [made.translate(each) for each in records_of(sent)] == first


def test_a_record_that_is_read_again_is_no_repeat() -> None:
    made = translator()
    first, mark = records_of([A, watermark(9)])
    for _ in range(2):
        assert made.translate(first)
        assert made.translate(mark)
    assert made.losses[Loss.ROWS_DEDUPLICATED] == 0


def test_a_row_that_was_refused_is_no_repeat() -> None:
    made = translator()
    made.translate(record(watermark(9).message))
    wrong = A.message | {"data": [{"id": "1", "email": "e1"}] * 20_000}
    with pytest.raises(Exception, match="rows"):
        made.translate(record(wrong, offset=1))
    assert made.translate(record(A.message, offset=2))


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_memory_is_bounded(rows: int) -> None:
    made = translator(deduplicate_rows=rows)
    for at in range(1000):
        made.translate(record(row(at, identity=at).message, offset=at))
        assert (made.remembered_rows or 0) <= rows
    assert (made.remembered_rows or 0) >= rows // 2


def test_a_memory_without_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="deduplicate_rows: must be at least 1"):
        translator(deduplicate_rows=0)


def test_excluded_tables_take_no_memory() -> None:
    made = translator(selection=Selection(tables=chosen_tables(("d.b",), ())))
    made.translate(record(A.message))
    assert made.remembered_rows == 0


def test_the_progress_is_part_of_the_state() -> None:
    made = translator()
    before = made.state
    for each in records_of([A, watermark(9)]):
        made.translate(each)
    assert isinstance(before, State)
    assert (dict(before.progress), len(made.state.progress)) == ({}, 1)


TARGETS = [TICDC, "canal-json", "debezium-json", "ticdc-open-protocol"]


@given(chances, st.sampled_from(TARGETS), st.sampled_from([8, 99]))
def test_rows_with_templates_are_the_same(chance: random.Random, target: str, memory: int) -> None:
    both = Both(TICDC, target=target, engine=ENGINE, deduplicate=True, deduplicate_rows=memory)
    for each in records_of(Producer(Log(chance, 20), chance).run(80)):
        both.fits(each)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS)
def test_new_rows_have_templates_and_repeats_take_the_slow_path(target: str, engine: type[Engine]) -> None:
    both = Both(TICDC, target=target, engine=engine, deduplicate=True)
    rows = [row(at, identity=at) for at in range(4)]
    fitting = [both.fits(each) for each in records_of([*rows, watermark(9), rows[3], row(10), rows[0]])]
    assert fitting == [False, False, True, True, False, False, True, False]
    assert both.templated.losses[Loss.ROWS_DEDUPLICATED] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_templates_know_the_conditions_of_rows_too(engine: type[Engine]) -> None:
    rule = RowRule(tables=("d.*",), where="email != 'e3'")
    both = Both(TICDC, engine=engine, deduplicate=True, rows=[rule])
    rows = [row(at, identity=at) for at in range(6)]
    fitting = [both.fits(each) for each in records_of([*rows, watermark(9), rows[3], rows[5]])]
    assert fitting[2:] == [True, True, True, True, False, False, False]
    assert both.templated.losses[Loss.ROWS_FILTERED] == 1
    assert both.templated.losses[Loss.ROWS_DEDUPLICATED] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_without_a_key_have_templates(engine: type[Engine]) -> None:
    both = Both(TICDC, engine=engine, deduplicate=True)
    messages = [row(at).message | {"pkNames": None} for at in range(4)]
    records = [record(msgspec.json.encode(each), offset=at) for at, each in enumerate(messages)]
    assert [both.fits(each) for each in records] == [False, False, True, True]
    assert both.templated.remembered_rows == 0


@pytest.mark.parametrize(
    "file",
    [
        "canal-json.tidb-extension/09_dml",
        "open-protocol/07_keys",
        "open-protocol.batch/09_dml",
        "open-protocol.no-old-value/09_dml",
        "debezium.tidb-extension/13_tidb_only.tidb",
        "simple.json/09_dml",
        "simple.avro/09_dml",
    ],
)
def test_rows_of_every_protocol_are_recognized(file: str) -> None:
    """All rows with a key after the last statement come again, below a watermark."""
    path = f"ticdc/{file}"
    records = captured(path)
    both = Both(protocol_of(path), reading_options(path), engine=ENGINE, deduplicate=True)
    reader = Translator(protocol_of(path), TICDC, reading_options(path))
    events = [reader.inspect(each) for each in records]
    begin = max(at for at, found in enumerate(events) if isinstance(found[0], SchemaChange | Bootstrap)) + 1
    rows = [
        each
        for each, found in zip(records[begin:], events[begin:], strict=True)
        if all(isinstance(event, RowChange) and event.schema.handle_key() for event in found)
    ]
    last = len(records)
    for each in records:
        both.fits(each)
    for at, each in enumerate(rows):
        both.fits(msgspec.structs.replace(each, offset=last + at))
    assert rows
    assert both.plain.losses[Loss.REPEATS_ABOVE_WATERMARK] == 0
    assert both.plain.losses[Loss.ROWS_BELOW_WATERMARK] == 0
    assert both.plain.losses[Loss.ROWS_DEDUPLICATED] >= len(rows)


@given(chances)
def test_templates_are_verified(chance: random.Random) -> None:
    made = ShadowTranslator(
        TICDC, TICDC, {}, {"enable-tidb-extension": "true"}, engine=ENGINE, deduplicate=True
    )
    sent = Producer(Log(chance, 20), chance).run(120)
    found = [row for each in records_of(sent) for row in rows_in(made.translate(each))]
    assert found == split(without_repeats(sent))


@pytest.mark.parametrize("source", ["canal-json", "maxwell-json", "debezium-json", "ckafka-json"])
def test_a_source_without_watermarks_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="has no watermarks"):
        Translator(source, TICDC, deduplicate=True)
