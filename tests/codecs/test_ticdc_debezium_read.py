"""TiCDC Debezium JSON, read: kinds of messages, and where the definition of a row comes from."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import cramjam
import msgspec
import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, SOURCE, block, ddl, decoded, message, record, row
from support import captured, named_refusal

from relay import (
    ABSENT,
    ConsumerRecord,
    DecodeError,
    Loss,
    Malformed,
    NotRepresentable,
    Op,
    SchemaChange,
    Translator,
    UnsupportedMessage,
    Watermark,
)
from relay.codecs.debezium.ticdc import columns as ticdc_columns
from relay.model.events import Source, TableId


def test_an_insert_in_full() -> None:
    (event,), _ = decoded(record(message(after={"id": 7}), {"payload": {"id": 7}}))
    change = row(event)
    assert change.op is Op.INSERT
    assert change.table == TableId("shop", "t")
    assert change.source == Source("ticdc", 1768443630000 * 10**6, 463586886942720001, None, "default")
    assert change.emitted_at_ns == 1768443630450 * 10**6
    assert (change.before, change.after) == (None, (7,))
    assert change.schema.primary_key == ("id",)


@pytest.mark.parametrize("value", [b"", None, {"payload": None, "schema": None}])
def test_tombstones_are_counted(value: Any) -> None:
    events, translator = decoded(record(value, {"payload": {"id": 7}}))
    assert not events
    assert translator.losses == {Loss.TOMBSTONE: 1}


def test_a_payload_without_its_wrapper() -> None:
    (event,), _ = decoded(record(message(after={"id": 7})["payload"]))
    assert row(event).after == (7,)


def test_a_read_is_a_row_of_a_snapshot() -> None:
    (event,), translator = decoded(record(message("r", after={"id": 7})))
    assert row(event).op is Op.READ
    out = translator.translate(record(message("r", after={"id": 7})))
    assert json.loads(out[0].value or b"")["payload"]["op"] == "c"
    assert translator.losses[Loss.SNAPSHOT] == 1


@pytest.mark.parametrize(
    ("value", "error", "path"),
    [
        (message("t"), UnsupportedMessage, "payload.op"),
        (message("x"), UnsupportedMessage, "payload.op"),
        (message(None), UnsupportedMessage, "payload.op"),
        (message("c"), Malformed, "payload.after"),
        (message("d", after={"id": 1}), Malformed, "payload.before"),
        (message("c", after=[1]), Malformed, "payload.after"),
        (message("c", after={}), Malformed, "payload.after"),
        (message("c", after={"id": [1]}), Malformed, "payload.id"),
        (message("m", source=SOURCE | {"commit_ts": None}), Malformed, "payload.source.commit_ts"),
        (
            message("c", after={"id": 1}, source=SOURCE | {"commit_ts": -1}),
            Malformed,
            "payload.source.commit_ts",
        ),
        (
            message("c", after={"id": 1}, source=SOURCE | {"start_ts": 1 << 64}),
            Malformed,
            "payload.source.start_ts",
        ),
        (
            message("c", after={"id": 1}, source=SOURCE | {"ts_ms": 1 << 60}),
            Malformed,
            "payload.source.ts_ms",
        ),
        (
            message("c", after={"id": 1}, source=SOURCE | {"connector": "mysql"}),
            UnsupportedMessage,
            "payload.source.connector",
        ),
        (message("c", after={"id": 1}, source=None), UnsupportedMessage, "payload.source.connector"),
        ({"id": 1}, UnsupportedMessage, "payload.source.connector"),
        (b"[]", Malformed, ""),
        (b"{", Malformed, ""),
        (b"\x00\x01", Malformed, ""),
    ],
)
def test_what_is_no_message_is_refused(value: Any, error: type[DecodeError], path: str) -> None:
    with pytest.raises(error) as caught:
        decoded(record(value))
    assert caught.value.path == path


def test_native_debezium_is_named() -> None:
    native = record(message(after={"id": 1}, source={"connector": "mysql", "table": "t"}))
    refusal = named_refusal(DEBEZIUM, native)
    assert re.search(r"looks like Debezium .*: is the source protocol debezium-json", refusal)


def test_an_update_without_before() -> None:
    (event,), translator = decoded(record(message("u", after={"id": 1})))
    assert row(event).before is None
    assert translator.losses[Loss.BEFORE_MISSING] == 1


def test_a_watermark() -> None:
    (event,), _ = decoded(record(message("m")))
    assert isinstance(event, Watermark)
    assert event.source.commit_ts == 463586886942720001


def test_text_that_is_no_utf8_is_replaced_and_counted() -> None:
    value = json.dumps(message(after={"v": "a?b"})).encode().replace(b"a?b", b"a\xffb")
    (event,), translator = decoded(record(value))
    assert row(event).after == ("a\ufffdb",)
    assert translator.losses[Loss.INVALID_TEXT] == 1


def test_raw_control_characters_in_text() -> None:
    value = json.dumps(message(after={"v": "a?b"})).encode().replace(b"a?b", b"a\nb")
    (event,), _ = decoded(record(value))
    assert row(event).after == ("a\nb",)


@pytest.mark.parametrize("compression", ["lz4", "snappy"])
def test_compressed_keys_and_values(compression: str) -> None:
    """The whole key and the whole value, without a mark in the message."""
    plain = captured("ticdc/debezium.no-schema/09_dml")
    packing = Translator(
        DEBEZIUM, DEBEZIUM, None, NO_SCHEMA | {"large-message-handle-compression": compression}
    )
    packed = [out for one in plain for out in packing.translate(one)]
    unpack = cramjam.lz4.decompress if compression == "lz4" else cramjam.snappy.decompress_raw
    assert [(bytes(unpack(out.key or b"")), bytes(unpack(out.value or b""))) for out in packed] == [
        (one.key, one.value) for one in plain
    ]
    for setting in ("auto", compression):
        reading = Translator(DEBEZIUM, DEBEZIUM, {"large-message-handle-compression": setting}, NO_SCHEMA)
        back = [
            again
            for at, out in enumerate(packed)
            for again in reading.translate(
                ConsumerRecord("topic", 0, at, out.timestamp_ms, out.key, out.value)
            )
        ]
        assert [(out.key, out.value) for out in back] == [(one.key, one.value) for one in plain]


# ---------------------------------------------------------------- definitions

CREATE = ddl(
    "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY,`v` VARCHAR(9) NULL DEFAULT _UTF8MB4'd',`n` DECIMAL(9,2),"
    "`g` INT GENERATED ALWAYS AS(`id`+1) VIRTUAL)"
)
WHOLE = {"id": 1, "v": "x", "n": 1.5}


def test_rows_are_read_with_the_catalog() -> None:
    (_, event), translator = decoded(record(CREATE), record(message(after=WHOLE), offset=1))
    assert row(event).schema.complete
    assert str(row(event).after) == "(1, 'x', Decimal('1.50'), ABSENT)"
    assert not translator.losses


def test_columns_that_a_message_leaves_out_are_absent() -> None:
    events, translator = decoded(
        record(CREATE),
        record(message(after={"v": "x", "id": 1}), offset=1),
        record(message("u", before={"id": 1}, after={"id": 1, "v": "y"}), offset=2),
        record(message("u", before={"id": 1}, after={"id": 1, "v": "y"}), offset=3),
    )
    assert row(events[1]).after == (1, "x", ABSENT, ABSENT)
    for event in events[2:]:
        assert (row(event).before, row(event).after) == (
            (1, ABSENT, ABSENT, ABSENT),
            (1, "y", ABSENT, ABSENT),
        )
    assert translator.losses == {Loss.COLUMNS_ABSENT: 3}


@pytest.mark.parametrize(
    "after", [WHOLE | {"new": 1}, WHOLE | {"n": "text"}, WHOLE | {"id": True}, WHOLE | {"g": 2}]
)
def test_a_message_that_contradicts_the_catalog_is_believed(after: dict[str, Any]) -> None:
    (_, event, again), translator = decoded(
        record(CREATE),
        record(message(after=after), {"payload": {"id": 1}}, 1),
        record(message(after=after), {"payload": {"id": 1}}, 2),
    )
    assert not row(event).schema.complete
    assert row(event).schema == row(again).schema
    values = dict(
        zip((column.name for column in row(event).schema.columns), row(event).after or (), strict=True)
    )
    assert values.keys() == after.keys()
    assert values["v"] == "x"
    assert row(event).schema.primary_key == ("id",)
    assert translator.losses[Loss.SCHEMA_INFERRED] == 2


SAID = [
    ({"type": "int16", "tidb_type": "tinyint"}, 5, "tinyint", 5),
    ({"type": "int64", "tidb_type": "bigint unsigned"}, -1, "bigint", 2**64 - 1),
    ({"type": "int64"}, -1, "bigint", -1),
    ({"type": "double", "tidb_type": "decimal"}, 1.5, "decimal", msgspec.UNSET),
    ({"type": "double"}, 1, "double", 1.0),
    ({"type": "double", "tidb_type": "float"}, 5.61, "float", 5.61),
    ({"type": "string", "tidb_type": "varbinary"}, "AP8Q", "varbinary", b"\x00\xff\x10"),
    ({"type": "string"}, "AP8Q", "varchar", "AP8Q"),
    ({"type": "string", "tidb_type": "nonsense"}, "x", "nonsense", "x"),
    ({"type": "int32", "tidb_type": "nonsense"}, 1, "int", 1),
    ({"type": "string", "tidb_type": "bigint('a"}, "x", "varchar", "x"),
    ({"type": "boolean", "tidb_type": "bit"}, True, "bit", 1),
    ({"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "10"}}, "AQI=", "bit", 513),
    (
        {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "a\\,b,c"}},
        "a,b",
        "enum",
        1,
    ),
    ({"type": "string", "name": "io.debezium.data.Enum"}, "a", "enum", "a"),
    (
        {"type": "string", "name": "io.debezium.data.EnumSet", "parameters": {"allowed": "a,b,c"}},
        "a,c",
        "set",
        5,
    ),
    ({"type": "int32", "name": "io.debezium.time.Date"}, 20468, "date", "2026-01-15"),
    (
        {"type": "int64", "name": "io.debezium.time.Timestamp"},
        1768472430000,
        "datetime",
        "2026-01-15 10:20:30",
    ),
    (
        {"type": "int64", "name": "io.debezium.time.Timestamp"},
        1768472430120,
        "datetime",
        "2026-01-15 10:20:30.120",
    ),
    (
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        1768472430120001,
        "datetime",
        "2026-01-15 10:20:30.120001",
    ),
    (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "2026-01-15T02:20:30.10Z",
        "timestamp",
        "2026-01-15 02:20:30.10",
    ),
    ({"type": "int64", "name": "io.debezium.time.MicroTime"}, 30600500000, "time", "08:30:00.500"),
    ({"type": "int32", "name": "io.debezium.time.Year"}, 2026, "year", 2026),
    ({"type": "string", "name": "io.debezium.data.Json"}, "null", "json", "null"),
    ({"type": "string", "name": "io.debezium.data.TiDBVectorFloat32"}, "[1,2.5,3]", "vector", "[1,2.5,3]"),
    ({"type": "int32"}, "text after all", "varchar", "text after all"),
    ({"type": "unheard-of"}, "x", "varchar", "x"),
    (None, 5, "bigint", 5),
    (None, 5.5, "double", 5.5),
    (None, True, "bit", 1),
    (None, "x", "varchar", "x"),
    (None, None, "varchar", None),
]


@pytest.mark.parametrize(("said", "value", "base", "canonical"), SAID)
def test_without_a_catalog_the_message_tells_the_types(
    said: dict[str, Any] | None, value: Any, base: str, canonical: Any
) -> None:
    columns = [] if said is None else [{"optional": True, **said, "field": "c"}]
    (event,), translator = decoded(record(message(after={"c": value}) | {"schema": block(*columns)}))
    change = row(event)
    assert [column.type.base for column in change.schema.columns] == [base]
    assert canonical is msgspec.UNSET or change.after == (canonical,)
    by_value = {Loss.VALUE_INFERRED: 1} if said is None or value == "text after all" else {}
    assert translator.losses == {Loss.SCHEMA_INFERRED: 1} | by_value
    out = translator.translate(record(message(after={"c": value}) | {"schema": block(*columns)}))
    assert json.loads(out[0].value or b"")["payload"]["after"] == {"c": value}


def test_a_block_says_more_than_the_catalog_but_not_against_it() -> None:
    said = [
        {"type": "int32", "field": "id"},
        {"type": "string", "field": "v"},
        {"type": "double", "field": "n"},
    ]
    (_, event), _ = decoded(record(CREATE), record(message(after=WHOLE) | {"schema": block(*said)}, offset=1))
    assert row(event).schema.complete
    said[1] |= {"tidb_type": "varbinary"}
    (_, event), _ = decoded(
        record(CREATE), record(message(after=WHOLE | {"v": "AP8Q"}) | {"schema": block(*said)}, offset=1)
    )
    assert row(event).after is not None
    assert (row(event).after or ())[1] == b"\x00\xff\x10"


def test_a_doubled_virtual_column_of_a_block_does_not_matter() -> None:
    virtual = {"type": "int32", "optional": True, "field": "g"}
    (event,), _ = decoded(
        record(
            message(after={"id": 1}) | {"schema": block({"type": "int32", "field": "id"}, virtual, virtual)}
        )
    )
    assert [column.name for column in row(event).schema.columns] == ["id"]


@pytest.mark.parametrize(
    "schema", [None, 5, [], {"fields": 5}, {"fields": [{"field": "after", "fields": [{"type": 1}]}]}]
)
def test_a_block_that_makes_no_sense_is_no_evidence(schema: Any) -> None:
    (event,), _ = decoded(record(message(after={"id": 1}) | {"schema": schema}))
    assert row(event).after == (1,)


def test_names_that_no_compiled_struct_can_have() -> None:
    create = ddl(
        'CREATE TABLE `t` (`q"uote` INT NOT NULL PRIMARY KEY,`back\\slash` DECIMAL(9,2),`\t` BIT(1))'
    )
    after = {'q"uote': 1, "back\\slash": 1.5, "\t": True}
    events, translator = decoded(record(create), *(record(message(after=after), offset=at) for at in (1, 2)))
    assert all(row(event).schema.complete for event in events[1:])
    assert [str(row(event).after) for event in events[1:]] == ["(1, Decimal('1.50'), 1)"] * 2
    (out,) = translator.translate(record(message(after=after), offset=3))
    assert json.loads(out.value or b"")["payload"]["after"] == after


def test_negative_zero_keeps_its_sign() -> None:
    create = ddl("CREATE TABLE `t` (`a` DOUBLE, `b` INT)")
    value = json.dumps(message(after={"a": 5, "b": 0})).encode().replace(b'"a": 5', b'"a": -0')
    (_, event), translator = decoded(record(create), record(value, offset=1))
    assert str(row(event).after) == "(-0.0, 0)"
    assert b'"after":{"a":-0,"b":0}' in (translator.translate(record(value, offset=2))[0].value or b"")


@pytest.mark.parametrize("text", ['{"x":-0}', '{"x": -0,"y":1}', '\\":-0 ', '"', '[{"x":-0}]'])
@pytest.mark.parametrize("create", [True, False])
def test_text_that_looks_like_a_negative_zero_stays(create: bool, text: str) -> None:
    statement = record(ddl("CREATE TABLE `t` (`t` VARCHAR(99), `d` DOUBLE, `j` JSON)"))
    value = json.dumps(message(after={"t": text, "d": 5, "j": text})).encode().replace(b'"d": 5', b'"d": -0')
    events, _ = decoded(*([statement] if create else []), record(value, offset=1), record(value, offset=2))
    for event in events[-2:]:
        assert repr(row(event).after) == repr((text, -0.0, text))


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ({"a": 5, "b": 1, "c": 1}, {Loss.NULL_OR_DEFAULT: 1}),
        ({"a": 6, "b": 0, "c": 0}, {Loss.EPOCH_OR_ZERO_DATE: 2}),
        ({"a": None, "b": 1, "c": 1}, {}),
    ],
)
def test_values_that_may_mean_another_one_are_noted_and_pass_a_strict_route(
    after: dict[str, Any], what: dict[Loss, int]
) -> None:
    create = ddl("CREATE TABLE `t` (`a` INT NULL DEFAULT 5, `b` DATE NOT NULL, `c` DATETIME NOT NULL)")
    translator = Translator(
        DEBEZIUM, "ticdc-canal-json", None, {"strict": "true", "enable-tidb-extension": "true"}
    )
    translator.translate(record(create))
    assert len(translator.translate(record(message(after=after), offset=1))) == 1
    assert translator.losses == what


def test_a_type_that_only_the_value_tells_is_a_loss() -> None:
    """`1768472430000` may be a DATETIME; nothing says so."""
    value = message("u", before={"a": 1, "b": 1}, after={"a": 1768472430000, "b": 2})
    said = block({"type": "int32", "field": "b"})
    events, translator = decoded(*(record(value | {"schema": said}, offset=at) for at in (1, 2)))
    assert [column.type.base for column in row(events[0]).schema.columns] == ["bigint", "int"]
    assert translator.losses == {Loss.SCHEMA_INFERRED: 2, Loss.VALUE_INFERRED: 2}
    strict = Translator(
        DEBEZIUM, "ticdc-canal-json", None, {"strict": "true", "enable-tidb-extension": "true"}
    )
    with pytest.raises(NotRepresentable, match="value-inferred"):
        strict.translate(record(value))


@pytest.mark.parametrize(
    ("after", "is_the_old_one"),
    [
        (WHOLE, True),
        ({"id": 1, "v": "x"}, False),
        (WHOLE | {"new": 1}, False),
        (WHOLE | {"n": "text"}, False),
    ],
)
def test_rows_of_a_dropped_table_that_has_come_back(after: dict[str, Any], is_the_old_one: bool) -> None:
    """TiCDC has no message for RECOVER TABLE."""
    drop = ddl("DROP TABLE `t`", commit_ts=2)
    rows = [record(message(after=after), {"payload": {"id": 1}}, at) for at in (2, 3)]
    events, translator = decoded(record(CREATE), record(drop, offset=1), *rows)
    for event in events[2:]:
        change = row(event)
        assert not change.schema.complete
        bases = {column.name: column.type.base for column in change.schema.columns}
        assert bases["id"] == ("int" if is_the_old_one else "bigint")
        assert ("decimal" in bases.values()) is is_the_old_one
    inferred = {} if is_the_old_one else {Loss.VALUE_INFERRED: 2}
    assert translator.losses == {Loss.SCHEMA_INFERRED: 2} | inferred


def test_the_present_moment_as_0_is_null() -> None:
    create = ddl(
        "CREATE TABLE `t` (`a` DATETIME NULL DEFAULT CURRENT_TIMESTAMP, `b` DATETIME NULL DEFAULT '1970-01-01 00:00:00')"
    )
    zeros, moments = {"a": 0, "b": 0}, {"a": 1000, "b": 1000}
    changes = [
        message("c", after=zeros),
        message("u", before=zeros, after=moments),
        message("d", before=zeros),
    ]
    events, translator = decoded(
        record(create), *(record(one, offset=at) for at, one in enumerate([*changes, *changes], 1))
    )
    epoch, later = "1970-01-01 00:00:00", "1970-01-01 00:00:01"
    expected = [(None, (None, epoch)), ((None, epoch), (later, later)), ((None, epoch), None)]
    assert [(row(event).before, row(event).after) for event in events[1:]] == expected * 2
    assert translator.losses == {Loss.NULL_OR_DEFAULT: 12}
    out = Translator(DEBEZIUM, "ticdc-canal-json")
    out.translate(record(create))
    (made,) = out.translate(record(changes[0], offset=1))
    assert json.loads(made.value or b"")["data"] == [{"a": None, "b": epoch}]
    (again,) = translator.translate(record(changes[0], offset=8))
    assert json.loads(again.value or b"")["payload"]["after"] == zeros


def test_digits_are_the_number_of_an_unknown_label() -> None:
    """So relay writes them where the members are unknown."""
    create = ddl("CREATE TABLE `t` (`e` ENUM('a','b'), `s` SET('a','b','c'), `d` ENUM('2','1'))")
    (_, event), _ = decoded(record(create), record(message(after={"e": "2", "s": "5", "d": "2"}), offset=1))
    assert row(event).after == (2, 5, 1)


def test_a_malformed_value_is_named_and_not_shown() -> None:
    create = ddl("CREATE TABLE `t` (`id` INT PRIMARY KEY, `at` TIMESTAMP)")
    events, _ = decoded(record(create), record(message(after={"id": 1, "at": "secret"}), offset=1))
    with pytest.raises(Malformed) as caught:
        _ = row(events[1]).after
    assert caught.value.path == "payload.after.at"
    assert "secret" not in str(caught.value)


def test_ddl_of_every_partition_is_applied_once() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    add = ddl("ALTER TABLE `t` ADD COLUMN `c` INT", commit_ts=2)
    records = [
        record(CREATE),
        *(ConsumerRecord("topic", at, 1, 0, None, json.dumps(add).encode()) for at in range(3)),
    ]
    found = [event for one in records for event in translator.inspect(one)]
    assert len(found) == 4
    last = found[-1]
    assert isinstance(last, SchemaChange)
    assert last.after is not None
    assert [column.name for column in last.after.columns] == ["id", "v", "n", "g", "c"]


@pytest.mark.parametrize("key", [None, b"", b"\xff", b'{"payload":7}'])
def test_a_row_without_a_usable_key_takes_none_from_the_rows_behind_it(key: bytes | None) -> None:
    value = message(after={"id": 7}) | {"schema": block({"field": "id", "type": "int64"})}
    odd = msgspec.structs.replace(record(value), key=key)
    events, _ = decoded(odd, record(value, {"payload": {"id": 7}}), odd)
    assert [row(event).schema.primary_key for event in events] == [None, ("id",), None]


@pytest.mark.parametrize(("old", "new"), [(1.5, 0), (0, 1.5)])
def test_a_whole_number_beside_a_fraction_is_of_its_type(old: float, new: float) -> None:
    """Without schema and DDL: TiCDC writes a DECIMAL of 0.00 as 0."""
    events, _ = decoded(record(message("u", before={"d": old}, after={"d": new})))
    change = row(events[0])
    assert (change.before, change.after) == ((float(old),), (float(new),))


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("cell", ['"1.50"', "1.50", '"1e2"', "100", "1e2"])
def test_a_decimal_key_stays_in_its_partition_when_its_definition_is_learned(
    cell: str, is_warm: bool
) -> None:
    text = json.dumps(message(after={"k": "@", "c": 1})).replace('"@"', cell)
    key = f'{{"payload":{{"k":{cell}}}}}'.encode()
    row = ConsumerRecord("t", 0, 1, 0, key, text.encode())
    found = []
    for ddls in ([], [ddl("CREATE TABLE t (k decimal(10,2) PRIMARY KEY, c int)")]):
        translator = Translator("ticdc-debezium", "canal-json", partitions=9973)
        for each in ddls:
            translator.translate(record(each))
        for _ in range(20 if is_warm else 1):
            (out,) = translator.translate(row)
        found.append(out.partition)
    assert found[0] == found[1]
    assert json.loads(out.value or b"")["data"][0]["k"] == f"{Decimal(cell.strip(chr(34))):.2f}"


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("decimal(20,4)", "10000000000000000", "9999999999999999.9999"),
        ("decimal(20,4)", "-10000000000000000", "-9999999999999999.9999"),
        ("decimal(20,6) unsigned", "1e14", "99999999999999.999999"),
        ("decimal(30,30)", "1", "0." + "9" * 30),
        ("decimal(30,30)", "0", "0." + "0" * 30),
        ("decimal(65,30)", "1e35", "9" * 35 + "." + "9" * 30),
        # What the column could never have been near to stays: its definition is not the one of the row.
        ("decimal(20,4)", "20000000000000000", "20000000000000000.0000"),
        ("decimal(20,4)", "9999999999999998", "9999999999999998.0000"),
        ("decimal(10,2)", "100000000", "100000000.00"),
    ],
)
def test_a_decimal_that_was_rounded_beyond_its_column_is_the_greatest_one(
    kind: str, cell: str, value: str
) -> None:
    created = record(ddl(f"CREATE TABLE t (d {kind})"))
    text = json.dumps(message(after={"d": "@"})).replace('"@"', cell)
    events, _ = decoded(created, record(text.encode(), offset=1))
    (after,) = row(events[-1]).after or ()
    assert f"{after:f}" == value


def test_rows_without_schema_and_ddl_cost_no_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What writes a default was made anew for every column of every row."""
    translator = Translator(DEBEZIUM, DEBEZIUM)
    made: list[object] = []
    monkeypatch.setattr(ticdc_columns, "DebeziumValueWriter", made.append)
    each = {
        "after": {f"c{at}": at for at in range(20)},
        "before": None,
        "op": "c",
        "ts_ms": 1,
        "source": SOURCE,
    }
    for at in range(5):
        translator.inspect(ConsumerRecord("t", 0, at, 0, None, json.dumps({"payload": each}).encode()))
    assert made == []


@pytest.mark.parametrize(("digits", "lost"), [("123456", 0), ("123456000", 0), ("123456789", 1)])
def test_digits_of_a_second_that_mysql_does_not_have_are_counted(digits: str, lost: int) -> None:
    create = ddl("CREATE TABLE `t` (`id` INT PRIMARY KEY, `at` TIMESTAMP(6))")
    given = message(after={"id": 1, "at": f"2026-01-15T02:20:30.{digits}Z"})
    (_, event), translator = decoded(record(create), record(given, offset=1))
    assert row(event).after == (1, "2026-01-15 02:20:30.123456")
    assert translator.losses[Loss.TIME_RANGE] == lost
