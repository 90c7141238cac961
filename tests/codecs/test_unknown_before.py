"""An UPDATE whose old row nobody knows must not read as one that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from toy_protocol.registry import FETCHES

from relay import ConsumerRecord, EncodeError, Loss, Op, Resolver, RowChange, Source, Translator
from relay.codecs import BUILT_IN
from relay.model.lookups import RegisteredSchema, SchemaId
from relay.testing.strategies import creation

UPDATE: dict[str, Any] = {
    "data": [{"id": "1", "a": "x"}, {"id": "2", "a": "y"}],
    "database": "d",
    "es": 1_795_254_680_000,
    "id": 1,
    "isDdl": False,
    "mysqlType": {"id": "int", "a": "varchar(9)"},
    "old": [{"a": "w"}],  # Canal up to 1.1.6 leaves empty entries out
    "pkNames": ["id"],
    "sql": "",
    "table": "t",
    "ts": 1_795_254_680_000,
    "type": "UPDATE",
}
#: What each target writes if nothing else is wanted.
DEFAULTS = {
    "canal-json": Op.INSERT,
    "ticdc-canal-json": Op.INSERT,
    "ticdc-open-protocol": Op.INSERT,
    "ckafka-json": Op.UPDATE,
    "ticdc-debezium": Op.UPDATE,
    "debezium-json": Op.INSERT,
    "ticdc-simple-json": Op.INSERT,
    "ticdc-simple-avro": Op.INSERT,
    "debezium-avro": Op.INSERT,
    "ticdc-debezium-avro": Op.UPDATE,
    "canal-protobuf": Op.INSERT,
    "maxwell-json": Op.UPDATE,
}


def record(document: Mapping[str, Any]) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, 7, 1_795_254_680_000, None, json.dumps(document).encode())


def written(target: str, options: Mapping[str, str]) -> tuple[list[RowChange], Translator]:
    translator = Translator("canal-json", target, target_options=options)
    reader = Translator(target, target)
    resolver = Resolver()
    out = resolver.translate(translator, record(UPDATE))
    read = [
        resolver.inspect(reader, ConsumerRecord("out", 0, at, one.timestamp_ms, one.key, one.value))
        for at, one in enumerate(out)
    ]
    return [event for events in read for event in events if isinstance(event, RowChange)], translator


def test_every_target_with_old_rows_has_the_option() -> None:
    options = {name: codec.options.__struct_fields__ for name, codec in BUILT_IN.items()}
    assert DEFAULTS.keys() == {name for name, fields in options.items() if "missing_before" in fields}
    # They have no old rows, and do not miss them; ogg-json is only read.
    assert options.keys() - DEFAULTS.keys() == {"flat-json", "ticdc-avro", "ogg-json"}


@pytest.mark.parametrize("target", DEFAULTS)
def test_the_default_is_never_read_as_an_update_that_changes_nothing(target: str) -> None:
    changes, translator = written(target, {})
    assert [(change.op, change.before) for change in changes] == [(DEFAULTS[target], None)] * 2
    assert [change.after[1] for change in changes if change.after] == ["x", "y"]
    assert translator.losses[Loss.BEFORE_MISSING] == 2


@pytest.mark.parametrize("target", DEFAULTS)
def test_of_two_rows_each_is_written_and_counted_for_itself(target: str) -> None:
    for old in ([{"a": "w"}, None], [None, {"a": "w"}]):
        translator, reader = Translator("canal-json", target), Translator(target, target)
        resolver = Resolver()
        out = resolver.translate(translator, record(UPDATE | {"old": old}))
        read = [
            resolver.inspect(reader, ConsumerRecord("out", 0, at, one.timestamp_ms, one.key, one.value))
            for at, one in enumerate(out)
        ]
        changes = [event for events in read for event in events if isinstance(event, RowChange)]
        expected = [(DEFAULTS[target], False) if one is None else (Op.UPDATE, True) for one in old]
        assert [(change.op, change.before is not None) for change in changes] == expected
        assert translator.losses[Loss.BEFORE_MISSING] == 1


@pytest.mark.parametrize("target", DEFAULTS)
def test_two_rows_of_one_record_are_two_losses_from_other_sources_too(target: str) -> None:
    made = creation("CREATE TABLE t (id INT PRIMARY KEY)", Source("x", 0), 0).after
    schema = RegisteredSchema(msgspec.json.encode(made).decode(), "TOY")
    line = {"type": "row", "schema": FETCHES[SchemaId](SchemaId("", "t", schema)), "op": "update"}
    line |= {"after": {"id": 1}, "at": {"time_ms": 1, "emitted_ms": 2}}
    value = b"\n".join([msgspec.json.encode(line)] * 2)
    translator = Translator("toy-lines", target)
    Resolver().translate(translator, ConsumerRecord("topic", 0, 0, 3, None, value))
    assert translator.losses[Loss.BEFORE_MISSING] == 2


@pytest.mark.parametrize("target", DEFAULTS)
def test_it_can_be_an_insert(target: str) -> None:
    changes, translator = written(target, {"missing-before": "insert"})
    assert [change.op for change in changes] == [Op.INSERT] * 2
    assert translator.losses[Loss.BEFORE_MISSING] == 2


@pytest.mark.parametrize("target", DEFAULTS)
def test_it_can_be_refused(target: str) -> None:
    with pytest.raises(EncodeError, match="missing-before=insert"):
        written(target, {"missing-before": "refuse"})


@pytest.mark.parametrize("target", ["ticdc-open-protocol", "ticdc-debezium"])
def test_a_target_without_old_rows_does_not_miss_them(target: str) -> None:
    changes, _ = written(target, {"missing-before": "refuse", "output-old-value": "false"})
    assert [change.before for change in changes] == [None, None]


@pytest.mark.parametrize("target", ["canal-json", "ticdc-canal-json"])
def test_an_update_that_changes_nothing_stays_one(target: str) -> None:
    translator = Translator("canal-json", target)
    same = UPDATE | {"data": UPDATE["data"][:1], "old": [{}]}
    (out,) = translator.translate(record(same))
    assert json.loads(out.value or b"")["type"] == "UPDATE"
    assert translator.losses[Loss.BEFORE_MISSING] == 0


def test_a_row_that_is_reduced_to_its_key_is_an_insert_too() -> None:
    options = {
        "enable-tidb-extension": "true",
        "large-message-handle-option": "handle-key-only",
        "max-message-bytes": "900",
    }
    long = UPDATE | {"data": [{"id": "1", "a": "x" * 2000}], "old": None}
    (out,) = Translator("canal-json", "ticdc-canal-json", target_options=options).translate(record(long))
    message = json.loads(out.value or b"")
    assert (message["type"], message["old"], message["data"]) == ("INSERT", None, [{"id": "1"}])
