"""A message of a shape that is known is read as it would be without: whatever is odd about it, and whatever
came before it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from debezium_json_support import DDL_TOPIC, SOURCE, column, row, wrapped
from debezium_json_support import DEBEZIUM as NATIVE
from debezium_json_support import ddl as native_ddl
from debezium_json_support import record as native_record
from debezium_support import DEBEZIUM as TICDC
from debezium_support import block
from debezium_support import ddl as ticdc_ddl
from debezium_support import message as ticdc_row
from debezium_support import record as ticdc_record

from relay import ConsumerRecord, Loss, RelayError, Translator
from relay.catalog import Catalog
from relay.codecs import codec_named
from relay.codecs.given_options import parse_options
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.lookups import LookupCache

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, f DOUBLE, s VARCHAR(99) DEFAULT 'x', d DATE NOT NULL)"
IMAGE = {"id": 1, "f": 1.5, "s": "text", "d": 20000}
COLUMNS = [
    column("id", "int32"),
    column("f", "double"),
    column("s", "string"),
    column("d", "int32", "io.debezium.time.Date"),
]
#: Some rows make a layout, some more of this layout a shape.
WARM = 40


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decoder_of(source: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    codec = codec_named(source, "from")
    return codec.open_decoder(parse_options(codec, {}, "from.option", "source"), LookupCache(limits))


class Pair:
    """A decoder that knows the shape of the usual message, and new ones that know nothing but the table."""

    def __init__(self, source: str, usual: ConsumerRecord, ddl: ConsumerRecord) -> None:
        self.source, self.usual, self.warm = source, usual, decoder_of(source)
        _, self.catalog = self.warm.decode(ddl, Catalog(), [])

    def check(self, value: bytes) -> None:
        """Read a message of these bytes with both, alike."""
        for _ in range(WARM):
            self.outcome(self.warm, self.usual)
        assert self.warm.topics[self.usual.topic].shape is not None
        odd = msgspec.structs.replace(self.usual, value=value)
        assert self.outcome(self.warm, odd) == self.outcome(decoder_of(self.source), odd), value

    def outcome(self, decoder: Any, given: ConsumerRecord) -> tuple[str, list[Loss]]:
        losses: list[Loss] = []
        try:
            return repr(decoder.decode(given, self.catalog, losses)), losses
        except RelayError as error:
            return f"{type(error).__name__} {error}", []


PLACEHOLDER = "__debezium_unavailable_value"
#: What is odd about the image behind a row's change, and about its payload.
ODD_IMAGES: list[dict[str, Any]] = [
    {"f": 0}, {"f": 0.0}, {"f": -0.0}, {"f": "NaN"}, {"f": "text"}, {"f": None}, {"f": 1 << 70}, {"id": 1.5},
    {"id": "1"}, {"id": None}, {"id": True}, {"s": None}, {"s": "x"}, {"s": 5}, {"s": {}}, {"s": PLACEHOLDER},
    {"s": PLACEHOLDER.encode().hex()}, {"s": "x" + PLACEHOLDER}, {"d": 0}, {"d": 1 << 40}, {"d": None},
    {"d": "2024-01-01"}, {"more": 1}, {"s": '"payload":{"after":null}'},
]  # fmt: skip
ODD_PAYLOADS: list[dict[str, Any]] = [
    {"op": "c"}, {"op": "r"}, {"op": "d"}, {"op": "t"}, {"op": "m"}, {"op": None}, {"op": 5}, {"before": None},
    {"after": None}, {"op": "d", "before": None}, {"op": "c", "before": {"id": 1}}, {"op": "d", "after": 5},
    {"source": None}, {"source": SOURCE | {"connector": "TiCDC"}}, {"source": SOURCE | {"connector": None}},
    {"source": SOURCE | {"connector": "mariadb"}}, {"source": SOURCE | {"table": "other"}},
    {"source": SOURCE | {"db": "other"}}, {"source": SOURCE | {"table": None}}, {"source": 5},
    {"source": SOURCE | {"snapshot": "first"}}, {"source": SOURCE | {"snapshot": True}},
    {"source": SOURCE | {"snapshot": False}}, {"source": SOURCE | {"file": ""}}, {"source": SOURCE | {"pos": -1}},
    {"source": SOURCE | {"ts_ns": None}}, {"source": SOURCE | {"ts_ns": 1 << 62}},
    {"source": SOURCE | {"ts_ns": None, "ts_us": None}}, {"source": SOURCE | {"ts_ms": 1 << 60}},
    {"source": SOURCE | {"ts_ms": None}}, {"source": SOURCE | {"ts_ms": 1}}, {"source": SOURCE | {"pos": 1, "ts_ms": 1}},
    {"ts_ns": None}, {"ts_ns": 1 << 62, "ts_us": None}, {"ts_ms": None, "ts_us": None, "ts_ns": None},
    {"ts_ms": "text"}, {"transaction": {"id": "a:1", "total_order": 2}}, {"transaction": 5}, {"ddl": 5},
    {"ddl": "CREATE TABLE u (id INT)"}, {"schema": 5}, {"schema": None}, {"payload": None}, {"payload": {}},
    {"payload": row("c", after=IMAGE | {"id": 9})}, {"more": 1}, {"databaseName": 5}, {"status": "BEGIN"},
]  # fmt: skip


@pytest.mark.one_case
@pytest.mark.parametrize("form", ["bare", "payload", "schema"])
def test_odd_messages_of_the_connectors(form: str) -> None:
    usual = native_record(around(form, row("u", IMAGE, IMAGE | {"f": 2.5})), {"id": 1})
    pair = Pair(NATIVE, usual, native_record(native_ddl(TABLE), topic=DDL_TOPIC))
    for odd in ODD_IMAGES:
        pair.check(around(form, row("u", IMAGE, IMAGE | odd)))
        pair.check(around(form, row("u", IMAGE | odd, IMAGE)))
        pair.check(around(form, row("c", None, IMAGE | odd)))
    for odd in ODD_PAYLOADS:
        pair.check(around(form, row("u", IMAGE, IMAGE) | odd))
    for value in broken(usual.value or b""):
        pair.check(value)
    less = wrapped(row("u", IMAGE, IMAGE), *COLUMNS[:2])
    other = wrapped(row("u", IMAGE, IMAGE), COLUMNS[0] | {"type": "string"}, *COLUMNS[1:])
    for message in (less, other, dict(reversed(less.items())), wrapped(row("u", IMAGE, IMAGE))):
        pair.check(compact(message))


def around(form: str, payload: dict[str, Any]) -> bytes:
    if form == "schema":
        return compact(wrapped(payload, *COLUMNS))
    return compact({"payload": payload} if form == "payload" else payload)


def broken(usual: bytes) -> list[bytes]:
    """A message with other bytes: some are JSON of another spelling, some are none."""
    return [
        usual.replace(b'"f":2.5', b'"f":-0'), usual.replace(b'"f":2.5', b'"f": -0 '),
        usual.replace(b'"f":2.5', b'"f":1e400'), usual.replace(b'"f":2.5', b'"f":2.5,"f":3.5'),
        usual.replace(b'"f":2.5', b'"f":"x","f":3.5'), usual.replace(b'"text"', b'"te\xffxt"'),
        usual.replace(b'"text"', b'"te\nxt"'), usual.replace(b'"text"', rb'"te\ud800xt"'),
        usual.replace(b'"op":"u"', b'"op":"u","op":"d"'), usual.replace(b'"op":"u"', b'"op": "u" '),
        usual.replace(b'"after":', b'"after":null,"after":'), usual + b" ", b" " + usual, usual + b"}",
        usual[:-1], usual[1:], usual + usual, b"\xef\xbb\xbf" + usual, b"null", b"{}", b"[]", b"",
        usual[:-1] + b',"more":1}', usual[:-1] + b',"payload":null}', usual[:-1] + b',"schema":{}}',
    ]  # fmt: skip


@pytest.mark.parametrize("has_schema", [False, True])
def test_odd_messages_of_ticdc(has_schema: bool) -> None:
    shown = {"schema": block(*COLUMNS[:3])} if has_schema else {}
    image = {"id": 1, "f": 1.5, "s": "text"}
    usual = ticdc_record(compact(ticdc_row("u", before=image, after=image | {"f": 2.5}) | shown))
    table = "CREATE TABLE t (id INT PRIMARY KEY, f DOUBLE, s VARCHAR(99))"
    pair = Pair(TICDC, usual, ticdc_record(ticdc_ddl(table)))
    for odd in ODD_IMAGES:
        pair.check(compact(ticdc_row("u", before=image, after=image | odd) | shown))
        pair.check(compact(ticdc_row("u", before=image | odd, after=image) | shown))
    for value in broken(usual.value or b""):
        pair.check(value)


def test_a_topic_of_tables_that_take_turns() -> None:
    """Neither is taken for the other, whichever came more often before."""
    warm, cold = Translator(NATIVE, "canal-json"), Translator(NATIVE, "canal-json")
    for name in ("t", "u"):
        text = native_ddl(TABLE.replace(" t ", f" {name} "), source={"table": name})
        warm.translate(native_record(text, topic=DDL_TOPIC))
    state = warm.state
    for times in (WARM, 1, 1, 3, 2 * WARM, 1):
        for name in ("t", "u"):
            given = native_record(around("bare", row("u", IMAGE, IMAGE, source={"table": name})), {"id": 1})
            cold.restore(state)
            expected = cold.translate(given)
            for _ in range(times):
                assert warm.translate(given) == expected


def test_shapes_stay_within_the_caches_bytes() -> None:
    decoder = decoder_of(NATIVE, Limits(cache_bytes=500_000))
    _, catalog = decoder.decode(native_record(native_ddl(TABLE), topic=DDL_TOPIC), Catalog(), [])
    value = around("bare", row("u", IMAGE, IMAGE))
    most = 0
    for number in range(60):
        for _ in range(WARM):
            decoder.decode(native_record(value, {"id": 1}, topic=f"topic{number}"), catalog, [])
        most = max(most, len(decoder.topics))
    assert 10 < most < 40
