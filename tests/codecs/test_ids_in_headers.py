"""Ids of schemas in headers instead of before the Avro: `schema-id=header`."""

from __future__ import annotations

import msgspec
import pytest
from fake_registry import MemoryRegistry
from support import captured, record, row_message

from relay import ConsumerRecord, Event, ProducerRecord, Resolver, RowChange, SchemaChange, Translator
from relay.codecs.shared.avro import ID_HEADERS, PREFIX_BYTES

TICDC = "ticdc-canal-json"
CONTROL = {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}
TARGETS = {"ticdc-avro": CONTROL, "ticdc-debezium-avro": CONTROL, "debezium-avro": {}}


class Wire:
    """A route into a registry, and back."""

    def __init__(self, target: str, options: dict[str, str]) -> None:
        self.target, registry = target, MemoryRegistry()
        self.translator = Translator(TICDC, target, None, options)
        self._resolver = Resolver(registries={"source": registry, "target": registry})

    def written(self) -> list[ProducerRecord]:
        records = captured("ticdc/canal-json.tidb-extension/09_dml")
        return [out for each in records for out in self.translated(each)]

    def translated(self, given: ConsumerRecord) -> list[ProducerRecord]:
        return self._resolver.translate(self.translator, given)

    def read(self, outs: list[ProducerRecord]) -> list[Event]:
        back = Translator(self.target, self.target)
        records = [
            ConsumerRecord(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value, out.headers)
            for at, out in enumerate(outs)
        ]
        return [event for each in records for event in self._resolver.inspect(back, each)]


@pytest.mark.parametrize("target", TARGETS)
def test_ids_move_from_before_the_avro_into_headers(target: str) -> None:
    usual, moved = (
        Wire(target, TARGETS[target] | {"schema-id": location}) for location in ("prefix", "header")
    )
    before, behind = usual.written(), moved.written()
    framed = 0
    for one, other in zip(before, behind, strict=True):
        headers = dict(other.headers)
        for name, whole, body in (("key", one.key, other.key), ("value", one.value, other.value)):
            if whole is None or whole[:1] != b"\0":
                assert body == whole
                assert ID_HEADERS[name] not in headers
                continue
            id = headers[ID_HEADERS[name]] or b""
            assert id + (body or b"") == whole
            assert len(id) == PREFIX_BYTES
            framed += 1
        assert other.headers[-1] == one.headers[-1]
    assert framed > 80
    assert moved.read(behind) == usual.read(before)


def test_a_row_that_looks_like_a_watermark_is_a_row() -> None:
    """Its first field is a text of one byte, and nine bytes are all that it has."""
    row = row_message({"c": "varchar(1)", "n": "bigint"}, {"c": "a", "n": str(-(2**33))}, pkNames=[])
    wire = Wire("ticdc-avro", {"schema-id": "header"})
    outs = wire.translated(record(row))
    (value,) = [out.value or b"" for out in outs]
    assert (outs[0].key, len(value), value[:1]) == (None, 9, b"\x02")
    (change,) = wire.read(outs)
    assert isinstance(change, RowChange)
    assert change.after == ("a", -(2**33))


@pytest.mark.parametrize("location", ["prefix", "header"])
def test_an_id_in_a_header_of_another_protocol_is_not_passed_on(location: str) -> None:
    wire = Wire("ticdc-avro", CONTROL | {"schema-id": location})
    create = row_message({}, isDdl=True, type="CREATE", sql="CREATE TABLE t (id INT PRIMARY KEY)", data=None)
    row = row_message({"id": "int"}, {"id": "1"}, pkNames=["id"])
    stray = (ID_HEADERS["value"], b"\0\0\0\0\x63"), ("trace", b"1")
    given = [record(create), record(row, offset=1), record(row | {"type": "DELETE"}, offset=2)]
    outs = [out for each in given for out in wire.translated(msgspec.structs.replace(each, headers=stray))]
    assert all(("trace", b"1") in out.headers and stray[0] not in out.headers for out in outs)
    assert [type(event) for event in wire.read(outs)] == [SchemaChange, RowChange, RowChange]
