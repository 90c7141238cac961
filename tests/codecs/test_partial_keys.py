"""Rows that lack part of their table's primary key: they have no key, rather than one made of the rest."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from engine_support import ENGINE
from support import CANAL, OPEN, TICDC, record

from relay import ConsumerRecord, Loss, Resolver, RowChange, Translator
from relay.core.verification import ShadowTranslator
from relay.routing.partitioning import key_hash

DDL = "CREATE TABLE orders (store int NOT NULL, no int NOT NULL, name varchar(50), PRIMARY KEY (store, no))"


def message(name: str, **more: Any) -> dict[str, Any]:
    return {
        "data": [{"store": "1", "name": name}], "database": "shop", "es": 1639020016000, "gtid": "", "id": 7,
        "isDdl": False, "mysqlType": {"store": "int(11)", "name": "varchar(50)"}, "old": None,
        "pkNames": ["store", "no"], "sql": "", "sqlType": {"store": 4, "name": 12}, "table": "orders",
        "ts": 1639020017052, "type": "INSERT", **more,
    }  # fmt: skip


def statement() -> dict[str, Any]:
    none = dict.fromkeys(("data", "mysqlType", "pkNames", "sqlType"))
    return message("", isDdl=True, sql=DDL, type="CREATE", **none)


def rows() -> list[ConsumerRecord]:
    """More than enough for a template."""
    compact = functools.partial(json.dumps, separators=(",", ":"))
    return [record(compact(message(f"row {at}")), offset=at + 1) for at in range(400)]


WITHOUT_KEYS = [
    ("ticdc-debezium", {}), ("ticdc-debezium", {"debezium-disable-schema": "true"}), ("ticdc-debezium-avro", {}),
    ("debezium-json", {}), ("debezium-avro", {}), ("maxwell-json", {}), ("maxwell-json", {"kafka_key_format": "array"}),
    ("flat-json", {}), ("ticdc-avro", {"enable-tidb-extension": "true"}), (TICDC, {"key": "primary-key"}),
    (CANAL, {"key": "primary-key"}), ("ckafka-json", {"key": "primary-key"}),
    ("canal-protobuf", {"key": "primary-key"}),
]  # fmt: skip


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("target", "options"), WITHOUT_KEYS)
def test_rows_without_part_of_their_key_have_no_kafka_key(
    target: str, options: dict[str, str], is_known: bool
) -> None:
    translator = ShadowTranslator(CANAL, target, None, options, engine=ENGINE)
    if is_known:
        translator.learn(record(statement()))
    for given in rows():
        produced = Resolver().translate(translator, given)
        assert {out.key for out in produced} == {None}
    assert translator.losses[Loss.COLUMNS_ABSENT] == len(rows())


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("target", [TICDC, CANAL])
def test_messages_name_the_key_as_declared(target: str, is_known: bool) -> None:
    translator = Translator(CANAL, target)
    if is_known:
        translator.learn(record(statement()))
    for given in rows():
        (out,) = translator.translate(given)
        assert json.loads(out.value or b"")["pkNames"] == ["store", "no"]


READERS = [TICDC, CANAL, OPEN, "canal-protobuf", "ckafka-json", "debezium-json", "maxwell-json",
           "ticdc-debezium", "ticdc-simple-json"]  # fmt: skip


@pytest.mark.parametrize("target", READERS)
def test_readers_of_the_target_take_nothing_else_for_the_key(target: str) -> None:
    translator, reader = Translator(CANAL, target), Translator(target, target)
    keys = []
    for given in rows():
        for at, out in enumerate(translator.translate(given)):
            found = reader.inspect(ConsumerRecord("t", 0, given.offset * 9 + at, 0, out.key, out.value))
            keys += [event.schema.handle_key() for event in found if isinstance(event, RowChange)]
    assert len(keys) == len(rows())
    assert set(keys) <= {(), ("store", "no")}


def test_a_row_keeps_its_partition_when_the_definition_becomes_known() -> None:
    translator = Translator(CANAL, CANAL)
    (before,) = translator.inspect(rows()[0])
    translator.learn(record(statement()))
    (after,) = translator.inspect(rows()[0])
    assert isinstance(before, RowChange)
    assert isinstance(after, RowChange)
    assert key_hash(before) == key_hash(after)


def test_maxwell_names_the_whole_key_and_no_value_for_what_is_missing() -> None:
    options = {"output_primary_keys": "true", "output_primary_key_columns": "true"}
    (out,) = Translator(CANAL, "maxwell-json", None, options).translate(rows()[0])
    document = json.loads(out.value or b"")
    assert document["primary_key_columns"] == ["store", "no"]
    assert "primary_key" not in document


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("names", [["STORE", "No"], ["store", "no", "store"], ["Store", "store", "NO"]])
@pytest.mark.parametrize(
    ("target", "options", "key"),
    [
        ("maxwell-json", {}, b'{"database":"shop","table":"orders","pk.store":1,"pk.no":2}'),
        (CANAL, {"key": "primary-key"}, b'{"store":1,"no":2}'),
        ("flat-json", {}, b'{"store":1,"no":2}'),
    ],
)
def test_pk_names_are_columns_in_any_letter_case_each_once(
    target: str, options: dict[str, str], key: bytes, names: list[str], is_known: bool
) -> None:
    translator = Translator(CANAL, target, None, options)
    if is_known:
        translator.learn(record(statement()))
    row = message("a", pkNames=names, data=[{"store": "1", "no": "2", "name": "a"}])
    row["mysqlType"]["no"], row["sqlType"]["no"] = "int(11)", 4
    (out,) = translator.translate(record(row, offset=1))
    assert out.key == key
    assert translator.losses[Loss.SCHEMA_INFERRED] == (0 if is_known else 1)
