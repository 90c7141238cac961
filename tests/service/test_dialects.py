"""A change of dialect in a source topic is reported once."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import msgspec
import pytest
from support import captured

from relay.io.logs import Log
from relay.model.records import ConsumerRecord
from relay.service.loop.dialects import LOOK_SECONDS, DialectWatch

PLAIN = "ticdc/canal-json/09_dml"
EXTENDED = "ticdc/canal-json.tidb-extension/09_dml"
CANAL = "mysql/canal-json/09_dml"


def of_topic(path: str, topic: str = "orders") -> list[ConsumerRecord]:
    return [msgspec.structs.replace(each, topic=topic) for each in captured(path)]


def reported(*polls: Sequence[ConsumerRecord], look_seconds: float = 0.0) -> list[dict[str, object]]:
    stream = io.StringIO()
    watch = DialectWatch(Log(stream), look_seconds)
    for records in polls:
        watch.look(records)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_change_is_reported_once() -> None:
    plain, extended, canal = of_topic(PLAIN)[4:], of_topic(EXTENDED)[4:], of_topic(CANAL)[4:]
    found = reported(plain, plain[5:], extended, plain, extended, canal, extended)
    assert [(each["event"], each["dialect"], each["before"], each["offset"]) for each in found] == [
        (
            "source.dialect",
            "ticdc-canal-json enable-tidb-extension=true",
            "ticdc-canal-json enable-tidb-extension=false",
            extended[0].offset,
        ),
        ("source.dialect", "canal-json", "ticdc-canal-json enable-tidb-extension=true", canal[0].offset),
    ]


def test_the_first_record_is_compared_with_the_second_one_inspected() -> None:
    (change,) = reported(of_topic(PLAIN)[4:], of_topic(CANAL))
    assert (change["dialect"], change["before"]) == (
        "canal-json",
        "ticdc-canal-json enable-tidb-extension=false",
    )


@pytest.mark.parametrize(
    "path", [PLAIN, EXTENDED, CANAL, "mysql/debezium/09_dml", "ticdc/simple.json.claim-check/04_strings_binary",
             "ticdc/canal-json.claim-check/04_strings_binary", "ticdc/open-protocol.batch/09_dml", "ticdc/avro.tidb-extension/09_dml"]
)  # fmt: skip
def test_one_producer_is_one_dialect(path: str) -> None:
    records = of_topic(path)
    assert reported(*([each] for each in records)) == []


def test_topics_are_apart_and_tombstones_say_nothing() -> None:
    tombstone = ConsumerRecord("orders", 0, 0, 0, b"k", None)
    assert (
        reported(of_topic(PLAIN), of_topic(CANAL, "other"), [tombstone], [tombstone, *of_topic(PLAIN)]) == []
    )


def test_a_topic_is_looked_at_now_and_then() -> None:
    assert reported(of_topic(PLAIN), of_topic(CANAL), look_seconds=LOOK_SECONDS) == []
