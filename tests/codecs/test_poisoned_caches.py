"""What a record says of its table must not be taken from, or given to, the records after it: keys, schema
blocks, types, flags. Also if it was refused, or taken back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ckafka_support import CKAFKA
from ckafka_support import row as ckafka_row
from debezium_json_support import DEBEZIUM as NATIVE
from debezium_json_support import record as native_record
from debezium_json_support import row as native_row
from debezium_json_support import wrapped as native_wrapped
from debezium_support import DEBEZIUM, block, message
from debezium_support import record as debezium_record
from open_support import cell, framed
from open_support import row as open_row
from packet_support import column, header
from simple_support import AVRO as SIMPLE_AVRO
from simple_support import SIMPLE, bootstrap, row, table
from simple_support import column as simple_column
from simple_support import records as simple_records
from support import ALL_ROUTES, CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, RelayError, Translator
from relay.codecs import PROTOCOLS
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field

TYPES = {"id": "bigint", "a": "varchar", "n": "int unsigned"}
CELLS = {"id": "1", "a": "x", "n": "5"}
FIELDS = [
    {"type": type_, "optional": True, "field": name}
    for name, type_ in [("id", "int64"), ("a", "string"), ("n", "int64")]
]
ROW = {"id": 1, "a": "x", "n": 5}
#: That row, and rows whose cells do not fit it.
ODD_CELLS: list[dict[str, Any]] = [
    ROW,
    ROW | {"n": "no number"},
    {"a": "x"},
    ROW | {"id": [1]},
    ROW | {"n": 0.5},
    ROW | {"a": None},
]


def debezium_rows() -> Iterator[ConsumerRecord]:
    keys: list[Any] = [
        {"payload": {"id": 1}},
        {"payload": {"n": 5, "id": 1}},
        {"payload": {}},
        None,
        5,
        {"id": 1},
    ]
    for rows in (ROW, ROW | {"n": "no number"}, {"a": "x"}, ROW | {"id": [1]}):
        for fields in (FIELDS, FIELDS[:2], [FIELDS[0], FIELDS[1], FIELDS[2] | {"type": "int32"}]):
            for key in keys:
                yield debezium_record(message(after=rows) | {"schema": block(*fields)}, key)
    yield debezium_record(message(after=ROW) | {"schema": block(*FIELDS)}, None)
    yield debezium_record(message(after=ROW), keys[0])
    key_block = {"fields": [{"type": "int32", "optional": False, "field": "id"}]}
    for key in (keys[0] | {"schema": key_block}, keys[0] | {"schema": 5}, keys[0]):
        yield debezium_record(message(after={"a": "x", "n": 5}) | {"schema": block(*FIELDS[1:])}, key)
        yield debezium_record(message(after=ROW) | {"schema": block(*FIELDS[1:])}, key)
    yield msgspec_key(b"\xff")


def msgspec_key(key: bytes) -> ConsumerRecord:
    """A row with a key that cannot be read."""
    good = debezium_record(message(after=ROW) | {"schema": block(*FIELDS)})
    return ConsumerRecord(good.topic, good.partition, good.offset, good.timestamp_ms, key, good.value)


def canal_rows() -> Iterator[ConsumerRecord]:
    for names in (["id"], ["n", "id"], [], None, ["missing"]):
        for types in (TYPES, TYPES | {"a": "blob"}, TYPES | {"n": "set"}, {"id": "bigint"}, {}, None):
            for cells in (CELLS, {"a": "x"}, CELLS | {"id": "no number"}, CELLS | {"a": "\U0001f600"}):
                given = row_message(TYPES, cells, pkNames=names) | {"mysqlType": types}
                yield record(given | {"sqlType": {"id": -5, "a": 2004 if names else 12, "n": 4}})


def open_rows() -> Iterator[ConsumerRecord]:
    for flag in (11, 0, 1, 65, 64):
        for code in (8, 3, 15, 252, 247, 999):
            for value in (1, "x", "eA==", None, [1], 1 << 70):
                yield framed(open_row({"u": {"id": cell(8, 1, flag), "a": cell(code, value, 64 & flag)}}))


def ckafka_rows() -> Iterator[ConsumerRecord]:
    for cells in (
        {"id": "1", "a": "x"},
        {"a": "x"},
        {"id": 1, "a": 5},
        {"id": [1]},
        {"id": "1", "a": "eA=="},
        {"id": None},
    ):
        for old in (None, cells):
            yield record(ckafka_row(cells, old, "U" if old else "I"))


def native_rows() -> Iterator[ConsumerRecord]:
    keys: list[Any] = [
        {"id": 1},
        {"payload": {"id": 1}},
        {"schema": 5, "payload": {"n": 5, "id": 1}},
        {},
        None,
        5,
    ]
    for cells in ODD_CELLS:
        for key in keys:
            yield native_record(native_row(after=cells), key)
            for fields in (
                FIELDS,
                FIELDS[:2],
                [*FIELDS[:2], FIELDS[2] | {"name": "io.debezium.time.Timestamp"}],
            ):
                yield native_record(native_wrapped(native_row(after=cells), *fields), key)
    yield native_record(native_row("d"), keys[0])
    yield native_record(native_row(after=ROW | {"a": "__debezium_unavailable_value"}), keys[0])


def maxwell_rows() -> Iterator[ConsumerRecord]:
    for cells in (*ODD_CELLS, {}):
        for key in ({"database": "d", "table": "t", "pk.id": 1}, ["d", "t", [{"n": 5}]], 5, None):
            for old in ({}, {"n": 4}, {"n": [4]}, {"gone": 1}, None):
                body = {"database": "d", "table": "t", "type": "update", "ts": 1, "data": cells, "old": old}
                text = None if key is None else json.dumps(key).encode()
                yield ConsumerRecord("maxwell", 0, 5, 0, text, json.dumps(body).encode())


def ogg_rows() -> Iterator[ConsumerRecord]:
    old_rows: list[Any] = [None, {"id": 1, "n": 4}, {"n": "4"}, {"a": "x", "a_isMissing": True, "id": 1}]
    for cells in ODD_CELLS:
        for keys in (["id"], ["n", "id"], ["gone"], [], None, 5):
            for old in old_rows:
                body = {"table": "d.t", "op_type": "U", "primary_keys": keys, "before": old, "after": cells}
                yield ConsumerRecord("ogg", 0, 5, 0, None, json.dumps(body).encode())


def packet_rows() -> Iterator[ConsumerRecord]:
    for mysql_type, text in (
        ("int", "1"),
        ("int", "x"),
        ("varchar(9)", "1"),
        ("blob", "\U0001f600"),
        ("", None),
    ):
        for sql_type in (4, 12, 2004):
            for names in (["id"], ["id", "a"], ["a", "id"]):
                columns = [bytes_field(2, column(name, text, mysql_type, sql_type)) for name in names]
                value = packets.rows_value("INSERT", [b"".join(columns)])
                entry = packets.entry(packets.ROWS, header(4, "INSERT"), value)
                yield ConsumerRecord("canal", 0, 5, 0, None, packets.packet(0, [entry]))


DEFINITION = bootstrap(table(simple_column("a", "varchar"), simple_column("n")))


def simple_rows() -> Iterator[ConsumerRecord]:
    texts = {"id": "1", "a": "x", "n": "5"}
    for cells in (texts, texts | {"n": "no number"}, {"a": "x"}, texts | {"id": ["1"]}, texts | {"a": None}):
        for old in (None, texts, {"n": "4"}, {"gone": "1"}):
            yield from simple_records(row(cells, old))
            yield from simple_records(row(cells, old, version=5))
    yield from simple_records(row(None, texts), row(None, {"n": "x"}))


def simple_avro_rows() -> Iterator[ConsumerRecord]:
    """The rows that Simple's JSON can be translated to, as they are and cut."""
    translator = reading(SIMPLE, SIMPLE_AVRO)
    for given in simple_rows():
        try:
            (out,) = translator.translate(given)
        except RelayError:
            continue
        for value in (out.value or b"", (out.value or b"")[:-1]):
            yield ConsumerRecord("topic", 0, 5, 0, out.key, value)


def definition_of(protocol: str) -> list[ConsumerRecord]:
    """What a translator has to read before the rows: Simple's rows have no types."""
    if protocol == SIMPLE:
        return simple_records(DEFINITION)
    if protocol == SIMPLE_AVRO:
        (out,) = Translator(SIMPLE, SIMPLE_AVRO).translate(simple_records(DEFINITION)[0])
        return [ConsumerRecord("topic", 0, 0, 0, out.key, out.value)]
    return []


def reading(source: str, target: str) -> Translator:
    """A translator that can read the rows of a protocol."""
    translator = Translator(source, target)
    for definition in definition_of(source):
        translator.translate(definition)
    return translator


#: How often a row is read again.
TIMES = 40 if ALL_ROUTES else 8
ROWS = {
    SIMPLE: list(simple_rows()),
    SIMPLE_AVRO: list(simple_avro_rows()),
    "maxwell-json": list(maxwell_rows()),
    "ogg-json": list(ogg_rows()),
    "canal-protobuf": list(packet_rows()),
    NATIVE: list(native_rows()),
    DEBEZIUM: list(debezium_rows()),
    TICDC: list(canal_rows()),
    CANAL: list(canal_rows()),
    OPEN: list(open_rows()),
    CKAFKA: list(ckafka_rows()),
}


def outcome(translator: Translator, one: ConsumerRecord) -> Any:
    counted = translator.losses
    try:
        out: Any = [(each.key, each.value) for each in translator.translate(one)]
    except RelayError as error:
        out = str(error)
    return out, translator.losses - counted


@pytest.mark.parametrize("target", [DEBEZIUM, CANAL, OPEN])
@pytest.mark.parametrize("source", ROWS)
@pytest.mark.parametrize("is_taken_back", [False, True])
def test_rows_are_read_alike_whatever_came_before(source: str, target: str, is_taken_back: bool) -> None:
    rows = ROWS[source]
    alone = [outcome(reading(source, target), one) for one in rows]
    for order in (1, -1):
        used = reading(source, target)
        state = used.state
        for one, expected in list(zip(rows, alone, strict=True))[::order]:
            assert outcome(used, one) == expected
            if is_taken_back:
                used.restore(state)
    used = reading(source, target)
    for one, expected in zip(rows, alone, strict=True):
        outcome(used, rows[-1])
        assert outcome(used, one) == expected


@pytest.mark.parametrize("target", [DEBEZIUM, CANAL, OPEN, "flat-json"])
@pytest.mark.parametrize("source", ROWS)
def test_a_row_is_read_alike_however_often(source: str, target: str) -> None:
    """Also when functions are compiled for it, which these tests have at once; `make routes` has it as often as
    usual.
    """
    for one in ROWS[source]:
        used = reading(source, target)
        expected = outcome(used, one)
        for _ in range(TIMES):
            assert outcome(used, one) == expected


def test_every_protocol_is_here() -> None:
    # Rows of Avro are those of JSON inside.
    readable = {name for name, codec in PROTOCOLS.items() if codec.is_readable and not codec.uses_registry}
    assert set(ROWS) >= readable - {"toy-lines"}


def test_a_null_key_takes_no_key_from_later_rows() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    good = message(after=ROW) | {"schema": block(*FIELDS)}
    for key in (None, {"payload": {"id": 1}}, 5, {"payload": {"id": 1}}):
        (out,) = translator.translate(debezium_record(good, key))
        written = json.loads(out.key or b"")["payload"]
        assert written == (key["payload"] if isinstance(key, dict) else {})
