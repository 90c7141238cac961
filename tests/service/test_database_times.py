"""How far the database's own clock has come: by the times of rows and watermarks, not by Kafka's."""

from __future__ import annotations

from typing import Any

import pytest
from engine_support import ENGINES
from service.memory import Copy
from status_support import ORDERS_0, ORDERS_1, Clock, running_status
from support import CANAL, TICDC, record, row_message

from relay import Translator
from relay.io.kafka.ports import Partition
from relay.model.records import ConsumerRecord
from relay.service.loop.database_times import DatabaseTimes

BEGIN_MS = 1_700_000_000_000
EXTENDED = {"enable-tidb-extension": "true"}


def row(offset: int, time_ms: int, **more: Any) -> ConsumerRecord:
    """A row of TiCDC that was committed then; its Kafka timestamp is another."""
    message = row_message({"id": "int"}, {"id": str(offset)}, _tidb={"commitTs": time_ms << 18})
    return record(message | more, offset=offset, timestamp_ms=time_ms + 5_000)


def watermark(offset: int, time_ms: int) -> ConsumerRecord:
    message = row_message({}, type="TIDB_WATERMARK", _tidb={"watermarkTs": time_ms << 18})
    return record(message, offset=offset, timestamp_ms=time_ms + 5_000)


class Rows(Copy):
    """Says that the rows of a partition were committed when their Kafka timestamp says so; -1 is no row."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ConsumerRecord] = []

    def row_time_ms(self, record: ConsumerRecord, /) -> int | None:
        self.asked.append(record)
        return None if record.timestamp_ms < 0 else record.timestamp_ms


def at(partition: Partition, offset: int, time_ms: int) -> ConsumerRecord:
    return ConsumerRecord(*partition, offset, time_ms, None, b"")


def test_a_row_tells_when_it_was_committed_and_not_when_kafka_got_it() -> None:
    translator = Translator(TICDC, CANAL, EXTENDED)
    assert translator.row_time_ms(row(1, BEGIN_MS)) == BEGIN_MS
    assert translator.row_time_ms(watermark(2, BEGIN_MS)) is None
    assert translator.row_time_ms(record(b"no message")) is None
    canal = Translator(CANAL, TICDC)
    assert canal.row_time_ms(row(1, BEGIN_MS, es=BEGIN_MS + 7)) == BEGIN_MS + 7
    assert canal.row_time_ms(row(1, BEGIN_MS, es=0)) is None


def test_asking_for_a_time_changes_nothing() -> None:
    translator = Translator(TICDC, CANAL, EXTENDED)
    ddl = record(row_message({}, type="CREATE", isDdl=True, sql="CREATE TABLE t (id INT)", es=1))
    before = translator.state
    assert translator.row_time_ms(ddl) is None
    assert translator.row_time_ms(row(1, BEGIN_MS)) is not None
    assert translator.state == before
    assert not translator.events
    assert not translator.losses


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.parametrize("target_options", [{}, {"watermarks": "drop"}])
def test_the_last_watermark_is_known_whether_it_is_written_or_not(
    engine: Any, target_options: dict[str, str]
) -> None:
    translator = Translator(TICDC, TICDC, EXTENDED, EXTENDED | target_options, engine=engine)
    assert translator.watermarks_ms == {}
    for offset in range(60):
        translator.translate(row(2 * offset, BEGIN_MS + offset))
        translator.translate(watermark(2 * offset + 1, BEGIN_MS + offset))
    assert translator.watermarks_ms == {("topic", 0): BEGIN_MS + 59}
    assert translator.events["insert"] == 60


def test_rows_and_watermarks_are_reported_by_partition() -> None:
    status = running_status(Clock())
    translator = Rows()
    translator.watermarks_ms = {("orders", 1): 77, ("other", 0): 88}
    times = DatabaseTimes(translator, status)
    times.note(ORDERS_0, [at(ORDERS_0, offset, 100 + offset) for offset in range(9)], 5)
    times.report([ORDERS_0, ORDERS_1])
    first, second = status.partitions[ORDERS_0], status.partitions[ORDERS_1]
    assert (first.row_ms, first.watermark_ms) == (104, None)
    assert (second.row_ms, second.watermark_ms) == (None, 77)
    assert len(translator.asked) == 1
    times.report([ORDERS_0, ORDERS_1])
    assert len(translator.asked) == 1, "nothing new was read"
    assert status.partitions[ORDERS_0].row_ms == 104


def test_a_row_before_watermarks_is_found_and_none_is_no_time() -> None:
    status = running_status(Clock())
    times = DatabaseTimes(Rows(), status)
    times.note(ORDERS_0, [at(ORDERS_0, 1, 500)], 1)
    times.note(ORDERS_0, [at(ORDERS_0, 2, -1), at(ORDERS_0, 3, -1)], 2)
    times.note(ORDERS_1, [at(ORDERS_1, offset, -1) for offset in range(20)], 20)
    times.report([ORDERS_0, ORDERS_1])
    assert (status.partitions[ORDERS_0].row_ms, status.partitions[ORDERS_1].row_ms) == (500, None)


def test_many_partitions_have_their_turn() -> None:
    status, translator = running_status(Clock()), Rows()
    every = [Partition("orders", number) for number in range(25)]
    status.assigned(every)
    times = DatabaseTimes(translator, status, max_partitions=10)
    for known in (10, 20, 25):
        for partition in every:
            times.note(partition, [at(partition, 0, 100)], 1)
        asked = len(translator.asked)
        times.report(every)
        assert len(translator.asked) == asked + 10
        assert sum(progress.row_ms == 100 for progress in status.partitions.values()) == known
