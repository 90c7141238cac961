"""A row whose message has no time, or 0 for none: the next best time stands for it, and it is counted."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from engine_support import ENGINE
from support import CANAL, OPEN, TICDC, captured

from relay import ConsumerRecord, Loss, RowChange, Translator
from relay.core.verification import ShadowTranslator

#: When the record was written, and when its message was made.
RECORD_MS, ENVELOPE_MS, OWN_MS = 1_733_800_000_130, 1_733_800_000_100, 1_733_800_000_000
TSO = OWN_MS << 18
#: How many rows make a template.
USES = 400


def compact(message: dict[str, Any]) -> bytes:
    """As producers print it, which templates need."""
    return json.dumps(message, separators=(",", ":")).encode()


def canal(es: Any, ts: Any, **more: Any) -> bytes:
    times = {name: value for name, value in (("es", es), ("ts", ts)) if value is not None}
    row = {
        "data": [{"id": "1"}], "database": "shop", "gtid": "", "id": 7, "isDdl": False,
        "mysqlType": {"id": "int"}, "old": None, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4},
        "table": "s", "type": "INSERT",
    }  # fmt: skip
    return compact(row | times | more)


def debezium(own: dict[str, Any], envelope: dict[str, Any], connector: str = "mysql") -> bytes:
    source = {"connector": connector, "db": "shop", "table": "s", "snapshot": "true", **own}
    return compact({"before": None, "after": {"id": 1}, "source": source, "op": "c", **envelope})


def maxwell(**times: Any) -> bytes:
    row = {"database": "shop", "table": "s", "type": "insert", "data": {"id": 1}}
    return compact(row | times)


def ckafka(time: str | None) -> bytes:
    row = {"DATABASE": "shop", "TABLE": "s", "TYPE": "I", "NEW_VALUES": {"id": "1"}, "OLD_VALUES": None}
    return compact(row | ({} if time is None else {"TIME": time}))


#: By protocol: the message, and the time that is right for it.
MISSING: list[tuple[str, bytes, int]] = [
    (CANAL, canal(0, ENVELOPE_MS), ENVELOPE_MS),
    (CANAL, canal(None, ENVELOPE_MS), ENVELOPE_MS),
    (CANAL, canal(0, 0), RECORD_MS),
    (CANAL, canal(None, 0), RECORD_MS),
    (CANAL, canal(None, None), RECORD_MS),
    (CANAL, canal(0, ENVELOPE_MS, x=1), ENVELOPE_MS),
    (TICDC, canal(0, ENVELOPE_MS), ENVELOPE_MS),
    (TICDC, canal(0, 0, _tidb={"commitTs": 0}), RECORD_MS),
    (CANAL, canal(-1, ENVELOPE_MS), ENVELOPE_MS),
    (CANAL, canal(-1, -1), RECORD_MS),
    (TICDC, canal(-1, ENVELOPE_MS), ENVELOPE_MS),
    ("ckafka-json", canal(-1, -1), RECORD_MS),
    ("ckafka-json", ckafka("19691231235959"), RECORD_MS),
    ("maxwell-json", maxwell(ts=-1), RECORD_MS),
    ("debezium-json", debezium({"ts_ms": -1}, {"ts_ms": ENVELOPE_MS}), ENVELOPE_MS),
    ("debezium-json", debezium({"ts_ms": -1, "ts_us": -1000, "ts_ns": -1000000}, {"ts_ms": -1}), RECORD_MS),
    ("ticdc-debezium", debezium({"ts_ms": -1}, {"ts_ms": ENVELOPE_MS}, "TiCDC"), ENVELOPE_MS),
    ("ckafka-json", ckafka(None), RECORD_MS),
    ("ckafka-json", ckafka("19700101080000"), RECORD_MS),
    ("ckafka-json", canal(0, 0), RECORD_MS),
    ("maxwell-json", maxwell(ts=0), RECORD_MS),
    ("maxwell-json", maxwell(), RECORD_MS),
    ("maxwell-json", maxwell(ts=0, push_ts=1733800000.1), ENVELOPE_MS),
    ("debezium-json", debezium({"ts_ms": 0}, {"ts_ms": ENVELOPE_MS}), ENVELOPE_MS),
    ("debezium-json", debezium({"ts_ms": 0, "ts_us": 0, "ts_ns": 0}, {"ts_ms": ENVELOPE_MS}), ENVELOPE_MS),
    ("debezium-json", debezium({}, {"ts_ms": 0}), RECORD_MS),
    ("debezium-json", debezium({"ts_ms": 0}, {"ts_ms": 0, "ts_us": 0, "ts_ns": 0}), RECORD_MS),
    ("ticdc-debezium", debezium({"ts_ms": 0}, {"ts_ms": ENVELOPE_MS}, "TiCDC"), ENVELOPE_MS),
    ("ticdc-debezium", debezium({"ts_ms": 0, "commit_ts": 0}, {"ts_ms": 0}, "TiCDC"), RECORD_MS),
]
#: Messages that say it elsewhere.
ELSEWHERE: list[tuple[str, bytes]] = [
    (TICDC, canal(0, ENVELOPE_MS, _tidb={"commitTs": TSO})),
    (TICDC, canal(-1, ENVELOPE_MS, _tidb={"commitTs": TSO})),
    ("ticdc-debezium", debezium({"ts_ms": -1, "commit_ts": TSO}, {"ts_ms": ENVELOPE_MS}, "TiCDC")),
    ("ticdc-debezium", debezium({"ts_ms": 0, "commit_ts": TSO}, {"ts_ms": ENVELOPE_MS}, "TiCDC")),
]


def record(value: bytes, offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, offset, RECORD_MS, None, value)


@pytest.mark.parametrize(("protocol", "value", "right"), MISSING)
def test_the_next_best_time_stands_for_one_that_is_missing(protocol: str, value: bytes, right: int) -> None:
    (event,) = Translator(protocol, protocol).inspect(record(value))
    assert isinstance(event, RowChange)
    assert event.source.event_time_ns == right * 1_000_000
    assert event.source.commit_ts is None


@pytest.mark.parametrize("target", [OPEN, "flat-json", "debezium-json"])
@pytest.mark.parametrize(("protocol", "value"), [(protocol, value) for protocol, value, _ in MISSING])
def test_a_missing_time_is_counted_with_templates_and_without(
    protocol: str, value: bytes, target: str
) -> None:
    translator = ShadowTranslator(protocol, target, engine=ENGINE)
    for at in range(USES):
        translator.translate(record(value, at))
    assert translator.losses[Loss.EVENT_TIME] == USES


#: Captured rows, and how they say that there is no time.
CAPTURED_ROWS: list[tuple[str, str, bytes, bytes]] = [
    (CANAL, "mysql/canal-json/12_bulk", rb'"es":\d+', b'"es":0'),
    (TICDC, "ticdc/canal-json.tidb-extension/12_bulk", rb'("es":)\d+(.*"commitTs":)\d+', rb"\g<1>0\g<2>0"),
    ("maxwell-json", "mysql/maxwell/09_dml", rb'"ts":\d+', b'"ts":0'),
    ("debezium-json", "mysql/debezium.no-schema/09_dml", rb'("source":.*?"ts_ms":)\d+(.*?"ts_us":)\d+(,"ts_ns":)\d+', rb"\g<1>0\g<2>0\g<3>0"),
    ("ticdc-debezium", "ticdc/debezium.no-schema/09_dml", rb'("source":.*?)"ts_ms":\d+(.*"commit_ts":)\d+', rb'\1"ts_ms":0\g<2>0'),
    (OPEN, "ticdc/open-protocol/12_bulk", rb'"ts":\d+', b'"ts":0'),
    ("ticdc-simple-json", "ticdc/simple.json/09_dml", rb'"commitTs":\d+', b'"commitTs":0'),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "file", "time", "none"), CAPTURED_ROWS)
def test_templates_of_rows_with_a_time_are_not_for_those_without(
    protocol: str, file: str, time: bytes, none: bytes
) -> None:
    translator = ShadowTranslator(protocol, "flat-json", engine=ENGINE)
    rows = []
    for each in captured(file):
        inserts = translator.events["insert"]
        translator.translate(each)
        if translator.events["insert"] > inserts:
            rows.append(each)
    row, offset = rows[-1], rows[-1].offset + 1
    for at in range(USES):
        translator.translate(msgspec.structs.replace(row, offset=offset + at))
    assert translator.paths["fast"]
    assert not translator.losses[Loss.EVENT_TIME]
    part = "key" if protocol == OPEN else "value"
    timeless = re.sub(time, none, getattr(row, part))
    if part == "key":
        timeless = timeless[:8] + (len(timeless) - 16).to_bytes(8, "big") + timeless[16:]
    odd = msgspec.structs.replace(row, offset=offset + USES, **{part: timeless})
    (out,) = translator.translate(odd)
    assert translator.losses[Loss.EVENT_TIME] == 1
    assert json.loads(out.value or b"")["__source_ts_ms"] > OWN_MS


@pytest.mark.parametrize(("protocol", "value"), ELSEWHERE)
def test_a_commit_ts_is_a_time(protocol: str, value: bytes) -> None:
    translator = Translator(protocol, "flat-json")
    (out,) = translator.translate(record(value))
    assert json.loads(out.value or b"")["__source_ts_ms"] == OWN_MS
    assert not translator.losses[Loss.EVENT_TIME]


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json"])
def test_a_negative_time_is_no_time_that_a_message_was_made(protocol: str) -> None:
    (event,) = Translator(protocol, protocol).inspect(record(canal(OWN_MS, -1)))
    assert isinstance(event, RowChange)
    assert event.emitted_at_ns == RECORD_MS * 1_000_000


def test_each_row_of_a_message_is_counted() -> None:
    translator = Translator(CANAL, "flat-json")
    translator.translate(record(canal(0, ENVELOPE_MS, data=[{"id": "1"}, {"id": "2"}, {"id": "3"}])))
    assert translator.losses[Loss.EVENT_TIME] == 3


def test_a_statement_without_a_time_is_counted() -> None:
    translator = Translator(CANAL, CANAL)
    none = dict.fromkeys(("data", "mysqlType", "pkNames", "sqlType"))
    ddl = canal(0, ENVELOPE_MS, isDdl=True, sql="CREATE TABLE s (id INT)", type="CREATE", **none)
    (out,) = translator.translate(record(ddl))
    assert json.loads(out.value or b"")["es"] == ENVELOPE_MS
    assert translator.losses[Loss.EVENT_TIME] == 1
