"""Timestamps of Kafka records may be any number, and messages cannot represent some of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ckafka_support import CKAFKA
from ckafka_support import ddl as ckafka_ddl
from ckafka_support import row as ckafka_row
from debezium_support import DEBEZIUM, SOURCE
from debezium_support import message as debezium_message
from open_support import cell, framed
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, Loss, RowChange, Translator

CODECS = [TICDC, CANAL, CKAFKA, OPEN, DEBEZIUM]
YEAR_4199 = 1 << 46
#: No message can say these.
ABSURD = [YEAR_4199, 9007199254740992, (1 << 63) - 1]


def rows(source: str, timestamp_ms: int, **more: Any) -> ConsumerRecord:
    """A row whose message says when it changed, and not when it was made."""
    if source in {TICDC, CANAL}:
        given = record(row_message({"id": "int"}, {"id": "1"}, es=5000, ts=None) | more)
    elif source == CKAFKA:
        given = record(ckafka_row({"id": "1"}) | {"TIME": "19700101080005"} | more)
    elif source == OPEN:
        given = framed(open_row({"u": {"id": cell(3, 1, 11)}}, ts=5000 << 18))
    else:
        body = debezium_message(
            after={"id": 1}, ts_ms=None, source=SOURCE | {"ts_ms": 5000, "commit_ts": 5000 << 18}
        )
        given = ConsumerRecord("topic", 0, 0, 0, b'{"payload":{"id":1}}', json.dumps(body).encode())
    return ConsumerRecord(given.topic, 0, 0, timestamp_ms, given.key, given.value)


def read(protocol: str, given: ConsumerRecord) -> tuple[RowChange, dict[Any, int]]:
    reader = Translator(protocol, protocol)
    (event,) = reader.inspect(given)
    assert isinstance(event, RowChange)
    return event, dict(reader.losses)


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("timestamp_ms", ABSURD)
def test_a_timestamp_that_no_clock_has_is_kept_and_not_used(
    source: str, target: str, timestamp_ms: int
) -> None:
    given = rows(source, timestamp_ms)
    translator = Translator(source, target, None, {"strict": "false"})
    (out,) = translator.translate(given)
    assert out.timestamp_ms == timestamp_ms
    assert translator.losses[Loss.RECORD_TIME] == 1
    found, _ = read(target, ConsumerRecord("topic", 0, 0, out.timestamp_ms, out.key, out.value))
    assert found.source.event_time_ns == found.emitted_at_ns == 5000 * 10**6


@pytest.mark.parametrize("source", [TICDC, CANAL, CKAFKA, OPEN])
def test_the_last_moment_that_a_message_can_say_is_used(source: str) -> None:
    found, losses = read(source, rows(source, YEAR_4199 - 1))
    assert found.emitted_at_ns == (YEAR_4199 - 1) * 10**6
    assert "record-time" not in losses
    for target in CODECS:
        (out,) = Translator(source, target).translate(rows(source, YEAR_4199 - 1))
        back, _ = read(target, ConsumerRecord("topic", 0, 0, out.timestamp_ms, out.key, out.value))
        assert back.emitted_at_ns == (YEAR_4199 - 1) * 10**6


@pytest.mark.parametrize("source", [TICDC, CANAL, CKAFKA, DEBEZIUM])
@pytest.mark.parametrize("target", CODECS)
def test_a_row_without_any_time_is_of_no_time(source: str, target: str) -> None:
    """Not of one that its target could not say."""
    missing: dict[str, Any] = {"es": None, "ts": None} if source in {TICDC, CANAL} else {"TIME": None}
    given = rows(source, ABSURD[1], **missing)
    if source == DEBEZIUM:
        body = debezium_message(
            after={"id": 1}, ts_ms=None, source=SOURCE | {"ts_ms": None, "commit_ts": None}
        )
        given = ConsumerRecord("topic", 0, 0, ABSURD[1], given.key, json.dumps(body).encode())
    (out,) = Translator(source, target).translate(given)
    found, _ = read(target, ConsumerRecord("topic", 0, 0, out.timestamp_ms, out.key, out.value))
    assert found.emitted_at_ns == 0


def test_it_is_counted_once_a_record_and_lets_a_strict_route_pass() -> None:
    strict = Translator(CKAFKA, CKAFKA, None, {"strict": "true"})
    statement = ckafka_ddl("CREATE TABLE t (id INT)")
    for at, each in enumerate((record(statement), rows(CKAFKA, 0))):
        strict.translate(ConsumerRecord("topic", 0, at, ABSURD[0], None, each.value))
    assert strict.losses == {"record-time": 2}
